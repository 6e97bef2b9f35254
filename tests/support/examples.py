"""Examples that run in the process of their tests: with two instances of each."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from .docs import PATIENCE, ROOT
from .waiting import until

if TYPE_CHECKING:
    from asgi_lifespan import LifespanManager

    from aiolead.testing import ThreadedServer

EXAMPLES = ROOT / "examples"

Load = Callable[[str], ModuleType]
"""Imports an example, by its path below `examples`."""


def lifespan(app: Any) -> LifespanManager:
    """An ASGI application from its startup to its shutdown, as a server has them."""
    from asgi_lifespan import LifespanManager  # which `make test` does without

    return LifespanManager(app, startup_timeout=PATIENCE, shutdown_timeout=PATIENCE)


def end_lost_session(server: ThreadedServer) -> None:
    """Ends the session of a process that was killed, as its timeout would.

    Sessions short enough to wait for end under processes that a busy machine is slow to run, too.
    """

    def lost() -> list[int]:
        return [id_ for id_, session in server.sessions().items() if not session.is_connected]

    until(lambda: len(lost()) == 1, "the server has lost the connection of the process")
    server.expire_session(*lost())


class Said:
    """What the examples print in this process, as far as it is about leading."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        self._lines += self._capsys.readouterr().out.splitlines()
        return self._lines

    def count(self, line: str) -> int:
        """How many lines begin so."""
        return sum(each.startswith(line) for each in self.lines)

    async def wait_for(self, line: str, times: int = 1) -> None:
        """Waits until a line was printed that begins so, that many times."""
        with anyio.fail_after(PATIENCE):
            while self.count(line) < times:  # noqa: ASYNC110
                await anyio.sleep(0.01)
