"""How a proxy interprets passing bytes: ZooKeeper's messages, and the rules about them.

A tap turns what was read from one end of a link into pieces for the other end. It does no I/O.
"""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ..._wire.codes import XID_EVENT, OpCode
from ..._wire.jute import FrameReader, frame
from ...errors import RemoteWireError

__all__ = [
    "Break",
    "Data",
    "Direction",
    "Hold",
    "How",
    "Journal",
    "Loss",
    "MessageTap",
    "Piece",
    "RawTap",
    "Rule",
    "Tap",
    "Verdict",
]

Direction = Literal["to_server", "to_client"]
How = Literal["reset", "fin", "silence"]
"""How a connection ends."""

Loss = How | Literal["skip"]
"""The fate of the connection of a lost message; `"skip"`: the messages behind it pass."""

_HEAD = struct.Struct(">ii")

# Far above what a server takes, far below what the first bytes of anything else would mean.
_MAX_FRAME = 1 << 26


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes to pass on, and the requests that are in them."""

    data: bytes
    requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Break:
    """The connection is to end here, or to fall silent."""

    how: How


class Verdict(Protocol):
    """A decision, still to be made elsewhere, about a message that is held back."""

    async def __call__(self) -> How | None:
        """Waits for the decision: how to end the link, or None to let the message pass."""
        ...


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is to pass from here on until there is a verdict."""

    verdict: Verdict


Piece = Data | Break | Hold


@dataclass(eq=False, slots=True)
class Rule:
    """How to treat the next `count` messages of some kinds.

    Attributes:
        how: the fate of the connection.
        after: how many messages of these kinds pass first.
        verdict: decides about them later; without one they are dropped.
    """

    direction: Direction
    ops: Collection[int]
    count: int
    how: Loss = "reset"
    after: int = 0
    verdict: Verdict | None = None

    def takes(self, direction: Direction, op: int) -> bool:
        """Whether the rule is about this message; if so, it has one less to go."""
        if self.count == 0 or direction != self.direction or op not in self.ops:
            return False
        if self.after:
            self.after -= 1
            return False
        self.count -= 1
        return True


class Journal:
    """The record of the traffic, to be read or waited for. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests = Counter[int]()
        self._bytes = Counter[str]()
        self._connections = 0

    def connected(self) -> None:
        with self._changed:
            self._connections += 1
            self._changed.notify_all()

    def passed(self, direction: Direction, size: int, requests: Collection[int] = ()) -> None:
        with self._changed:
            self._bytes[direction] += size
            self._requests.update(requests)
            self._changed.notify_all()

    @property
    def connections(self) -> int:
        return self._connections

    @property
    def requests(self) -> Counter[str]:
        with self._changed:
            return Counter({_name(op): count for op, count in self._requests.items()})

    @property
    def bytes(self) -> Counter[str]:
        with self._changed:
            return self._bytes.copy()

    def wait_for_request(self, ops: Collection[int], count: int, timeout: float) -> bool:
        """Blocks until so many requests of these kinds were seen; whether they came in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: sum(self._requests[op] for op in ops) >= count, timeout
            )


class Tap(Protocol):
    """One link's view of what passes through it."""

    def to_server(self, data: bytes) -> Iterator[Piece]: ...

    def to_client(self, data: bytes) -> Iterator[Piece]: ...


class RawTap:
    """Passes everything on as it came."""

    def to_server(self, data: bytes) -> Iterator[Piece]:
        yield Data(data)

    def to_client(self, data: bytes) -> Iterator[Piece]:
        yield Data(data)


@dataclass(slots=True)
class _Stream:
    """One direction of a link."""

    frames: FrameReader = field(default_factory=lambda: FrameReader(_MAX_FRAME))
    pending: bytes = b""
    """The bytes of an unfinished frame, as they came."""
    opened: bool = False
    """Whether the handshake has passed."""


class MessageTap:
    """Cuts a ZooKeeper link into messages and applies the rules.

    A message passes when all of it is there. Bytes of another protocol, such as a four-letter
    command or TLS, pass unchanged.

    Args:
        rules: shared by all links, in the order in which they were given; the first that takes a
            message decides about it.
        journal: where dropped requests are noted; passed ones are, when they are.
    """

    def __init__(self, rules: list[Rule], journal: Journal) -> None:
        self._rules = rules
        self._journal = journal
        self._up, self._down = _Stream(), _Stream()
        self._ops: dict[int, int] = {}
        self._foreign = False

    def to_server(self, data: bytes) -> Iterator[Piece]:
        passing, requests = bytearray(), list[int]()
        for message in self._messages(self._up, data):
            op = self._request_op(message)
            rule = self._rule("to_server", op)
            if rule is None:
                passing += frame(message)
                requests.append(op)
                continue
            if rule.how == "skip":
                self._journal.passed("to_server", 0, [op])
                continue
            if passing:
                yield Data(bytes(passing), tuple(requests))
            self._journal.passed("to_server", 0, [op])
            yield Break(rule.how)
            return
        passing += self._leftover(self._up)
        if passing:
            yield Data(bytes(passing), tuple(requests))

    def to_client(self, data: bytes) -> Iterator[Piece]:
        passing = bytearray()
        for message in self._messages(self._down, data):
            rule = self._rule("to_client", self._reply_op(message))
            if rule is not None:
                if rule.how == "skip":
                    continue
                if passing:
                    yield Data(bytes(passing))
                    passing.clear()
                if rule.verdict is None:
                    yield Break(rule.how)
                    return
                yield Hold(rule.verdict)
            passing += frame(message)
        passing += self._leftover(self._down)
        if passing:
            yield Data(bytes(passing))

    def _messages(self, stream: _Stream, data: bytes) -> Iterator[bytes]:
        stream.pending += data
        consumed = 0
        try:
            if not self._foreign:
                for message in stream.frames.feed(data):
                    consumed += len(message) + 4
                    yield message
        except RemoteWireError:
            self._foreign = True
        finally:
            stream.pending = stream.pending[consumed:]

    def _leftover(self, stream: _Stream) -> bytes:
        if not self._foreign:
            return b""
        rest, stream.pending = stream.pending, b""
        return rest

    def _request_op(self, message: bytes) -> int:
        if not self._up.opened:
            self._up.opened = True
            return OpCode.CREATE_SESSION
        if len(message) < _HEAD.size:
            return OpCode.ERROR
        xid, op = _HEAD.unpack_from(message)
        self._ops[xid] = op
        return int(op)

    def _reply_op(self, message: bytes) -> int:
        if not self._down.opened:
            self._down.opened = True
            return OpCode.CREATE_SESSION
        if len(message) < _HEAD.size:
            return OpCode.ERROR
        xid, _ = _HEAD.unpack_from(message)
        if xid == XID_EVENT:
            return OpCode.NOTIFICATION
        # The reserved xids, of pings for instance, are used again and again.
        if xid < 0:
            return self._ops.get(xid, OpCode.ERROR)
        return self._ops.pop(xid, OpCode.ERROR)

    def _rule(self, direction: Direction, op: int) -> Rule | None:
        return next((rule for rule in self._rules if rule.takes(direction, op)), None)


def _name(op: int) -> str:
    try:
        return OpCode(op).name
    except ValueError:
        return str(op)
