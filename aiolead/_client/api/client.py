"""The client: the operations of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from anyio.lowlevel import checkpoint

from ..._recipes.values.znode_views import ChildrenView, DataView
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
from .delete_all import TreeDeletion
from .fence import Fence
from .operations import Scope, whoami
from .pending_reply import PendingReply
from .quotas import delete_quota, get_quota, set_quota
from .reads import Reads
from .reconfig import get_config, reconfig
from .server_features import read_with
from .session_side import SessionSide
from .transaction import Transaction
from .watch_stream import MAX_EVENTS, WatchStream


@final
class Client(SessionSide):
    """A session with a ZooKeeper ensemble. Made by `aiolead.connect`.

    Every operation hands its request over at the call, and returns a `Reply` to await. Requests go
    out in the order of the calls and are answered in that order, so

        created = client.create("/a")
        names = client.get_children("/")
        await created, await names

    takes one round trip, and the listing shows the new znode.

    Errors: arguments are checked at the call (`ConfigurationError`, `LocalWireError`,
    `UsageError`), and whether there is room for one more request (`TooManyRequestsError`). Errors
    of the server (`ServerError`) and of the session come with the reply.

    Cancellation: cancelling the wait for a reply abandons the answer, not the request.

    A reply may be dropped. If it was never awaited and its request fails, that is logged to
    `aiolead.client`, unless the client was closed meanwhile.

    On connection loss: requests that were not sent wait for the next connection, for the session
    timeout at most; reads are sent again; writes that were sent raise `ConnectionLossError` with
    the outcome `UNKNOWN`, since they may have been applied, and are never sent twice.

    A client belongs to the event loop, thread and process that it was entered in. Used from another
    one it raises `UsageError`, and nothing is sent; `state` and `session_id` may be read from other
    threads.
    """

    def __init__(self, core: Core, prefix: str, backend: ClientBackend | None = None) -> None:
        scope, limited = Scope(prefix), backend is None
        super().__init__(
            core, scope, backend or ClientBackend(core, scope, Client), limited=limited
        )

    # --- views ---------------------------------------------------------------------------------

    def chroot(self, path: str) -> Client:
        """A view of what lies under `path`, over the same session."""
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
        """Creates a znode.

        Args:
            path: where; in a sequential mode the server appends ten digits.
            data: its content.
            mode: how long it lives and how it is named.
            acl: its permissions; by default everybody may do everything.
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
        return Transaction(self._core, self._scope, is_reported=self._limited)

    def check(self, path: str, *, version: int = -1) -> PendingReply[None]:
        """Asks the quorum, by a transaction, whether a znode exists and has the version.

        Unlike a read, this cannot be answered by a server that is partitioned from the quorum.

        Raises:
            NoNodeError, BadVersionError, NoAuthError.
        """
        return self._submit(self._scope.check(path, version))

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
        """Creates a znode and its missing parents (the chroot included), unless it is there.

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

        Not as one transaction: others see a part of the tree meanwhile. It does not matter if
        others delete, or if there is no tree; what they create is deleted, too, for ten rounds.
        Uses transactions of up to 128 znodes, eight at a time.

        Args:
            path: the top of the tree. `/` stands for everything below the chroot, which stays;
                without a chroot it is refused, and so are `/zookeeper` and the server's own znodes
                there.

        Returns:
            How many znodes were deleted. After a lost connection, it may include some that others
            deleted.

        Raises:
            InvalidPathError: no server deletes this.
            NotEmptyError: others go on creating in it.
            NoAuthError: a part of it may not be listed or deleted; other parts may be deleted.

        Cancellation: deletes no more; transactions that were sent may still be applied.

        On connection loss: goes on with what is left.
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

        A watch fires when the znode is deleted or its data set; it is not armed if this fails. Null
        data, as other clients may write (None in Java and kazoo), is returned as `b""`.

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
        """Makes the connected server catch up with the leader before it answers later requests."""
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
            prefix: text that the paths begin with: `/member-` finds `/member-1`, and `/a/`
                everything below `/a`.

        Raises:
            UnsupportedError: the server is older, or does not tell its version.
        """
        make = self._scope.get_ephemerals(prefix)
        return await read_with(self._core, Feature.GET_EPHEMERALS, make)

    def reads(self) -> Reads:
        """Several reads in one request, answered from one moment (ZooKeeper 3.6)."""
        return Reads(self._core, self._scope)

    async def whoami(self) -> list[Identity]:
        """The identities of this client for the server: address and credentials (ZooKeeper 3.7).

        Raises:
            UnsupportedError: the server is older, or does not tell its version.
        """
        return await read_with(self._core, Feature.WHO_AM_I, whoami())

    # --- quotas --------------------------------------------------------------------------------

    async def get_quota(self, path: str) -> tuple[Quota, QuotaUsage] | None:
        """The quota on a znode's tree, and its usage; None if there is no quota.

        Raises:
            NoAuthError, RemoteWireError (what is written there is no quota).
        """
        return await get_quota(self._core, self._scope, path)

    async def set_quota(self, path: str, quota: Quota) -> None:
        """Sets the quota on a znode's tree, in place of the present one.

        Written where ZooKeeper's `setquota` writes it, for all servers and clients alike. What
        exceeds a limit already stays.

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
        """Removes the quota on a znode's tree.

        Raises:
            NoNodeError: there is no quota on it.
            NoAuthError.

        On connection loss: it may be gone; then a second call raises `NoNodeError`.
        """
        await delete_quota(self._core, self._scope, path)

    # --- the ensemble --------------------------------------------------------------------------

    def get_config(self, *, watch: Watch | None = None) -> PendingReply[EnsembleConfig]:
        """The servers of the ensemble, whatever the chroot; none if it has no such configuration.

        A watch fires when that changes.

        Raises:
            NoAuthError, RemoteWireError.
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
        """Changes the servers of the ensemble: some of them, or all.

        Servers allow it where `reconfigEnabled` is set, to clients that may write
        `/zookeeper/config`: by default only the super user. A server that joins has to run already,
        with the present members in its configuration.

        Args:
            joining: servers to add, or to change; as `ServerSpec` or as `server.N=...`.
            leaving: numbers of servers to remove.
            members: instead of these: all servers.
            version: that of the configuration to change; -1 for any.

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
        """The events of a znode, as they happen: `async with client.watch(path) as events:`.

        The znode need not exist. The events are those of one znode, `CREATED`, `DELETED`,
        `DATA_CHANGED` and `CHILDREN_CHANGED`, or, if `recursive`, those of the whole tree from
        there on, without `CHILDREN_CHANGED`. Where some may be missing, the stream gives `Missed`.
        Needs servers of 3.6.

        Args:
            path: where.
            recursive: whether to see everything below, too.
            max_events: how many unread events to keep; with one more, all unread ones are replaced
                by one `Missed`. A change of data, or of the children, of a znode is merged into the
                unread one before it, and needs no room.

        Raises (on entering):
            UnsupportedError: the server is older than 3.6, or does not tell its version.
            ConnectionLossError: no server was reached, or it could not be asked for its version.
            SessionExpiredError: the session was over.
        """
        return WatchStream(self._core, self._scope, path, recursive, max_events)

    def observe_data(self, path: str) -> DataView:
        """A znode's latest data: `async with client.observe_data(path) as view:`.

        `async for value in view:` gives `(data, Stat)`, or None while there is no such znode: the
        present value, then each later one. See `View`.

        Raises (on entering):
            NoAuthError: it may not be read.
        """
        return DataView(self, path)

    def observe_children(self, path: str) -> ChildrenView:
        """A znode's latest children: `async with client.observe_children(path) as view:`.

        `async for names in view:` gives their names, sorted, or None while there is no such znode:
        the present ones, then each later state. See `View`.

        Raises (on entering):
            NoAuthError: they may not be read.
        """
        return ChildrenView(self, path)

    def _submit(self, reply: PendingReply[T]) -> PendingReply[T]:
        if self._limited:
            reply.is_reported = True
        return self._core.submit(reply, limited=self._limited)


def _never() -> bool:
    return False
