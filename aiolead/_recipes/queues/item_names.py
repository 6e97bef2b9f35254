"""The names of items, their order, and when they are due. Pure.

The names are Curator's: `queue-`, a part that depends on the type of queue, and the number that the
server appends. Other children are foreign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ..._escaping import described
from ...errors import ConfigurationError

LAST_SEQUENCE = 0x7FFF_FFFF

Key = tuple[int, int]
"""Sort key: priority or due time, then the number."""


@dataclass(frozen=True, slots=True)
class ItemNames:
    """First come, first served: `marker` and the number."""

    marker: str = "queue-"

    is_strict: ClassVar[bool] = False
    """Whether a later item may have to be handed out first."""

    def key(self, name: str) -> Key | None:
        """The sort key of an item; None for a foreign child."""
        number = _number(name, self.marker)
        return None if number is None else (0, number)

    def due(self, key: Key) -> float | None:
        """When an item is due, in seconds since the epoch; None: at any time."""
        return None


@dataclass(frozen=True, slots=True)
class PriorityNames(ItemNames):
    """Smallest priority first: `queue-`, `1` (`0` if negative), 8 hexadecimal digits, number."""

    is_strict: ClassVar[bool] = True

    def prefix(self, priority: int) -> str:
        """The name without its number; raises `ConfigurationError` if it is no Java `int`."""
        whole = isinstance(priority, int) and not isinstance(priority, bool)
        if not whole or not -(2**31) <= priority < 2**31:
            raise ConfigurationError(
                f"priority: must be a whole number from -2^31 to 2^31 - 1, not "
                f"{described(priority)}"
            )
        return f"{self.marker}{int(priority >= 0)}{priority & 0xFFFF_FFFF:08X}"

    def key(self, name: str) -> Key | None:
        match = _PRIORITY.match(name, len(self.marker)) if name.startswith(self.marker) else None
        number = None if match is None else _number(name, match[0], match.start())
        if match is None or number is None:
            return None
        return int(match[0], 16), number


@dataclass(frozen=True, slots=True)
class DelayNames(ItemNames):
    """Earliest first: `queue-|`, due time in hexadecimal ms since the epoch, `|`, number."""

    is_strict: ClassVar[bool] = True

    def prefix(self, at: float) -> str:
        """The name without its number; raises `ConfigurationError` unless Curator can read it."""
        number = isinstance(at, (int, float)) and not isinstance(at, bool)
        if not number or not 0.001 <= at < 2**40:
            raise ConfigurationError(
                f"at: must be seconds since the epoch, as `time.time()` gives, not {described(at)}"
            )
        return f"{self.marker}|{round(at * 1000):08X}|"

    def key(self, name: str) -> Key | None:
        match = _TIME.match(name, len(self.marker)) if name.startswith(self.marker) else None
        number = None if match is None else _number(name, match[0], match.start())
        if match is None or number is None:
            return None
        return int(match[1], 16), number

    def due(self, key: Key) -> float | None:
        return key[0] / 1000


_PRIORITY = re.compile(r"[01][0-9A-F]{8}", re.ASCII)
_TIME = re.compile(r"\|([0-9A-F]{8,13})\|", re.ASCII)
_NUMBER = re.compile(r"-?\d{9,10}", re.ASCII)


def _number(name: str, before: str, start: int = 0) -> int | None:
    """The number that is the rest of a name; None if the rest is anything else."""
    if not name.startswith(before, start):
        return None
    match = _NUMBER.fullmatch(name, start + len(before))
    return None if match is None else int(match[0])
