"""Items held under a claim, until they are released or finished.

Finishing is one transaction: it checks the claim, writes the results, and deletes item and claim.
So an item is finished at most once, and only by its holder.

No server deletes an item that others have put znodes below. Then the transaction replaces the claim
by a persistent znode of the same name, with data that only this claim has. So no consumer gets the
item again, of this library or of Curator, also after this session has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import anyio
import anyio.lowlevel

from ...abc import Reply, Transaction
from ...errors import (
    AioleadError,
    ClaimLost,
    Fenced,
    LossReason,
    NoNodeError,
    NotEmptyError,
    SessionError,
    TransactionError,
    UsageError,
)
from .._core.error_policy import Action, Step, action_for, before_next_try, may_be_applied
from .._core.reading import caught_up, read_data
from .._core.reporting import PathWarnings
from .._core.tenure import Tenure
from .claim import ItemClaim

_LAST = 2
"""How many operations end the transaction, behind the results."""


class Claimed(Tenure):
    """An item held under a claim: a `QueueItem`, or a `Task`."""

    _lost_error = ClaimLost

    _is_done = False
    _is_finishing = False
    _was_unanswered = False
    _was_deleted = False
    _has_children = False
    """Whether others have put znodes below the item."""
    _in_flight: Reply[object] | None = None

    @property
    def name(self) -> str:
        """The name of the item, and of its claim, on the servers."""
        return self.path.rpartition("/")[2]

    @property
    def _claim(self) -> ItemClaim:
        return cast(ItemClaim, self._acquirable)

    def check(self) -> None:
        if self._is_done:
            raise UsageError(f"{self.name} of {self._what} is done with")
        super().check()

    # --- doing it --------------------------------------------------------------------------------

    async def _finish(self, add: Callable[[Transaction], object]) -> None:
        """Write results, and delete the item and its claim, in one transaction.

        `add` adds the results, once per try; a `ServerError` means that they were refused and
        nothing was applied. Otherwise as `QueueItem.ack`.
        """
        self._client.backend.check_home()
        if self._is_done:
            await anyio.lowlevel.checkpoint()
            return
        self.check()
        if self._is_finishing:
            raise UsageError(f"{self.name} of {self._what}: another task is finishing it")
        self._is_finishing = True
        try:
            while not self._is_done:
                await self._try_to_finish(add)
        finally:
            self._is_finishing = False
            self._settle()

    async def _try_to_finish(self, add: Callable[[Transaction], object]) -> None:
        transaction = self.fenced().transaction()
        add(transaction)
        if self._has_children:
            transaction.delete(self.path).create(self.path, self._mark, acl=self._contest.acl)
        else:
            transaction.delete(self._claim.item).delete(self.path)
        reply: Reply[object] = transaction.commit()
        self._in_flight = reply
        reply.add_done_callback(lambda: self._answered(reply))
        try:
            await reply
        except Fenced:
            # Perhaps by an earlier try of ours whose answer was lost.
            if self._was_unanswered and await self._was_applied():
                self._done()
            else:
                self._hold.lose(LossReason.DELETED)
        except TransactionError as error:
            is_result = error.index < len(error.results) - _LAST
            if not is_result and isinstance(error.cause, NotEmptyError):
                self._has_children = True
                return
            if is_result or not isinstance(error.cause, NoNodeError):
                raise error.cause from None
            # The item was deleted by hand; the claim still exists.
            self._was_deleted = True
        except AioleadError as error:
            if action_for(error, Step.ACQUIRE) not in (Action.RECONNECT, Action.PAUSE):
                raise
            if may_be_applied(error):
                self._was_unanswered = True
                if await self._was_applied():
                    self._done()
            if not self._is_done:
                await before_next_try(self._client, error, Step.ACQUIRE)
        if not self._is_done:
            self._is_finishing = False
            self._settle()
            self.check()
            self._is_finishing = True

    async def _was_applied(self) -> bool:
        """Whether a try whose answer was lost was applied; False once the session is over."""
        client = self._client

        async def read() -> bool:
            if client.session_id != self.session_id:
                return False
            item, claim = client.exists(self._claim.item), client.exists(self.path)
            there, claimed = await item, await claim
            if claimed is not None and claimed.ephemeral_owner == self.session_id:
                return False
            if there is not None and self._has_children:
                mark, _ = await read_data(client, self.path)
                return mark == self._mark
            return there is None

        try:
            return await caught_up(client, self._claim.available.items_path, read)
        except SessionError:
            return False

    @property
    def _mark(self) -> bytes:
        """The data of the znode that replaces this claim."""
        session_id = self.session_id & (1 << 64) - 1
        return b"finished by %016x with token %d" % (session_id, self.token)

    def _answered(self, reply: Reply[object]) -> None:
        """Process an answer in the client's task, even if nobody awaits it any more."""
        if self._in_flight is reply:
            self._in_flight = None
        if reply.error() is None:
            self._done()
        else:
            self._settle()

    def _done(self) -> None:
        if not self._is_done:
            self._is_done = self._released = True
            if self._has_children:
                self._warn_of_children()
            self._claim.done()
            self._hold.release()
            self._claim.discard()

    def _warn_of_children(self) -> None:
        available = self._claim.available
        self._client.backend.shared(available.items_path, PathWarnings).warn_of_children(
            self._claim.item,
            f"The item is finished, and no consumer gets it: delete it, and then {self.path}",
        )

    @property
    def _given_up_as(self) -> str:
        return "done" if self._is_done else super()._given_up_as

    # --- losing it -------------------------------------------------------------------------------

    def _lose(self, reason: LossReason) -> None:
        # While our own delete is under way, the deletion is a loss only if others did it.
        if reason is LossReason.DELETED and (self._is_finishing or self._in_flight is not None):
            self._was_deleted = True
        else:
            super()._lose(reason)

    def _settle(self) -> None:
        """Report the deletion of our claim as a loss, once it is known that others did it."""
        if self._was_deleted and not self._is_finishing and self._in_flight is None:
            self._was_deleted = False
            if not self._is_done:
                super()._lose(LossReason.DELETED)

    async def _confirmed(self, scope: anyio.CancelScope | None = None) -> None:
        await super()._confirmed(scope)
        if self._is_done and self._loss is LossReason.DELETED:
            self._loss = None  # we deleted it: the answer came after the body had ended


class QueueItem(Claimed):
    """An item of a queue, held for the body of an `async with`.

    It is released when the body ends or the claim is lost, unless it was acknowledged. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts of the item: one, unless Curator's `putMulti` wrote it."""
        return self._claim.parts

    @property
    def data(self) -> bytes:
        """The data of the item; raises `UsageError` unless it has exactly one part (`parts`)."""
        parts = self.parts
        if len(parts) != 1:
            raise UsageError(f"{self.name} of {self._what} has {len(parts)} parts: use item.parts")
        return parts[0]

    async def ack(self) -> None:
        """Acknowledge the item: delete it from the queue.

        Returns once the servers have confirmed: no consumer gets the item any more. The body goes
        on, but holds nothing. Further calls have no effect.

        If others have put znodes below the item, the servers cannot delete it. Then it stays,
        behind a persistent claim by which no consumer gets it again. A line at WARNING names both
        znodes.

        Raises:
            ClaimLost: the claim was lost, or others deleted the item.
            UsageError: the item was released, or another task is acknowledging it.

        Cancellation: the item may or may not be acknowledged; if not, leaving the body releases it.

        On connection loss: checks whether the item was acknowledged, and retries if not. If the
        session ends first, the claim is lost, and another consumer may get the item.
        """
        await self._finish(lambda _: None)
