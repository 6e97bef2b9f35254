"""TCP on trio's socket: input is waited for before it is read, and output may leave at the call."""

from __future__ import annotations

from typing import Any, final

import anyio

from ..._util.tasks import trio_here
from .carrier import READ_SIZE, StreamCarrier, Traffic


async def dial_trio(address: str, port: int) -> TrioCarrier:
    return TrioCarrier(await anyio.connect_tcp(address, port))


@final
class TrioCarrier(StreamCarrier):
    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        super().__init__(stream)
        self._socket = self.raw_socket
        self._trio: Any = trio_here().lowlevel
        self._traffic: Traffic | None = None
        """The sending task's, while it waits for output."""
        self._rest = b""
        """Output that could not leave at once; goes before anything else."""
        self._defect: Exception | None = None

    def push(self) -> None:
        traffic = self._traffic
        if traffic is None:
            self.wake()
            return
        try:
            while data := traffic.take():
                self._rest = data
                self._rest = data[self._socket.send(data) :]
                if self._rest:
                    break
        except OSError:  # it would block, or is broken, which the sending task reports
            pass
        except Exception as error:  # a defect, not the caller's
            self._defect = error
        if self._rest or self._defect:
            self._traffic = None
            self.wake()

    async def _write(self, traffic: Traffic) -> None:
        while True:
            self._output = anyio.Event()
            if self._defect is not None:
                raise self._defect
            rest, self._rest = self._rest, b""
            await self._send(rest)
            while data := traffic.take():
                await self._send(data)
            self._traffic = traffic
            await self._output.wait()
            self._traffic = None

    async def _receive(self) -> bytes:
        while True:
            await self._trio.wait_readable(self._socket)
            try:
                data: bytes = self._socket.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self._trio.wait_writable(self._socket)
            except OSError as error:
                raise anyio.BrokenResourceError from error
