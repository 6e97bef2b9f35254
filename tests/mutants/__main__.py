"""`python -m tests.mutants`: plants the bugs one by one, and publishes who has noticed."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from .catalogue import MUTANTS, by_name
from .catch import Hunt, hunt_truly, run_tests
from .model import Mutant
from .promises import function, selected, tests_of
from .results import BACKENDS, Results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones; all of them unless given")
    parser.add_argument("--list", action="store_true", help="list them, and plant none")
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds at most")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long at most, for each")
    parser.add_argument("--backend", choices=[*BACKENDS, "both", "none"], default="both")
    parser.add_argument("--no-tests", action="store_true", help="only simulate")
    parser.add_argument(
        "--promises", action="store_true", help="only with the tests that `make test` runs"
    )
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    parser.add_argument("--uncaught", action="store_true", help="only what was not caught yet")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--dry", action="store_true", help="publish nothing")
    options = parser.parse_args()
    mutants = [by_name(name) for name in options.names] or list(MUTANTS)
    if options.list:
        for mutant in mutants:
            say(f"{mutant.number:>4}  {mutant.name}: {mutant.wrong}")
        return 0
    results = Results()
    if options.promises:
        return _promises(mutants, results, options)
    work = [
        (mutant, way)
        for mutant in mutants
        for way in _ways(mutant, options)
        if _is_wanted(_last(results, mutant, way), options)
    ]
    uncaught = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {
            pool.submit(_search, mutant, way, options): (mutant, way) for mutant, way in work
        }
        for future in as_completed(futures):
            mutant, way = futures[future]
            found = future.result()
            uncaught += not found.caught
            say(f"{mutant.name}, {way}: {_told(found)}")
            if not options.dry:
                results.put(mutant.name, way, found)
    if not options.dry:
        results.publish()
    return 0


def _promises(mutants: list[Mutant], results: Results, options: argparse.Namespace) -> int:
    """Hunts with what `make test` selects; says what that does not catch."""
    nodes = selected()
    functions = {function(node) for node in nodes}
    uncaught = []
    for mutant in mutants:
        witness = results.witness(mutant.name)
        if options.missing and function(witness) in functions:
            continue
        tests = tests_of(mutant, nodes, witness)
        found = run_tests(mutant, tests) if tests else Hunt((), 0, 0.0)
        if not found.caught:
            uncaught.append(mutant.name)
        say(f"{mutant.name}, promises: {_told(found) if tests else 'NO TEST is selected'}")
        if not options.dry:
            results.put(mutant.name, "promises", found)
    if not options.dry:
        results.publish()
    say(f"{len(mutants)} planted bugs, {len(uncaught)} not caught: {', '.join(uncaught)}")
    return bool(uncaught)


def _last(results: Results, mutant: Mutant, way: str) -> Hunt | None:
    # What a test of `make test` has caught, it catches among all tests.
    known = results.by_tests(mutant.name) if way == "tests" else None
    return known or results.get(mutant.name, way)


def _is_wanted(found: Hunt | None, options: argparse.Namespace) -> bool:
    if found is None:
        return True
    return not options.missing and not (options.uncaught and found.caught)


def _ways(mutant: Mutant, options: argparse.Namespace) -> list[str]:
    ways: list[str] = []
    if options.backend != "none" and mutant.simulated:
        ways += BACKENDS if options.backend == "both" else [options.backend]
    if mutant.tests and not options.no_tests:
        ways.append("tests")
    return ways


def _search(mutant: Mutant, way: str, options: argparse.Namespace) -> Hunt:
    if way == "tests":
        return run_tests(mutant)
    return hunt_truly(mutant, way, options.seeds, first=options.first, minutes=options.minutes)


def _told(found: Hunt) -> str:
    if not found.caught:
        return f"NOT CAUGHT in {found.seeds} seeds, {found.seconds:.1f} s"
    count = f"{found.seeds} seeds, " if found.seeds else ""
    return f"{count}{found.seconds:.1f} s: {found.text}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
