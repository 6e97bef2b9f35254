"""What recipes tell of: waits for a turn, and tenures. See `docs/observability.md`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from ...abc import CoordinationClient, EventHook
from ...events import EventHub, EventName

SILENT = EventHub()
"""For clients that have no hook of their own: only the log is told."""


def hook_of(client: CoordinationClient) -> EventHook:
    """Whom the recipes of a client tell what happens."""
    return client.backend.events or SILENT


@final
class RecipeReporting:
    """Reports the events of one recipe.

    Args:
        client: its client.
        recipe: what it is called.
        path: its path.
        identity: what others see.
        is_rare: whether its tenures are so few that each is worth a line in the log.
    """

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
        """A wait for a turn begins; None if nobody wants to know."""
        if not self._hook.wants(logging.DEBUG):
            return None
        return Waiting(self, session_id)

    def begun(self, token: int, session_id: int) -> None:
        """A tenure begins."""
        if self._hook.wants(self._rare):
            self.emit(EventName.TENURE_BEGUN, self._rare, session_id, token=token)

    def ended(
        self, token: int, session_id: int, reason: str, lasted: float, *, is_loss: bool
    ) -> None:
        """A tenure has ended."""
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
    """One wait for a turn. Made by `RecipeReporting.waits`."""

    __slots__ = ("_reporting", "_since")

    def __init__(self, reporting: RecipeReporting, session_id: int) -> None:
        self._reporting = reporting
        self._since = reporting.now()
        reporting.emit(EventName.CONTENTION_BEGUN, logging.DEBUG, session_id)

    def ended(self, outcome: str, session_id: int) -> None:
        """It is over: `held`, `not held`, `cancelled` or `failed`."""
        self._reporting.emit(
            EventName.CONTENTION_ENDED,
            logging.DEBUG,
            session_id,
            outcome=outcome,
            waited=self._reporting.now() - self._since,
        )

    def failed(self, error: BaseException, session_id: int) -> None:
        """It was cut short by what is being raised."""
        # A cancellation of either backend, a Ctrl-C, or a coroutine that is closed, in which case
        # there may be no event loop to ask any more: none of them is an `Exception`.
        self.ended("failed" if isinstance(error, Exception) else "cancelled", session_id)
