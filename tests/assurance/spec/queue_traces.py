"""Traces of contender queues in simulated schedules, in terms of the specification's actions.

`Recorder` writes down what contenders and servers do while a schedule runs. `violations` replays
that by `queue_rules`, the contender's part of `docs/spec/queue.tla`:

* A listing shows a state that the servers have committed, none older than this contender's last
  one; the contender watches the znodes that the specification says afterwards.
* It waits only for znodes that are there, or whose end was not reported to it yet.
* It is in front by a listing, or because what it waited for is gone, as the specification says; and
  fewer than N of the znodes before its own are there at that moment, unless its own is gone, too.
* It holds only then. With one place, tokens rise.
* It takes its own znode for gone only if it is; it watches that while it waits, and while it holds
  from the moment at which its hold settles. A client that has seen a later change holds no longer.
* A create is not sent again before a lost one was looked for. A look shows a state that was
  committed since it began, and finds the znode that is proven to be of that create. An unwanted
  create that was not found is looked for again.
* A client deletes a znode of its session only after a contender has left it, or as an orphan.

Readers and writers are left out.

    python -m tests.assurance.spec.queue_traces --seeds 500
"""

from __future__ import annotations

import sys

from aiolead.testing.simulation.loops import Backend
from aiolead.testing.simulation.run import Scenario, simulate
from aiolead.testing.simulation.world import World

from .queue_recorder import Recorder, Step
from .queue_replay import violations
from .schedules import check_schedules


def checked(
    scenario: Scenario, seed: int, backend: Backend
) -> tuple[Recorder, list[str], list[str]]:
    """Run a schedule: its trace, what the specification does not allow, and what the history's
    invariants find."""
    recorder = Recorder()

    async def traced(world: World) -> None:
        recorder.timeline = world.timeline
        await scenario(world)

    with recorder.recording():
        outcome = simulate(traced, seed=seed, backend=backend)
    return recorder, violations(recorder), [str(each) for each in outcome.violations]


def main() -> int:
    return check_schedules(
        "tests.assurance.spec.queue_traces",
        checked,
        lambda recorder: {
            "steps of contenders": sum(isinstance(each, Step) for each in recorder.trace)
        },
    )


if __name__ == "__main__":
    sys.exit(main())
