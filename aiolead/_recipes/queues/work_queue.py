"""The base of recipes that hand out items under claims: queues, and the task board."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..._tasks import current_task_id
from ...abc import CoordinationClient
from ...model import ACL
from .._core.arguments import OnDisconnect, OnInvalid, checked_on_invalid
from .._core.holding_recipe import HoldingRecipe, TaskGuard
from .available_items import AvailableItems
from .claim import ItemClaim
from .claimed import Claimed
from .consumption import Consumption
from .item_names import ItemNames
from .producer import ItemProducer

C = TypeVar("C", bound=Claimed)


class _NoGuard(TaskGuard):
    """A task may hold several items: it never waits for one of its own."""

    def enter(self, user: object, *, forever: bool) -> int:
        return current_task_id()


class WorkQueue(HoldingRecipe[C]):
    """A path of items, each held by one consumer at a time under a claim."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        names: ItemNames,
        *,
        items: str,
        claims: str,
        most: int,
        clock: Callable[[], float],
        on_invalid: OnInvalid | None,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._tasks = _NoGuard()
        self._available = AvailableItems(
            self._client,
            items,
            claims,
            names,
            clock=clock,
            on_invalid=checked_on_invalid(on_invalid),
            acl=acl,
        )
        self._producer = ItemProducer(self._client, items, most, acl)

    def _acquirable(self) -> ItemClaim:
        return ItemClaim(self._client, self._available, self._data, self._decode)

    @staticmethod
    @abstractmethod
    def _decode(body: bytes) -> tuple[bytes, ...]:
        """The parts of a claimed item; raises ValueError if it is invalid."""

    def consume(self) -> Consumption[C]:
        """Claim items one after the other, as an async iterator: see `Consumption`."""
        return Consumption(self)
