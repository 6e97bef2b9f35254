"""The client interface: what recipes need from a client, and a client for aiolead must offer.

`aiolead.Client` is the usual implementation; an adapter around another library's client is another.
Recipes are written against this module alone. Everything here belongs to one event loop and is not
thread-safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
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

    Several may be awaited in any order, and each any number of times.
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
        """Registers a callback for when the answer or error is there; at once, if it is.

        It is called synchronously, in the client's task, and must be quick. What it raises is
        logged by the client.
        """
        ...


class Watch(Protocol):
    """A one-shot watch: made by a client, armed by passing it to a read.

    It survives reconnects: the client re-arms it, relative to what it had seen. It fires at most
    once per arming; another read with the same object arms it again. When its session is over, so
    that it can no longer fire, it reports an event of the type `NONE`.
    """

    @property
    def event(self) -> WatchEvent | None:
        """The event that fired; None while no server has reported one."""
        ...

    @property
    def is_armed(self) -> bool:
        """Whether a server watches now.

        False before the read is answered, after the event, and while the connection is down:
        "nothing happened" is known only while this is true.
        """
        ...

    async def wait(self) -> WatchEvent:
        """Waits for the event; returns at once if it has come already.

        All tasks that wait get it. Then arm the watch again (pass it to a read) before waiting for
        the next event.

        Raises:
            UsageError: the event was returned already, and the watch was not armed again; or the
                watch was closed before anything happened.

        Cancellation: leaves the watch armed, and its event for the next `wait`.

        On connection loss: goes on waiting; what happened meanwhile is reported afterwards.
        """
        ...

    def close(self) -> None:
        """Removes the watch, also on the server if nobody else here watches the same."""
        ...


class WatchStream(Protocol):
    """Every event of a persistent watch, in order, and `Missed` where there may be a gap.

    A context manager, entered once: entering waits until the server watches.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

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

        It raises `TransactionError` if an operation failed, so that none was applied; with a fence,
        `Fenced` if that was the guard. After a lost connection the outcome is UNKNOWN.
        """
        ...

    def __await__(self) -> Generator[Any, Any, list[str | Stat | None]]: ...


class Hold(Protocol):
    """A znode that is held under the lease. See `Lease.hold`."""

    def lose(self, reason: LossReason) -> None:
        """Ends the hold, as if the lease had run out: `lost` is called with the reason."""
        ...

    def release(self) -> None:
        """Ends the hold: the znode is no longer confirmed, `lost` is no longer called."""
        ...


class Lease(Protocol):
    """Our own, pessimistic estimate of how long the session surely lasts.

    While anything is held it is renewed through the quorum, by one transaction per session however
    many znodes are held. Times are seconds on the lease's own clock, which is monotonic.
    """

    @property
    def deadline(self) -> float:
        """When holders must begin to stop: the proven end, less drift and grace period."""
        ...

    def remaining(self) -> float:
        """Seconds until `deadline`, at this very call; never below 0."""
        ...

    def is_enough(self) -> bool:
        """Whether a hold may begin: there is time for its first renewal to be answered."""
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

        The client does not end the session before everything lost was released: see `Hold.release`.

        Args:
            path: the znode; the lease's renewals check that it exists.
            lost: called once, synchronously, when the hold is over without its holder's doing.
            settled: called once, synchronously, when the hold has lasted for a moment, before its
                first renewal.
            urgent: whether it settles, and is renewed, at once.
            resign_on_disconnect: whether a lost connection ends the hold, not the end of the lease.
        """
        ...


class FencedClient(Protocol):
    """Writes that the server applies only while the guarding znode exists.

    Each raises `Fenced` if it does not, else what the same call of the client raises; `create`
    returns the znode's path.
    """

    def transaction(self) -> Transaction:
        """Several writes, all or none."""
        ...

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str: ...

    async def set(self, path: str, data: bytes, *, version: int = -1) -> Stat: ...

    async def delete(self, path: str, *, version: int = -1) -> None: ...


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

        Then recipes do not take a znode for theirs because the session owns it.
        """
        ...

    def unlimited(self) -> CoordinationClient:
        """The same client for the few requests of a recipe, which must not be refused.

        A client that never refuses requests for want of room returns itself.
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
        kept while anybody has it, and for a while longer, for programs that make a new `Lock` for
        each use.
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
        before the answer. One that may not be read never fires, or fires as if it could be.

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
        its first one, so that its `finally` is run. Whatever it raises ends the job, and nothing
        else. Without effect where `state` is final already.

        Args:
            job: an async function without arguments.
            on_end: called synchronously, once, when the job has ended: with None if it returned;
                with the `AioleadError` that it raised; with an `InternalError` if it raised any
                other exception, which the client logs with its traceback; with a
                `ClientClosedError` if the end of the client cancelled it. Without `on_end`, an
                `AioleadError` is logged as well.
        """
        ...


@runtime_checkable
class CoordinationClient(Protocol):
    """A session with an ensemble.

    Requests go out in the order of the calls, and are answered in that order. The call itself hands
    the request over: several calls without an await between them leave in one segment. A request
    made while the connection is down waits for it, at most for the session timeout.
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

        Recipes wait with it, so no server can make their waits longer than the user has asked for.
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
        """Asks the quorum, by a transaction, whether a znode exists and has the version."""
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
        """The events of a znode, or of a whole tree, as a stream.

        Raises (on entering):
            UnsupportedError: the server (before 3.6), or the client, has no persistent watches.
        """
        ...

    async def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Creates a znode and its missing parents, unless it is there."""
        ...

    def pipelined(self) -> AbstractContextManager[None]:
        """Requests that are made in the body of this `with` leave together, where they can.

        `contextlib.nullcontext()` will do. Nothing is awaited in the body.
        """
        ...

    async def ready(self) -> None:
        """Waits until the session is connected.

        Raises:
            SessionError: the client was closed, or its credentials were refused.
        """
        ...
