"""The part of a fault proxy that runs in its thread: it accepts, dials, and keeps the links."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Literal

from ..launch import LOOPBACK
from .link import Faults, Link, close_with_reset
from .tap import Direction, How, Journal, MessageTap, Rule, Tap

__all__ = ["Engine"]

_BACKLOG = 128
_DIAL_SECONDS = 10.0
_REDIAL_SECONDS = 0.01

_REUSE = (socket.SOL_SOCKET, socket.SO_REUSEADDR)


class Engine:
    """Keeps a listening socket and the links made through it. All coroutines run in one loop.

    The arguments are those of `FaultProxy`.

    Attributes:
        port: where it listens, once it has.
        journal: the traffic so far.
        defects: an error in the engine itself.
    """

    def __init__(
        self,
        target: tuple[str, int],
        *,
        port: int,
        patience: float,
        seed: int | None,
        tap: Callable[[], Tap] | None,
    ) -> None:
        self.port = port
        self.journal = Journal()
        # Jitter is no secret.
        self._faults = Faults(random.Random(seed))  # noqa: S311
        self._rules: list[Rule] = []
        self.defects: list[Exception] = []
        self._target = target
        self._patience = patience
        self._tap = tap or (lambda: MessageTap(self._rules, self.journal))
        self._listener: socket.socket | None = None
        self._is_listening = False
        self._links: dict[asyncio.Task[None], Link | None] = {}
        self._ignoring = False
        self._lossy = False

    @property
    def open_connections(self) -> int:
        links = list(self._links.values())  # at once: asked from another thread than the loop's
        return sum(link is None or not link.is_severed for link in links)

    async def listen(self) -> None:
        if self._listener is None:
            self._listener = _bound(self.port)
            self.port = self._listener.getsockname()[1]
        # Needed beside the links that there are: they have the same port.
        self._listener.setsockopt(*_REUSE, 1)
        self._listener.listen(_BACKLOG)
        # Not `sock_accept`: when that is cancelled, a connection may be accepted and forgotten.
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
        self._is_listening = True

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # The client has given up in the meantime.
        client.setblocking(False)
        self.journal.connected()
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._links[task] = None
        task.add_done_callback(self._links.pop)
        # Also where there never was a link to do it, or the task was cancelled before it ran.
        task.add_done_callback(lambda _: close_with_reset(client))
        task.add_done_callback(self._note_defect)

    async def _serve(self, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            server = None if self._ignoring else await self._dial()
        except OSError:
            return  # There is no server: a reset is all that the client can get.
        link = self._links[task] = Link(client, server, self._tap(), self._faults, self.journal)
        await link.run()

    async def _dial(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        while True:
            server = socket.socket()
            server.setblocking(False)
            try:
                async with asyncio.timeout(_DIAL_SECONDS):
                    await loop.sock_connect(server, self._target)
            except BaseException as error:
                close_with_reset(server)
                if not isinstance(error, ConnectionRefusedError) or loop.time() >= deadline:
                    raise
                await asyncio.sleep(_REDIAL_SECONDS)
            else:
                return server

    async def refuse(self) -> None:
        """Has new connections refused: by a port that is bound, and not listened on.

        On Linux, a listening socket that is shut down listens no more, in no process that has it,
        and keeps its port. As long as it does not agree to share that, nobody else gets it: a
        server that is started just now would, otherwise, and we could not listen again.
        """
        if self._listener is not None and self._is_listening:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._is_listening = False
            try:
                self._listener.shutdown(socket.SHUT_RD)
                self._listener.setsockopt(*_REUSE, 0)
            except OSError:  # elsewhere than on Linux
                self._listener.close()
                self._listener = _bound(self.port)

    async def ignore(self) -> None:
        self._ignoring = True

    async def hold(self, direction: Direction | Literal["both"], *, lossy: bool) -> None:
        for each in _directions(direction):
            self._faults.open[each].clear()
        self._lossy = self._lossy or lossy

    async def delay(
        self, direction: Direction | Literal["both"], seconds: float, jitter: float
    ) -> None:
        for each in _directions(direction):
            self._faults.delays[each] = (seconds, jitter)

    async def cut_after(self, size: int, direction: Direction, how: How) -> None:
        self._faults.cut_after(size, direction, how)

    async def add_rule(self, rule: Rule) -> None:
        self._rules.append(rule)

    async def heal(self) -> None:
        self._ignoring = False
        if not self._is_listening:
            await self.listen()
        self._rules.clear()
        self._faults.delays.clear()
        self._faults.cuts.clear()
        await self._sever(lambda link: self._lossy or link.is_muted)
        self._lossy = False
        for gate in self._faults.open.values():
            gate.set()

    async def _sever(self, which: Callable[[Link], bool], how: How = "reset") -> None:
        links = [link for link in self._links.values() if link is not None and which(link)]
        for link in links:
            link.cut(how)
        for link in links:
            await link.severed()

    async def _stop_dialling(self) -> None:
        """Resets the connections that have not reached the server yet."""
        dialling = [task for task, link in self._links.items() if link is None]
        for task in dialling:
            task.cancel()
        await asyncio.gather(*dialling, return_exceptions=True)

    async def cut_all(self, how: How) -> None:
        await self._stop_dialling()
        await self._sever(lambda _: True, how)

    async def shut(self) -> None:
        await self.refuse()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self.cut_all("reset")
        # The remaining links wait until both ends, which got a `fin`, have closed.
        leaving = list(self._links)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    def _note_defect(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.defects.append(error)


def _bound(port: int) -> socket.socket:
    """A socket bound to a port, of its own choice if that is 0."""
    listener = socket.socket()
    listener.setblocking(False)
    try:
        listener.setsockopt(*_REUSE, 1)
        listener.bind((LOOPBACK, port))
        if port == 0:
            # A port that was not named is lost once nobody listens: so name it.
            with listener:
                return _bound(listener.getsockname()[1])
    except OSError:
        listener.close()
        raise
    return listener


def _directions(direction: Direction | Literal["both"]) -> tuple[Direction, ...]:
    return ("to_server", "to_client") if direction == "both" else (direction,)
