"""Jute, ZooKeeper's serialisation: big-endian integers, and everything else behind its length.

Records are fields that follow each other, each with a type. Frames, four bytes of length and then
that many bytes, have packets in them: a header, and a record.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NamedTuple,
    NoReturn,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from ..errors import AnswerTooLargeError, LocalWireError, RemoteWireError, UnreadableTextError
from ..model import ACL, Permission, Stat
from .codes import XID_PING, OpCode

if TYPE_CHECKING:
    from .long_frames import LongFrame
    from .replies import ReplyHeader

T = TypeVar("T")

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_STAT = struct.Struct(">qqqqiiiqiiq")
_STAT_SIZE = _STAT.size
_NULL = _INT.pack(-1)
_int_at = _INT.unpack_from
_long_at = _LONG.unpack_from
_stat_at = _STAT.unpack_from
_make_stat: Callable[[tuple[Any, ...]], Stat] = partial(tuple.__new__, Stat)


def text_bytes(value: str) -> bytes:
    """A string behind its length."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise LocalWireError(f"{value!r} cannot be encoded as UTF-8") from None
    return _INT.pack(len(data)) + data


def java_text_bytes(value: str) -> bytes:
    """A string behind its length as servers write it: CESU-8.

    Java's strings are UTF-16, and jute encodes each half of a surrogate pair in three bytes. It
    reads UTF-8, which is what clients write.
    """
    halves = value.encode("utf-16-le", "surrogatepass")
    units = "".join(map(chr, struct.unpack(f"<{len(halves) // 2}H", halves)))
    data = units.encode("utf-8", "surrogatepass")
    return _INT.pack(len(data)) + data


def _decoded(data: bytes, pos: int, why: str) -> str:
    """A text that is no UTF-8, but may be CESU-8; raise `UnreadableTextError` if it is neither."""
    with suppress(UnicodeDecodeError):
        halves = data.decode("utf-8", "surrogatepass")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16")
    raise UnreadableTextError(f"a string that is not UTF-8: {why}", offset=pos)


def blob_bytes(value: bytes | None) -> bytes:
    """A byte string behind its length; None becomes Java's null."""
    return _NULL if value is None else _INT.pack(len(value)) + value


def int_bytes(value: int) -> bytes:
    """An integer of 32 bits."""
    try:
        return _INT.pack(value)
    except struct.error:
        raise LocalWireError(f"{value!r} does not fit in 32 bits with a sign") from None


def long_bytes(value: int) -> bytes:
    """An integer of 64 bits."""
    try:
        return _LONG.pack(value)
    except struct.error:
        raise LocalWireError(f"{value!r} does not fit in 64 bits with a sign") from None


class Writer:
    """Appends values to `buffer`; texts are encoded as by clients, or as by servers."""

    __slots__ = ("_text_bytes", "buffer")

    def __init__(self, text_bytes: Callable[[str], bytes] = text_bytes) -> None:
        self._text_bytes = text_bytes
        self.buffer: bytearray = bytearray()

    def i32(self, value: int) -> None:
        self.buffer += int_bytes(value)

    def i64(self, value: int) -> None:
        self.buffer += long_bytes(value)

    def flag(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def blob(self, value: bytes | None) -> None:
        self.buffer += blob_bytes(value)

    def text(self, value: str) -> None:
        self.buffer += self._text_bytes(value)

    def texts(self, values: Iterable[str]) -> None:
        items = list(values)
        self.i32(len(items))
        for item in items:
            self.text(item)

    def acls(self, acls: Iterable[ACL]) -> None:
        items = list(acls)
        self.i32(len(items))
        for acl in items:
            self.i32(acl.permissions)
            self.text(acl.scheme)
            self.text(acl.id)

    def stat(self, stat: Stat) -> None:
        try:
            self.buffer += _STAT.pack(*stat)
        except struct.error as error:
            raise LocalWireError(f"{stat!r} does not fit: {error}") from None

    def multi_header(self, op: int, error: int = -1, *, is_end: bool = False) -> None:
        """The header of each operation or result of a transaction, or of several reads."""
        self.i32(op)
        self.flag(is_end)
        self.i32(error)

    def multi_end(self) -> None:
        self.multi_header(-1, is_end=True)


MOST_ELEMENTS = 64 * 1024 * 1024 // 32
"""The most elements of a list of texts, unless the reader has another limit: see `Reader`."""

MOST_RECORDS = 10_000
"""The most elements of any other list: ACLs and identities, which people write."""

_HEADER = struct.Struct(">iqi")
_header_at = _HEADER.unpack_from

BYTES_AN_ELEMENT = 32
"""A list may have one element for so many bytes of the longest reply."""

HEADER_SIZE = _HEADER.size
"""Bytes of the header of a reply."""


class Reader:
    """Takes values off the front of a frame.

    Every length is checked before anything is allocated, and a list has at most `most_elements`,
    since a short text takes ten times its size in memory. All methods raise `RemoteWireError` if
    the frame is too short or a length invalid, and `AnswerTooLargeError` for too many elements.

    One reader reads all replies of a connection: to make one for each takes longer than its header.

    Attributes:
        xid, zxid, err: the header of the reply that was opened last; its body is read next.
    """

    __slots__ = ("_data", "_end", "_most_elements", "_pos", "err", "xid", "zxid")

    xid: int
    zxid: int
    err: int

    def __init__(self, data: bytes, pos: int = 0, *, most_elements: int = MOST_ELEMENTS) -> None:
        self._most_elements = most_elements
        self._data = data
        self._pos = pos
        self._end = len(data)

    def open(self, frame: bytes) -> None:
        """Begin with the next reply. Raises `RemoteWireError` if its frame is too short."""
        self._data, self._pos, self._end = frame, HEADER_SIZE, len(frame)
        try:
            self.xid, self.zxid, self.err = _header_at(frame)
        except struct.error:
            raise RemoteWireError(f"a reply of {len(frame)} bytes, without a header") from None

    def _take(self, size: int) -> int:
        """Move on by `size` bytes; return where they begin."""
        pos = self._pos
        self._pos = pos + size
        if self._pos > self._end:
            self._too_short(pos, size)
        return pos

    def _too_short(self, pos: int, size: int) -> NoReturn:
        self._pos = pos
        raise RemoteWireError(
            f"a value of {size} bytes where {self._end - pos} are left", offset=pos
        )

    @property
    def remaining(self) -> int:
        return self._end - self._pos

    def i32(self) -> int:
        pos = self._pos
        end = self._pos = pos + 4
        if end > self._end:
            self._too_short(pos, 4)
        value: int = _int_at(self._data, pos)[0]
        return value

    def i64(self) -> int:
        pos = self._pos
        end = self._pos = pos + 8
        if end > self._end:
            self._too_short(pos, 8)
        value: int = _long_at(self._data, pos)[0]
        return value

    def flag(self) -> bool:
        return self._data[self._take(1)] != 0

    def blob(self) -> bytes:
        """A byte string; Java's null comes as empty."""
        pos, end = self._pos, self._end
        start = pos + 4
        if start <= end:
            stop: int = start + _int_at(self._data, pos)[0]
            if start <= stop <= end:  # nearly always; the rest is null, or has an error
                self._pos = stop
                return self._data[start:stop]
        pos = self._take(self._length())
        return self._data[pos : self._pos]

    def blob_and_stat(self) -> tuple[bytes, Stat]:
        """The answer to the most frequent request, in one call."""
        data, start = self._data, self._pos + 4
        stop = self._end - _STAT_SIZE
        if start <= stop and start + _int_at(data, self._pos)[0] == stop:
            self._pos = self._end
            return data[start:stop], _make_stat(_stat_at(data, stop))
        return self.blob(), self.stat()

    def nullable_blob(self) -> bytes | None:
        pos = self._pos
        value = self.blob()
        return value if value or _int_at(self._data, pos)[0] != -1 else None

    def text(self) -> str:
        """A string; null comes as empty."""
        pos = self._pos
        data = self.blob()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            why = error.reason
        return _decoded(data, pos, why)

    def nullable_text(self) -> str | None:
        pos = self._pos
        value = self.text()
        return value if value or _int_at(self._data, pos)[0] != -1 else None

    def rest(self) -> bytes:
        pos, self._pos = self._pos, self._end
        return self._data[pos:]

    def texts(self) -> list[str]:
        """Strings, mostly the names of thousands of children: hence the loop without calls."""
        data, pos, found = self._data, self._pos, list[str]()
        try:
            (left,) = _int_at(data, pos)
            pos += 4
            if left > self._most_elements:
                return self.vector(4, Reader.text, self._most_elements)  # says why not
            while left > 0:
                start = pos + 4
                pos = start + _int_at(data, pos)[0]
                if not start <= pos <= self._end:
                    break
                found.append(data[start:pos].decode())
                left -= 1
        except (struct.error, UnicodeDecodeError):
            left = -1
        if left:
            # One by one: this accepts null, and its errors say what is wrong.
            return self.vector(4, Reader.text, self._most_elements)
        self._pos = pos
        return found

    def acls(self) -> tuple[ACL, ...]:
        return tuple(self.vector(12, Reader._acl))

    def _acl(self) -> ACL:
        return ACL(Permission(self.i32() & Permission.ALL), self.text(), self.text())

    def vector(self, least: int, read: Callable[[Reader], T], most: int = MOST_RECORDS) -> list[T]:
        """A counted list of at most `most` elements, which have at least `least` bytes."""
        pos = self._pos
        count = self._length()
        if count * least > self._end - self._pos:
            raise RemoteWireError(f"a list of {count} elements in a frame too short", offset=pos)
        if count > most:
            raise AnswerTooLargeError(f"a list of {count} elements, where {most} are allowed")
        return [read(self) for _ in range(count)]

    def multi(
        self,
        readers: Mapping[int, Callable[[Reader], T]],
        where: str,
        most: int | None = None,
        failed: Callable[[int], T] | None = None,
    ) -> list[tuple[int, T]]:
        """The records after multi headers, with operations; `RemoteWireError` without a reader.

        With more than `most` it ends early, one behind those. `failed` makes the record of an
        operation with an error code in its header, which ClickHouse Keeper sends without a body.
        """
        found: list[tuple[int, T]] = []
        while True:
            op, is_end, error = self.i32(), self.flag(), self.i32()
            if is_end or (most is not None and len(found) > most):
                return found
            if failed is not None and error and op > 0:
                found.append((op, failed(error)))
                continue
            if op not in readers:
                raise RemoteWireError(f"operation {op} {where}")
            found.append((op, readers[op](self)))

    def stat(self) -> Stat:
        pos = self._pos
        end = self._pos = pos + _STAT_SIZE
        if end > self._end:
            self._too_short(pos, _STAT_SIZE)
        return _make_stat(_stat_at(self._data, pos))

    def _length(self) -> int:
        pos = self._pos
        size = self.i32()
        if size < -1:
            raise RemoteWireError(f"the negative length {size}", offset=pos)
        return 0 if size == -1 else size


class WireType(NamedTuple):
    """How a field is written and read."""

    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]


I32 = WireType(Writer.i32, Reader.i32)
I64 = WireType(Writer.i64, Reader.i64)
FLAG = WireType(Writer.flag, Reader.flag)
BLOB = WireType(Writer.blob, Reader.blob)
NULLABLE_BLOB = WireType(Writer.blob, Reader.nullable_blob)
TEXT = WireType(Writer.text, Reader.text)
TEXTS = WireType(Writer.texts, Reader.texts)
ACLS = WireType(Writer.acls, Reader.acls)
STAT = WireType(Writer.stat, Reader.stat)

RecordLayout: TypeAlias = tuple[WireType, ...]
"""The types of the first fields of a record."""


R = TypeVar("R", bound="Record")


@dataclass_transform(field_specifiers=(field,))
def record(cls: type[R]) -> type[R]:
    """Make a record a dataclass, in a sixth of the time.

    Generating a comparison, a representation and a docstring for each of 35 classes takes longer
    than anything else in importing the library.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__
    return dataclass(slots=True, eq=False, repr=False)(cls)


class Record:
    """The base of the dataclasses on the wire.

    `layout` has the types of the first fields, in order. Classes write and read the rest. The most
    frequent requests make no `Writer`: `Create` has an `encode` of its own.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the fields, set by `dataclass`
    layout: ClassVar[RecordLayout] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [each.name for each in _fields(self) if each.compare]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # as of any dataclass that can change

    def __repr__(self) -> str:
        names = [each.name for each in _fields(self) if each.repr]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"

    def encode(self) -> bytes:
        w = Writer()
        self.write(w)
        return bytes(w.buffer)

    def write(self, w: Writer) -> None:
        for (write, _), name in zip(self.layout, self.__match_args__, strict=False):
            write(w, getattr(self, name))

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(*[read(r) for _, read in cls.layout])


def _fields(value: Any) -> tuple[Field[Any], ...]:
    return fields(value)


# --- frames --------------------------------------------------------------------------------------

_NOTHING = bytearray()
"""Kept between two frames. It never grows: see `feed`."""

DEFAULT_MAX_FRAME = 0xFFFFF
"""The largest request that a server takes by default, in bytes (`jute.maxbuffer`)."""


NO_LENGTH = 1 << 30
"""From here on it is not the length of an answer, but nonsense."""


def frame(payload: bytes | bytearray) -> bytes:
    """Put the length before the payload."""
    return _INT.pack(len(payload)) + payload


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
        if not self.kept and 0 <= length <= self._max_frame and _int_at(data)[0] == length:
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
                (length,) = _int_at(data, pos)
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
                from .long_frames import LongFrame  # it imports this module

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
