"""Workloads and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from ..driver import Driver
from ..peers.registry import PeerKind
from ..site import ALL_SETTINGS, Setting, Site

Values = dict[str, Any]
"""The results of a sample: numbers by name, and lists of numbers for distributions."""

Scale = Literal["full", "quick", "tiny"]
"""How much: all of it, a few minutes, or a look whether everything works."""

ALONE = ("standalone",)
QUICK = ("limit", "aiolead", "kazoo", "aiozk", "curator")
EVERY_LOOP = (*QUICK, "limit-uvloop", "limit-trio", "aiolead-uvloop", "aiolead-trio")
EVERYWHERE = tuple(ALL_SETTINGS)
ON_THE_PAGE = ("standalone", "standalone+delay")
"""One server, no disk: where the comparison and the bars are read."""

ONCE = 1
"""Rounds of what takes long, and of curves, where the sizes are what differs."""

WITHOUT_FSYNC = tuple(name for name, setting in ALL_SETTINGS.items() if not setting.fsync)


@dataclass(frozen=True, slots=True)
class Column:
    """One of the values, in a table.

    Attributes:
        key: its name among the values.
        title: the quantity, with its unit.
        digits: behind the point.
        better: whether more or less of it is better; None where it only explains.
        scale: its factor in the table.
    """

    key: str
    title: str
    digits: int = 0
    better: Literal["more", "less"] | None = None
    scale: float = 1.0


class Take:
    """One sample that is being taken.

    Attributes:
        site: the servers.
        driver: the peer's process.
        size: how much of it, in what the workload counts.
    """

    def __init__(self, site: Site, driver: Driver, size: int, others: ExitStack) -> None:
        self.site = site
        self.driver = driver
        self.size = size
        self._others = others

    def another(self) -> Driver:
        """One more process of the same peer, until the sample is taken."""
        return self._others.enter_context(Driver(self.driver.kind))


def everybody(_: PeerKind) -> bool:
    return True


def lean(kind: PeerKind) -> bool:
    """Peers that do not list all for all, which takes gigabytes at the largest sizes."""
    return kind.library in ("limit", "aiolead")


def warm(kind: PeerKind) -> bool:
    """Peers that are not just started each time."""
    return not kind.is_cold


def in_loop(kind: PeerKind) -> bool:
    """Peers that run on an event loop that can be measured."""
    return kind.loop in ("asyncio", "trio")


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that every peer does.

    Attributes:
        name: on the command line.
        title: in tables.
        about: the work and the counts, in a sentence or two.
        measure: takes a sample.
        columns: the columns of its table; the ratios are those of the first one.
        sizes: how much of it, by scale.
        settings: where, at full scale.
        quick_settings: where, at the quick scale; nowhere by default.
        peers: a function that chooses the peers.
        quick_peers: the same for the quick scale.
        is_fresh: whether each sample takes a process of its own.
        most_rounds: how often it is done at most: once, where it takes long and is exact.
        is_of_threads: whether it is for peers with threads, and for `aiolead.blocking`.
        is_of_loops: whether it is done on uvloop and trio, too, where the bars are read.
        options: for the peer's host.
        seconds: the time of a sample at full scale, about; for the time that is left.
        slow: the same for libraries that take much longer.
        delayed: how many times less of it there is behind the network's delay.
        is_warmed: whether peers do it once for nothing first.
        is_curve: whether it is a point of a curve, and not a table of its own.
    """

    name: str
    title: str
    about: str
    measure: Callable[[Take], Values]
    columns: tuple[Column, ...]
    sizes: Mapping[Scale, int]
    settings: tuple[str, ...] = EVERYWHERE
    quick_settings: tuple[str, ...] = ()
    peers: Callable[[PeerKind], bool] = field(default=everybody)
    quick_peers: tuple[str, ...] = QUICK
    is_fresh: bool = False
    is_of_loops: bool = False
    is_of_threads: bool = False
    most_rounds: int = 99
    options: tuple[str, ...] = ()
    seconds: float = 2.0
    slow: Mapping[str, float] = field(default_factory=dict)
    delayed: int = 1
    is_warmed: bool = True
    is_curve: bool = False

    @property
    def family(self) -> str:
        """Workloads that run the same code: a peer that did one of them is warm for the others."""
        return self.name.partition("-")[0]

    def size(self, scale: Scale, setting: Setting) -> int:
        """How much of it is done there."""
        return max(self.sizes[scale] // (self.delayed if setting.delay else 1), 1)

    def guess(self, scale: Scale, library: str = "") -> float:
        """The time of a sample at a scale, about, in seconds."""
        return self.slow.get(library, self.seconds) * self.sizes[scale] / self.sizes["full"]


COUNTED = (
    Column("requests", "requests", 2),
    Column("packets_out", "packets out", 2),
    Column("bytes_in", "bytes in"),
    Column("bytes_out", "bytes out"),
)
"""Values that the servers count."""
