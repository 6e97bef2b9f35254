"""The results of the hunts, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .catalogue import PROMISES
from .catch import Hunt
from .model import Mutant

BACKENDS = ("asyncio", "trio")


@dataclass(slots=True)
class Result:
    """The results of one planted bug.

    Attributes:
        stale: why it could not be planted; else "".
        hunts: by the way: `tests`, or the event loop that the simulation ran on.
    """

    stale: str = ""
    hunts: dict[str, Hunt] = field(default_factory=dict)

    def complaints(self, mutant: Mutant) -> list[str]:
        """The problems: the bug cannot be planted, or is not seen."""
        if self.stale:
            return [f"{mutant.name}: cannot be planted any more: {self.stale}"]
        found = []
        tests = self.hunts.get("tests")
        if tests is not None and not tests.caught:
            found.append(f"{mutant.name}: no test sees it. {tests.text}".strip())
        simulated = [self.hunts[each] for each in BACKENDS if each in self.hunts]
        if simulated and not any(hunt.caught for hunt in simulated):
            seeds = max(hunt.seeds for hunt in simulated)
            found.append(f"{mutant.name}: the simulation does not see it in {seeds} seeds")
        return found


def report(results: Mapping[str, Result]) -> str:
    """The bugs by the promise that they break, with what became of them."""
    lines = ["# Planted bugs", ""]
    for promise, mutants in PROMISES.items():
        rows = [_row(each, results[each.name]) for each in mutants if each.name in results]
        if rows:
            lines += [f"## {promise.rstrip('.')}", "", *HEAD, *rows, ""]
    known = [each for mutants in PROMISES.values() for each in mutants if each.name in results]
    lines += summary([(each, results[each.name]) for each in known])
    return "\n".join(lines) + "\n"


HEAD = ("| bug | seen in | simulation | test |", "|---|---|---|---|")


def _row(mutant: Mutant, result: Result) -> str:
    bug = f"**{mutant.name}**: {mutant.wrong}" + (f" {mutant.note}" if mutant.note else "")
    if result.stale:
        return f"| {bug} | {mutant.seen_in} | **cannot be planted** | {result.stale} |"
    simulated = "; ".join(
        f"{way}: {_simulated(result.hunts[way])}" for way in BACKENDS if way in result.hunts
    )
    tests = result.hunts.get("tests")
    return f"| {bug} | {mutant.seen_in} | {simulated or '-'} | {_tested(tests)} |"


def _simulated(hunt: Hunt) -> str:
    names = ", ".join(hunt.caught)
    return f"{names} (seed {hunt.seeds})" if names else f"not in {hunt.seeds}"


def _tested(hunt: Hunt | None) -> str:
    if hunt is None:
        return "-"
    return f"`{_short(hunt.caught[0])}` ({hunt.seconds:.0f} s)" if hunt.caught else "**not seen**"


def _short(name: str) -> str:
    """From `tests/test_a.py::test_b[c]` to `test_a.py::test_b`."""
    file, _, function = name.partition("::")
    return f"{Path(file).name}::{function.partition('[')[0]}" if function else name


def summary(results: Sequence[tuple[Mutant, Result]]) -> list[str]:
    """The sums, and a list of what is wrong."""
    stale = sum(bool(result.stale) for _, result in results)
    tested = [hunt for _, each in results if (hunt := each.hunts.get("tests")) is not None]
    seen = [
        any(each.hunts[way].caught for way in BACKENDS if way in each.hunts)
        for _, each in results
        if any(way in each.hunts for way in BACKENDS)
    ]
    complaints = [each for mutant, result in results for each in result.complaints(mutant)]
    sums = (
        f"{len(results)} planted bugs, {stale} of which cannot be planted any more. Tests: "
        f"{sum(bool(hunt.caught) for hunt in tested)} of {len(tested)} seen. Simulation: "
        f"{sum(seen)} of {len(seen)} seen."
    )
    return [sums, *(["", *(f"* {each}" for each in complaints)] if complaints else [])]
