"""Checks the specifications: `python -m tests.assurance.spec [--small] [MODULE ...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter

from .checks import Check, PlantedError, Specification
from .specifications import SPECIFICATIONS
from .tlc import Outcome, TlcError, TlcNotFoundError, check, plant, steps
from .verdict import check_complaints, plant_complaints

LINE = "{:62} {:>10} {:>6} {:>9}  {}"
RESULTS = {True: "all as expected", False: "NOT AS EXPECTED"}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.assurance.spec", description=__doc__)
    parser.add_argument("--small", action="store_true", help="only the checks of `make test-all`")
    parser.add_argument("--no-planted", action="store_true", help="without the planted errors")
    parser.add_argument("module", nargs="*", help="specifications; all by default")
    args = parser.parse_args()
    chosen = [each for each in SPECIFICATIONS if not args.module or each.module in args.module]
    say(LINE.format("specification", "states", "depth", "time", "result"))
    is_right = True
    began = perf_counter()
    for specification in chosen:
        for each in specification.checks:
            if each.is_small or not args.small:
                is_right &= _check(specification, each)
        for error in () if args.no_planted else specification.planted:
            is_right &= _plant(specification, error)
    say(LINE.format("total", "", "", f"{perf_counter() - began:.1f} s", RESULTS[is_right]))
    return not is_right


def _check(specification: Specification, each: Check) -> bool:
    return _report(
        each.cfg,
        lambda: check(specification, each),
        lambda outcome: check_complaints(each, outcome),
        "no violation",
    )


def _plant(specification: Specification, error: PlantedError) -> bool:
    return _report(
        f"  {error.name}",
        lambda: plant(specification, error),
        lambda outcome: plant_complaints(error, outcome),
        f"{error.violates}: counterexample",
    )


def _report(
    name: str,
    search: Callable[[], Outcome],
    complaints: Callable[[Outcome], list[str]],
    expected: str,
) -> bool:
    try:
        outcome = search()
    except TlcError as error:
        say(f"{name}: {error}")
        return False
    wrong = complaints(outcome)
    depth = len(outcome.trace) or outcome.depth
    result = "; ".join(wrong).upper() if wrong else expected
    say(LINE.format(name, f"{outcome.states:,}", depth, f"{outcome.seconds:.1f} s", result))
    if wrong:
        say("\n".join(steps(outcome)))
    return not wrong


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TlcNotFoundError as error:
        sys.exit(str(error))
