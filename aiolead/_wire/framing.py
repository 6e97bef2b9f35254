"""Frames, four bytes of length and then that many bytes, and the packets in them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import cast

from ..errors import LocalWireError, RemoteWireError
from .codes import XID_PING, OpCode
from .jute import Record, Writer, java_text_bytes
from .long_frames import LongFrame
from .replies import ReplyHeader

__all__ = ["DEFAULT_MAX_FRAME", "FrameReader", "frame", "other_protocol"]

_LENGTH = struct.Struct(">i")
_length_at = _LENGTH.unpack_from

_NOTHING = bytearray()
"""Kept between two frames. It never grows: see `feed`."""

DEFAULT_MAX_FRAME = 0xFFFFF
"""The largest request that a server takes by default, in bytes (`jute.maxbuffer`)."""


NO_LENGTH = 1 << 30
"""From here on it is not the length of an answer, but nonsense."""


def frame(payload: bytes | bytearray) -> bytes:
    """Put the length before the payload."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into frames.

    A frame of more than `max_frame` bytes is refused as soon as its length is read, which bounds
    what is buffered.

    With `long`, a frame of more than so many bytes comes as a `LongFrame`.

    Attributes:
        kept: the first bytes of an unfinished frame, with its length; of a long one only that.
        is_too_long: whether a frame was refused that may be what somebody has asked for.
    """

    __slots__ = (
        *("_has_begun", "_long", "_longest", "_max_frame", "_needed"),
        *("is_too_long", "kept"),
    )

    def __init__(self, max_frame: int, *, long: int | None = None) -> None:
        self._longest = max_frame if long is None else long
        self._long: LongFrame | None = None
        self.kept: bytearray = _NOTHING
        self.is_too_long: bool = False
        self._max_frame = max_frame
        self._needed = 4
        self._has_begun = False  # after a first frame it is the right protocol

    @property
    def buffered(self) -> int:
        return len(self.kept) if self._long is None else 4 + self._long.size

    @property
    def begun(self) -> bytes:
        """The first bytes of an unfinished frame's payload, at most four."""
        return bytes(self.kept[4:8]) if self._long is None else self._long.begin

    def feed(self, data: bytes) -> Iterator[bytes]:
        """As `frames`, for a reader without `long`."""
        return cast("Iterator[bytes]", self.frames(data))

    def frames(self, data: bytes) -> Iterator[bytes | LongFrame]:
        """Return the complete frames; exhaust the iterator before the next call.

        It raises `RemoteWireError` if a length is negative or above the limit: the connection is
        then useless. For a stream's first length, the error says what protocol it looks like.
        """
        length = len(data) - 4
        if not self.kept and 0 <= length <= self._max_frame and _length_at(data)[0] == length:
            # One whole frame, as nearly always for a lone request: no generator, which would take
            # as long as the rest of this.
            self._has_begun = True
            return iter((data[4:],))
        return self._split(data)

    def _split(self, data: bytes) -> Iterator[bytes | LongFrame]:
        if (long := self._long) is not None:
            missing = self._needed - 4 - long.size
            long.add(data[:missing])
            if len(data) < missing:
                return
            long.finish()
            self._long = None
            data = data[missing:]
        elif self.kept:
            # Grows in place and is read only when complete: else a long frame in small pieces would
            # be copied once per piece.
            self.kept += data
            if len(self.kept) < self._needed:
                return
            data = bytes(self.kept)
        # Also if the consumer stops early or raises: no frame is yielded twice.
        pos, size, needed = 0, len(data), 4
        try:
            if long is not None:
                yield long
                del long  # its pieces are freed as they are decoded
            while size - pos >= 4:
                (length,) = _length_at(data, pos)
                if not 0 <= length <= self._max_frame:
                    if not self._has_begun and (other := other_protocol(data[pos:])):
                        raise RemoteWireError(f"this is not ZooKeeper's protocol: {other}")
                    self.is_too_long = self._max_frame < length < NO_LENGTH
                    hint = "" if self._has_begun else f": {_WRONG_PORT}"
                    raise RemoteWireError(
                        f"a frame of {length} bytes, where 0 to {self._max_frame} are allowed{hint}"
                    )
                end = pos + 4 + length
                if end > size:
                    needed = end - pos
                    break
                start, pos = pos + 4, end
                self._has_begun = True
                yield data[start:end]
        finally:
            if needed - 4 > self._longest:
                self._long = LongFrame(data[pos + 4 :])
                self.kept = bytearray(data[pos : pos + 4])
            else:
                self.kept = bytearray(data[pos:]) if pos < size else _NOTHING
            self._needed = needed


_TLS_RECORDS = frozenset(range(0x14, 0x18))
"""The first bytes of TLS records; the second byte is 3."""

_WRONG_PORT = "is this the port of a ZooKeeper server?"

_SHOWN = 40


def other_protocol(begin: bytes) -> str | None:
    """The protocol of a stream that begins with these four or more bytes; None if unknown."""
    if begin[0] in _TLS_RECORDS and begin[1] == 3:
        return "it is TLS: a port for TLS, spoken to in plain text? Connect with tls="
    if not all(0x20 <= byte < 0x7F for byte in begin[:4]):
        return None
    line = re.split(rb"[^\x20-\x7e]", begin, maxsplit=1)[0].decode("ascii")
    said = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
    kind = next((kind for start, kind in _GREETINGS.items() if said.startswith(start)), "a text")
    return f"it is {kind}, beginning with {said!r}: {_WRONG_PORT}"


_GREETINGS = {"HTTP/": "an answer of an HTTP server", "SSH-": "the greeting of an SSH server"}


request_header = struct.Struct(">iii").pack
"""Packs what comes before a request's body: `REQUEST_HEADER` plus its length, xid and operation."""

REQUEST_HEADER = 8
"""Bytes of a request's header, which count towards the packet limit."""


def encode_request(xid: int, op: int, body: bytes = b"") -> bytes:
    """A framed request."""
    try:
        return request_header(len(body) + REQUEST_HEADER, xid, op) + body
    except struct.error:
        raise LocalWireError(f"xid {xid!r} or operation {op!r} does not fit in 32 bits") from None


def encode_reply(header: ReplyHeader, body: Record | None = None) -> bytes:
    """A framed reply, as servers write it; one with an error code has no body."""
    w = Writer(java_text_bytes)
    header.write(w)
    if body is not None:
        body.write(w)
    return frame(w.buffer)


def encode_record(record: Record) -> bytes:
    """A framed record without a header, such as the handshake's."""
    return frame(record.encode())


PING = encode_request(XID_PING, OpCode.PING)
