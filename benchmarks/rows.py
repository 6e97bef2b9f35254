"""The rows of the comparison: what is measured where, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .peers.registry import PEERS
from .results import Results


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table, and of the chart.

    Attributes:
        title: the quantity, with its unit.
        setting: where it is measured.
        workload: by which workload.
        key: which of its values.
        better: whether more or less of it is better.
        scale: its factor.
        digits: behind the point.
    """

    title: str
    setting: str
    workload: str
    key: str
    better: Literal["more", "less"]
    scale: float = 1.0
    digits: int = 0

    @property
    def short(self) -> str:
        """The title without the unit."""
        return self.title.rpartition(", ")[0]


_ALONE = "standalone"
_DELAY = "standalone+delay"

ROWS = (
    Row("uncontended lock, cycles/s", _ALONE, "lock-cycles", "per_second", "more"),
    Row("CPU per lock cycle, µs", _ALONE, "lock-cycles", "cpu", "less", 1e6),
    Row("sequential get, 1/s", _ALONE, "sequential-get", "per_second", "more"),
    Row("pipelined get, 1/s", _ALONE, "pipelined", "get_per_second", "more"),
    Row("pipelined create, 1/s", _ALONE, "pipelined", "create_per_second", "more"),
    Row("pipelined set, 1/s", _ALONE, "pipelined", "set_per_second", "more"),
    Row("50 locks at once, cycles/s", _ALONE, "locks-at-once", "per_second", "more"),
    Row("hand-over, 10 contenders, network, ms", _DELAY, "handover-10", "latency", "less", 1e3, 2),
    Row("3,000 contenders queue, s", _ALONE, "crowd-3000", "queue", "less", 1, 2),
    Row("3,000 contenders drain, s", _ALONE, "crowd-3000", "drain", "less", 1, 2),
    Row("RST to usable, ms", _ALONE, "recover-reset", "usable", "less", 1e3, 1),
    Row("FIN to usable, ms", _ALONE, "recover-fin", "usable", "less", 1e3, 1),
    Row("connect and first answer, network, ms", _DELAY, "connect", "connect", "less", 1e3, 2),
)

PLACES = {(row.setting, row.workload) for row in ROWS}
"""The rows that are always measured, however long they take."""

OURS = ("aiolead", "aiolead-uvloop", "aiolead-trio")
COMPARED = ("limit", "kazoo", "aiozk", "curator", "go")
"""The peers that aiolead on asyncio is compared with, in the order of the columns."""


def median(results: Results, row: Row, peer: str) -> float | None:
    """Of all rounds; None where nothing was measured."""
    return results.median(row.setting, row.workload, peer, row.key)


def ratio(results: Results, row: Row, other: str, mine: str = OURS[0]) -> float | None:
    """How many times better ours is than the other; below 1, it is worse."""
    ours, theirs = median(results, row, mine), median(results, row, other)
    if not ours or not theirs:
        return None
    return ours / theirs if row.better == "more" else theirs / ours


def cell(results: Results, row: Row, peer: str) -> str:
    """The median, half the spread of the rounds in percent of it, and the ratio."""
    number = median(results, row, peer)
    if number is None:
        return ""
    values = results.values(row.setting, row.workload, peer, row.key)
    shown = f"{number * row.scale:,.{row.digits}f}"
    if len(values) > 1 and number:
        shown += f" ±{(max(values) - min(values)) / 2 / number:.0%}"
    mine = peer if peer in OURS else OURS[0]
    against = PEERS[peer].limit if peer in OURS else peer
    found = ratio(results, row, against, mine)
    if found is None:
        return shown
    return f"{shown} ({found:.2f})" if peer in OURS else f"{shown} **{found:.2f}**"
