"""aiolead for programs without an event loop: the same names, called and entered from threads.

    from aiolead import blocking

    with blocking.connect("zk1,zk2,zk3/app") as client:
        lock = blocking.Lock(client, "/invoices")
        with lock as held:
            for invoice in invoices:
                held.check()
                send(invoice)

The client and the recipes of `aiolead` run in an event loop in a thread of its own. Nothing cancels
a thread: `held.check()`, `held.lost` and `on_lost` report a loss.
"""

# Written by `python -m tests.tools.write_blocking`: do not edit. Each class stands for the async
# class of its name, has its signatures and docstrings, and passes calls on to the object in the
# event loop. `_proxy` has what is written by hand, `_loop` the thread with the event loop, `_inbox`
# the way into it, and `_thread_task` the task that acts for a thread.
# ruff: noqa: D417, F401
# mypy: disable-error-code="no-any-return"
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, final, overload

import aiolead

from ..model import CreateMode
from . import _connect
from ._connect import Connection
from ._proxy import (
    Block,
    ClientBase,
    Context,
    ElectionBase,
    HoldBase,
    HoldContext,
    Later,
    Proxy,
    ReadsBase,
    TenureBase,
)

if TYPE_CHECKING:
    import random
    import ssl

    from .. import (
        ACL,
        SASL,
        TLS,
        Auth,
        Hosts,
        Limits,
        Phase,
        ServiceInstance,
        SessionGuardian,
        TenureLost,
        Watchdog,
    )
    from ..errors import InvalidDataError, LossReason
    from ..events import EventSink
    from ..model import (
        Created,
        Missed,
        Participant,
        SessionCredentials,
        SessionState,
        Stat,
        WatchEvent,
    )
    from ..testing import Hooks
    from ..types import (
        ClientStatistics,
        Codec,
        ConfigVersion,
        DeadLetter,
        DownPolicy,
        ElectionState,
        Layout,
        Member,
        MemberChange,
        NodeState,
        Published,
        SessionChange,
        Strategy,
        TaskResult,
        TaskState,
        TenureStatistics,
        TreeEvent,
        TreeNode,
        Versioned,
    )
else:
    Layout = Later("Layout")
__all__ = [
    "Barrier",
    "BarrierMember",
    "BoardView",
    "Campaign",
    "CampaignState",
    "ChildrenView",
    "Claimed",
    "Client",
    "Condition",
    "ConditionHeld",
    "Config",
    "ConfigView",
    "Connection",
    "Consumption",
    "Counter",
    "DataView",
    "DelayQueue",
    "DoubleBarrier",
    "Election",
    "ElectionObserver",
    "ExclusiveLock",
    "Fence",
    "FencedTransaction",
    "Group",
    "Held",
    "HeldName",
    "Lock",
    "MembersView",
    "Membership",
    "MultiHeld",
    "MultiLock",
    "Once",
    "PersistentNode",
    "Picker",
    "PriorityQueue",
    "Queue",
    "QueueItem",
    "RateLimit",
    "ReadLock",
    "ReadWriteLock",
    "Reads",
    "ReentrantLock",
    "Registration",
    "Run",
    "Semaphore",
    "SequenceAllocator",
    "ServiceRegistry",
    "ServiceView",
    "SessionStates",
    "SharedValue",
    "SharedValueView",
    "Task",
    "TaskBoard",
    "Tenure",
    "TenureContext",
    "Term",
    "Transaction",
    "TreeCache",
    "TreeEvents",
    "UniqueNames",
    "View",
    "WatchStream",
    "WriteHeld",
    "WriteLock",
    "connect",
]
C = TypeVar("C")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    P = DefaultTypeVar("P", default=dict[str, bytes])
else:
    P = TypeVar("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    V = DefaultTypeVar("V", default=bytes)
else:
    V = TypeVar("V")


def __getattr__(name: str) -> ModuleType:
    if name != "admin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return importlib.import_module(f"{__name__}.admin")


def __dir__() -> list[str]:
    return [*__all__, "admin"]


@final
class Barrier(Proxy):
    """A barrier that any process sets and removes, and that others wait at while it is set.

        barrier = Barrier(client, "/maintenance")
        barrier.set()
        ...
        barrier.remove()      # other processes: barrier.wait()

    It stays set until a process removes it, whatever happens to the process that set it.

    Args:
        client: the session.
        path: the znode that exists while the barrier is set; missing parents become containers.
        acl: of the znode and of the parents; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.Barrier

    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None:
        self._make(aiolead.Barrier, client, path, acl=acl)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def set(self) -> None:
        """Set the barrier. No effect if it is set.

        On connection loss: raises `ConnectionLossError`, which says whether it may be set. It is
        safe to retry. Cancellation: it may be set all the same.
        """
        return self._loop.call(lambda: self._target.set())

    def remove(self) -> None:
        """Remove the barrier: every waiter goes on. No effect if it is not set.

        Raises `NotEmptyError` if others have put znodes below it: it stays set until those are
        deleted.

        On connection loss, cancellation: as for `set`.
        """
        return self._loop.call(lambda: self._target.remove())

    def is_set(self) -> bool:
        """Whether the barrier is set. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.is_set())

    def wait(self) -> None:
        """Wait until the barrier is removed; return at once if it is not set.

        A lagging server lets no client through: the quorum is asked first, by a write that changes
        nothing. A removal counts even if the barrier is set again at once, and if it comes during a
        lost connection or between two sessions.

        Raises:
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: stops waiting.
        """
        return self._loop.call(lambda: self._target.wait())


class Tenure(TenureBase):
    """One uninterrupted hold. Any thread may use it.

    In a forked child it is not held, and what would ask the servers raises `UsageError`.

    Attributes:
        lost: a `threading.Event`, set as soon as the loss is known. A release does not set it.
    """

    _target: aiolead.types.Tenure

    @property
    def path(self) -> str:
        """The holder's znode."""
        return self._target.path

    @property
    def token(self) -> int:
        """The fencing token: rises with every tenure, and is never used twice.

        It is the zxid that created the holder's znode. A store that the holder writes to should
        refuse a token smaller than the last one it has seen: a suspended process cannot know that
        it has lost its tenure until it runs again.
        """
        return self._target.token

    @property
    def identity(self) -> str:
        """The holder's name, as others see it."""
        return self._target.identity

    @property
    def session_id(self) -> int:
        """The session that owns the holder's znode."""
        return self._target.session_id

    @property
    def is_released(self) -> bool:
        """Whether it was released (`release`, `resign`) before its body had ended."""
        return self._target.is_released

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and after a release.

        By the clock, as `is_held`: `UNCONFIRMED` from the end of the lease on, although the event
        loop may be blocked and has not cancelled the body yet.
        """
        return self._target.loss

    def verify(self) -> None:
        """Return if the quorum confirms, in one round trip, that it is held.

        Raises:
            TenureLost, UsageError: as for `check`.
            ConnectionLossError: the connection was lost before the answer came; ask again.
        """
        return self._loop.call(lambda: self._target.verify())

    def fenced(self) -> Fence:
        """A client whose writes the ensemble refuses (`Fenced`) once the holder's znode is gone."""
        return self._wrap(self._target.fenced())

    def release(self) -> None:
        """Release it before the body has ended. The body goes on, but holds nothing any more.

        Returns when the servers have confirmed it, or after a third of the session timeout; the
        client then deletes the znode as soon as it can.

        Raises:
            ReleaseError: the servers refuse to delete the znode.

        Cancellation: it is released all the same.
        """
        return self._loop.call(lambda: self._target.release())

    @property
    def is_revocation_requested(self) -> bool:
        """Whether others ask for a release (`revoke`). False if the recipe has no `revoke`."""
        return self._target.is_revocation_requested

    def statistics(self) -> TenureStatistics:
        """The state of the tenure, as known here, without asking a server."""
        return self._loop.ask(lambda: self._target.statistics())


class BarrierMember(Tenure):
    """One unbroken time inside a double barrier."""

    _target: aiolead.types.BarrierMember

    @property
    def round(self) -> int:
        """The number of the round: the same for all its members, and greater for later rounds."""
        return self._target.round


class View(Block, Generic[T]):
    """The latest value of something on the servers, and an iterator over its changes.

    The latest value wins: a slow reader may skip values, never the last one. Each iteration has its
    own position and begins with the present value. It lasts as long as the client, and then raises
    `ClientClosedError` or `AuthFailedError`. A permanent refusal, such as `NoAuthError`, ends it,
    too.

    A context manager, to be entered once. Entering waits for the first value, over as many
    connections as it takes, and raises what a read would; leaving closes the watches.

    Cancellation: a cancelled wait loses no value. On connection loss, and in the next session after
    an expiry: reads again, and reports what has changed. If the reply is longer than
    `Limits.max_reply`, entering raises `RequestRefusedError`; an open view keeps its value, is not
    live, and reads again after growing pauses.
    """

    _target: aiolead.types.View[Any]

    def __iter__(self) -> Iterator[T]:
        return self._iterator()

    @property
    def value(self) -> T:
        """The latest value; `UsageError` if the view is not open yet."""
        return self._loop.ask(lambda: self._wrap(self._target.value))

    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""
        return self._target.is_live

    def __enter__(self) -> Self:
        return self._enter()


@final
class BoardView(View["Mapping[str, TaskState]"]):
    """All tasks with their states, by name, in the order of submission. See `View`.

    Reads only what has changed: a worker's report costs one read; a claim, and its end, two.
    """

    _target: aiolead.types.BoardView


@final
class Campaign(Block):
    """A view of a campaign's states: `with election.campaign() as view`.

    FOLLOWING, then LEADING (with the term), then SUSPENDED and LEADING as the connection comes and
    goes, then LOST (with the reason) and FOLLOWING again, or RESIGNED after `term.resign()`. The
    latest state wins: a slow reader may skip states, but sees by the term's token that it is
    another term. Each iteration begins with the present state.

    A standby may warm up when its `rank` is 1; a leader's is 0. The first two waiters watch all
    before them, so their rank is exact. Those further back watch their nearest neighbours only, to
    avoid the herd effect: their rank is that of their last listing, and may be less by now. A named
    successor (`term.hand_over`, `election.revoke`) gets rank 1.

    Leaving the context manager resigns, or leaves the queue.

    Raises (from the iteration):
        MixedLayoutError: a neighbour in the queue and we would not exclude each other.
        SequenceExhaustedError: the path has no more numbers.
        ServerError: the server's answer to the create, such as `NoAuthError`.
        SessionError: the client was closed, or its credentials were refused.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete the znode, and the body ended normally.
    """

    _target: aiolead.types.Campaign

    def __iter__(self) -> Iterator[CampaignState]:
        return self._iterator()

    @property
    def value(self) -> CampaignState:
        """The latest value; `UsageError` if the view is not open yet."""
        return self._loop.ask(lambda: self._wrap(self._target.value))

    @property
    def is_live(self) -> bool:
        """Whether a change of the value would be reported now. False in a forked child."""
        return self._target.is_live

    def __enter__(self) -> Self:
        return self._enter()

    def set_ready(self) -> None:
        """Report that this contender can lead, after `campaign(ready=False)`.

        A leader that hands over to it, or is asked to, waits for that. It stays so for the whole
        campaign. Returns once the servers have it, or at once while there is no znode.

        Raises `ServerError` if they refuse it, such as `NoAuthError`.

        Cancellation: it may not be reported; call it again. On connection loss: goes on.
        """
        return self._loop.call(lambda: self._target.set_ready())


class CampaignState(Proxy):
    """A state of a campaign."""

    _target: aiolead.types.CampaignState

    @property
    def is_next(self) -> bool:
        """Whether this contender leads as soon as one before it leaves."""
        return self._target.is_next

    @property
    def token(self) -> int | None:
        """The fencing token of the term; None while following."""
        return self._target.token

    @property
    def phase(self) -> Phase:
        """See `CampaignState`."""
        return self._target.phase

    @property
    def rank(self) -> int | None:
        """See `CampaignState`."""
        return self._target.rank

    @property
    def reason(self) -> LossReason | None:
        """See `CampaignState`."""
        return self._target.reason

    @property
    def session_id(self) -> int:
        """See `CampaignState`."""
        return self._target.session_id

    @property
    def term(self) -> Term | None:
        """See `CampaignState`."""
        return self._loop.ask(lambda: self._wrap(self._target.term))


@final
class ChildrenView(View["list[str] | None"]):
    """The latest children of a znode, sorted; None while it does not exist.

    It also works over a read-only server, if the client accepts one. See `View`.
    """

    _target: aiolead.types.ChildrenView


class Claimed(Tenure, Generic[V]):
    """An item held under a claim: a `QueueItem`, or a `Task`."""

    _target: aiolead.types.Claimed[Any]

    @property
    def name(self) -> str:
        """The name of the item, and of its claim, on the servers."""
        return self._target.name

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts of the item: one, unless Curator's `putMulti` wrote it."""
        return self._target.parts

    @property
    def data(self) -> bytes:
        """The data of the item; raises `UsageError` unless it has exactly one part (`parts`)."""
        return self._target.data

    @property
    def value(self) -> V:
        """The data of the item, as the recipe's `codec` decodes them; otherwise as `data`."""
        return self._loop.ask(lambda: self._wrap(self._target.value))

    @property
    def attempts(self) -> int:
        """How often the item was claimed so far, this time included.

        Every claim counts, also if its consumer died or was cancelled before it had the item. The
        claims of Curator's consumers do not count, nor those of an item whose ACL forbids to create
        or delete znodes below it. Znodes that others have put below the item count, too.
        """
        return self._target.attempts

    def retry(self, *, delay: float | None = None, reason: str = "") -> None:
        """Release the item before the body has ended, for another attempt after a pause.

        After the last attempt (`max_attempts`) the item is given up instead, with `reason`.

        `delay` is the pause in seconds, 0 for none. By default it is that of an item whose body
        ends without finishing it (see `retry_pause`). The pause ends early if the client is closed,
        or its session expires. The body goes on, but holds nothing.

        Raises:
            ClaimLost: the claim was lost.
            UsageError: the item was released, or finished.

        Cancellation, on connection loss: the item is released all the same.
        """
        return self._loop.call(lambda: self._target.retry(delay=delay, reason=reason))


@final
class Client(ClientBase):
    """A session with a ZooKeeper ensemble, for any number of threads. Made by `blocking.connect`.

    Each operation waits for its answer, and raises what that of `blocking.Client` raises. `call`
    awaits whatever is not here.

    Raises:
        UsageError: in a forked child, or in a thread that runs an event loop; nothing was sent.
        ClientClosedError: the client was closed.
        TenureLost: this thread is in the body of something that is lost; nothing was sent.
    """

    _target: aiolead.Client

    @property
    def session_id(self) -> int:
        """The current session; 0 while there is none."""
        return self._target.session_id

    @property
    def session_timeout(self) -> float:
        """The timeout asked for or the one granted, whichever is less, in seconds.

        No wait of the client or its recipes is longer. Servers keep the session of a dead client
        for the granted timeout, which `statistics()` has.
        """
        return self._target.session_timeout

    @property
    def state(self) -> SessionState:
        """The state of the session; `CLOSED` in a forked child, which has none."""
        return self._target.state

    @property
    def credentials(self) -> SessionCredentials:
        """The credentials with which another client, in any process, can continue the session.

        The two take the session from each other if they run at the same time. For one session
        timeout after it has connected, each treats what the other has in the session as another
        client's. Neither closes the session, since the other may hold something under it: once this
        was read, the session ends when it times out. Raises `UsageError` without a session, if a
        read-only server has made it up, and outside of the client's event loop.
        """
        return self._loop.begin(lambda: self._target.credentials)

    def detach(self) -> SessionCredentials:
        """Let the present session outlive the client, and return its `credentials`.

        Leaving does not close it, but whatever is still held then is lost first, as always. Its
        other ephemeral znodes live until the session timeout has passed, or as long as
        `connect(resume=)` continues it. If the session expires before the client is closed, the one
        that follows is closed as usual. Raises `UsageError` without a session.
        """
        return self._loop.begin(lambda: self._target.detach())

    def healthy(self, max_unconfirmed: float | None = None) -> bool:
        """Return whether the servers have confirmed recently that this client is well.

        For health probes (`docs/how-to/frameworks.md`); asks no server. These must be recent:

        * While something is held: the quorum's confirmation, which stops, for instance, when our
          server is partitioned from the others.
        * While a lost hold is not released: the last confirmation before the loss. So a body that
          ignores its cancellation shows.
        * Otherwise, for instance while waiting for a lock: any answer of the server in this
          session.

        False without a session: before the first one, after an expiry until the next one has begun,
        on a read-only server, once the client is closed, in a forked child.

        Args:
            max_unconfirmed: in seconds; defaults to the session timeout, after which the servers
                may have ended the session. A healthy holder is confirmed within half of that and a
                round trip: with less, the answer is sometimes false.

        Raises:
            ConfigurationError: `max_unconfirmed` is no number of seconds, or more than a day.
        """
        return self._target.healthy(max_unconfirmed)

    def statistics(self) -> ClientStatistics:
        """Return the state of session, connections, requests and lease; asks no server.

        In a forked child, that of a closed client that holds nothing.
        """
        return self._loop.ask(lambda: self._target.statistics())

    def observe(self) -> SessionStates:
        """Return the session's states, from the present one on, as an iterator."""
        return self._loop.begin(lambda: self._wrap(self._target.observe()))

    def update_hosts(self, hosts: str | Sequence[str]) -> None:
        """Replace the list of servers, by a connect string or a list of its parts.

        A connected client may have to move, so that load stays even: some clients to a new server,
        all away from a removed one. It waits for the answers to what it has sent, for an eighth of
        the session timeout at most; the session goes on. Raises `ConfigurationError` if the list is
        malformed, or has a chroot: the client keeps its own.
        """
        return self._loop.begin(lambda: self._target.update_hosts(hosts))

    def ready(self) -> None:
        """Wait until the session is connected.

        Raises `SessionError` if the client was closed, or its credentials were refused.
        """
        return self._loop.call(lambda: self._target.ready())

    def add_auth(self, auth: Auth) -> None:
        """Present more credentials: to the present server, and on every later connection.

        They count for every request made after this call; the answer says that the server has taken
        them. Without a connection it waits for the next server, for the session timeout at most;
        the credentials are kept even after that.

        Raises:
            AuthFailedError: they were refused, which ends the client, as at `connect`.
            ConnectionLossError: no server received them in time.
        """
        return self._loop.request(lambda: self._target.add_auth(auth))

    def chroot(self, path: str) -> Client:
        """Return a view of what lies under `path`, over the same session."""
        return self._wrap(self._target.chroot(path))

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Created:
        """Create a znode.

        Args:
            path: where; in a sequential mode the server appends ten digits.
            data: its content.
            mode: how long it lives and how it is named.
            acl: its permissions; defaults to the `default_acl` of `connect`.
            ttl: the time to live in seconds, for the modes that have one.

        Returns:
            `Created`, with the path under which it was created.

        Raises:
            NodeExistsError: the path is taken.
            NoNodeError: the parent is missing.
            NoChildrenForEphemeralsError: the parent is ephemeral.
            InvalidACLError, UnimplementedError (a server without TTL znodes).
            TooManyHoldsError: nothing was sent, since the paths of the session's ephemeral znodes
                would be longer than `Limits.max_ephemeral_paths`.
        """
        return self._loop.request(
            lambda: self._target.create(path, data, mode=mode, acl=acl, ttl=ttl)
        )

    def delete(self, path: str, *, version: int = -1) -> None:
        """Delete a znode, if it has the version; with children it raises `NotEmptyError`."""
        return self._loop.request(lambda: self._target.delete(path, version=version))

    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Replace a znode's data, if it has the version; return its new `Stat`."""
        return self._loop.request(lambda: self._target.set(path, data, version=version))

    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace a znode's ACL, if that has the version; return the znode's new `Stat`.

        Raises `InvalidACLError` if the server refuses the new ACL.
        """
        return self._loop.request(lambda: self._target.set_acl(path, acl, version=version))

    def transaction(self) -> Transaction:
        """Return a transaction: several writes, applied together or not at all."""
        return self._wrap(self._target.transaction())

    def check(self, path: str, *, version: int = -1) -> None:
        """Ask the quorum, by a transaction, whether a znode exists and has the version.

        A server partitioned from the quorum can answer a read, but not this.
        """
        return self._loop.request(lambda: self._target.check(path, version=version))

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Return writes that are applied only while the znode `guard` exists, in this session only.

        `gone` is asked before each write whether the guard is known to be gone.
        """
        return self._wrap(self._target.fenced(guard, gone=gone))

    def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Create a znode and its missing parents (the chroot included), if it does not exist.

        The mode, persistent or a container, and the ACL are those of everything that is created.
        Where the servers have no containers, it is persistent instead, which is logged once.
        Raises `NoChildrenForEphemeralsError` below an ephemeral znode.
        """
        return self._loop.call(lambda: self._target.ensure_path(path, mode=mode, acl=acl))

    def exists(self, path: str) -> Stat | None:
        """Return a znode's `Stat`, or None if it does not exist.

        A watch fires when the znode is created or deleted, or its data set.
        """
        return self._loop.request(lambda: self._target.exists(path))

    def get(self, path: str) -> tuple[bytes, Stat]:
        """Return a znode's data and `Stat`.

        A watch fires when the znode is deleted or its data set; it is not armed if this fails. Null
        data, as other clients may write (None in Java and kazoo), is returned as `b""`.
        """
        return self._loop.request(lambda: self._target.get(path))

    def get_children(self, path: str) -> list[str]:
        """Return the names of a znode's children, in no particular order.

        A watch fires when a child is created or deleted, or the znode itself is deleted; it is not
        armed if this fails.
        """
        return self._loop.request(lambda: self._target.get_children(path))

    def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Return the names of a znode's children and its `Stat`; else like `get_children`."""
        return self._loop.request(lambda: self._target.get_children_and_stat(path))

    def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """Return a znode's ACL and `Stat`."""
        return self._loop.request(lambda: self._target.get_acl(path))

    def sync(self, path: str = "/") -> None:
        """Make the connected server catch up with the leader before it answers later requests."""
        return self._loop.request(lambda: self._target.sync(path))

    def get_all_children_number(self, path: str = "/") -> int:
        """Return the number of znodes below a path, at any depth (ZooKeeper 3.6)."""
        return self._loop.call(lambda: self._target.get_all_children_number(path))

    def reads(self) -> Reads:
        """Return several reads in one request, answered as of one moment (ZooKeeper 3.6)."""
        return self._loop.begin(lambda: self._wrap(self._target.reads()))

    def watch(self, path: str, *, recursive: bool = False, max_events: int = 10000) -> WatchStream:
        """Return a znode's events as a stream: `with client.watch(path) as events:`.

        The znode need not exist. The events are `CREATED`, `DELETED`, `DATA_CHANGED` and
        `CHILDREN_CHANGED` of that znode, or, if `recursive`, of the whole tree from there on,
        without `CHILDREN_CHANGED`. Where some may be missing, the stream gives `Missed`.

        Args:
            path: where.
            recursive: whether to include everything below.
            max_events: how many unread events to keep; one more replaces all unread ones by one
                `Missed`. A change of a znode's data or children merges into the unread one before
                it, at no room.

        Raises (on entering):
            UnsupportedError: the server is older than 3.6, does not report its version, or is
                another engine that does not have such watches.
            ConnectionLossError: no server was reached, or it could not be asked for its version.
            SessionExpiredError: the session was over.
        """
        return self._loop.begin(
            lambda: self._wrap(self._target.watch(path, recursive=recursive, max_events=max_events))
        )

    def observe_data(self, path: str) -> DataView:
        """Return a view of a znode's latest data: `with client.observe_data(path) as view:`.

        `for value in view:` gives `(data, Stat)`, or None while the znode does not exist: the
        present value, then each later one. See `View`. Entering raises `NoAuthError` if it may not
        be read.
        """
        return self._loop.begin(lambda: self._wrap(self._target.observe_data(path)))

    def observe_children(self, path: str) -> ChildrenView:
        """Return a view of a znode's children: `with client.observe_children(path) as view:`.

        `for names in view:` gives their names, sorted, or None while the znode does not
        exist: the present ones, then each later state. See `View`. Entering raises `NoAuthError` if
        they may not be read.
        """
        return self._loop.begin(lambda: self._wrap(self._target.observe_children(path)))


@final
class Condition(Block):
    """A lock whose holders can wait until another holder notifies them.

        with condition as held:
            while not is_ready():
                held.wait()  # without the lock meanwhile
            ...

        with condition as held:
            make_it_ready()
            held.notify()

    Like `java.util.concurrent.locks.Condition`, across processes. Waiters are notified first come
    first served. A notification wakes only a waiter that waited when it was given, and among those
    none is lost: if the notifying process dies, it persists; if the notified waiter dies or is
    cancelled, the next one gets it.

    Its lock is a `Lock` at `lock` below the path: a `Lock` of that path contends with it.

    Args: as for `Lock`, without `layout`. A malformed one raises `ConfigurationError`.
    """

    _target: aiolead.Condition

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Condition, client, path, identity=identity, on_disconnect=on_disconnect, acl=acl
        )

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[ConditionHeld]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path of the condition; its lock is at `lock` below it."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> ConditionHeld:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[ConditionHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return self._loop.call(lambda: self._target.revoke())

    def waiters(self) -> list[Participant]:
        """Return the waiters, first come first, including notified ones. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.waiters())


class Held(Tenure):
    """One unbroken time of holding a lock."""

    _target: aiolead.Held


class ConditionHeld(Held):
    """The hold of a condition's lock by the body of a `with`, interrupted by `wait`."""

    _target: aiolead.types.ConditionHeld

    def wait(self, *, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify`, acquire it again; return False after a timeout.

            while not is_ready():
                held.wait()

        It returns once the lock is held again: another hold, with another `token`. Wait in a loop:
        it may return without a `notify`, after an expired session for instance, and what was true
        at the `notify` may have changed.

        Args:
            timeout: how long to wait to be notified, in seconds; None waits forever. It does not
                limit acquiring the lock again. Do not use a cancel scope instead: see Cancellation.

        Raises:
            LockLost: the lock was lost before the wait began.
            ReleaseError: the servers refuse to delete our znode, so nobody can get the lock,
                ourselves included. The whole block is cancelled.
            UsageError: the lock is not held, or another task entered the block.

        Cancellation: the wait ends without the lock, so the whole block is cancelled. If only the
        wait was to be cancelled, leaving the block raises `UsageError`. A notification already
        received goes to the next waiter. On connection loss: the wait continues.
        """
        return self._loop.call(lambda: self._target.wait(timeout=timeout))

    def notify(self, count: int = 1) -> int:
        """Wake the first `count` waiters, or all if there are fewer; return how many were woken.

        They acquire the lock one after the other, once it is free. A notification survives its
        sender. If a waiter dies before it has the lock again, the next one is woken that waited
        already when it was notified. Children of the paths that are no waiters do not count.

        Raises:
            LockLost: the lock is lost.
            Fenced: the servers say that the lock is lost; no further waiter was woken.
            UsageError: the lock is not held.
            ServerError: the servers refused the write, by `NoAuthError` for instance.

        Cancellation: some may have been woken. On connection loss: finds out which ones,
        and continues.
        """
        return self._loop.call(lambda: self._target.notify(count))

    def notify_all(self) -> int:
        """Wake all waiters; otherwise as `notify`."""
        return self._loop.call(lambda: self._target.notify_all())


@final
class Config(Proxy, Generic[P]):
    """A configuration: several keys, published together and observed as one value.

        config = Config(client, "/app/config", parse=Settings.from_keys)
        config.publish({"limit": b"10", "colour": b"red"})
        with config.observe() as view:
            view.value                      # always the current settings
            for settings in view: ...
        config.rollback(3)

    Readers always see the keys of one version together. Before it is published, a configuration is
    validated by the `parse` function of its readers. Any number of tasks may use one object.

    Args:
        path: the path. Nothing else should use what is below it.
        parse: makes the value from all keys; raises any exception if they are invalid. It blocks
            the event loop: keep it quick. Without it, the value is the dict of keys.
        keep: how many versions the history has; defaults to 10.
        identity: the publisher, for the history; defaults to host name and process id.
        on_invalid: called with the error when `observe` skips an invalid version, once for each;
            defaults to a warning in the log. It runs in the client's task: keep it quick. Its
            exceptions are logged.
        max_size: the limit of all keys and values together, in bytes; defaults to 256 KiB.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    _target: aiolead.Config[Any]

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        parse: Callable[[dict[str, bytes]], P] | None = None,
        keep: int = 10,
        identity: str | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        max_size: int = 262144,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Config,
            client,
            path,
            parse=parse,
            keep=keep,
            identity=identity,
            on_invalid=on_invalid,
            max_size=max_size,
            rng=rng,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def get(self) -> Published[P]:
        """Return the configuration. The connected server may lag; see `SharedValue.get`.

        Raises `InvalidDataError` if the present version is invalid.
        """
        return self._loop.call(lambda: self._target.get())

    def observe(self) -> ConfigView[P]:
        """Return a view of the current configuration: `with config.observe() as view`."""
        return self._loop.begin(lambda: self._wrap(self._target.observe()))

    def publish(self, changes: Mapping[str, bytes | None], *, version: int | None = None) -> int:
        """Change some keys, all at once; return the number of the new version.

        Args:
            changes: the new values; None deletes a key. Other keys stay as they are.
            version: the version that this builds upon; defaults to the latest. If another publisher
                is quicker, the changes then apply to its version.

        Raises:
            BadVersionError: the present version is not `version`; nothing was published.
            ConfigurationError: a key or value is malformed, or the result would be invalid or too
                large; nothing was published.
            InvalidDataError: the present version number is invalid, or the last; nothing was
                published.
            NotEmptyError: others have put znodes below a key that would be deleted (`path`);
                nothing was published.

        Cancellation: it may be published. On connection loss: finds out from the history whether it
        was published, and retries if not. Raises `ConnectionLossError` with the outcome `UNKNOWN`
        only if the history does not reach back that far any more.
        """
        return self._loop.call(lambda: self._target.publish(changes, version=version))

    def rollback(self, version: int) -> int:
        """Publish a version of the history as a new one; return the number of the new one.

        Raises:
            NoNodeError: the history does not have `version`, or not any more.
            InvalidDataError: the history's entry, or the present version number, is invalid.
            NotEmptyError: as for `publish`.
            ConfigurationError: it is not valid any more, or too large; nothing was published.

        Cancellation, on connection loss: as `publish`.
        """
        return self._loop.call(lambda: self._target.rollback(version))

    def history(self) -> list[ConfigVersion]:
        """Return the versions in the history, the latest first.

        A version that is published or dropped meanwhile may be missing. Foreign children are
        skipped, with a warning in the log. An old version that others have put znodes below stays,
        with a warning, until those are gone. Raises `InvalidDataError` if the entry of a version is
        invalid: delete the error's `path`.
        """
        return self._loop.call(lambda: self._target.history())


@final
class ConfigView(View["P"]):
    """A view of the current configuration, which is always valid. See `View`.

    An invalid version is skipped, and reported by `invalid` and to the configuration's
    `on_invalid`. Entering raises `InvalidDataError` if the present version is invalid.
    """

    _target: aiolead.types.ConfigView[Any]

    @property
    def version(self) -> int:
        """The version number of `value`; 0 before anything was published."""
        return self._target.version

    @property
    def published(self) -> Published[P]:
        """The configuration with its version."""
        return self._loop.ask(lambda: self._wrap(self._target.published))

    @property
    def invalid(self) -> InvalidDataError | None:
        """The error of the latest version; None if that is valid, and therefore `value`."""
        return self._target.invalid


class Consumption(Context, Generic[C]):
    """Items, claimed one after the other: `with queue.consume() as items`.

    An item is held until the next one is requested or the block is left, and is then released
    unless it was finished. The iteration never ends by itself.

    One cancel scope is around the whole block, since none can be around the body of a `for`.
    So a lost claim ends the block; enter another one to continue.

    Raises (on leaving):
        ClaimLost: a claim was lost, and the cancelled body raised nothing else.

    Cancellation: the item is released. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most.
    """

    _target: aiolead.types.Consumption[Any]

    def __enter__(self) -> Self:
        return self._enter()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> C:
        return self._next()


@final
class Counter(Proxy):
    """A distributed counter. Curator's `DistributedAtomicLong`.

        counter = Counter(client, "/app/jobs")
        total = counter.add(1)

    Each change is a compare-and-set, repeated after a random pause if another client was quicker.
    After `promote_after` failures the client queues for a lock, so that clients try one by one.
    A counter that is missing, or whose znode is empty, is 0; the first change creates it. Any
    number of tasks may use one object.

    A counter that is deleted while it is in use may lose changes, since versions restart.

    Args:
        codec: the number's format; defaults to `Codec.int64()`. Use `Codec.int32()` for Curator's
            `DistributedAtomicInteger`, `Codec.decimal()` for kazoo and aiozk.
        lock: the path of the lock (Curator's `PromotedToLock`); defaults to `<path>/lock`.
        promote_after: how many failures precede the lock; defaults to 5.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    _target: aiolead.Counter

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        codec: Codec[int] | None = None,
        lock: str | None = None,
        promote_after: int = 5,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Counter,
            client,
            path,
            codec=codec,
            lock=lock,
            promote_after=promote_after,
            rng=rng,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def get(self) -> int:
        """Return the number; `InvalidDataError` if malformed. May lag; see `SharedValue.get`."""
        return self._loop.call(lambda: self._target.get())

    def add(self, n: int = 1) -> int:
        """Add `n`, which may be negative, to the number; return the new one.

        Raises:
            CounterOverflowError: the new number does not fit the format; nothing was changed.
            InvalidDataError: the znode does not hold a number in this format.

        Cancellation: the last attempt may be applied. On connection loss: finds out whether it was
        applied, and retries if not. If the current number could be its own or another client's, it
        raises `ConnectionLossError` or `SessionExpiredError`, with the outcome `UNKNOWN`.
        """
        return self._loop.call(lambda: self._target.add(n))

    def compare_and_set(self, old: int, new: int) -> bool:
        """Set the number if it is `old`; return whether it was. Otherwise as `add`."""
        return self._loop.call(lambda: self._target.compare_and_set(old, new))

    def set(self, value: int) -> None:
        """Set the number unconditionally; concurrent additions may be lost.

        On connection loss: raises `ConnectionLossError`; it is safe to retry.
        """
        return self._loop.call(lambda: self._target.set(value))


@final
class DataView(View["tuple[bytes, Stat] | None"]):
    """The latest data and `Stat` of a znode; None while it does not exist. See `View`.

    It also works over a read-only server, if the client accepts one.
    """

    _target: aiolead.types.DataView


@final
class DelayQueue(Proxy, Generic[V]):
    """A queue whose items are handed out when they are due, the earliest first.

    Consumers compare the due time in an item's name with their own `clock`, in seconds since the
    epoch: items come early or late by the difference to the producer's clock. Nothing else depends
    on clocks. Otherwise as `Queue`. The format is that of Curator's `DistributedDelayQueue`.
    """

    _target: aiolead.DelayQueue[Any]

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        codec: Codec[V] | None = None,
        claims: str | None = None,
        max_items: int = 10000,
        retry_pause: float = 0.1,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        clock: Callable[[], float] = time.time,
        identity: str | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.DelayQueue,
            client,
            path,
            codec=codec,
            claims=claims,
            max_items=max_items,
            retry_pause=retry_pause,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            clock=clock,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def consume(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> Consumption[QueueItem[V]]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
        return self._hold(self._target.consume(), on_lost)

    def get(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V]]:
        """Claim the next item for the body of a `with`.

            with queue.get() as item:
                work(item.data)
                item.ack()

        Waits for an item for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `ack` releases the item for another attempt, which `retry_pause` delays. If the
        process dies, its session's expiry does the same, without a pause. `item.attempts` counts.

        Raises:
            AcquireTimeout: on entering: there was no item in time.
            MixedLayoutError: on entering: others contend for a lock, an election or a semaphore on
                the path.
            ClaimLost: on leaving: the claim was lost, so that another consumer gets the item, and
                the cancelled body raised nothing else.

        Cancellation: claims nothing, or releases the item.

        On connection loss: waiting continues, also across expired sessions; a claim is held as long
        as the lease lasts.
        """
        return self._hold(self._target.get(timeout=timeout), on_lost)

    def try_get(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V] | None]:
        """As `get`, but yields None at once if no item is free. May lag, as `Lock.holders`."""
        return self._hold(self._target.try_get(), on_lost)

    def size(self) -> int:
        """The number of items, claimed ones included. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.size())

    def put(self, data: V, *, delay: float | None = None, at: float | None = None) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        It is due in `delay` seconds, or `at` a time in seconds since the epoch; give one of the
        two.
        """
        return self._loop.call(lambda: self._target.put(data, delay=delay, at=at))

    def put_many(
        self, items: Iterable[V], *, delay: float | None = None, at: float | None = None
    ) -> list[str]:
        """Add several items that are due at the same time; see `Queue.put_many`."""
        return self._loop.call(lambda: self._target.put_many(items, delay=delay, at=at))


@final
class DoubleBarrier(Block):
    """Lets `count` members in together, and out together.

        with DoubleBarrier(client, "/step-1", 5) as member:   # waits until five are there
            compute()
        # here all five have computed

    Nobody is let in before `count` members are there at one moment. `count` is a threshold, not a
    limit: a member that comes during a round joins it, also one that died and was restarted.
    Leaving waits until all have left; a member that dies counts until its session ends. Then the
    same path serves for another round.

    If others put znodes below `ready`, no server deletes it. A round that has begun ends as usual.
    The next one begins once those znodes are gone: a line at WARNING names `ready`.

    A membership is under the lease, as a lock is: a partitioned member's body is cancelled, and
    `BarrierLost` raised, before its session ends and the others go on. So once `with` is
    left, no body of the round runs any more.

    Args:
        client: the session.
        path: the barrier; created as a container if missing. Nothing else should use it. Only
            ephemeral children with names of members count (UUIDs, as Curator's and kazoo's).
        count: how many members there have to be. All must agree on it.
        identity, on_disconnect, acl: as for `Lock`; `"resign"` leaves the barrier at once.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.DoubleBarrier

    def __init__(
        self,
        client: Client,
        path: str,
        count: int,
        *,
        identity: str | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.DoubleBarrier,
            client,
            path,
            count,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> BarrierMember:
        return self._enter()

    def enter(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[BarrierMember]:
        """Enter for the body of a `with`.

        A body that ends normally is followed by a wait for the others' bodies to end. One that
        raises, or is cancelled, leaves at once: nobody waits for it.

        Args:
            timeout: how long to wait for the others to come, in seconds. None, the default, waits
                forever; 0 enters only if this member makes it enough, or during a round. It does
                not limit the wait on leaving.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises (on entering):
            AcquireTimeout: not enough came within that time.

        Raises (on leaving): as `TenureContext`; a loss is raised as `BarrierLost`.

        On connection loss while leaving: waits until the member's own znode is known to be gone,
        over as many connections as it takes, and then for the others. Cancellation: while entering,
        leaves nothing behind; while waiting for the others to leave, they do not notice.
        """
        return self._hold(self._target.enter(timeout=timeout), on_lost)

    def members(self) -> list[Participant]:
        """The members, oldest first; `is_holder` are those inside. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.members())


@final
class Election(ElectionBase):
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends.

        with election.leadership() as term:      # waits its turn
            work(fencing_token=term.token)

    If leadership is lost, the body is cancelled before the servers could give it to another
    contender; leaving then raises `LeadershipLost`. Contenders lead in the order in which they
    came.

    Args:
        client: the session that contends.
        path: the path; created as a container if missing. Nothing else should use it.
        identity: the name that others see; defaults to host name and process id.
        leaders: how many may lead at once, 1 by default. All processes pass the same number: one
            that finds another number before it is refused (`MixedLayoutError`). 1 with
            `Layout.AIOZK`.
        changing_from: the number that other processes may still have, while a running fleet
            changes it; None, the default, if it does not change. The smaller number counts: a
            contender leads only while fewer are before it than it and each of those allow.
        priority: from -1,000 to 1,000. Of those present, one with the highest priority leads, the
            first one to come if there are several. None, the default: the first one to come leads.
            So a successor that is named (`term.hand_over`) only leads if no better one is present.
            All contenders on the path have a priority, or none (`MixedLayoutError`). Needs
            `leaders=1`, and a layout other than `Layout.AIOZK`.
        stable_for: seconds, 1 at least and 10 by default. A contender that comes later, with a
            higher priority than the leader's, waits for so long in the queue before it asks the
            leader to resign, as `revoke` does. Nobody is forced. So a leader leads for that time at
            least, unless it ends by itself. Without `priority` it has no effect.
        layout: the naming scheme, `Layout.CURATOR` by default; see `Layout`.
        on_disconnect: when the connection is lost, `"keep"` (the default) leads on while the lease
            lasts, `"resign"` resigns at once.
        on_revocation: when another process asks by `revoke`, `"resign"` (the default) cancels the
            body of `leadership()`, or the worker of `run()`, and resigns once that has ended; then
            `LeadershipLost` says `LossReason.REVOKED`, and `run()` contends again after its pause.
            That is safe: nobody else leads before the body has ended, and a body has to stand a
            cancellation anyway. With `"ignore"`, the body decides: see
            `term.revocation_requested()`. The owner of a campaign, which cancels nothing, always
            decides.
        revocation_grace: seconds from that request until the body is cancelled, 0 by default: for a
            body that awaits `term.revocation_requested()` and ends by itself. After the
            cancellation, it has as long as it needs.
        acl: of the znode, and of the path if it is created; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.Election

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        leaders: int = 1,
        changing_from: int | None = None,
        priority: int | None = None,
        stable_for: float = 10.0,
        layout: Layout = Layout.CURATOR,
        on_disconnect: Literal["keep", "resign"] = "keep",
        on_revocation: Literal["ignore", "resign"] = "resign",
        revocation_grace: float = 0.0,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Election,
            client,
            path,
            identity=identity,
            leaders=leaders,
            changing_from=changing_from,
            priority=priority,
            stable_for=stable_for,
            layout=layout,
            on_disconnect=on_disconnect,
            on_revocation=on_revocation,
            revocation_grace=revocation_grace,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def leadership(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Term]:
        """Lead for the body of a `with`. Leaving resigns.

        It gives a `Term`: `token`, `path`, `identity`, `session_id`, `is_held`, `remaining()`,
        `check()`, `verify()`, `fenced()`, `resign()` (`release()`, `is_released`), `hand_over()`
        (`prepare_hand_over()`), `loss`, `add_lost_callback()`, `revocation_requested()`
        (`is_revocation_requested`) and `statistics()`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and loss see
        `TenureContext`.
        """
        return self._hold(self._target.leadership(timeout=timeout), on_lost)

    def campaign(self, *, ready: bool = True) -> Campaign:
        """Contend in the background, and observe the states.

        Losing leadership cancels nothing: code that acts as the leader must call `term.check()`. A
        task that has entered a campaign, and waits for `leadership()` meanwhile, would wait for
        itself: `AlreadyHeldError`.

        Args:
            ready: False for a contender that has to warm up. A planned hand-over to it waits for
                its `Campaign.set_ready()`. If the leader dies, it may lead before.
        """
        return self._loop.begin(lambda: self._wrap(self._target.campaign(ready=ready)))

    def observe(self) -> ElectionObserver:
        """Observe who leads, without contending."""
        return self._loop.begin(lambda: self._wrap(self._target.observe()))

    def revoke(
        self, *, successor: str | None = None, timeout: float | None = 20.0
    ) -> list[Participant]:
        """Ask the present leaders, from any process, to resign.

        A leader does so by itself (`on_revocation="resign"`), or its code sees
        `term.is_revocation_requested` or awaits `term.revocation_requested()`. Nobody is forced.
        Returns the leaders that were asked, without those asked before.

        Args:
            successor: the identity of a contender that has to be the next one, and ready, before
                they are asked; see `Term.prepare_hand_over`. None, the default, asks at once. If it
                leads already, nobody is asked.
            timeout: how long to wait for the successor, in seconds, 20 by default. None waits
                forever.

        Raises:
            HandOverTimeout: the successor was not ready in time. No leader was asked.
            ConnectionLossError: the connection was lost before all answers came; ask again.
            ServerError: the server's answer to the write, such as `NoAuthError`.
        """
        return self._loop.call(lambda: self._target.revoke(successor=successor, timeout=timeout))

    def leader(self) -> Participant | None:
        """The leader, the first of several; None if there is none. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.leader())

    def contenders(self) -> list[Participant]:
        """The leaders and the waiters, in order. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.contenders())


@final
class ElectionObserver(View["ElectionState"]):
    """The leaders, and each change of them: `with election.observe() as view`. See `View`.

    Only the leaders' znodes are watched, and the queue only while it has fewer contenders than may
    lead: any number of observers and contenders do not disturb each other. The observers of one
    client share their reads.
    """

    _target: aiolead.types.ElectionObserver


@final
class ExclusiveLock(Block):
    """A lock that is one ephemeral znode: the client that creates it holds the lock. Not fair.

        with ExclusiveLock(client, "/jobs/nightly") as held: ...
        with lock.acquire(timeout=5) as held: ...
        with lock.try_acquire() as held:
            if held is not None: ...

    For locks that are mostly tried and rarely waited for: an attempt takes one request, and leaves
    nothing behind if the lock is held. A release wakes all waiters (thundering herd): n waiters
    cost n creates and 2n reads at each hand-over. With more than a few waiters, use `Lock`.

    Held and lost like a `Lock`. An operator who deletes the znode ends the hold. Another client may
    then create a znode at the path before we are notified; until then `held.fenced()` checks only
    the path, so guard exact writes by `held.token`.

    Args: as for `Lock`, without `layout`. `path` is the znode; missing parents become containers. A
    malformed one raises `ConfigurationError`.
    """

    _target: aiolead.ExclusiveLock

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.ExclusiveLock,
            client,
            path,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> Held:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holder, or an empty list. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.holders())


class Fence(Proxy):
    """Writes that the server applies only while the guarding znode exists.

    Each raises `Fenced`, with nothing applied, if it does not; otherwise what the same call of the
    client raises.

    Each write is a transaction that begins with a check of the guard, so the ensemble itself
    refuses it once the guard is gone: no clock is involved. A fence is good only for the session
    that it was made in: later, a znode of the guard's name may be another contender's, since
    sequence numbers start again with the path. No request crosses from one session to the next, so
    a look at the call is enough.
    """

    _target: aiolead.types.Fence

    def transaction(self) -> FencedTransaction:
        """See `Client.transaction`."""
        return self._wrap(self._target.transaction())

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """See `Client.create`; returns the znode's path."""
        return self._loop.call(lambda: self._target.create(path, data, mode=mode, acl=acl, ttl=ttl))

    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """See `Client.set`."""
        return self._loop.call(lambda: self._target.set(path, data, version=version))

    def delete(self, path: str, *, version: int = -1) -> None:
        """See `Client.delete`."""
        return self._loop.call(lambda: self._target.delete(path, version=version))


class Transaction(Proxy):
    """Several writes, sent as one and applied together or not at all.

    For instance `client.transaction().check("/a", version=3).set("/b", b"new")`. Operations
    see the effect of those before them. Awaiting (or `commit`) sends the transaction, once. The
    result has one entry per operation: the path for a create, the `Stat` for a set, None for a
    check or a delete. If an operation failed, so that none was applied, it raises
    `TransactionError`.

    One that is dropped without having been sent gives a `RuntimeWarning`.
    """

    _target: aiolead.types.Transaction

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Self:
        """Add a create; see `Client.create`."""
        self._target.create(path, data, mode=mode, acl=acl, ttl=ttl)
        return self

    def delete(self, path: str, *, version: int = -1) -> Self:
        """Add a delete; see `Client.delete`."""
        self._target.delete(path, version=version)
        return self

    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Add a set; see `Client.set`."""
        self._target.set(path, data, version=version)
        return self

    def check(self, path: str, *, version: int = -1) -> Self:
        """Add the condition that a znode exists and has the version (-1: any)."""
        self._target.check(path, version=version)
        return self

    def commit(self) -> list[str | Stat | None]:
        """Send the transaction, whose answer has a path, a `Stat` or None for each operation.

        After a lost connection, it may or may not have been applied.
        """
        return self._loop.request(lambda: self._target.commit())


class FencedTransaction(Transaction):
    """A transaction that begins with the guard's check; raises `Fenced` without the guard."""

    _target: aiolead.types.FencedTransaction


@final
class Group(Proxy):
    """A group of members: ephemeral znodes `<path>/<identity>`, as with Curator's `GroupMember`.

        with group.join(b"10.0.0.7:80", identity="web-1") as membership:
            membership.set(b"10.0.0.7:81")

        with group.observe() as view:
            for members in view: ...            # identity -> Member, the latest
            for change in view.changes(): ...   # joined, updated, left

    Membership is not exclusive, and not under the lease: a member that has lost its connection
    stays listed until its session expires.

    Args: `client`, `path` and `acl`, as for `Lock`. A malformed one raises `ConfigurationError`.
    """

    _target: aiolead.Group

    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None:
        self._make(aiolead.Group, client, path, acl=acl)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def join(
        self, data: bytes = b"", *, identity: str | None = None, timeout: float | None = None
    ) -> Membership:
        """Be a member for the body of a `with`. Leaving the block leaves the group at once.

        Entering waits until the member is listed. If another client has a member of that name, for
        instance of a process that died a moment ago, it waits for that member's end. A member that
        is deleted, or whose session expires, joins again.

        Args:
            data: the data that the other members see; a megabyte at most.
            identity: the member's name; defaults to host name, process id and a random part.
            timeout: how long entering waits, in seconds; forever by default. 0 tries once.

        Raises, cancellation: as `PersistentNode`.
        """
        return self._loop.begin(
            lambda: self._wrap(self._target.join(data, identity=identity, timeout=timeout))
        )

    def observe(self) -> MembersView:
        """Observe the members: the latest ones, and their changes. Need not be a member.

        The observers of one client share their reads.
        """
        return self._loop.begin(lambda: self._wrap(self._target.observe()))

    def members(self) -> dict[str, Member]:
        """Return the members by identity, in two round trips. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.members())


@final
class HeldName(Held):
    """A hold of a name; otherwise as `Held`."""

    _target: aiolead.types.HeldName

    @property
    def name(self) -> str:
        """The name: its kind, a dash, and its number."""
        return self._target.name

    @property
    def number(self) -> int:
        """The number: the lowest that was free when it was claimed."""
        return self._target.number


@final
class Lock(Block):
    """A lock that one task of one process holds at a time, first come first served.

        with lock as held: ...
        with lock.acquire(timeout=5) as held: ...
        with lock.try_acquire() as held:
            if held is not None: ...

    If the lock is lost, the body is cancelled before the servers could grant it to anybody else,
    and leaving raises `LockLost`. Not re-entrant: a task that acquires what it holds gets
    `AlreadyHeldError`. Any number of tasks may use one object; they exclude each other.

    Args:
        client: the session that holds the lock.
        path: the path; created as a container if missing. Nothing else should use it.
        identity: the holder's name for others; defaults to host name and process id.
        layout: which libraries to contend with; see `Layout`.
        on_disconnect: the fate of a held lock when the connection is lost: `"keep"` (the
            default) keeps it while the lease lasts, `"resign"` releases it at once.
        acl: of our znode, and of the path if it is created; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.Lock

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Lock,
            client,
            path,
            identity=identity,
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> Held:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return self._loop.call(lambda: self._target.revoke())


@final
class MembersView(View["Mapping[str, Member]"]):
    """A view of the members of a group, by identity. See `Group.observe` and `View`."""

    _target: aiolead.types.MembersView

    def changes(self) -> Iterator[MemberChange]:
        """Iterate over changes one by one; the first ones are the present members.

        The changes add up to the latest members: after a lost connection, or for a slow reader,
        they are the differences. So a member that joined and left in between may be missing. Any
        number of readers may iterate at once.
        """
        return self._loop.begin(lambda: self._wrap(self._target.changes()))


class PersistentNode(Block):
    """A znode that exists for the duration of a block, whatever happens to it meanwhile.

        with blocking.PersistentNode(client, "/workers/w1", b"idle") as node:
            node.set(b"busy")

    Entering waits until the znode exists. If others delete it, or its session expires, it is
    created again. If another client's znode is at the path, for instance of a process that died a
    moment ago, entering waits for its end, and never deletes it. (A persistent znode has no owner:
    it is adopted, and deleted by any process that leaves.)

    A sequential znode keeps its number, unless another client has taken it meanwhile. Iterating,
    `for state in node`, yields the latest `NodeState` until the block ends; a slow reader may
    skip states, never the last one.

    Args:
        client: the session.
        path: the znode. For a sequential one, the server appends the number.
        data: its initial data; a megabyte at most.
        mode: `EPHEMERAL` (the default), `EPHEMERAL_SEQUENTIAL`, or `PERSISTENT`.
        restore: whether to overwrite data that other clients have set; defaults to True.
        timeout: how long entering waits, in seconds; forever by default. 0 tries once.
        acl: of the znode, and of missing parents, which are created as containers.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.

    Raises (on entering):
        AcquireTimeout: it did not exist within `timeout` seconds.
        RequestRefusedError: the data are too long for the servers or a proxy.
        ServerError: the servers refuse it, by `NoAuthError` for instance.
        UsageError: this client keeps that znode already.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete it. It is logged instead if the body raised or
            was cancelled, which propagates.
        ServerError: they refused to create it again, and the body was cancelled. It becomes a note
            if the body raises something else.
        SessionError: the client was closed.

    Cancellation: leaves nothing behind. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most; without a connection the client deletes it as soon as it can. On
    connection loss: continues. A read-only server counts as no server.

    Leave it in the task that entered it. Any task may leave it once the first one has ended.
    Otherwise leaving deletes the znode and raises `UsageError`.
    """

    _target: aiolead.PersistentNode

    def __init__(
        self,
        client: Client,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.EPHEMERAL,
        restore: bool = True,
        timeout: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.PersistentNode,
            client,
            path,
            data,
            mode=mode,
            restore=restore,
            timeout=timeout,
            acl=acl,
        )

    def __iter__(self) -> Iterator[NodeState]:
        return self._iterator()

    @property
    def path(self) -> str:
        """The znode's path; `UsageError` while a sequential one has no number."""
        return self._target.path

    @property
    def is_present(self) -> bool:
        """Whether the znode is known to exist; False while the connection is lost."""
        return self._target.is_present

    @property
    def state(self) -> NodeState:
        """The present state."""
        return self._target.state

    def set(self, data: bytes) -> None:
        """Set the data; return once the servers have confirmed them, or later ones.

        It raises `ServerError` or `SessionError` if the znode cannot be kept any longer; the body
        is cancelled, too. `RequestRefusedError`: the data are too long for the servers; the znode
        keeps those that it has. Cancellation: the data are still set. On connection loss:
        continues; after an expired session the new znode holds them.
        """
        return self._loop.call(lambda: self._target.set(data))

    def __enter__(self) -> Self:
        return self._enter()


@final
class Membership(PersistentNode):
    """Membership in a group, for the body of a `with`. See `Group.join`.

    `set` sets the data that the other members see.
    """

    _target: aiolead.types.Membership

    @property
    def identity(self) -> str:
        """The member's name in the group."""
        return self._target.identity


class MultiHeld(HoldBase):
    """One uninterrupted hold. Any thread may use it.

    In a forked child it is not held, and what would ask the servers raises `UsageError`.

    Attributes:
        lost: a `threading.Event`, set as soon as the loss is known. A release does not set it.
    """

    _target: aiolead.types.MultiHeld

    @property
    def holds(self) -> tuple[Tenure, ...]:
        """The tenures, in the order of acquisition."""
        return self._loop.ask(lambda: self._wrap(self._target.holds))

    def verify(self) -> None:
        """Return if the quorum confirms that all are held: one round trip for each.

        Raises as `check`, and `ConnectionLossError` if no answer came; it is safe to retry.
        """
        return self._loop.call(lambda: self._target.verify())

    def release(self) -> None:
        """Release all of them before the body has ended; see `Tenure.release`.

        An error of one does not keep the others: it is raised once all are released.
        """
        return self._loop.call(lambda: self._target.release())


@final
class MultiLock(Block):
    """Several locks as one: all are held, or none.

        with MultiLock(Lock(client, "/a"), rw.read) as held: ...
        with multi.acquire(timeout=5) as held: ...
        with multi.try_acquire() as held:
            if held is not None: ...

    Locks are acquired in the order of their full paths on the servers, regardless of argument order
    and chroots, and released in reverse. So two of them with common locks never deadlock. Each lock
    may belong to another client. Locks of equal full paths on different ensembles are acquired in
    argument order: use the same order everywhere.

    If one is lost, the body is cancelled and awaited, the others are released, and leaving raises
    that loss. If one is lost while we wait for the next, acquiring starts again.

    Args:
        recipes: locks, sides of read/write locks, anything that has an `acquire` of its own.

    Raises:
        ConfigurationError: no recipe was given, one cannot be acquired, or two contend for one
            path.
    """

    _target: aiolead.MultiLock

    def __init__(
        self,
        *recipes: Condition
        | ExclusiveLock
        | Lock
        | RateLimit
        | ReadLock
        | ReentrantLock
        | Semaphore
        | WriteLock,
    ) -> None:
        self._make(aiolead.MultiLock, *recipes)

    @property
    def recipes(
        self,
    ) -> tuple[
        Condition
        | ExclusiveLock
        | Lock
        | RateLimit
        | ReadLock
        | ReentrantLock
        | Semaphore
        | WriteLock,
        ...,
    ]:
        """The parts, in the order of acquisition."""
        return self._loop.ask(lambda: self._wrap(self._target.recipes))

    def __enter__(self) -> MultiHeld:
        return self._enter()

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[MultiHeld]:
        """Acquire all of them for the body of a `with`.

        Args:
            timeout: how long to wait for all together, in seconds. None waits forever, 0 tries each
                once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises (on entering):
            AcquireTimeout: not all were acquired within that time; none is held.
            ConnectionLossError: `timeout` is 0, and the client of one is not connected.
            AlreadyHeldError: this task already holds one of them, or waits for it.

        Cancellation: releases the acquired locks, and leaves the queue of the next.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[MultiHeld | None]:
        """As `acquire`, but does not wait: gives None if not all are free."""
        return self._hold(self._target.try_acquire(), on_lost)


@final
class Once(Proxy):
    """A job that runs once per key, on one of many machines: a date, or the number of an order.

        once = Once(client, "/jobs/nightly")
        with once.claim("2026-11-21") as run:
            if run is not None:     # None: the key is done already
                send_the_invoices()

    The key is done when the body has ended without an exception. It is recorded as done in the same
    transaction that ends the run. If the body raises, is cancelled, or calls `run.release()`, the
    key is not done, and may be claimed again. A run is held, and lost, as a `Lock` is: if the
    client cannot prove its lease in time, the body is cancelled before another client may begin.

    A job may run again if its client dies, or loses its session, between the work and the record:
    at least once, and exactly once if nothing fails. Let the system that the job writes to refuse a
    `run.token` that is smaller than the last one, or make the job idempotent.

    Clocks of machines do not matter, as long as all of them name the same key. A key is remembered
    for `ttl` seconds after it was done, by the servers' clock, and as one of the last `keep` keys.
    Later it may run again, so `ttl` must exceed the time within which any machine may still claim
    an old key. Each client that begins a run deletes older records in the background: at a quarter
    more than `keep`, and once an hour those that are older than `ttl`.

    Any number of tasks may use one object. Nothing else may create znodes below the path: a
    persistent one is a done key. To have a key run again, delete its znode.

    Args:
        keep: how many done keys are remembered, 1 to 20,000.
        ttl: how long they are remembered, in seconds; 30 days by default. None: while there are not
            too many.

    Other arguments: as for `Lock`, without `layout`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.Once

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        keep: int = 1000,
        ttl: float | None = 2592000.0,
        identity: str | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Once,
            client,
            path,
            keep=keep,
            ttl=ttl,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def claim(
        self,
        key: str,
        *,
        timeout: float | None = None,
        on_lost: Callable[[TenureLost], object] | None = None,
    ) -> TenureContext[Run | None]:
        """Claim a key for the body of a `with`: gives a `Run`, or None if the key is done.

        Waits while another client runs the key: its run ends with a done key, or, if it fails, with
        the key for one of those that wait.

        Args:
            key: any text of at most 256 bytes of UTF-8, such as a date.
            timeout: how long to wait for other clients, in seconds. None waits forever, 0 tries
                once. When it is up, entering raises `AcquireTimeout`.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Leaving waits until the servers have confirmed that the key is done, for a third of the
        session timeout at most, also when cancelled.

        Raises:
            ClaimLost: on leaving: the run was lost, also if that came out only as the key was to be
                marked. The key may run again.
            ConnectionLossError: on leaving: no server has confirmed in that time. The client goes
                on; the key runs again if the session ends first.
            ReleaseError: on leaving: the servers refuse to mark the key, so it stays claimed until
                the session ends.

        For other errors, cancellation and connection loss see `TenureContext`.
        """
        return self._hold(self._target.claim(key, timeout=timeout), on_lost)

    def try_claim(
        self, key: str, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Run | None]:
        """As `claim`, but does not wait: gives None, too, if another client runs the key."""
        return self._hold(self._target.try_claim(key), on_lost)

    def is_done(self, key: str) -> bool:
        """Return whether a key is done, and remembered. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.is_done(key))

    def holder(self, key: str) -> Participant | None:
        """Return the client that runs a key, or None. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.holder(key))


@final
class Picker(Proxy):
    """Picks one of the currently registered instances for each request.

        picker = blocking.Picker(view, aiolead.types.RoundRobin())
        instance = picker.pick()
        if instance is not None:
            try: ...
            except OSError:
                picker.report_error(instance)
                raise

    It leaves out instances that are disabled, have weight 0, or have failed lately (`down`). It
    never waits, and sends nothing to ZooKeeper. `clock` is a monotonic clock, in seconds.
    """

    _target: aiolead.types.Picker

    def __init__(
        self,
        view: ServiceView,
        strategy: Strategy,
        *,
        down: DownPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make(aiolead.types.Picker, view, strategy, down=down, clock=clock)

    def pick(self, key: str | None = None) -> ServiceInstance | None:
        """Pick an instance; None if none is available. `ConsistentHash` needs a `key`."""
        return self._loop.ask(lambda: self._target.pick(key))

    def report_error(self, instance: ServiceInstance) -> None:
        """Report a failed request to an instance; see `DownPolicy`."""
        return self._loop.ask(lambda: self._target.report_error(instance))

    def is_down(self, instance: ServiceInstance) -> bool:
        """Whether an instance is left out because it has failed."""
        return self._loop.ask(lambda: self._target.is_down(instance))


@final
class PriorityQueue(Proxy, Generic[V]):
    """A queue with priorities: the smallest first, equal ones first come, first served.

    Items are listed again for each hand-out, since a smaller one may have come. Otherwise as
    `Queue`. The format is that of Curator's `DistributedPriorityQueue`.
    """

    _target: aiolead.PriorityQueue[Any]

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        codec: Codec[V] | None = None,
        claims: str | None = None,
        max_items: int = 10000,
        retry_pause: float = 0.1,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        identity: str | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.PriorityQueue,
            client,
            path,
            codec=codec,
            claims=claims,
            max_items=max_items,
            retry_pause=retry_pause,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def consume(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> Consumption[QueueItem[V]]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
        return self._hold(self._target.consume(), on_lost)

    def get(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V]]:
        """Claim the next item for the body of a `with`.

            with queue.get() as item:
                work(item.data)
                item.ack()

        Waits for an item for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `ack` releases the item for another attempt, which `retry_pause` delays. If the
        process dies, its session's expiry does the same, without a pause. `item.attempts` counts.

        Raises:
            AcquireTimeout: on entering: there was no item in time.
            MixedLayoutError: on entering: others contend for a lock, an election or a semaphore on
                the path.
            ClaimLost: on leaving: the claim was lost, so that another consumer gets the item, and
                the cancelled body raised nothing else.

        Cancellation: claims nothing, or releases the item.

        On connection loss: waiting continues, also across expired sessions; a claim is held as long
        as the lease lasts.
        """
        return self._hold(self._target.get(timeout=timeout), on_lost)

    def try_get(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V] | None]:
        """As `get`, but yields None at once if no item is free. May lag, as `Lock.holders`."""
        return self._hold(self._target.try_get(), on_lost)

    def size(self) -> int:
        """The number of items, claimed ones included. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.size())

    def put(self, data: V, *, priority: int = 0) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        `priority` is from -2^31 to 2^31 - 1; the smallest comes first.
        """
        return self._loop.call(lambda: self._target.put(data, priority=priority))

    def put_many(self, items: Iterable[V], *, priority: int = 0) -> list[str]:
        """Add several items of one priority; see `Queue.put_many`."""
        return self._loop.call(lambda: self._target.put_many(items, priority=priority))


@final
class Queue(Proxy, Generic[V]):
    """A queue: items persist until a consumer acknowledges them; first come, first served.

        name = queue.put(b"...")

        with queue.get() as item:
            work(item.data)
            item.ack()

    *At least once.* A claim, an ephemeral znode, gives an item to one consumer at a time. The next
    consumer gets it if the first dies or leaves without `ack`, but never once `ack` has returned.
    If the claim is lost, the body is cancelled before the servers can give the item to another
    consumer.

    Items are first handed out in the order in which they were put. A released item is the first one
    again, once its pause is over. An item that others have put znodes below is passed over while
    those exist, with a warning in the log. The format is that of Curator's `DistributedQueue` with
    a `lockPath`.

    Args:
        client: the session.
        path: the path of the items; created as a persistent znode if missing.
        codec: the format of the items' data, for `put` and `item.value`; defaults to unchanged
            bytes. An item that it refuses is invalid: see `on_invalid`.
        claims: the path of the claims, Curator's `lockPath`; defaults to `<path>-claims`.
        max_items: how many items there may be, at most 25,000. A soft limit: see `put`.
        retry_pause: for how long an item rests when its second attempt ends without `ack`, in
            seconds. The pause doubles with each attempt, up to a minute. After the first attempt
            there is none. 0: never.
        max_attempts: how many consumers may get an item, one after the other, before it moves to
            `dead_letters`; by default any number. All consumers should have the same.
        dead_letters: the path of the queue that such items move to, with the reason
            (`QueueItem.dead_letter`). The move is one transaction. It is made as the last attempt
            ends, or by the next consumer if the last one died.
        identity: the holder's name in claims; defaults to host name and process id.
        on_invalid: called synchronously with the `InvalidDataError` of an invalid item; logs a
            warning by default. The item stays, and this object skips it. With `max_attempts` this
            counts as an attempt, and the item moves to `dead_letters` after the last one.
        on_disconnect: the fate of claims on connection loss: `"keep"` keeps them while the
            lease lasts, `"resign"` releases them at once.
        acl: of items, claims, and created paths; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.Queue[Any]

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        codec: Codec[V] | None = None,
        claims: str | None = None,
        max_items: int = 10000,
        retry_pause: float = 0.1,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        identity: str | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Queue,
            client,
            path,
            codec=codec,
            claims=claims,
            max_items=max_items,
            retry_pause=retry_pause,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def consume(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> Consumption[QueueItem[V]]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
        return self._hold(self._target.consume(), on_lost)

    def get(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V]]:
        """Claim the next item for the body of a `with`.

            with queue.get() as item:
                work(item.data)
                item.ack()

        Waits for an item for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `ack` releases the item for another attempt, which `retry_pause` delays. If the
        process dies, its session's expiry does the same, without a pause. `item.attempts` counts.

        Raises:
            AcquireTimeout: on entering: there was no item in time.
            MixedLayoutError: on entering: others contend for a lock, an election or a semaphore on
                the path.
            ClaimLost: on leaving: the claim was lost, so that another consumer gets the item, and
                the cancelled body raised nothing else.

        Cancellation: claims nothing, or releases the item.

        On connection loss: waiting continues, also across expired sessions; a claim is held as long
        as the lease lasts.
        """
        return self._hold(self._target.get(timeout=timeout), on_lost)

    def try_get(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[QueueItem[V] | None]:
        """As `get`, but yields None at once if no item is free. May lag, as `Lock.holders`."""
        return self._hold(self._target.try_get(), on_lost)

    def size(self) -> int:
        """The number of items, claimed ones included. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.size())

    def put(self, data: V) -> str:
        """Add an item; return its name.

        Raises:
            QueueFullError: `max_items` are there. Each client counts at its last put, so the limit
                may be exceeded by one put per client, and puts in flight.
            SequenceExhaustedError: the path has no more numbers.
            MixedLayoutError: others contend for a lock, an election or a semaphore on the path.
                Checked at the client's first put.
            ServerError: the server refuses, for example with `NoAuthError`.

        Cancellation: the item may or may not be added.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` the item may have been
        added; servers choose the names, so no client can find out, and a retry may add it twice. If
        that matters, give items an id in their data.
        """
        return self._loop.call(lambda: self._target.put(data))

    def put_many(self, items: Iterable[V]) -> list[str]:
        """Add separate items, all or none, one behind the other; return their names in order.

        They are one transaction, so together they must fit into a packet (1 MiB by default).
        Otherwise as `put`.
        """
        return self._loop.call(lambda: self._target.put_many(items))


class QueueItem(Claimed["V"]):
    """An item of a queue, held for the body of a `with`.

    It is released when the body ends or the claim is lost, unless it was acknowledged. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    _target: aiolead.types.QueueItem[Any]

    @property
    def dead_letter(self) -> DeadLetter | None:
        """Where a dead letter comes from, and why; None for other items."""
        return self._target.dead_letter

    def ack(self) -> None:
        """Acknowledge the item: delete it from the queue.

        Returns once the servers have confirmed: no consumer gets the item any more. The body goes
        on, but holds nothing. Further calls have no effect.

        If others have put znodes below the item, the servers cannot delete it. Then it stays,
        behind a persistent claim by which no consumer gets it again. A line at WARNING names both
        znodes.

        Raises:
            ClaimLost: the claim was lost, or others deleted the item.
            UsageError: the item was released, or another task is acknowledging it.

        Cancellation: the item may or may not be acknowledged; if not, leaving the body releases it.

        On connection loss: checks whether the item was acknowledged, and retries if not. If the
        session ends first, the claim is lost, and another consumer may get the item.
        """
        return self._loop.call(lambda: self._target.ack())


@final
class RateLimit(Proxy):
    """A limit on calls per time that all processes share: a token bucket.

        limit = RateLimit(client, "/limits/api", rate=100, per=60)
        limit.acquire()                  # waits until one more call is allowed
        if limit.try_acquire():          # does not wait
            ...

    In any `t` seconds, all processes together get at most `burst + rate * (t + max_age) / per`
    calls, unless the clock of the servers' leader (with ClickHouse Keeper: of any server) is set
    forward, or those of Keeper's servers are more than a minute apart. They get fewer if something
    fails: tokens that a process has taken and not used are lost with it.

    A write takes tokens for all tasks that wait on the object, and for the calls of the next half
    of `max_age`, as many as there were lately. Nothing is written while nobody asks. Tasks of one
    object are served in order of arrival, so use one object for all of them.

    Args:
        client: the session. If it expires, no token is lost or counted twice.
        path: the znode. It is created full; if it is deleted, it begins full again.
        rate: calls in `per` seconds. Without it, the numbers that are stored count.
        per: seconds; defaults to 1.
        burst: how many calls may come at once after a quiet time; defaults to `rate`, rounded up.
        max_age: for how many seconds a token may be kept before it is dropped; defaults to 1. It
            must exceed the time of a write. Greater: fewer requests. Smaller: more exact.
        rng: for the random pauses between attempts.
        acl: of created znodes; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.RateLimit

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        rate: float | None = None,
        per: float = 1.0,
        burst: int | None = None,
        max_age: float = 1.0,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.RateLimit,
            client,
            path,
            rate=rate,
            per=per,
            burst=burst,
            max_age=max_age,
            rng=rng,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def acquire(self, n: int = 1, *, timeout: float | None = None) -> None:
        """Wait until `n` more calls are allowed, and count them.

        Args:
            n: how many calls, at most `burst`; they are allowed together.
            timeout: how long to wait, in seconds; defaults to any time. 0 is a `try_acquire`.

        Raises:
            AcquireTimeout: they are not allowed within `timeout`. Raised at once if that is known.
            MixedLayoutError: the path has other numbers than this object.
            NoNodeError: no numbers were passed, and none are stored.
            InvalidDataError: the znode does not hold a rate limit.
            ConfigurationError: `n` is malformed, or more than `burst`.

        Cancellation: calls that were granted meanwhile are left to the next task, or lost. On
        connection loss: tokens at hand are used; then it waits for a connection, until `timeout`. A
        share whose answer was lost is lost.
        """
        return self._loop.call(lambda: self._target.acquire(n, timeout=timeout))

    def try_acquire(self, n: int = 1) -> bool:
        """Count `n` more calls if they are allowed now; return whether they are.

        It may ask the servers, and waits for their answer, but not for tokens. Tasks of this object
        that asked before are served before; if one of them waits for tokens, it returns False.
        Otherwise as `acquire`, but on connection loss: if none is at hand, raises
        `ConnectionLossError`, also if there is no connection.
        """
        return self._loop.call(lambda: self._target.try_acquire(n))

    def set_rate(self, rate: float, *, per: float = 1.0, burst: int | None = None) -> None:
        """Store other numbers, for all processes. Tokens that were taken stay so.

        Objects that were made without `rate` follow with their next share, after at most `max_age`;
        tasks that wait for a token keep its time. Objects with other numbers raise
        `MixedLayoutError`, except for this one, which has the new numbers.

        Calls of one object take turns. Cancellation: they may be stored, and this object goes on
        with the numbers that are. On connection loss: stores them over the next connection.
        """
        return self._loop.call(lambda: self._target.set_rate(rate, per=per, burst=burst))


@final
class ReadLock(Block):
    """The read side of a `ReadWriteLock`, shared by readers. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern readers only.
    """

    _target: aiolead.types.ReadLock

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> Held:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return self._loop.call(lambda: self._target.revoke())


@final
class ReadWriteLock(Proxy):
    """A lock that readers share and a writer holds alone; first come first served.

        with lock.read as held: ...
        with lock.write as held:
            ...
            held.downgrade()  # continues as a reader; no writer comes in between
        with lock.write.acquire(timeout=5) as held: ...

    No contender overtakes another, so none starves: a reader behind a waiting writer waits for it.
    Consecutive readers come in together. Loss, lease, cancellation and release are those of `Lock`.

    Not re-entrant. A task that reads and asks to write gets `UpgradeError` at once. A task that
    writes becomes a reader with `downgrade`.

    Args: as for `Lock`. By its `layout` it contends with Curator's `InterProcessReadWriteLock`,
    kazoo's `ReadLock` and `WriteLock`, or aiozk's `SharedLock`. A malformed argument raises
    `ConfigurationError`.
    """

    _target: aiolead.ReadWriteLock

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.ReadWriteLock,
            client,
            path,
            identity=identity,
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def read(self) -> ReadLock:
        """The lock for reading."""
        return self._wrap(self._target.read)

    @property
    def write(self) -> WriteLock:
        """The lock for writing."""
        return self._wrap(self._target.write)

    @property
    def path(self) -> str:
        """The contended path."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The name that others see for this holder or contender."""
        return self._target.identity

    def holders(self) -> list[Participant]:
        """Return the holders: readers, or one writer. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release. See `Lock.revoke`."""
        return self._loop.call(lambda: self._target.revoke())


class Reads(ReadsBase):
    """Several reads, sent as one request (ZooKeeper 3.6).

    For instance `data, names = client.reads().get("/a").get_children("/b")`. No write comes
    between them. Awaiting sends them, once; the result has one entry per read: its result, or the
    `ServerError` that it failed with (`NoNodeError`, `NoAuthError`), which is not raised.
    Cancellation abandons the answers. On connection loss they are sent again, if the next server
    supports it. Raises `UnsupportedError` if the server is older, or does not report its version.
    """

    _target: aiolead.types.Reads

    def get(self, path: str) -> Self:
        """Add a read of a znode's data and `Stat`."""
        self._target.get(path)
        return self

    def get_children(self, path: str) -> Self:
        """Add a read of the names of a znode's children."""
        self._target.get_children(path)
        return self


@final
class ReentrantLock(Block):
    """A `Lock` that the task that holds it may acquire again.

        with lock as held:
            with lock as again:  # the same tenure, at once
                assert again is held

    The holder is a task, not a process: any other task waits, even a child task of the holder. Only
    leaving the outermost block releases the lock, or raises `LockLost`. A loss cancels all blocks.

    Entering again takes no request. It raises `LockLost` if the lease has run out by the clock, and
    `UsageError` if the lock was released.

    Args: as for `Lock`. A `Lock` of the same path, and Curator's `InterProcessMutex`, contend with
    it. A task that holds one of them must not wait for the other.
    """

    _target: aiolead.ReentrantLock

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.ReentrantLock,
            client,
            path,
            identity=identity,
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> Held:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return self._loop.call(lambda: self._target.revoke())

    @property
    def hold_count(self) -> int:
        """How many blocks of the current task hold it; 0 elsewhere, also in a forked child."""
        return self._of_task(lambda: self._target.hold_count)


@final
class Registration(PersistentNode):
    """A registered instance, for the body of a `with`. See `ServiceRegistry.register`."""

    _target: aiolead.types.Registration

    @property
    def instance(self) -> ServiceInstance:
        """The instance as observers see it, or soon will."""
        return self._target.instance

    def update(self, instance: ServiceInstance) -> None:
        """Change the instance; return once the servers have confirmed this change or a later one.

            registration.update(replace(registration.instance, weight=2.0))

        Raises:
            ConfigurationError: it has another name or id.
            RequestRefusedError: it is too long for the servers; the instance stays as it was.
            ServerError, SessionError: it is no longer registered; the body is cancelled, too.

        Cancellation: the instance is changed all the same.

        On connection loss: continues; after an expired session the changed instance is registered.
        """
        return self._loop.call(lambda: self._target.update(instance))

    def drain(self) -> None:
        """Stop new requests: set `enabled` to false, which clients of Curator respect, too.

        Keep answering requests that were sent before. Otherwise as `update`.
        """
        return self._loop.call(lambda: self._target.drain())

    def resume(self) -> None:
        """Accept requests again. Otherwise as `update`."""
        return self._loop.call(lambda: self._target.resume())

    def report_load(self, load: float) -> None:
        """Publish the load, at most once per `load_interval`; the latest value wins.

        Returns at once; the client publishes in the background. Every observer then reads the
        instance, so a short interval is expensive. `load` is 0 or more, in a unit that all
        instances share.
        """
        return self._loop.call(lambda: self._target.report_load(load))


@final
class Run(Tenure):
    """One run of a key, held for the body of a `with`. `Tenure` describes its members.

    `release()` ends the run without marking the key as done: another client may run it.

    `fenced()` checks only that there is a znode of the key. So it does not notice that an operator
    has deleted that of this run, until this client is notified; `token` is exact.
    """

    _target: aiolead.types.Run

    @property
    def is_done(self) -> bool:
        """Whether the servers have confirmed that the key is done; False in the body."""
        return self._target.is_done


@final
class Semaphore(Block):
    """Permits that tasks and processes share, first come first served.

        semaphore = Semaphore(client, "/licences", 5)
        with semaphore as held: ...                  # one permit
        with semaphore.acquire(permits=3, timeout=5) as held: ...
        with semaphore.try_acquire() as held:
            if held is not None: ...

    If a permit is lost, the body is cancelled before the servers could grant it to anybody else,
    and leaving raises `LockLost`. Several permits are acquired all at once or not at all, and lost
    together; `held.token` and `held.path` are those of the last created. No token is used twice,
    but several holders are valid at once, not only the one with the greatest token.

    A task that holds permits may try for more, or wait with a timeout, but not forever
    (`AlreadyHeldError`): others may wait for its permits.

    Args:
        limit: the most permits that are held at once, as far as this object grants them. All
            processes should agree on it. A published limit (`set_limit`) that is smaller counts
            instead; a greater one does not, unless `follow_limit` is set.
        follow_limit: whether a published limit replaces `limit` even if it is greater; False by
            default. Anybody who may create or write children of the path can publish one.
        layout: whom to contend with: Curator's `InterProcessSemaphoreV2`, or kazoo's `Semaphore`.
            kazoo's layout stores the limit on creation and never changes it. The stored limit is
            its published limit.

    The other arguments, and the errors, are those of `Lock`.
    """

    _target: aiolead.Semaphore

    def __init__(
        self,
        client: Client,
        path: str,
        limit: int,
        *,
        follow_limit: bool = False,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.Semaphore,
            client,
            path,
            limit,
            follow_limit=follow_limit,
            identity=identity,
            layout=layout,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def acquire(
        self,
        *,
        permits: int = 1,
        timeout: float | None = None,
        on_lost: Callable[[TenureLost], object] | None = None,
    ) -> TenureContext[Held]:
        """Acquire permits for the body of a `with`: all of them, or none.

        Args:
            permits: how many, 1,000 at most. While we wait for many at the front of the queue, no
                smaller request overtakes us.
            timeout: how long to wait, in seconds. None waits forever, 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises (on entering):
            UsageError: `permits` exceeds the limit. Checked at the front of the queue, since the
                limit may be raised before.
            InvalidDataError: the published limit is invalid.
            MixedLayoutError: the path has semaphores of another layout, or another recipe's
                contenders.

        For `AcquireTimeout`, other errors, cancellation and connection loss see `TenureContext`.
        """
        return self._hold(self._target.acquire(permits=permits, timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> Held:
        return self._enter()

    def try_acquire(
        self, *, permits: int = 1, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others ask for permits.

        Others are waiters, and tries of other clients at the same time; tries of one client take
        turns.
        """
        return self._hold(self._target.try_acquire(permits=permits), on_lost)

    def set_limit(self, limit: int) -> None:
        """Publish the number of permits, for all processes and permanently.

        Semaphores with `follow_limit=True` follow it. For the others, a smaller number counts in
        place of their own `limit`, and a greater one changes nothing: that includes this object.
        Curator's semaphores follow it if they were given a `SharedCount` at `limit` below the path.

        The first of the queue checks again at once. Lowering revokes no permits: none is granted
        until enough are released. kazoo's semaphores never read the limit again: their layout
        raises `UsageError`.

        On connection loss: raises `ConnectionLossError`, whose outcome says whether it may be
        published. It is safe to retry. Cancellation: the limit may still be published.
        """
        return self._loop.call(lambda: self._target.set_limit(limit))

    def limit(self) -> int:
        """Return the limit that counts for this object. May lag.

        It is the published one if there is one and `follow_limit` is set; else the argument, or the
        published one if that is smaller. `InvalidDataError` if the published one is invalid.
        """
        return self._loop.call(lambda: self._target.limit())

    def available(self) -> int:
        """Return how many permits are free; 0 while others wait for them. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.available())

    def holders(self) -> list[Participant]:
        """Return one participant for each held permit, in order of creation. May lag, as `Lock`."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return `holders`, then one participant for each waiter, in queue order."""
        return self._loop.call(lambda: self._target.contenders())


@final
class SequenceAllocator(Proxy):
    """Allocates numbers that are unique across all processes.

        orders = SequenceAllocator(client, "/app/orders", block=100)
        number = orders.next()        # 1, 2, 3 ... : a request for every 100 of them
        numbers = orders.take(500)    # a range: all of them at once
        stamp = orders.stamp()        # one request; never repeated, whatever happens

    The numbers of one object rise from 1, by `next` and `take` alike; those of several objects
    interleave. There are gaps: numbers that a process has taken but not returned are lost with it,
    and so is a block whose answer was lost. No number is repeated unless the path is deleted. Then
    the count restarts at 1, except for objects that have counted before, which never go back.

    The path holds the last number taken: 8 bytes, as Curator's `CachedAtomicLong`. Processes with
    different block sizes may share a path. Any number of tasks may use one object.

    Args:
        path: the counter; `<path>/stamp` is for the stamps.
        block: how many numbers to take at once; defaults to 1.
        last: the last number to allocate; defaults to 2**63 - 1.

    The other arguments, and the errors, are those of `SharedValue`.
    """

    _target: aiolead.SequenceAllocator

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        block: int = 1,
        last: int = 9223372036854775807,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.SequenceAllocator, client, path, block=block, last=last, rng=rng, acl=acl
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def at_hand(self) -> int:
        """How many numbers are available without a request."""
        return self._target.at_hand

    def next(self) -> int:
        """Return a number that no other caller gets.

        Raises:
            SequenceExhaustedError: all numbers up to `last` were allocated.
            InvalidDataError: the path does not hold a number.

        Cancellation: loses one block of numbers at most. On connection loss: continues over the
        next connection, with other numbers if necessary.
        """
        return self._loop.call(lambda: self._target.next())

    def take(self, count: int) -> range:
        """Return `count` consecutive numbers. Otherwise as `next`.

        It begins with those at hand. If they are too few, and another object has taken the numbers
        behind them, they are given up: later numbers never are less than earlier ones.
        """
        return self._loop.call(lambda: self._target.take(count))

    def stamp(self) -> int:
        """Return a number that no path of the ensemble ever returns again, by one request.

        It is a transaction id: it rises over the whole ensemble in large steps, unrelated to `next`
        and not bounded by `last`. No stamp is repeated, even if the path is deleted; only a new
        ensemble restarts. On connection loss: continues over the next connection, with another
        transaction.
        """
        return self._loop.call(lambda: self._target.stamp())


@final
class ServiceRegistry(Proxy):
    """Service discovery as with Curator's `ServiceDiscovery`: `<path>/<service>/<id>`.

        web = aiolead.ServiceInstance(name="web", address="10.0.0.7", port=80)
        with registry.register(web) as registration:
            registration.report_load(0.3)
            ...
            registration.drain()

        with registry.observe("web") as view:
            picker = blocking.Picker(view, aiolead.types.RoundRobin())
            instance = picker.pick()

    An instance is listed as long as its process lives; after a crash, until its session expires.

    Args:
        client: the session.
        path: the path of all services; created as a container if missing.
        acl: of the registered znodes and the path; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.ServiceRegistry

    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None:
        self._make(aiolead.ServiceRegistry, client, path, acl=acl)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def register(
        self, instance: ServiceInstance, *, load_interval: float = 1.0, timeout: float | None = None
    ) -> Registration:
        """Register an instance for the body of a `with`.

        Entering waits until it is registered, and first for the end of another client's instance
        with that id, such as that of a crashed process. An instance that is deleted, or whose
        session expires, is registered again. Leaving the block removes it at once.

        Args:
            instance: the data that observers see.
            load_interval: least time between two published loads, in seconds.
            timeout: how long entering waits, in seconds; defaults to forever. 0 tries once.

        Raises, cancellation: as `PersistentNode`.
        """
        return self._loop.begin(
            lambda: self._wrap(
                self._target.register(instance, load_interval=load_interval, timeout=timeout)
            )
        )

    def observe(self, service: str) -> ServiceView:
        """Observe a service's instances, including disabled ones, which a `Picker` omits."""
        return self._loop.begin(lambda: self._wrap(self._target.observe(service)))

    def services(self) -> list[str]:
        """The names of all services, sorted. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.services())

    def instances(self, service: str) -> list[ServiceInstance]:
        """The present instances of a service, sorted by id, in two round trips.

        Invalid ones are omitted, with a warning in the log. May lag, as `Lock.holders`.
        """
        return self._loop.call(lambda: self._target.instances(service))


@final
class ServiceView(View["Mapping[str, ServiceInstance]"]):
    """A view of the instances of a service, by id. Made by `ServiceRegistry.observe`."""

    _target: aiolead.types.ServiceView

    @property
    def invalid(self) -> Mapping[str, str]:
        """Why registered instances are invalid, by id. They are not in `value`."""
        return self._target.invalid


class SessionStates(Block):
    """The states of a client's session, from the present one on.

    The latest state wins: a slow observer may miss that a connection was lost and regained, but
    never the last state, and never an expiry, which comes before anything of the next session. The
    iteration ends when the client is closed or its credentials were refused.

    Use as a context manager: `with client.observe() as states: for change in states:`.
    """

    _target: aiolead.types.SessionStates

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> SessionChange:
        return self._next()

    @property
    def current(self) -> SessionChange:
        """The state now, independent of the iteration."""
        return self._loop.ask(lambda: self._target.current)

    def __enter__(self) -> Self:
        return self._enter()


@final
class SharedValue(Proxy, Generic[T]):
    """A value that several processes share. Curator's `SharedValue`, `SharedCount`.

        limit = SharedValue(client, "/app/limit", 10, codec=Codec.int32())
        now = limit.get()
        limit.set(20)
        if limit.compare_and_set(now, now.value + 1) is None:
            ...  # another client was quicker
        with limit.observe() as view:
            for value in view: ...

    The first write creates the znode; until then the value is the default. Any number of tasks may
    use one object.

    Args:
        client: the session.
        path: the znode.
        default: the value while the znode does not exist.
        codec: the value's format; defaults to unchanged bytes.
        on_invalid: called with the error when `observe` skips data that the codec refuses, once for
            each write. Without it the error ends the view. It runs in the client's task: keep it
            quick. Its exceptions are logged.
        rng: for the random pauses between attempts.
        acl: of created znodes; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.SharedValue[Any]

    @overload
    def __init__(
        self: SharedValue[bytes],
        client: Client,
        path: str,
        default: bytes = b"",
        *,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        client: Client,
        path: str,
        default: T,
        *,
        codec: Codec[T],
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None: ...
    def __init__(
        self,
        client: Client,
        path: str,
        default: Any = b"",
        *,
        codec: Codec[Any] | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        rng: random.Random | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.SharedValue,
            client,
            path,
            default,
            codec=codec,
            on_invalid=on_invalid,
            rng=rng,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    def get(self) -> Versioned[T]:
        """Return the value. The server may lag: call `client.sync()` first where that matters.

        Raises `InvalidDataError` if the codec refuses the data.
        """
        return self._loop.call(lambda: self._target.get())

    def set(self, value: T) -> Versioned[T]:
        """Set the value unconditionally. It is safe to retry after `ConnectionLossError`."""
        return self._loop.call(lambda: self._target.set(value))

    def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has.

        `expected` is the result of the last read or write; version -1 stands for no znode. Versions
        restart when the znode is deleted and created again: a write meant for the old one may
        succeed.

        On connection loss: finds out whether it was applied, and retries if not. If the value is
        there already, or has changed more than once, the writer is unknown. Then it raises
        `ConnectionLossError` or `SessionExpiredError`, with the outcome `UNKNOWN`.
        """
        return self._loop.call(lambda: self._target.compare_and_set(expected, value))

    def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until no other client has written in between.

        `change` makes the new value from the old one, once for each attempt. Raises
        `InvalidDataError` if the codec refuses the data. Cancellation: the last attempt may be
        applied. On connection loss: as `compare_and_set`.
        """
        return self._loop.call(lambda: self._target.update(change))

    def observe(self) -> SharedValueView[T]:
        """Return a view of the latest value: `with value.observe() as view`."""
        return self._loop.begin(lambda: self._wrap(self._target.observe()))


@final
class SharedValueView(View["T"]):
    """A view of a `SharedValue`: a write of an equal value counts as a change. See `View`."""

    _target: aiolead.types.SharedValueView[Any]

    @property
    def versioned(self) -> Versioned[T]:
        """The latest value, with its version."""
        return self._loop.ask(lambda: self._wrap(self._target.versioned))


@final
class Task(Claimed["V"]):
    """A task, held for the body of a `with`.

    It is released when the body ends or the claim is lost, unless it was finished. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    _target: aiolead.types.Task[Any]

    def report(self, progress: float | None = None, note: str = "") -> None:
        """Report progress to observers of the board.

        `progress` is from 0.0 to 1.0, `note` any text of at most 4,096 bytes. Returns at once; the
        client writes in the background, at most once per `report_every`. The latest report wins. A
        report whose answer was lost is written again.

        Raises:
            ClaimLost: the claim was lost.
            UsageError: the task was released, or finished.
        """
        return self._loop.call(lambda: self._target.report(progress, note))

    def finish(self, data: V | bytes = b"") -> None:
        """Finish the task: delete it and write its result, `data`, in one transaction.

        With a `codec`, that encodes the data; empty bytes, the default, are no data.

        Returns once the servers have confirmed. The body goes on, but holds nothing. A task has one
        result: further calls have no effect.

        Raises:
            ClaimLost, UsageError: as `QueueItem.ack`.
            NodeExistsError: an earlier task of that name has a result: somebody has deleted a part
                of the board by hand.

        Cancellation, on connection loss: as `QueueItem.ack`.
        """
        return self._loop.call(lambda: self._target.finish(data))

    def fail(self, note: str, data: V | bytes = b"") -> None:
        """Finish the task as failed: no other worker gets it. Otherwise as `finish`.

        `note` says why, in at most 4,096 bytes. To let another worker try, leave the body instead.
        """
        return self._loop.call(lambda: self._target.fail(note, data))


@final
class TaskBoard(Proxy, Generic[V]):
    """A task board: tasks for any worker, with progress and results for everybody.

        task = board.submit(b"...")
        result = board.result(task)

        with board.claim() as task:
            task.report(0.5, "half of it")
            task.finish(b"...")

        with board.observe() as view:
            for states in view: ...

    One worker at a time works on a task, under a claim that carries the progress. If the worker
    dies, both vanish, and the next worker gets the task. If the claim is lost, the body is
    cancelled before the servers can give the task to another worker. A task has one result, written
    in the transaction that deletes the task. Tasks are first claimed in the order of submission.

    Args:
        client: the session.
        path: the path; `tasks`, `claims` and `results` below it are created if missing.
        codec: the format of the data of tasks and results, for `submit`, `task.value`, `finish` and
            `result.value`; defaults to unchanged bytes. A task that it refuses is invalid: see
            `on_invalid`.
        max_tasks: how many tasks may wait or be worked on, at most 25,000. A soft limit: see
            `Queue.put`.
        retry_pause: for how long a task rests when its second attempt ends without a result; see
            `Queue`.
        max_attempts: how many workers may get a task, one after the other, before it counts as
            failed; by default any number.
        dead_letters: the path of a queue that such tasks move to, if any; see `Queue`.
        keep_results: how many results are kept, at most 20,000: the latest, and up to a quarter
            more.
        report_every: least time between two writes of a worker's progress, in seconds.
        identity: the worker's name, for observers; defaults to host name and process id.
        on_invalid: called with the error of an invalid task, as for a `Queue`.
        on_disconnect: the fate of claims on connection loss, as for a `Queue`.
        acl: of tasks, claims, results and their paths; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _target: aiolead.TaskBoard[Any]

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        codec: Codec[V] | None = None,
        max_tasks: int = 10000,
        retry_pause: float = 0.1,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        keep_results: int = 1000,
        report_every: float = 0.5,
        identity: str | None = None,
        on_invalid: Callable[[InvalidDataError], object] | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.TaskBoard,
            client,
            path,
            codec=codec,
            max_tasks=max_tasks,
            retry_pause=retry_pause,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            keep_results=keep_results,
            report_every=report_every,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def consume(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> Consumption[Task[V]]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
        return self._hold(self._target.consume(), on_lost)

    def submit(self, data: V) -> str:
        """Add a task; return its name, for `result` and `observe`.

        Raises, cancellation, on connection loss: as `Queue.put`, with `max_tasks` as the limit.
        """
        return self._loop.call(lambda: self._target.submit(data))

    def claim(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Task[V]]:
        """Claim the next task for the body of a `with`.

        Waits for a task for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `finish` or `fail` releases the task for another attempt, as for `Queue.get`.

        Raises, cancellation, on connection loss: as `Queue.get`.
        """
        return self._hold(self._target.claim(timeout=timeout), on_lost)

    def try_claim(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[Task[V] | None]:
        """As `claim`, but yields None at once if no task is free."""
        return self._hold(self._target.try_claim(), on_lost)

    def result(self, task: str) -> TaskResult[V]:
        """Wait for the result of a task, given its name.

        Raises:
            NoNodeError: neither the task nor its result exists: it was never submitted, or its
                result was too old to be kept.
            NoAuthError: the result may not be read.
            InvalidDataError: the result is invalid.

        Cancellation: stops waiting. On connection loss: waits on, also across expired sessions.
        """
        return self._loop.call(lambda: self._target.result(task))

    def observe(self) -> BoardView:
        """Observe all tasks with their states: `with board.observe() as view`.

        When a worker's claim ends, its task is seen to wait again.
        """
        return self._loop.begin(lambda: self._wrap(self._target.observe()))


class TenureContext(HoldContext, Generic[R_co]):
    """Acquires on entering and releases on leaving, for the body of a `with`.

    Entering waits, and leaving releases, with the errors of `blocking.TenureContext`. A loss
    does not cancel the body, since nothing cancels a thread. Afterwards, whatever the body asks of
    the same client raises the loss, and so does leaving, unless the body raised something else.

    An exception from a signal handler (Ctrl-C) while entering ends the wait and releases whatever
    was acquired. While leaving, it only ends the wait for the servers' confirmation. For one thread
    at a time.
    """

    _target: aiolead.types.TenureContext[Any]

    def __enter__(self) -> R_co:
        return self._enter()


class Term(Tenure):
    """One unbroken time of leadership.

    If `revoke` asks for it, and the election has `on_revocation="resign"`, the body is cancelled.
    From then on `check()` raises, and `loss` is `LossReason.REVOKED`. The term is held, and its
    lease renewed, until the body has ended.
    """

    _target: aiolead.Term

    def resign(self) -> None:
        """Resign: `release`, by its name for leadership."""
        return self._loop.call(lambda: self._target.resign())

    def prepare_hand_over(
        self, to: str | None = None, *, timeout: float | None = 20.0
    ) -> Participant:
        """Wait until a successor is the next in the queue, and ready; return it. Leads on.

        Stop the work then, and resign. If the successor dies before it leads, the next contender
        of the queue leads.

        Args:
            to: the successor's identity. The waiters before it are asked to step behind, and join
                the queue again at its end; those of other libraries stay. It need not wait yet.
                If it goes, or another process makes it step behind for another successor, the first
                one that waits is the successor. So it is for None, the default. With priorities,
                that is the best one, and a successor that is not the best one is waited for until
                it is.
            timeout: how long to wait, in seconds, 20 by default. None waits forever.

        Raises:
            HandOverTimeout: no successor was ready in time; says what it waited for.
            LeadershipLost: the term was lost, or is being revoked, meanwhile.
            UsageError: it was resigned; or another task hands it over.
            ServerError: the servers' answer to a read or a request, such as `NoAuthError`.

        Cancellation: the term goes on. On connection loss: goes on as long as the lease lasts.
        """
        return self._loop.call(lambda: self._target.prepare_hand_over(to, timeout=timeout))

    def hand_over(self, to: str | None = None, *, timeout: float | None = 20.0) -> Participant:
        """Resign once a successor is the next in the queue, and ready; return it.

        As `prepare_hand_over`, and `resign`: the body goes on, but holds nothing any more. So stop
        the work first, or use the two, and stop it in between.

        Raises what these two raise. If it raises `HandOverTimeout`, the term goes on.

        Cancellation: the term goes on, unless it was resigned by then.
        """
        return self._loop.call(lambda: self._target.hand_over(to, timeout=timeout))


@final
class TreeCache(Block):
    """A local copy of a tree, kept up to date. Curator's `CuratorCache`.

        with TreeCache(client, "/app/services") as cache:
            cache.children("/app/services")
            node = cache.get("/app/services/one")
            for event in cache.events(): ...

    Each znode in the copy moves from one of its states to a later one, never back. Once nothing
    changes any more, the copy equals the tree; until then, znodes may be from different moments.

    Each znode has a watch on its list of children. Besides, one recursive watch reports all
    changes, except those of unreadable znodes; before ZooKeeper 3.6, each znode has a second watch
    instead.

    To be entered once. Entering waits for the first full copy, over as many connections as it
    takes; leaving removes the watches.

    Args:
        client: the session.
        path: the top of the tree, which need not exist. `/` is allowed.
        data: whether to keep the data of the znodes, or only their `Stat`.
        select: decides by the path of each znode below the top whether to keep it and what is below
            it. It must be fast. Its exceptions end the cache with an `InternalError`.
        max_nodes: how many znodes there may be.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.

    Raises (on entering; later from `events`, `get` and `children`):
        TreeTooLargeError: the tree has more than `max_nodes` znodes.
        NoAuthError: the top may not be read. Other unreadable znodes are in the copy without data
            and children (`TreeNode.is_readable`); their creation and deletion are noticed, changes
            perhaps not. Servers do not report changed ACLs: a znode that becomes unreadable stays
            as it was until it is deleted or the connection is lost; one that becomes readable,
            until it is changed.
        RequestRefusedError (on entering): a reply is longer than `Limits.max_reply`. Later, the
            znode stays as it was, the cache is not live, and it is read again after growing pauses.
        ClientClosedError, AuthFailedError: the client has ended.

    On connection loss, and after an expired session: finds what changed by comparing transaction
    ids, and emits the events.
    """

    _target: aiolead.TreeCache

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        data: bool = True,
        select: Callable[[str], bool] | None = None,
        max_nodes: int = 100000,
    ) -> None:
        self._make(aiolead.TreeCache, client, path, data=data, select=select, max_nodes=max_nodes)

    @property
    def path(self) -> str:
        """The top of the tree."""
        return self._target.path

    @property
    def is_live(self) -> bool:
        """Whether the copy is complete, and the server reports what changes.

        Reported changes are read at once; `unread` has how many have not arrived yet. Servers
        report no changes of ACLs, nor of the data of unreadable znodes.
        """
        return self._target.is_live

    @property
    def unread(self) -> int:
        """How many znodes are still to be read; 0 if the copy has all reported changes."""
        return self._loop.ask(lambda: self._target.unread)

    def get(self, path: str) -> TreeNode | None:
        """A znode of the copy, or None. Raises `UsageError` before entering."""
        return self._target.get(path)

    def children(self, path: str) -> list[str] | None:
        """The sorted names of a znode's children in the copy; None if it does not exist there.

        Raises `UsageError` before entering.
        """
        return self._target.children(path)

    def __len__(self) -> int:
        return len(self._target)

    def __contains__(self, path: object) -> bool:
        return path in self._target

    def __iter__(self) -> Iterator[str]:
        """The present paths, sorted: a znode comes before what is below it."""
        return iter(self._target)

    def events(self, *, initial: bool = False) -> TreeEvents:
        """The events from now on: `for event in cache.events()`.

        With `initial`, they begin with the creation of all present znodes: those that `get` sees,
        if there is no checkpoint in between. Raises `UsageError` before entering, and outside of
        the client's event loop.
        """
        return self._loop.begin(lambda: self._wrap(self._target.events(initial=initial)))

    def __enter__(self) -> Self:
        return self._enter()


@final
class TreeEvents(Proxy):
    """The events of a `TreeCache`, for one reader.

    Each event leads from the last reported state of a znode to the present one. A slow reader may
    get several changes as one event, and none for a znode that came and went; no more is buffered
    than there are changed znodes. The events always add up to the copy. A replaced znode is
    reported as deleted and created. Events of one znode are in order; those of several are in the
    order in which each changed first.

    Ends with the cache, after the last event: with its error, if there is one.

    Cancellation: loses no event.
    """

    _target: aiolead.types.TreeEvents

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TreeEvent:
        return self._next()


@final
class UniqueNames(Proxy):
    """Names that nobody else has at the same time: a small naming service.

        names = UniqueNames(client, "/app/names")
        with names.claim("worker") as held:
            held.name       # "worker-0", or the lowest number that is free
        with names.claim("shard", most=16) as held:
            held.number     # waits until one of the 16 is free

    A name is one ephemeral znode, `<path>/<name>`, held under the lease like a lock: if it is lost,
    the body is cancelled before others could claim it. Any number of tasks may use one object, and
    a task may hold any number of names.

    Args: as for `Lock`, without `layout`. A malformed one raises `ConfigurationError`.
    """

    _target: aiolead.UniqueNames

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: Literal["keep", "resign"] = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._make(
            aiolead.UniqueNames,
            client,
            path,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def claim(
        self,
        kind: str,
        *,
        most: int = 100000,
        timeout: float | None = None,
        on_lost: Callable[[TenureLost], object] | None = None,
    ) -> TenureContext[HeldName]:
        """Claim the lowest free name of a kind for the body of a `with`.

        Args:
            kind: the beginning of the name.
            most: how many names of the kind there are, numbered from 0.
            timeout: how long to wait if none is free, in seconds. None waits forever, 0 tries once.
                When it is up, entering raises `AcquireTimeout`.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        For other errors, cancellation and connection loss see `TenureContext`.
        """
        return self._hold(self._target.claim(kind, most=most, timeout=timeout), on_lost)

    def try_claim(
        self,
        kind: str,
        *,
        most: int = 100000,
        on_lost: Callable[[TenureLost], object] | None = None,
    ) -> TenureContext[HeldName | None]:
        """As `claim`, but does not wait: gives None if no name is free."""
        return self._hold(self._target.try_claim(kind, most=most), on_lost)

    def holders(self) -> dict[str, Participant]:
        """Return the holders of all kinds, by name. May lag, as `Lock.holders`."""
        return self._loop.call(lambda: self._target.holders())


@final
class WatchStream(Block):
    """Every event of a persistent watch, in order, with `Missed` where some may be missing.

    Made by `Client.watch`. A context manager, entered once:
    `with client.watch(path) as events: for event in events:`.

    Entering waits until the server watches, and raises what a read would. Leaving removes the watch
    from the server, unless another stream of this client watches the same path. The iteration lasts
    as long as the client; then it raises `ClientClosedError`, or `AuthFailedError`. Of several
    tasks that iterate, one gets each event. Cancelling the wait for an event loses none. On
    connection loss the stream goes on, with a `Missed` as soon as the watch is set again.
    """

    _target: aiolead.types.WatchStream

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchEvent | Missed:
        return self._next()

    @property
    def unread(self) -> int:
        """How many events, gaps included, are unread."""
        return self._loop.ask(lambda: self._target.unread)

    @property
    def is_live(self) -> bool:
        """Whether a server watches now; false while the connection is down."""
        return self._target.is_live

    def __enter__(self) -> Self:
        return self._enter()


class WriteHeld(Held):
    """A hold for writing, or, after `downgrade`, for reading."""

    _target: aiolead.types.WriteHeld

    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
        return self._target.is_downgraded

    def downgrade(self) -> None:
        """Continue to hold the lock for reading: readers come in, and no writer in between.

        The tenure and its token stay the same, but the znode changes: what `fenced` returned before
        refuses to write from now on.

        Cancellation: the hold stays one for writing, or is one for reading already: see
        `is_downgraded`, which does not change later. It is safe to call this again. On connection
        loss: continues over the next connection.

        Raises:
            LockLost: the lock is lost.
            UsageError: the lock was released, by `release` or by the end of its body.
            ReleaseError: the servers refuse to delete the writer's znode. The hold is one for
                reading, but nobody else comes in before this session ends.
            ServerError: the servers refused to create the reader's znode, by an ACL for instance;
                the hold is still for writing.
        """
        return self._loop.call(lambda: self._target.downgrade())


@final
class WriteLock(Block):
    """The write side of a `ReadWriteLock`, held by one writer alone. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern writers only.
    """

    _target: aiolead.types.WriteLock

    def acquire(
        self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[WriteHeld]:
        """Acquire it for the body of a `with`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.
            on_lost: called with the loss, in a thread of its own, as soon as it is known.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and connection loss see
        `TenureContext`.
        """
        return self._hold(self._target.acquire(timeout=timeout), on_lost)

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._target.path

    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
        return self._target.identity

    def __enter__(self) -> WriteHeld:
        return self._enter()

    def try_acquire(
        self, *, on_lost: Callable[[TenureLost], object] | None = None
    ) -> TenureContext[WriteHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
        return self._hold(self._target.try_acquire(), on_lost)

    def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return self._loop.call(lambda: self._target.holders())

    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return self._loop.call(lambda: self._target.contenders())

    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return self._loop.call(lambda: self._target.revoke())


def connect(
    hosts: str | Sequence[str] | Hosts | None = None,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float | None = None,
    auth: Sequence[Auth] = (),
    default_acl: Sequence[ACL] | None = None,
    tls: ssl.SSLContext | TLS | None = None,
    sasl: SASL | None = None,
    grace_period: float | None = None,
    tick_time: float | None = None,
    watchdog: Watchdog | bool | None = None,
    close_on_crash: SessionGuardian | bool | None = None,
    observe_config: bool = False,
    read_only: bool = False,
    resume: SessionCredentials | None = None,
    engine: str | None = None,
    server_version: str | None = None,
    limits: Limits | None = None,
    on_event: EventSink | Sequence[EventSink] | None = None,
    hooks: Hooks | None = None,
    backend: Literal["asyncio", "trio"] = "asyncio",
    backend_options: dict[str, Any] | None = None,
) -> Connection:
    """Connect to a ZooKeeper ensemble: `with blocking.connect(...) as client:`.

    Entering starts a thread with an event loop and waits for the session. Leaving closes the
    session, so that its ephemeral znodes vanish at once, and ends the thread. Locks and other holds
    of other threads are lost first, and their bodies have the grace period to end. One client is
    enough for a process, whatever the number of its threads. Connect after forking, not before.

    Args:
        hosts: as for `aiolead.connect`.
        backend: the event loop in the thread: "asyncio" (the default) or "trio".
        backend_options: for `anyio.run`.
        options: as for `aiolead.connect`. `grace_period` is how long bodies have to notice a loss:
            at most a quarter of the session timeout, and by default a tenth. `on_event` is called
            in the thread of the event loop.

    Raises (at the call): as `aiolead.connect`.

    Raises (on entering): as `aiolead.connect`; and
        UsageError: in a thread that runs an event loop, or in a process in which gevent or
            eventlet have replaced threads.

    An exception from a signal handler (Ctrl-C) while entering cancels the attempt. While leaving,
    it ends the wait: the thread goes on closing the session.
    """
    return _connect.connect(
        lambda: aiolead.connect(
            hosts,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            auth=auth,
            default_acl=default_acl,
            tls=tls,
            sasl=sasl,
            grace_period=grace_period,
            tick_time=tick_time,
            watchdog=watchdog,
            close_on_crash=close_on_crash,
            observe_config=observe_config,
            read_only=read_only,
            resume=resume,
            engine=engine,
            server_version=server_version,
            limits=limits,
            on_event=on_event,
            hooks=hooks,
        ),
        backend=backend,
        backend_options=backend_options,
    )
