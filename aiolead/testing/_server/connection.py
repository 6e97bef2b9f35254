"""One connection as the core sees it: what it has shown to be, and what is to be sent to it."""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from ..._wire.jute import FrameReader
from .acl import Identity
from .login import DigestLogin

HIGH_WATER = 1024 * 1024
"""With this many bytes unsent, no more requests of the connection are answered."""

MAX_UNSENT = 16 * 1024 * 1024
"""With this many bytes unsent, a connection that is sent more is given up: it does not read."""


class Closing(enum.Enum):
    """The fate of a connection once the core is done with it."""

    NO = enum.auto()
    FLUSH = enum.auto()
    """Close it after the queued bytes were sent."""
    NOW = enum.auto()
    """Close it at once; queued bytes are dropped."""


class Connection:
    """State of one connection. The core writes it, the shell takes what is to be sent.

    Attributes:
        address: of the client, as text.
        login: how far the client's SASL login is; None before it begins.
        session_id: 0 until the handshake is done.
        closing: whether, and how, the shell is to close it.
    """

    def __init__(
        self,
        address: str,
        max_frame: int,
        woken: dict[Connection, None],
        traffic: Traffic,
        identities: Sequence[Identity] = (),
    ) -> None:
        self.address = address
        self.session_id = 0
        self.timeout_ms = 0
        self.identities: list[Identity] = [*identities, ("ip", address)]
        self.login: DigestLogin | None = None
        self.closing: Closing = Closing.NO
        self.reader: FrameReader = FrameReader(max_frame)
        self.frames: Iterator[bytes] = iter(())
        self.opening = b""
        self.has_opened = False
        self.packets_in = 0
        self.packets_out: int = 0
        self.last_op = "NA"
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._woken = woken
        self._traffic = traffic

    @property
    def is_established(self) -> bool:
        return self.session_id != 0

    @property
    def is_full(self) -> bool:
        """Whether the client has to read before it gets more answers."""
        return self._unsent_bytes > HIGH_WATER

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def queue(self, data: bytes) -> None:
        """Adds to what is to be sent; the first word too many closes the connection instead."""
        if self.closing is not Closing.NO:
            return
        if self._unsent_bytes > MAX_UNSENT:
            self.close_now()
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self.packets_out += 1
        self._traffic.packets_out += 1
        self._woken[self] = None

    def take(self) -> bytes:
        """The bytes to send now, in one piece."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._traffic.bytes_out += len(data)
        return data

    def close_after_flush(self) -> None:
        if self.closing is Closing.NO:
            self.closing = Closing.FLUSH
            self._woken[self] = None

    def close_now(self) -> None:
        self.closing = Closing.NOW
        self._unsent.clear()
        self._unsent_bytes = 0
        self._woken[self] = None


class Traffic:
    """The traffic of a server in all of its life.

    Attributes:
        requests: how often each operation was asked for, by the name of its `OpCode`.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.packets_in = 0
        self.packets_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
