"""A campaign: contending in the background, and a view of its states."""

from __future__ import annotations

import enum
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import anyio

from ...abc import CoordinationClient
from ...errors import AioleadError, LossReason, ReleaseError
from ...model import SessionState
from .._core.acquire import Acquirable
from .._core.error_policy import log_refusal
from .._core.observe import LatestValue
from .._core.tenure import Term
from ..contention.contender import Contender

if TYPE_CHECKING:
    from .._core.holding_recipe import HoldingRecipe


class Phase(enum.Enum):
    """Where a campaign stands."""

    FOLLOWING = "following"
    """In the queue, or on the way there."""
    LEADING = "leading"
    SUSPENDED = "suspended"
    """Leading still, but the connection is lost: `LEADING` or `LOST` follows."""
    LOST = "lost"
    """The term ended against our will. `FOLLOWING` comes next."""
    RESIGNED = "resigned"
    """The term was released with `term.resign()`. The last state."""


TRANSITIONS: dict[Phase, tuple[Phase, ...]] = {
    Phase.FOLLOWING: (Phase.FOLLOWING, Phase.LEADING),  # with another rank
    Phase.LEADING: (Phase.SUSPENDED, Phase.LOST, Phase.RESIGNED),
    Phase.SUSPENDED: (Phase.LEADING, Phase.LOST, Phase.RESIGNED),
    Phase.LOST: (Phase.FOLLOWING,),
    Phase.RESIGNED: (),
}
"""Which phases may follow which."""


@dataclass(frozen=True, slots=True)
class CampaignState:
    """A state of a campaign.

    Attributes:
        phase: where it stands.
        session_id: the session.
        term: the term; None while following.
        reason: why a lost term was lost; else None.
        rank: 0 while leading; while following, how many contenders have to leave before we lead, or
            None while that is not known. See `Campaign`.
    """

    phase: Phase
    session_id: int
    term: Term | None = None
    reason: LossReason | None = None
    rank: int | None = None

    @property
    def is_next(self) -> bool:
        """Whether we lead as soon as one contender before us leaves."""
        return self.rank == 1

    @property
    def token(self) -> int | None:
        """The fencing token of the term."""
        return None if self.term is None else self.term.token


@final
class Campaign(LatestValue[CampaignState]):
    """The state of our contending: `async with election.campaign() as view`.

    FOLLOWING, then LEADING (with the term), then SUSPENDED and LEADING as the connection comes and
    goes, then LOST (with the reason) and FOLLOWING again, or RESIGNED after `term.resign()`. The
    latest state wins: a slow reader may miss some, but sees by the term's token that it is another
    term. Each iteration begins with the present state.

    While following, a state says how far it has come: a standby may warm up when its `rank` is 1.
    The first two waiters watch all before them, so their rank is always true. A waiter further back
    watches only those next to it, so that nobody is woken for nothing: its rank is what it was when
    it last had to look, and has become less since if anything; or None if it has not looked yet.

    Leaving the context manager resigns, or leaves the queue.

    Raises (from the iteration):
        MixedLayoutError: a neighbour in the queue and we would not exclude each other.
        SequenceExhaustedError: the path has no more numbers.
        ServerError: what the server says to the create, such as `NoAuthError`.
        SessionError: the client was closed, or its credentials were refused.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete our znode, and the body ended normally.
    """

    def __init__(self, client: CoordinationClient, election: HoldingRecipe[Term]) -> None:
        super().__init__(client)
        self._election = election
        self._changed = anyio.Event()
        self._refusal: ReleaseError | None = None
        """That our znode could not be deleted, as the campaign ended."""
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
        """From the end of the queue to the end of a term; False if that was resigned."""
        client, election = self._client, self._election
        self._move(CampaignState(Phase.FOLLOWING, client.session_id))
        self._changed = anyio.Event()
        term = await election._contend(self._wait, self._on_change, self._on_change)
        assert term is not None
        unsubscribe = client.backend.subscribe(lambda _state, _session_id: self._on_change())
        try:
            # Even if the connection has gone by now: a term begins with this.
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
            term._report_refusal(None)  # to whoever leaves the campaign
        return not term.is_released

    def _wait(self, acquirable: Acquirable) -> Coroutine[Any, Any, bool]:
        if isinstance(acquirable, Contender):
            acquirable.when_ranked(self._on_rank)
        return acquirable.acquire()

    async def _follow(self, term: Term) -> None:
        """Reports the states of a term until it ends."""
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
        before = self._value.phase if self._count else None
        if before is state.phase is not Phase.FOLLOWING:
            return
        if before is not None and state.phase not in TRANSITIONS[before]:
            raise RuntimeError(f"a campaign cannot go from {before.name} to {state.phase.name}")
        self._publish(state)
