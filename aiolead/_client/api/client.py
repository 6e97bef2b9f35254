"""The client: the operations of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from anyio.lowlevel import checkpoint

from ..._recipes.view import ChildrenView, DataView
from ..._wire.versions import Feature
from ...abc import Watch
from ...errors import (
    NodeExistsError,
    NoNodeError,
)
from ...model import (
    ACL,
    Created,
    CreateMode,
    EnsembleConfig,
    Identity,
    Quota,
    QuotaUsage,
    ServerSpec,
    Stat,
)
from ...paths import parent, validate
from ..core import Core, T
from .client_backend import ClientBackend
from .client_watches import MAX_EVENTS, WatchStream
from .delete_all import TreeDeletion
from .operations import EXISTS, GET, GET_CHILDREN, GET_CHILDREN_AND_STAT, Scope, whoami
from .pending_reply import PendingReply
from .quotas import delete_quota, get_quota, set_quota
from .reconfig import get_config, reconfig
from .server_features import read_with
from .session_side import SessionSide
from .transactions import Fence, Reads, Transaction


@final
class Client(SessionSide):
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

    def __init__(self, core: Core, prefix: str, backend: ClientBackend | None = None) -> None:
        scope, limited = Scope(prefix), backend is None
        super().__init__(
            core, scope, backend or ClientBackend(core, scope, Client), limited=limited
        )

    # --- views ---------------------------------------------------------------------------------

    def chroot(self, path: str) -> Client:
        """Return a view of what lies under `path`, over the same session."""
        view = Client(self._core, self._scope.full(path) if path != "/" else self._scope.prefix)
        return view if self._limited else Client(self._core, view._scope.prefix, view.backend)

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
            acl: its permissions; by default everybody may do everything.
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
        return self._submit(
            self._scope.create(path, data, mode, acl, ttl, self._core.machine.ephemerals)
        )

    def delete(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Delete a znode, if it has the version; with children it raises `NotEmptyError`."""
        return self._submit(self._scope.delete(path, version, self._core.machine.ephemerals))

    def set(self, path: str, data: bytes, *, version: int = -1) -> PendingReply[Stat]:
        """Replace a znode's data, if it has the version; return its new `Stat`."""
        return self._submit(self._scope.set(path, data, version))

    def set_acl(self, path: str, acl: Sequence[ACL], *, version: int = -1) -> PendingReply[Stat]:
        """Replace a znode's ACL, if that has the version; return the znode's new `Stat`.

        Raises `InvalidACLError` if the server refuses the new ACL.
        """
        return self._submit(self._scope.set_acl(path, acl, version))

    def transaction(self) -> Transaction:
        """Return a transaction: several writes, applied together or not at all."""
        return Transaction(self._core, self._scope, is_reported=self._limited)

    def check(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Ask the quorum, by a transaction, whether a znode exists and has the version.

        A server partitioned from the quorum can answer a read, but not this.
        """
        return self._submit(self._scope.check(path, version))

    def fenced(self, guard: str, *, gone: Callable[[], bool] | None = None) -> Fence:
        """Return writes for as long as `guard` exists; see `CoordinationClient.fenced`."""
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
        Raises `NoChildrenForEphemeralsError` below an ephemeral znode.
        """
        tree, ephemerals = Scope(""), self._core.machine.ephemerals
        missing = [self._scope.full(path)]
        if missing == ["/"]:
            await checkpoint()
            return
        while missing:
            try:
                await self._submit(tree.create(missing[-1], b"", mode, acl, None, ephemerals))
            except NodeExistsError:
                pass
            except NoNodeError:
                missing.append(parent(missing[-1]))
                continue
            missing.pop()

    async def delete_all(self, path: str) -> int:
        """Delete a znode with everything below it, whatever the versions.

        Not as one transaction: others see a part of the tree meanwhile. A missing tree and
        deletions by other clients are no errors; znodes that others create meanwhile are deleted,
        too, for at most ten rounds. Uses transactions of up to 128 znodes, eight at a time.
        Cancellation deletes no more, but transactions that were sent may still be applied. On
        connection loss, it goes on with what is left.

        Args:
            path: the top of the tree. `/` stands for everything below the chroot, which stays;
                without a chroot it is refused, and so are `/zookeeper` and the server's own znodes
                there.

        Returns:
            How many znodes were deleted, maybe counting some of others after a lost connection.

        Raises:
            InvalidPathError: no server deletes this.
            NotEmptyError: others go on creating in it.
            NoAuthError: a part of it may not be listed or deleted; other parts may be deleted.
        """
        return await TreeDeletion(self._core, self._scope, path).run()

    # --- reads ---------------------------------------------------------------------------------

    def exists(self, path: str, *, watch: Watch | None = None) -> PendingReply[Stat | None]:
        """Return a znode's `Stat`, or None if it does not exist.

        A watch fires when the znode is created or deleted, or its data set.
        """
        return self._submit(self._scope.read(EXISTS, self._core, path, watch))

    def get(self, path: str, *, watch: Watch | None = None) -> PendingReply[tuple[bytes, Stat]]:
        """Return a znode's data and `Stat`.

        A watch fires when the znode is deleted or its data set; it is not armed if this fails. Null
        data, as other clients may write (None in Java and kazoo), is returned as `b""`.
        """
        return self._submit(self._scope.read(GET, self._core, path, watch))

    def get_children(self, path: str, *, watch: Watch | None = None) -> PendingReply[list[str]]:
        """Return the names of a znode's children, in no particular order.

        A watch fires when a child is created or deleted, or the znode itself is deleted; it is not
        armed if this fails.
        """
        return self._submit(self._scope.read(GET_CHILDREN, self._core, path, watch))

    def get_children_and_stat(
        self, path: str, *, watch: Watch | None = None
    ) -> PendingReply[tuple[list[str], Stat]]:
        """Return the names of a znode's children and its `Stat`; else like `get_children`."""
        return self._submit(self._scope.read(GET_CHILDREN_AND_STAT, self._core, path, watch))

    def get_acl(self, path: str) -> PendingReply[tuple[list[ACL], Stat]]:
        """Return a znode's ACL and `Stat`."""
        return self._submit(self._scope.get_acl(path))

    def sync(self, path: str = "/") -> PendingReply[None]:
        """Make the connected server catch up with the leader before it answers later requests."""
        return self._submit(self._scope.sync(path))

    # --- reads of newer servers ----------------------------------------------------------------

    async def get_all_children_number(self, path: str = "/") -> int:
        """Return the number of znodes below a path, at any depth (ZooKeeper 3.6)."""
        make = self._scope.get_all_children_number(path)
        return await read_with(self._core, Feature.GET_ALL_CHILDREN_NUMBER, make)

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """Return the paths of this session's ephemeral znodes, in no particular order (ZooKeeper
        3.6).

        `prefix` is how they begin: `/member-` finds `/member-1`, and `/a/` everything below `/a`.
        """
        make = self._scope.get_ephemerals(prefix)
        return await read_with(self._core, Feature.GET_EPHEMERALS, make)

    def reads(self) -> Reads:
        """Return several reads in one request, answered as of one moment (ZooKeeper 3.6)."""
        return Reads(self._core, self._scope)

    async def whoami(self) -> list[Identity]:
        """Return this client's identities for the server: address, credentials (ZooKeeper 3.7)."""
        return await read_with(self._core, Feature.WHO_AM_I, whoami())

    # --- quotas --------------------------------------------------------------------------------

    async def get_quota(self, path: str) -> tuple[Quota, QuotaUsage] | None:
        """Return the quota on a znode's tree and its usage; None if there is no quota.

        Raises `RemoteWireError` if what is written there is no quota.
        """
        return await get_quota(self._core, self._scope, path)

    async def set_quota(self, path: str, quota: Quota) -> None:
        """Set the quota on a znode's tree, in place of the present one: at least one limit.

        The znode must exist, and be neither the root nor in `/zookeeper`. The quota is written
        where ZooKeeper's `setquota` writes it, for all servers and clients alike. Existing data
        that exceeds a limit stays. On connection loss, the quota may have been set; it is safe to
        set it again.

        Raises:
            NodeExistsError: a znode above or below has a quota; quotas cannot be nested.
            UnsupportedError: hard limits need a server that reports ZooKeeper 3.7.
        """
        await set_quota(self._core, self._scope, path, quota)

    async def delete_quota(self, path: str) -> None:
        """Remove the quota on a znode's tree; raise `NoNodeError` if there is none.

        On connection loss it may be gone; a second call then raises that error.
        """
        await delete_quota(self._core, self._scope, path)

    # --- the ensemble --------------------------------------------------------------------------

    def get_config(self, *, watch: Watch | None = None) -> PendingReply[EnsembleConfig]:
        """Return the ensemble's servers, whatever the chroot; none if it has no such configuration.

        A watch fires when that changes. Raises `RemoteWireError` for a malformed configuration.
        """
        return self._submit(get_config(self._core, watch))

    def reconfig(
        self,
        *,
        joining: Sequence[ServerSpec | str] = (),
        leaving: Sequence[int] = (),
        members: Sequence[ServerSpec | str] | None = None,
        version: int = -1,
    ) -> PendingReply[EnsembleConfig]:
        """Change the servers of the ensemble: some of them, or all.

        Servers allow it where `reconfigEnabled` is set, to clients that may write
        `/zookeeper/config`: by default only the super user. A server that joins must already run,
        with the present members in its configuration.

        Args:
            joining: servers to add, or to change; as `ServerSpec` or as `server.N=...`.
            leaving: numbers of servers to remove.
            members: instead of these: all servers.
            version: of the configuration to change; -1 for any.

        Returns:
            The new configuration.

        Raises:
            ReconfigDisabledError: the servers do not allow it.
            NewConfigNoQuorumError: too few servers of the new configuration follow the leader.
            ReconfigInProgressError: another change is under way.
            BadVersionError: the configuration has another version.
            BadArgumentsError: too few servers would be left, or two have an address in common.
            NoAuthError, UnimplementedError (a standalone server).
        """
        return self._submit(reconfig(joining, leaving, members, version))

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
            UnsupportedError: the server is older than 3.6, or does not report its version.
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
        return DataView(self, path)

    def observe_children(self, path: str) -> ChildrenView:
        """Return a view of a znode's children: `async with client.observe_children(path) as view:`.

        `async for names in view:` gives their names, sorted, or None while the znode does not
        exist: the present ones, then each later state. See `View`. Entering raises `NoAuthError` if
        they may not be read.
        """
        return ChildrenView(self, path)

    def _submit(self, reply: PendingReply[T]) -> PendingReply[T]:
        if self._limited:
            reply.is_reported = True
        return self._core.submit(reply, limited=self._limited)


def _never() -> bool:
    return False
