"""A znode that exists for the duration of a block.

`ZnodeKeeper` keeps a znode in existence: it creates, restores and deletes the znode.

    absent ──create──> present ──deleted by others, session over──> absent ...
      │ another client's znode is there
      └──> blocked ──it was deleted──> absent

The wanted state is recorded synchronously. One job of the client then makes it so, step by step,
and checks again whenever something may have changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import ClassVar, Self

import anyio
import anyio.lowlevel

from .._util.escaping import in_seconds, repr_with_session
from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    AcquireTimeout,
    AioleadError,
    BadVersionError,
    ConfigurationError,
    NodeExistsError,
    NoNodeError,
    ReleaseError,
    RequestRefusedError,
    SequenceExhaustedError,
    UsageError,
)
from ..model import ACL, Created, CreateMode, EventType, SessionState, Stat, WatchEvent
from ..paths import basename, join, parent
from .beside import BodyScope
from .errors import Step, before_next_try, may_be_applied, pause_until, with_parent
from .fixed import Fixed, find_at, found_by, proven_delete
from .holding import propagate
from .naming import (
    SEQUENCE_DIGITS,
    Departure,
    Found,
    Over,
    PendingDelete,
    RegisteredNode,
    Sent,
    set_awaited,
    until_sole,
)
from .reading import catch_up, listed, look_at_all
from .recipe import checked_acl, checked_client, checked_data, checked_path, checked_wait
from .view import leaves_here
from .znode import Znode, ZnodeState

__all__ = ["PersistentNode"]
__types__ = ["NodeState"]

QUICK_REPAIRS, PAUSE = 3, 1.0
"""How many repairs are immediate, and how many seconds pass before each one after them."""


class Keepers(dict[str, "ZnodeKeeper"]):
    """The keepers of one client's znodes at one path, by their names, which may have a number."""


class Kept(Fixed):
    """The naming of a znode that is created again and again, always at the same path.

    A sequential one keeps the number that the server assigns first. A persistent one has no owner:
    an existing one is adopted. `on_deleting` is called, synchronously, with each of its deletes.
    """

    is_late_create_awaited = False
    """Leaving does not wait for the second look."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        mode: CreateMode,
        *,
        is_contended: bool,
        on_deleting: Callable[[Departure], object],
    ) -> None:
        super().__init__(client, path, is_contended=is_contended)
        self._mode = mode
        self._on_deleting = on_deleting
        self.wanted = data
        """The data that it should have."""
        self.is_sequential = mode is CreateMode.EPHEMERAL_SEQUENTIAL
        self.name = None if self.is_sequential else path
        """The path of the znode, also while it does not exist; None before its number is known."""
        self.version = self.mzxid = 0
        """Of the data last seen."""

    def saw(self, stat: Stat) -> None:
        self.version, self.mzxid = stat.version, stat.mzxid

    def send_create(self, _session_id: int, data: bytes, acl: Sequence[ACL] | None) -> Sent:
        path, mode = self.name or self.path, self._mode
        if self.name is not None and self.is_sequential:
            mode = CreateMode.EPHEMERAL  # it keeps its number, as with Curator
        return self._client.create(path, data, mode=mode, acl=acl), path, mode

    def claim(self, created: Created, session_id: int, since: int | None = None) -> RegisteredNode:
        self.saw(created.stat)
        return super().claim(created, session_id, since)

    # --- the owner of an existing znode ----------------------------------------------------------

    def is_ours(self, stat: Stat) -> bool:
        """Whether an existing znode belongs to this client, or to any client."""
        if not self._mode.is_ephemeral:
            return stat.ephemeral_owner == 0
        # Waiting for the end of this session would take forever. The application may have made the
        # znode, or an object of this client that does not know it yet.
        if self._client.backend.is_session_shared:
            return self.is_from_lost_create(stat)
        return self.is_unclaimed(stat)

    def may_become_ours(self, stat: Stat) -> bool:
        """Whether another process with this session may have made a znode, and may hold it."""
        return self._mode.is_ephemeral and self.is_left_behind(stat)

    def _is_as_lost(self, created: bytes, data: bytes, stat: Stat) -> bool:
        """Whether a znode is from a lost create, which created it with the data `created`."""
        is_as_created = (data, stat.version) == (created, 0)
        if not self._mode.is_ephemeral:
            is_free = stat.czxid not in self.registry.claimed
            return stat.ephemeral_owner == 0 and is_free and is_as_created
        is_ours = self.is_from_lost_create(stat)
        return is_ours and (is_as_created or not self._client.backend.is_session_shared)

    async def find(self, path: str, session_id: int, data: bytes, found: Found) -> None:
        is_ours = partial(self._is_as_lost, data)
        if path != self.path or not self.is_sequential:
            await find_at(self._client, path, is_ours, found)
            return
        client, folder, prefix = self._client, parent(path), basename(path)
        await catch_up(client, path)
        length = len(prefix) + SEQUENCE_DIGITS
        names = sorted(
            name
            for name in await listed(client.get_children(folder))
            if name.startswith(prefix) and len(name) == length
        )
        is_found = False

        def first(created: Created) -> None:
            nonlocal is_found
            if not is_found:
                is_found = True
                found(created)

        def look_at(name: str) -> Reply[tuple[bytes, Stat]]:
            path = join(folder, name)
            look = client.get(path)
            look.add_done_callback(partial(found_by, path, look, is_ours, first))
            return look

        await look_at_all(names, look_at)

    def delete(
        self, node: RegisteredNode, data: bytes, watch: Watch | None, over: Over
    ) -> Departure:
        # If another client has set the data meanwhile, a delete by version fails, and is repeated
        # after a look at the znode.
        client, version = self._client, self.version
        if self._is_contended:
            departure = proven_delete(
                client, self, node, watch, over, data=self.wanted, version=version
            )
        else:
            delete = client.delete(node.path, version=version)
            departure = PendingDelete(client, self, node, delete, over, watch=watch)
        self._on_deleting(departure)
        return departure


class ZnodeKeeper:
    """Keeps one znode in existence while it is wanted. For arguments see `PersistentNode`.

    `is_contended`: see `Fixed`. `on_end` is called, synchronously, when the znode cannot be
    kept any longer: see `error`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes,
        *,
        mode: CreateMode,
        acl: Sequence[ACL] | None,
        restore: bool,
        is_contended: bool,
        on_end: Callable[[], object],
    ) -> None:
        self._client = client
        self._path = path
        self._acl = acl
        self._restore = restore
        self._on_end = on_end
        self._keepers = client.backend.shared(path, Keepers)
        self._naming = Kept(
            client, path, data, mode, is_contended=is_contended, on_deleting=self._deleting
        )
        self._own = Znode(client, self._naming, data, acl, None)
        self._generation = 0
        """Counts changes of the wanted data."""
        self.written = -1
        """The latest generation of data that the servers have confirmed."""
        self.error: AioleadError | None = None
        """Why the znode cannot be kept any longer."""
        self._confirmed_data = data
        """The data of the znode, as far as they are known."""
        self._tried = -1
        """The latest generation of data that was sent."""
        self._refused = range(0)
        self._refusal: RequestRefusedError | None = None
        self.is_blocked = False
        """Whether another client's znode is there."""
        self.is_discarded = False
        self.gone = anyio.Event()
        """Set once none of its znodes exists or may still be created."""
        self.deletion: Departure | None = None
        """Its delete, once sent."""
        self._is_awaited = False
        """Whether a task waits for the delete, and reports a refusal."""
        self._is_overwritten = False
        self._look_due = False
        self._waits_to_be_sole = False
        self._repairs: list[float] = []
        """The times of the latest repairs."""
        self._scope = anyio.CancelScope()
        self._todo = anyio.Event()
        self._changed = anyio.Event()
        self._watch = client.backend.make_watch(self._on_event)

    @property
    def node(self) -> RegisteredNode | None:
        return self._own.current

    @property
    def name(self) -> str | None:
        return self._naming.name

    async def change(self) -> None:
        """Wait until `node`, `written`, `error`, or the state of the client, changes."""
        await self._changed.wait()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def start(self) -> None:
        """Start the job; `UsageError` if this client keeps that znode already."""
        name = self.name
        if name and self._keepers.setdefault(basename(name), self) is not self:
            raise UsageError(f"{self._path}: this client keeps that znode already")
        self._client.backend.spawn(self._run, self._ended)

    def want(self, data: bytes) -> int:
        """Request other data; return the generation, for `written`."""
        self._naming.wanted = data
        self._generation += 1
        self._todo.set()
        return self._generation

    # --- the job -------------------------------------------------------------------------------

    async def _run(self) -> None:
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            with self._scope:
                while True:
                    self._todo = anyio.Event()
                    try:
                        await self._bring_about()
                    except RequestRefusedError as error:
                        if not self._give_up_data(error):
                            await pause_until(self._client, error, self._todo)
                    except AioleadError as error:
                        await before_next_try(self._client, error, Step.FOLLOW)
                    else:
                        await self._todo.wait()
        finally:
            unsubscribe()

    def refusal(self, generation: int) -> RequestRefusedError | None:
        """Why the data of a generation were given up; None if they were not."""
        return self._refusal if generation in self._refused else None

    def _give_up_data(self, error: RequestRefusedError) -> bool:
        """Give up data that were requested and cost connections; return whether there are any.

        The znode keeps the data that it has. Without any, the first ones stay wanted.
        """
        refused = range(self.written + 1, self._tried + 1)
        if not refused:
            return False
        self._refused, self._refusal = refused, error
        if self.written >= 0:
            self.written = self._tried
            if self._tried == self._generation:
                self._naming.wanted = self._confirmed_data
        self._notify()
        return self.written >= 0

    def _ended(self, error: AioleadError | None) -> None:
        if error is not None and not self.is_discarded:
            self.error = error
            self._on_end()
            self._notify()

    async def _bring_about(self) -> None:
        """Work until there is nothing left to do."""
        client = self._client
        while True:
            if client.state is not SessionState.CONNECTED:
                await client.ready()
            if self._own.state is ZnodeState.GONE:
                self._forget()
            # `discard` has cancelled this.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self.node is None:
                if self.is_blocked and not self._look_due:
                    return
                await self._acquire()
            elif self.written != self._generation or self._is_overwritten:
                await self._write(self.node)
            elif self._look_due:
                await self._look()
            else:
                return

    def _on_event(self, event: WatchEvent) -> None:
        self._look_due = True
        if event.type is EventType.DELETED:
            self._forget()
            self.is_blocked = False
        self._todo.set()

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self._todo.set()
        self._notify()

    def _forget(self) -> None:
        if self.node is not None:
            self._own.forget()
            self._is_overwritten = False
            self._notify()

    async def _pause_between_repairs(self) -> None:
        now = anyio.current_time()
        self._repairs = [at for at in self._repairs if now - at < QUICK_REPAIRS * PAUSE]
        if len(self._repairs) >= QUICK_REPAIRS:
            await anyio.sleep(PAUSE)
        self._repairs.append(anyio.current_time())

    # --- creating it ---------------------------------------------------------------------------

    async def _acquire(self) -> None:
        """Create the znode, or take the existing one, if permitted."""
        if self.is_blocked:
            if await self._look() is not None:
                return
            self.is_blocked = False
        await self._pause_between_repairs()
        if await self._own.resolve():
            self._taken()
            self._look_due = True
            return
        above = parent(self._path)
        mode = CreateMode.CONTAINER
        await with_parent(self._client, above, self._create, mode=mode, acl=self._acl)

    async def _create(self) -> None:
        """Create the znode and watch it, in one round trip."""
        client, name = self._client, self._naming.name
        await anyio.lowlevel.checkpoint_if_cancelled()
        with client.pipelined():
            self._tried = self._generation
            self._own.data = self._naming.wanted
            create = self._own.create()
            look = None if name is None else client.exists(name, watch=self._watch)
        create.add_done_callback(partial(self._created, create, self._generation))
        if look is not None:
            look.add_done_callback(partial(self._seen, look))
        self._look_due = look is None
        try:
            try:
                await create
            except NodeExistsError:
                if look is None:
                    # The counter stops at its end since ZOOKEEPER-3249, so names repeat.
                    raise SequenceExhaustedError(parent(self._path)) from None
            if look is not None:
                await look
        except BaseException:
            self._look_due = True
            raise

    def _created(self, create: Reply[Created], generation: int) -> None:
        """Process the answer to the create, in the client's task, before any later answer."""
        if create.error() is None and not self.is_discarded:
            self._taken()
            self._confirmed(generation, self._own.data)

    # The answer that shows an existing znode decides at once whether it belongs to this client:
    # see `naming`.

    def _seen(self, look: Reply[Stat | None]) -> None:
        """Process the answer to a look at the znode."""
        if look.error() is not None or self.is_discarded:
            return
        stat, node = look.result(), self.node
        if node is None:
            if stat is not None:
                self._take_or_wait(stat)
        elif stat is None:
            self._forget()
        elif stat.czxid != node.token:
            self._forget()
            self._take_or_wait(stat)
        elif stat.mzxid != self._naming.mzxid:
            self._naming.saw(stat)
            self._is_overwritten = self._restore

    def _take_or_wait(self, stat: Stat) -> None:
        """Take an existing znode if it belongs to this client; otherwise wait for its end."""
        naming = self._naming
        if naming.is_ours(stat):
            self._own.take(Created(naming.name or self._path, stat))
            self._taken()
        elif naming.is_sequential:
            self._release_name()
            naming.name = None  # another number will do
            self._watch.close()
            self._watch = self._client.backend.make_watch(self._on_event)
        else:
            self.is_blocked = True
            self._notify()
            if naming.may_become_ours(stat) and not self._waits_to_be_sole:
                self._waits_to_be_sole = True
                self._client.backend.spawn(self._look_once_sole)

    async def _look_once_sole(self) -> None:
        """Look again once no other process can hold what it has made in this session."""
        try:
            await until_sole(self._client)
        finally:
            self._waits_to_be_sole = False
        self._look_due = True
        self._todo.set()

    def _taken(self) -> None:
        """Record a znode that is there now; its data may differ from what is wanted."""
        name = self._naming.name = self._own.node.path
        self._keepers[basename(name)] = self
        self._is_overwritten = True
        self.is_blocked = False
        self._notify()

    # --- looking after it ----------------------------------------------------------------------

    async def _look(self) -> Stat | None:
        """Look at the znode and watch it."""
        self._look_due = False
        try:
            look = self._client.exists(self.name or self._path, watch=self._watch)
            look.add_done_callback(partial(self._seen, look))
            return await look
        except BaseException:
            self._look_due = True
            raise

    async def _write(self, node: RegisteredNode) -> None:
        if self.written == self._generation:
            await self._pause_between_repairs()
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self.node is not node:
                return
        naming, generation, data = self._naming, self._generation, self._naming.wanted
        self._tried = generation
        try:
            stat = await self._client.set(node.path, data, version=naming.version)
        except BadVersionError:
            await self._look()
        except NoNodeError:
            if self.node is node:
                self._forget()
        except AioleadError as error:
            self._look_due = self._look_due or may_be_applied(error)
            raise
        else:
            if stat.czxid == node.token:
                naming.saw(stat)
                self._confirmed(generation, data)
            else:
                self._look_due = True

    def _confirmed(self, generation: int, data: bytes) -> None:
        self.written = max(self.written, generation)
        self._confirmed_data = data
        self._is_overwritten = False
        self._notify()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> None:
        """Delete the znode, synchronously: the client does the rest."""
        self.is_discarded = True
        self._scope.cancel()
        self._release_name()
        if self._own.discard() is None:
            self._watch.close()
        self._own.when_over(self.gone.set)
        self._notify()

    def _release_name(self) -> None:
        if self._keepers.get(name := basename(self._naming.name or "")) is self:
            del self._keepers[name]

    def set_awaited(self, is_awaited: bool) -> None:
        """Set whether a task waits until it is gone; see `Departure.is_awaited`."""
        self._is_awaited = is_awaited
        if self.deletion is not None:
            set_awaited(self.deletion, is_awaited)

    def _deleting(self, deletion: Departure) -> None:
        self.deletion = deletion
        deletion.is_awaited = self._is_awaited
        # The watch fires with the delete, unless that fails.
        deletion.add_done_callback(self._watch.close)


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a `PersistentNode`, as far as it is known.

    Attributes:
        is_present: whether the znode exists; False while the connection is lost.
        path: its path; None while a sequential one has no number yet.
        czxid: the transaction that created it; None while it does not exist.
        session_id: the session that owns it; 0 if it does not exist, or is persistent.
    """

    is_present: bool
    path: str | None
    czxid: int | None
    session_id: int

    def __repr__(self) -> str:
        return repr_with_session(self)


class PersistentNode(AsyncIterable[NodeState]):
    """A znode that exists for the duration of a block, whatever happens to it meanwhile.

        async with aiolead.PersistentNode(client, "/workers/w1", b"idle") as node:
            await node.set(b"busy")

    Entering waits until the znode exists. If others delete it, or its session expires, it is
    created again. If another client's znode is at the path, for instance of a process that died a
    moment ago, entering waits for its end, and never deletes it. (A persistent znode has no owner:
    it is adopted, and deleted by any process that leaves.)

    A sequential znode keeps its number, unless another client has taken it meanwhile. Iterating,
    `async for state in node`, yields the latest `NodeState` until the block ends; a slow reader may
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

    Threads and forks: any thread may read its properties; everything else raises `UsageError`
    outside of the client's event loop. In a forked child `is_present` is False.
    """

    _is_contended: ClassVar[bool] = True
    """Whether other recipes, such as a lock, may use the path; see `Fixed`."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.EPHEMERAL,
        restore: bool = True,
        timeout: float | None = None,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._client = checked_client(client)
        client.backend.check_home()
        self._prefix = checked_path(path)
        checked_data(data)
        modes = CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT
        if mode not in modes:
            allowed = ", ".join(each.name for each in modes)
            raise ConfigurationError(f"mode: must be one of {allowed}, not {mode!r}")
        self._wait = checked_wait(timeout)
        self._body = BodyScope(self)
        self._keeper = ZnodeKeeper(
            self._client,
            path,
            data,
            mode=mode,
            acl=checked_acl(acl),
            restore=restore,
            is_contended=self._is_contended,
            on_end=self._body.cancel,
        )
        self._entered = self._is_inside = False

    def __repr__(self) -> str:
        there = "present" if self.is_present else "not present"
        return f"<{type(self).__name__} {self._keeper.name or self._prefix}, {there}>"

    @property
    def path(self) -> str:
        """The znode's path; `UsageError` while a sequential one has no number."""
        if self._keeper.name is None:
            raise UsageError(f"{self!r}: has no number before it is entered")
        return self._keeper.name

    @property
    def is_present(self) -> bool:
        """Whether the znode is known to exist; False while the connection is lost."""
        return self.state.is_present

    @property
    def state(self) -> NodeState:
        """The present state."""
        keeper, node = self._keeper, self._keeper.node
        if node is None or keeper.is_discarded or keeper.error is not None:
            return NodeState(False, keeper.name, None, 0)
        is_connected = self._client.state is SessionState.CONNECTED
        return NodeState(is_connected, node.path, node.token, node.session_id)

    def __aiter__(self) -> AsyncIterator[NodeState]:
        if not self._entered:
            raise UsageError(f"{self!r} was not entered")
        return _States(self)

    async def set(self, data: bytes) -> None:
        """Set the data; return once the servers have confirmed them, or later ones.

        It raises `ServerError` or `SessionError` if the znode cannot be kept any longer; the body
        is cancelled, too. `RequestRefusedError`: the data are too long for the servers; the znode
        keeps those that it has. Cancellation: the data are still set. On connection loss:
        continues; after an expired session the new znode holds them.
        """
        await self._until_written(self._want(data))

    def _want(self, data: bytes) -> int:
        """Request other data; return their generation, for `_until_written`."""
        self._client.backend.check_home()
        if not self._is_inside:
            raise UsageError(f"{self!r}: enter it by `async with` (in a thread, `with`)")
        if self._keeper.error is not None:
            raise self._keeper.error
        return self._keeper.want(checked_data(data))

    async def _until_written(self, generation: int, *, is_patient: bool = True) -> bool:
        """Wait until the servers have confirmed a generation or later; see `ZnodeKeeper.want`.

        Unless it is patient, it returns False if another client's znode is there.
        """
        await anyio.lowlevel.checkpoint()
        keeper = self._keeper
        while keeper.written < generation or keeper.refusal(generation) is not None:
            if keeper.error is not None:
                raise keeper.error
            if keeper.is_discarded:
                raise UsageError(f"{self!r} was left meanwhile")
            if (refusal := keeper.refusal(generation)) is not None:
                raise refusal
            if keeper.is_blocked and not is_patient:
                return False
            await keeper.change()
        return True

    def _why_ended(self) -> Exception | None:
        """The error that has cancelled the body, if any has."""
        return self._keeper.error

    # --- the block -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._client.backend.check_home()
        if self._entered:
            raise UsageError(f"{self!r} was entered already; make another one")
        self._entered = True
        if self._client.state.is_final:
            await self._client.ready()  # raises why the client ended
        keeper = self._keeper
        is_there = False
        timeout = self._client.session_timeout
        try:
            keeper.start()
            # `timeout=0` tries once, within a session timeout.
            with anyio.move_on_after(timeout if self._wait == 0 else self._wait):
                is_there = await self._until_written(0, is_patient=self._wait != 0)
        finally:
            if not is_there:
                keeper.discard()
        if not is_there:
            why = "somebody else's is there" if keeper.is_blocked else "no server was reached"
            raise AcquireTimeout(f"{self._prefix}: not ours within {in_seconds(self._wait)}: {why}")
        # No checkpoint from here on.
        self._body.enter()
        self._is_inside = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        keeper = self._keeper
        if not self._is_inside or not leaves_here(self._client, exc):
            return
        self._is_inside = False
        # From here on the client deletes it, whatever happens to this task.
        keeper.set_awaited(True)
        keeper.discard()
        left = self._body.leave(exc)
        error = keeper.error
        try:
            with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
                await keeper.gone.wait()
        except BaseException:  # asyncio's own cancellation
            keeper.set_awaited(False)
            raise
        refusal = None if keeper.deletion is None else keeper.deletion.error
        if left is None and error is None and isinstance(refusal, ReleaseError):
            raise refusal
        keeper.set_awaited(False)
        if left is None:
            if error is not None:
                raise error
            return
        if error is not None and left is not error:
            left.add_note(f"{self!r}: {error}")
        propagate(left, exc)


class _States(AsyncIterator[NodeState]):
    def __init__(self, node: PersistentNode) -> None:
        self._node = node
        self._seen: NodeState | None = None

    async def __anext__(self) -> NodeState:
        await anyio.lowlevel.checkpoint()
        keeper = self._node._keeper
        while (state := self._node.state) == self._seen:
            if keeper.error is not None:
                raise keeper.error
            if keeper.is_discarded:
                raise StopAsyncIteration
            await keeper.change()
        self._seen = state
        return state
