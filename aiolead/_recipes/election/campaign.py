"""A campaign: contending in the background, with its states as an async iterator."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import anyio

from ...abc import CoordinationClient
from ...errors import LossReason
from ...model import SessionState
from .._core.background import Background
from .._core.tenure import Term
from ..contention.contender import Contender

if TYPE_CHECKING:
    from .._core.holding_recipe import HoldingRecipe


class Phase(enum.Enum):
    """Where a campaign stands."""

    FOLLOWING = "following"
    """In line, or on the way there."""
    LEADING = "leading"
    SUSPENDED = "suspended"
    """Leading still, but the link is lost: the lease runs, and `LEADING` or `LOST` follows."""
    LOST = "lost"
    """The term ended against our will. `FOLLOWING` comes next."""
    RESIGNED = "resigned"
    """The term was given up with `term.resign()`. The last state."""


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
        session_id: the session that this speaks of.
        term: the term that this speaks of; None while following.
        reason: why a lost term was lost; else None.
        rank: 0 while leading; while following, how many have to go before we lead, or None as long
            as that is not known. See `Campaign`.
    """

    phase: Phase
    session_id: int
    term: Term | None = None
    reason: LossReason | None = None
    rank: int | None = None

    @property
    def is_next(self) -> bool:
        """Whether we lead as soon as one that leads, or waits before us, goes."""
        return self.rank == 1

    @property
    def token(self) -> int | None:
        """The fencing token of the term that this speaks of."""
        return None if self.term is None else self.term.token


@final
class Campaign(Background[CampaignState]):
    """The states of our contending, from the first on: `async with election.campaign() as states`.

    FOLLOWING, then LEADING (with the term), then SUSPENDED and LEADING as the link comes and goes,
    then LOST (with the reason) and FOLLOWING again, or RESIGNED after `term.resign()`. The latest
    state wins: who is slow may miss some, but sees by the term's token that it is another term.

    While it follows, it says how far it has come: a standby may warm up when its `rank` is 1. The
    first two in waiting watch all before them, so theirs is always true. Who is further back
    watches only those next to it, so that nobody is woken for nothing: its rank is what it was when
    it last had to look, and has become less since if anything; or None if it has not looked yet.

    Leaving the context manager resigns, or leaves the line.

    Raises (from the iteration):
        What contending can end with: see `Contender.reach_front`.
    """

    def __init__(self, client: CoordinationClient, election: HoldingRecipe[Term]) -> None:
        super().__init__(client)
        self._election = election
        self._changed = anyio.Event()

    async def _run(self) -> None:
        while await self._one_term():
            pass

    async def _one_term(self) -> bool:
        """From the end of the line to the end of a term; False if that was resigned."""
        client = self._client
        self._move(CampaignState(Phase.FOLLOWING, client.session_id))
        waiting = self._election._reporting.waits(client.session_id)
        candidate = self._election._candidate()
        if isinstance(candidate, Contender):
            candidate.when_ranked(self._on_rank)
        try:
            await candidate.reach_front()
            self._changed = anyio.Event()
            term = self._election._begin(candidate, self._on_change, self._on_change)
        except BaseException as error:
            candidate.discard()
            if waiting is not None:
                waiting.failed(error, client.session_id)
            raise
        if waiting is not None:
            waiting.ended("held", term.session_id)
        term._has_begun()
        unsubscribe = client.backend.subscribe(lambda _state, _session_id: self._on_change())
        try:
            # Even if the link has gone by now: a term begins with this.
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
        before = self.current.phase if self.current is not None else None
        if before is state.phase is not Phase.FOLLOWING:
            return
        if before is not None and state.phase not in TRANSITIONS[before]:
            raise RuntimeError(f"a campaign cannot go from {before.name} to {state.phase.name}")
        self._publish(state)
