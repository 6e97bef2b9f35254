"""A server and clients of it in memory and on virtual time: what takes seconds takes none, and when
something happens is exact."""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial, wraps
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

import aiolead
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend, run_virtual
from aiolead.testing.simulation.process import GRAIN
from aiolead.testing.streams import MemoryStream
from kit import clients
from kit.clients import hooked, hooks_by_default

SESSION = 8.0
"""The session timeout of all clients, in seconds."""

SPAN = 1000.0
"""How long a test may take, in seconds of virtual time."""


class VirtualClock:
    """A client's clock: the time of the event loop. See `GRAIN`."""

    def __init__(self) -> None:
        self._reading = 0.0

    def __call__(self) -> float:
        self._reading = max(self._reading + GRAIN, anyio.current_time())
        return self._reading


class Link:
    """How one client reaches a server, and what a test does about it.

    Args:
        server: the server.

    Attributes:
        room: how many more connections are let through; None for any number.
        left: how many more segments `hold` lets arrive.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self.room: int | None = None
        self._server = server
        self._open = anyio.Event()
        self._open.set()
        self.left = 0
        self._streams: list[_LinkStream] = []

    def connect(self, **options: Any) -> aiolead.types.Connection:
        settings: dict[str, Any] = {
            "session_timeout": SESSION,
            "clock": VirtualClock(),
            "rng": random.Random(1),
            "dial": self._dial,
        }
        return aiolead.connect("10.0.0.1:2181", **hooked(**(settings | options)))

    async def _dial(self, _host: str, _port: int) -> ByteStream:
        if self.room is not None:
            if self.room <= 0:
                raise ConnectionRefusedError("the test lets nobody through")
            self.room -= 1
        stream = _LinkStream(self, await self._server.connect_stream())
        self._streams.append(stream)
        return stream

    def lose(self) -> None:
        """The connection breaks, and there is no other one until the test has `room`."""
        self.room = 0
        for stream in self._streams:
            stream.break_()
        self._streams.clear()
        self.release()

    def restore(self) -> None:
        """There can be connections again."""
        self.room = None

    def hold(self, *, after: int = 0) -> None:
        """Nothing that the server sends arrives any more, but for the next `after` segments."""
        self.left = after
        self._open = anyio.Event()

    def release(self) -> None:
        """It arrives, with what was held back, unless the connection broke meanwhile."""
        self._open.set()

    async def wait(self) -> bool:
        """Wait until a segment may arrive; return whether it was held back."""
        if self.left and not self._open.is_set():
            self.left -= 1
            return False
        was_held = not self._open.is_set()
        await self._open.wait()
        return was_held


class _LinkStream(ByteStream):
    def __init__(self, link: Link, inner: MemoryStream) -> None:
        self._link = link
        self._inner = inner
        self._is_broken = False

    def break_(self) -> None:
        self._is_broken = True
        self._inner.reset()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        was_held = await self._link.wait()
        if self._is_broken:
            raise anyio.BrokenResourceError
        if was_held:  # all of it arrives in one segment
            data += self._inner._incoming.get(max_bytes - len(data))
        return data

    async def send(self, item: bytes) -> None:
        await self._inner.send(item)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


def connect(server: EmbeddedServer, **options: Any) -> aiolead.types.Connection:
    """A client of a server, in memory, whose link nothing happens to."""
    if clients.OVER_AIOZK:
        adapted: Any = clients.connect(server, **options)
        return adapted
    return Link(server).connect(**options)


def embedded(**options: Any) -> EmbeddedServer:
    """A server that listens nowhere, for coroutine tests that run `virtually`."""
    port = 0 if clients.OVER_AIOZK else None
    return EmbeddedServer(port=port, rng=random.Random(1), **options)


def virtually(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a coroutine test on virtual time: once on asyncio, and once on trio.

    Its servers are `embedded`, or others in memory. All of its clients go by the virtual clock.
    Over adapted clients, which have sockets and clocks of their own, it runs in real time.
    """
    if clients.OVER_AIOZK:
        return test

    def play(backend: Backend, **arguments: Any) -> None:
        seeds = count()
        with hooks_by_default(lambda: {"clock": VirtualClock(), "rng": random.Random(next(seeds))}):
            run_virtual(partial(test, **arguments), backend=backend, limit=SPAN)

    wraps(test)(play)
    signature = inspect.signature(test)
    first = inspect.Parameter("backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first, *signature.parameters.values()]
    play.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return pytest.mark.parametrize("backend", ["asyncio", "trio"])(play)


def on_virtual_time(backend: Backend, play: Callable[[EmbeddedServer], Awaitable[object]]) -> None:
    """Plays a scene around a server."""

    async def main() -> None:
        async with embedded() as server:
            await play(server)

    run_virtual(main, backend=backend, limit=SPAN)


def linked(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a coroutine test on virtual time: once on asyncio, and once on trio.

    Of these, the test is given what it takes: `server`, an embedded one; `a`, a client of it behind
    a `Link`; `link`, that link; `b`, another client. Clients that are adapted are not tested so.
    """
    signature = inspect.signature(test)
    given = [name for name in ("server", "link", "a", "b") if name in signature.parameters]

    def play(backend: Backend, **arguments: Any) -> None:
        async def main() -> None:
            async with embedded() as server, AsyncExitStack() as stack:
                link = Link(server)
                found: dict[str, Any] = {"server": server, "link": link}
                for name, connection in (("a", link.connect()), ("b", Link(server).connect())):
                    if name in given:
                        found[name] = await stack.enter_async_context(connection)
                await test(**arguments, **{name: found[name] for name in given})

        run_virtual(main, backend=backend, limit=SPAN)

    wraps(test)(play)
    first = inspect.Parameter("backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [each for name, each in signature.parameters.items() if name not in given]
    play.__signature__ = signature.replace(parameters=[first, *others])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("backend", ["asyncio", "trio"])(play)


async def passes(seconds: float) -> None:
    """Time passes."""
    await anyio.sleep(seconds)


async def settled() -> None:
    """Everything that can happen at this instant has happened."""
    await anyio.sleep(0.001)
