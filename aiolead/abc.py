"""The seam: what a recipe needs from a client, and what a client for aiolead must therefore offer.

`aiolead.Client` is the usual implementation; an adapter around somebody else's client is another.
Recipes are written against this module alone.

Everything here belongs to one event loop and is not thread-safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from .errors import AioleadError, LossReason
from .events import EventName
from .model import ACL, Created, CreateMode, Missed, SessionState, Stat, WatchEvent

__all__ = [
    "Backend",
    "CoordinationClient",
    "EventHook",
    "FencedClient",
    "Hold",
    "Lease",
    "Reply",
    "Transaction",
    "Watch",
    "WatchStream",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reply(Protocol[T_co]):
    """The answer to a request that was already handed to the client, in the order of the calls.

    `await reply` waits for it; several may be awaited in any order, and each any number of times.
    """

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Waits for the answer.

        Cancellation: abandons the answer, not the request, which may still be applied.

        On connection loss: a read is sent again over the next connection; a write that was sent
        raises `ConnectionLossError` with the outcome `UNKNOWN` and is not sent again.
        """
        ...

    @property
    def is_done(self) -> bool:
        """Whether the answer, or the error, is there."""
        ...

    def result(self) -> T_co:
        """The answer, or raises the error. Only once `is_done`."""
        ...

    def error(self) -> AioleadError | None:
        """The error, None for an answer. Only once `is_done`."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Has the callback called, synchronously, as soon as the answer or error is there.

        At once, if it is there already. The callback runs in the client's task: it must be
        quick. What it raises is logged by the client, and reaches nobody else.
        """
        ...


class Watch(Protocol):
    """A one-shot watch: made by a client, armed by passing it to a read.

    It survives reconnects: the client re-arms it, relative to what it had seen. It fires at most
    once per arming; reading again with the same object arms it again. A watch that can no longer
    fire, since its session is over, reports an event of the type `NONE`.
    """

    @property
    def event(self) -> WatchEvent | None:
        """The event that fired, or None while nothing happened that the servers told us of."""
        ...

    @property
    def is_armed(self) -> bool:
        """Whether a server watches for us now.

        False before the read is answered, after the event, and while the link is down: "nothing
        happened" is known only while this is true.
        """
        ...

    async def wait(self) -> WatchEvent:
        """Waits for the event; returns at once if it has come already.

        All tasks that wait get it. After that, arm the watch again (pass it to a read) before
        waiting for the next event. `event` tells the last one at any time.

        Raises:
            UsageError: the event was returned already, and the watch was not armed again; or the
                watch was closed before anything happened.

        Cancellation: leaves the watch armed, and its event for the next `wait`.

        On connection loss: goes on waiting; what happened meanwhile is reported afterwards.
        """
        ...

    def close(self) -> None:
        """Takes the watch back, also on the server if nobody else here watches the same."""
        ...


class WatchStream(Protocol):
    """Every event of a persistent watch, in order, and `Missed` where there may be a gap.

    A context manager, to be entered once: entering waits until the server watches.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def __aiter__(self) -> AsyncIterator[WatchEvent | Missed]: ...

    async def __anext__(self) -> WatchEvent | Missed:
        """The next event. Cancellation: loses none. Ends with the client: raises its error."""
        ...


class Transaction(Protocol):
    """Several writes that are applied together or not at all.

    Each method adds an operation; `commit`, or awaiting it, sends them, once.
    """

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Self: ...

    def delete(self, path: str, *, version: int = -1) -> Self: ...

    def set(self, path: str, data: bytes, *, version: int = -1) -> Self: ...

    def check(self, path: str, *, version: int = -1) -> Self: ...

    def commit(self) -> Reply[list[str | Stat | None]]:
        """Sends it. The answer has the path of a create, the `Stat` of a set, None for the rest.

        The answer raises `TransactionError` if an operation failed, so that none was applied; with
        a fence, `Fenced` if that was the guard. After a lost connection the outcome is UNKNOWN.
        """
        ...

    def __await__(self) -> Generator[Any, Any, list[str | Stat | None]]: ...


class Hold(Protocol):
    """One znode that is held under the lease. See `Lease.hold`."""

    def lose(self, reason: LossReason) -> None:
        """Ends the hold, as if the lease had run out: `lost` is called with the reason."""
        ...

    def release(self) -> None:
        """Lets go: the znode is no longer confirmed, `lost` is no longer called."""
        ...


class Lease(Protocol):
    """Our own, pessimistic reading of how long the session surely lasts.

    While anything is held it is renewed through the quorum, one transaction per session however
    many znodes are held. All times are seconds on the lease's own clock, which is monotonic.
    """

    @property
    def deadline(self) -> float:
        """When holders must have begun to stop: the proven end, less drift and grace period."""
        ...

    def remaining(self) -> float:
        """Seconds until `deadline`, from the clock, at this very call; never below 0."""
        ...

    def is_enough(self) -> bool:
        """Whether a hold may begin: what is left allows for its first renewal to be answered."""
        ...

    def hold(
        self,
        path: str,
        lost: Callable[[LossReason], object],
        *,
        settled: Callable[[], object] | None = None,
        urgent: bool = False,
        resign_on_disconnect: bool = False,
    ) -> Hold:
        """Registers a held znode.

        The client gives up the session no sooner than everything lost was let go of: see
        `Hold.release`.

        Args:
            path: the znode; the lease's renewals check that it exists.
            lost: called once, synchronously, when the hold is over without its holder's doing.
            settled: called once, synchronously, when the hold has lasted for a moment, and
                before its first renewal.
            urgent: whether it settles, and is renewed, at once.
            resign_on_disconnect: whether a lost connection ends the hold, not the end of the lease.
        """
        ...


class FencedClient(Protocol):
    """Writes that the server applies only while the guarding znode exists.

    Each raises `Fenced` if it does not, and otherwise what the same call of the client raises.
    """

    def transaction(self) -> Transaction:
        """Several of them, all or none."""
        ...

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """Creates a znode and returns its path."""
        ...

    async def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Sets a znode's data."""
        ...

    async def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode."""
        ...


@runtime_checkable
class EventHook(Protocol):
    """Where recipes emit events: see `aiolead.events`, and `docs/observability.md`."""

    def wants(self, level: int) -> bool:
        """Whether anyone wants events of that level of `logging`. Cheap: called before each."""
        ...

    def now(self) -> float:
        """Seconds on a monotonic clock, for how long things take."""
        ...

    def emit(
        self,
        name: EventName,
        level: int,
        *,
        session_id: int,
        path: str,
        fields: Mapping[str, str | int | float],
    ) -> None:
        """Emits an event. Never raises.

        Args:
            name: what has happened.
            level: its level, as in `logging`.
            session_id: the session concerned.
            path: the path below the client's chroot.
            fields: more about it, by name.
        """
        ...


class Backend(Protocol):
    """What a client does for recipes and adapters, and users have no need of.

    All of it concerns one session; paths are those of the client that it belongs to.
    """

    @property
    def lease(self) -> Lease: ...

    @property
    def events(self) -> EventHook | None:
        """Receives the events of recipes; None: they are only logged."""
        ...

    @property
    def last_zxid(self) -> int:
        """The newest transaction that an answer to this client has shown."""
        ...

    @property
    def is_session_shared(self) -> bool:
        """Whether others create znodes in the session, as with `adapters.aiozk`.

        If so, recipes do not take a znode for theirs because the session owns it.
        """
        ...

    def unlimited(self) -> CoordinationClient:
        """The same client for the few requests of a recipe, which must not be refused.

        A client that refuses requests when very many wait must not refuse those of the result; any
        other client returns itself. Its `backend` may be this one.
        """
        ...

    def full_path(self, path: str) -> str:
        """The path on the servers: the same for every view of one znode, whatever its chroot."""
        ...

    def serial(self) -> int:
        """A number that this client gives once, which makes names unique.

        Views of other chroots, and `unlimited`, count together.
        """
        ...

    def shared(self, path: str, make: Callable[[], T]) -> T:
        """The object that everybody on this session shares for a path and a `make`.

        Made when there is none; views of other chroots get the same one for the same znode. It is
        kept as long as anybody has it, and for a while longer: a program that makes a new `Lock`
        for each use finds what is known of the path.
        """
        ...

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """A one-shot watch that is not armed yet.

        Args:
            on_event: called synchronously, in the client's task, as the event comes in.
        """
        ...

    def arm(self, watches: Sequence[tuple[str, Watch]], *, since: int) -> Reply[None]:
        """Arms watches on the data of several znodes, by one request, without reading them.

        Those of znodes that were deleted, or changed, after the transaction `since` fire at once,
        before the answer. One that may not be read fires never, or as if it could be.

        On connection loss: as for a read.
        """
        ...

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        """Reports every change of state, in order, with the session id that it is about.

        The callback runs synchronously, in the client's task; what it raises is logged, and reaches
        nobody else. Returns a function that ends the subscription.
        """
        ...

    def check_connected(self) -> None:
        """Returns if the session is connected; never waits.

        Raises:
            ConnectionLossError: it is not. The message says why, as far as that is known.
            SessionError: the client was closed, or its credentials were refused.
        """
        ...

    def spawn(
        self,
        job: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object] | None = None,
    ) -> None:
        """Runs a job in the client's own task group: work that must outlive its caller.

        The job ends with the client at the latest, cancelled at its next await; it runs at least to
        its first one, also if the client is closed in between, so that its `finally` is run.
        Whatever it raises ends the job, and neither the client nor other jobs. Without effect where
        `state` is final already.

        Args:
            job: an async function without arguments.
            on_end: called synchronously, once, when the job has ended: with None if it returned;
                with the `AioleadError` that it raised; with an `InternalError` if it raised any
                other exception, which the client logs, once, with its traceback; with a
                `ClientClosedError` if the end of the client cancelled it. Without `on_end`, an
                `AioleadError` is logged as well.
        """
        ...


@runtime_checkable
class CoordinationClient(Protocol):
    """A session with an ensemble.

    Requests go out in the order of the calls, and are answered in that order; the call itself hands
    the request over, so that several calls without an await between them leave in one segment. A
    request made while the link is down waits for it, at most for the session timeout.

    What only recipes and adapters need is behind `backend`.
    """

    @property
    def backend(self) -> Backend:
        """What only recipes and adapters need; one object for the life of the client."""
        ...

    @property
    def session_id(self) -> int:
        """The current session; 0 before the first one."""
        ...

    @property
    def session_timeout(self) -> float:
        """What was asked for or what the servers granted, whichever is less, in seconds.

        Recipes wait with it, so no server can make it longer than the user has asked for.
        """
        ...

    @property
    def state(self) -> SessionState: ...

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Reply[Created]: ...

    def delete(self, path: str, *, version: int = -1) -> Reply[None]: ...

    def exists(self, path: str, *, watch: Watch | None = None) -> Reply[Stat | None]: ...

    def get(self, path: str, *, watch: Watch | None = None) -> Reply[tuple[bytes, Stat]]: ...

    def set(self, path: str, data: bytes, *, version: int = -1) -> Reply[Stat]: ...

    def get_children(self, path: str, *, watch: Watch | None = None) -> Reply[list[str]]: ...

    def sync(self, path: str = "/") -> Reply[None]: ...

    def check(self, path: str, *, version: int = -1) -> Reply[None]:
        """Asks the quorum, as a transaction, whether a znode exists (and has that version)."""
        ...

    def transaction(self) -> Transaction: ...

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> FencedClient:
        """Writes that are applied only while the znode `guard` exists, and in this session only.

        Args:
            guard: the znode.
            gone: asked before each write whether the guard is known to be gone.
        """
        ...

    def watch(self, path: str, *, recursive: bool = False) -> WatchStream:
        """What happens to a znode, or to a whole tree, as a stream of events.

        Raises (on entering):
            UnsupportedError: the server has no persistent watches (before 3.6), or the client.
        """
        ...

    async def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Creates a znode, and what is missing above it, unless it is there."""
        ...

    def pipelined(self) -> AbstractContextManager[None]:
        """Requests that are made in the body of this `with` leave together, where they can.

        Nothing more: `contextlib.nullcontext()` will do. Nothing is awaited in the body.
        """
        ...

    async def ready(self) -> None:
        """Waits until the session is connected.

        Raises:
            SessionError: the client was closed, or its credentials were refused.
        """
        ...
