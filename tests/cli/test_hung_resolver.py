"""A resolver that does not answer keeps no command and no program from ending.

The system's own gives up after half a minute; the one of these tests never does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kit.cli import WITHIN, Lines, environment

from aiolead.cli import exits

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


class Running:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out, self.err = Lines(process.stdout), Lines(process.stderr)

    def signal_once_asked(self, number: int) -> int:
        self.out.expect("asked")
        self.process.send_signal(number)
        return self.process.wait(WITHIN)


@contextmanager
def running(program: str, *arguments: str) -> Iterator[Running]:
    with subprocess.Popen(
        ["env", "--default-signal=INT,HUP", sys.executable, "-c", program, *arguments],
        env=environment(AIOLEAD_HOSTS="zk1.example,zk2.example"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        started = Running(process)
        try:
            yield started
        finally:
            process.kill()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["get", "/a"], signal.SIGTERM),
        (["lock", "/a", "--", "true"], signal.SIGINT),
        (["elect", "/a"], signal.SIGINT),
        (["ensemble"], signal.SIGTERM),
        (["doctor"], signal.SIGINT),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value.name,
)
def test_signal_ends_a_command(
    arguments: list[str], number: signal.Signals, backend: str, request: Any
) -> None:
    command, *rest = arguments
    with running(COMMAND, command, "--backend", backend, *rest) as one:
        # A signal is the normal end of `elect`.
        expected = exits.OK if command == "elect" else 128 + number
        assert one.signal_once_asked(number) == expected


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_connect_timeout_ends_a_command(backend: str) -> None:
    with running(COMMAND, "get", "/a", "--connect-timeout", "0.3", "--backend", backend) as one:
        assert one.process.wait(WITHIN) == exits.UNAVAILABLE
        assert any("not resolved" in line for line in one.err.rest())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio", "blocking"])
def test_connect_timeout_ends_a_program(loop: str) -> None:
    with running(PROGRAM, loop, "0.3") as one:
        assert one.process.wait(WITHIN) == 3


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio", "blocking"])
def test_ctrl_c_ends_a_program(loop: str) -> None:
    with running(PROGRAM, loop, "600") as one:
        assert one.signal_once_asked(signal.SIGINT) == 4
