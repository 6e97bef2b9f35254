"""The notice that no server has been reached yet: which servers are tried, and why that fails."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, final

from .exits import in_plain_words
from .output import Reporter

if TYPE_CHECKING:
    from ..events import Event

SAID_AFTER = 1.0
"""Seconds of silence before it is said."""


@final
class ConnectingNotice:
    """Reports once that no server has been reached, if entering a client takes so long.

    It is both the client's event sink, and a context manager around entering the client. A thread
    waits, since the event loop may have nothing to do, and no loop of its own has been started yet.
    """

    def __init__(self, reporter: Reporter, hosts: str, patience: float) -> None:
        self._reporter = reporter
        self._hosts = hosts
        self._patience = patience
        self._failures: dict[str, str] = {}
        self._timer = threading.Timer(SAID_AFTER, self._say)
        self._timer.daemon = True

    def __call__(self, event: Event) -> None:
        """Take an event of the client."""
        from ..events import EventName  # imported by the client that has made the event

        if event.name is EventName.CONNECTION_FAILED:
            self._failures[str(event.fields["server"])] = str(event.fields["reason"])

    def __enter__(self) -> ConnectingNotice:
        self._timer.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def _say(self) -> None:
        failures = [
            f"{server}: {in_plain_words(why)}" for server, why in dict(self._failures).items()
        ]
        why = "; ".join(failures) or "no answer yet"
        self._reporter.state(
            f"no server reached yet, trying {self._hosts} for {self._patience:g} s ({why})",
            hosts=self._hosts,
        )
