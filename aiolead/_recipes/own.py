"""An ephemeral znode of ours that stands in no line: from its creation to its deletion.

As with a contender's, the znode exists exactly as long as it is wanted, whatever is cancelled or
cut when. Which znodes are whose is known by czxid: several tasks of one session may want the same
path, and then its owner says too little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio

from .._internal_errors import contained
from ..abc import CoordinationClient, Hold, Reply, Watch
from ..errors import AioleadError, LossReason, NoNodeError
from ..model import ACL, Created, CreateMode, EventType, Stat, WatchEvent
from ..paths import basename, join, parent, sequence_of
from .catching_up import catch_up
from .deletion import Deletion, Departure
from .error_policy import (
    Action,
    Step,
    action_for,
    in_background,
    may_be_applied,
    pause,
    until_done,
)
from .line import Node
from .ownership import LostCreates, is_shared, now

AT_ONCE = 100
"""How many znodes are looked at in one go, when a lost create is searched for."""


class ZnodeGone(Exception):
    """A znode of ours is not there any more. Never leaves the recipes."""


class Claims:
    """The znodes that this client's recipes have at a path, or below it, by their czxids.

    They are claimed synchronously, as the answer to the create comes in, and one connection answers
    in order. So what is seen, is our session's and is not claimed belongs to a lost create, unless
    the session is shared (see `ownership`).
    """

    def __init__(self) -> None:
        self.tokens: set[int] = set()
        self.lost: dict[str, LostCreates] = {}
        """By path, where the session is shared."""


class OwnZnode:
    """One ephemeral znode.

    Args:
        client: the session.
        claims: shared by everybody here who makes such znodes at this path.
        path: of the znode; if it is sequential, what its path begins with.
        data: what it holds.
        marker: what the server appends the number to, if it is sequential: after the session and a
            count, so that no two ever have the same name (see `Layout.prefix`).
        acl: of the znode.
        on_gone: called, synchronously, when somebody else has deleted it.
    """

    def __init__(
        self,
        client: CoordinationClient,
        claims: Claims,
        path: str,
        data: bytes,
        *,
        marker: str | None = None,
        acl: Sequence[ACL] | None,
        on_gone: Callable[[], object],
    ) -> None:
        self._client = client
        self._claims = claims
        self._path = path
        self._data = data
        self._stem = path
        self._marker = marker
        self._acl = acl
        self._on_gone = on_gone
        self._node: Node | None = None
        self._creating: Reply[Created] | None = None
        self._create_session = 0
        self._gone = False
        self._watch: Watch | None = None
        self._look: Reply[tuple[bytes, Stat]] | None = None
        self._lose: Callable[[LossReason], object] | None = None

    @property
    def node(self) -> Node:
        """The znode. Only while there is one."""
        if self._node is None:
            raise AssertionError("there is no znode")
        return self._node

    @property
    def is_lost(self) -> bool:
        """Whether the answer to its create was lost: then `resolve` finds out about it."""
        return self._creating is not None and self._creating.is_done

    @property
    def is_wanted(self) -> bool:
        """Whether it was created, or its create is under way, or lost."""
        return self._node is not None or self._creating is not None

    def check(self) -> None:
        """Returns if we know nothing else than that it is there.

        Raises:
            ZnodeGone: it is not, or its session is over.
        """
        if self._gone or self.node.session_id != self._client.session_id:
            raise ZnodeGone

    # --- creating ------------------------------------------------------------------------------

    def create(self) -> Reply[Created]:
        """Hands the create over. The answer is taken note of, whoever waits for it."""
        self._create_session = self._client.session_id
        mode = CreateMode.EPHEMERAL
        if self._marker is not None:
            mode = CreateMode.EPHEMERAL_SEQUENTIAL
            owner = f"{self._create_session & (1 << 64) - 1:016x}-{self._client.serial():x}"
            self._path = f"{self._stem}{owner}-{self._marker}"
        since = now(self._client)
        create = self._client.create(self._path, self._data, mode=mode, acl=self._acl)
        self._creating = create
        create.add_done_callback(partial(self._created, create, self._create_session, since))
        return create

    def _created(self, create: Reply[Created], session_id: int, since: int) -> None:
        wanted = self._creating is create
        error = create.error()
        if may_be_applied(error) and is_shared(self._client):
            lost = self._claims.lost.setdefault(self._path, LostCreates())
            lost.add(self._client, session_id, since)
        if error is None:
            if wanted:
                self._creating = None
                self.claim(create.result())
            else:
                self._delete(self._claimed(create.result()), None)
        elif may_be_applied(error):
            if not wanted:  # else that is settled by `resolve`, or `withdraw`
                self._owe_lost_create(session_id)
        elif wanted:
            self._creating = None

    def claim(self, created: Created) -> None:
        """Takes a znode for ours."""
        self._node = self._claimed(created)

    def _claimed(self, created: Created) -> Node:
        stat = created.stat
        sequence = sequence_of(created.path) if self._marker is not None else None
        self._claims.tokens.add(stat.czxid)
        self._settle_lost(stat.czxid)
        return Node(created.path, sequence or 0, stat.czxid, stat.ephemeral_owner)

    def is_unclaimed(self, data: bytes, stat: Stat) -> bool:
        """Whether a znode is of a lost create of ours, as far as that can be known.

        It is our session's, filled like ours, and nobody here has it; see `ownership`.
        """
        ours = stat.ephemeral_owner == self._client.session_id and data == self._data
        if not ours or stat.czxid in self._claims.tokens:
            return False
        if not is_shared(self._client):
            return True
        lost = self._claims.lost.get(self._path)
        return lost is not None and lost.may_have_made(self._client, stat.czxid)

    def _settle_lost(self, czxid: int) -> None:
        lost = self._claims.lost.get(self._path)
        if lost is not None:
            lost.found(czxid)
            if lost.is_empty:
                del self._claims.lost[self._path]

    async def resolve(self) -> bool:
        """Finds out what became of a create whose answer was lost; whether there is a znode.

        Raises:
            ConnectionLossError, SessionExpiredError: that is not known yet.
        """
        if self._node is not None and self._node.session_id != self._client.session_id:
            self.withdraw()
        create = self._creating
        if create is not None:
            try:
                await create
            except AioleadError as error:
                if not may_be_applied(error):
                    raise
        if self._creating is not None:
            if self._client.session_id == self._create_session:
                found = await self._find_lost()
                if found is None:
                    # It may still be on its way: whatever turns up later is not wanted any more.
                    self._owe_lost_create(self._create_session, already_looked=True)
                else:
                    self.claim(found)
            self._creating = None
        return self._node is not None

    async def _find_lost(self) -> Created | None:
        client = self._client
        above = parent(self._path)
        await catch_up(client, above)
        paths = [self._path]
        if self._marker is not None:
            prefix = basename(self._path)
            try:
                children = await client.get_children(above)
                names = [n for n in children if n.startswith(prefix)]
            except NoNodeError:
                return None
            paths = [join(above, name) for name in sorted(names) if sequence_of(name) is not None]
        for start in range(0, len(paths), AT_ONCE):
            looks = [(path, client.get(path)) for path in paths[start : start + AT_ONCE]]
            for path, look in looks:
                with suppress(NoNodeError):
                    data, stat = await look
                    if self.is_unclaimed(data, stat):
                        return Created(path, stat)
        return None

    def _owe_lost_create(self, session_id: int, *, already_looked: bool = False) -> None:
        job = partial(self._delete_lost, session_id=session_id, already_looked=already_looked)
        self._client.spawn(partial(in_background, self._path, job))

    async def _delete_lost(self, *, session_id: int, already_looked: bool) -> None:
        """Pays the debt of a create whose answer was lost; see `line.delete_lost`."""
        client = self._client
        found: list[Node] = []

        async def find() -> None:
            created = await self._find_lost()
            if created is not None:
                found.append(self._claimed(created))

        if not already_looked and not await until_done(client, session_id, find):
            return
        if not found:
            await anyio.sleep(client.session_timeout)
            await until_done(client, session_id, find)
        for node in found:
            await _pay(client, self._claims, node)

    # --- watching ------------------------------------------------------------------------------

    def watch(self) -> None:
        """Has the deletion by others reported, unless that was asked for already."""
        if self._watch is not None:
            return
        node = self.node
        self._watch = self._client.make_watch(contained(self._on_event, self._unwatched))
        look = self._look = self._client.get(node.path, watch=self._watch)
        look.add_done_callback(contained(partial(self._seen, node, look), self._unwatched))

    def _seen(self, node: Node, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._look is look:
            self._look = None
        if node is not self._node:
            return
        error = look.error()
        if error is None:
            # A znode of that path may be another one by now.
            gone = look.result()[1].czxid != node.token
        else:
            gone = isinstance(error, NoNodeError)
            if action_for(error, Step.ACQUIRE) is Action.PAUSE:
                self.unwatch()  # it was not armed
                later = partial(self._watch_later, node)
                self._client.spawn(later, self._unwatched)
        if gone:
            self._lost()

    async def _watch_later(self, node: Node) -> None:
        await anyio.sleep(pause(self._client))
        if node is self._node and not self._gone:
            self.watch()

    def _unwatched(self, error: AioleadError | None) -> None:
        """It is not watched, if there was an error: nothing is held without that."""
        if error is None or error.session_over or self._node is None:
            return
        self.unwatch()
        if self._lose is not None:
            self._lose(LossReason.INTERNAL)

    def _on_event(self, event: WatchEvent) -> None:
        self._watch = None
        if event.type is EventType.DELETED:
            self._lost()
        elif event.type is not EventType.NONE and self._node is not None:
            self.watch()

    async def looked_at(self) -> None:
        """Waits for what the last look at it shows; no checkpoint if that is known."""
        while self._look is not None:
            with suppress(NoNodeError):
                await self._look

    def _lost(self) -> None:
        self._gone = True
        self._on_gone()
        if self._lose is not None:
            self._lose(LossReason.DELETED)

    # --- holding -------------------------------------------------------------------------------

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, surrender: bool) -> Hold:
        """Registers it as held; see `Candidate.hold`."""

        def on_lost(reason: LossReason) -> None:
            self._gone = self._gone or reason is LossReason.DELETED
            lost(reason)

        hold = self._client.lease.hold(
            self.node.path, on_lost, settled=self._settled, urgent=urgent, surrender=surrender
        )
        self._lose = hold.lose
        return hold

    def _settled(self) -> None:
        if self._node is not None:
            self.watch()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Gives it up. Synchronous: the rest is the client's work; see `Candidate.discard`."""
        self._lose = None
        return self.withdraw()

    def withdraw(self) -> Departure | None:
        """Gives it up, whether or not it was created by now; another one may be made.

        Returns:
            That it goes; None if there is nothing to delete yet.
        """
        create, self._creating = self._creating, None
        if create is not None and create.is_done:
            self._owe_lost_create(self._create_session)
        node, self._node = self._node, None
        watch, self._watch = self._watch, None
        if node is None:
            return None
        if self._gone or node.session_id != self._client.session_id:
            # What is at that path now may be somebody else's.
            self._gone = False
            self._claims.tokens.discard(node.token)
            if watch is not None:
                watch.close()
            return None
        return self._delete(node, watch)

    def _delete(self, node: Node, watch: Watch | None) -> Departure:
        client = self._client
        delete = client.delete(node.path)
        if watch is not None:
            # It fires with the delete; only a failed one leaves it behind.
            delete.add_done_callback(watch.close)
        debt = partial(_delete_if_ours, client, node)
        over = partial(self._claims.tokens.discard, node.token)
        return Deletion(client, node.path, delete, debt, over)

    def unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


async def _pay(client: CoordinationClient, claims: Claims, node: Node) -> None:
    try:
        await _delete_if_ours(client, node)
    finally:
        claims.tokens.discard(node.token)


async def _delete_if_ours(client: CoordinationClient, node: Node) -> None:
    """Deletes a znode, over as many connections as it takes, while it is the one that we made.

    The delete whose answer was lost may have been applied, and the path be somebody else's by now.
    A server that is behind the last one may not know that yet, so it catches up first.

    Raises:
        AioleadError: it was refused.
    """

    async def delete() -> None:
        await catch_up(client, node.path)
        data, stat = await client.get(node.path)
        if stat.czxid != node.token:
            return
        # A delete that was held back may come between, and a create of our own. A delete goes by
        # name and version, and all new znodes have the same: so it gets another one first.
        stat = await client.set(node.path, data, version=stat.version)
        if stat.czxid == node.token:
            await client.delete(node.path, version=stat.version)

    await until_done(client, node.session_id, delete)
