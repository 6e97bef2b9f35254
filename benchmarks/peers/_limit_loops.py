"""The least that brings bytes from a socket to a `Link` and back: asyncio (or uvloop), trio."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from ._limit_wire import Link

_READ = 1 << 18

Close = Callable[[], None]
Dial = Callable[[str, int, bytes], Awaitable[tuple[Link, Close]]]
"""Connects to a host and port, and sends the first bytes."""


# --- asyncio -------------------------------------------------------------------------------------


class _Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.link: Link

    def connection_made(self, transport: Any) -> None:
        self.link = Link(self._loop.create_future, transport.write, self._loop.call_soon)

    def data_received(self, data: bytes) -> None:
        self.link.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.link.lose()


async def dial_asyncio(host: str, port: int, first: bytes) -> tuple[Link, Close]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Protocol, host, port)
    transport.write(first)
    return protocol.link, transport.abort


# --- trio ----------------------------------------------------------------------------------------


def dial_trio(tasks: Any) -> Dial:
    """Args: tasks: the nursery, or task group, for one reader and one writer of each link."""
    import trio

    park, reschedule = trio.lowlevel.wait_task_rescheduled, trio.lowlevel.reschedule
    current_task = trio.lowlevel.current_task

    class Slot:
        """A future, as little as it can be."""

        __slots__ = ("_is_done", "_result", "_task")

        def __init__(self) -> None:
            self._is_done, self._task = False, None

        def set_result(self, result: Any) -> None:
            self._is_done, self._result = True, result
            if self._task is not None:
                task, self._task = self._task, None
                reschedule(task)

        def __await__(self) -> Generator[Any, Any, Any]:
            if not self._is_done:
                self._task = current_task()
                yield from park(self._abort).__await__()
            return self._result

        def _abort(self, _: Any) -> Any:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

    class Flusher:
        """A task that sleeps until something is to be sent at the end of the turn."""

        def __init__(self) -> None:
            self._task: Any = None
            self._flush: Callable[[], None] | None = None

        def soon(self, flush: Callable[[], None]) -> None:
            self._flush = flush
            if self._task is not None:
                task, self._task = self._task, None
                reschedule(task)

        async def run(self, scope: Any) -> None:
            with scope:
                while True:
                    if self._flush is None:
                        self._task = current_task()
                        await park(self._abort)
                    flush, self._flush = self._flush, None
                    if flush is not None:
                        flush()

        def _abort(self, _: Any) -> Any:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

    async def read(link: Link, sock: socket.socket, scope: Any) -> None:
        wait = functools.partial(trio.lowlevel.wait_readable, sock)
        with scope:
            try:
                while True:
                    await wait()
                    try:
                        data = sock.recv(_READ)
                    except BlockingIOError:
                        continue
                    if not data:
                        break
                    link.feed(data)
            except OSError:
                pass  # it was reset, and all waiters are notified in any case
            finally:
                link.lose()
                trio.lowlevel.notify_closing(sock)
                sock.close()

    async def dial(host: str, port: int, first: bytes) -> tuple[Link, Close]:
        stream = await trio.open_tcp_stream(host, port)
        # The socket below trio's: reading and writing take no more calls than they must.
        sock = socket.socket(fileno=stream.socket.detach())
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flusher = Flusher()
        backlog = bytearray()

        def write(data: bytes) -> None:
            if backlog:
                backlog.extend(data)
                return
            try:
                sent = sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the reader learns of it
            if sent < len(data):
                backlog.extend(data[sent:])
                tasks.start_soon(write_rest)

        async def write_rest() -> None:
            while backlog:
                await trio.lowlevel.wait_writable(sock)
                try:
                    del backlog[: sock.send(backlog)]
                except BlockingIOError:
                    continue
                except OSError:
                    return

        link = Link(Slot, write, flusher.soon)
        reading, flushing = trio.CancelScope(), trio.CancelScope()
        tasks.start_soon(flusher.run, flushing)
        tasks.start_soon(read, link, sock, reading)
        write(first)

        def close() -> None:
            reading.cancel()
            flushing.cancel()

        return link, close

    return dial
