"""What type checkers read. Made by `python -m tests.support.blocking_stub`: do not edit."""

# fmt: off
# ruff: noqa
import aiolead
import random
import ssl
import threading
from .. import ACL, Auth, CreateMode, Hosts, Limits, Phase, SASL, ServiceInstance, TLS, TenureLost, Watchdog
from ..errors import InvalidDataError, LossReason, ServerError
from ..events import EventSink
from ..model import Created, EnsembleConfig, Identity, Missed, Participant, Quota, QuotaUsage, ServerSpec, SessionCredentials, SessionState, Stat, WatchEvent
from ..testing import Hooks
from ..types import ClientStatistics, Codec, ConfigVersion, DownPolicy, ElectionState, Layout, Member, MemberChange, NodeState, Published, SessionChange, Strategy, TaskResult, TaskState, TenureStatistics, TreeEvent, TreeNode, Versioned
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, NoReturn, Self, TypeVar, final, overload

__all__ = ['Barrier', 'BarrierMember', 'BoardView', 'Campaign', 'CampaignState', 'ChildrenView', 'Claimed', 'Client', 'Condition', 'ConditionHeld', 'Config', 'ConfigView', 'Connection', 'Consumption', 'Counter', 'DataView', 'DelayQueue', 'DoubleBarrier', 'Election', 'ElectionObserver', 'ExclusiveLock', 'Fence', 'FencedTransaction', 'Group', 'Held', 'HeldName', 'Lock', 'MembersView', 'Membership', 'MultiHeld', 'MultiLock', 'PersistentNode', 'Picker', 'PriorityQueue', 'Queue', 'QueueItem', 'ReadLock', 'ReadWriteLock', 'Reads', 'ReentrantLock', 'Registration', 'Semaphore', 'SequenceAllocator', 'ServiceRegistry', 'ServiceView', 'SessionStates', 'SharedValue', 'SharedValueView', 'Task', 'TaskBoard', 'Tenure', 'TenureContext', 'Term', 'Transaction', 'TreeCache', 'TreeEvents', 'UniqueNames', 'View', 'WatchStream', 'WriteHeld', 'WriteLock', 'connect']

C = TypeVar("C")
R_co = TypeVar("R_co")
T = TypeVar("T")

@final
class Barrier:
    """A barrier that any process sets and removes, and that others wait at while it is set."""
    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def set(self) -> None:
        """Set the barrier."""
    def remove(self) -> None:
        """Remove the barrier: every waiter goes on."""
    def is_set(self) -> bool:
        """Whether the barrier is set."""
    def wait(self) -> None:
        """Wait until the barrier is removed; return at once if it is not set."""

class BarrierMember(Tenure):
    """One unbroken time inside a double barrier."""
    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Registers a callback for the loss, called synchronously; at once if it is lost already."""
    @property
    def round(self) -> int:
        """The number of the round: the same for all who are in it, and greater for later ones."""

@final
class BoardView(View[Mapping[str, TaskState]]):
    """A view of all tasks with their states, by name, in the order of submission."""

@final
class Campaign:
    """The state of our contending: `with election.campaign() as view`."""
    def __iter__(self) -> Iterator[CampaignState]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def value(self) -> CampaignState:
        """The latest value."""
    @property
    def is_live(self) -> bool:
        """Whether a change of the value would be reported now."""

class CampaignState:
    """A state of a campaign."""
    @property
    def is_next(self) -> bool:
        """Whether we lead as soon as one contender before us leaves."""
    @property
    def token(self) -> int | None:
        """The fencing token of the term."""
    @property
    def phase(self) -> Phase:
        """See `CampaignState`."""
    @property
    def rank(self) -> int | None:
        """See `CampaignState`."""
    @property
    def reason(self) -> aiolead.errors.LossReason | None:
        """See `CampaignState`."""
    @property
    def session_id(self) -> int:
        """See `CampaignState`."""
    @property
    def term(self) -> aiolead.Term | None:
        """See `CampaignState`."""

@final
class ChildrenView(View[list[str] | None]):
    """The latest children of a znode, sorted; None while it does not exist."""

class Claimed(Tenure):
    """An item that is held under a claim: a `QueueItem`, or a `Task`."""
    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Registers a callback for the loss, called synchronously; at once if it is lost already."""
    @property
    def name(self) -> str:
        """The name of the item, and of its claim, on the servers."""

@final
class Client:
    """A session with a ZooKeeper ensemble, for any number of threads."""
    @property
    def session_id(self) -> int:
        """The current session; 0 while there is none."""
    @property
    def session_timeout(self) -> float:
        """What was asked for or what the servers granted, whichever is less, in seconds."""
    @property
    def state(self) -> SessionState:
        """The state of the session."""
    @property
    def credentials(self) -> SessionCredentials:
        """What another client, maybe in another process, needs to go on with the session."""
    def detach(self) -> SessionCredentials:
        """Lets the present session outlive the client: leaving does not close it."""
    def healthy(self, max_unconfirmed: float | None = None) -> bool:
        """Whether the servers have confirmed recently that this client is well: for health probes."""
    def statistics(self) -> ClientStatistics:
        """The client's session, connections, requests and lease, without asking a server."""
    def observe(self) -> SessionStates:
        """The states of the session, from the present one on, as an iterator."""
    def update_hosts(self, hosts: str | Sequence[str]) -> None:
        """Replaces the list of servers."""
    def ready(self) -> None:
        """Waits until the session is connected."""
    def add_auth(self, auth: Auth) -> None:
        """Presents more credentials: to the present server, and on every later connection."""
    def chroot(self, path: str) -> Client:
        """A view of what lies under `path`, over the same session."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> Created:
        """Creates a znode."""
    def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode without children, if it has the version (-1: any)."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Replaces a znode's data, if it has the version (-1: any); returns its new `Stat`."""
    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replaces a znode's ACL, if its ACL has the version (-1: any); returns its new `Stat`."""
    def transaction(self) -> Transaction:
        """Several writes that are applied together or not at all."""
    def check(self, path: str, *, version: int = -1) -> None:
        """Asks the quorum, by a transaction, whether a znode exists and has the version."""
    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Writes that are applied only while the znode `guard` exists, and in this session only."""
    def ensure_path(self, path: str, *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None) -> None:
        """Creates a znode and its missing parents (the chroot included), unless it is there."""
    def delete_all(self, path: str) -> int:
        """Deletes a znode with everything below it, whatever the versions."""
    def exists(self, path: str) -> Stat | None:
        """A znode's `Stat`, or None if there is no such znode."""
    def get(self, path: str) -> tuple[bytes, Stat]:
        """A znode's data and `Stat`."""
    def get_children(self, path: str) -> list[str]:
        """The names of a znode's children, in no particular order."""
    def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """The names of a znode's children, in no particular order, and its `Stat`."""
    def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """A znode's ACL and `Stat`."""
    def sync(self, path: str = '/') -> None:
        """Makes the connected server catch up with the leader before it answers later requests."""
    def get_all_children_number(self, path: str = '/') -> int:
        """How many znodes there are below a path, at any depth (ZooKeeper 3.6)."""
    def get_ephemerals(self, prefix: str = '/') -> list[str]:
        """The paths of this session's ephemeral znodes, in no particular order (ZooKeeper 3.6)."""
    def reads(self) -> Reads:
        """Several reads in one request, answered from one moment (ZooKeeper 3.6)."""
    def whoami(self) -> list[Identity]:
        """The identities of this client for the server: address and credentials (ZooKeeper 3.7)."""
    def get_quota(self, path: str) -> tuple[Quota, QuotaUsage] | None:
        """The quota on a znode's tree, and its usage; None if there is no quota."""
    def set_quota(self, path: str, quota: Quota) -> None:
        """Sets the quota on a znode's tree, in place of the present one."""
    def delete_quota(self, path: str) -> None:
        """Removes the quota on a znode's tree."""
    def get_config(self) -> EnsembleConfig:
        """The servers of the ensemble, whatever the chroot; none if it has no such configuration."""
    def reconfig(self, *, joining: Sequence[ServerSpec | str] = ..., leaving: Sequence[int] = ..., members: Sequence[ServerSpec | str] | None = None, version: int = -1) -> EnsembleConfig:
        """Changes the servers of the ensemble: some of them, or all."""
    def watch(self, path: str, *, recursive: bool = False, max_events: int = 10000) -> WatchStream:
        """The events of a znode, as they happen: `with client.watch(path) as events:`."""
    def observe_data(self, path: str) -> DataView:
        """A znode's latest data: `with client.observe_data(path) as view:`."""
    def observe_children(self, path: str) -> ChildrenView:
        """A znode's latest children: `with client.observe_children(path) as view:`."""
    def call(self, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
        """Await anything in the event loop of the client; return its result."""

@final
class Condition:
    """A lock whose holders can wait until another holder notifies them."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> ConditionHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path of the condition."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[ConditionHeld]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[ConditionHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process."""
    def waiters(self) -> list[Participant]:
        """Who waits to be notified, first come first, those already notified included."""

class ConditionHeld(Held):
    """The lock of a condition, held by the body of a `with`, except while it waits."""
    def wait(self, *, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify`, and acquire the lock again."""
    def notify(self, count: int = 1) -> int:
        """Wake the first `count` waiters, or as many as there are."""
    def notify_all(self) -> int:
        """Wake all waiters."""

@final
class Config(Generic[T]):
    """A configuration: several keys, published together, followed as one value."""
    @overload
    def __init__(self: Config[dict[str, bytes]], client: Client, path: str, *, keep: int = 10, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, max_size: int = 262144, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @overload
    def __init__(self, client: Client, path: str, *, parse: Callable[[dict[str, bytes]], T], keep: int = 10, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, max_size: int = 262144, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def get(self) -> Published[T]:
        """The present configuration, as the connected server has it, maybe a moment behind."""
    def observe(self) -> ConfigView[T]:
        """A view of the current configuration: `with config.observe() as view`."""
    def publish(self, changes: Mapping[str, bytes | None], *, version: int | None = None) -> int:
        """Change some keys, all at once; return the number of the new version."""
    def rollback(self, version: int) -> int:
        """Publish an earlier version as a new one; return the number of the new one."""
    def history(self) -> list[ConfigVersion]:
        """The versions in the history, the latest first."""

@final
class ConfigView(View[T]):
    """A view of the current configuration, which is always valid."""
    @property
    def version(self) -> int:
        """The number of the version that `value` is; 0 before anything was published."""
    @property
    def published(self) -> Published[T]:
        """The configuration with its version."""
    @property
    def invalid(self) -> InvalidDataError | None:
        """What is wrong with the latest version; None if it is valid, and so is `value`."""

class Consumption(Generic[C]):
    """Items, claimed one after the other: `with queue.consume() as items`."""
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> C: ...
    def __enter__(self) -> Self: ...

@final
class Counter:
    """A distributed counter."""
    def __init__(self, client: Client, path: str, *, codec: Codec[int] | None = None, lock: str | None = None, promote_after: int = 5, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def get(self) -> int:
        """The number, as the connected server has it, which may be a moment behind."""
    def add(self, n: int = 1) -> int:
        """Add to the number; return the new one."""
    def compare_and_set(self, old: int, new: int) -> bool:
        """Set the number if it is `old`; return whether it was."""
    def set(self, value: int) -> None:
        """Set the number, whatever it was; concurrent additions may be lost."""

@final
class DataView(View[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while it does not exist."""

@final
class DelayQueue:
    """A queue whose items are handed out when they are due, the earliest first."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, clock: Callable[[], float] = ..., identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim one after the other: `with ..."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None, at once, if there is no item to be had."""
    def size(self) -> int:
        """How many items there are, claimed ones included."""
    def put(self, data: bytes, *, delay: float | None = None, at: float | None = None) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes], *, delay: float | None = None, at: float | None = None) -> list[str]:
        """Add several items that are due at the same time; see `Queue.put_many`."""

@final
class DoubleBarrier:
    """Lets `count` members in together, and out together."""
    def __init__(self, client: Client, path: str, count: int, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> BarrierMember: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def enter(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[BarrierMember]:
        """Enter for the body of a `with`."""
    def members(self) -> list[Participant]:
        """Who is there, first come first; `is_holder` are those who are inside."""

@final
class Election:
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, leaders: int = 1, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def leadership(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Term]:
        """Lead for the body of a `with`."""
    def campaign(self) -> Campaign:
        """Contend in the background, and observe what becomes of it."""
    def observe(self) -> ElectionObserver:
        """Who leads, and each change of it, without contending."""
    def revoke(self) -> list[Participant]:
        """Ask the present leaders to resign, from any process."""
    def leader(self) -> Participant | None:
        """Who leads, the first of them where several do; None if nobody does."""
    def contenders(self) -> list[Participant]:
        """Who leads and who waits to, in order."""
    def run(self, worker: Callable[[Term], object], *, pause: float = 1.0, on_lost: Callable[[TenureLost], object] | None = None) -> NoReturn:
        """Contend forever, and call `worker(term)` in this thread once per term."""

@final
class ElectionObserver(View[ElectionState]):
    """Who leads, and each change of it: `with election.observe() as view`."""

@final
class ExclusiveLock:
    """A lock that is one ephemeral znode: whoever creates it has it."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock: one participant, or none."""

class Fence:
    """See `aiolead.abc.FencedClient`."""
    def transaction(self) -> FencedTransaction:
        """Several writes under one check; see `Client.transaction`."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> str:
        """Creates a znode and returns its path; see `Client.create`."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Sets a znode's data; see `Client.set`."""
    def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode; see `Client.delete`."""

class FencedTransaction(Transaction):
    """A transaction that is applied only while the guard exists."""

@final
class Group:
    """A group of members: ephemeral znodes `<path>/<identity>`, as with Curator's `GroupMember`."""
    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def join(self, data: bytes = b'', *, identity: str | None = None, timeout: float | None = None) -> Membership:
        """Be a member for the body of a `with`."""
    def observe(self) -> MembersView:
        """Observe the members: the latest ones, and their changes."""
    def members(self) -> dict[str, Member]:
        """The present members, by identity, in two round trips."""

class Held(Tenure):
    """One unbroken time of holding a lock."""
    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Registers a callback for the loss, called synchronously; at once if it is lost already."""

@final
class HeldName(Held):
    """One unbroken time of having a name."""
    @property
    def name(self) -> str:
        """The name: its kind, a dash, and its number."""
    @property
    def number(self) -> int:
        """The number: the lowest that was free when it was claimed."""

@final
class Lock:
    """A lock that one task of one process holds at a time, first come first served."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process."""

@final
class MembersView(View[Mapping[str, Member]]):
    """A view of the members of a group, by identity."""
    def changes(self) -> Iterator[MemberChange]:
        """Who joins, changes and leaves, one after the other; at first, everybody who is there."""

@final
class Membership(PersistentNode):
    """Membership in a group, for the body of a `with`."""
    @property
    def identity(self) -> str:
        """The member's name in the group."""

class MultiHeld:
    """One unbroken time of holding something."""
    @property
    def holds(self) -> tuple[Tenure, ...]:
        """The tenure of each, in the order in which they were acquired."""
    def verify(self) -> None:
        """Returns if the quorum confirms that all are held: in one round trip for each."""
    def release(self) -> None:
        """Release all of them before the body has ended; see `Tenure.release`."""
    lost: threading.Event
    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before."""
    def check(self) -> None:
        """Return if it is held now, by the clock."""

@final
class MultiLock:
    """Several locks as one: all of them are held, or none."""
    def __init__(self, *recipes: Condition | ExclusiveLock | Lock | ReadLock | ReentrantLock | Semaphore | WriteLock) -> None: ...
    def __enter__(self) -> MultiHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def recipes(self) -> tuple[Condition | ExclusiveLock | Lock | ReadLock | ReentrantLock | Semaphore | WriteLock, ...]:
        """What it is made of, in the order in which they are taken."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[MultiHeld]:
        """Acquire all of them for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[MultiHeld | None]:
        """As `acquire`, but does not wait: gives None if not all are free."""

class PersistentNode:
    """A znode that exists for the duration of a block, whatever happens to it meanwhile."""
    def __init__(self, client: Client, path: str, data: bytes = b'', *, mode: CreateMode = ..., restore: bool = True, timeout: float | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    def __iter__(self) -> Iterator[NodeState]: ...
    @property
    def path(self) -> str:
        """The znode."""
    @property
    def is_present(self) -> bool:
        """Whether the znode exists, as far as we know: False while the connection is lost."""
    @property
    def state(self) -> NodeState:
        """The present state."""
    def set(self, data: bytes) -> None:
        """Set the data: when this returns, the servers have confirmed these, or later ones."""
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

@final
class Picker:
    """Picks an instance for each request, of those that are registered at that moment."""
    def __init__(self, view: ServiceView, strategy: Strategy, *, down: DownPolicy | None = None, clock: Callable[[], float] = ...) -> None: ...
    def pick(self, key: str | None = None) -> ServiceInstance | None:
        """Pick an instance; None if there is none to be asked now."""
    def report_error(self, instance: ServiceInstance) -> None:
        """Report that a request to an instance has failed; see `DownPolicy`."""
    def is_down(self, instance: ServiceInstance) -> bool:
        """Whether an instance is left out because it has failed."""

@final
class PriorityQueue:
    """A queue whose items have priorities: smaller ones first, equal ones first come first served."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim one after the other: `with ..."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None, at once, if there is no item to be had."""
    def size(self) -> int:
        """How many items there are, claimed ones included."""
    def put(self, data: bytes, *, priority: int = 0) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes], *, priority: int = 0) -> list[str]:
        """Add several items of one priority; see `Queue.put_many`."""

@final
class Queue:
    """A queue: items persist until a consumer has acknowledged them; first come, first served."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim one after the other: `with ..."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None, at once, if there is no item to be had."""
    def size(self) -> int:
        """How many items there are, claimed ones included."""
    def put(self, data: bytes) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Add several items, all or none, one behind the other; return their names in order."""

class QueueItem(Claimed):
    """An item of a queue, held for the body of a `with`."""
    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts of the item: one, unless Curator's `putMulti` has put it."""
    @property
    def data(self) -> bytes:
        """The data of the item."""
    def ack(self) -> None:
        """Acknowledge the item: remove it from the queue."""

@final
class ReadLock:
    """A read/write lock, for reading: any number of readers hold it at once."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process."""

@final
class ReadWriteLock:
    """A lock that readers share, and that a writer has alone; first come first served."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def read(self) -> ReadLock:
        """The lock for reading."""
    @property
    def write(self) -> WriteLock:
        """The lock for writing."""
    @property
    def path(self) -> str:
        """The path that is contended for."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def holders(self) -> list[Participant]:
        """Who holds the lock: readers, or one writer."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release."""

class Reads:
    """Collects reads, then sends them as one (ZooKeeper 3.6)."""
    def get(self, path: str) -> Self:
        """Adds a read of a znode's data and `Stat`."""
    def get_children(self, path: str) -> Self:
        """Adds a read of the names of a znode's children."""
    def result(self) -> list[tuple[bytes, Stat] | list[str] | ServerError]:
        """Send the reads; return their results, in order."""

@final
class ReentrantLock:
    """A lock that the task that holds it may take again."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process."""
    @property
    def hold_count(self) -> int:
        """How often the current task has entered it, and not left."""

@final
class Registration(PersistentNode):
    """A registered instance, for the body of a `with`."""
    @property
    def instance(self) -> ServiceInstance:
        """The instance as others see it, or are about to."""
    def update(self, instance: ServiceInstance) -> None:
        """Change the instance: when this returns, the servers have confirmed it, or a later one."""
    def drain(self) -> None:
        """Ask for no more requests: set `enabled` to false, which clients of Curator respect, too."""
    def resume(self) -> None:
        """Ask for requests again."""
    def report_load(self, load: float) -> None:
        """Publish the load, at most once per `load_interval`: the latest counts."""

@final
class Semaphore:
    """A number of permits that any number of tasks and processes share, first come first served."""
    def __init__(self, client: Client, path: str, limit: int, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, permits: int = 1, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire permits for the body of a `with`: all of them, or none."""
    def try_acquire(self, *, permits: int = 1, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
    def set_limit(self, limit: int) -> None:
        """Publish how many permits there are, for everybody, from now on and for good."""
    def limit(self) -> int:
        """How many permits there are: what was published, else the argument."""
    def available(self) -> int:
        """How many permits are free; 0 while somebody waits for them."""
    def holders(self) -> list[Participant]:
        """One participant for each permit that is held, in the order in which they were created."""
    def contenders(self) -> list[Participant]:
        """One participant for each permit that is held, then one for each who waits, in order."""

@final
class SequenceAllocator:
    """Numbers that are handed out once, in all processes together."""
    def __init__(self, client: Client, path: str, *, block: int = 1, last: int = 9223372036854775807, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def at_hand(self) -> int:
        """How many numbers can be handed out without a request."""
    def next(self) -> int:
        """A number that nobody else gets."""
    def take(self, count: int) -> range:
        """`count` numbers in a row that nobody else gets."""
    def stamp(self) -> int:
        """A number that no path of the ensemble ever hands out again: one request."""

@final
class ServiceRegistry:
    """Service discovery as with Curator's `ServiceDiscovery`: `<path>/<service>/<id>`."""
    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def register(self, instance: ServiceInstance, *, load_interval: float = 1.0, timeout: float | None = None) -> Registration:
        """Register an instance for the body of a `with`."""
    def observe(self, service: str) -> ServiceView:
        """Observe the instances of a service, disabled ones included; a `Picker` omits those."""
    def services(self) -> list[str]:
        """The names of all services, sorted."""
    def instances(self, service: str) -> list[ServiceInstance]:
        """The present instances of a service, sorted by id, in two round trips."""

@final
class ServiceView(View[Mapping[str, ServiceInstance]]):
    """A view of the instances of a service, by id."""
    @property
    def invalid(self) -> Mapping[str, str]:
        """Why registered instances are invalid, by id."""

class SessionStates:
    """The states of a client's session, from the present one on."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> SessionChange: ...
    @property
    def current(self) -> SessionChange:
        """The state now, whatever has been iterated over."""
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

@final
class SharedValue(Generic[T]):
    """A value that several processes share."""
    @overload
    def __init__(self: SharedValue[bytes], client: Client, path: str, default: bytes = b'', *, on_invalid: Callable[[InvalidDataError], object] | None = None, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @overload
    def __init__(self, client: Client, path: str, default: T, *, codec: Codec[T], on_invalid: Callable[[InvalidDataError], object] | None = None, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    def get(self) -> Versioned[T]:
        """The value, as the connected server has it, which may be a moment behind."""
    def set(self, value: T) -> Versioned[T]:
        """Set the value, whatever it was."""
    def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has."""
    def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until nobody else has written in between."""
    def observe(self) -> SharedValueView[T]:
        """A view of the latest value: `with value.observe() as view`."""

@final
class SharedValueView(View[T]):
    """A view of a `SharedValue`."""
    @property
    def versioned(self) -> Versioned[T]:
        """The latest value, with its version."""

@final
class Task(Claimed):
    """A task, held for the body of a `with`."""
    @property
    def data(self) -> bytes:
        """The data of the task."""
    def report(self, progress: float | None = None, note: str = '') -> None:
        """Report progress to observers of the board."""
    def finish(self, data: bytes = b'') -> None:
        """Finish the task: delete it and write its result, in one transaction."""
    def fail(self, note: str, data: bytes = b'') -> None:
        """Finish the task as failed: no other worker gets it."""

@final
class TaskBoard:
    """A task board: tasks for any worker, with progress and results for everybody."""
    def __init__(self, client: Client, path: str, *, max_tasks: int = 10000, keep_results: int = 1000, report_every: float = 0.5, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[Task]:
        """Claim one after the other: `with ..."""
    def submit(self, data: bytes) -> str:
        """Add a task; return its name, for `result` and `observe`."""
    def claim(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Task]:
        """Claim the next task for the body of a `with`."""
    def try_claim(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Task | None]:
        """As `claim`, but yields None, at once, if there is no task to be had."""
    def result(self, task: str) -> TaskResult:
        """Wait for the result of a task."""
    def observe(self) -> BoardView:
        """Observe all tasks with their states: `with board.observe() as view`."""

class Tenure:
    """One unbroken time of holding something."""
    @property
    def path(self) -> str:
        """Our znode."""
    @property
    def token(self) -> int:
        """The fencing token: rises with every tenure, and is never used twice."""
    @property
    def identity(self) -> str:
        """What others see as the holder."""
    @property
    def session_id(self) -> int:
        """The session that owns our znode."""
    @property
    def is_released(self) -> bool:
        """Whether it was released (`release`, `resign`) before its body had ended."""
    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and if it was released."""
    def verify(self) -> None:
        """Returns if the quorum confirms, in one round trip, that it is held."""
    def fenced(self) -> Fence:
        """Writes that the ensemble itself refuses (`Fenced`) once our znode is gone."""
    def release(self) -> None:
        """Release it before the body has ended."""
    @property
    def is_revocation_requested(self) -> bool:
        """Whether others ask for a release (`revoke`)."""
    def revocation_requested(self) -> None:
        """Wait until others ask for a release; forever, where the recipe has no `revoke`."""
    def statistics(self) -> TenureStatistics:
        """The state of the tenure, as it is known here, without asking a server."""
    lost: threading.Event
    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before."""
    def check(self) -> None:
        """Return if it is held now, by the clock."""

class TenureContext(Generic[R_co]):
    """Acquires on entering and releases on leaving, for the body of a `with`."""
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def __enter__(self) -> R_co: ...

class Term(Tenure):
    """One unbroken time of leadership."""
    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Registers a callback for the loss, called synchronously; at once if it is lost already."""
    def resign(self) -> None:
        """Resign: `release`, by its name for leadership."""

class Transaction:
    """Collects operations, then sends them as one."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> Self:
        """Adds a create; see `Client.create`."""
    def delete(self, path: str, *, version: int = -1) -> Self:
        """Adds a delete; see `Client.delete`."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Adds a set; see `Client.set`."""
    def check(self, path: str, *, version: int = -1) -> Self:
        """Adds the condition that a znode exists, and has the version, unless that is -1."""
    def commit(self) -> list[str | Stat | None]:
        """Sends the transaction."""

@final
class TreeCache:
    """A local copy of a tree, kept up to date."""
    def __init__(self, client: Client, path: str, *, data: bool = True, select: Callable[[str], bool] | None = None, max_nodes: int = 100000) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The top of the tree."""
    @property
    def is_live(self) -> bool:
        """Whether the copy has all reported changes, and the server would report more."""
    def get(self, path: str) -> TreeNode | None:
        """A znode of the copy; None if it does not exist."""
    def children(self, path: str) -> list[str] | None:
        """The names of a znode's children, sorted; None if the znode does not exist."""
    def __len__(self) -> int: ...
    def __contains__(self, path: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def events(self, *, initial: bool = False) -> TreeEvents:
        """The events from now on: `for event in cache.events()`."""

@final
class TreeEvents:
    """The events of a `TreeCache`, for one reader."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> TreeEvent: ...

@final
class UniqueNames:
    """Names that nobody else has at the same time: a small naming service."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def claim(self, kind: str, *, most: int = 100000, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[HeldName]:
        """Claim the lowest free name of a kind for the body of a `with`."""
    def try_claim(self, kind: str, *, most: int = 100000, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[HeldName | None]:
        """As `claim`, but does not wait: gives None if no name is free."""
    def holders(self) -> dict[str, Participant]:
        """Which names are taken, of all kinds, and by whom."""

class View(Generic[T]):
    """The latest value of something on the servers, and an iterator over what it becomes."""
    def __iter__(self) -> Iterator[T]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def value(self) -> T:
        """The latest value."""
    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""

@final
class WatchStream:
    """Every event of a persistent watch, in order, and `Missed` where there may be a gap."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> WatchEvent | Missed: ...
    @property
    def unread(self) -> int:
        """How many events, gaps included, are unread."""
    @property
    def is_live(self) -> bool:
        """Whether a server watches now: not while the connection is down."""
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

class WriteHeld(Held):
    """One unbroken time of holding a lock for writing, or, after `downgrade`, for reading."""
    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
    def downgrade(self) -> None:
        """Go on to hold the lock for reading: readers come in, and no writer in between."""

@final
class WriteLock:
    """A read/write lock, for writing: nobody else holds it meanwhile."""
    def __enter__(self) -> WriteHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def path(self) -> str:
        """The path that was given."""
    @property
    def identity(self) -> str:
        """What others see as the holder or contender."""
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[WriteHeld]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[WriteHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Who holds the lock."""
    def contenders(self) -> list[Participant]:
        """Who holds the lock and who waits for it, in order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release the lock, from any process."""

@final
class Connection:
    """The context manager that `connect` returns; it can be entered once."""
    def __enter__(self) -> Client: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

def connect(hosts: str | Sequence[str] | Hosts | None = None, *, session_timeout: float = 10.0, connect_timeout: float | None = None, auth: Sequence[Auth] = ..., tls: ssl.SSLContext | TLS | None = None, sasl: SASL | None = None, grace_period: float | None = None, tick_time: float | None = None, watchdog: Watchdog | bool | None = None, observe_config: bool = False, read_only: bool = False, resume: SessionCredentials | None = None, server_version: str | None = None, limits: Limits | None = None, on_event: EventSink | Sequence[EventSink] | None = None, hooks: Hooks | None = None, backend: Literal["asyncio", "trio"] = 'asyncio', backend_options: dict[str, Any] | None = None) -> Connection:
    """A session with a ZooKeeper ensemble: `with blocking.connect(...) as client:`."""
