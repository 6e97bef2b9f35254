"""What type checkers read. Made by `python -m tests.blocking.stub`: do not edit."""

# fmt: off
# ruff: noqa
import aiolead
import random
import ssl
import threading
from .. import ACL, Auth, CreateMode, Hosts, Limits, Phase, SASL, ServiceInstance, SessionGuardian, TLS, TenureLost, Watchdog
from ..errors import InvalidDataError, LossReason, ServerError
from ..events import EventSink
from ..model import Created, Missed, Participant, SessionCredentials, SessionState, Stat, WatchEvent
from ..testing import Hooks
from ..types import ClientStatistics, Codec, ConfigVersion, DownPolicy, ElectionState, Layout, Member, MemberChange, NodeState, Published, SessionChange, Strategy, TaskResult, TaskState, TenureStatistics, TreeEvent, TreeNode, Versioned
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, NoReturn, Self, TypeVar, final, overload
from . import admin as admin

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
        """The path, as it was passed."""
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
    @property
    def round(self) -> int:
        """The number of the round: the same for all its members, and greater for later rounds."""

@final
class BoardView(View[Mapping[str, TaskState]]):
    """All tasks with their states, by name, in the order of submission."""

@final
class Campaign:
    """A view of a campaign's states: `with election.campaign() as view`."""
    def __iter__(self) -> Iterator[CampaignState]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def value(self) -> CampaignState:
        """The latest value; `UsageError` if the view is not open yet."""
    @property
    def is_live(self) -> bool:
        """Whether a change of the value would be reported now."""

class CampaignState:
    """A state of a campaign."""
    @property
    def is_next(self) -> bool:
        """Whether this contender leads as soon as one before it leaves."""
    @property
    def token(self) -> int | None:
        """The fencing token of the term; None while following."""
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
    """An item held under a claim: a `QueueItem`, or a `Task`."""
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
        """The timeout asked for or the one granted, whichever is less, in seconds."""
    @property
    def state(self) -> SessionState:
        """The state of the session; `CLOSED` in a forked child, which has none."""
    @property
    def credentials(self) -> SessionCredentials:
        """The credentials with which another client, in any process, can continue the session."""
    def detach(self) -> SessionCredentials:
        """Let the present session outlive the client, and return its `credentials`."""
    def healthy(self, max_unconfirmed: float | None = None) -> bool:
        """Return whether the servers have confirmed recently that this client is well."""
    def statistics(self) -> ClientStatistics:
        """Return the state of session, connections, requests and lease; asks no server."""
    def observe(self) -> SessionStates:
        """Return the session's states, from the present one on, as an iterator."""
    def update_hosts(self, hosts: str | Sequence[str]) -> None:
        """Replace the list of servers, by a connect string or a list of its parts."""
    def ready(self) -> None:
        """Wait until the session is connected."""
    def add_auth(self, auth: Auth) -> None:
        """Present more credentials: to the present server, and on every later connection."""
    def chroot(self, path: str) -> Client:
        """Return a view of what lies under `path`, over the same session."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> Created:
        """Create a znode."""
    def delete(self, path: str, *, version: int = -1) -> None:
        """Delete a znode, if it has the version; with children it raises `NotEmptyError`."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Replace a znode's data, if it has the version; return its new `Stat`."""
    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> Stat:
        """Replace a znode's ACL, if that has the version; return the znode's new `Stat`."""
    def transaction(self) -> Transaction:
        """Return a transaction: several writes, applied together or not at all."""
    def check(self, path: str, *, version: int = -1) -> None:
        """Ask the quorum, by a transaction, whether a znode exists and has the version."""
    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Return writes that are applied only while the znode `guard` exists, in this session only."""
    def ensure_path(self, path: str, *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None) -> None:
        """Create a znode and its missing parents (the chroot included), if it does not exist."""
    def exists(self, path: str) -> Stat | None:
        """Return a znode's `Stat`, or None if it does not exist."""
    def get(self, path: str) -> tuple[bytes, Stat]:
        """Return a znode's data and `Stat`."""
    def get_children(self, path: str) -> list[str]:
        """Return the names of a znode's children, in no particular order."""
    def get_children_and_stat(self, path: str) -> tuple[list[str], Stat]:
        """Return the names of a znode's children and its `Stat`; else like `get_children`."""
    def get_acl(self, path: str) -> tuple[list[ACL], Stat]:
        """Return a znode's ACL and `Stat`."""
    def sync(self, path: str = '/') -> None:
        """Make the connected server catch up with the leader before it answers later requests."""
    def get_all_children_number(self, path: str = '/') -> int:
        """Return the number of znodes below a path, at any depth (ZooKeeper 3.6)."""
    def reads(self) -> Reads:
        """Return several reads in one request, answered as of one moment (ZooKeeper 3.6)."""
    def watch(self, path: str, *, recursive: bool = False, max_events: int = 10000) -> WatchStream:
        """Return a znode's events as a stream: `with client.watch(path) as events:`."""
    def observe_data(self, path: str) -> DataView:
        """Return a view of a znode's latest data: `with client.observe_data(path) as view:`."""
    def observe_children(self, path: str) -> ChildrenView:
        """Return a view of a znode's children: `with client.observe_children(path) as view:`."""
    def call(self, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
        """Await anything in the event loop of the client; return its result."""

@final
class Condition:
    """A lock whose holders can wait until another holder notifies them."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path of the condition; its lock is at `lock` below it."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> ConditionHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[ConditionHeld]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[ConditionHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holders."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before."""
    def waiters(self) -> list[Participant]:
        """Return the waiters, first come first, including notified ones."""

class ConditionHeld(Held):
    """The hold of a condition's lock by the body of a `with`, interrupted by `wait`."""
    def wait(self, *, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify`, acquire it again; return False after a timeout."""
    def notify(self, count: int = 1) -> int:
        """Wake the first `count` waiters, or all if there are fewer; return how many were woken."""
    def notify_all(self) -> int:
        """Wake all waiters; otherwise as `notify`."""

@final
class Config(Generic[T]):
    """A configuration: several keys, published together and observed as one value."""
    @overload
    def __init__(self: Config[dict[str, bytes]], client: Client, path: str, *, keep: int = 10, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, max_size: int = 262144, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @overload
    def __init__(self, client: Client, path: str, *, parse: Callable[[dict[str, bytes]], T], keep: int = 10, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, max_size: int = 262144, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    def get(self) -> Published[T]:
        """Return the configuration."""
    def observe(self) -> ConfigView[T]:
        """Return a view of the current configuration: `with config.observe() as view`."""
    def publish(self, changes: Mapping[str, bytes | None], *, version: int | None = None) -> int:
        """Change some keys, all at once; return the number of the new version."""
    def rollback(self, version: int) -> int:
        """Publish a version of the history as a new one; return the number of the new one."""
    def history(self) -> list[ConfigVersion]:
        """Return the versions in the history, the latest first."""

@final
class ConfigView(View[T]):
    """A view of the current configuration, which is always valid."""
    @property
    def version(self) -> int:
        """The version number of `value`; 0 before anything was published."""
    @property
    def published(self) -> Published[T]:
        """The configuration with its version."""
    @property
    def invalid(self) -> InvalidDataError | None:
        """The error of the latest version; None if that is valid, and therefore `value`."""

class Consumption(Generic[C]):
    """Items, claimed one after the other: `with queue.consume() as items`."""
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> C: ...
    def __enter__(self) -> Self: ...
    def __bool__(self) -> NoReturn: ...

@final
class Counter:
    """A distributed counter."""
    def __init__(self, client: Client, path: str, *, codec: Codec[int] | None = None, lock: str | None = None, promote_after: int = 5, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    def get(self) -> int:
        """Return the number; `InvalidDataError` if malformed."""
    def add(self, n: int = 1) -> int:
        """Add `n`, which may be negative, to the number; return the new one."""
    def compare_and_set(self, old: int, new: int) -> bool:
        """Set the number if it is `old`; return whether it was."""
    def set(self, value: int) -> None:
        """Set the number unconditionally; concurrent additions may be lost."""

@final
class DataView(View[tuple[bytes, Stat] | None]):
    """The latest data and `Stat` of a znode; None while it does not exist."""

@final
class DelayQueue:
    """A queue whose items are handed out when they are due, the earliest first."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, clock: Callable[[], float] = ..., identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None at once if no item is free."""
    def size(self) -> int:
        """The number of items, claimed ones included."""
    def put(self, data: bytes, *, delay: float | None = None, at: float | None = None) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes], *, delay: float | None = None, at: float | None = None) -> list[str]:
        """Add several items that are due at the same time; see `Queue.put_many`."""

@final
class DoubleBarrier:
    """Lets `count` members in together, and out together."""
    def __init__(self, client: Client, path: str, count: int, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> BarrierMember: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def enter(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[BarrierMember]:
        """Enter for the body of a `with`."""
    def members(self) -> list[Participant]:
        """The members, first come first; `is_holder` are those that are inside."""

@final
class Election:
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, leaders: int = 1, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def leadership(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Term]:
        """Lead for the body of a `with`."""
    def campaign(self) -> Campaign:
        """Contend in the background, and observe the states."""
    def observe(self) -> ElectionObserver:
        """Observe who leads, without contending."""
    def revoke(self) -> list[Participant]:
        """Ask the present leaders, from any process, to resign."""
    def leader(self) -> Participant | None:
        """The leader, the first one if there are several; None if there is none."""
    def contenders(self) -> list[Participant]:
        """The leaders and the waiters, in order."""
    def run(self, worker: Callable[[Term], object], *, pause: float = 1.0, on_lost: Callable[[TenureLost], object] | None = None) -> NoReturn:
        """Contend forever, and call `worker(term)` in this thread once per term."""

@final
class ElectionObserver(View[ElectionState]):
    """The leaders, and each change of them: `with election.observe() as view`."""

@final
class ExclusiveLock:
    """A lock that is one ephemeral znode: the client that creates it holds the lock."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holder, or an empty list."""

class Fence:
    """Writes that the server applies only while the guarding znode exists."""
    def transaction(self) -> FencedTransaction:
        """See `Client.transaction`."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> str:
        """See `Client.create`; returns the znode's path."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """See `Client.set`."""
    def delete(self, path: str, *, version: int = -1) -> None:
        """See `Client.delete`."""

class FencedTransaction(Transaction):
    """A transaction that begins with the guard's check; raises `Fenced` without the guard."""

@final
class Group:
    """A group of members: ephemeral znodes `<path>/<identity>`, as with Curator's `GroupMember`."""
    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    def join(self, data: bytes = b'', *, identity: str | None = None, timeout: float | None = None) -> Membership:
        """Be a member for the body of a `with`."""
    def observe(self) -> MembersView:
        """Observe the members: the latest ones, and their changes."""
    def members(self) -> dict[str, Member]:
        """Return the members by identity, in two round trips."""

class Held(Tenure):
    """One unbroken time of holding a lock."""

@final
class HeldName(Held):
    """A hold of a name; otherwise as `Held`."""
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
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holders."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before."""

@final
class MembersView(View[Mapping[str, Member]]):
    """A view of the members of a group, by identity."""
    def changes(self) -> Iterator[MemberChange]:
        """Iterate over changes one by one; the first ones are the present members."""

@final
class Membership(PersistentNode):
    """Membership in a group, for the body of a `with`."""
    @property
    def identity(self) -> str:
        """The member's name in the group."""

class MultiHeld:
    """One uninterrupted hold."""
    @property
    def holds(self) -> tuple[Tenure, ...]:
        """The tenures, in the order of acquisition."""
    def verify(self) -> None:
        """Return if the quorum confirms that all are held: one round trip for each."""
    def release(self) -> None:
        """Release all of them before the body has ended; see `Tenure.release`."""
    lost: threading.Event
    @property
    def is_held(self) -> bool:
        """Whether it is held at this call, by the clock."""
    def remaining(self) -> float:
        """Seconds until the holder must begin to stop, unless the lease is renewed before."""
    def check(self) -> None:
        """Return if it is held now, by the clock."""

@final
class MultiLock:
    """Several locks as one: all are held, or none."""
    def __init__(self, *recipes: Condition | ExclusiveLock | Lock | ReadLock | ReentrantLock | Semaphore | WriteLock) -> None: ...
    @property
    def recipes(self) -> tuple[Condition | ExclusiveLock | Lock | ReadLock | ReentrantLock | Semaphore | WriteLock, ...]:
        """The parts, in the order of acquisition."""
    def __enter__(self) -> MultiHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
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
        """The znode's path; `UsageError` while a sequential one has no number."""
    @property
    def is_present(self) -> bool:
        """Whether the znode exists, as far as we know; False while the connection is lost."""
    @property
    def state(self) -> NodeState:
        """The present state."""
    def set(self, data: bytes) -> None:
        """Set the data; return once the servers have confirmed them, or later ones."""
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

@final
class Picker:
    """Picks one of the currently registered instances for each request."""
    def __init__(self, view: ServiceView, strategy: Strategy, *, down: DownPolicy | None = None, clock: Callable[[], float] = ...) -> None: ...
    def pick(self, key: str | None = None) -> ServiceInstance | None:
        """Pick an instance; None if none is available."""
    def report_error(self, instance: ServiceInstance) -> None:
        """Report a failed request to an instance; see `DownPolicy`."""
    def is_down(self, instance: ServiceInstance) -> bool:
        """Whether an instance is left out because it has failed."""

@final
class PriorityQueue:
    """A queue with priorities: the smallest first, equal ones first come, first served."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None at once if no item is free."""
    def size(self) -> int:
        """The number of items, claimed ones included."""
    def put(self, data: bytes, *, priority: int = 0) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes], *, priority: int = 0) -> list[str]:
        """Add several items of one priority; see `Queue.put_many`."""

@final
class Queue:
    """A queue: items persist until a consumer acknowledges them; first come, first served."""
    def __init__(self, client: Client, path: str, *, claims: str | None = None, max_items: int = 10000, identity: str | None = None, on_invalid: Callable[[InvalidDataError], object] | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[QueueItem]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
    def get(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem]:
        """Claim the next item for the body of a `with`."""
    def try_get(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[QueueItem | None]:
        """As `get`, but yields None at once if no item is free."""
    def size(self) -> int:
        """The number of items, claimed ones included."""
    def put(self, data: bytes) -> str:
        """Add an item; return its name."""
    def put_many(self, items: Iterable[bytes]) -> list[str]:
        """Add separate items, all or none, one behind the other; return their names in order."""

class QueueItem(Claimed):
    """An item of a queue, held for the body of a `with`."""
    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts of the item: one, unless Curator's `putMulti` wrote it."""
    @property
    def data(self) -> bytes:
        """The data of the item; raises `UsageError` unless it has exactly one part (`parts`)."""
    def ack(self) -> None:
        """Acknowledge the item: delete it from the queue."""

@final
class ReadLock:
    """The read side of a `ReadWriteLock`, shared by readers."""
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holders."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before."""

@final
class ReadWriteLock:
    """A lock that readers share and a writer holds alone; first come first served."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def read(self) -> ReadLock:
        """The lock for reading."""
    @property
    def write(self) -> WriteLock:
        """The lock for writing."""
    @property
    def path(self) -> str:
        """The contended path."""
    @property
    def identity(self) -> str:
        """The name that others see for this holder or contender."""
    def holders(self) -> list[Participant]:
        """Return the holders: readers, or one writer."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release."""

class Reads:
    """Several reads, sent as one request (ZooKeeper 3.6)."""
    def get(self, path: str) -> Self:
        """Add a read of a znode's data and `Stat`."""
    def get_children(self, path: str) -> Self:
        """Add a read of the names of a znode's children."""
    def result(self) -> list[tuple[bytes, Stat] | list[str] | ServerError]:
        """Send the reads; return their results, in order."""

@final
class ReentrantLock:
    """A `Lock` that the task that holds it may acquire again."""
    def __init__(self, client: Client, path: str, *, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holders."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before."""
    @property
    def hold_count(self) -> int:
        """How many blocks of the current task hold it; 0 elsewhere, also in a forked child."""

@final
class Registration(PersistentNode):
    """A registered instance, for the body of a `with`."""
    @property
    def instance(self) -> ServiceInstance:
        """The instance as others see it, or soon will."""
    def update(self, instance: ServiceInstance) -> None:
        """Change the instance; return once the servers have confirmed this change or a later one."""
    def drain(self) -> None:
        """Stop new requests: set `enabled` to false, which clients of Curator respect, too."""
    def resume(self) -> None:
        """Accept requests again."""
    def report_load(self, load: float) -> None:
        """Publish the load, at most once per `load_interval`; the latest value wins."""

@final
class Semaphore:
    """Permits that tasks and processes share, first come first served."""
    def __init__(self, client: Client, path: str, limit: int, *, follow_limit: bool = False, identity: str | None = None, layout: Layout = ..., on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> Held: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, permits: int = 1, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held]:
        """Acquire permits for the body of a `with`: all of them, or none."""
    def try_acquire(self, *, permits: int = 1, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Held | None]:
        """As `acquire`, but gives None at once if they are not free or others wait for permits."""
    def set_limit(self, limit: int) -> None:
        """Publish the number of permits, for all processes and permanently."""
    def limit(self) -> int:
        """Return the limit that counts for this object."""
    def available(self) -> int:
        """Return how many permits are free; 0 while others wait for them."""
    def holders(self) -> list[Participant]:
        """Return one participant for each held permit, in order of creation."""
    def contenders(self) -> list[Participant]:
        """Return `holders`, then one participant for each waiter, in queue order."""

@final
class SequenceAllocator:
    """Allocates numbers that are unique across all processes."""
    def __init__(self, client: Client, path: str, *, block: int = 1, last: int = 9223372036854775807, rng: random.Random | None = None, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def at_hand(self) -> int:
        """How many numbers are available without a request."""
    def next(self) -> int:
        """Return a number that no other caller gets."""
    def take(self, count: int) -> range:
        """Return `count` consecutive numbers."""
    def stamp(self) -> int:
        """Return a number that no path of the ensemble ever returns again, by one request."""

@final
class ServiceRegistry:
    """Service discovery as with Curator's `ServiceDiscovery`: `<path>/<service>/<id>`."""
    def __init__(self, client: Client, path: str, *, acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    def register(self, instance: ServiceInstance, *, load_interval: float = 1.0, timeout: float | None = None) -> Registration:
        """Register an instance for the body of a `with`."""
    def observe(self, service: str) -> ServiceView:
        """Observe a service's instances, including disabled ones, which a `Picker` omits."""
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
        """The state now, independent of the iteration."""
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
        """The path, as it was passed."""
    def get(self) -> Versioned[T]:
        """Return the value."""
    def set(self, value: T) -> Versioned[T]:
        """Set the value unconditionally."""
    def compare_and_set(self, expected: Versioned[T], value: T) -> Versioned[T] | None:
        """Set the value if nobody has changed it since; return None if somebody has."""
    def update(self, change: Callable[[T], T]) -> Versioned[T]:
        """Read the value, change it and set it, until no other client has written in between."""
    def observe(self) -> SharedValueView[T]:
        """Return a view of the latest value: `with value.observe() as view`."""

@final
class SharedValueView(View[T]):
    """A view of a `SharedValue`: a write of an equal value counts as a change."""
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
        """Finish the task: delete it and write its result, `data`, in one transaction."""
    def fail(self, note: str, data: bytes = b'') -> None:
        """Finish the task as failed: no other worker gets it."""

@final
class TaskBoard:
    """A task board: tasks for any worker, with progress and results for everybody."""
    def __init__(self, client: Client, path: str, *, max_tasks: int = 10000, keep_results: int = 1000, report_every: float = 0.5, identity: str | None = None, on_disconnect: Literal['keep', 'resign'] = 'keep', acl: Sequence[ACL] | None = None) -> None: ...
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def consume(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> Consumption[Task]:
        """Claim items one after the other, as an iterator: see `Consumption`."""
    def submit(self, data: bytes) -> str:
        """Add a task; return its name, for `result` and `observe`."""
    def claim(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Task]:
        """Claim the next task for the body of a `with`."""
    def try_claim(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[Task | None]:
        """As `claim`, but yields None at once if no task is free."""
    def result(self, task: str) -> TaskResult:
        """Wait for the result of a task, given its name."""
    def observe(self) -> BoardView:
        """Observe all tasks with their states: `with board.observe() as view`."""

class Tenure:
    """One uninterrupted hold."""
    @property
    def path(self) -> str:
        """The holder's znode."""
    @property
    def token(self) -> int:
        """The fencing token: rises with every tenure, and is never used twice."""
    @property
    def identity(self) -> str:
        """The holder's name, as others see it."""
    @property
    def session_id(self) -> int:
        """The session that owns the holder's znode."""
    @property
    def is_released(self) -> bool:
        """Whether it was released (`release`, `resign`) before its body had ended."""
    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and after a release."""
    def verify(self) -> None:
        """Return if the quorum confirms, in one round trip, that it is held."""
    def fenced(self) -> Fence:
        """A client whose writes the ensemble refuses (`Fenced`) once the holder's znode is gone."""
    def release(self) -> None:
        """Release it before the body has ended."""
    @property
    def is_revocation_requested(self) -> bool:
        """Whether others ask for a release (`revoke`)."""
    def revocation_requested(self) -> None:
        """Wait until others ask for a release; forever, if the recipe has no `revoke`."""
    def statistics(self) -> TenureStatistics:
        """The state of the tenure, as known here, without asking a server."""
    lost: threading.Event
    @property
    def is_held(self) -> bool:
        """Whether it is held at this call, by the clock."""
    def remaining(self) -> float:
        """Seconds until the holder must begin to stop, unless the lease is renewed before."""
    def check(self) -> None:
        """Return if it is held now, by the clock."""

class TenureContext(Generic[R_co]):
    """Acquires on entering and releases on leaving, for the body of a `with`."""
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def __enter__(self) -> R_co: ...
    def __bool__(self) -> NoReturn: ...

class Term(Tenure):
    """One unbroken time of leadership."""
    def resign(self) -> None:
        """Resign: `release`, by its name for leadership."""

class Transaction:
    """Several writes, sent as one and applied together or not at all."""
    def create(self, path: str, data: bytes = b'', *, mode: CreateMode = ..., acl: Sequence[ACL] | None = None, ttl: float | None = None) -> Self:
        """Add a create; see `Client.create`."""
    def delete(self, path: str, *, version: int = -1) -> Self:
        """Add a delete; see `Client.delete`."""
    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Add a set; see `Client.set`."""
    def check(self, path: str, *, version: int = -1) -> Self:
        """Add the condition that a znode exists and has the version (-1: any)."""
    def commit(self) -> list[str | Stat | None]:
        """Send the transaction, whose answer has a path, a `Stat` or None for each operation."""

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
        """Whether the copy is complete, and the server reports what changes."""
    @property
    def unread(self) -> int:
        """How many znodes are still to be read; 0 if the copy has all reported changes."""
    def get(self, path: str) -> TreeNode | None:
        """A znode of the copy; None if it does not exist."""
    def children(self, path: str) -> list[str] | None:
        """A znode's child names, sorted; None if it does not exist."""
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
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def claim(self, kind: str, *, most: int = 100000, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[HeldName]:
        """Claim the lowest free name of a kind for the body of a `with`."""
    def try_claim(self, kind: str, *, most: int = 100000, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[HeldName | None]:
        """As `claim`, but does not wait: gives None if no name is free."""
    def holders(self) -> dict[str, Participant]:
        """Return the holders of all kinds, by name."""

class View(Generic[T]):
    """The latest value of something on the servers, and an iterator over its changes."""
    def __iter__(self) -> Iterator[T]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def value(self) -> T:
        """The latest value; `UsageError` if the view is not open yet."""
    @property
    def is_live(self) -> bool:
        """Whether a server watches now, and so would report a change of the value."""

@final
class WatchStream:
    """Every event of a persistent watch, in order, with `Missed` where some may be missing."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> WatchEvent | Missed: ...
    @property
    def unread(self) -> int:
        """How many events, gaps included, are unread."""
    @property
    def is_live(self) -> bool:
        """Whether a server watches now; false while the connection is down."""
    def __enter__(self) -> Self: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

class WriteHeld(Held):
    """A hold for writing, or, after `downgrade`, for reading."""
    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
    def downgrade(self) -> None:
        """Continue to hold the lock for reading: readers come in, and no writer in between."""

@final
class WriteLock:
    """The write side of a `ReadWriteLock`, held by one writer alone."""
    @property
    def path(self) -> str:
        """The path, as it was passed."""
    @property
    def identity(self) -> str:
        """The holder's or contender's name, as others see it."""
    def __enter__(self) -> WriteHeld: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...
    def acquire(self, *, timeout: float | None = None, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[WriteHeld]:
        """Acquire it for the body of a `with`."""
    def try_acquire(self, *, on_lost: Callable[[TenureLost], object] | None = None) -> TenureContext[WriteHeld | None]:
        """As `acquire`, but does not wait: gives None if it is not free."""
    def holders(self) -> list[Participant]:
        """Return the holders."""
    def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order."""
    def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before."""

@final
class Connection:
    """The context manager that `connect` returns; it can be entered once."""
    def __enter__(self) -> Client: ...
    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None: ...

def connect(hosts: str | Sequence[str] | Hosts | None = None, *, session_timeout: float = 10.0, connect_timeout: float | None = None, auth: Sequence[Auth] = ..., tls: ssl.SSLContext | TLS | None = None, sasl: SASL | None = None, grace_period: float | None = None, tick_time: float | None = None, watchdog: Watchdog | bool | None = None, close_on_crash: SessionGuardian | bool | None = None, observe_config: bool = False, read_only: bool = False, resume: SessionCredentials | None = None, server_version: str | None = None, limits: Limits | None = None, on_event: EventSink | Sequence[EventSink] | None = None, hooks: Hooks | None = None, backend: Literal["asyncio", "trio"] = 'asyncio', backend_options: dict[str, Any] | None = None) -> Connection:
    """Connect to a ZooKeeper ensemble: `with blocking.connect(...) as client:`."""
