"""Commands and programs end, although a resolver or a server does not answer."""

from __future__ import annotations

import signal
import socket
import threading

import pytest
from cli.hostile_servers import HostileServer, granting
from kit.cli import WITHIN, Command

from aiolead.cli import exits

# --- a resolver that never answers; the system's own gives up after half a minute ---------------

HUNG = """
import os, socket, sys, threading

def getaddrinfo(*_args, **_options):
    os.write(1, b"asked\\n")  # a daemon thread must hold no lock of stdout at the end
    threading.Event().wait()

socket.getaddrinfo = getaddrinfo
"""

COMMAND = f"""
{HUNG}
from aiolead.cli import main
sys.exit(main())
"""

PROGRAM = f"""
{HUNG}
import aiolead
from aiolead import blocking

async def main():
    async with aiolead.connect("zk.example", connect_timeout=timeout):
        pass

loop, timeout = sys.argv[1], float(sys.argv[2])
try:
    if loop == "asyncio":
        import asyncio
        asyncio.run(main())
    elif loop == "uvloop":
        import uvloop
        uvloop.run(main())
    elif loop == "trio":
        import trio
        trio.run(main)
    else:
        with blocking.connect("zk.example", connect_timeout=timeout):
            pass
except aiolead.errors.ConnectFailed:
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(4)
"""

HOSTS = "zk1.example,zk2.example"
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio", "blocking"])


@BACKENDS
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["get", "/a"], signal.SIGTERM),
        (["lock", "/a", "--", "true"], signal.SIGINT),
        (["run", "/a"], signal.SIGINT),
        (["ensemble"], signal.SIGTERM),
        (["doctor"], signal.SIGINT),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value.name,
)
def test_signal_ends_a_command(arguments: list[str], number: signal.Signals, backend: str) -> None:
    name, *rest = arguments
    with Command(name, "--backend", backend, *rest, hosts=HOSTS, code=COMMAND) as command:
        command.out.expect("asked")
        # A signal is the normal end of `run` without a command.
        assert command.finish(number) == (exits.OK if name == "run" else 128 + number)


@BACKENDS
def test_connect_timeout_ends_a_command(backend: str) -> None:
    arguments = ("get", "/a", "--connect-timeout", "0.3", "--backend", backend)
    with Command(*arguments, hosts=HOSTS, code=COMMAND) as command:
        assert command.finish() == exits.UNAVAILABLE
        assert any("not resolved" in line for line in command.err.rest())


@LOOPS
def test_connect_timeout_ends_a_program(loop: str) -> None:
    with Command(loop, "0.3", code=PROGRAM) as program:
        assert program.finish() == 3


@LOOPS
def test_ctrl_c_ends_a_program(loop: str) -> None:
    with Command(loop, "600", code=PROGRAM) as program:
        program.out.expect("asked")
        assert program.finish(signal.SIGINT) == 4


# --- a server that grants 24 days, and answers nothing -------------------------------------------
# While a client closes, its waits are shielded from cancellation.

ABSURD = 0x7FFF_FFFF
"""A session timeout in milliseconds."""

CONNECTED = """
import sys, anyio, aiolead

async def main():
    async with aiolead.connect(sys.argv[1], session_timeout=1) as client:
        print("connected", flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.exhaustive("an edge of the command")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [("get", "/a"), ("lock", "/a", "--", "true")])
def test_signal_ends_a_command_with_an_absurd_grant(
    arguments: tuple[str, ...], number: signal.Signals
) -> None:
    was_asked = threading.Event()
    name, *rest = arguments
    with (
        HostileServer(granting(ABSURD, was_asked)) as server,
        Command(name, "--session-timeout", "1", *rest, hosts=server.hosts) as command,
    ):
        assert was_asked.wait(WITHIN)
        assert command.finish(number) == 128 + number


@pytest.mark.exhaustive("an edge of the command")
@BACKENDS
def test_ctrl_c_ends_a_program_with_an_absurd_grant(backend: str) -> None:
    with (
        HostileServer(granting(ABSURD, threading.Event())) as server,
        Command(server.hosts, backend, code=CONNECTED) as program,
    ):
        program.out.expect("connected")
        program.finish(signal.SIGINT)
        assert "KeyboardInterrupt" in program.err.rest()


# --- no server ------------------------------------------------------------------------------------


@pytest.mark.exhaustive("an edge of the command")
@pytest.mark.parametrize("typed", ["ls", "get /a", "lock /l -- true", "top"])
def test_refusing_server_is_named_after_a_second(typed: str) -> None:
    name, *rest = typed.split()
    with Command(name, "--connect-timeout", "8.5", *rest, hosts="127.0.0.1:1") as command:
        said = command.err.expect("").string
        assert said.startswith("aiolead: no server reached yet, trying 127.0.0.1:1 for 8.5 s (")
        assert "127.0.0.1:1: " in said
        assert "refused" in said
        assert command.finish() == exits.UNAVAILABLE
        why = "no session with 127.0.0.1:1 within 8.5 seconds (127.0.0.1:1: Connection refused)"
        why += "; see: aiolead doctor"
        assert command.err.rest()[-1] == f"aiolead: {why}"


@pytest.mark.exhaustive("an edge of the command")
def test_silent_server_is_named_after_a_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        with Command("ls", "--connect-timeout", "8", hosts=hosts) as command:
            said = command.err.expect("").string
            assert said == f"aiolead: no server reached yet, trying {hosts} for 8 s (no answer yet)"
            assert command.finish() == exits.UNAVAILABLE
