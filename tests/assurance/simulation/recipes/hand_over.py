"""Planned hand-overs in a world of faults.

* `succeed`: leaders hand over to successors that they name, and an operator revokes leadership for
  one. Some contenders have to warm up, some never do, and some successors do not exist.
* `undisturbed`: the same without an operator, to be run without faults.

Beside I1 (never two leaders) and I9 (once nothing is broken, everybody leads in the end), these
must hold:

    hand-over-order   the leader after a hand-over is the successor that it has returned, unless
                      the successor's znode was gone by then
    hand-over-named   if nothing disturbs it, that is the successor that was named
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

import aiolead
from aiolead._recipes.contender_queue import Contender
from aiolead._recipes.holding import TenureContext
from aiolead._recipes.kernel import QueuePosition
from aiolead.errors import (
    AcquireTimeout,
    ConnectFailed,
    ConnectionLossError,
    HandOverTimeout,
    LeadershipLost,
    SessionError,
)
from aiolead.model import Participant
from aiolead.testing.history import RESIGNED
from aiolead.testing.history.events import Entered, NodeDeleted
from aiolead.testing.simulation import Process, Turn, World, told
from aiolead.testing.simulation.turns import Observed, is_lost
from tests.assurance.simulation.programs import (
    alone,
    end_of_session,
    explored,
    insist,
    using_the_grace_period,
)

LINE = "/lines/succession"
GHOST = "nobody"
"""The name of a successor that never waits."""


@dataclass(slots=True)
class Plan:
    """The state that all contenders of a run share."""

    world: World
    is_undisturbed: bool
    names: list[str] = field(default_factory=list)
    handed_over: list[tuple[int, Participant]] = field(default_factory=list)
    """The token of each term that was handed over, and the successor that was returned."""
    busy: int = 0
    all_done: anyio.Event = field(default_factory=anyio.Event)


@explored(
    reached=(
        "stepped behind another contender",
        "handed over to a successor",
        "asked a leader to resign",
    ),
)
async def succeed(world: World) -> None:
    """Three to five contenders, and an operator."""
    plan = _contenders(world, is_undisturbed=False)
    world.start("operator", partial(operator, plan))


async def undisturbed(world: World) -> None:
    """Three to five contenders."""
    _contenders(world, is_undisturbed=True)


def _contenders(world: World, *, is_undisturbed: bool) -> Plan:
    plan = Plan(world, is_undisturbed)
    for number in range(world.rng("succeed").choice((3, 4, 5))):
        plan.names.append(f"p{number}")
        plan.busy += world.start(f"p{number}", partial(contender, plan))
    return plan


class Stepping(Contender):
    """A contender that reports to the history that it gives its place up, and contends again."""

    def __init__(self, report: Callable[[], object], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._report = report

    async def _step_behind(self) -> QueuePosition:
        self._report()
        return await super()._step_behind()


def election_of(plan: Plan, client: aiolead.Client, who: str) -> aiolead.Election:
    """An election whose contenders report that they step behind."""
    history = plan.world.history
    election = aiolead.Election(client, LINE, identity=who)
    queue = election._queue

    def report() -> None:
        plan.world.history.reached("stepped behind another contender")
        history.withdrew(LINE, who, "cancelled")
        history.joined(LINE, who)

    def contend(contest: Any, on_rank: Any = None, *, is_ready: bool = True) -> Contender:
        data = type(queue).contend(queue, contest, is_ready=is_ready).znode.data
        return Stepping(report, queue, data, contest.acl, on_rank=on_rank)

    queue.contend = contend  # type: ignore[method-assign]
    contest = election._contest = election._contest.derived(contend)
    election._context = partial(TenureContext, contest)
    return election


# --- contenders ----------------------------------------------------------------------------------


async def contender(plan: Plan, process: Process) -> None:
    """Leads again and again, over any number of clients; after the healing once more."""
    await alone(plan.world, process, partial(take_turns, plan, process))
    plan.busy -= 1
    if not plan.busy:
        plan.all_done.set()
        check_order(plan)


async def take_turns(plan: Plan, process: Process, client: aiolead.Client) -> None:
    world, rng, who = plan.world, process.rng, process.name
    election = election_of(plan, client, who)
    while True:
        was_healed = world.is_healed
        has_led = False
        with (
            world.may_be_cancelled(process, LINE, who),
            suppress(AcquireTimeout, LeadershipLost, ConnectionLossError),
        ):
            if rng.random() < 0.6:
                has_led = await lead(plan, process, election)
            else:
                has_led = await warm_up_and_lead(plan, process, election)
        if was_healed and has_led:
            return
        if not world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)
        else:
            await end_of_session(client)


async def lead(plan: Plan, process: Process, election: aiolead.Election) -> bool:
    world = plan.world
    async with Turn(world.history, LINE, process.name, election.leadership()) as term:
        assert term is not None
        async with using_the_grace_period(world, process.rng):
            await work(plan, process, term)
            await hand_over(plan, process, term)
    return True


async def warm_up_and_lead(plan: Plan, process: Process, election: aiolead.Election) -> bool:
    """A campaign that warms up once it is the next one, or never."""
    history, who, rng = plan.world.history, process.name, process.rng
    warms_up = rng.random() < 0.7
    term: aiolead.Term | None = None
    async with election.campaign(ready=False) as view:
        history.joined(LINE, who)
        try:
            async for state in view:
                if state.is_next and warms_up:
                    await anyio.sleep(rng.uniform(0.0, 0.2) * election._client.session_timeout)
                    await view.set_ready()
                if state.phase is aiolead.Phase.LEADING:
                    if state.term is None or not state.term.is_held:
                        return False  # it is read late, by a process that was stopped
                    term = state.term
                    told(history, LINE, who, term, stubborn=True)
                    await work(plan, process, term)
                    await hand_over(plan, process, term)
                    return True
        finally:
            if term is None:
                history.withdrew(LINE, who, "left")
            else:
                history.left(LINE, who, term.token, was_lost=is_lost(term))
    return False


async def work(plan: Plan, process: Process, term: aiolead.Term) -> None:
    world, rng = plan.world, process.rng
    for _ in range(rng.randint(0, 3)):
        await anyio.sleep(rng.uniform(0.0, 0.02 if world.is_healed else 0.3))
        world.history.looked(LINE, process.name, term.token, held=term.is_held)
        term.check()


async def hand_over(plan: Plan, process: Process, term: aiolead.Term) -> None:
    """To somebody, or to the next one; or not at all."""
    world, rng = plan.world, process.rng
    if rng.random() < 0.3:
        return
    others = [name for name in plan.names if name != process.name]
    to = rng.choice([*others, None, None, GHOST])

    def resigned() -> None:
        world.history.stepped_down(LINE, process.name, term.token, RESIGNED)

    term._body = Observed(term._body, on_released=resigned)
    with suppress(HandOverTimeout):
        successor = await term.hand_over(to, timeout=rng.uniform(0.0, 1.0))
        plan.handed_over.append((term.token, successor))
        world.history.reached("handed over to a successor")
        if to is not None and successor.identity != to:
            world.history.reached("handed over to another one, since the successor was gone")
            if plan.is_undisturbed:
                world.violation("hand-over-named", f"{successor.identity} instead of {to}")


# --- an operator ---------------------------------------------------------------------------------


async def operator(plan: Plan, process: Process) -> None:
    world, rng = plan.world, process.rng

    async def revoke(client: aiolead.Client) -> bool:
        election = aiolead.Election(client, LINE)
        while not plan.all_done.is_set():
            await anyio.sleep(rng.uniform(0.1, 0.6) * client.session_timeout)
            successor = rng.choice([*plan.names, GHOST, None])
            with suppress(HandOverTimeout, ConnectionLossError):
                if await election.revoke(successor=successor, timeout=rng.uniform(0.0, 1.0)):
                    world.history.reached("asked a leader to resign")
        return True

    await insist(world, process, revoke, expected=(ConnectFailed, SessionError))


def check_order(plan: Plan) -> None:
    """The next leader is the successor, unless its znode was gone before."""
    events = plan.world.history.events
    for token, successor in plan.handed_over:
        began = next(n for n, e in enumerate(events) if isinstance(e, Entered) and e.token == token)
        for event in events[began + 1 :]:
            if isinstance(event, NodeDeleted) and event.path == successor.path:
                break
            if isinstance(event, Entered) and event.line == LINE:
                if event.token != successor.token:
                    plan.world.violation(
                        "hand-over-order",
                        f"after token {token}, token {event.token} leads, and not "
                        f"{successor.identity} with token {successor.token}",
                    )
                break
