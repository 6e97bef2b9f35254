"""The settings of servers and contenders, in all runs of one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiolead.testing import BlockingEnsemble
from aiolead.testing.history import Event
from aiolead.testing.invariants import Bounds, Reading, violations


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of servers and contenders.

    Attributes:
        tick_time: the servers', in seconds.
        sync_limit: the servers', in ticks. By default an isolated server serves on
            for longer than a session lasts.
        session_timeout: that of every contender, in seconds.
    """

    tick_time: float = 0.5
    sync_limit: int = 10
    session_timeout: float = 2.0

    def __str__(self) -> str:
        return (
            f"session timeout {self.session_timeout:g} s, tickTime {self.tick_time:g} s, "
            f"syncLimit {self.sync_limit} ticks"
        )

    @contextmanager
    def ensemble(self) -> Iterator[BlockingEnsemble]:
        """Three real servers that go by them."""
        with BlockingEnsemble(
            3, partitionable=True, tick_time=self.tick_time, sync_limit=self.sync_limit
        ) as ensemble:
            yield ensemble

    def violations(self, events: Iterable[Event] | Reading, *, is_complete: bool) -> list[str]:
        """The violations of the invariants in a history.

        Args:
            events: those of contenders, the driver and the servers.
            is_complete: whether everybody was to leave in the end.
        """
        bounds = Bounds(
            session_timeout=self.session_timeout,
            tick_time=self.tick_time,
            # The machine may be busy with other things as well.
            election=5.0,
            grace=5.0,
            slack=0.25,
            is_complete=is_complete,
        )
        return [str(violation) for violation in violations(events, bounds, skip=_UNHEARD)]


_UNHEARD = ("I13",)
"""Not checked: a busy machine breaks connections as well, without a fault in the history."""
