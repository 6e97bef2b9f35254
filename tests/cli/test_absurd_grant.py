"""Processes that are connected to a server which grants 24 days, and answers nothing, end on
signals. Their waits while they close are shielded, so nothing else would end them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from cli.hostile_server import HostileServer, hostile_server
from kit.cli import WITHIN, Command, environment

pytestmark = pytest.mark.exhaustive("an edge of the command")

ABSURD = 0x7FFF_FFFF
"""Milliseconds."""

PROGRAM = """
import sys, anyio, aiolead

async def main():
    async with aiolead.connect(sys.argv[1], session_timeout=1) as client:
        print("connected", flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.fixture
def absurd() -> Iterator[HostileServer]:
    with hostile_server(lambda _header: None, grant=ABSURD) as server:
        yield server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [("get", "/a"), ("lock", "/a", "--", "true")])
def test_a_command_ends(
    absurd: HostileServer, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    command, *rest = arguments
    with Command(command, "--session-timeout", "1", *rest, hosts=absurd.connect_string) as running:
        assert absurd.was_asked.wait(WITHIN)
        running.signal(number)
        assert running.finish() == 128 + number


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_ends(absurd: HostileServer, backend: str) -> None:
    with subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-c", PROGRAM, absurd.connect_string,
         backend],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=WITHIN)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
