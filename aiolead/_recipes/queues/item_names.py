"""The names of items, their order, and when they are due. Pure.

The names are Curator's: `queue-`, what the type of queue adds, and the number that the server
appends. Children with other names are foreign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ..._escaping import described
from ...errors import ConfigurationError

LAST_SEQUENCE = 0x7FFF_FFFF

Key = tuple[int, int]
"""Sort key of items: priority or due time, then the number."""


@dataclass(frozen=True, slots=True)
class ItemNames:
    """First come, first served: `queue-` and the number.

    Attributes:
        marker: what names begin with.
    """

    marker: str = "queue-"

    is_strict: ClassVar[bool] = False
    """Whether a later item may have to be handed out before those that are there."""

    def key(self, name: str) -> Key | None:
        """The sort key of an item; None for a foreign child."""
        number = _number(name, self.marker)
        return None if number is None else (0, number)

    def due(self, key: Key) -> float | None:
        """When an item may be handed out, in seconds since the epoch; None: at any time."""
        return None


@dataclass(frozen=True, slots=True)
class PriorityNames(ItemNames):
    """The smallest priority first: `queue-`, `1` (`0` if it is negative), 8 hexadecimal digits."""

    is_strict: ClassVar[bool] = True

    def prefix(self, priority: int) -> str:
        """The name without the number.

        Raises:
            ConfigurationError: the priority does not fit into a Java `int`.
        """
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
    """The earliest first: `queue-|`, when in hexadecimal milliseconds since the epoch, `|`."""

    is_strict: ClassVar[bool] = True

    def prefix(self, at: float) -> str:
        """The name without the number.

        Args:
            at: when the item is due, in seconds since the epoch.

        Raises:
            ConfigurationError: Curator could not read the time.
        """
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
    """The number that makes up the rest of a name; None if something else does."""
    if not name.startswith(before, start):
        return None
    match = _NUMBER.fullmatch(name, start + len(before))
    return None if match is None else int(match[0])
