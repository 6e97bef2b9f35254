"""Runs simulated schedules and checks their traces: `lease_traces` and `queue_traces`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from aiolead.testing.simulation.loops import Backend
from aiolead.testing.simulation.run import Scenario, load_scenario

R = TypeVar("R")

SCENARIOS = ("contend", "crowd", "lockset")


def check_schedules(
    program: str,
    checked: Callable[[Scenario, int, Backend], tuple[R, list[str], list[str]]],
    counted: Callable[[R], Mapping[str, int]],
) -> int:
    """Run the schedules that the command line asks for, and print what is wrong.

    Args:
        program: the module, for the help.
        checked: runs a schedule: its trace, what the specification does not allow, and what the
            history's invariants find.
        counted: the counts of a trace.

    Returns:
        The exit code: 1 if anything is wrong.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--seeds", type=int, default=100, help="of each scenario and event loop")
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(args.first, args.first + args.seeds):
        for name in SCENARIOS:
            scenario = load_scenario(f"tests/assurance/simulation/scenarios.py:{name}")
            for backend in ("asyncio", "trio"):
                trace, found, others = checked(scenario, seed, backend)
                counts.update({"schedules": 1, **counted(trace)})
                for each in (*found, *others):
                    wrong += 1
                    sys.stdout.write(f"{name} {seed} {backend}: {each}\n")
    totals = ", ".join(f"{count} {what}" for what, count in counts.items())
    sys.stdout.write(f"{totals}: {wrong} wrong\n")
    return bool(wrong)
