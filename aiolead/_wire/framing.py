"""Frames: four bytes of length, then that many bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..errors import RemoteWireError

__all__ = ["DEFAULT_MAX_FRAME", "FrameReader", "frame"]

_LENGTH = struct.Struct(">i")

DEFAULT_MAX_FRAME = 0xFFFFF
"""The largest request that a server takes unless told otherwise, in bytes (`jute.maxbuffer`)."""


def frame(payload: bytes | bytearray) -> bytes:
    """The payload with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into frames, however it arrives.

    Args:
        max_frame: the largest frame that is accepted, in bytes; what is longer is refused as soon
            as its length is read, so that nobody can make us buffer more than this.
    """

    __slots__ = ("_buffer", "_max_frame")

    def __init__(self, max_frame: int) -> None:
        self._buffer = b""
        self._max_frame = max_frame

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields each frame that is complete now; to be exhausted before the next call.

        Raises:
            RemoteWireError: a length is negative or above the limit. The stream is beyond repair.
        """
        buffer = self._buffer + data if self._buffer else data
        # Kept also if the consumer stops early or raises: what was yielded is never yielded again.
        pos, size = 0, len(buffer)
        try:
            while size - pos >= 4:
                (length,) = _LENGTH.unpack_from(buffer, pos)
                if not 0 <= length <= self._max_frame:
                    raise RemoteWireError(
                        f"a frame of {length} bytes, where 0 to {self._max_frame} are allowed"
                    )
                end = pos + 4 + length
                if end > size:
                    break
                start, pos = pos + 4, end
                yield buffer[start:end]
        finally:
            self._buffer = buffer[pos:]
