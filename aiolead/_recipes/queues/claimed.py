"""What is held: something under a claim, given back unless it is done with.

To be done with it is one transaction: that the claim is there, what is to be written besides, and
the deletes of the thing and of the claim. So it happens once at most, and only to whom holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import anyio.lowlevel

from ...abc import Reply, Transaction
from ...errors import (
    AioleadError,
    ClaimLost,
    Fenced,
    LossReason,
    NoNodeError,
    SessionError,
    TransactionError,
    UsageError,
)
from .._core.catching_up import catch_up
from .._core.error_policy import Action, Step, action_for, before_next_try, may_be_applied
from .._core.tenure import Tenure
from .claim import Claim

_DELETES = 2
"""How a transaction ends that is done with something: with so many deletes."""


class Claimed(Tenure):
    """One unbroken time of holding a claim on something."""

    _lost_error = ClaimLost

    _is_done = False
    _is_finishing = False
    _was_unanswered = False
    _was_deleted = False
    _in_flight: Reply[object] | None = None

    @property
    def name(self) -> str:
        """What it is called on the servers: the last part of its path, and of its claim's."""
        return self.path.rpartition("/")[2]

    @property
    def _claim(self) -> Claim:
        return cast(Claim, self._candidate)

    def check(self) -> None:
        if self._is_done:
            raise UsageError(f"{self.name} of {self._what} is done with")
        super().check()

    # --- being done with it ----------------------------------------------------------------------

    async def _finish(self, add: Callable[[Transaction], object]) -> None:
        """Deletes the thing and its claim, together with what is to be written besides.

        Returns when the servers have confirmed it; then nothing is held any more, while the body
        goes on. Done once, it does nothing.

        Args:
            add: adds what is to be written besides to a transaction; called for each try.

        Raises:
            ClaimLost: the claim is lost, or the thing was deleted by others.
            UsageError: it was given up, or somebody is at it already.
            ServerError: what the server says to that which is written besides; nothing was applied.

        Cancellation: abandons the answer. It may be applied or not.

        On connection loss: looks whether it was applied, and tries again if it was not.
        """
        if self._is_done:
            await anyio.lowlevel.checkpoint()
            return
        self.check()
        if self._is_finishing:
            raise UsageError(f"{self.name} of {self._what}: another task is at its end already")
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
        transaction.delete(self._claim.item).delete(self.path)
        reply: Reply[object] = transaction.commit()
        self._in_flight = reply
        reply.add_done_callback(lambda: self._answered(reply))
        try:
            await reply
        except Fenced:
            # Maybe by a try of ours whose answer was lost.
            if self._was_unanswered and await self._was_applied():
                self._done()
            else:
                self._hold.lose(LossReason.DELETED)
        except TransactionError as error:
            is_besides = error.index < len(error.results) - _DELETES
            if is_besides or not isinstance(error.cause, NoNodeError):
                raise error.cause from None
            # What we have the claim on was deleted by hand; the claim is still there.
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
        """Whether a try whose answer was lost has been applied; False once the session is over."""
        client = self._client
        while True:
            try:
                await client.ready()
                if client.session_id != self.session_id:
                    return False
                await catch_up(client, self._claim.backlog.items)
                thing, claim = client.exists(self._claim.item), client.exists(self.path)
                there, claimed = await thing, await claim
            except SessionError:
                return False
            except AioleadError as error:
                await before_next_try(client, error, Step.ACQUIRE)
                continue
            ours = claimed is not None and claimed.ephemeral_owner == self.session_id
            return there is None and not ours

    def _answered(self, reply: Reply[object]) -> None:
        """The answer is there: in the client's task, whatever has become of who has asked."""
        if self._in_flight is reply:
            self._in_flight = None
        if reply.error() is None:
            self._done()
        else:
            self._settle()

    def _done(self) -> None:
        if not self._is_done:
            self._is_done = self._resigned = True
            self._claim.done()
            self._hold.release()
            self._claim.discard()

    @property
    def _given_up_as(self) -> str:
        return "done" if self._is_done else super()._given_up_as

    # --- losing it -------------------------------------------------------------------------------

    def _lose(self, reason: LossReason) -> None:
        # While we are about to delete the claim ourselves its deletion is no loss, but if it turns
        # out that it was not us.
        if reason is LossReason.DELETED and (self._is_finishing or self._in_flight is not None):
            self._was_deleted = True
        else:
            super()._lose(reason)

    def _settle(self) -> None:
        """A deletion of our claim that may have been by us: was it?"""
        if self._was_deleted and not self._is_finishing and self._in_flight is None:
            self._was_deleted = False
            if not self._is_done:
                super()._lose(LossReason.DELETED)

    async def _confirmed(self) -> None:
        await super()._confirmed()
        if self._is_done and self._loss is LossReason.DELETED:
            self._loss = None  # our own doing: the answer came as the body had ended


class QueueItem(Claimed):
    """An item of a queue, which is ours for as long as the body lasts.

    It is given back when the body ends, or the claim on it is lost, unless it was acknowledged
    before that. Beside what follows, it has what every tenure has: `token`, `check()`, `fenced()`
    and so on.
    """

    @property
    def parts(self) -> tuple[bytes, ...]:
        """What the item holds: one part, unless Curator's `putMulti` has put it."""
        return self._claim.parts

    @property
    def data(self) -> bytes:
        """What was put.

        Raises:
            UsageError: it holds several parts, or none: see `parts`.
        """
        parts = self.parts
        if len(parts) != 1:
            raise UsageError(f"{self.name} of {self._what} has {len(parts)} parts: use item.parts")
        return parts[0]

    async def ack(self) -> None:
        """Takes the item out of the queue, for good.

        Returns when the servers have confirmed it: nobody gets it any more. After that nothing is
        held, while the body goes on. To do it again does nothing.

        Raises:
            ClaimLost: the claim was lost, or the item was deleted by others.
            UsageError: the item was given back, or another task is acknowledging it.

        Cancellation: it may be acknowledged or not; leaving the body gives it back if it is not.

        On connection loss: looks whether it was acknowledged, and tries again if it was not. If the
        session ends before that is known the claim is lost, and somebody else may get the item.
        """
        await self._finish(lambda _: None)
