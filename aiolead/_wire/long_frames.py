"""Long answers, which are decoded in steps so that the event loop goes on.

A frame of more than `LONG` bytes is kept in the pieces in which it came, a `LongFrame`. Each step
decodes one piece and drops it: so there is no copy of the whole frame, and the memory of an answer
is that of its values. A function that decodes in steps is a generator that yields after each.
"""

from __future__ import annotations

import io
import struct
import sys
from collections import deque
from collections.abc import Generator
from typing import TypeVar

from ..errors import AnswerTooLargeError, RemoteWireError
from ..model import Stat
from ..paths import ListedPath, as_listed
from .codes import OpCode
from .jute import BYTES_AN_ELEMENT, Reader
from .replies import DataReply, ErrorResult, NamesReply, ReadResult

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Decodes one piece, and yields, until it returns the value."""

LONG = 256 * 1024
"""Frames of more bytes are decoded in steps. Fewer take some milliseconds."""

PIECE = 256 * 1024
"""The bytes of a piece, at least. As many, memory allocators return to the system at once."""

STEP = 64 * 1024
"""The most bytes of data that one step copies. It decodes as many names as have 32 bytes each."""

MEMORY = 3
"""An answer may take so many times the longest answer in memory."""

PLAIN = 2.92
"""Names in ASCII take at most so many bytes in memory for each of their bytes in a long answer, if
there are not more of them than there may be."""

MOST_MARKED = 64 * 1024
"""The most names that are marked as `ListedPath`, as many as fit in a short frame.

The garbage collector visits each of them: a million stop the process for 100 ms, several times."""

_STAT = 68
_MULTI_HEADER = 9
"""Bytes of a Stat, and of what comes before each of several results."""

_int_at = struct.Struct(">i").unpack_from


class LongFrame:
    """A frame in pieces.

    Attributes:
        size: its bytes so far.
        pieces: all except the one that grows.
    """

    __slots__ = ("_growing", "pieces", "size")

    def __init__(self, begin: bytes) -> None:
        self._growing = bytearray(begin)
        self.pieces: deque[bytes] = deque()
        self.size: int = len(begin)

    @property
    def begin(self) -> bytes:
        """The first bytes, at most four."""
        return bytes((self.pieces[0] if self.pieces else self._growing)[:4])

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._growing += data
        if len(self._growing) >= PIECE:
            self.finish()

    def finish(self) -> None:
        self.pieces.append(bytes(self._growing))
        self._growing.clear()

    def joined(self) -> bytes:
        """The whole frame, for answers of which no long ones are expected."""
        return b"".join(self.pieces)


class LongReader(Reader):
    """Reads a long frame, of which it has one piece at a time, or what one value needs.

    Its limits are those of all its lists together.
    """

    __slots__ = ("_markable", "_pieces", "_room")

    def __init__(self, frame: LongFrame, pos: int, most_elements: int) -> None:
        self._pieces = frame.pieces
        self._room = MEMORY * BYTES_AN_ELEMENT * most_elements - PLAIN * frame.size
        """The bytes that names which are no ASCII may take beyond what plain ones would."""
        self._markable = MOST_MARKED
        super().__init__(self._pieces.popleft(), pos, most_elements=most_elements)

    def _fill(self, size: int) -> None:
        """Have the next `size` bytes at hand, if the frame has so many."""
        left = self._end - self._pos
        if left >= size or not self._pieces:
            return
        parts = [self._data[self._pos :]]
        while left < size and self._pieces:
            parts.append(self._pieces.popleft())
            left += len(parts[-1])
        self._data = b"".join(parts)
        self._pos, self._end = 0, left

    def texts_in_steps(self) -> Steps[list[str]]:
        """As `texts`, with the names marked as by `as_listed`."""
        self._fill(4)
        left = self._length()
        if left * 4 > self.remaining + sum(map(len, self._pieces)):
            raise RemoteWireError(f"a list of {left} elements in a frame too short")
        if left > self._most_elements:
            raise AnswerTooLargeError(
                f"a list of {left} elements, where {self._most_elements} are allowed"
            )
        self._most_elements -= left
        names: list[str] = []
        while left:
            # All that are complete in this piece, in the loop of `Reader.texts`; then one at a time
            # what spans two of them, is null, or has an error.
            found = self._texts_at_hand(min(left, STEP // 32))
            if not found:
                self._fill(4)
                if self.remaining >= 4:
                    self._fill(4 + _int_at(self._data, self._pos)[0])
                found = [self.text()]
            found = as_listed(found)
            names += found
            if why := self._excess(found):
                yield from self._freed(names)
                raise AnswerTooLargeError(why)
            left -= len(found)
            yield
        return names

    def _excess(self, names: list[str]) -> str:
        """Why there may be no more names; empty while there may be."""
        for name in names:
            is_marked = type(name) is ListedPath
            if is_marked or not name.isascii():
                # A decoded string may have a third more than it needs. Then there are a reference
                # and the rest of a block.
                taken = sys.getsizeof(name) * 4 / 3 + 24
                self._room -= taken - PLAIN * (4 + len(name))
                self._markable -= is_marked
        if self._room < 0:
            return f"names that take more than {MEMORY} times the longest answer in memory"
        if self._markable < 0:
            return f"more than {MOST_MARKED} names that ZooKeeper would refuse"
        return ""

    def _freed(self, names: list[str]) -> Steps[None]:
        """Free the names and the rest of the frame: at once it would be a long step."""
        while names or self._pieces:
            del names[-(STEP // 32) :]
            if self._pieces:
                self._pieces.popleft()
            yield

    def _texts_at_hand(self, most: int) -> list[str]:
        data, pos, end, found = self._data, self._pos, self._end, list[str]()
        try:
            while most > len(found) and end - pos >= 4:
                start = pos + 4
                stop = start + _int_at(data, pos)[0]
                if not start <= stop <= end:
                    break
                found.append(data[start:stop].decode())
                pos = stop
        except UnicodeDecodeError:
            pass
        self._pos = pos
        return found

    def blob_in_steps(self) -> Steps[bytes]:
        """As `blob`."""
        self._fill(4)
        left = self._length()
        out = io.BytesIO()  # gives its bytes away without a copy
        while left:
            self._fill(1)
            if not self.remaining:
                self._take(left)  # says that they are missing
            pos = self._pos
            self._pos = stop = min(pos + left, self._end, pos + STEP)
            out.write(self._data[pos:stop])
            left -= stop - pos
            if left:
                yield
        return out.getvalue()

    def stat(self) -> Stat:
        self._fill(_STAT)
        return super().stat()

    def blob_and_stat_in_steps(self) -> Steps[tuple[bytes, Stat]]:
        data = yield from self.blob_in_steps()
        return data, self.stat()

    def texts_and_stat_in_steps(self) -> Steps[tuple[list[str], Stat]]:
        names = yield from self.texts_in_steps()
        return names, self.stat()

    def reads_in_steps(self, most: int) -> Steps[list[ReadResult]]:
        """As `MultiReadReply.read`."""
        found: list[ReadResult] = []
        while True:
            before = len(self._pieces)
            self._fill(_MULTI_HEADER)
            op, is_end, error = self.i32(), self.flag(), self.i32()
            if is_end or len(found) > most:
                return found
            if error and op > 0:
                found.append(ErrorResult(error))
            elif op == OpCode.GET_DATA:
                data = yield from self.blob_in_steps()
                found.append(DataReply(data, self.stat()))
            elif op == OpCode.GET_CHILDREN:
                found.append(NamesReply((yield from self.texts_in_steps())))
            elif op == OpCode.ERROR:
                self._fill(4)
                found.append(ErrorResult(self.i32()))
            else:
                raise RemoteWireError(f"operation {op} among the results of reads")
            if len(self._pieces) < before:
                yield
