"""The client: the operations of ZooKeeper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import final

from anyio.lowlevel import checkpoint

from .._session.transaction import multi_parser
from .._wire.codes import OpCode
from .._wire.jute import Reader
from .._wire.packets import encode_body
from .._wire.requests import AuthPacket, Multi
from ..abc import Watch
from ..errors import (
    ConfigurationError,
    NodeExistsError,
    NoNodeError,
    TransactionError,
    UsageError,
)
from ..model import (
    ACL,
    Auth,
    Created,
    CreateMode,
    Identity,
    Quota,
    QuotaUsage,
    SessionCredentials,
    SessionState,
    Stat,
    WatchEvent,
)
from ..paths import parent, parse_connect_string, validate
from .core import Core, T
from .deletion import TreeDeletion
from .features import Feature, read_with
from .fenced import Fence
from .lease import ClientLease
from .operations import Scope, whoami
from .quotas import delete_quota, get_quota, set_quota
from .reads import Reads
from .reply import PendingReply
from .states import SessionStates
from .stream import MAX_EVENTS, WatchStream
from .transaction import Transaction
from .view import ChildrenView, DataView
from .watch import ClientWatch


@final
class Client:
    """A session with a ZooKeeper ensemble. Made by `aiolead.connect`.

    Every operation hands its request over at the call, and returns a `Reply` to await. Requests go
    out in the order of the calls and are answered in that order, so

        created = client.create("/a")
        names = client.get_children("/")
        await created, await names

    takes one round trip, and the listing shows the new znode.

    Errors: arguments are checked at the call (`ConfigurationError`, `LocalWireError`,
    `UsageError`), and whether there is room for one more request (`TooManyRequestsError`); what the
    server says (`ServerError`) and what becomes of the session comes with
    the reply.

    Cancellation: cancelling the wait for a reply abandons the answer, not the request.

    On connection loss: what was not sent waits for the next connection, for the session timeout at
    most; reads are sent again; writes that were sent raise `ConnectionLossError` with the outcome
    `UNKNOWN`, since they may have been applied, and are never sent twice.

    A client belongs to the event loop, thread and process that it was entered in. Used from another
    one it raises `UsageError`, and nothing is sent. What only tells how things stand (`state`,
    `session_id`, `lease`) may be read from other threads.
    """

    def __init__(self, core: Core, prefix: str, *, limited: bool = True) -> None:
        self._core = core
        self._limited = limited
        self._scope = Scope(prefix)
        self._lease = ClientLease(core, prefix)

    def __repr__(self) -> str:
        state = self._core.machine.state.value
        return f"<Client session 0x{self.session_id:x} {state} chroot={self._scope.prefix or '/'}>"

    # --- the session ---------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The current session; 0 while there is none."""
        return self._core.machine.session_id

    @property
    def session_timeout(self) -> float:
        """What the server granted, in seconds: the least so far, where servers differ in that."""
        return self._core.machine.timing.session_timeout

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        return self._core.machine.state

    @property
    def credentials(self) -> SessionCredentials:
        """What it takes to go on with the session over another client, in another process maybe.

        Raises:
            UsageError: there is no session, or one that a read-only server has made up.
        """
        credentials = self._core.machine.credentials
        if credentials is None:
            raise UsageError("there is no session that could be resumed")
        return credentials

    def detach(self) -> SessionCredentials:
        """Has the present session outlive the client: leaving does not close it.

        Whatever is still held then is lost first, as always. Its other ephemeral znodes live until
        the session timeout has passed, or for as long as `connect(resume=)` goes on with it. If the
        session expires before the client is closed, the one that follows is closed as usual.

        Returns:
            The session's `credentials`.

        Raises:
            UsageError: there is no session.
        """
        credentials = self.credentials
        self._core.detached = credentials.session_id
        return credentials

    @property
    def lease(self) -> ClientLease:
        """Our own reading of how long the session surely lives; renewed while anything is held."""
        return self._lease

    @property
    def last_zxid(self) -> int:
        """The newest transaction that an answer to this client has shown."""
        return self._core.machine.last_zxid

    def observe(self) -> SessionStates:
        """The states of the session, from the present one on, as an async iterator."""
        self._core.check_home()
        return SessionStates(self._core)

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        """Has every change of state reported, synchronously; returns what ends that.

        For recipes and adapters; applications are better served by `observe`.
        """
        return self._core.subscribe(on_state)

    def update_hosts(self, hosts: str) -> None:
        """Replaces the list of servers.

        A client that is connected may have to move, so that load stays even: to one of the servers
        that came, for some; away from a server that is gone, for all. It waits for the answers to
        what it has sent, for an eighth of the session timeout at most; the session goes on.

        Args:
            hosts: a connect string without a chroot: that of the client is fixed.

        Raises:
            ConfigurationError: it is malformed, or has a chroot.
        """
        self._core.check_home()
        target = parse_connect_string(hosts)
        if target.chroot:
            raise ConfigurationError(f"hosts: a client keeps its chroot, leave it out: {hosts!r}")
        self._core.on_hosts(target.hosts)

    async def ready(self) -> None:
        """Waits until the session is connected.

        Raises:
            SessionError: the client was closed, or its credentials were refused.
        """
        await self._core.ready()

    def shared(self, path: str, make: Callable[[], T]) -> T:
        """The object that everybody on this session shares for a path: for recipes."""
        return self._core.shared(self._scope.full(path), make)

    def spawn(self, job: Callable[[], Awaitable[object]]) -> None:
        """Runs a job in the client's own task group, at most until the client is closed.

        An `AioleadError` that it raises is logged; any other exception ends the client. Without
        effect on a closed client.
        """
        self._core.spawn(job)

    def add_auth(self, auth: Auth) -> PendingReply[None]:
        """Presents more credentials: to the present server, and on every later connection.

        They count for every request that is made after this call; the answer says that the server
        has taken them. While there is no connection it is the next server's, which is waited for as
        long as the session timeout; the credentials are kept also after that.

        Raises:
            AuthFailedError: they were refused, which ends the client, as at `connect`.
            ConnectionLossError: no server was shown them in time.
        """
        if not isinstance(auth, Auth):
            # The value may be, or hold, a password: it is not shown.
            raise ConfigurationError("auth: must be an Auth, such as Auth.digest(user, password)")
        body = encode_body(AuthPacket(auth.scheme, auth.credential))
        reply: PendingReply[None] = PendingReply(OpCode.AUTH, body, _nothing)
        self._core.machine.check_size(reply)
        self._core.machine.login.add(auth, reply, self._core.clock())
        return reply

    def chroot(self, path: str) -> Client:
        """A view of what lies under `path`, over the same session."""
        prefix = self._scope.full(path) if path != "/" else self._scope.prefix
        return Client(self._core, prefix, limited=self._limited)

    def unlimited(self) -> Client:
        """This client, but never refusing a request for want of room: for recipes.

        What a recipe asks for is little, and must not fail because the program asks for much.
        """
        return Client(self._core, self._scope.prefix, limited=False)

    # --- writes --------------------------------------------------------------------------------

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> PendingReply[Created]:
        """Creates a znode.

        Args:
            path: where; in a sequential mode the server appends ten digits.
            data: its content.
            mode: how it lives and is named.
            acl: who may do what; everybody everything by default.
            ttl: for the modes with a time to live: that, in seconds.

        Returns:
            `Created`, with the path under which it was created.

        Raises:
            NodeExistsError: the path is taken.
            NoNodeError: the parent is missing.
            NoChildrenForEphemeralsError: the parent is ephemeral.
            InvalidACLError, NoAuthError, UnimplementedError (a server without TTL znodes).
        """
        return self._submit(self._scope.create(path, data, mode, acl, ttl))

    def delete(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Deletes a znode without children, if it has the version (-1: any).

        Raises:
            NoNodeError, BadVersionError, NotEmptyError, NoAuthError.
        """
        return self._submit(self._scope.delete(path, version))

    def set(self, path: str, data: bytes, *, version: int = -1) -> PendingReply[Stat]:
        """Replaces a znode's data, if it has the version (-1: any); returns its new `Stat`.

        Raises:
            NoNodeError, BadVersionError, NoAuthError.
        """
        return self._submit(self._scope.set(path, data, version))

    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> PendingReply[Stat]:
        """Replaces a znode's ACL, if its ACL has the version (-1: any); returns its new `Stat`.

        Raises:
            NoNodeError, BadVersionError, InvalidACLError, NoAuthError.
        """
        return self._submit(self._scope.set_acl(path, acl, version))

    def transaction(self) -> Transaction:
        """Several writes that are applied together or not at all."""
        return Transaction(self._core, self._scope)

    def check(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Asks the quorum, as a transaction, whether a znode exists and has the version.

        Unlike a read, this cannot be answered by a server that is cut off from the others.

        Raises:
            NoNodeError, BadVersionError, NoAuthError.
        """
        op = self._scope.check_request(path, version)
        parse_multi = multi_parser([path])

        def parse(r: Reader) -> None:
            try:
                parse_multi(r)
            except TransactionError as error:
                raise error.cause from None

        body = encode_body(Multi((op,)))
        return self._submit(
            PendingReply(OpCode.MULTI, body, parse, path=path, is_write=True, is_proof=True)
        )

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Writes that are applied only while the znode `guard` exists, and in this session only.

        Args:
            guard: the znode.
            gone: asked before each write whether the guard is known to be gone.
        """
        validate(guard, name="guard")
        return Fence(self._core, self._scope, guard, gone or _never)

    async def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Creates a znode, and what is missing above it (the chroot included), unless it is there.

        Args:
            path: the znode.
            mode: of everything that has to be created: persistent, or a container.
            acl: of everything that has to be created.

        Raises:
            NoAuthError, NoChildrenForEphemeralsError.
        """
        tree = Scope("")
        missing = [self._scope.full(path)]
        if missing == ["/"]:
            await checkpoint()
            return
        while missing:
            try:
                await self._submit(tree.create(missing[-1], b"", mode, acl, None))
            except NodeExistsError:
                pass
            except NoNodeError:
                missing.append(parent(missing[-1]))
                continue
            missing.pop()

    async def delete_all(self, path: str) -> int:
        """Deletes a znode with everything below it, whatever the versions.

        Not as one transaction: others see a part of the tree while this goes on. What others delete
        meanwhile is fine, and so is a tree that is not there. What they create is deleted, too, for
        ten rounds. Transactions of up to 128 znodes are used, eight of them at a time.

        Args:
            path: the top of the tree. `/` stands for all that is below the chroot, which stays;
                without a chroot it is refused, and so are `/zookeeper` and the server's own below.

        Returns:
            How many znodes were deleted. After a lost connection, what somebody else deleted may be
            among them.

        Raises:
            InvalidPathError: the server does not let anybody delete this.
            NotEmptyError: others go on creating in it.
            NoAuthError: a part of it may not be listed or deleted; other parts may be deleted.

        Cancellation: deletes no more; transactions that were sent may still be applied.

        On connection loss: goes on with what is left, since what is gone cannot be deleted twice.
        """
        return await TreeDeletion(self._core, self._scope, path).run()

    # --- reads ---------------------------------------------------------------------------------

    def exists(self, path: str, *, watch: Watch | None = None) -> PendingReply[Stat | None]:
        """A znode's `Stat`, or None if there is no such znode.

        A watch fires when the znode is created, deleted, or its data set.
        """
        return self._submit(self._scope.exists(self._core, path, watch))

    def get(self, path: str, *, watch: Watch | None = None) -> PendingReply[tuple[bytes, Stat]]:
        """A znode's data and `Stat`.

        A watch fires when the znode is deleted or its data set; it is not armed if this fails.

        Raises:
            NoNodeError, NoAuthError.
        """
        return self._submit(self._scope.get(self._core, path, watch))

    def get_children(self, path: str, *, watch: Watch | None = None) -> PendingReply[list[str]]:
        """The names of a znode's children, in no particular order.

        A watch fires when a child is created or deleted, or the znode itself is deleted; it is not
        armed if this fails.

        Raises:
            NoNodeError, NoAuthError.
        """
        return self._submit(self._scope.get_children(self._core, path, watch))

    def get_children_and_stat(
        self, path: str, *, watch: Watch | None = None
    ) -> PendingReply[tuple[list[str], Stat]]:
        """The names of a znode's children, in no particular order, and its `Stat`.

        For the watch and errors see `get_children`.
        """
        return self._submit(self._scope.get_children_and_stat(self._core, path, watch))

    def get_acl(self, path: str) -> PendingReply[tuple[list[ACL], Stat]]:
        """A znode's ACL and `Stat`.

        Raises:
            NoNodeError, NoAuthError.
        """
        return self._submit(self._scope.get_acl(path))

    def sync(self, path: str = "/") -> PendingReply[None]:
        """Has the connected server catch up with the leader before it answers what comes after."""
        return self._submit(self._scope.sync(path))

    # --- reads of newer servers ----------------------------------------------------------------

    async def get_all_children_number(self, path: str = "/") -> int:
        """How many znodes there are below a path, at any depth (ZooKeeper 3.6).

        Raises:
            NoNodeError, NoAuthError.
            UnsupportedError: the server is older, or does not tell its version.
        """
        make = self._scope.get_all_children_number(path)
        return await read_with(self._core, Feature.GET_ALL_CHILDREN_NUMBER, make)

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemeral znodes, in no particular order (ZooKeeper 3.6).

        Args:
            prefix: how the paths must begin, as text: `/member-` finds `/member-1`, and `/a/` what
                is below `/a`.

        Raises:
            UnsupportedError: the server is older, or does not tell its version.
        """
        make = self._scope.get_ephemerals(prefix)
        return await read_with(self._core, Feature.GET_EPHEMERALS, make)

    def reads(self) -> Reads:
        """Several reads in one request, answered from one moment (ZooKeeper 3.6)."""
        return Reads(self._core, self._scope)

    async def whoami(self) -> list[Identity]:
        """Who the server takes this client for, by its address and credentials (ZooKeeper 3.7).

        Raises:
            UnsupportedError: the server is older, or does not tell its version.
        """
        return await read_with(self._core, Feature.WHO_AM_I, whoami())

    # --- quotas --------------------------------------------------------------------------------

    async def get_quota(self, path: str) -> tuple[Quota, QuotaUsage] | None:
        """The quota on a znode's tree, and what there is of it; None if there is no quota.

        Raises:
            NoAuthError, RemoteWireError (somebody has written what is no quota).
        """
        return await get_quota(self._core, self._scope, path)

    async def set_quota(self, path: str, quota: Quota) -> None:
        """Sets the quota on a znode's tree, in the place of the one that it has.

        Written where ZooKeeper's `setquota` writes it, for all servers and clients alike. A server
        that holds more than a limit allows already is not asked to give anything up.

        Args:
            path: the top of the tree, which must exist: not the root, nor `/zookeeper`.
            quota: the limits, at least one. Hard ones need servers of ZooKeeper 3.7.

        Raises:
            NoNodeError: there is no such znode.
            NodeExistsError: a znode above or below has a quota; quotas cannot be nested.
            NoAuthError.
            UnsupportedError: there are hard limits, and the server is older than 3.7, or does not
                tell its version.

        On connection loss: the quota may have been set; setting it again does no harm.
        """
        await set_quota(self._core, self._scope, path, quota)

    async def delete_quota(self, path: str) -> None:
        """Takes the quota off a znode's tree.

        Raises:
            NoNodeError: there is no quota on it.
            NoAuthError.

        On connection loss: it may be gone; asking again says `NoNodeError` then.
        """
        await delete_quota(self._core, self._scope, path)

    # --- watches -------------------------------------------------------------------------------

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> ClientWatch:
        """A one-shot watch, armed by passing it to a read of this client.

        Args:
            on_event: called synchronously, in the client's task, as the event comes in; it must be
                quick and must not raise. Usually one awaits `watch.wait()` instead.
        """
        self._core.check_home()
        return ClientWatch(self._core.machine.watches, on_event)

    # --- watches as streams --------------------------------------------------------------------

    def watch(
        self, path: str, *, recursive: bool = False, max_events: int = MAX_EVENTS
    ) -> WatchStream:
        """What happens to a znode, as it happens: `async with client.watch(path) as events:`.

        The znode need not exist. The events are those of one znode, `CREATED`, `DELETED`,
        `DATA_CHANGED` and `CHILDREN_CHANGED`, or, if `recursive`, those of the whole tree from
        there on, without `CHILDREN_CHANGED`, which the events of the children say better. Where
        some may be missing, the stream says `Missed`. Needs servers of 3.6.

        Args:
            path: where.
            recursive: whether to see everything below, too.
            max_events: how many unread events to keep; with one more, all that is unread makes
                room for one `Missed`. A change of data, or of the children, of a znode is merged
                into the unread one before it, and needs no room.

        Raises (on entering):
            UnsupportedError: the server is older than 3.6, or does not tell its version.
            ConnectionLossError: no server was reached, or it could not be asked for its version.
            SessionExpiredError: the session was over.
        """
        return WatchStream(self._core, self._scope, path, recursive, max_events)

    def watch_data(self, path: str) -> DataView:
        """A znode's latest data: `async with client.watch_data(path) as view:`.

        `async for value in view:` gives `(data, Stat)`, or None while there is no such znode: the
        present one, then what it becomes. See `View`.

        Raises (on entering):
            NoAuthError: it may not be read; ConnectionLossError: no server was reached.
        """
        return DataView(self._core, self._scope, path)

    def watch_children(self, path: str) -> ChildrenView:
        """A znode's latest children: `async with client.watch_children(path) as view:`.

        `async for names in view:` gives their names, sorted, or None while there is no such znode:
        the present ones, then what they become. See `View`.

        Raises (on entering):
            NoAuthError: they may not be read; ConnectionLossError: no server was reached.
        """
        return ChildrenView(self._core, self._scope, path)

    def _submit(self, reply: PendingReply[T]) -> PendingReply[T]:
        self._core.submit(reply, limited=self._limited)
        return reply


def _never() -> bool:
    return False


def _nothing(_: Reader) -> None:
    return None
