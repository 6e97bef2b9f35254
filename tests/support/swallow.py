"""A tap of `FaultProxy` that loses requests, and leaves their connection as it is.

As a server does that changes hands: it passes over a request, and answers what comes behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiolead._wire.codes import OpCode
from aiolead._wire.framing import FrameReader, frame
from aiolead._wire.jute import Reader
from aiolead._wire.requests import RequestHeader
from aiolead.testing._proxy.tap import Data, Piece


class Swallower:
    """Makes the taps of a proxy: `FaultProxy(..., tap=swallower.tap)`.

    Attributes:
        ops: which requests are lost; none, to begin with.
        count: how many of them are still to be lost.
        swallowed: how many were.
    """

    def __init__(self) -> None:
        self.ops: frozenset[int] = frozenset()
        self.count = 0
        self.swallowed = 0

    def swallow(self, *ops: OpCode, count: int = 1) -> None:
        """Loses the next requests of some kinds."""
        self.ops, self.count = frozenset(ops), count

    def tap(self) -> _Tap:
        return _Tap(self)

    def takes(self, op: int) -> bool:
        if self.count and op in self.ops:
            self.count -= 1
            self.swallowed += 1
            return True
        return False


class _Tap:
    def __init__(self, swallower: Swallower) -> None:
        self._swallower = swallower
        self._frames = FrameReader(1 << 26)
        self._opened = False

    def to_server(self, data: bytes) -> Iterator[Piece]:
        passing = bytearray()
        for message in self._frames.feed(data):
            if self._opened and self._swallower.takes(RequestHeader.read(Reader(message)).op):
                continue
            self._opened = True
            passing += frame(message)
        if passing:
            yield Data(bytes(passing))

    def to_client(self, data: bytes) -> Iterator[Piece]:
        yield Data(data)
