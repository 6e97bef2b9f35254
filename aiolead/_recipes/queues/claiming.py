"""What every recipe has that hands out things under claims."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..._tasks import current_task_id
from ...abc import CoordinationClient
from ...model import ACL
from .._core.arguments import OnDisconnect, OnInvalid, checked_on_invalid
from .._core.holding_recipe import HoldingRecipe, TaskGuard
from .backlog import Backlog
from .claim import Claim
from .claimed import Claimed
from .naming import Naming

C = TypeVar("C", bound=Claimed)


class _NoGuard(TaskGuard):
    """A task may hold several items: none of them is one that it waits for."""

    def enter(self, user: object, *, forever: bool) -> int:
        return current_task_id()


class ClaimingRecipe(HoldingRecipe[C]):
    """A path with things that one consumer at a time holds under a claim."""

    _to_hold = "async with queue.get() as item:"

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        items: str,
        claims: str,
        naming: Naming,
        clock: Callable[[], float],
        on_invalid: OnInvalid | None,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._tasks = _NoGuard()
        self._backlog = Backlog(
            self._client,
            items,
            claims,
            naming,
            clock=clock,
            on_invalid=checked_on_invalid(on_invalid),
            acl=self._acl,
        )

    def _candidate(self) -> Claim:
        return Claim(self._client, self._backlog, self._data, self._decode)

    @staticmethod
    @abstractmethod
    def _decode(body: bytes) -> tuple[bytes, ...]:
        """The parts of what is claimed; raises ValueError for what makes no sense."""
