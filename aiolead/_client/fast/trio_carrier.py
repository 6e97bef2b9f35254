"""TCP on trio's socket: input is waited for before it is read, and output may leave at the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, final

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint

from ..._util.tasks import trio_here
from .carrier import READ_SIZE, Traffic


async def dial_trio(address: str, port: int) -> TrioCarrier:
    return TrioCarrier(await anyio.connect_tcp(address, port))


@final
class TrioCarrier:
    """One task receives, one sends what could not leave at the call."""

    def __init__(self, stream: SocketStream) -> None:
        self._trio: Any = trio_here()
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no Django here
        self._output = anyio.Event()
        self._traffic: Traffic | None = None
        """The sending task's, while it waits for output."""
        self._rest = b""
        """Output that could not leave at once; goes before anything else."""
        self._why: Exception | None = None
        """Why it ends: the first reason counts."""

    @property
    def raw_socket(self) -> Any:
        return self._socket

    async def carry(self, traffic: Traffic) -> None:
        # Trio raises `KeyboardInterrupt` in a child of a system task, which ends the event loop.
        self._trio.lowlevel.enable_ki_protection(TrioCarrier._until_end)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_end, self._read, traffic, tasks.cancel_scope)
            tasks.start_soon(self._until_end, self._write, traffic, tasks.cancel_scope)
        if self._why is not None:
            raise self._why

    async def _until_end(
        self,
        move: Callable[[Traffic], Awaitable[None]],
        traffic: Traffic,
        scope: anyio.CancelScope,
    ) -> None:
        # Kept out of the task group's exception group.
        try:
            await move(traffic)
        except Exception as error:
            self._why = self._why or error
            scope.cancel()

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    # --- receiving -----------------------------------------------------------------------------

    async def _read(self, traffic: Traffic) -> None:
        while True:
            await self._trio.lowlevel.wait_readable(self._socket)
            try:
                data: bytes = self._socket.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            while traffic.feed(data):
                await checkpoint()
                data = b""

    # --- sending -------------------------------------------------------------------------------

    def wake(self) -> None:
        self._output.set()

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
            self._why = error
        if self._rest or self._why:
            self._traffic = None
            self.wake()

    async def _write(self, traffic: Traffic) -> None:
        while True:
            self._output = anyio.Event()
            if self._why is not None:
                raise self._why
            rest, self._rest = self._rest, b""
            await self._send(rest)
            while data := traffic.take():
                await self._send(data)
            self._traffic = traffic
            await self._output.wait()
            self._traffic = None

    async def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self._trio.lowlevel.wait_writable(self._socket)
            except OSError as error:
                raise anyio.BrokenResourceError from error
