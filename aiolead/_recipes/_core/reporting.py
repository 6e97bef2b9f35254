"""Events of recipes: acquisitions and tenures. See `docs/how-to/observability.md`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from ...abc import CoordinationClient, EventHook
from ...events import EventHub, EventName

SILENT = EventHub()
"""For clients without a hook: events go to the log alone."""


def hook_of(client: CoordinationClient) -> EventHook:
    return client.backend.events or SILENT


@final
class RecipeReporting:
    """Reports the events of one recipe: its tenures at INFO if they are rare, else at DEBUG."""

    __slots__ = ("_hook", "_identity", "_path", "_rare", "_recipe", "now")

    def __init__(
        self,
        client: CoordinationClient,
        recipe: str,
        path: str,
        identity: str,
        *,
        is_rare: bool,
    ) -> None:
        self._hook = hook_of(client)
        self._recipe = recipe
        self._path = path
        self._identity = identity
        self._rare = logging.INFO if is_rare else logging.DEBUG
        self.now: Callable[[], float] = self._hook.now

    def waits(self, session_id: int) -> Waiting | None:
        """Report that an acquisition begins; None if nobody wants to know."""
        if not self._hook.wants(logging.DEBUG):
            return None
        return Waiting(self, session_id)

    def begun(self, token: int, session_id: int) -> None:
        if self._hook.wants(self._rare):
            self.emit(EventName.TENURE_BEGUN, self._rare, session_id, token=token)

    def ended(
        self, token: int, session_id: int, reason: str, lasted: float, *, is_loss: bool
    ) -> None:
        level = logging.WARNING if is_loss else self._rare
        if self._hook.wants(level):
            self.emit(
                EventName.TENURE_ENDED,
                level,
                session_id,
                token=token,
                reason=reason,
                lasted=lasted,
            )

    def emit(
        self, name: EventName, level: int, session_id: int, **fields: str | int | float
    ) -> None:
        who = {"recipe": self._recipe, "identity": self._identity}
        self._hook.emit(name, level, session_id=session_id, path=self._path, fields=who | fields)


@final
class Waiting:
    __slots__ = ("_reporting", "_since")

    def __init__(self, reporting: RecipeReporting, session_id: int) -> None:
        self._reporting = reporting
        self._since = reporting.now()
        reporting.emit(EventName.CONTENTION_BEGUN, logging.DEBUG, session_id)

    def ended(self, outcome: str, session_id: int) -> None:
        """Report its outcome: `held`, `not held`, `cancelled` or `failed`."""
        self._reporting.emit(
            EventName.CONTENTION_ENDED,
            logging.DEBUG,
            session_id,
            outcome=outcome,
            waited=self._reporting.now() - self._since,
        )

    def failed(self, error: BaseException, session_id: int) -> None:
        # A cancellation, Ctrl-C, or a coroutine that is closed, in which case there may be no event
        # loop any more: none of them is an `Exception`.
        self.ended("failed" if isinstance(error, Exception) else "cancelled", session_id)
