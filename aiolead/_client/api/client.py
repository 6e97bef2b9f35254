"""The client: the operations of ZooKeeper, and the part of it for recipes and adapters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, final
from weakref import WeakValueDictionary

from anyio.lowlevel import checkpoint

from ..._session.ephemeral_paths import DIGITS
from ..._session.requests import SYNC, WRITE, multi_parser, no_result
from ..._util.escaping import described, shown_session
from ..._wire.codes import OpCode
from ..._wire.jute import Reader, int_bytes, text_bytes
from ..._wire.requests import AuthPacket, GetACL, GetAllChildrenNumber, Multi, SetACL, Sync
from ..._wire.versions import Feature
from ...abc import Hold, HoldOwner, Reply, Watch
from ...errors import (
    AioleadError,
    ConfigurationError,
    NodeExistsError,
    NoNodeError,
    UnsupportedError,
    UsageError,
)
from ...events import EventHook
from ...model import (
    ACL,
    Auth,
    Created,
    CreateMode,
    SessionCredentials,
    SessionState,
    Stat,
    WatchEvent,
)
from ...paths import parent, parse_connect_string, validate
from .. import core as core_module
from ..core import Core, PendingReply, T
from .client_watches import MAX_EVENTS, ClientWatch, WatchStream, joined_watch
from .operations import (
    EXISTS,
    GET,
    GET_CHILDREN,
    GET_CHILDREN_AND_STAT,
    Scope,
    acl_and_stat,
    checked,
    checked_acl,
    checked_duration,
    checked_version,
    created,
    created_ephemeral,
    not_created,
    not_deleted,
    number,
    synced,
)
from .server_features import bound_read, parents_without_containers, read_with
from .session_states import SessionStates
from .transactions import Fence, Reads, Transaction

if TYPE_CHECKING:
    from ...types import ChildrenView, ClientStatistics, DataView
    from ..client_host import ClientHandle


@final
class Client:
    """A session with a ZooKeeper ensemble. Made by `aiolead.connect`.

    Every operation hands its request over at the call, and returns a `Reply` to await. Requests are
    sent and answered in the order of the calls, so

        created = client.create("/a")
        names = client.get_children("/")
        await created, await names

    takes one round trip, and the listing shows the new znode.

    Errors: invalid arguments (`ConfigurationError`, `LocalWireError`, `UsageError`) and a full
    queue (`TooManyRequestsError`) raise at the call. Errors of the server (`ServerError`) and of
    the session come with the reply. A reply may be dropped: if it was never awaited and its request
    fails, that is logged to `aiolead.client`, and a `RuntimeWarning`, unless the client was closed
    meanwhile.

    The servers' usual errors are `NoNodeError` (no such znode), `BadVersionError` (it has another
    version than the one given; -1 stands for any), `NoAuthError` (its ACL forbids this) and, for an
    operation with "(ZooKeeper 3.x)", `UnsupportedError`: the server is older, or does not report
    its version. Methods name only others.

    Cancellation: cancelling the wait for a reply abandons the answer, not the request.

    On connection loss: unsent requests wait for the next connection, for the session timeout at
    most; reads are sent again; writes that were sent may have been applied, so they raise
    `ConnectionLossError` with the outcome `UNKNOWN`, and are never sent twice.

    Threads and forks: a client belongs to the event loop, thread and process that entered it.
    Elsewhere it raises `UsageError`, and nothing was sent or changed. Any thread may read `state`,
    `session_id`, `session_timeout`, `healthy()` and `statistics()`, and make views (`chroot`),
    `transaction()`, `reads()` and `fenced()`. A forked child finds the client closed: `state` is
    `CLOSED`, `healthy()` is False, and nothing is held.
    """

    def __init__(
        self,
        core: Core,
        prefix: str,
        handle: ClientHandle | None = None,
        backend: ClientBackend | None = None,
    ) -> None:
        # With a backend, it is the view that recipes have of the client of that backend.
        self._core = core
        self._scope = Scope(prefix, is_users=backend is None, default_acl=core.default_acl)
        self._handle = handle
        """Closes the client once no object of the program has it."""
        self.backend: ClientBackend = backend or ClientBackend(core, self._scope, handle)
        """The part for recipes and adapters; also one-shot watches: `backend.make_watch`."""

    def __repr__(self) -> str:
        session, chroot = shown_session(self.session_id), self._scope.prefix or "/"
        return f"<Client session {session} {self.state.value} chroot={chroot}>"

    def __reduce__(self) -> NoReturn:
        # For `pickle` and `copy`; recipes have a client, so it is for them, too.
        from ..._util.misuse import not_copied

        raise not_copied(self)

    # --- the session ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the client, with all its views, as leaving `async with aiolead.connect()` does.

        For a client that was opened by `client = await aiolead.connect(...)`. Everything still held
        is lost first, and its holders get the grace period to stop; then the session is closed.
        Without effect if the client is closed.

        Raises `UsageError` outside of the client's event loop. Any task of it may call this. In a
        forked child it leaves the session alone, which is the parent's.

        Cancellation: it is put off until the client is closed, which is bounded, as it is for
        `connect`. On connection loss: the session is not closed, and ends when it times out.
        """
        if self._handle is not None:
            await self._handle.host.leave()

    @property
    def session_id(self) -> int:
        """The current session; 0 while there is none."""
        return self._core.machine.session_id

    @property
    def session_timeout(self) -> float:
        """The timeout asked for or the one granted, whichever is less, in seconds.

        No wait of the client or its recipes is longer. Servers keep the session of a dead client
        for the granted timeout, which `statistics()` has.
        """
        return self._core.machine.timing.patience

    @property
    def state(self) -> SessionState:
        """The state of the session; `CLOSED` in a forked child, which has none."""
        if core_module.process is not self._core.process:
            return SessionState.CLOSED
        return self._core.machine.state

    @property
    def credentials(self) -> SessionCredentials:
        """The credentials with which another client, in any process, can continue the session.

        The two take the session from each other if they run at the same time. For one session
        timeout after it has connected, each treats what the other has in the session as another
        client's. Neither closes the session, since the other may hold something under it: once this
        was read, the session ends when it times out. Raises `UsageError` without a session, if a
        read-only server has made it up, and outside of the client's event loop.
        """
        return self._passed_on()

    def detach(self) -> SessionCredentials:
        """Let the present session outlive the client, and return its `credentials`.

        Leaving does not close it, but whatever is still held then is lost first, as always. Its
        other ephemeral znodes live until the session timeout has passed, or as long as
        `connect(resume=)` continues it. If the session expires before the client is closed, the one
        that follows is closed as usual. Raises `UsageError` without a session.
        """
        credentials = replace(self._passed_on(), is_detached=True)
        self._core.detached = credentials.session_id
        self._core.session_changed()
        return credentials

    def _passed_on(self) -> SessionCredentials:
        self._core.check_home()
        credentials = self._core.machine.credentials
        if credentials is None:
            raise UsageError("there is no session that could be resumed")
        self._core.machine.pass_on()
        return credentials

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
        machine = self._core.machine
        limit = machine.timing.session_timeout
        if max_unconfirmed is not None:
            limit = checked_duration("max_unconfirmed", max_unconfirmed, least=0, most=86_400)
        return self._core.clock() - machine.confirmed_at <= limit and not self._core.is_forked

    def statistics(self) -> ClientStatistics:
        """Return the state of session, connections, requests and lease; asks no server.

        In a forked child, that of a closed client that holds nothing.
        """
        peer = self._core.supervisor.peer
        found = self._core.reporting.statistics(None if peer is None else peer.name)
        if not self._core.is_forked:
            return found
        return replace(
            found, state=SessionState.CLOSED, server=None, held=0, lease_remaining=0.0, in_flight=0
        )

    def observe(self) -> SessionStates:
        """Return the session's states, from the present one on, as an async iterator."""
        self._core.check_home()
        return SessionStates(self._core)

    def update_hosts(self, hosts: str | Sequence[str]) -> None:
        """Replace the list of servers, by a connect string or a list of its parts.

        A connected client may have to move, so that load stays even: some clients to a new server,
        all away from a removed one. It waits for the answers to what it has sent, for an eighth of
        the session timeout at most; the session goes on. Raises `ConfigurationError` if the list is
        malformed, or has a chroot: the client keeps its own.
        """
        self._core.check_home()
        target = parse_connect_string(hosts)
        if target.chroot:
            raise ConfigurationError(f"hosts: a client keeps its chroot, leave it out: {hosts!r}")
        self._core.supervisor.update_hosts(target.hosts)

    async def ready(self) -> None:
        """Wait until the session is connected.

        Raises `SessionError` if the client was closed, or its credentials were refused.
        """
        await self._core.ready()

    def pipelined(self) -> AbstractContextManager[None]:
        """Return a context manager: requests made in its body leave together, in one segment.

        Otherwise a request made while no other is under way leaves at once, and the next a moment
        later. If the body awaits, the requests made by then leave.
        """
        self._core.check_home()
        return self._core.gathered if self._scope.is_users else self._core.pipelined

    def add_auth(self, auth: Auth) -> PendingReply[None]:
        """Present more credentials: to the present server, and on every later connection.

        They count for every request made after this call; the answer says that the server has taken
        them. Without a connection it waits for the next server, for the session timeout at most;
        the credentials are kept even after that.

        Raises:
            AuthFailedError: they were refused, which ends the client, as at `connect`.
            ConnectionLossError: no server received them in time.
        """
        if not isinstance(auth, Auth):
            # The value may be, or hold, a password: it is not shown.
            raise ConfigurationError("auth: must be an Auth, such as Auth.digest(user, password)")
        self._core.check_home()
        body = AuthPacket(auth.scheme, auth.credential).encode()
        reply: PendingReply[None] = PendingReply(OpCode.AUTH, body, no_result)
        self._core.machine.check_size(reply)
        self._core.machine.login.add(auth, reply, self._core.clock())
        self._core.session_changed()
        return reply

    # --- views ---------------------------------------------------------------------------------

    def chroot(self, path: str) -> Client:
        """Return a view of what lies under `path`, over the same session."""
        return self._view(self._scope.full(path) if path != "/" else self._scope.prefix)

    def _view(self, prefix: str) -> Client:
        view = Client(self._core, prefix, self._handle)
        if self._scope.is_users:
            return view
        return Client(self._core, prefix, self._handle, view.backend)

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
        core, scope = self._core, self._scope
        request = scope.create_request(path, data, mode, acl, ttl)
        parse = partial(created, scope.prefix, request)
        ephemerals: tuple[str, ...] = ()
        if mode.is_ephemeral:
            parse = partial(created_ephemeral, core.machine.ephemerals, scope.prefix, request)
            full = request.path
            ephemerals = (full + DIGITS if mode.is_sequential else full,)
        on_error = partial(not_created, scope.prefix, path)
        reply = PendingReply(request.op, request.encode(), parse, WRITE, path, None, on_error)
        reply.is_users = scope.is_users
        reply.ephemerals = ephemerals
        return core.submit(reply)

    def delete(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Delete a znode, if it has the version; with children it raises `NotEmptyError`."""
        full = self._scope.deletable(path)
        body = text_bytes(full) + int_bytes(checked_version(version))
        reply = PendingReply(OpCode.DELETE, body, no_result, WRITE, path)
        ephemerals = self._core.machine.ephemerals
        if full in ephemerals.paths or ephemerals.lost:
            reply.parse = partial(ephemerals.gone, full)
            reply.on_error = partial(not_deleted, ephemerals, full)
        reply.is_users = self._scope.is_users
        return self._core.submit(reply)

    def set(self, path: str, data: bytes, *, version: int = -1) -> PendingReply[Stat]:
        """Replace a znode's data, if it has the version; return its new `Stat`."""
        body = self._scope.set_request(path, data, version).encode()
        return self._submit(PendingReply(OpCode.SET_DATA, body, Reader.stat, WRITE, path))

    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> PendingReply[Stat]:
        """Replace a znode's ACL, if that has the version; return the znode's new `Stat`.

        Raises `InvalidACLError` if the server refuses the new ACL.
        """
        request = SetACL(self._scope.full(path), checked_acl(acl), checked_version(version))
        body = request.encode()
        return self._submit(PendingReply(OpCode.SET_ACL, body, Reader.stat, WRITE, path))

    def transaction(self) -> Transaction:
        """Return a transaction: several writes, applied together or not at all."""
        return Transaction(self._core, self._scope)

    def check(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Ask the quorum, by a transaction, whether a znode exists and has the version.

        A server partitioned from the quorum can answer a read, but not this.
        """
        request = self._scope.check_request(path, version)
        parse = partial(checked, multi_parser([request], [path]))
        return self._submit(
            PendingReply(OpCode.MULTI, Multi((request,)).encode(), parse, WRITE, path)
        )

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Return writes that are applied only while the znode `guard` exists, in this session only.

        `gone` is asked before each write whether the guard is known to be gone.
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
        """Create a znode and its missing parents (the chroot included), if it does not exist.

        The mode, persistent or a container, and the ACL are those of everything that is created.
        Where the servers have no containers, it is persistent instead, which is logged once.
        Raises `NoChildrenForEphemeralsError` below an ephemeral znode.
        """
        tree = self._view("")
        missing = [self._scope.full(path)]
        if missing == ["/"]:
            await checkpoint()
            return
        while missing:
            try:
                await tree.create(missing[-1], mode=mode, acl=acl)
            except NodeExistsError:
                pass
            except UnsupportedError:
                if mode is not CreateMode.CONTAINER:
                    raise
                mode = await parents_without_containers(self._core, missing[-1])
                continue
            except NoNodeError:
                missing.append(parent(missing[-1]))
                continue
            missing.pop()

    # --- reads ---------------------------------------------------------------------------------

    def exists(self, path: str, *, watch: Watch | None = None) -> PendingReply[Stat | None]:
        """Return a znode's `Stat`, or None if it does not exist.

        A watch fires when the znode is created or deleted, or its data set.
        """
        return self._core.submit(self._scope.read(EXISTS, self._core, path, watch))

    def get(self, path: str, *, watch: Watch | None = None) -> PendingReply[tuple[bytes, Stat]]:
        """Return a znode's data and `Stat`.

        A watch fires when the znode is deleted or its data set; it is not armed if this fails. Null
        data, as other clients may write (None in Java and kazoo), is returned as `b""`.
        """
        return self._core.submit(self._scope.read(GET, self._core, path, watch))

    def get_children(self, path: str, *, watch: Watch | None = None) -> PendingReply[list[str]]:
        """Return the names of a znode's children, in no particular order.

        A watch fires when a child is created or deleted, or the znode itself is deleted; it is not
        armed if this fails.
        """
        return self._core.submit(self._scope.read(GET_CHILDREN, self._core, path, watch))

    def get_children_and_stat(
        self, path: str, *, watch: Watch | None = None
    ) -> PendingReply[tuple[list[str], Stat]]:
        """Return the names of a znode's children and its `Stat`; else like `get_children`."""
        return self._core.submit(self._scope.read(GET_CHILDREN_AND_STAT, self._core, path, watch))

    def get_acl(self, path: str) -> PendingReply[tuple[list[ACL], Stat]]:
        """Return a znode's ACL and `Stat`."""
        body = GetACL(self._scope.full(path)).encode()
        return self._submit(PendingReply(OpCode.GET_ACL, body, acl_and_stat, path=path))

    def sync(self, path: str = "/") -> PendingReply[None]:
        """Make the connected server catch up with the leader before it answers later requests."""
        body = Sync(self._scope.full(path)).encode()
        return self._submit(PendingReply(OpCode.SYNC, body, synced, SYNC, path))

    # --- reads of newer servers ----------------------------------------------------------------

    async def get_all_children_number(self, path: str = "/") -> int:
        """Return the number of znodes below a path, at any depth (ZooKeeper 3.6)."""
        request = GetAllChildrenNumber(self._scope.full(path))
        make = bound_read(OpCode.GET_ALL_CHILDREN_NUMBER, request, number, path)
        return await read_with(self._core, Feature.GET_ALL_CHILDREN_NUMBER, make)

    def reads(self) -> Reads:
        """Return several reads in one request, answered as of one moment (ZooKeeper 3.6)."""
        return Reads(self._core, self._scope)

    # --- watches as streams --------------------------------------------------------------------

    def watch(
        self, path: str, *, recursive: bool = False, max_events: int = MAX_EVENTS
    ) -> WatchStream:
        """Return a znode's events as a stream: `async with client.watch(path) as events:`.

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
        self._core.check_home()
        return WatchStream(self._core, self._scope, path, recursive, max_events)

    def observe_data(self, path: str) -> DataView:
        """Return a view of a znode's latest data: `async with client.observe_data(path) as view:`.

        `async for value in view:` gives `(data, Stat)`, or None while the znode does not exist: the
        present value, then each later one. See `View`. Entering raises `NoAuthError` if it may not
        be read.
        """
        from ...types import DataView  # see `ChildrenView`

        return DataView(self, path)

    def observe_children(self, path: str) -> ChildrenView:
        """Return a view of a znode's children: `async with client.observe_children(path) as view:`.

        `async for names in view:` gives their names, sorted, or None while the znode does not
        exist: the present ones, then each later state. See `View`. Entering raises `NoAuthError` if
        they may not be read.
        """
        # Views are recipes, which are above the client: it knows them by their public names only.
        from ...types import ChildrenView

        return ChildrenView(self, path)

    def _submit(self, reply: PendingReply[T]) -> PendingReply[T]:
        reply.is_users = self._scope.is_users
        return self._core.submit(reply)


@final
class ClientBackend:
    """See `aiolead.abc.Backend`; one for a client and its `unlimited` views.

    Threads and forks: as `aiolead.abc.Backend`.
    """

    __slots__ = ("_core", "_handle", "_scope", "_unlimited", "events", "lease")

    def __init__(self, core: Core, scope: Scope, handle: ClientHandle | None) -> None:
        self._core = core
        self._scope = scope
        self._handle = handle
        self._unlimited: Client | None = None
        self.events: EventHook = core.reporting.hub.below(scope.prefix, core.clock)
        self.lease: ClientLease = ClientLease(core, scope.prefix)

    @property
    def last_zxid(self) -> int:
        return self._core.machine.last_zxid

    @property
    def is_session_shared(self) -> bool:
        return self._core.is_session_shared

    @property
    def is_forked(self) -> bool:
        return self._core.is_forked

    def check_home(self) -> None:
        self._core.check_home()

    def bind(self, reply: Reply[T]) -> Reply[T]:
        self._core.check_home()
        assert isinstance(reply, PendingReply)
        reply.kind = replace(reply.kind, is_bound=True)
        return reply

    def unlimited(self) -> Client:
        if self._unlimited is None:
            self._unlimited = Client(self._core, self._scope.prefix, self._handle, self)
        return self._unlimited

    def full_path(self, path: str) -> str:
        return self._scope.full(path)

    @property
    def is_session_passed_on(self) -> bool:
        return self._core.machine.is_passed_on

    def sole_in(self) -> float:
        machine = self._core.machine
        return max(0.0, machine.sole_at - self._core.clock()) if machine.is_passed_on else 0.0

    def serial(self) -> int:
        core = self._core
        core.check_home()
        core.last_serial += 1
        return core.last_serial

    def gave(self, serial: int) -> bool:
        return self._core.first_serial <= serial <= self._core.last_serial

    def shared(self, path: str | None, make: Callable[[], T]) -> T:
        core, full = self._core, "" if path is None else self._scope.full(path)
        core.check_home()
        made = core.shared.get(make)
        if made is None:
            made = core.shared[make] = WeakValueDictionary()
        value: T | None = made.get(full)
        if value is None:
            value = made[full] = make()
            core.shared_lately.append(value)
        return value

    def make_watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> ClientWatch:
        self._core.check_home()
        return ClientWatch(self._core, on_event)

    def join_watch(
        self, path: str, on_event: Callable[[WatchEvent], object] | None = None
    ) -> ClientWatch | None:
        self._core.check_home()
        return joined_watch(self._core, self._scope.full(path), path, on_event)

    def subscribe(self, on_state: Callable[[SessionState, int], object]) -> Callable[[], None]:
        return self._core.subscribe(on_state)

    def check_connected(self) -> None:
        self._core.check_connected()

    def spawn(
        self,
        job: Callable[[], Awaitable[object]],
        on_end: Callable[[AioleadError | None], object] | None = None,
    ) -> None:
        self._core.spawn(job, on_end)


@final
class ClientLease:
    """See `aiolead.abc.Lease`; `prefix` is the chroot of the view that it belongs to.

    Threads and forks: as `aiolead.abc.Lease`.
    """

    __slots__ = ("_core", "_prefix")

    def __init__(self, core: Core, prefix: str) -> None:
        self._core = core
        self._prefix = prefix

    @property
    def deadline(self) -> float:
        return self._core.machine.leases.deadline

    def remaining(self) -> float:
        core = self._core
        if core_module.process is not core.process:
            return 0.0  # a forked child holds nothing
        return max(0.0, core.machine.leases.deadline - core.clock())

    def is_enough(self) -> bool:
        core = self._core
        if core_module.process is not core.process:
            return False
        return core.machine.renewals.first_is_in_time(core.clock())

    def expire(self) -> None:
        self._core.expire()

    def hold(
        self,
        path: str,
        owner: HoldOwner,
        *,
        urgent: bool = False,
        resign_on_disconnect: bool = False,
    ) -> Hold:
        self._core.check_home()
        return self._core.machine.leases.hold(
            self._prefix + path,
            owner,
            urgent=urgent,
            resign_on_disconnect=resign_on_disconnect,
            now=self._core.clock(),
        )


class Parts(NamedTuple):
    """The parts of a client for functions outside of the class, such as those of `aiolead.admin`.

    The requests of `view`, and of `tree`, which has no chroot, do not count as the program's.
    """

    core: Core
    scope: Scope
    view: Client
    tree: Client


def parts_of(client: Client) -> Parts:
    """Return the parts; raise `ConfigurationError` for anything but a client of an event loop."""
    if not isinstance(client, Client):
        raise ConfigurationError(
            f"client: must be an aiolead.Client, not {described(client)} (threads call the "
            "functions of aiolead.blocking.admin)"
        )
    core, scope = client._core, client._scope
    view = Client(core, scope.prefix, client._handle, client.backend)
    return Parts(core, scope, view, view._view(""))


def _never() -> bool:
    return False
