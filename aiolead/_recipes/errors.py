"""How recipes handle errors: one table for all; reasons: docs/reference/error-policy.md.

A recipe handles the errors that it expects before it asks this table: it creates a missing parent,
and begins with another znode when its own is missing.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from .._util.escaping import get_logger
from ..abc import CoordinationClient
from ..errors import (
    OVERLOADED,
    AioleadError,
    AnswerTooLargeError,
    BadVersionError,
    ConnectionLossError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    Outcome,
    ReleaseError,
    RemoteWireError,
    RequestRefusedError,
    SessionError,
    SessionExpiredError,
    TooManyRequestsError,
    TransactionError,
    UnreadableTextError,
)
from ..events import Limit
from ..model import ACL, CreateMode, SessionState

logger = get_logger(__name__)


class Step(enum.Enum):
    """The step of a recipe in which an error occurs.

    ACQUIRE creates our znode, reads the queue, waits, and proves the lease. RELEASE
    deletes our znode, in the foreground or in the background. FOLLOW reads a value repeatedly, or
    keeps a znode in existence. ASK reads or writes for a caller that waits for the answer.
    """

    ACQUIRE = "acquire"
    RELEASE = "release"
    FOLLOW = "follow"
    ASK = "ask"


class Action(enum.Enum):
    """The action that a recipe takes next."""

    RECONNECT = "wait for a connection, look what is there, and go on"
    PAUSE = "wait a moment, or until a refused request may be sent again, and go on"
    START_AGAIN = "our znode is gone: begin with another one"
    GONE = "there is nothing left to delete"
    REFUSED = "report that our znode stays"
    SET_ASIDE = "others have put znodes below it: report it once, pass it over, and go on"
    RAISE = "raise it to the caller"


PAUSE = 1 / 16
"""How long an overloaded server is left alone, in session timeouts."""


def _row(
    acquire: Action, release: Action, follow: Action, ask: Action | None = None
) -> dict[Step, Action]:
    return dict(zip(Step, (acquire, release, follow, ask or follow), strict=True))


TABLE: tuple[tuple[tuple[type[AioleadError], ...], dict[Step, Action]], ...] = (
    ((AnswerTooLargeError, UnreadableTextError), _row(Action.RAISE, Action.REFUSED, Action.RAISE)),
    (
        (ConnectionLossError, RemoteWireError, NotReadOnlyError),
        _row(Action.RECONNECT, Action.RECONNECT, Action.RECONNECT),
    ),
    ((RequestRefusedError,), _row(Action.RAISE, Action.PAUSE, Action.PAUSE, ask=Action.RAISE)),
    ((SessionExpiredError,), _row(Action.START_AGAIN, Action.GONE, Action.RECONNECT)),
    ((SessionError,), _row(Action.RAISE, Action.GONE, Action.RAISE)),
    (OVERLOADED, _row(Action.PAUSE, Action.PAUSE, Action.PAUSE)),
    ((TooManyRequestsError,), _row(Action.RAISE, Action.PAUSE, Action.PAUSE)),
    ((NoNodeError,), _row(Action.RAISE, Action.GONE, Action.RAISE)),
    ((BadVersionError,), _row(Action.RAISE, Action.RECONNECT, Action.RAISE)),
    ((NotEmptyError,), _row(Action.SET_ASIDE, Action.REFUSED, Action.SET_ASIDE)),
    ((AioleadError,), _row(Action.RAISE, Action.REFUSED, Action.RAISE)),
)
"""The first row that an error belongs to applies; its columns are those of `Step`, of which ASK is
as FOLLOW where it is not given."""


def action_for(error: AioleadError, step: Step) -> Action:
    """Return the action for an error; of a transaction, the failed operation's error counts."""
    if isinstance(error, TransactionError):
        return action_for(error.cause, step)
    return next(row[step] for errors, row in TABLE if isinstance(error, errors))


def may_be_applied(error: AioleadError | None) -> bool:
    """Whether the failed write may have been applied, in a session that goes on."""
    return error is not None and error.outcome is Outcome.UNKNOWN and not error.session_over


def pause(client: CoordinationClient, error: AioleadError) -> float:
    """How long to wait before the next try, in seconds.

    An overloaded server is left alone for a moment. A request that costs connections is sent less
    and less often, so that what the session holds is renewed in between.
    """
    if isinstance(error, RequestRefusedError):
        return error.retry_in
    return client.session_timeout * PAUSE


async def pause_until(
    client: CoordinationClient, error: RequestRefusedError, news: anyio.Event
) -> None:
    """Wait until a refused request may be sent again, or there is something else to do.

    If it is not held back, only the wait does that: a lost connection is something else, too.
    """
    if not error.is_held_back:
        await anyio.sleep(pause(client, error))
        return
    with anyio.move_on_after(pause(client, error)):
        await news.wait()


class OverloadWarnings:
    """The warnings of one client that its servers are overloaded: at most one in a minute.

    Without them, a recipe that is refused again and again would wait without a word.
    """

    def __init__(self) -> None:
        self._limit = Limit(burst=1, period=60.0)

    def warn(self, client: CoordinationClient, error: AioleadError) -> None:
        is_shown, hidden = self._limit.admit(client.backend.events.now())
        if is_shown:
            more = f" (and {hidden} times before)" if hidden else ""
            every = pause(client, error)
            logger.warning("%s; it is sent again every %.1f s%s", error, every, more)


async def before_next_try(client: CoordinationClient, error: AioleadError, step: Step) -> Action:
    """Wait as the table says; return the action.

    Raises `error` itself if the table says so, or if only the caller knows what to set aside; and
    `SessionError` if the client is closed meanwhile or its credentials are refused.
    """
    action = action_for(error, step)
    if action in (Action.RAISE, Action.REFUSED, Action.SET_ASIDE):
        raise error
    if action is Action.PAUSE:
        if isinstance(error, OVERLOADED):
            client.backend.shared("/", OverloadWarnings).warn(client, error)
        await anyio.sleep(pause(client, error))
    elif action is Action.RECONNECT:
        await client.ready()
    return action


async def until_done(
    client: CoordinationClient,
    session_id: int,
    attempt: Callable[[], Awaitable[object]],
) -> bool:
    """Repeat `attempt`, a look and a delete, over as many connections as it takes.

    `session_id` owns the znode (0 if no session does). Returns False once that session is over,
    when nothing is left to do. Raises `AioleadError` if the delete is refused.
    """
    while True:
        try:
            await client.ready()
            if session_id not in (0, client.session_id):
                return False
            await attempt()
        except AioleadError as error:
            if not session_id and isinstance(error, SessionExpiredError):
                continue  # no session owns the znode, so it is there in the next one
            if action_for(error, Step.RELEASE) is Action.GONE:
                return not isinstance(error, SessionError)
            await before_next_try(client, error, Step.RELEASE)
        else:
            return True


def refused_release(path: str, error: AioleadError | None) -> ReleaseError | None:
    """The error to report about the answer to a delete; None if it was not refused."""
    if error is None or action_for(error, Step.RELEASE) is not Action.REFUSED:
        return None
    if isinstance(error, ReleaseError):
        return error
    refusal = ReleaseError(path, error)
    refusal.__cause__ = error
    return refusal


def log_refusal(refusal: ReleaseError) -> None:
    """Log a refusal that nobody waits for: a line for each znode that stays."""
    for line in (refusal, *getattr(refusal, "__notes__", ())):
        logger.warning("%s", line)


async def in_background(path: str, job: Callable[[], Awaitable[object]]) -> None:
    """Run `job`, a delete of `path` (or of a prefix) that nobody waits for; log a refusal."""
    try:
        await job()
    except AioleadError as error:
        refusal = refused_release(path, error)
        if refusal is not None:
            log_refusal(refusal)
    except Exception as error:
        error.add_note(f"{path!r} was not deleted: it stays until its session ends")
        raise


R = TypeVar("R")


async def until_answered(client: CoordinationClient, request: Callable[[], Awaitable[R]]) -> R:
    """Send a request that is safe to repeat, again after errors that pass; raise the others."""
    while True:
        try:
            return await request()
        except AioleadError as error:
            await before_next_try(client, error, Step.ASK)


async def at_once(
    client: CoordinationClient, request: Callable[[], Awaitable[R]], *, lost: str
) -> R:
    """Return the result of `request`, or raise `ConnectionLossError` rather than wait for a server.

    It is raised if there is no connection, or if it is lost meanwhile, with the message `lost`.
    """
    client.backend.check_connected()
    with anyio.CancelScope() as scope:

        def on_state(state: SessionState, _session_id: int) -> None:
            if state is not SessionState.CONNECTED:
                scope.cancel()

        unsubscribe = client.backend.subscribe(on_state)
        try:
            return await request()
        finally:
            unsubscribe()
    client.backend.check_connected()
    raise ConnectionLossError(lost, outcome=Outcome.NOT_APPLIED)


TRIES = 10
"""How often the path is created in a row: servers delete empty containers (CURATOR-724)."""


async def ensure_path(
    client: CoordinationClient,
    path: str,
    *,
    mode: CreateMode = CreateMode.PERSISTENT,
    acl: Sequence[ACL] | None,
) -> None:
    """Create a path and its missing ancestors, over as many connections and sessions as it takes.

    It is safe to repeat. So its errors are never raised as those of the write that needs the path.
    """
    await until_answered(client, lambda: client.ensure_path(path, mode=mode, acl=acl))


async def with_parent(
    client: CoordinationClient,
    path: str,
    request: Callable[[], Awaitable[R]],
    *,
    mode: CreateMode = CreateMode.PERSISTENT,
    acl: Sequence[ACL] | None,
) -> R:
    """Send a request, and again with `path` created while it raises `NoNodeError`.

    `mode` is that of the path and its missing ancestors; `acl` is that of all that is created. The
    request may be sent in another session than before.
    """
    for _ in range(TRIES):
        try:
            return await request()
        except NoNodeError:
            await ensure_path(client, path, mode=mode, acl=acl)
    return await request()
