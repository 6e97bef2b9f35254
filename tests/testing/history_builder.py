"""Histories made up by hand, for tests of what reads them."""

from __future__ import annotations

from typing import Self

from aiolead.testing.history import History
from aiolead.testing.invariants import Bounds, Violation, violations

BOUNDS = Bounds(session_timeout=4.0, tick_time=1.0, grace_period=0.5, reconnect=1.0)
"""With these, progress is due within 7 s and a body ends within 0.5 s."""

L = "/l"
PARENT = "/app/l"


class HistoryBuilder(History):
    """A history whose clock is set by hand: `tale.at(3.0).joined(...)`."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now)

    def at(self, now: float) -> Self:
        self.now = now
        return self

    def after(self, seconds: float) -> Self:
        return self.at(self.now + seconds)

    def turn(self, contender: str, token: int, line: str = L) -> None:
        """A whole turn, of three seconds, that only its contender tells of."""
        self.after(1).joined(line, contender)
        self.after(1).entered(line, contender, token)
        self.after(1).left(line, contender, token)

    # Turns that the servers tell of as well. The session of a contender follows from its name.

    def waits(self, contender: str, zxid: int, *, wait: float | None = None) -> None:
        self.joined(L, contender, wait=wait)
        self.node_created(path_of(zxid), zxid, session_of(contender))

    def holds(self, contender: str, zxid: int, **how: str) -> None:
        session_id = session_of(contender)
        self.entered(L, contender, zxid, path=path_of(zxid), session_id=session_id, **how)  # type: ignore[arg-type]

    def leaves(self, contender: str, zxid: int) -> None:
        self.left(L, contender, zxid)
        self.gone(contender, zxid, by=session_of(contender))

    def gone(self, contender: str, zxid: int, *, by: int = 0) -> None:
        self.node_deleted(path_of(zxid), zxid + 1000, session_of(contender), by)

    # What is wrong.

    def wrong(self, bounds: Bounds = BOUNDS) -> list[Violation]:
        return violations(self.events, bounds)

    def broken(self, bounds: Bounds = BOUNDS) -> list[str]:
        """The names of the invariants that do not hold."""
        return sorted({violation.invariant for violation in self.wrong(bounds)})


def path_of(zxid: int) -> str:
    return f"{PARENT}/lock-{zxid:010}"


def session_of(contender: str) -> int:
    return 0x100 + sum(map(ord, contender))
