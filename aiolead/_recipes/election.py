"""The election: leadership, campaigns in the background, and observers that do not contend."""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, cast, final

import anyio
import anyio.lowlevel

from .._util.contender_names import (
    MOST_LEADERS,
    MOST_PRIORITY,
    ElectionRules,
    leaders_of,
    leading,
)
from .._util.escaping import repr_with_session
from .._util.misuse import check_worker
from .._util.tasks import cancellations, check_cancelled_since
from ..abc import CoordinationClient
from ..errors import (
    AioleadError,
    ConfigurationError,
    LeadershipLost,
    LossReason,
    NoNodeError,
    ReleaseError,
    UsageError,
)
from ..events import EventName
from ..model import ACL, Participant, SessionState
from ..paths import join
from . import rivals
from .beside import beside_body, current_task
from .contender_queue import ContenderQueue
from .errors import log_refusal
from .hold import Place, beside_loss
from .holding import HoldingRecipe, Kind, TenureContext
from .layouts import Layout, Role, check_leaders, check_priority
from .neighbours import queue_order
from .preference import MakePlace, PreferredPlace
from .reading import participant
from .recipe import (
    OnDisconnect,
    OnRevocation,
    checked_count,
    checked_flag,
    checked_number,
    checked_pause,
    checked_revocation,
    checked_wait,
)
from .term import PATIENCE, HandOver, Term, report_ready
from .view import LatestValue, Observation, Reading, View, plain

if TYPE_CHECKING:
    from .holding import Contest

__all__ = ["Election", "Phase"]
__types__ = ["Campaign", "CampaignState", "ElectionObserver", "ElectionState"]


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The leaders at one moment.

    Attributes:
        leaders: the leaders, first come first; empty if there are none.
        session_id: the session in which this was seen.
        is_current: False while the connection is lost, so that it may have changed since.
    """

    leaders: tuple[Participant, ...]
    session_id: int
    is_current: bool = True

    def __repr__(self) -> str:
        return repr_with_session(self)

    @property
    def leader(self) -> Participant | None:
        """The leader, the first one if there are several; None if there is none."""
        return self.leaders[0] if self.leaders else None


@final
class ElectionObserver(View[ElectionState]):
    """The leaders, and each change of them: `async with election.observe() as view`. See `View`.

    Only the leaders' znodes are watched, and the queue only while it has fewer contenders than may
    lead: any number of observers and contenders do not disturb each other. The observers of one
    client share their reads.
    """

    def __init__(self, queue: ContenderQueue) -> None:
        shared_by = queue.layout, queue.role, queue.places
        make_reading = partial(_LeaderReading, queue)
        super().__init__(queue.client, queue.path, make_reading, shared_by=shared_by)
        self._hook = queue.client.backend.events
        self._tokens: tuple[int, ...] | None = None

    def _publish(self, observation: Observation[ElectionState]) -> None:
        super()._publish(observation)
        self._report(observation.value)

    def _report(self, state: ElectionState) -> None:
        """Report other leaders than before; not those of the first reading."""
        tokens = tuple(who.token for who in state.leaders)
        before, self._tokens = self._tokens, tokens
        if before is None or before == tokens:
            return
        leader = state.leader
        self._hook.emit(
            EventName.ELECTION_CHANGED,
            logging.INFO,
            session_id=state.session_id,
            path=self._path,
            fields={
                "identity": "" if leader is None else leader.identity,
                "token": 0 if leader is None else leader.token,
                "leaders": len(tokens),
            },
        )


@final
class _LeaderReading(Reading[ElectionState]):
    """Reads the leaders for all observers of one client."""

    def __init__(self, queue: ContenderQueue) -> None:
        super().__init__(queue.client, self._read_state)
        self._path = queue.path
        self._names = queue.names
        self._leaders = queue.places

    def _publish(self, observation: Observation[ElectionState]) -> None:
        # A read-only server's answer may be old, and may be undone.
        is_current = self._client.state is SessionState.CONNECTED
        super()._publish(plain(replace(observation.value, is_current=is_current)))

    def _on_state(self, state: SessionState, session_id: int) -> None:
        super()._on_state(state, session_id)
        if self._latest is not None and state is not SessionState.CONNECTED:
            self._outdate(plain(replace(self._latest.value, is_current=False)))

    async def _read_state(self, _reading: Reading[ElectionState]) -> Observation[ElectionState]:
        leaders = None
        while leaders is None:
            leaders = await self._read_leaders()
        return plain(ElectionState(tuple(leaders), self._client.session_id))

    async def _read_leaders(self) -> list[Participant] | None:
        """The leaders, with watches on what can change them; None if they changed meanwhile."""
        client, path = self._client, self._path
        self._asked.clear()
        try:
            queue = await self._queue(await client.get_children(path))
            if self._may_the_next_lead(queue):
                names = await client.get_children(path, watch=self.watch("the queue"))
                queue = await self._queue(names)
        except NoNodeError:
            self.unwatch("the queue")
            there = await client.exists(path, watch=self.watch("the path"))
            return [] if there is None else None
        count = leading(queue, self._leaders)
        # The first that waits only because others allow fewer leaders: if it goes, those behind it
        # may lead.
        restricted = queue[count : count + 1] if count < self._leaders else []
        looks = [
            (name, client.get(join(path, name), watch=self.watch(name)))
            for name in (*queue[:count], *restricted)
        ]
        leaders: list[Participant] = []
        for name, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                self.unwatch(name)
                return None
            leaders.append(participant(join(path, name), data, stat, is_holder=True))
        return leaders[:count]

    def _may_the_next_lead(self, queue: list[str]) -> bool:
        """Whether a contender that joins now might lead, so that the queue has to be watched."""
        if len(queue) >= self._leaders:
            return False
        return len(queue) < min(map(leaders_of, queue), default=self._leaders)

    async def _queue(self, names: list[str]) -> list[str]:
        return await queue_order(self._client, self._path, names, self._names)


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

    def __repr__(self) -> str:
        return repr_with_session(self)

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
    avoid the herd effect: their rank is that of their last listing, and may be less by now. A named
    successor (`term.hand_over`, `election.revoke`) gets rank 1.

    Leaving the context manager resigns, or leaves the queue.

    Raises (from the iteration):
        MixedLayoutError: a neighbour in the queue and we would not exclude each other.
        SequenceExhaustedError: the path has no more numbers.
        ServerError: the server's answer to the create, such as `NoAuthError`.
        SessionError: the client was closed, or its credentials were refused.

    Raises (on leaving):
        ReleaseError: the servers refuse to delete the znode, and the body ended normally.
    """

    def __init__(
        self, contend: MakePlace, contest: Contest[Term], kind: Kind[Term], *, is_ready: bool
    ) -> None:
        super().__init__(contest.client, contest.path)
        self._make_place = contend
        self._election = contest
        self._contest = contest.derived(self._contend, kind=kind)
        self._entered_by: tuple[int, object] | None = None
        """The id of the task that must not wait for this, and the task, so that no other has it."""
        self._is_over = False
        self._is_ready = is_ready
        self._place: Place | None = None
        self._is_reported = True
        """Whether the znode shows what `_is_ready` says."""
        self._changed = anyio.Event()
        self._refusal: ReleaseError | None = None
        self._has_left = False

    async def set_ready(self) -> None:
        """Report that this contender can lead, after `campaign(ready=False)`.

        A leader that hands over to it, or is asked to, waits for that. It stays so for the whole
        campaign. Returns once the servers have it, or at once while there is no znode.

        Raises `ServerError` if they refuse it, such as `NoAuthError`.

        Cancellation: it may not be reported; call it again. On connection loss: goes on.
        """
        self._client.backend.check_home()
        self._is_ready = True
        if self._place is None:
            await anyio.lowlevel.checkpoint()
        else:
            self._is_reported = False
            await self._report_ready()

    async def _report_ready(self) -> None:
        place = self._place
        if place is None:
            return
        if await report_ready(self._client, place.znodes[0], self._contest.data):
            self._is_reported = True

    def _contend(self, contest: Contest[Term]) -> Place:
        self._is_reported = True
        self._place = self._make_place(contest, self._on_rank, is_ready=self._is_ready)
        return self._place

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if not self._is_over:
            self._entered_by = self._election.enter(forever=False, is_checked=False), current_task()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        left = exc
        try:
            await super().__aexit__(exc_type, exc, traceback)
        except BaseException as error:
            left = error
            raise
        finally:
            self._has_left = True
            refusal, self._refusal = self._refusal, None
            if refusal is not None and left is not None and left is not refusal:
                log_refusal(refusal)
        if refusal is not None and left is None:
            raise refusal

    def _close(self) -> None:
        super()._close()
        self._contends_no_more()  # the job may end later, without a connection

    def _end(self, error: AioleadError | None) -> None:
        self._contends_no_more()
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
        term = await self._contest.contend(self)
        assert term is not None
        unsubscribe = client.backend.subscribe(lambda _state, _session_id: self._changed.set())
        try:
            # A term always begins with LEADING, even if the connection is lost by now.
            self._move(CampaignState(Phase.LEADING, term.session_id, term, rank=0))
            await self._follow(term)
        finally:
            unsubscribe()
            await term._end()
            term._report_refusal(None)  # raised on leaving the campaign
        return not term.is_released

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
        if not self._is_reported:  # its znode was on its way when it became ready
            self._client.backend.spawn(self._report_ready)

    def _on_lost(self) -> None:
        self._changed.set()

    def _on_released(self) -> None:
        self._contends_no_more()
        self._changed.set()

    def _contends_no_more(self) -> None:
        self._is_over = True
        entered_by, self._entered_by = self._entered_by, None
        if entered_by is not None:
            self._election.leave(entered_by[0])

    def _move(self, state: CampaignState) -> None:
        before = self._latest.value.phase if self._count else None
        if before is state.phase is not Phase.FOLLOWING:
            return
        if before is not None and state.phase not in TRANSITIONS[before]:
            raise RuntimeError(f"a campaign cannot go from {before.name} to {state.phase.name}")
        self._publish(plain(state))


_Worker = Callable[[Term], Awaitable[object]]

_PAUSED_AFTER = (None, LossReason.REVOKED, LossReason.REFUSED, LossReason.INTERNAL)
"""Ends of a term after which to pause, as the next could come at once; None: worker returned."""


@final
class Election(HoldingRecipe[Term]):
    """Lets one of many processes lead (or `leaders` of them), and the next one when that ends.

        async with election.leadership() as term:      # waits its turn
            await work(fencing_token=term.token)

    If leadership is lost, the body is cancelled before the servers could give it to another
    contender; leaving then raises `LeadershipLost`. Contenders lead in the order in which they
    came.

    Args:
        client: the session that contends.
        path: the path; created as a container if missing. Nothing else should use it.
        identity: the name that others see; defaults to host name and process id.
        leaders: how many may lead at once, 1 by default. All processes pass the same number: one
            that finds another number before it is refused (`MixedLayoutError`). 1 with
            `Layout.AIOZK`.
        changing_from: the number that other processes may still have, while a running fleet
            changes it; None, the default, if it does not change. The smaller number counts: a
            contender leads only while fewer are before it than it and each of those allow.
        priority: from -1,000 to 1,000. Of those present, one with the highest priority leads, the
            first one to come if there are several. None, the default: the first one to come leads.
            So a successor that is named (`term.hand_over`) only leads if no better one is present.
            All contenders on the path have a priority, or none (`MixedLayoutError`). Needs
            `leaders=1`, and a layout other than `Layout.AIOZK`.
        stable_for: seconds, 1 at least and 10 by default. A contender that comes later, with a
            higher priority than the leader's, waits for so long in the queue before it asks the
            leader to resign, as `revoke` does. Nobody is forced. So a leader leads for that time at
            least, unless it ends by itself. Without `priority` it has no effect.
        layout: the naming scheme, `Layout.CURATOR` by default; see `Layout`.
        on_disconnect: when the connection is lost, `"keep"` (the default) leads on while the lease
            lasts, `"resign"` resigns at once.
        on_revocation: when another process asks by `revoke`, `"resign"` (the default) cancels the
            body of `leadership()`, or the worker of `run()`, and resigns once that has ended; then
            `LeadershipLost` says `LossReason.REVOKED`, and `run()` contends again after its pause.
            That is safe: nobody else leads before the body has ended, and a body has to stand a
            cancellation anyway. With `"ignore"`, the body decides: see
            `term.revocation_requested()`. The owner of a campaign, which cancels nothing, always
            decides.
        revocation_grace: seconds from that request until the body is cancelled, 0 by default: for a
            body that awaits `term.revocation_requested()` and ends by itself. After the
            cancellation, it has as long as it needs.
        acl: of the znode, and of the path if it is created; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    if not TYPE_CHECKING:  # or else type checkers would let it be entered

        async def __aenter__(self) -> NoReturn:
            raise UsageError(
                f"{self!r} cannot be entered itself: write `{self._contest.to_hold}`, or "
                "`await election.run(worker)`"
            )

        async def __aexit__(self, *_: object) -> None:
            pass

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        leaders: int = 1,
        changing_from: int | None = None,
        priority: int | None = None,
        stable_for: float = 10.0,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        on_revocation: OnRevocation = "resign",
        revocation_grace: float = 0.0,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        grace = checked_revocation(on_revocation, revocation_grace)
        rules = _checked_rules(leaders, changing_from, priority)
        self._queue = ContenderQueue(
            type(self).__name__, client, path, layout, Role.ELECTION, rules=rules
        )
        contest = self._queue.contest(
            partial(Term, queue=self._queue, revocation_grace=grace),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            is_rare=True,
            urgent=True,
            to_hold="async with election.leadership() as term:",
            to_try="",
        )
        self._contend: MakePlace = self._queue.contend
        wait = checked_number("stable_for", stable_for, least=1)
        if priority is not None:
            check_priority(self._queue.names)
            self._contend = partial(PreferredPlace, self._queue, wait)
            contest = contest.derived(self._contend)
        super().__init__(contest)
        check_leaders(self._queue.names, max(leaders, changing_from or 1))

    def leadership(self, *, timeout: float | None = None) -> TenureContext[Term]:
        """Lead for the body of an `async with`. Leaving resigns.

        It gives a `Term`: `token`, `path`, `identity`, `session_id`, `is_held`, `remaining()`,
        `check()`, `verify()`, `fenced()`, `resign()` (`release()`, `is_released`), `hand_over()`
        (`prepare_hand_over()`), `loss`, `add_lost_callback()`, `revocation_requested()`
        (`is_revocation_requested`) and `statistics()`.

        Args:
            timeout: how long to wait, in seconds. None, the default, waits forever; 0 tries once.

        Raises `AcquireTimeout` on entering. For other errors, cancellation and loss see
        `TenureContext`.
        """
        return self._context(timeout)

    async def run(self, worker: _Worker, *, pause: float = 1.0) -> NoReturn:
        """Contend forever, and call `worker(term)` once per term.

        A worker that returns resigns. A lost term cancels the worker; it contends again at once, or
        after the pause if another process asked for that (`LossReason.REVOKED`, see
        `on_revocation`), the servers refuse to confirm the znode (`LossReason.REFUSED`), or aiolead
        fails (`LossReason.INTERNAL`). Other exceptions of the worker propagate unchanged.

        Args:
            worker: a coroutine function, called with each term.
            pause: seconds without a term after a worker has returned, 1 by default: one that
                returns at once should not overload the servers. 0 contends again at once.

        Raises:
            UsageError: `worker` is a coroutine (`run(worker())`) instead of a function.
            ConfigurationError: `worker` does not take a term, or is a `def` that is not async. A
                lambda, and a `def` with an annotation that says so, may return an awaitable.

        Cancellation: cancels the worker, awaits it, and resigns.
        """
        check_worker(worker, "term")
        pause, cancelled = checked_pause(pause), cancellations()
        while True:
            term: Term | None = None
            try:
                async with self.leadership() as term:
                    await worker(term)
            except (LeadershipLost, BaseExceptionGroup) as error:
                # A group, if tasks of the worker's own task group have called `term.check()`.
                left = error if term is None else beside_loss(term.token, error)
                if left is error:
                    raise
                if left is not None:
                    raise left from None
                # A cleanup that checks the term raises the loss in place of the cancellation.
                await check_cancelled_since(cancelled)
            if term is not None and term.loss in _PAUSED_AFTER:
                await anyio.sleep(pause)

    def running(
        self, worker: _Worker, *, pause: float = 1.0
    ) -> AbstractAsyncContextManager[None, None]:
        """As `run`, in the background, for the body of an `async with`.

        Leaving cancels the worker, awaits it, and resigns, also when cancelled. An exception that
        ends `run` cancels the body, and is raised on leaving, unchanged; otherwise an exception of
        the body propagates unchanged. On connection loss: goes on.

        The body cannot wait for `leadership()`, since the worker may lead until the body has ended:
        `AlreadyHeldError`. Another task can.

        Leave it in the task that entered it. Any task may leave it once the first one has ended.
        Otherwise leaving resigns and raises `UsageError`.
        """
        check_worker(worker, "term")
        run = partial(self.run, worker, pause=checked_pause(pause))
        # It swallows nothing, which type checkers cannot know.
        return cast("AbstractAsyncContextManager[None, None]", beside_body(run, self._contest))

    def campaign(self, *, ready: bool = True) -> Campaign:
        """Contend in the background, and observe the states.

        Losing leadership cancels nothing: code that acts as the leader must call `term.check()`. A
        task that has entered a campaign, and waits for `leadership()` meanwhile, would wait for
        itself: `AlreadyHeldError`.

        Args:
            ready: False for a contender that has to warm up. A planned hand-over to it waits for
                its `Campaign.set_ready()`. If the leader dies, it may lead before.
        """
        kind, is_ready = partial(Term, queue=self._queue), checked_flag("ready", ready)
        return Campaign(self._contend, self._contest, kind, is_ready=is_ready)

    def observe(self) -> ElectionObserver:
        """Observe who leads, without contending."""
        return ElectionObserver(self._queue)

    async def revoke(
        self, *, successor: str | None = None, timeout: float | None = PATIENCE
    ) -> list[Participant]:
        """Ask the present leaders, from any process, to resign.

        A leader does so by itself (`on_revocation="resign"`), or its code sees
        `term.is_revocation_requested` or awaits `term.revocation_requested()`. Nobody is forced.
        Returns the leaders that were asked, without those asked before.

        Args:
            successor: the identity of a contender that has to be the next one, and ready, before
                they are asked; see `Term.prepare_hand_over`. None, the default, asks at once. If it
                leads already, nobody is asked.
            timeout: how long to wait for the successor, in seconds, 20 by default. None waits
                forever.

        Raises:
            HandOverTimeout: the successor was not ready in time. No leader was asked.
            ConnectionLossError: the connection was lost before all answers came; ask again.
            ServerError: the server's answer to the write, such as `NoAuthError`.
        """
        queue, wait = self._queue, checked_wait(timeout)
        if successor is None:
            return await rivals.revoke(self)
        hand_over = HandOver(queue, successor, may_lead=True)
        # Those that were before it: it may lead by now.
        return await rivals.ask_to_release(queue, (await hand_over.prepared(wait)).holders)

    async def leader(self) -> Participant | None:
        """The leader, the first of several; None if there is none. May lag, as `Lock.holders`."""
        queue = await rivals.contenders(self)
        return queue[0] if queue else None

    async def contenders(self) -> list[Participant]:
        """The leaders and the waiters, in order. May lag, as `Lock.holders`."""
        return await rivals.contenders(self)


def _checked_rules(leaders: int, changing_from: int | None, priority: int | None) -> ElectionRules:
    leaders = checked_count("leaders", leaders, most=MOST_LEADERS)
    if changing_from is not None:
        changing_from = checked_count("changing_from", changing_from, most=MOST_LEADERS)
    if priority is not None:
        checked_count("priority", priority, least=-MOST_PRIORITY, most=MOST_PRIORITY)
        if leaders > 1 or changing_from is not None:
            raise ConfigurationError(
                "priority: needs leaders=1, without changing_from: of several leaders, none is "
                "preferred"
            )
    return ElectionRules(leaders, changing_from, priority)
