"""`python -m tests.assurance.mutants`: plants the bugs one by one, and reports who notices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .catalogue import MUTANTS, by_name
from .catch import Hunt, hunt_truly, run_tests
from .model import Mutant, StaleMutantError
from .plant import mutated
from .results import BACKENDS, Result, report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.assurance.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones; by default all of them")
    parser.add_argument("--list", action="store_true", help="list them, and plant none")
    parser.add_argument("--check", action="store_true", help="only say which can be planted")
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds at most")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long at most, for each")
    parser.add_argument("--backend", choices=[*BACKENDS, "both", "none"], default="both")
    parser.add_argument("--no-tests", action="store_true", help="only simulate")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--report", type=Path, help="a file for the report, as it grows")
    options = parser.parse_args()
    mutants = [by_name(name) for name in options.names] or list(MUTANTS)
    if options.list:
        for mutant in mutants:
            say(f"{mutant.name}: {mutant.wrong}")
        return 0
    results = hunted(mutants, options)
    say(report(results))
    return any(results[each.name].complaints(each) for each in mutants)


def hunted(mutants: list[Mutant], options: argparse.Namespace) -> Mapping[str, Result]:
    """The results of the hunts, which are printed as they end."""
    results = {mutant.name: Result(stale=stale(mutant)) for mutant in mutants}
    if options.check:
        return results
    work = [
        (mutant, way)
        for mutant in mutants
        if not results[mutant.name].stale
        for way in _ways(mutant, options)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(_hunt, mutant, way, options): (mutant, way) for mutant, way in work}
        for future in as_completed(futures):
            mutant, way = futures[future]
            found = results[mutant.name].hunts[way] = future.result()
            say(f"{mutant.name}, {way}: {_told(found)}")
            if options.report is not None:
                options.report.write_text(report(results), "utf-8")
    return results


def stale(mutant: Mutant) -> str:
    """Why a bug cannot be planted any more; "" if it can."""
    try:
        mutated(mutant)
    except StaleMutantError as error:
        return str(error)
    return ""


def _ways(mutant: Mutant, options: argparse.Namespace) -> Iterator[str]:
    if not options.no_tests:
        yield "tests"
    if mutant.simulated and options.backend != "none":
        yield from BACKENDS if options.backend == "both" else [options.backend]


def _hunt(mutant: Mutant, way: str, options: argparse.Namespace) -> Hunt:
    if way == "tests":
        return run_tests(mutated(mutant), mutant.tests)
    return hunt_truly(mutant, way, options.seeds, first=options.first, minutes=options.minutes)


def _told(found: Hunt) -> str:
    if not found.caught:
        return f"NOT SEEN in {found.seeds} seeds, {found.seconds:.1f} s. {found.text}"
    count = f"{found.seeds} seeds, " if found.seeds else ""
    return f"{count}{found.seconds:.1f} s: {found.text}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
