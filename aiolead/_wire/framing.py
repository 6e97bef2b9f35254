"""Frames: four bytes of length, then that many bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..errors import RemoteWireError

__all__ = ["DEFAULT_MAX_FRAME", "FrameReader", "frame"]

_LENGTH = struct.Struct(">i")
_length_at = _LENGTH.unpack_from

_NOTHING = bytearray()
"""What is kept of a stream that stands between two frames. It never grows: see `feed`."""

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

    __slots__ = ("_kept", "_max_frame", "_needed")

    def __init__(self, max_frame: int) -> None:
        self._kept = _NOTHING
        self._max_frame = max_frame
        self._needed = 4

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._kept)

    @property
    def begun(self) -> bytes:
        """The first bytes of the payload of an unfinished frame, at most four, as far as known."""
        return bytes(self._kept[4:8])

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields each frame that is complete now; to be exhausted before the next call.

        Raises:
            RemoteWireError: a length is negative or above the limit. The stream is beyond repair.
        """
        if self._kept:
            # Grows in place and is looked at only when there is enough: else a long frame that
            # arrives in small pieces would be copied once for each of them.
            self._kept += data
            if len(self._kept) < self._needed:
                return
            data = bytes(self._kept)
        # Kept also if the consumer stops early or raises: what was yielded is never yielded again.
        pos, size, needed = 0, len(data), 4
        try:
            while size - pos >= 4:
                (length,) = _length_at(data, pos)
                if not 0 <= length <= self._max_frame:
                    raise RemoteWireError(
                        f"a frame of {length} bytes, where 0 to {self._max_frame} are allowed"
                    )
                end = pos + 4 + length
                if end > size:
                    needed = end - pos
                    break
                start, pos = pos + 4, end
                yield data[start:end]
        finally:
            self._kept = bytearray(data[pos:]) if pos < size else _NOTHING
            self._needed = needed
