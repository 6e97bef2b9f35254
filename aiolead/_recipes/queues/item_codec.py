"""The data of an item, in the format of Curator 5's `ItemSerializer`, big-endian. Pure.

    int   0x00010001                      the version
    byte  1, int length, bytes            a part; any number of them
    byte  2                               the end

Curator's `putMulti` writes several parts into one znode.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..._parsing import MalformedError

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
