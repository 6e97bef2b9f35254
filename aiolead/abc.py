"""The client interface: what recipes need from a client; they use nothing else of it.

`aiolead.Client` implements it; an adapter around another library's client may, too. Everything here
belongs to one event loop, except where other threads and forked children are named.
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
    "HoldOwner",
    "Lease",
    "Reply",
    "Transaction",
    "Watch",
    "WatchStream",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reply(Protocol[T_co]):
    """The answer to a request, which was handed over when the method was called.

    Replies may be awaited in any order, each any number of times.
    """

    def __await__(self) -> Generator[Any, Any, T_co]:
        """Wait for the answer.

        Cancellation abandons the answer, not the request, which may still be applied. On connection
        loss, a read is sent again; a write that was sent raises `ConnectionLossError` with the
        outcome `UNKNOWN` and is not sent again.

        An answer that has arrived is returned without a turn of the event loop, the first time. A
        cancelled task does not get it; on asyncio, a task that cancels itself between two such
        answers notices that when it next waits.
        """
        ...

    @property
    def is_done(self) -> bool:
        """Whether the answer or the error has arrived."""
        ...

    def result(self) -> T_co:
        """Return the answer or raise the error; only once `is_done`."""
        ...

    def error(self) -> AioleadError | None:
        """Return the error, or None for an answer; only once `is_done`."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback for the answer or error; call it at once if that has arrived.

        The callback runs synchronously in the client's task and must be quick. The client logs its
        exceptions.
        """
        ...


class Watch(Protocol):
    """A one-shot watch: made by a client, armed by passing it to a read.

    The client re-arms it after a reconnect, relative to what it had seen. It fires at most once per
    arming; another read arms it again. When its session ends, it reports an event of type `NONE`.
    """

    @property
    def event(self) -> WatchEvent | None:
        """The event that fired; None while no server has reported one."""
        ...

    @property
    def is_armed(self) -> bool:
        """Whether a server watches now. Only then does silence mean that nothing happened."""
        ...

    async def wait(self) -> WatchEvent:
        """Wait for the event; return at once if it has fired already.

        All waiting tasks get it. Raises `UsageError` if it was already returned and the watch not
        armed again by another read, or if the watch was closed before it fired. Cancellation leaves
        the watch armed, and its event for the next `wait`. On connection loss, the wait goes on;
        events that happened meanwhile are reported afterwards.
        """
        ...

    def close(self) -> None:
        """Remove the watch; from the server, too, unless this client has another one there."""
        ...


class WatchStream(Protocol):
    """Every event of a persistent watch, in order, with `Missed` where some may be missing.

    A context manager, entered once. Entering waits until the server watches.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[WatchEvent | Missed]: ...

    async def __anext__(self) -> WatchEvent | Missed:
        """Return the next event. Cancellation loses none; the client's end raises its error."""
        ...


class Transaction(Protocol):
    """Several writes, applied together or not at all.

    Each method adds an operation; `commit`, or awaiting the transaction, sends them, once.
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
        """Send it. A create is answered by its path, a set by its `Stat`, the others by None.

        The answer raises `TransactionError` if an operation failed, so that none was applied;
        behind a fence, `Fenced` if the guard was gone. After a lost connection, the outcome is
        UNKNOWN.
        """
        ...

    def __await__(self) -> Generator[Any, Any, list[str | Stat | None]]: ...


class Hold(Protocol):
    """A znode that is held under the lease; see `Lease.hold`. Not for other threads."""

    def lose(self, reason: LossReason) -> None:
        """End the hold as if the lease had run out: `lost` is called with the reason."""
        ...

    def release(self) -> None:
        """End the hold: its znode is no longer confirmed, and `lost` no longer called."""
        ...


class HoldOwner(Protocol):
    """Notified of what happens to a hold: synchronously, and of each at most once."""

    def hold_settled(self) -> object:
        """The hold lasts for a moment already, and is renewed from now on."""
        ...

    def hold_lost(self, reason: LossReason, /) -> object:
        """The hold has ended without its holder's doing."""
        ...


class Lease(Protocol):
    """The client's own, pessimistic estimate of how long the session surely lasts.

    While anything is held, it is renewed through the quorum: one transaction per session, for any
    number of znodes. Times are seconds on the lease's own monotonic clock.

    Threads and forks: any thread may read it, and call `expire`; `hold` raises
    `UsageError` outside of the client's event loop. In a forked child nothing is left of it.
    """

    @property
    def deadline(self) -> float:
        """When holders must begin to stop: the proven end, less clock drift and grace period.

        If a session holds many znodes, their holders are notified before that, one after the other.
        """
        ...

    def remaining(self) -> float:
        """Return the seconds until `deadline`, as of this call; never below 0.

        Any thread may call it. In a forked child it is 0.0.
        """
        ...

    def expire(self) -> None:
        """End the holds whose lease is over by the clock: at once in a task of the client's event
        loop; elsewhere, in any thread or callback, wake the event loop to do it, if it still runs.
        """
        ...

    def is_enough(self) -> bool:
        """Return whether a hold may begin: there is time to answer its first renewal.

        False in a forked child.

        Raises `TooManyHoldsError` if the session has as many holds as it could lose in time.
        """
        ...

    def hold(
        self,
        path: str,
        owner: HoldOwner,
        *,
        urgent: bool = False,
        resign_on_disconnect: bool = False,
    ) -> Hold:
        """Register a held znode, whose existence each renewal checks.

        The client does not end the session before every lost hold was released with `Hold.release`.

        Args:
            path: the znode.
            owner: notified of what happens to the hold, until it is released.
            urgent: whether it settles, and is renewed, at once.
            resign_on_disconnect: whether a lost connection ends the hold, rather than the lease's
                end.
        """
        ...


class FencedClient(Protocol):
    """Writes that the server applies only while the guarding znode exists.

    Each raises `Fenced` if it does not, and otherwise what the same call of the client raises.
    `create` returns the znode's path.
    """

    def transaction(self) -> Transaction:
        """Return a transaction: several writes, applied together or not at all."""
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
    """Where recipes emit events; see `aiolead.events` and `docs/how-to/observability.md`."""

    def wants(self, level: int) -> bool:
        """Return whether anyone wants events of that `logging` level. Cheap: called before each."""
        ...

    @property
    def now(self) -> Callable[[], float]:
        """A monotonic clock: call it for seconds, to get durations. A method will do."""
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
        """Emit an event. Never raises.

        `level` is one of `logging`, `path` is below the client's chroot, `fields` has more values
        by name.
        """
        ...


class Backend(Protocol):
    """The part of a client for recipes and adapters; applications do not need it.

    It concerns one session. Paths are those of the client that it belongs to.

    Threads and forks: any thread may read the properties, and call `full_path` and `unlimited`;
    everything else raises `UsageError` outside of the client's event loop.
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

        If so, a znode that the session owns is not necessarily the recipe's own.
        """
        ...

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the client's. Then nothing is held here."""
        ...

    def check_home(self) -> None:
        """Return in the event loop, thread and process of the client; else raise `UsageError`."""
        ...

    @property
    def is_session_passed_on(self) -> bool:
        """Whether another process may have the session, too: `connect(resume=)`."""
        ...

    def sole_in(self) -> float:
        """Return in how many seconds no other process can hold anything under the session.

        Another process that has the session has lost its connection by the time that this client's
        handshake was answered. So its lease ends within a session timeout of that answer. 0.0 if
        no other process may have the session; `inf` without a connection.
        """
        ...

    def unlimited(self) -> CoordinationClient:
        """Return the same client without its limits, for the few requests of a recipe.

        A client that never refuses requests for lack of room returns itself.
        """
        ...

    def full_path(self, path: str) -> str:
        """Return a znode's path on the servers, which is the same whatever the chroot."""
        ...

    def serial(self) -> int:
        """Return a number that this client, in all its views, gives only once: for unique names."""
        ...

    def gave(self, serial: int) -> bool:
        """Return whether `serial` of this client has returned a number.

        Other processes that have its session give others.
        """
        ...

    def shared(self, path: str | None, make: Callable[[], T]) -> T:
        """Return the object that everybody on this session shares for a path and a `make`.

        It is made if there is none; the path counts as in `full_path`, and None stands for all
        paths. It is kept while anybody has it, and for a while longer, for programs that make a new
        `Lock` for each use.
        """
        ...

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Return a one-shot watch that is not armed yet.

        `on_event` is called synchronously, in the client's task, as the event arrives; it must be
        quick. Its exceptions are logged.
        """
        ...

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        """Report every change of state, in order, with the session id that it concerns.

        The callback runs synchronously, in the client's task; its exceptions are only logged.
        Returns a function that ends the subscription.
        """
        ...

    def check_connected(self) -> None:
        """Return if the session is connected; never wait.

        Raises `ConnectionLossError` if it is not, with the reason as far as it is known, and
        `SessionError` if the client was closed or its credentials were refused.
        """
        ...

    def spawn(
        self,
        job: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object] | None = None,
    ) -> None:
        """Run a job, an async function without arguments, that must outlive its caller.

        It runs in a task of the client's own, which only cancel scopes cancel: bound its waits by
        anyio, not by `asyncio.timeout`. The end of the client cancels it at its next await;
        it runs at least to its first one, so that its `finally` runs. Its exceptions end nothing
        but the job. Without effect once `state` is final.

        `on_end` is called synchronously, once: with None if the job returned; with the
        `AioleadError` that it raised; with an `InternalError` for any other exception, which the
        client logs with its traceback; with a `ClientClosedError` if the end of the client
        cancelled it. Without `on_end`, an `AioleadError` is logged as well.
        """
        ...


@runtime_checkable
class CoordinationClient(Protocol):
    """A session with an ensemble.

    Requests are sent and answered in the order of the calls. The call itself hands the request
    over: several calls without an await between them leave in one segment. While the connection is
    down, a request waits for it, for the session timeout at most.
    """

    @property
    def backend(self) -> Backend:
        """The part for recipes and adapters; one object for the life of the client."""
        ...

    @property
    def session_id(self) -> int:
        """The current session; 0 before the first one."""
        ...

    @property
    def session_timeout(self) -> float:
        """The timeout asked for or the one granted, whichever is less, in seconds: a bound for
        waits.
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
        """Ask the quorum, by a transaction, whether a znode exists and has the version."""
        ...

    def transaction(self) -> Transaction: ...

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> FencedClient:
        """Return writes that are applied only while the znode `guard` exists, in this session only.

        `gone` is asked before each write whether the guard is known to be gone.
        """
        ...

    def watch(self, path: str, *, recursive: bool = False) -> WatchStream:
        """Return the events of a znode, or of a whole tree, as a stream.

        Entering it raises `UnsupportedError` if the server (before 3.6) or the client has no
        persistent watches.
        """
        ...

    async def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Create a znode and its missing parents, if it does not exist."""
        ...

    def pipelined(self) -> AbstractContextManager[None]:
        """Return a context manager: requests made in its body leave together, where they can.

        `contextlib.nullcontext()` will do. The body must not await.
        """
        ...

    async def ready(self) -> None:
        """Wait until the session is connected.

        Raises `SessionError` if the client was closed, or its credentials were refused.
        """
        ...
