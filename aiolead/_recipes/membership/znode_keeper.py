"""Keeps a znode there: creates it, looks after it, and takes it away.

    absent ──create──> present ──deleted by others, session over──> absent ...
      │ somebody else's is there
      └──> blocked ──that one has gone──> absent

What is wanted is noted synchronously; one job of the client's brings it about, one step after the
other, and looks again whenever something may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio
import anyio.lowlevel

from ...abc import CoordinationClient, Reply
from ...errors import (
    AioleadError,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SequenceExhaustedError,
    UsageError,
)
from ...model import ACL, Created, CreateMode, EventType, SessionState, Stat, WatchEvent
from ...paths import parent
from .._core.ephemeral import ZnodeState
from .._core.error_policy import Step, before_next_try, may_be_applied
from .._core.pending_delete import Departure
from .._core.znode_registry import RegisteredNode
from .kept_znode import KeptRegistry, KeptZnode

PARENT_TRIES = 10
"""How often the parent is created anew in a row: servers reap empty containers (CURATOR-724)."""

QUICK_REPAIRS = 3
"""How many repairs are made at once; whoever undoes them keeps being undone once per `PAUSE`."""

PAUSE = 1.0
"""Between two repairs of many, in seconds."""


class ZnodeKeeper:
    """One znode, as long as it is wanted.

    Args:
        client: the session.
        path: the znode; for a sequential one, what the server appends the number to.
        data: what it holds at first.
        mode: ephemeral, ephemeral and sequential, or persistent.
        acl: of the znode, and of what is missing above it.
        restore: whether data that others have set is overwritten.
        on_change: called synchronously when `node`, or the state of the client, changes.
        on_end: called synchronously, with the error, when it cannot be kept any longer.
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
        on_change: Callable[[], object],
        on_end: Callable[[AioleadError], object],
    ) -> None:
        self._client = client
        self._path = path
        self._acl = acl
        self._restore = restore
        self._on_change = on_change
        self._on_end = on_end
        self._registry = client.backend.shared(path, KeptRegistry)
        self._own = own = KeptZnode(
            client, self._registry, path, data, mode=mode, acl=acl, on_deleting=self._deleting
        )
        if own.name and self._registry.keepers.setdefault(own.name, self) is not self:
            raise UsageError(f"{path}: this client keeps that znode already")
        self.wanted = data
        self.generation = 0
        """Counts what was wanted."""
        self.written = -1
        """The latest of those that the servers have confirmed."""
        self.gone = anyio.Event()
        """Set once it is deleted, or as good as that."""
        self.deletion: Departure | None = None
        """Its delete, once that is asked for."""
        self._is_awaited = False
        """Whether somebody waits for that, who reports a refusal."""
        self._scope = anyio.CancelScope()
        self._discarded = False
        self._is_overwritten = False
        self.is_blocked = False
        """Whether somebody else's znode is there."""
        self._look_due = False
        self._news = anyio.Event()
        self._watch = client.backend.make_watch(self._on_event)
        self._repairs: list[float] = []

    @property
    def node(self) -> RegisteredNode | None:
        """Our znode, as far as we know."""
        return self._own.present

    @property
    def name(self) -> str | None:
        """The path of the znode, also while it is not there; None before its number is known."""
        return self._own.name

    def want(self, data: bytes) -> int:
        """Wants other data; returns its number, for `written`."""
        self.wanted = data
        self._own.wants(data)
        self.generation += 1
        self._news.set()
        return self.generation

    # --- the job -------------------------------------------------------------------------------

    async def run(self) -> None:
        """The job: for `client.backend.spawn`."""
        unsubscribe = self._client.backend.subscribe(self._on_state)
        try:
            with self._scope:
                await self._keep()
        finally:
            unsubscribe()

    def ended(self, error: AioleadError | None) -> None:
        """The end of the job: for `client.backend.spawn`, too."""
        if error is not None and not self._discarded:
            self._on_end(error)

    async def _keep(self) -> None:
        while True:
            self._news = anyio.Event()
            try:
                await self._bring_about()
            except AioleadError as error:
                await before_next_try(self._client, error, Step.FOLLOW)
            else:
                await self._news.wait()

    async def _bring_about(self) -> None:
        """Does what has to be done; returns when there is nothing."""
        client = self._client
        while True:
            if client.state is not SessionState.CONNECTED:
                await client.ready()
            if self._own.state is ZnodeState.GONE:
                self._forget()
            # Whoever has given it up has cancelled this.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self.node is None:
                if self.is_blocked and not self._look_due:
                    return
                await self._try_to_have_it()
            elif self.written != self.generation or self._is_overwritten:
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
        self._news.set()

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self._news.set()
        self._on_change()

    def _forget(self) -> None:
        """Our znode is not there any more."""
        if self.node is not None:
            self._own.forget()
            self._is_overwritten = False
            self._on_change()

    async def _pause_between_repairs(self) -> None:
        now = anyio.current_time()
        self._repairs = [at for at in self._repairs if now - at < QUICK_REPAIRS * PAUSE]
        if len(self._repairs) >= QUICK_REPAIRS:
            await anyio.sleep(PAUSE)
        self._repairs.append(anyio.current_time())

    # --- having it -----------------------------------------------------------------------------

    async def _try_to_have_it(self) -> None:
        if self.is_blocked:
            stat = await self._exists()
            if stat is not None:
                self._take_or_wait(stat)
                return
            self.is_blocked = False
        await self._pause_between_repairs()
        if await self._own.resolve():
            self._taken()
            self._look_due = True
            return
        for _ in range(PARENT_TRIES):
            try:
                await self._create()
            except NoNodeError:
                above = parent(self._path)
                await self._client.ensure_path(above, mode=CreateMode.CONTAINER, acl=self._acl)
            else:
                return
        await self._create()

    async def _create(self) -> None:
        """One round trip: the create, and a look at the znode that watches it."""
        client, own = self._client, self._own
        await anyio.lowlevel.checkpoint_if_cancelled()
        create = own.create()
        create.add_done_callback(partial(self._created, create, self.generation))
        look = None if own.name is None else client.exists(own.name, watch=self._watch)
        self._look_due = look is None
        try:
            try:
                await create
            except NodeExistsError:
                if look is None:
                    # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
                    raise SequenceExhaustedError(parent(self._path)) from None
                stat = await look
                if stat is not None:
                    self._take_or_wait(stat)
            else:
                if look is not None:
                    self._compare(await look)
        except BaseException:
            self._look_due = True
            raise

    def _created(self, create: Reply[Created], generation: int) -> None:
        """The answer to our create is there: in the client's task, before anything after it."""
        if create.error() is None and not self._discarded:
            self._taken()
            self.written = generation
            self._is_overwritten = False

    def _take_or_wait(self, stat: Stat) -> None:
        """There is a znode already: ours, or that of somebody else, who is waited for."""
        own = self._own
        if own.is_ours(stat):
            own.take(Created(own.name or self._path, stat))
            self._taken()
        elif own.is_sequential:
            self._release_name()
            own.name = None  # another number will do
            self._watch.close()
            self._watch = self._client.backend.make_watch(self._on_event)
        else:
            self.is_blocked = True
            self._on_change()

    def _taken(self) -> None:
        """It is ours; what it holds is not known to be what is wanted."""
        name = self._own.name = self._own.node.path
        self._registry.keepers[name] = self
        self._is_overwritten = True
        self.is_blocked = False
        self._on_change()

    # --- looking after it ----------------------------------------------------------------------

    async def _exists(self) -> Stat | None:
        self._look_due = False
        try:
            return await self._client.exists(self.name or self._path, watch=self._watch)
        except BaseException:
            self._look_due = True
            raise

    async def _look(self) -> None:
        self._compare(await self._exists())

    def _compare(self, stat: Stat | None) -> None:
        """What a look has shown."""
        node = self.node
        if stat is None or node is None:
            self._forget()
        elif stat.czxid != node.token:
            self._forget()
            self._take_or_wait(stat)
        elif stat.mzxid != self._own.mzxid:
            self._own.saw(stat)
            self._is_overwritten = self._restore

    async def _write(self, node: RegisteredNode) -> None:
        if self.written == self.generation:
            await self._pause_between_repairs()
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self.node is not node:
                return
        generation = self.generation
        try:
            stat = await self._client.set(node.path, self.wanted, version=self._own.version)
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
                self._own.saw(stat)
                self.written = generation
                self._is_overwritten = False
                self._on_change()
            else:
                self._look_due = True

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> None:
        """Gives it up. Synchronous: the rest is the client's work."""
        self._discarded = True
        self._scope.cancel()
        self._release_name()
        if self._own.discard() is None:
            self._watch.close()
        self._own.when_over(self.gone.set)

    def _release_name(self) -> None:
        name = self._own.name
        if name is not None and self._registry.keepers.get(name) is self:
            del self._registry.keepers[name]

    def await_report(self, is_awaited: bool) -> None:
        """Says whether somebody waits until it is gone; see `Departure.await_report`."""
        self._is_awaited = is_awaited
        if self.deletion is not None:
            self.deletion.await_report(is_awaited)

    def _deleting(self, deletion: Departure) -> None:
        self.deletion = deletion
        deletion.await_report(self._is_awaited)
        # The watch fires with the delete; only a failed one leaves it behind.
        deletion.add_done_callback(self._watch.close)
