"""The child: runs seed after seed of the scenarios, in a planted copy, until something is wrong.

It tells, in lines of JSON, which schedule it begins, so that whoever started it knows in which one
it hangs or dies, and at last what it found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import aiolead
from aiolead.testing.simulation.run import load_scenario, simulate
from aiolead.testing.simulation.schedule import Schedule


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("scenarios", nargs="+")
    options = parser.parse_args()
    here = Path.cwd()
    if not Path(aiolead.__file__).is_relative_to(here):
        raise SystemExit(f"{aiolead.__file__} is not the copy in {here}")
    scenarios = [(name, load_scenario(name)) for name in options.scenarios]
    start = time.monotonic()
    count = 0
    for seed in range(options.first, options.first + options.seeds):
        for name, scenario in scenarios:
            say(began=seed, scenario=name, seconds=time.monotonic() - start)
            count += 1
            outcome = simulate(scenario, schedule=Schedule.of(seed), backend=options.backend)
            if outcome.violations:
                first = outcome.violations[0]
                say(
                    caught=sorted({violation.invariant for violation in outcome.violations}),
                    text=str(first),
                    replay=outcome.replay_line,
                    seed=seed,
                    scenario=name,
                    schedules=count,
                    seconds=time.monotonic() - start,
                )
                return
        if time.monotonic() - start > 60 * options.minutes:
            break
    say(clean=seed + 1 - options.first, schedules=count, seconds=time.monotonic() - start)


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
