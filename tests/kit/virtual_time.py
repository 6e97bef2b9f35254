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

import aiolead
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend, run_virtual
from aiolead.testing.simulation.process import GRAIN

from . import clients
from .clients import SESSION as SESSION
from .clients import Link as Link
from .clients import hooks_by_default

SPAN = 1000.0
"""How long a test may take, in seconds of virtual time."""

Drop = Callable[..., None]
"""Loses the next message of a kind: called with a server and an `OpCode`."""

lost_message = pytest.mark.parametrize(
    "drop",
    [EmbeddedServer.drop_request, EmbeddedServer.drop_reply],
    ids=["request lost", "reply lost"],
)
"""For tests that take `drop`."""


class VirtualClock:
    """A client's clock: the time of the event loop. See `GRAIN`."""

    def __init__(self) -> None:
        self._reading = 0.0

    def __call__(self) -> float:
        self._reading = max(self._reading + GRAIN, anyio.current_time())
        return self._reading


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
        run(partial(test, **arguments), backend)

    wraps(test)(play)
    signature = inspect.signature(test)
    first = inspect.Parameter("backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first, *signature.parameters.values()]
    play.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return pytest.mark.parametrize("backend", ["asyncio", "trio"])(play)


goes_by_the_virtual_clock = pytest.mark.skipif(
    clients.OVER_AIOZK, reason="counts what virtual time allows: adapted clients have their own"
)


CLIENTS = frozenset({"client", "other", "a", "b", "c"})


def with_virtual_server(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a coroutine test around a server on virtual time: once on asyncio, and once on trio.

    The test is given what it takes of these: `server`, which is `embedded`; `client`, `other`, `a`,
    `b` and `c`, which are clients of it; and `link`, which is the link of `client` and `a`.
    """
    signature = inspect.signature(test)
    wanted = CLIENTS.intersection(signature.parameters)

    async def main(**arguments: Any) -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(embedded())
            link = Link(server)
            given: dict[str, Any] = {"server": server, "link": link}
            for name in sorted(wanted):
                own = link if name in ("a", "client") else Link(server)
                given[name] = await stack.enter_async_context(own.connect())
            taken = {name: each for name, each in given.items() if name in signature.parameters}
            await test(**taken, **arguments)

    def play(backend: Backend, **arguments: Any) -> None:
        run(partial(main, **arguments), backend)

    wraps(test)(play)
    first = inspect.Parameter("backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = wanted | {"server", "link"}
    fixtures = [each for each in signature.parameters.values() if each.name not in given]
    play.__signature__ = signature.replace(parameters=[first, *fixtures])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("backend", ["asyncio", "trio"])(play)


def on_virtual_time(backend: Backend, play: Callable[[EmbeddedServer], Awaitable[object]]) -> None:
    """Plays a scene around a server."""

    async def main() -> None:
        async with embedded() as server:
            await play(server)

    run(main, backend)


def run(main: Callable[[], Awaitable[None]], backend: Backend, limit: float = SPAN) -> None:
    """Runs a coroutine function on virtual time; so do the clocks of its clients."""
    seeds = count()
    with hooks_by_default(lambda: {"clock": VirtualClock(), "rng": random.Random(next(seeds))}):
        run_virtual(main, backend=backend, limit=limit)


async def passes(seconds: float) -> None:
    """Time passes."""
    await anyio.sleep(seconds)


async def settled() -> None:
    """Everything that can happen at this instant has happened."""
    await anyio.sleep(0.001)
