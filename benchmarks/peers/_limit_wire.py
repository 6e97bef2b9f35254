"""The protocol, by hand: the few requests that workloads need, and the least that reads replies.

Nothing here is safe for anything but measuring: requests all have the same number, since replies
come in order; nothing is checked that the workloads do not need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

XID, EVENT, PING = 1, -1, -2
EPHEMERAL_SEQUENTIAL = 3

_INT = Struct(">i")
_HEAD = Struct(">iii")
_ACL = bytes.fromhex("00000001 0000001f") + b"\0\0\0\5world" + b"\0\0\0\6anyone"

FINE = bytes(4)
"""The code of no error, where replies have it."""

PINGED = _HEAD.pack(8, PING, 11)
GOODBYE = _HEAD.pack(8, XID, -11)


def hello(timeout: float, session: tuple[bytes, bytes] = (bytes(8), bytes(16))) -> bytes:
    """The handshake; `session` is the id and password of one to go on with."""
    number, password = session
    body = bytes(12) + _INT.pack(round(timeout * 1000)) + number + text(password) + b"\0"
    return _INT.pack(len(body)) + body


def text(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def create(path: bytes, data: bytes = b"", flags: int = 0) -> bytes:
    body = text(path) + text(data) + _ACL + _INT.pack(flags)
    return _HEAD.pack(len(body) + 8, XID, 1) + body


def delete(path: bytes) -> bytes:
    body = text(path) + b"\xff\xff\xff\xff"
    return _HEAD.pack(len(body) + 8, XID, 2) + body


def exists(path: bytes, watch: bool = False) -> bytes:
    body = text(path) + (b"\1" if watch else b"\0")
    return _HEAD.pack(len(body) + 8, XID, 3) + body


def get(path: bytes) -> bytes:
    body = text(path) + b"\0"
    return _HEAD.pack(len(body) + 8, XID, 4) + body


def put(path: bytes, data: bytes) -> bytes:
    body = text(path) + text(data) + b"\xff\xff\xff\xff"
    return _HEAD.pack(len(body) + 8, XID, 5) + body


def is_fine(reply: bytes) -> bool:
    """Whether a reply, without its length, is none of an error."""
    return reply[12:16] == FINE


def created(reply: bytes) -> bytes:
    """The path of a new znode."""
    return reply[20:]


def children(reply: bytes) -> int:
    """How many children a znode has, from the reply to `exists`."""
    count: int = _INT.unpack_from(reply, 16 + 56)[0]
    return count


class Future(Protocol):
    """Of either event loop."""

    def set_result(self, result: Any, /) -> None: ...

    def __await__(self) -> Any: ...


class _Batch:
    """Several replies that one task waits for."""

    __slots__ = ("_future", "_left", "_replies")

    def __init__(self, future: Future, count: int) -> None:
        self._future, self._left = future, count
        self._replies: list[bytes] = []

    def set_result(self, reply: bytes) -> None:
        self._replies.append(reply)
        self._left -= 1
        if not self._left:
            self._future.set_result(self._replies)


class Link:
    """A connection: what comes in answers what went out, in order.

    Args:
        make_future: of the event loop.
        write: sends bytes. What is sent while others wait for answers leaves at the end of the
            loop's turn, all in one go; with nobody waiting, at once.
        soon: has `flush` called at the end of the turn.
    """

    def __init__(
        self,
        make_future: Callable[[], Future],
        write: Callable[[bytes], None],
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._make_future, self._write, self._soon = make_future, write, soon
        self._waiting: deque[Any] = deque()
        self._rest = b""
        self._outgoing: list[bytes] = []
        self.errors = 0
        self.session = (bytes(8), bytes(16))
        self.welcome = make_future()
        self.watches: dict[bytes, Future] = {}
        self.is_lost = False
        self._is_welcome = False

    # --- out -----------------------------------------------------------------------------------

    def ask(self, request: bytes) -> Future:
        """Sends a request; awaiting the future gives the reply."""
        future = self._make_future()
        self._send(request)
        self._waiting.append(future)
        return future

    def ask_all(self, requests: bytes, count: int) -> Future:
        """Sends several; awaiting the future gives the list of replies."""
        future = self._make_future()
        self._send(requests)
        self._waiting.extend([_Batch(future, count)] * count)
        return future

    def burst(self, requests: bytes, count: int) -> Future:
        """Sends several; awaiting the future gives the last reply. Errors are only counted."""
        future = self._make_future()
        self._send(requests)
        self._waiting.extend([None] * (count - 1))
        self._waiting.append(future)
        return future

    def watch(self, path: bytes) -> Future:
        """The future of the event of a path, once the watch is set."""
        future = self.watches[path] = self._make_future()
        return future

    def ping(self) -> None:
        self._write(PINGED)

    def _send(self, data: bytes) -> None:
        if self.is_lost:
            raise ConnectionResetError("lost")
        if not self._waiting:
            self._write(data)
            return
        if not self._outgoing:
            self._soon(self.flush)
        self._outgoing.append(data)

    def flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if outgoing:
            self._write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    # --- in ------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, size, waiting, length = 0, len(data), self._waiting, _INT.unpack_from
        while size - at >= 8:
            end = at + 4 + length(data, at)[0]
            if end > size:
                break
            xid = length(data, at + 4)[0]
            if xid == XID:
                if data[at + 16 : at + 20] != FINE:
                    self.errors += 1
                waiter = waiting.popleft()
                if waiter is not None:
                    waiter.set_result(data[at + 4 : end])
            elif xid == EVENT:
                self.watches.pop(data[at + 32 : end]).set_result(None)
            elif xid != PING:
                # The answer to the handshake: the version, which is 0, timeout, id, password.
                self.session = data[at + 12 : at + 20], data[at + 24 : at + 40]
                self._welcomed()
            at = end
        self._rest = data[at:]

    def _welcomed(self) -> None:
        if not self._is_welcome:
            self._is_welcome = True
            self.welcome.set_result(None)

    def lose(self) -> None:
        """The connection has ended: every waiter gets an empty reply."""
        self.is_lost = True
        self._welcomed()
        waiting, self._waiting = self._waiting, deque()
        for waiter in dict.fromkeys(waiting):
            if isinstance(waiter, _Batch):
                waiter._future.set_result([])
            elif waiter is not None:
                waiter.set_result(b"")
