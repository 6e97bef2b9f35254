"""Acquiring a claim: the ephemeral znode that marks an item as taken.

One transaction checks the item and creates the claim; two reads follow in the same segment. So a
deleted item is never claimed, and one round trip brings the item.

The name of an item stays reserved until its claim is known to be gone, even if callers are
cancelled or connections lost: two consumers of one client never work under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from ...abc import CoordinationClient, Hold, Reply
from ...errors import NodeExistsError, NoNodeError, TransactionError
from ...model import Created, CreateMode, Stat
from ...paths import join
from .._core.acquire import NodeAcquirable
from .._core.ephemeral import EphemeralNode, Holder, HoldOptions, NodeGone, ZnodeState
from .._core.ephemeral_names import FixedNode
from .._core.error_policy import with_parent
from .._core.pending_delete import Departure
from .._core.znode_registry import RegisteredNode
from .available_items import AvailableItems

Decode = Callable[[bytes], tuple[bytes, ...]]
"""Splits the data of an item into parts; raises ValueError if they are invalid."""


class _ClaimNode(FixedNode):
    """The znode of a claim, created by a transaction that checks the item."""

    def __init__(
        self,
        client: CoordinationClient,
        available: AvailableItems,
        name: str,
        data: bytes,
        *,
        on_gone: Callable[[], object],
    ) -> None:
        path = join(available.claims_path, name)
        super().__init__(client, path, data, acl=available.acl, on_gone=on_gone, is_contended=True)
        self.path = path
        self.name = name
        self.item = join(available.items_path, name)

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        transaction = self._client.transaction().check(self.item)
        transaction.create(path, self._data, mode=mode, acl=self._acl)
        return cast("Reply[Created]", transaction.commit())

    def _claim_created(self, create: Reply[Any], session_id: int, since: int) -> RegisteredNode:
        # A transaction's answer has no czxid; the read behind it has (`shown`).
        self._uses += 1
        return RegisteredNode(self._path, 0, -since, session_id)

    def shown(self, stat: Stat | None) -> None:
        """Record the read that followed the create; raises `NodeGone` if the znode is not ours."""
        node = self.node
        if stat is None or not node.is_shown_by(stat):
            self.seen_gone()
            raise NodeGone
        self._own_znodes.claimed[stat.czxid] = None
        self._node = RegisteredNode(self._path, 0, stat.czxid, node.session_id)

    def look_behind_create(self, create: Reply[Any] | None) -> Reply[Stat | None]:
        """Read the znode behind its create, in one segment; `create` is None if there is one.

        If the znode existed before, it is ours if a create made it whose answer was lost.
        """
        look = self._client.exists(self._path)
        if create is not None:
            self._finding = look
            look.add_done_callback(partial(self._existing_answered, create, look))
        return look

    def _existing_answered(self, create: Reply[Any], look: Reply[Stat | None]) -> None:
        if self._finding is not look:
            return  # given up meanwhile
        self._finding, error = None, create.error()
        stat = None if look.error() else look.result()
        is_taken = isinstance(error, TransactionError) and isinstance(error.cause, NodeExistsError)
        if stat is not None and is_taken:
            is_ours = self._own_znodes.is_from_lost_create(self._client, self._full_path, stat)
            self._judge(stat, is_ours=is_ours)

    def _is_from_lost_create(self, data: bytes, stat: Stat) -> bool:
        is_being_claimed = self._creating is not None and not self._creating.is_done
        if is_being_claimed or (self._node is not None and self._node.token <= 0):
            return False  # it is the wanted one
        return super()._is_from_lost_create(data, stat)

    def end(self, give_back: Callable[[str], object]) -> Departure | None:
        """Delete the claim; once it is gone, call `give_back(name)`. Return the pending delete."""
        departure = self.discard()
        self.when_over(partial(give_back, self.name))
        return departure


class ItemClaim(NodeAcquirable):
    """One attempt to claim the first free item."""

    def __init__(
        self, client: CoordinationClient, available: AvailableItems, data: bytes, decode: Decode
    ) -> None:
        super().__init__(client, available.claims_path, data, available.acl)
        self.available = available
        self.parts: tuple[bytes, ...] = ()
        """Known once the item is claimed."""
        self._decode = decode
        self._own: _ClaimNode | None = None
        self._discarded = False
        self._looks = available.looks
        available.enter()

    @property
    def own(self) -> _ClaimNode:
        """Our znode; only while an item is reserved."""
        if self._own is None:
            raise AssertionError("nothing is claimed")
        return self._own

    @property
    def node(self) -> RegisteredNode:
        """Our registered znode; only once it is held."""
        return self.own.node

    @property
    def item(self) -> str:
        """The path of the reserved item."""
        return self.own.item

    def _znodes(self) -> Sequence[EphemeralNode]:
        return () if self._own is None else (self._own,)

    # --- claiming --------------------------------------------------------------------------------

    async def _try(self, *, waits: bool) -> bool:
        while not await self._claim_first():
            if not waits:
                return False
            self._is_new = False
            await self.available.wait()
        return True

    async def _claim_first(self) -> bool:
        """Claim the first free item; False if there is none."""
        available = self.available
        if self._own is not None and await self._claim(self._own):
            return True
        if available.names.is_strict and available.is_stale:
            await available.look()
        elif available.looks == self._looks and available.is_contended:
            await available.check_next()
        while True:
            name = available.pop()
            if name is None:
                if not available.is_stale:
                    return False
                await available.look()
                continue
            own = self._own = _ClaimNode(
                self._client, available, name, self._data, on_gone=self._rouse
            )
            if await self._claim(own):
                return True
            if available.looks == self._looks:
                # The list is old: its next item is probably gone as well.
                await available.check_next()

    async def _claim(self, own: _ClaimNode) -> bool:
        """Claim and read the reserved item; False if that is impossible."""
        available, mode = self.available, CreateMode.CONTAINER
        request = partial(self._request, own)
        claims = available.claims_path
        return await with_parent(self._client, claims, request, mode=mode, acl=available.acl)

    async def _request(self, own: _ClaimNode) -> bool:
        client, available = self._client, self.available
        is_there = await own.resolve()
        with client.pipelined():
            asked = None if is_there else own.create()
            look, read = own.look_behind_create(asked), client.get(own.item)
        if asked is not None:
            try:
                await asked
                self._is_new = True
            except TransactionError as error:
                is_path_missing = error.index == 1 and isinstance(error.cause, NoNodeError)
                is_taken = isinstance(error.cause, NodeExistsError)
                if is_path_missing or not isinstance(error.cause, (NodeExistsError, NoNodeError)):
                    raise error.cause from None
                if is_taken:
                    await look
                if own.state is ZnodeState.ABSENT:
                    available.taken(own.name)
                    self._end(available.gone)
                    return False
        own.shown(await look)
        try:
            body, of_item = await read
        except NoNodeError:
            self._end(available.free)  # somebody has deleted the item by hand
            return False
        if of_item.num_children:
            available.set_aside(own.name)
            self._end(available.free)
            return False
        try:
            self.parts = self._decode(body)
        except ValueError as error:
            available.invalid(own.name, of_item.version, error)
            self._end(available.free)
            return False
        return True

    def _start_again(self) -> None:
        self._end(self.available.free)

    def _leave_watches(self) -> None:
        """Nothing to close: the watches of `AvailableItems` are shared."""

    # --- holding, releasing ----------------------------------------------------------------------

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        return self.own.hold(holder, options)

    def done(self) -> None:
        """Our own transaction has deleted the item and our claim together."""
        if self._own is not None:
            self._own.seen_gone()
            self._end(self.available.gone)

    def discard(self) -> Departure | None:
        """Release the item, if any. Synchronous: the client deletes the claim in the background."""
        if not self._discarded:
            self._discarded = True
            self.available.leave()
        return self._end(self.available.free)

    def _end(self, give_back: Callable[[str], object]) -> Departure | None:
        own, self._own = self._own, None
        return None if own is None else own.end(give_back)
