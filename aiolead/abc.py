"""The client interface: what recipes need from a client; they use nothing else of it.

`aiolead.Client` implements it; an adapter around another library's client may, too. The methods
without a docstring are those of `aiolead.Client` and `aiolead.types` (`Transaction`, `Fence`,
`ClientWatch`, `WatchStream`), which say what they do, raise and promise. Everything belongs to one
event loop, except where other threads and forked children are named. Callbacks run synchronously,
in the client's task, and must be quick; their exceptions are logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

from .errors import AioleadError, LossReason
from .events import EventHook
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
CreatedT_co = TypeVar("CreatedT_co", covariant=True)
DeletedT_co = TypeVar("DeletedT_co", covariant=True)
SetT_co = TypeVar("SetT_co", covariant=True)


class Reply(Protocol[T_co]):
    """The answer to a request. `aiolead.Client` describes cancellation and connection loss.

    Replies may be awaited in any order, each any number of times. An answer that has arrived is
    returned without a turn of the event loop, the first time. A cancelled task does not get it; on
    asyncio, a task that cancels itself between two such answers notices that when it next waits.
    """

    def __await__(self) -> Generator[Any, Any, T_co]: ...
    @property
    def is_done(self) -> bool: ...
    def result(self) -> T_co:
        """Return the answer or raise the error; only once `is_done`."""
        ...

    def error(self) -> AioleadError | None:
        """Return the error, or None for an answer; only once `is_done`."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback for the answer or error; call it at once if that has arrived."""


class Watch(Protocol):
    @property
    def event(self) -> WatchEvent | None: ...
    @property
    def is_armed(self) -> bool: ...
    async def wait(self) -> WatchEvent: ...
    def close(self) -> None: ...


class WatchStream(
    AsyncIterable[WatchEvent | Missed], AbstractAsyncContextManager["WatchStream"], Protocol
): ...


class Writes(Protocol[CreatedT_co, DeletedT_co, SetT_co]):
    """The writes of a client, of its transactions, and of its fences."""

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> CreatedT_co: ...
    def delete(self, path: str, *, version: int = -1) -> DeletedT_co: ...
    def set(self, path: str, data: bytes, *, version: int = -1) -> SetT_co: ...


class Transaction(Writes["Transaction", "Transaction", "Transaction"], Protocol):
    def check(self, path: str, *, version: int = -1) -> Transaction: ...
    def commit(self) -> Reply[list[str | Stat | None]]: ...
    def __await__(self) -> Generator[Any, Any, list[str | Stat | None]]: ...


class FencedClient(
    Writes[Coroutine[Any, Any, str], Coroutine[Any, Any, None], Coroutine[Any, Any, Stat]], Protocol
):
    def transaction(self) -> Transaction: ...


class Hold(Protocol):
    """A znode that is held under the lease. Not for other threads."""

    def lose(self, reason: LossReason) -> None:
        """End the hold as if the lease had run out: its owner is notified of the loss."""

    def release(self) -> None:
        """End the hold: its znode is no longer confirmed, and its owner no longer notified."""


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
    number of znodes. Times are seconds on the lease's own monotonic clock. Any thread may use it,
    except for `hold`. In a forked child, nothing is left of it.
    """

    @property
    def deadline(self) -> float:
        """When holders must begin to stop: the proven end, less clock drift and grace period.

        If a session holds many znodes, their holders are notified before that, one after the other.
        """
        ...

    def remaining(self) -> float:
        """Return the seconds until `deadline`, as of this call; never below 0."""
        ...

    def expire(self) -> None:
        """End the holds whose lease is over by the clock: at once in a task of the client's event
        loop; elsewhere, in any thread or callback, wake the event loop to do it, if it still runs.
        """

    def is_enough(self) -> bool:
        """Return whether a hold may begin: there is time to answer its first renewal.

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

        The owner is notified until the hold is released. An `urgent` hold settles, and is renewed,
        at once. With `resign_on_disconnect`, a lost connection ends it. The client does not end the
        session before every lost hold was released.
        """
        ...


class Backend(Protocol):
    """The part of a client for recipes and adapters; applications do not need it.

    It concerns one session. Paths are those of the client that it belongs to. Any thread may read
    the properties, and call `full_path` and `unlimited`; everything else raises `UsageError`
    outside of the client's event loop.
    """

    @property
    def lease(self) -> Lease: ...
    @property
    def events(self) -> EventHook: ...
    @property
    def last_zxid(self) -> int:
        """The newest transaction that an answer to this client has shown."""
        ...

    @property
    def is_session_shared(self) -> bool:
        """Whether another library creates znodes in the session, as with `adapters.aiozk`."""
        ...

    @property
    def is_session_passed_on(self) -> bool:
        """Whether another process may have the session, too: `connect(resume=)`."""
        ...

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the client's. Then nothing is held here."""
        ...

    def sole_in(self) -> float:
        """Return in how many seconds no other process can hold anything under the session.

        Another process that has the session has lost its connection by the time that this client's
        handshake was answered. So its lease ends within a session timeout of that answer. 0.0 if no
        other process may have the session; `inf` without a connection.
        """
        ...

    def bind(self, reply: Reply[T]) -> Reply[T]:
        """Bind a request that was just made to the present connection, and return it.

        If the connection is lost before it was sent, it raises `ConnectionLossError` with the
        outcome `NOT_APPLIED`, rather than wait for the next connection.
        """
        ...

    def unlimited(self) -> CoordinationClient:
        """Return the same client, as one that never refuses requests for lack of room."""
        ...

    def full_path(self, path: str) -> str:
        """Return a znode's path on the servers, which is the same whatever the chroot."""
        ...

    def serial(self) -> int:
        """Return a number that this client, in all its views, gives only once: for unique names."""
        ...

    def gave(self, serial: int) -> bool:
        """Return whether `serial` of this client, not of another process, has returned a number."""
        ...

    def shared(self, path: str | None, make: Callable[[], T]) -> T:
        """Return the object that everybody on this session shares for a path and a `make`.

        It is made if there is none; the path counts as in `full_path`, and None stands for all
        paths. It is kept while anybody has it, and for a while longer, for programs that make a new
        `Lock` for each use.
        """
        ...

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Return a one-shot watch that is not armed yet: pass it to a read.

        `on_event` is called as the event arrives; most callers await `watch.wait()` instead.
        """
        ...

    def join_watch(
        self, path: str, on_event: Callable[[WatchEvent], object] | None = None
    ) -> Watch | None:
        """Return a watch on a znode's data that is armed beside others of this client.

        Nothing is sent: the server watches already. None if it does not, as far as is known.
        """
        ...

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        """Report every change of state, in order, with the session id that it concerns.

        Returns a function that ends the subscription. Applications use `Client.observe`.
        """
        ...

    def check_home(self) -> None:
        """Return in the event loop, thread and process of the client; else raise `UsageError`."""

    def check_connected(self) -> None:
        """Return if the session is connected; never wait.

        Raises `ConnectionLossError` if it is not, with the reason as far as it is known, and
        `SessionError` if the client was closed or its credentials were refused.
        """

    def spawn(
        self,
        job: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object] | None = None,
    ) -> None:
        """Run a job, an async function without arguments, that must outlive its caller.

        It runs in a task of the client's own, which only cancel scopes cancel: bound its waits by
        anyio, not by `asyncio.timeout`. The end of the client cancels it at its next await, but not
        before its first one, so that its `finally` runs. Without effect once `state` is final.

        `on_end` is called once: with None if the job returned, or with its error. That is an
        `InternalError` for an exception that is no `AioleadError`, which the client logs with its
        traceback, and a `ClientClosedError` if the end of the client cancelled the job. Without
        `on_end`, an `AioleadError` is logged as well.
        """


@runtime_checkable
class CoordinationClient(Writes[Reply[Created], Reply[None], Reply[Stat]], Protocol):
    """A session with an ensemble; `backend` is one object for the life of the client.

    Requests are sent and answered in the order of the calls. The call itself hands the request
    over: several calls without an await between them leave in one segment, or at least in order.
    While the connection is down, a request waits for it, for the session timeout at most.
    """

    @property
    def backend(self) -> Backend: ...
    @property
    def session_id(self) -> int: ...
    @property
    def session_timeout(self) -> float: ...
    @property
    def state(self) -> SessionState: ...
    def exists(self, path: str, *, watch: Watch | None = None) -> Reply[Stat | None]: ...
    def get(self, path: str, *, watch: Watch | None = None) -> Reply[tuple[bytes, Stat]]: ...
    def get_children(self, path: str, *, watch: Watch | None = None) -> Reply[list[str]]: ...
    def sync(self, path: str = "/") -> Reply[None]: ...
    def check(self, path: str, *, version: int = -1) -> Reply[None]: ...
    def transaction(self) -> Transaction: ...
    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> FencedClient: ...
    def watch(self, path: str, *, recursive: bool = False) -> WatchStream: ...
    async def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    async def ready(self) -> None: ...
    def pipelined(self) -> AbstractContextManager[None]: ...
