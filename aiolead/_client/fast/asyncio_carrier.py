"""TCP on asyncio and uvloop, with as few turns of the event loop as possible.

Input is passed on in the event loop's own callback. Output leaves at once, or in a callback at the
end of the same turn. Only the caller's task is woken. Over a stream, a sequential read takes twice
the CPU time (benchmarks/optimizations.md).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # for third parties: "Extending" in its docs
from typing import Any, cast, final

import anyio

from ..._session.requests import SEGMENT
from .carrier import READ_SIZE, Traffic


async def dial_loop(address: str, port: int) -> LoopCarrier:
    loop = asyncio.get_running_loop()
    _, carrier = await loop.create_connection(LoopCarrier, address, port)
    return carrier


@final
class LoopCarrier(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._carrying: asyncio.Task[Any] | None = None
        """Users' callbacks run in this task: outside of one, anyio has not even a clock."""
        self._traffic: Traffic
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._why: Exception | None = None
        self._is_full = False
        self._is_due = False

    @property
    def raw_socket(self) -> Any:
        return self._transport.get_extra_info("socket")

    async def carry(self, traffic: Traffic) -> None:
        self._carrying = asyncio.current_task()
        self._traffic = traffic
        self._transport.resume_reading()
        self.wake()
        try:
            await self._ended
        finally:
            self._carrying = None
            del self._traffic  # it would be kept alive
        if self._why is not None:
            raise self._why

    async def aclose(self) -> None:
        self._end(anyio.ClosedResourceError())
        self._transport.abort()

    def _end(self, why: Exception) -> None:
        # The first reason counts; no input is passed on after it.
        if self._why is None:
            self._why = why
        if not self._ended.done():
            self._ended.set_result(None)

    # --- sending -------------------------------------------------------------------------------

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._send)

    def push(self) -> None:
        if self._carrying is None or self._ended.done():
            return
        try:
            while not self._is_full and (data := self._traffic.take()):
                self._transport.write(data)
                if len(data) < SEGMENT:
                    break
        except Exception as error:  # a defect, not the caller's
            self._end(error)

    def _send(self) -> None:
        self._is_due = False
        task = self._carrying
        if task is not None:
            _enter_task(self._loop, task)
            try:
                self.push()
            finally:
                _leave_task(self._loop, task)

    # --- what the transport calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport.set_write_buffer_limits(0)
        self._transport.pause_reading()  # until `carry` is called

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        task = self._carrying
        if task is None or self._ended.done():
            return
        _enter_task(self._loop, task)
        try:
            if self._traffic.feed(bytes(self._buffer[:nbytes])):
                self._transport.pause_reading()
                self._loop.call_soon(self._feed_more)
        except Exception as error:
            self._end(error)
        finally:
            _leave_task(self._loop, task)

    def _feed_more(self) -> None:
        """Let the feed go on, until it takes more input."""
        task = self._carrying
        if task is None or self._ended.done():
            return
        _enter_task(self._loop, task)
        try:
            if self._traffic.feed(b""):
                self._loop.call_soon(self._feed_more)
            else:
                self._transport.resume_reading()
        except Exception as error:
            self._end(error)
        finally:
            _leave_task(self._loop, task)

    def eof_received(self) -> bool:
        self._end(anyio.EndOfStream())
        return True  # closed by `aclose`

    def connection_lost(self, exc: Exception | None) -> None:
        why = anyio.BrokenResourceError()
        why.__cause__ = exc
        self._end(why)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.wake()
