"""The children of a queue that no library recognizes, and the libraries that they disturb."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .._util.contender_names import known_name
from ..paths import sequence_of

__types__ = ["UnrecognizedChild", "unrecognized_children"]


@dataclass(frozen=True, slots=True)
class UnrecognizedChild:
    """An unrecognized child of a queue: its name is no known library's.

    Attributes:
        name: the child's name.
        blocks: the libraries whose contenders behind it wait as long as it exists.
        breaks: the libraries whose contenders fail when they see it.
    """

    name: str
    blocks: tuple[str, ...]
    breaks: tuple[str, ...]

    @property
    def is_harmless(self) -> bool:
        return not self.blocks and not self.breaks


def unrecognized_children(names: Iterable[str]) -> tuple[UnrecognizedChild, ...]:
    """The unrecognized children of a queue, and the libraries that they disturb.

    aiolead ignores a child without a number; others do not: a note left in a queue may block
    Curator forever. A child with a number is a contender to aiolead, whatever its name. If `exists`
    shows that no session owns it, delete it.

    Args:
        names: all children of the path, as `get_children` returns them.
    """
    names = list(names)
    unknown = sorted(name for name in names if known_name(name) is None)
    numbers = [sequence_of(name) or 0 for name in names if known_name(name) is not None]
    # The next contender gets a greater number than all that exist.
    behind = max(numbers, default=0) + 1
    return tuple(
        UnrecognizedChild(
            name,
            tuple(library for library, waits in _WAITS.items() if waits(name, behind)),
            tuple(library for library, fails in _FAILS.items() if fails(name)),
        )
        for name in unknown
    )


# --- what is in front of a contender with a given number -----------------------------------------


def _waits_by_number(name: str, behind: int) -> bool:
    """As aiolead and aiozk do: for any name that ends in a number."""
    sequence = sequence_of(name)
    return sequence is not None and sequence < behind


_CURATORS_MARKERS = ("lock-", "latch-", "__READ__", "__WRIT__")


def _curator_waits(name: str, behind: int) -> bool:
    """Sorts all children by the text after its marker, or by the whole name."""
    for marker in _CURATORS_MARKERS:
        _, found, after = name.rpartition(marker)
        if found:
            return after < f"{behind:010d}"
    return name < f"{behind:010d}"


def _go_number(name: str) -> int | None:
    """The number that go-zookeeper reads from a child's name."""
    for separator in ("lock-", "__"):
        if separator in name:
            return _int(name.rpartition(separator)[2])
    return _int(name)


def _go_waits(name: str, behind: int) -> bool:
    number = _go_number(name)
    return number is not None and number < behind


def _java_waits(name: str, behind: int) -> bool:
    """ZooKeeper's `WriteLock` in Java: the number after the last dash, which may be a sign."""
    before, dash, after = name.rpartition("-")
    if not dash:
        return False
    number = _int(f"-{after}" if before.endswith("-") else after)
    return number is not None and number < behind


def _c_waits(name: str, behind: int) -> bool:
    """The same in C: the text after the last dash."""
    return "-" in name and name.rpartition("-")[2] < f"{behind:010d}"


_INTEGER = "[+-]?[0-9]{1,19}"


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(_INTEGER, text) else None


_WAITS: dict[str, Callable[[str, int], bool]] = {
    "aiolead": _waits_by_number,
    "aiozk": _waits_by_number,
    "Curator": _curator_waits,
    "go-zookeeper": _go_waits,
    "ZooKeeper's WriteLock": _java_waits,
    "ZooKeeper's lock in C": _c_waits,
}

_FAILS: dict[str, Callable[[str], bool]] = {
    # `Lock()` returns the error of `Atoi`, and leaves its own znode behind.
    "go-zookeeper": lambda name: _go_number(name) is None,
    # It reads on from where there is no dash.
    "ZooKeeper's lock in C": lambda name: "-" not in name,
}
