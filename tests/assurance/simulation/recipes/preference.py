"""Elections with preferred leaders in a world of faults.

* `prefer`: processes with priorities contend in one election, and leave and return.

These must hold, besides the invariants of everything that is held (there is one leader at most):

    prefer-best   after the healing, the best of the processes leads in the end
    prefer-pause  between two requests to resign there is the time for which a better one waits

`first_come_first_served` does not hold: a better contender overtakes those that came before it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead.errors import ConnectionLossError, TenureLost
from aiolead.testing.history.events import NodeCreated
from aiolead.testing.simulation import Process, Turn, World
from tests.assurance.simulation.programs import alone, end_of_session, explored

LINE = "/preferred"
LONGEST = 3.0
"""The longest turn before the healing, in times that a better contender waits."""

TOOK_OVER = "a better contender took over"
STEPPED_BACK = "a contender joined again, behind a better one"


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    stable_for: float
    priorities: dict[str, int] = field(default_factory=dict)  # by process
    asked: tuple[str, float] | None = None  # the last one that was asked to resign, and when
    waiting: dict[anyio.CancelScope, None] = field(default_factory=dict)  # in order: those of turns
    is_settled: bool = False

    def is_best(self, process: Process) -> bool:
        return self.priority(process) == max(self.priorities.values())

    def priority(self, process: Process) -> int:
        """That of its program, which may have been started again, as `p0.2`."""
        return self.priorities[process.name.partition(".")[0]]

    def settle(self) -> None:
        """The best one leads: everybody may leave."""
        self.is_settled = True
        for scope in self.waiting:
            scope.cancel()

    def note_request(self, process: Process) -> None:
        """A leader is asked to resign."""
        now = self.world.now
        if self.asked is not None and now < self.asked[1] + self.stable_for - 0.001:
            who, at = self.asked
            self.world.violation(
                "prefer-pause", f"{who} was asked to resign at {at}, and {process.name} at {now}"
            )
        self.asked = process.name, now
        self.world.history.reached(TOOK_OVER)


@explored(
    range(1060, 1072),
    range(12),
    reached=("a better contender took over", "a contender joined again, behind a better one"),
)
async def prefer(world: World) -> None:
    """Three or four processes, some of them with the same priority."""
    rng = world.rng("prefer")
    world.skip.add("first_come_first_served")
    plan = Plan(world, stable_for=rng.choice((1.0, 1.5, 4.0)))
    # After such a turn, a better contender may have to wait once more.
    world.longest_turn = (LONGEST + 2) * plan.stable_for
    for number in range(rng.choice((3, 4))):
        name = f"p{number}"
        priority = rng.choice((-1, 0, 0, 1, 2))
        if world.start(name, partial(contender, plan)):
            plan.priorities[name] = priority


async def contender(plan: Plan, process: Process) -> None:
    """Takes turns over any number of clients, until the best one leads after the healing."""

    async def turns(client: aiolead.Client) -> None:
        while not plan.is_settled:
            await take_turn(plan, process, client)

    await alone(plan.world, process, turns)


async def take_turn(plan: Plan, process: Process, client: aiolead.Client) -> None:
    """Contends once, and leads for a while, or until it is asked to resign."""
    world, rng, tau = plan.world, process.rng, client.session_timeout
    priority = plan.priority(process)
    election = aiolead.Election(
        client, LINE, identity=process.name, priority=priority, stable_for=plan.stable_for
    )
    since = len(world.history.events)
    turn: Turn[aiolead.Term] = Turn(world.history, LINE, process.name, election.leadership())
    with (
        world.may_be_cancelled(process, LINE, process.name) as scope,
        suppress(TenureLost, ConnectionLossError),
    ):
        plan.waiting[scope] = None
        try:
            async with turn as term:
                assert term is not None
                if _has_joined_again(world, term, since):
                    world.history.reached(STEPPED_BACK)
                await lead(plan, process, term)
        finally:
            plan.waiting.pop(scope, None)
    await end_of_session(client)
    pause = 0.001 if world.is_healed else rng.uniform(0.0, 0.5)
    await anyio.sleep(pause * tau)


def _has_joined_again(world: World, term: aiolead.Term, since: int) -> bool:
    """Whether the session of a term has made several znodes for it."""
    made = [
        event
        for event in world.history.events[since:]
        if isinstance(event, NodeCreated)
        and event.owner == term.session_id
        and event.path.startswith(f"{LINE}/")
    ]
    return len(made) > 1


async def lead(plan: Plan, process: Process, term: aiolead.Term) -> None:
    world = plan.world
    longest = 0.3 if world.is_healed else LONGEST
    with anyio.move_on_after(process.rng.uniform(0.1, longest) * plan.stable_for):
        await term.revocation_requested()
        plan.note_request(process)
        return
    if not world.is_healed or not term.is_held:
        return
    if plan.is_best(process):
        plan.settle()
        return
    # Each process may come late, and has to wait for its time in the queue.
    patience = world.bounds().progress + 3 * plan.stable_for
    with anyio.move_on_after(patience):
        await term.revocation_requested()
        plan.note_request(process)
        return
    if term.is_held:
        world.violation(
            "prefer-best",
            f"{process.name} leads for {patience} s: {plan.priorities}, and nobody asks it",
        )
        plan.settle()
