"""The events of recipes (see `docs/how-to/observability.md`), and their warnings about a path."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, final

import anyio.lowlevel

from .._util.escaping import get_logger
from .._util.internal_errors import call_back
from ..abc import CoordinationClient
from ..errors import LossReason
from ..events import FIRST_REPORT, EventName, Limit, next_report
from ..model import SessionState
from .rivals import HolderQuery, ask

if TYPE_CHECKING:
    from .hold import Tenure

MakeQuery = Callable[[], HolderQuery | None]

logger = get_logger("aiolead.recipes")


LONGEST_PAUSE = 3600.0
"""The longest time between two reports of one acquisition, in seconds."""

_MOST_SUBJECTS = 100
"""The most warnings about one path, since others may create any number of znodes."""


class PathWarnings:
    """The warnings that one client has logged about one path; made by `Backend.shared`.

    A recipe keeps it for as long as the recipe lives. Contenders come and go, and each would warn
    again.
    """

    __slots__ = ("__weakref__", "_given")

    def __init__(self) -> None:
        self._given: tuple[str, ...] = ()

    def warn(self, subject: str, message: str) -> None:
        """Log a warning, unless one with this subject was logged before."""
        if self.is_new(subject):
            logger.warning("%s", message)

    def is_new(self, subject: str) -> bool:
        """Whether to warn of a subject: no more if that was asked before."""
        if subject in self._given or len(self._given) >= _MOST_SUBJECTS:
            return False
        self._given = (*self._given, subject)
        return True

    def warn_of_ownerless(
        self, client: CoordinationClient, path: str, znode: str, created: float
    ) -> None:
        """Report a znode that contenders wait for, unless it was reported before."""
        if self.is_new(client.backend.full_path(znode)):
            report_ownerless(client, path, znode, created)

    def warn_of_children(self, path: str, consequence: str) -> None:
        """Log a warning of a znode that others have put znodes below, once per consequence.

        No server deletes such a znode, so its recipe sets it aside and goes on. `consequence` is a
        sentence that says what that means.
        """
        self.warn(
            f"{path}: {consequence}",
            f"{path} has znodes below it, which belong to no recipe: delete them. {consequence}",
        )


def report_ownerless(client: CoordinationClient, path: str, znode: str, created: float) -> None:
    """Report a znode of no session that contenders of `path` wait for.

    `created` is the time of its creation, in seconds since 1970.
    """
    fields: dict[str, str | float] = {
        "znode": client.backend.full_path(znode),
        "created": created,
    }
    client.backend.events.emit(
        EventName.CONTENTION_BLOCKED,
        logging.WARNING,
        session_id=client.session_id,
        path=path,
        fields=fields,
    )


class LossReports:
    """The reports of one client's losses, which come after the lost bodies had their turn.

    Thousands of holds may be lost at once. Logging a loss takes longer than cancelling a body, and
    no body may wait for it. Nor does anybody read thousands of lines: a few are shown, with the
    last one, which counts the others.
    """

    def __init__(self) -> None:
        self._due: deque[Callable[[bool, int], object]] = deque()
        self._is_running = False
        self._limit = Limit(burst=10, period=60.0)

    def add(self, client: CoordinationClient, report: Callable[[bool, int], object]) -> None:
        """Have a loss reported soon.

        `report` is called with whether it is to be shown, and how many were hidden before it.
        """
        self._due.append(report)
        now = client.backend.events.now
        if client.state.is_final:
            self._report_all(now)
        elif not self._is_running:
            self._is_running = True
            client.backend.spawn(partial(self._run, now))

    async def _run(self, now: Callable[[], float]) -> None:
        try:
            while self._due:
                await anyio.lowlevel.checkpoint()
                self._report(now)
        finally:  # also if the client is closed meanwhile
            self._is_running = False
            self._report_all(now)

    def _report_all(self, now: Callable[[], float]) -> None:
        while self._due:
            self._report(now)

    def _report(self, now: Callable[[], float]) -> None:
        report = self._due.popleft()
        is_last = not self._due and self._limit.has_hidden
        call_back(report, *self._limit.admit(now(), always=is_last))


@final
class RecipeReporting:
    """Reports the events of one recipe: its tenures at INFO if they are rare, else at DEBUG."""

    __slots__ = ("_client", "_hook", "_identity", "_rare", "_recipe", "now", "path")

    def __init__(
        self,
        client: CoordinationClient,
        recipe: str,
        path: str,
        identity: str,
        *,
        is_rare: bool,
    ) -> None:
        self._client = client
        self._hook = client.backend.events
        self._recipe = recipe
        self.path: str = path
        self._identity = identity
        self._rare = logging.INFO if is_rare else logging.DEBUG
        self.now: Callable[[], float] = self._hook.now

    def waits(self, session_id: int, holder_query: MakeQuery | None = None) -> Waiting | None:
        """Report that an acquisition begins; None if nobody wants to know.

        `holder_query` is that of the place; see `Place`.
        """
        if not self._hook.wants(logging.INFO):
            return None
        return Waiting(self, session_id, holder_query)

    @property
    def is_traced(self) -> bool:
        """Whether anyone wants to know of each wait."""
        return self._hook.wants(logging.DEBUG)

    def watch(self, waiting: Waiting) -> None:
        """Report from time to time that an acquisition takes long, until `unwatch`."""
        self._client.backend.shared("/", WaitingReports).add(self._client, waiting)

    def unwatch(self, waiting: Waiting) -> None:
        self._client.backend.shared("/", WaitingReports).remove(waiting)

    def begun(self, tenure: Tenure) -> None:
        if self._hook.wants(self._rare):
            session_id, token = tenure.session_id, tenure.token
            self.emit(EventName.TENURE_BEGUN, self._rare, session_id, token=token)

    def ended(self, token: int, session_id: int, reason: str, lasted: float) -> None:
        if self._hook.wants(self._rare):
            self._emit_ended(self._rare, token, session_id, reason, lasted)

    def retried(self, session_id: int, item: str, attempt: int, delay: float) -> None:
        """Report that an item was released for another attempt, after a pause."""
        if self._hook.wants(logging.DEBUG):
            self.emit(
                EventName.ITEM_RETRIED,
                logging.DEBUG,
                session_id,
                item=item,
                attempt=attempt,
                delay=delay,
            )

    def given_up(self, session_id: int, item: str, attempt: int) -> None:
        """Report that an item was given up after its last attempt."""
        if self._hook.wants(logging.WARNING):
            self.emit(
                EventName.ITEM_GIVEN_UP, logging.WARNING, session_id, item=item, attempt=attempt
            )

    def lost(self, token: int, session_id: int, loss: LossReason, lasted: float) -> None:
        """Report a loss soon: see `LossReports`."""
        level = self._rare if loss is LossReason.CLOSED else logging.WARNING
        if self._hook.wants(level):
            cause = self.trouble() if loss is LossReason.UNCONFIRMED else ""
            report = partial(self._lost, level, token, session_id, loss, lasted, cause)
            client = self._client
            client.backend.shared("/", LossReports).add(client, report)

    def _lost(
        self,
        level: int,
        token: int,
        session_id: int,
        loss: LossReason,
        lasted: float,
        cause: str,
        is_shown: bool,
        hidden: int,
    ) -> None:
        if not is_shown:
            level = logging.DEBUG
        reason = loss.name.lower()
        self._emit_ended(level, token, session_id, reason, lasted, cause=cause, hidden=hidden)

    def trouble(self) -> str:
        """Why the servers confirm nothing now, as far as the client knows; see `EventHook`."""
        return self._hook.trouble()

    def _emit_ended(
        self,
        level: int,
        token: int,
        session_id: int,
        reason: str,
        lasted: float,
        *,
        cause: str = "",
        hidden: int = 0,
    ) -> None:
        self.emit(
            EventName.TENURE_ENDED,
            level,
            session_id,
            token=token,
            reason=reason,
            lasted=lasted,
            cause=cause,
            hidden=hidden,
        )

    def emit(
        self, name: EventName, level: int, session_id: int, **fields: str | int | float
    ) -> None:
        who = {"recipe": self._recipe, "identity": self._identity}
        self._hook.emit(name, level, session_id=session_id, path=self.path, fields=who | fields)


@final
class Waiting:
    """An acquisition that has begun, for as long as it takes.

    Attributes:
        since: when it began.
        due: how long it has lasted when the next report is due.
        path: the path of its recipe.
    """

    __slots__ = (
        *("_holder_query", "_is_traced", "_is_watched", "_reporting", "due", "path", "since"),
    )

    def __init__(
        self, reporting: RecipeReporting, session_id: int, holder_query: MakeQuery | None
    ) -> None:
        self._reporting = reporting
        self._holder_query = holder_query
        self.since: float = reporting.now()
        self.due: float = FIRST_REPORT
        self.path: str = reporting.path
        self._is_watched = holder_query is not None
        self._is_traced = reporting.is_traced
        if self._is_traced:
            reporting.emit(EventName.CONTENTION_BEGUN, logging.DEBUG, session_id)
        if self._is_watched:
            reporting.watch(self)

    async def lasts(self, client: CoordinationClient) -> None:
        """Report that it is not over, and behind whom it waits, unless no holder is waited for.

        A holder of no session never leaves by itself, which is reported as a warning.
        """
        query = None if self._holder_query is None else self._holder_query()
        if query is None:
            return
        holder = await ask(client, query)
        if holder is not None and holder.is_ownerless:
            report_ownerless(client, self.path, holder.path, holder.since)
            return
        self._reporting.emit(
            EventName.CONTENTION_WAITING,
            logging.INFO,
            client.session_id,
            waited=self._reporting.now() - self.since,
            is_known=int(holder is not None),
            holder="" if holder is None else holder.identity,
            age=0.0 if holder is None else holder.age,
            position=0 if holder is None else holder.position or 0,
        )

    def ended(self, outcome: str, session_id: int, error: str = "") -> None:
        """Report its outcome: `held`, `not held`, `cancelled` or `failed`, with an error's type."""
        if self._is_watched:
            self._reporting.unwatch(self)
        if self._is_traced:
            waited = self._reporting.now() - self.since
            self._reporting.emit(
                EventName.CONTENTION_ENDED,
                logging.DEBUG,
                session_id,
                outcome=outcome,
                waited=waited,
                error=error,
            )

    def failed(self, error: BaseException, session_id: int) -> None:
        # A cancellation, Ctrl-C, or a coroutine that is closed, in which case there may be no event
        # loop any more: none of them is an `Exception`.
        is_failure = isinstance(error, Exception)
        name = type(error).__name__ if is_failure else ""
        self.ended("failed" if is_failure else "cancelled", session_id, name)


class WaitingReports:
    """The reports of one client's acquisitions that take long: one job for all of them.

    Many tasks may wait for one path; only the first of them is reported.
    """

    def __init__(self) -> None:
        self._waits: dict[Waiting, None] = {}  # in the order of their beginnings
        self._is_running = False

    def add(self, client: CoordinationClient, waiting: Waiting) -> None:
        self._waits[waiting] = None
        if not self._is_running and not client.state.is_final:
            self._is_running = True
            client.backend.spawn(partial(self._run, client))

    def remove(self, waiting: Waiting) -> None:
        self._waits.pop(waiting, None)

    async def _run(self, client: CoordinationClient) -> None:
        now = client.backend.events.now
        try:
            # The job outlives short waits, so that it is not started for each of them.
            while self._waits:
                due = min(waiting.since + waiting.due for waiting in self._waits)
                await anyio.sleep(max(0.0, due - now()))
                await self._report(client, now())
        finally:
            self._is_running = False

    async def _report(self, client: CoordinationClient, now: float) -> None:
        first: dict[str, Waiting] = {}
        for waiting in list(self._waits):
            first.setdefault(waiting.path, waiting)
            lasts = now - waiting.since
            if lasts < waiting.due:
                continue
            waiting.due = next_report(lasts, waiting.due, LONGEST_PAUSE)
            if first[waiting.path] is waiting and client.state is SessionState.CONNECTED:
                await waiting.lasts(client)
