"""The curves: how time, memory and traffic grow with the number of something, and how fast."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .peers.registry import PEERS
from .results import Results
from .workloads import WORKLOADS
from .workloads.growth import SIZES
from .workloads.model import Column
from .workloads.threads import COUNTS

_DECADES = 100
"""The exponent is that of the sizes from a hundredth of the largest one: below it is the start."""

_SETTING = "standalone"


def exponent(sizes: Sequence[float], numbers: Sequence[float]) -> float:
    """The slope of numbers over sizes where both are logarithms: 1 is linear, 2 is quadratic."""
    return statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(number) for number in numbers]
    ).slope


@dataclass(frozen=True, slots=True)
class Series:
    """The times of one peer by size.

    Attributes:
        peer: whose.
        sizes: for which there are numbers.
        numbers: of each.
        exponent: of the larger sizes; None where there are not two of them.
    """

    peer: str
    sizes: list[int]
    numbers: list[float]

    @property
    def exponent(self) -> float | None:
        large = [
            (size, number)
            for size, number in zip(self.sizes, self.numbers, strict=True)
            if size * _DECADES >= self.sizes[-1] and number > 0
        ]
        return exponent(*zip(*large, strict=True)) if len(large) > 1 else None


@dataclass(frozen=True, slots=True)
class Curve:
    """A quantity that grows.

    Attributes:
        name: in the names of files.
        title: of its section.
        what: there are so many of.
        workloads: which one measures each size.
        keys: which of its columns are shown.
    """

    name: str
    title: str
    what: str
    workloads: dict[int, str]
    keys: tuple[str, ...]

    @property
    def values(self) -> list[Column]:
        """The columns that are shown."""
        columns = WORKLOADS[next(iter(self.workloads.values()))].columns
        return [column for column in columns if column.key in self.keys]

    @property
    def about(self) -> str:
        """The work."""
        return WORKLOADS[next(iter(self.workloads.values()))].about

    def series(self, results: Results, value: Column) -> Iterator[Series]:
        """By peer, as shown."""
        for peer in PEERS:
            found = {
                size: number * value.scale
                for size, name in self.workloads.items()
                if (number := results.median(_SETTING, name, peer, value.key)) is not None
            }
            if found:
                yield Series(peer, list(found), list(found.values()))


def _growth(name: str, title: str, *keys: str, what: str = "") -> Curve:
    return Curve(name, title, what or name, {n: f"{name}-{n}" for n in SIZES[name]}, keys)


_CROWD = ("queue", "drain", "joining_bytes_out", "memory")
_THREADS = ("per_second", "cpu")

CURVES = (
    Curve(
        "contenders",
        "Contenders on one session",
        "contenders",
        {n: f"crowd-{n}" for n in (1, 10, 100, 1000, 3000, 10_000)},
        _CROWD,
    ),
    Curve(
        "sessions",
        "Contenders with a session each",
        "sessions",
        {n: f"sessions-{n}" for n in (1, 10, 100, 1000, 3000)},
        _CROWD,
    ),
    Curve(
        "shared-sessions",
        "Contenders in 100 sessions",
        "contenders",
        {n: f"shared-{n}" for n in (100, 1000, 3000)},
        _CROWD,
    ),
    _growth("holds", "Locks that one client holds", "acquire", "release", "memory", what="locks"),
    _growth("watches", "Watches of one client", "set", "cpu", "memory"),
    _growth("tree", "A copy of a tree", "copy", "cpu", what="znodes"),
    _growth("observers", "Observers of an election", "first", "next"),
    _growth("items", "Items of a queue", "put", "take"),
    Curve(
        "reads-in-threads",
        "Reads in threads of one client",
        "threads",
        {n: f"threads-gets-{n}" for n in COUNTS},
        _THREADS,
    ),
    Curve(
        "locks-in-threads",
        "Lock cycles in threads of one client",
        "threads",
        {n: f"threads-locks-{n}" for n in COUNTS},
        _THREADS,
    ),
)


def section(curve: Curve, results: Results) -> str:
    """A table for each value: the peers, what each took by size, and its exponent."""
    parts = [f"## {curve.title}\n\n{curve.about}\n"]
    for value in curve.values:
        series = list(curve.series(results, value))
        if not series:
            continue
        sizes = sorted({size for each in series for size in each.sizes})
        head = [value.title, *(f"{size:,}" for size in sizes), "exponent"]
        lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for each in series:
            found = dict(zip(each.sizes, each.numbers, strict=True))
            cells = [_shown(found.get(size), value) for size in sizes]
            power = "" if each.exponent is None else f"{each.exponent:.2f}"
            lines.append(f"| {' | '.join([each.peer, *cells, power])} |")
        parts.append("\n".join(lines) + "\n")
    if len(parts) == 1:
        parts.append("Not measured in this run.\n")
    elif any(len(s.sizes) > 1 for value in curve.values for s in curve.series(results, value)):
        parts.append(f"![{curve.title}](curve-{curve.name}.svg)\n")
    return "\n".join(parts)


def _shown(number: float | None, value: Column) -> str:
    return "" if number is None else f"{number:,.{value.digits}f}"
