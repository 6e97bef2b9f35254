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
from ..deletion import Deletion
from ..error_policy import (
    Step,
    before_next_try,
    in_background,
    may_be_applied,
)
from ..ownership import now
from .kept import Claims, Kept, delete_kept, delete_lost, find_unclaimed

PARENT_TRIES = 10
"""How often the parent is created anew in a row: servers reap empty containers (CURATOR-724)."""

QUICK_REPAIRS = 3
"""How many repairs are made at once; whoever undoes them keeps being undone once per `PAUSE`."""

PAUSE = 1.0
"""Between two repairs of many, in seconds."""


class Keeper:
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
        self._mode = mode
        self._acl = acl
        self._restore = restore
        self._on_change = on_change
        self._on_end = on_end
        self._is_ephemeral = mode is not CreateMode.PERSISTENT
        self._is_sequential = mode is CreateMode.EPHEMERAL_SEQUENTIAL
        self._claims = client.shared(path, Claims)
        if not self._is_sequential and self._claims.kept.setdefault(path, self) is not self:
            raise UsageError(f"{path}: this client keeps that znode already")
        self.node: Kept | None = None
        """Our znode, as far as we know."""
        self.name: str | None = None if self._is_sequential else path
        """The path of the znode, also while it is not there; None before its number is known."""
        self.wanted = data
        self.generation = 0
        """Counts what was wanted."""
        self.written = -1
        """The latest of those that the servers have confirmed."""
        self.gone = anyio.Event()
        """Set once it is deleted, or as good as that."""
        self.deletion: Deletion | None = None
        """Its delete, once that is asked for."""
        self._is_awaited = False
        """Whether somebody waits for that, who reports a refusal."""
        self._scope = anyio.CancelScope()
        self._discarded = False
        self._is_creating = False
        """Whether the answer to a create is awaited: the znode may be there before we know."""
        self._ends = 0
        """How many deletes, and searches for lost creates, have not ended yet."""
        self._lost_in = 0
        """The session in which the answer to a create was lost."""
        self._is_overwritten = False
        self.is_blocked = False
        """Whether somebody else's znode is there."""
        self._look_due = False
        self._news = anyio.Event()
        self._watch = client.make_watch(self._on_event)
        self._repairs: list[float] = []

    def want(self, data: bytes) -> int:
        """Wants other data; returns its number, for `written`."""
        self.wanted = data
        self.generation += 1
        self._news.set()
        return self.generation

    # --- the job -------------------------------------------------------------------------------

    async def run(self) -> None:
        """The job: for `client.spawn`."""
        unsubscribe = self._client.subscribe(self._on_state)
        try:
            with self._scope:
                await self._keep()
        finally:
            unsubscribe()

    def ended(self, error: AioleadError | None) -> None:
        """The end of the job: for `client.spawn`, too."""
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
            if self.node is not None and self.node.owner not in (0, client.session_id):
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
        node, self.node = self.node, None
        if node is not None:
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
        if self._is_sequential and self._lost_in == self._client.session_id:
            found = await find_unclaimed(
                self._client,
                self._claims,
                self._path,
                is_sequential=True,
                owner=self._lost_in,
                data=self.wanted,
            )
            if found is not None:
                self._take(found)
                self._look_due = True
                self._on_change()
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
        client, path = self._client, self.name or self._path
        await anyio.lowlevel.checkpoint_if_cancelled()
        # One that had its number gets it back, as with Curator.
        mode = self._mode if self.name is None else _without_number(self._mode)
        create = client.create(path, self.wanted, mode=mode, acl=self._acl)
        self._is_creating = True
        sent_in, since = client.session_id, now(client)
        create.add_done_callback(partial(self._created, create, self.generation, sent_in, since))
        look = None if self.name is None else client.exists(path, watch=self._watch)
        self._look_due = look is None
        try:
            try:
                await create
            except NodeExistsError:
                if look is None:
                    # The counter stands still at its end since ZOOKEEPER-3249, so names repeat.
                    raise SequenceExhaustedError(parent(path)) from None
                stat = await look
                if stat is not None:
                    self._take_or_wait(stat)
            else:
                if look is not None:
                    self._compare(await look)
        except BaseException:
            self._look_due = True
            raise

    def _created(
        self, create: Reply[Created], generation: int, session_id: int, since: int
    ) -> None:
        """The answer to our create is there: in the client's task, before anything after it."""
        self._is_creating = False
        error = create.error()
        if error is None:
            created = create.result()
            self.node = Kept.of(created.path, created.stat)
            if self._discarded:
                self._drop()
            else:
                self._take(self.node)
                self.written = generation
                self._is_overwritten = False
                self._on_change()
            return
        if may_be_applied(error):
            self._lost_in = session_id
            self._claims.lost.add(self._client, session_id, since)
            if self._discarded:
                self._owe_lost_create()
        if self._discarded:
            self._drop()

    def _take_or_wait(self, stat: Stat) -> None:
        """There is a znode already: ours, or that of somebody else, who is waited for."""
        if self._is_ours(stat):
            self._claims.lost.found(stat.czxid)
            self._take(Kept.of(self.name or self._path, stat))
            self._on_change()
        elif self._is_sequential:
            self._release_name()
            self.name = None  # another number will do
            self._watch.close()
            self._watch = self._client.make_watch(self._on_event)
        else:
            self.is_blocked = True
            self._on_change()

    def _is_ours(self, stat: Stat) -> bool:
        if not self._is_ephemeral:
            return stat.ephemeral_owner == 0  # nobody can tell, so whoever keeps it shares it
        # One of our session that nobody here has is that of a lost create: ours, or that of a
        # keeper before us, who may not know of it yet. To wait for its end would be for ever.
        mine = stat.ephemeral_owner == self._client.session_id
        given_up = stat.czxid in self._claims.going
        if not mine or given_up or self._claims.kept.get(self.name or "", self) is not self:
            return False
        return self._claims.lost.may_have_made(self._client, stat.czxid)

    def _take(self, node: Kept) -> None:
        """It is ours; what it holds is not known to be what is wanted."""
        self.node = node
        self.name = node.path
        self._claims.kept[node.path] = self
        self._is_overwritten = True
        self.is_blocked = False

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
        elif stat.czxid != node.czxid:
            self._forget()
            self._take_or_wait(stat)
        elif stat.mzxid != node.mzxid:
            node.version, node.mzxid = stat.version, stat.mzxid
            self._is_overwritten = self._restore

    async def _write(self, node: Kept) -> None:
        if self.written == self.generation:
            await self._pause_between_repairs()
            await anyio.lowlevel.checkpoint_if_cancelled()
            if self.node is not node:
                return
        generation = self.generation
        try:
            stat = await self._client.set(node.path, self.wanted, version=node.version)
        except BadVersionError:
            await self._look()
        except NoNodeError:
            if self.node is node:
                self._forget()
        except AioleadError as error:
            self._look_due = self._look_due or may_be_applied(error)
            raise
        else:
            if stat.czxid == node.czxid:
                node.version, node.mzxid = stat.version, stat.mzxid
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
        lost = self._lost_in == self._client.session_id or not self._is_ephemeral
        if self._lost_in and lost and self.node is None:
            self._owe_lost_create()
        if not self._is_creating:
            self._drop()

    def _release_name(self) -> None:
        if self.name is not None and self._claims.kept.get(self.name) is self:
            del self._claims.kept[self.name]

    def await_report(self, is_awaited: bool) -> None:
        """Says whether somebody waits until it is gone; see `Departure.await_report`."""
        self._is_awaited = is_awaited
        if self.deletion is not None:
            self.deletion.await_report(is_awaited)

    def _drop(self) -> None:
        node, self.node = self.node, None
        if node is None or node.owner not in (0, self._client.session_id):
            self._watch.close()
            self._check_gone()
            return
        self._ends += 1
        self._claims.going.add(node.czxid)
        delete = self._client.delete(node.path, version=node.version)
        # It fires with the delete; only a failed one leaves it behind.
        delete.add_done_callback(self._watch.close)
        debt = partial(delete_kept, self._client, self._claims, node)
        over = partial(self._settled, node)
        self.deletion = Deletion(self._client, node.path, delete, debt, over)
        self.deletion.await_report(self._is_awaited)

    def _settled(self, node: Kept) -> None:
        self._claims.going.discard(node.czxid)
        self._one_end()
        if self._is_ephemeral and self._lost_in == node.owner:
            self._owe_lost_create()

    def _one_end(self) -> None:
        self._ends -= 1
        self._check_gone()

    def _check_gone(self) -> None:
        if not (self._is_creating or self._ends):
            self.gone.set()

    def _owe_lost_create(self) -> None:
        self._ends += 1
        job = partial(
            delete_lost,
            self._client,
            self._claims,
            self._path,
            is_sequential=self._is_sequential,
            owner=self._lost_in if self._is_ephemeral else 0,
            data=self.wanted,
            looked=self._one_end,
        )
        self._client.spawn(partial(in_background, self._path, job))


def _without_number(mode: CreateMode) -> CreateMode:
    return CreateMode.EPHEMERAL if mode is CreateMode.EPHEMERAL_SEQUENTIAL else mode
