"""One connection through a fault proxy: two sockets, and what passes between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .tap import Break, Data, Direction, Hold, How, Journal, Piece, Tap

__all__ = ["Faults", "Link", "close_with_reset"]

_CHUNK = 1 << 16
_QUEUED_CHUNKS = 64
_DRAIN_SECONDS = 10.0
_LINGER_ZERO = struct.pack("ii", 1, 0)
_BOTH: tuple[Direction, Direction] = ("to_server", "to_client")


@dataclass(slots=True)
class _Cut:
    """How much may still pass before a connection is cut."""

    remaining: int
    how: How


@dataclass(slots=True)
class Faults:
    """The standing faults of a proxy, which all of its links obey."""

    random: random.Random
    open: dict[Direction, asyncio.Event] = field(default_factory=dict)
    delays: dict[Direction, tuple[float, float]] = field(default_factory=dict)
    cuts: dict[Direction, _Cut] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for direction in _BOTH:
            self.open[direction] = asyncio.Event()
            self.open[direction].set()

    def cut_after(self, size: int, direction: Direction, how: How) -> None:
        self.cuts[direction] = _Cut(size, how)

    def delay(self, direction: Direction) -> float:
        """How long the next chunk takes, in seconds."""
        seconds, jitter = self.delays.get(direction, (0.0, 0.0))
        return seconds + jitter * self.random.random()


@dataclass(frozen=True, slots=True)
class _Due:
    """A piece, and the time on the loop's clock before which it does not pass."""

    time: float
    piece: Piece


_Queue = asyncio.Queue[_Due | None]
"""None is the end of the stream."""


class Link:
    """A client's connection and the one to the server that belongs to it.

    For each direction one task reads, has the tap look at what came, and queues it; another one
    waits until it may pass, and sends it. So bytes in flight keep their distance under a delay.

    Args:
        client: the socket that was accepted.
        server: the socket to the server; None for a link that leads nowhere.
        tap: the tap that divides bytes into pieces.
        faults: shared with the proxy's other links.
        journal: where it is noted what passed.
    """

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket | None,
        tap: Tap,
        faults: Faults,
        journal: Journal,
    ) -> None:
        self._client, self._server = client, server
        self._tap, self._faults, self._journal = tap, faults, journal
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[How] = self._loop.create_future()
        self._severed = asyncio.Event()
        self._muted = server is None
        for each in self._sockets():
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def is_muted(self) -> bool:
        """Whether it has fallen silent for good."""
        return self._muted

    @property
    def is_severed(self) -> bool:
        """Whether it has ended and both ends were notified."""
        return self._severed.is_set()

    def cut(self, how: How) -> None:
        """Orders the end of the link; `severed` returns when both ends were notified.

        `"silence"` keeps it: nothing passes any more, and neither end learns of it.
        """
        if how == "silence":
            self._muted = True
        elif not self._end.done():
            self._end.set_result(how)

    async def severed(self) -> None:
        """Wait until both ends were notified of the end."""
        await self._severed.wait()

    async def run(self) -> None:
        """Passes bytes until the link ends.

        Raises:
            Exception: a defect of the proxy; an error of a socket only ends the connection.
        """
        pumps = [] if self._server is None else self._start(self._client, self._server)
        how: How = "reset"
        try:
            how = await self._end
        finally:
            for pump in pumps:
                pump.cancel()
            # Before any socket is closed: a late reader would watch the next owner of its number.
            await asyncio.gather(*pumps, return_exceptions=True)
            if how == "fin":
                self._shut_down()
            else:
                self._close(close_with_reset)
            self._severed.set()
        if how == "fin":
            try:
                await self._drain()
            finally:
                self._close(socket.socket.close)

    def _start(self, client: socket.socket, server: socket.socket) -> list[asyncio.Task[None]]:
        up, down = _Queue(_QUEUED_CHUNKS), _Queue(_QUEUED_CHUNKS)
        senders = [
            self._pump(self._send("to_server", up, server)),
            self._pump(self._send("to_client", down, client)),
        ]
        readers = [
            self._pump(self._read("to_server", client, up)),
            self._pump(self._read("to_client", server, down)),
        ]

        def end_when_both_have(_: object) -> None:
            if all(sender.done() for sender in senders):
                self.cut("fin")

        for sender in senders:
            sender.add_done_callback(end_when_both_have)
        return senders + readers

    def _pump(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._note_defect)
        return task

    def _note_defect(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) and not self._end.done():
            self._end.set_exception(error)

    async def _read(self, direction: Direction, source: socket.socket, queue: _Queue) -> None:
        inspect = self._tap.to_server if direction == "to_server" else self._tap.to_client
        due = 0.0
        while True:
            try:
                data = await self._loop.sock_recv(source, _CHUNK)
            except OSError:
                # A reset travels like bytes do, and is delayed or held like them.
                await queue.put(_Due(due, Break("reset")))
                return
            # No chunk overtakes an earlier one, whatever the jitter.
            due = max(due, self._loop.time() + self._faults.delay(direction))
            if not data:
                await queue.put(None)
                return
            for piece in inspect(data):
                await queue.put(_Due(due, piece))

    async def _send(self, direction: Direction, queue: _Queue, sink: socket.socket) -> None:
        while (item := await queue.get()) is not None:
            await asyncio.sleep(max(item.time - self._loop.time(), 0.0))
            await self._may_pass(direction)
            match item.piece:
                case Data() as data:
                    await self._pass(direction, data, sink)
                case Hold(verdict):
                    how = await verdict()
                    if how is not None:
                        await self._stop(how)
                    await self._may_pass(direction)
                case Break(how):
                    await self._stop(how)
        await self._may_pass(direction)
        with contextlib.suppress(OSError):  # The other end is gone already.
            sink.shutdown(socket.SHUT_WR)

    async def _pass(self, direction: Direction, piece: Data, sink: socket.socket) -> None:
        data, requests = piece.data, piece.requests
        cut = self._faults.cuts.get(direction)
        if cut is not None:
            if len(data) > cut.remaining:
                data, requests = data[: cut.remaining], ()
            cut.remaining -= len(data)
        try:
            await self._loop.sock_sendall(sink, data)
        except OSError:
            # The end that we send to is gone; the other one learns of it, if anything gets there.
            await self._may_pass("to_client" if direction == "to_server" else "to_server")
            await self._stop("reset")
        self._journal.passed(direction, len(data), requests)
        if cut is not None and cut.remaining == 0:
            self._faults.cuts.pop(direction, None)
            await self._stop(cut.how)

    async def _may_pass(self, direction: Direction) -> None:
        await self._faults.open[direction].wait()
        if self._muted:
            await self._stop("silence")

    async def _stop(self, how: How) -> NoReturn:
        """Ends the link, or has it fall silent; pieces that waited to pass are dropped."""
        self.cut(how)
        await self._loop.create_future()
        raise AssertionError("a pump that has stopped only ends by being cancelled")

    def _shut_down(self) -> None:
        for each in self._sockets():
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_WR)

    async def _drain(self) -> None:
        """Waits until the ends close, too, for some seconds.

        Closing at once would reset the connection wherever something was sent but not read.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                for each in self._sockets():
                    with contextlib.suppress(OSError):
                        while await self._loop.sock_recv(each, _CHUNK):
                            pass

    def _close(self, close: Callable[[socket.socket], None]) -> None:
        for each in self._sockets():
            close(each)

    def _sockets(self) -> list[socket.socket]:
        return [self._client] if self._server is None else [self._client, self._server]


def close_with_reset(each: socket.socket) -> None:
    """Closes a socket such that its peer sees "connection reset"."""
    with contextlib.suppress(OSError):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    each.close()
