"""Whole packets: header and body, framed."""

from __future__ import annotations

import struct

from ..errors import LocalWireError
from .codes import XID_PING, OpCode
from .framing import frame
from .jute import Writer
from .records import Record
from .replies import ReplyHeader

_REQUEST_HEADER = struct.Struct(">iii")


def encode_body(request: Record) -> bytes:
    """A request without its header, encoded before the xid is known."""
    w = Writer()
    request.write(w)
    return bytes(w.buffer)


def encode_request(xid: int, op: int, body: bytes = b"") -> bytes:
    """A framed request."""
    try:
        return _REQUEST_HEADER.pack(len(body) + 8, xid, op) + body
    except struct.error:
        raise LocalWireError(f"xid {xid!r} or operation {op!r} does not fit in 32 bits") from None


def encode_reply(header: ReplyHeader, body: Record | None = None) -> bytes:
    """A framed reply; one with an error code has no body."""
    w = Writer()
    header.write(w)
    if body is not None:
        body.write(w)
    return frame(w.buffer)


def encode_record(record: Record) -> bytes:
    """A framed record without a header, such as the handshake's."""
    w = Writer()
    record.write(w)
    return frame(w.buffer)


PING = encode_request(XID_PING, OpCode.PING)
