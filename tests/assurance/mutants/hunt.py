"""The child: runs seed after seed of a scenario, in a planted copy, until something is wrong.

It tells, in lines of JSON, which schedule it begins, so that its parent knows in which one
it hangs or dies, and at last the result.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import aiolead
from aiolead.testing.simulation.run import load_scenario, simulate

from .aim import aimed
from .catalogue import by_name


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("scenario")
    options = parser.parse_args()
    if not Path(aiolead.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"{aiolead.__file__} is not the copy in {Path.cwd()}")
    scenario = load_scenario(options.scenario)
    aim = by_name(options.name).aim
    start = time.monotonic()
    seeds = 0
    for seeds in range(1, options.seeds + 1):
        schedule = aimed(options.first + seeds - 1, aim)
        say(began=schedule.seed, seeds=seeds, seconds=time.monotonic() - start)
        outcome = simulate(scenario, schedule=schedule, backend=options.backend)
        if outcome.violations:
            say(
                found=sorted({violation.invariant for violation in outcome.violations}),
                text=str(outcome.violations[0]).splitlines()[0],
                replay=outcome.replay_line,
                seeds=seeds,
                seconds=time.monotonic() - start,
            )
            return
        if time.monotonic() - start > 60 * options.minutes:
            break
    say(found=[], text="", replay="", seeds=seeds, seconds=time.monotonic() - start)


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
