"""The life of one claim: the ephemeral znode that says who works on an item.

    (nothing) ──reserve──> asked for ──> ours ──discard, or done with──> (nothing)
                   │            └── taken, or the item is gone: the next item
                   └── nothing to claim: wait

To claim is one transaction, that the item exists and the claim does not, and two reads behind it,
all in one segment. So nobody claims what is gone, and one round trip brings the item.

The name of the item is given back to the backlog when the znode is known to be gone, whatever is
cancelled or cut when: no two consumers of a client ever work for the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from ...abc import CoordinationClient, Hold, Reply
from ...errors import (
    ConnectionLossError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    Outcome,
    TransactionError,
)
from ...model import Created, CreateMode, Stat
from ...paths import join
from .._core.acquire_loop import AcquireLoop
from .._core.ephemeral import EphemeralNode, NodeGone
from .._core.fixed import FixedNode
from .._core.pending_delete import Departure
from .._core.znode_registry import NodeRegistry, RegisteredNode
from .backlog import PATH_TRIES, Backlog

Decode = Callable[[bytes], tuple[bytes, ...]]
"""The parts of an item; raises ValueError for what is none."""


class _ClaimNode(FixedNode):
    """The znode of a claim, whose create is a transaction with a check of the item.

    The name is reserved for it: until it is known that no znode of ours is there, or may come.

    Args:
        client: the session.
        backlog: the items.
        name: of the item.
        data: what it holds.
        on_gone: called, synchronously, when somebody else has deleted it.
    """

    def __init__(
        self,
        client: CoordinationClient,
        backlog: Backlog,
        name: str,
        data: bytes,
        *,
        on_gone: Callable[[], object],
    ) -> None:
        registry = client.backend.shared(backlog.claims, NodeRegistry)
        path = join(backlog.claims, name)
        super().__init__(client, registry, path, data, acl=backlog.acl, on_gone=on_gone)
        self.name = name
        self.item = join(backlog.items, name)
        self._backlog = backlog

    @property
    def path(self) -> str:
        """Of the claim."""
        return self._path

    # --- creating --------------------------------------------------------------------------------

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        transaction = self._client.transaction().check(self.item)
        transaction.create(path, self._data, mode=mode, acl=self._acl)
        return cast("Reply[Created]", transaction.commit())

    def _claim_created(self, create: Reply[Any], session_id: int, since: int) -> RegisteredNode:
        # The answer to a transaction does not tell the czxid: the look behind it does.
        self._uses += 1
        return RegisteredNode(self._path, 0, -since, session_id)

    def shown(self, stat: Stat | None, sequence: int) -> None:
        """What the look behind the create has shown.

        Args:
            stat: of the znode at our path; None if there is none.
            sequence: the number of the item.

        Raises:
            NodeGone: it is not ours.
        """
        node = self.node
        if stat is None or not node.is_shown_by(stat):
            self.seen_gone()
            raise NodeGone
        self._registry.claim_czxid(self._path, stat.czxid)
        self._node = RegisteredNode(self._path, sequence, stat.czxid, node.session_id)

    def take_if_ours(self, stat: Stat | None) -> bool:
        """Takes the znode that is there for ours, if it is of a create whose answer was lost."""
        if stat is None or not self._registry.is_unclaimed(self._client, self._path, stat):
            return False
        self.take(Created(self._path, stat))
        return True

    async def _find(self, path: str) -> Created | None:
        found = await super()._find(path)
        is_being_claimed = self._creating is not None and not self._creating.is_done
        if is_being_claimed or (self._node is not None and self._node.token <= 0):
            return None  # it is the one that is wanted
        return found

    # --- the name --------------------------------------------------------------------------------

    def end(self, give_back: Callable[[str], object]) -> Departure | None:
        """Is wanted no more.

        Args:
            give_back: a method of the backlog that takes the name.

        Returns:
            That our znode goes; None if there is none to delete.
        """
        departure = self.discard()
        self.when_over(partial(give_back, self.name))
        return departure


class Claim(AcquireLoop):
    """One try at claiming an item: the first one that can be had. A `Candidate`.

    Args:
        client: the session.
        backlog: the items.
        data: what our znode holds.
        decode: makes parts of an item's bytes.
    """

    def __init__(
        self, client: CoordinationClient, backlog: Backlog, data: bytes, decode: Decode
    ) -> None:
        super().__init__(client)
        self.backlog = backlog
        self.parts: tuple[bytes, ...] = ()
        """The item's; only once it is ours."""
        self._data = data
        self._decode = decode
        self._own: _ClaimNode | None = None
        self._discarded = False
        self._looks = backlog.looks
        backlog.enter()

    @property
    def own(self) -> _ClaimNode:
        """Our znode, or what is reserved for it. Only while there is an item."""
        if self._own is None:
            raise AssertionError("nothing is claimed")
        return self._own

    @property
    def node(self) -> RegisteredNode:
        """Our znode. Only once it is held."""
        return self.own.node

    @property
    def item(self) -> str:
        """The path of the item. Only while there is one."""
        return self.own.item

    def _znodes(self) -> Sequence[EphemeralNode]:
        return () if self._own is None else (self._own,)

    # --- claiming --------------------------------------------------------------------------------

    async def _try(self, *, waits: bool) -> bool:
        while not await self._claim_present():
            if not waits:
                return False
            self._is_new = False
            await self.backlog.wait()
        return True

    async def _claim_present(self) -> bool:
        """Claims the first of the items that are there; False if none can be had."""
        backlog = self.backlog
        if self._own is not None and await self._claim(self._own):
            return True
        is_old = backlog.looks == self._looks
        if (is_old and backlog.is_contended) or (backlog.naming.is_strict and backlog.is_stale):
            await backlog.look()
        while True:
            name = backlog.pop()
            if name is None:
                if not backlog.is_stale:
                    return False
                await backlog.look()
                continue
            own = self._own = _ClaimNode(
                self._client, backlog, name, self._data, on_gone=self._rouse
            )
            if await self._claim(own):
                return True
            if backlog.looks == self._looks:
                # By an old list: what comes next on it is probably gone as well.
                await backlog.look()

    async def _claim(self, own: _ClaimNode) -> bool:
        """Claims the item that is reserved for us, and reads it; False if it is not to be had."""
        client, backlog = self._client, self.backlog
        key = backlog.naming.key(own.name)
        assert key is not None
        for _ in range(PATH_TRIES):
            asked = None if await own.resolve() else own.create()
            look, read = client.exists(own.path), client.get(own.item)
            if asked is not None:
                try:
                    await asked
                    self._is_new = True
                except TransactionError as error:
                    if _is_parent_missing(error):
                        await backlog.make_claims()
                        continue
                    is_taken = isinstance(error.cause, NodeExistsError)
                    if not is_taken and not isinstance(error.cause, NoNodeError):
                        raise error.cause from None
                    if not is_taken or not own.take_if_ours(await look):
                        self._end(backlog.taken)
                        return False
            own.shown(await look, key[1])
            try:
                body, of_item = await read
            except NoNodeError:
                self._end(backlog.free)  # somebody has deleted the item by hand
                return False
            try:
                self.parts = self._decode(body)
            except ValueError as error:
                backlog.invalid(own.name, of_item.version, error)
                self._end(backlog.free)
                return False
            return True
        raise ConnectionLossError(
            f"{backlog.claims} is deleted as soon as it is made",
            outcome=Outcome.NOT_APPLIED,
        )

    def _start_again(self) -> None:
        self._end(self.backlog.free)

    def _leave_watches(self) -> None:
        """There are none: those of the backlog are shared."""

    # --- holding ---------------------------------------------------------------------------------

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, resigns: bool) -> Hold:
        return self.own.hold(lost, urgent=urgent, resigns=resigns)

    # --- ending ----------------------------------------------------------------------------------

    def done(self) -> None:
        """The item and our claim are gone together, by our own transaction."""
        if self._own is not None:
            self._own.seen_gone()
            self._end(self.backlog.vanished)

    def discard(self) -> Departure | None:
        """Gives the item back, if it is ours. Synchronous: the rest is the client's work."""
        if not self._discarded:
            self._discarded = True
            self.backlog.leave()
        return self._end(self.backlog.free)

    def _end(self, give_back: Callable[[str], object]) -> Departure | None:
        own, self._own = self._own, None
        return None if own is None else own.end(give_back)


def _is_parent_missing(error: TransactionError) -> bool:
    return error.index == 1 and isinstance(error.cause, NoNodeError)
