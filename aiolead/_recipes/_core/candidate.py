"""What may come to hold something: the seam between a recipe's znodes and its tenures."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ...abc import Hold
from ...errors import LossReason
from .pending_delete import Departure
from .znode_registry import RegisteredNode


class Candidate(Protocol):
    """One try at holding something, with the znode that stands for it.

    Made for one acquisition, and for one tenure if that succeeds. Whatever is cancelled or cut
    when, `discard` is called in the end, once at least, and leaves nothing behind. `Contender` is
    the candidate of everything that queues.
    """

    @property
    def node(self) -> RegisteredNode:
        """The znode. Only once it is held."""
        ...

    def reach_front(self) -> Coroutine[Any, Any, bool]:
        """Waits until it may be held, with a lease that lasts for a while; gives True.

        No checkpoint between the decision that it may and the return. Survives lost connections and
        expired sessions. Cancellation: leaves the candidate as it is; `discard` it.
        """
        ...

    async def try_front(self) -> bool:
        """Says whether it may be held, without waiting for others."""
        ...

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, resigns: bool) -> Hold:
        """Registers it as held; to be called right after one of the above has given True.

        Args:
            lost: called once, synchronously, when the hold is over without our doing.
            urgent: whether the lease is renewed at once.
            resigns: whether a lost link ends the hold.
        """
        ...

    def discard(self) -> Departure | None:
        """Gives it up, held or not. Synchronous: the rest is the client's work.

        Returns:
            That our znode goes, to wait for; None if there is none to delete.
        """
        ...
