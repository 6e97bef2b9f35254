"""The acquisition of a claim: the ephemeral znode that says who works on an item.

Claiming is one transaction (the item exists, the claim does not) and two reads behind it, all in
one segment. So nobody claims an item that is gone, and one round trip brings the item.

The name of an item stays reserved until its claim is known to be gone, whatever is cancelled or
cut: no two consumers of a client ever work for the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack, cast

from ...abc import CoordinationClient, Hold, Reply
from ...errors import LossReason, NodeExistsError, NoNodeError, TransactionError
from ...model import Created, CreateMode, Stat
from ...paths import join
from .._core.acquire import NodeAcquirable
from .._core.ephemeral import EphemeralNode, HoldOptions, NodeGone
from .._core.fixed import FixedNode
from .._core.parents import with_parent
from .._core.pending_delete import Departure
from .._core.znode_registry import NodeRegistry, RegisteredNode
from .available_items import AvailableItems

Decode = Callable[[bytes], tuple[bytes, ...]]
"""Makes the parts of an item of its data; raises ValueError if they are invalid."""


class _ClaimNode(FixedNode):
    """The znode of a claim, which a transaction with a check of the item creates."""

    def __init__(
        self,
        client: CoordinationClient,
        available: AvailableItems,
        name: str,
        data: bytes,
        *,
        on_gone: Callable[[], object],
    ) -> None:
        registry = client.backend.shared(available.claims_path, NodeRegistry)
        path = join(available.claims_path, name)
        super().__init__(client, registry, path, data, acl=available.acl, on_gone=on_gone)
        self.path = path
        self.name = name
        self.item = join(available.items_path, name)

    def _send_create(self, path: str, mode: CreateMode) -> Reply[Created]:
        transaction = self._client.transaction().check(self.item)
        transaction.create(path, self._data, mode=mode, acl=self._acl)
        return cast("Reply[Created]", transaction.commit())

    def _claim_created(self, create: Reply[Any], session_id: int, since: int) -> RegisteredNode:
        # The answer to a transaction does not contain the czxid; the look behind it does.
        self._uses += 1
        return RegisteredNode(self._path, 0, -since, session_id)

    def shown(self, stat: Stat | None, sequence: int) -> None:
        """Record what the look behind the create has shown.

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
        """Take the znode that exists if it is of a create of ours whose answer was lost."""
        if stat is None or not self._registry.is_unclaimed(self._client, self._path, stat):
            return False
        self.take(Created(self._path, stat))
        return True

    async def _find(self, path: str) -> Created | None:
        found = await super()._find(path)
        is_being_claimed = self._creating is not None and not self._creating.is_done
        if is_being_claimed or (self._node is not None and self._node.token <= 0):
            return None  # it is the wanted one
        return found

    def end(self, give_back: Callable[[str], object]) -> Departure | None:
        """Delete it, and give its name back once it is gone.

        Args:
            give_back: the method of `AvailableItems` that takes the name.

        Returns:
            The pending delete; None if there is nothing to delete.
        """
        departure = self.discard()
        self.when_over(partial(give_back, self.name))
        return departure


class ItemClaim(NodeAcquirable):
    """One try at claiming an item: the first one that is free."""

    def __init__(
        self, client: CoordinationClient, available: AvailableItems, data: bytes, decode: Decode
    ) -> None:
        super().__init__(client)
        self.available = available
        self.parts: tuple[bytes, ...] = ()
        """The item's; only once it is claimed."""
        self._data = data
        self._decode = decode
        self._own: _ClaimNode | None = None
        self._discarded = False
        self._looks = available.looks
        available.enter()

    @property
    def own(self) -> _ClaimNode:
        """Our znode. Only while an item is reserved."""
        if self._own is None:
            raise AssertionError("nothing is claimed")
        return self._own

    @property
    def node(self) -> RegisteredNode:
        """Our znode, as it is registered. Only once it is held."""
        return self.own.node

    @property
    def item(self) -> str:
        """The path of the item. Only while one is reserved."""
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
        """Claim the first item that is free; False if there is none."""
        available = self.available
        if self._own is not None and await self._claim(self._own):
            return True
        is_old = available.looks == self._looks and available.is_contended
        if is_old or (available.names.is_strict and available.is_stale):
            await available.look()
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
                await available.look()

    async def _claim(self, own: _ClaimNode) -> bool:
        """Claim and read the item that is reserved; False if it is not to be had."""
        available, mode = self.available, CreateMode.CONTAINER
        request = partial(self._request, own)
        claims = available.claims_path
        return await with_parent(self._client, claims, request, mode=mode, acl=available.acl)

    async def _request(self, own: _ClaimNode) -> bool:
        client, available = self._client, self.available
        key = available.names.key(own.name)
        assert key is not None
        asked = None if await own.resolve() else own.create()
        look, read = client.exists(own.path), client.get(own.item)
        if asked is not None:
            try:
                await asked
                self._is_new = True
            except TransactionError as error:
                is_path_missing = error.index == 1 and isinstance(error.cause, NoNodeError)
                is_taken = isinstance(error.cause, NodeExistsError)
                if is_path_missing or not isinstance(error.cause, (NodeExistsError, NoNodeError)):
                    raise error.cause from None
                if not is_taken or not own.take_if_ours(await look):
                    self._end(available.taken)
                    return False
        own.shown(await look, key[1])
        try:
            body, of_item = await read
        except NoNodeError:
            self._end(available.free)  # somebody has deleted the item by hand
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
        """There are none: those of `AvailableItems` are shared."""

    # --- holding, releasing ----------------------------------------------------------------------

    def hold(self, lost: Callable[[LossReason], object], **options: Unpack[HoldOptions]) -> Hold:
        return self.own.hold(lost, **options)

    def done(self) -> None:
        """The item and our claim are gone together, by our own transaction."""
        if self._own is not None:
            self._own.seen_gone()
            self._end(self.available.vanished)

    def discard(self) -> Departure | None:
        """Release the item, if we have one. Synchronous: the rest is the client's work."""
        if not self._discarded:
            self._discarded = True
            self.available.leave()
        return self._end(self.available.free)

    def _end(self, give_back: Callable[[str], object]) -> Departure | None:
        own, self._own = self._own, None
        return None if own is None else own.end(give_back)
