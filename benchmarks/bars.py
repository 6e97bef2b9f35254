"""The targets of aiolead, the workload that shows each, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .peers.registry import PEERS
from .results import Results

Read = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Check:
    """A number, and what it is to be.

    Attributes:
        read: finds it; None where it was not measured.
        sign: "<=" or ">=".
        bound: what it is compared with.
        unit: behind both.
        digits: behind the point.
    """

    read: Read
    sign: str
    bound: float
    unit: str
    digits: int = 2

    def is_met(self, number: float) -> bool:
        # The number as it is shown decides: 2.999 packets are not less than 3.
        shown = round(number, self.digits)
        return shown <= self.bound if self.sign == "<=" else shown >= self.bound

    def missed_by(self, number: float) -> str:
        """How far it is off, in words."""
        return f"{abs(number / self.bound - 1):.0%}" if self.bound else self.show(number)

    def show(self, number: float) -> str:
        return f"{number:,.{self.digits}f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of the table.

    Attributes:
        title: the work.
        where: the workloads that show it, and the setting.
        checks: all of them have to be met.
    """

    title: str
    where: str
    checks: tuple[Check, ...]


def _value(workload: str, key: str, *, setting: str = "standalone", peer: str = "aiolead") -> Read:
    return lambda results: results.median(setting, workload, peer, key)


def _over(upper: Read, lower: Read) -> Read:
    def ratio(results: Results) -> float | None:
        above, below = upper(results), lower(results)
        return None if above is None or not below else above / below

    return ratio


def _ratio(
    workload: str, key: str, to: str, *, setting: str = "standalone", peer: str = "aiolead"
) -> Read:
    mine = _value(workload, key, setting=setting, peer=peer)
    return _over(mine, _value(workload, key, setting=setting, peer=to))


def _least_of_rivals(workload: str, key: str, setting: str) -> Read:
    def least(results: Results) -> float | None:
        found = [
            results.median(setting, workload, kind.name, key)
            for kind in PEERS.values()
            if kind.is_rival
        ]
        return min((number for number in found if number is not None), default=None)

    return least


def _sum(*reads: Read) -> Read:
    def total(results: Results) -> float | None:
        found = [read(results) for read in reads]
        return None if None in found else sum(number for number in found if number is not None)

    return total


def _times(factor: float, read: Read) -> Read:
    def scaled(results: Results) -> float | None:
        number = read(results)
        return None if number is None else factor * number

    return scaled


def _in_each(reads: tuple[Read, ...], pick: Callable[[list[float]], float]) -> Read:
    """The worst of several."""

    def worst(results: Results) -> float | None:
        found = [read(results) for read in reads]
        there = [number for number in found if number is not None]
        return pick(there) if len(there) == len(found) else None

    return worst


def _at_least(read: Read, bound: float, unit: str, digits: int = 2) -> Check:
    return Check(read, ">=", bound, unit, digits)


def _at_most(read: Read, bound: float, unit: str, digits: int = 2) -> Check:
    return Check(read, "<=", bound, unit, digits)


_DELAY = "standalone+delay"
_RATE = "per_second"
_PIPELINED = ("create_per_second", "set_per_second", "get_per_second")


def _pipelined(to: str) -> Read:
    return _in_each(tuple(_ratio("pipelined", key, to) for key in _PIPELINED), min)


def _growth(key: str, few: str, many: str) -> Read:
    return _over(_value(many, key), _value(few, key))


_ROUND_TRIPS = _over(
    _value("sequential-get", _RATE, setting=_DELAY), _value("lock-cycles", _RATE, setting=_DELAY)
)
"""Of a lock cycle: what it takes, in what a read by the same peer takes."""


BARS = (
    Bar(
        "sequential reads, asyncio",
        "`sequential-get`, standalone",
        (
            _at_least(_ratio("sequential-get", _RATE, "limit"), 0.9, "x limit"),
            _at_least(_ratio("sequential-get", _RATE, "kazoo"), 1.8, "x kazoo"),
            _at_least(_ratio("sequential-get", _RATE, "aiozk"), 1.8, "x aiozk"),
            _at_most(_ratio("sequential-get", "cpu", "limit"), 1.5, "x limit's CPU"),
        ),
    ),
    Bar(
        "sequential reads, trio and uvloop",
        "`sequential-get`, standalone",
        tuple(
            _at_least(
                _ratio("sequential-get", _RATE, f"limit-{loop}", peer=f"aiolead-{loop}"),
                0.9,
                f"x limit on {loop}",
            )
            for loop in ("trio", "uvloop")
        ),
    ),
    Bar(
        "pipelined create, set and get, 1,000 deep",
        "`pipelined`, standalone; the least of the three",
        (
            _at_least(_pipelined("limit"), 0.9, "x limit"),
            _at_least(_pipelined("curator"), 1.3, "x warm Curator"),
        ),
    ),
    Bar(
        "uncontended lock cycles",
        "`lock-cycles`, standalone; round trips: what a cycle takes with the delay, in reads",
        (
            _at_least(_ratio("lock-cycles", _RATE, "limit"), 0.9, "x limit"),
            _at_least(_ratio("lock-cycles", _RATE, "curator"), 1.3, "x warm Curator"),
            _at_least(_ratio("lock-cycles", _RATE, "kazoo"), 3.0, "x kazoo"),
            _at_most(_value("lock-cycles", "requests"), 3, "requests"),
            _at_most(_ROUND_TRIPS, 2, "round trips", 0),
        ),
    ),
    Bar(
        "50 locks at once on one client",
        "`locks-at-once`, standalone",
        (
            _at_least(_ratio("locks-at-once", _RATE, "limit"), 0.85, "x limit"),
            _at_least(_ratio("locks-at-once", _RATE, "curator"), 2.0, "x warm Curator"),
        ),
    ),
    Bar(
        "hand-over, 10 contenders, with delay",
        f"`handover-10`, {_DELAY}",
        (
            _at_most(_ratio("handover-10", "latency", "limit", setting=_DELAY), 1.1, "x limit"),
            _at_most(
                _over(
                    _value("handover-10", "latency", setting=_DELAY),
                    _least_of_rivals("handover-10", "latency", _DELAY),
                ),
                0.55,
                "x the best peer",
            ),
        ),
    ),
    Bar(
        "hand-over, what a turn costs the server",
        "`handover-10`, standalone; bytes out with 50 contenders over those with 10",
        (
            _at_most(_value("handover-10", "requests"), 6, "requests"),
            _at_most(_value("handover-10", "packets_out"), 8, "packets out"),
            _at_most(_growth("bytes_out", "handover-10", "handover-50"), 1.1, "x the bytes"),
        ),
    ),
    Bar(
        "3,000 contenders on one session",
        "`crowd-3000`, standalone",
        (
            _at_most(_value("crowd-3000", "queue"), 0.6, "s to queue"),
            _at_most(_value("crowd-3000", "drain"), 0.6, "s to drain"),
            _at_most(_times(1e-6, _value("crowd-3000", "bytes_out")), 1, "MB from the server"),
            _at_most(_times(1e-3, _value("crowd-3000", "memory")), 4, "kB per waiter", 1),
        ),
    ),
    Bar(
        "10,000 contenders on one session; 1,000 sessions on one path",
        "`crowd-10000`, `sessions-1000`, standalone: bytes from the server per joining contender",
        (
            _at_most(_value("crowd-10000", "joining_bytes_out"), 1000, "B (10,000)", 0),
            _at_most(_value("sessions-1000", "joining_bytes_out"), 1000, "B (1,000 sessions)", 0),
        ),
    ),
    Bar(
        "1,000 idle waiters",
        "`idle-waiters`, standalone",
        (
            _at_most(_value("idle-waiters", "requests"), 0, "requests/s but pings"),
            _at_most(_times(100, _value("idle-waiters", "cpu")), 1, "% of a core"),
        ),
    ),
    Bar(
        "connect and first operation, with delay",
        f"`connect`, {_DELAY}",
        (_at_most(_ratio("connect", "connect", "limit", setting=_DELAY), 1.1, "x limit"),),
    ),
    Bar(
        "usable again after RST or FIN",
        "`recover-reset`, `recover-fin`, standalone",
        (
            _at_most(_times(1000, _value("recover-reset", "usable")), 20, "ms (RST)", 1),
            _at_most(_times(1000, _value("recover-fin", "usable")), 20, "ms (FIN)", 1),
        ),
    ),
    Bar(
        "resident memory: the library and one client, over an interpreter with anyio",
        "`memory`, standalone",
        (_at_most(_times(1e-6, _value("memory", "first")), 12, "MB", 1),),
    ),
)


def table(results: Results | None) -> str:
    """All bars, what was measured, and whether they are met."""
    lines = ["| workload | bar | measured by | measured | verdict |", "|---|---|---|---|---|"]
    for bar in BARS:
        asked = "; ".join(f"{check.sign} {check.bound:g} {check.unit}" for check in bar.checks)
        found = [None if results is None else check.read(results) for check in bar.checks]
        cells = [bar.title, asked, bar.where, _shown(bar, found), _verdict(bar, found)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(bar: Bar, found: list[float | None]) -> str:
    if set(found) == {None}:
        return ""
    pairs = zip(bar.checks, found, strict=True)
    return "; ".join("-" if number is None else check.show(number) for check, number in pairs)


def _verdict(bar: Bar, found: list[float | None]) -> str:
    known = [
        (check, number)
        for check, number in zip(bar.checks, found, strict=True)
        if number is not None
    ]
    missed = [(check, number) for check, number in known if not check.is_met(number)]
    if missed:
        return "; ".join(
            f"**missed** by {check.missed_by(number)} ({check.unit})" for check, number in missed
        )
    return "met" if len(known) == len(found) else "not measured"
