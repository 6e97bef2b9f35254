"""The names and the data of items, in the formats of Curator. Pure.

The names are `queue-`, a part that depends on the type of queue, and the number that the server
appends. Other children are foreign. The data are those of Curator 5's `ItemSerializer`, big-endian:

    int   0x00010001                      the version
    byte  1, int length, bytes            a part; any number of them
    byte  2                               the end

Curator's `putMulti` writes several parts into one znode.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import ClassVar

from ..._util.escaping import described
from ..._util.parsing import MalformedError
from ...errors import ConfigurationError

LAST_SEQUENCE = 0x7FFF_FFFF

Key = tuple[int, int]
"""Sort key: priority or due time, then the number."""


class ItemNames:
    """First come, first served: `marker` and the number."""

    is_strict: ClassVar[bool] = False
    """Whether a later item may have to be handed out first."""
    _rank: ClassVar[str] = "()"
    """The part between marker and number; its group is the rank in hexadecimal."""

    def __init__(self, marker: str = "queue-") -> None:
        self._marker = marker
        pattern = f"{re.escape(marker)}{self._rank}" + r"(-?\d{9,10})"
        self._name = re.compile(pattern, re.ASCII)

    def key(self, name: str) -> Key | None:
        """The sort key of an item; None for a foreign child."""
        match = self._name.fullmatch(name)
        return None if match is None else (int(match[1] or "0", 16), int(match[2]))

    def due(self, key: Key) -> float | None:
        """When an item is due, in seconds since the epoch; None: at any time."""
        return None


class PriorityNames(ItemNames):
    """Smallest priority first: `queue-`, `1` (`0` if negative), 8 hexadecimal digits, number."""

    is_strict = True
    _rank = "([01][0-9A-F]{8})"

    def prefix(self, priority: int) -> str:
        """The name without its number; raises `ConfigurationError` if it is no Java `int`."""
        whole = isinstance(priority, int) and not isinstance(priority, bool)
        if not whole or not -(2**31) <= priority < 2**31:
            raise ConfigurationError(
                f"priority: must be a whole number from -2^31 to 2^31 - 1, not "
                f"{described(priority)}"
            )
        return f"{self._marker}{int(priority >= 0)}{priority & 0xFFFF_FFFF:08X}"


class DelayNames(ItemNames):
    """Earliest first: `queue-|`, due time in hexadecimal ms since the epoch, `|`, number."""

    is_strict = True
    _rank = r"\|([0-9A-F]{8,13})\|"

    def prefix(self, at: float) -> str:
        """The name without its number; raises `ConfigurationError` unless Curator can read it."""
        number = isinstance(at, (int, float)) and not isinstance(at, bool)
        if not number or not 0.001 <= at < 2**40:
            raise ConfigurationError(
                f"at: must be seconds since the epoch, as `time.time()` gives, not {described(at)}"
            )
        return f"{self._marker}|{round(at * 1000):08X}|"

    def due(self, key: Key) -> float | None:
        return key[0] / 1000


VERSION = 0x0001_0001
PART, END = 1, 2

_VERSION = struct.Struct(">I")
_PART = struct.Struct(">Bi")


def encode(parts: Sequence[bytes]) -> bytes:
    """Encode an item with these parts."""
    body = bytearray(_VERSION.pack(VERSION))
    for part in parts:
        body += _PART.pack(PART, len(part)) + part
    body.append(END)
    return bytes(body)


def decode(body: bytes) -> tuple[bytes, ...]:
    """Decode an item; raises ValueError. Bytes behind the end are ignored, as by Curator."""
    if len(body) < _VERSION.size:
        raise MalformedError(f"{len(body)} bytes are too few for an item")
    (version,) = _VERSION.unpack_from(body)
    if version != VERSION:
        raise MalformedError(f"the version is 0x{version:08x}, not 0x{VERSION:08x}")
    at = _VERSION.size
    parts: list[bytes] = []
    while True:
        if at >= len(body):
            raise MalformedError("the end is missing")
        if body[at] == END:
            return tuple(parts)
        if body[at] != PART:
            raise MalformedError(f"there is no part of the kind {body[at]}, at byte {at}")
        if at + _PART.size > len(body):
            raise MalformedError("it is truncated")
        _, size = _PART.unpack_from(body, at)
        at += _PART.size
        if not 0 <= size <= len(body) - at:
            raise MalformedError(f"a part has the length {size}, with {len(body) - at} bytes left")
        parts.append(body[at : at + size])
        at += size
