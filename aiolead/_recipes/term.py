"""A term: the tenure of an election, which others may ask to end, and which it hands over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ..errors import LeadershipLost, LossReason
from ..model import Participant
from .hand_over import PATIENCE, HandOver
from .hold import Place, Tenure

if TYPE_CHECKING:
    from .contender_queue import ContenderQueue
    from .holding import Contest


class Term(Tenure):
    """One unbroken time of leadership.

    If `revoke` asks for it, and the election has `on_revocation="resign"`, the body is cancelled.
    From then on `check()` raises, and `loss` is `LossReason.REVOKED`. The term is held, and its
    lease renewed, until the body has ended.
    """

    __slots__ = ("_grace", "_grace_period", "_is_revoked", "_queue")

    _lost_error = LeadershipLost

    def __init__(
        self,
        contest: Contest[Any],
        place: Place,
        on_lost: Callable[[], object],
        on_released: Callable[[], object] | None = None,
        *,
        queue: ContenderQueue,
        revocation_grace: float | None = None,
    ) -> None:
        self._queue = queue
        self._grace = revocation_grace
        """Seconds from a request until the body must end; None if the body decides."""
        self._grace_period: anyio.CancelScope | None = None
        self._is_revoked = False
        super().__init__(contest, place, on_lost, on_released)
        if self._is_asked_for:
            self._begin_grace()

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and after a release.

        By the clock, as for every `Tenure`. `REVOKED` once its body must end: it is held until the
        body has ended.
        """
        loss = super().loss
        return LossReason.REVOKED if loss is None and self._is_revoked else loss

    def check(self) -> None:
        """Return if it is held now, by the clock, and the body need not end. Sends nothing.

        As `Tenure.check`, and also raises `LeadershipLost` (`LossReason.REVOKED`) once a revocation
        has cancelled the body, as no cancellation reaches threads.
        """
        super().check()
        if self._is_revoked:
            raise self._error()

    def _ask_for(self) -> None:
        super()._ask_for()
        self._begin_grace()

    def _begin_grace(self) -> None:
        if self._grace is None:
            return
        if self._grace:
            self._client.backend.spawn(self._wait_for_body)
        else:
            self._end_body()

    async def _wait_for_body(self) -> None:
        with anyio.CancelScope() as self._grace_period:
            await anyio.sleep(self._grace or 0.0)
            self._end_body()

    def _end_body(self) -> None:
        """Cancel the body, which has not ended by itself. The hold goes on until it has ended."""
        if self._loss is None and self._lasted is None and not self._has_left:
            self._is_revoked = True
            self._on_lost()
            self._call_lost_callbacks()

    def _why_ended(self) -> Exception | None:
        return super()._why_ended() or (self._error() if self._is_revoked else None)

    def _has_ended(self) -> None:
        super()._has_ended()
        if self._grace_period is not None:
            self._grace_period.cancel()

    @property
    def _given_up_as(self) -> str:
        return "revoked" if self._is_revoked else super()._given_up_as

    async def resign(self) -> None:
        """Resign: `release`, by its name for leadership."""
        await self.release()

    async def prepare_hand_over(
        self, to: str | None = None, *, timeout: float | None = PATIENCE
    ) -> Participant:
        """Wait until a successor is the next in the queue, and ready; return it. Leads on.

        Stop the work then, and resign. If the successor dies before it leads, the next contender
        of the queue leads.

        Args:
            to: the successor's identity. The waiters before it are asked to step behind, and join
                the queue again at its end; those of other libraries stay. It need not wait yet.
                If it goes, the first one that waits is the successor. So it is for None, the
                default. With priorities, that is the best one, and a successor that is not the best
                one is waited for until it is.
            timeout: how long to wait, in seconds, 20 by default. None waits forever.

        Raises:
            HandOverTimeout: no successor was ready in time; says what it waited for.
            LeadershipLost: the term was lost, or is being revoked, meanwhile.
            UsageError: it was resigned.
            ServerError: the servers' answer to a read or a request, such as `NoAuthError`.

        Cancellation: the term goes on. On connection loss: goes on as long as the lease lasts.
        """
        self._client.backend.check_home()
        hand_over = HandOver.to(self._queue, to, self.check)
        self.add_lost_callback(hand_over.look_again)
        return (await hand_over.prepared(timeout)).successor

    async def hand_over(
        self, to: str | None = None, *, timeout: float | None = PATIENCE
    ) -> Participant:
        """Resign once a successor is the next in the queue, and ready; return it.

        As `prepare_hand_over`, and `resign`: the body goes on, but holds nothing any more. So stop
        the work first, or use the two, and stop it in between.

        Raises what these two raise. If it raises `HandOverTimeout`, the term goes on.

        Cancellation: the term goes on, unless it was resigned by then.
        """
        successor = await self.prepare_hand_over(to, timeout=timeout)
        await self.release()
        return successor
