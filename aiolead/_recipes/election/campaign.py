"""Contending in the background, with a view of the states."""

from __future__ import annotations

import enum
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import anyio

from ...errors import AioleadError, LossReason, ReleaseError
from ...model import SessionState
from .._core.acquire import Acquirable
from .._core.error_policy import log_refusal
from .._core.observation import plain
from .._core.observe import LatestValue
from .._core.tenure import Term
from ..contention.contender import Contender

if TYPE_CHECKING:
    from ..contest import Contest


class Phase(enum.Enum):
    """The phase of a campaign."""

    FOLLOWING = "following"
    """In the queue, or about to join it."""
    LEADING = "leading"
    SUSPENDED = "suspended"
    """Still leading, but the connection is lost: `LEADING`, `LOST` or `RESIGNED` follows."""
    LOST = "lost"
    """The term was lost. `FOLLOWING` comes next."""
    RESIGNED = "resigned"
    """The term was released with `term.resign()`. The last state."""


TRANSITIONS: dict[Phase, tuple[Phase, ...]] = {
    Phase.FOLLOWING: (Phase.FOLLOWING, Phase.LEADING),  # with another rank
    Phase.LEADING: (Phase.SUSPENDED, Phase.LOST, Phase.RESIGNED),
    Phase.SUSPENDED: (Phase.LEADING, Phase.LOST, Phase.RESIGNED),
    Phase.LOST: (Phase.FOLLOWING,),
    Phase.RESIGNED: (),
}


@dataclass(frozen=True, slots=True)
class CampaignState:
    """A state of a campaign.

    Attributes:
        phase: the phase.
        session_id: the session.
        term: the term; None while following.
        reason: why a lost term was lost; else None.
        rank: how many contenders have to leave before this one leads; None while unknown.
    """

    phase: Phase
    session_id: int
    term: Term | None = None
    reason: LossReason | None = None
    rank: int | None = None

    @property
    def is_next(self) -> bool:
        """Whether this contender leads as soon as one before it leaves."""
        return self.rank == 1

    @property
    def token(self) -> int | None:
        """The fencing token of the term; None while following."""
        return None if self.term is None else self.term.token


@final
class Campaign(LatestValue[CampaignState]):
    """A view of a campaign's states: `async with election.campaign() as view`.

    FOLLOWING, then LEADING (with the term), then SUSPENDED and LEADING as the connection comes and
    goes, then LOST (with the reason) and FOLLOWING again, or RESIGNED after `term.resign()`. The
    latest state wins: a slow reader may skip states, but sees by the term's token that it is
    another term. Each iteration begins with the present state.

    A standby may warm up when its `rank` is 1; a leader's is 0. The first two waiters watch all
    before them, so their rank is exact. Those further back watch their nearest neighbours only, to
    avoid the herd effect: their rank is that of their last listing, and may be less by now.

    Leaving the context manager resigns, or leaves the queue.

    Raises (from the iteration):
        MixedLayoutError: a neighbour in the queue and we would not exclude each other.
        SequenceExhaustedError: the path has no more numbers.
        ServerError: the server's answer to the create, such as `NoAuthError`.
        SessionError: the client was closed, or its credentials were refused.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete the znode, and the body ended normally.
    """

    def __init__(self, contest: Contest[Term]) -> None:
        super().__init__(contest.client)
        self._contest = contest
        self._changed = anyio.Event()
        self._refusal: ReleaseError | None = None
        self._has_left = False

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(exc_type, exc, traceback)
        self._has_left = True
        refusal, self._refusal = self._refusal, None
        if refusal is None or refusal is exc:
            return
        if exc is None:
            raise refusal
        log_refusal(refusal)

    def _end(self, error: AioleadError | None) -> None:
        if isinstance(error, ReleaseError):
            if self._has_left:
                log_refusal(error)
            else:
                self._refusal = error
        super()._end(error)

    async def _run(self) -> None:
        while await self._one_term():
            pass

    async def _one_term(self) -> bool:
        """Contend for one term and follow it; return False if it was resigned."""
        client = self._client
        self._move(CampaignState(Phase.FOLLOWING, client.session_id))
        self._changed = anyio.Event()
        term = await self._contest.contend(self._wait, self._on_change, self._on_change)
        assert term is not None
        unsubscribe = client.backend.subscribe(lambda _state, _session_id: self._on_change())
        try:
            # A term always begins with LEADING, even if the connection is lost by now.
            self._move(CampaignState(Phase.LEADING, term.session_id, term, rank=0))
            await self._follow(term)
        finally:
            unsubscribe()
            try:
                if term.is_released:
                    await term._confirmed()
                else:
                    await term._release()
            finally:
                term._has_ended()
            term._report_refusal(None)  # raised on leaving the campaign
        return not term.is_released

    def _wait(self, acquirable: Acquirable) -> Coroutine[Any, Any, bool]:
        if isinstance(acquirable, Contender):
            acquirable.when_ranked(self._on_rank)
        return acquirable.acquire()

    async def _follow(self, term: Term) -> None:
        session_id = term.session_id
        while True:
            if term.is_released:
                self._move(CampaignState(Phase.RESIGNED, session_id, term))
                return
            if term.loss is not None:
                self._move(CampaignState(Phase.LOST, session_id, term, term.loss))
                return
            connected = self._client.state is SessionState.CONNECTED
            phase = Phase.LEADING if connected else Phase.SUSPENDED
            self._move(CampaignState(phase, session_id, term, rank=0))
            self._changed = anyio.Event()
            await self._changed.wait()

    def _on_rank(self, rank: int | None) -> None:
        self._move(CampaignState(Phase.FOLLOWING, self._client.session_id, rank=rank))

    def _on_change(self) -> None:
        self._changed.set()

    def _move(self, state: CampaignState) -> None:
        before = self._latest.value.phase if self._count else None
        if before is state.phase is not Phase.FOLLOWING:
            return
        if before is not None and state.phase not in TRANSITIONS[before]:
            raise RuntimeError(f"a campaign cannot go from {before.name} to {state.phase.name}")
        self._publish(plain(state))
