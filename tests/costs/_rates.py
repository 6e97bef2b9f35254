"""How many requests per second a recipe sends: idle, contended, and beside a hostile writer.

In virtual time, on the embedded server, with a round trip of two milliseconds: a loop without a
pause would send hundreds per second.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import Any

import anyio
from anyio.abc import ByteStream
from kit.every_recipe import FOLLOWED, HELD, KEPT, Followed, held
from kit.every_recipe import Held as Scene
from kit.virtual_time import VirtualClock, embedded, run

import aiolead
from aiolead.errors import AioleadError
from aiolead.model import CreateMode
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

TAU = 4.0
"""The session timeout, in seconds."""

LATENCY = 0.001
"""One way, in seconds."""

SPAN = 10 * TAU
"""For how long the requests are counted."""

PAUSE = 0.1
"""Between two writes of the hostile writer, or two changes of a value that is followed."""

AGAIN = 1.0
"""After an error, the application begins again after so many seconds."""

CONTENDERS = 3
"""How many clients want the same, where it is contended."""

PATH = "/rates"

FORGED = (
    *("note", "ready", "limit", "leases", "locks", "below", "x-lock-0000000000", "name"),
    *("x-latch-0000000000", "a" * 32, "00000000-0000-4000-8000-000000000000", "queue-0000000000"),
    *(
        "x__lock__0000000000",
        "x-wait-0000000000",
        "task-0000000000",
        "x-lease-0000000000",
        "1",
        "i",
    ),
)
"""Names that mean something to a recipe, or nothing."""

MOST_FORGED = 60
"""How many znodes the hostile writer has at once."""

QUIET, PER_CHANGE = 4.0, 6.0
"""The bounds: requests per second while nothing changes, and for each change beside that."""

Enter = Callable[[aiolead.Client], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests per second of the client that sends the most, pings included."""

    idle: float
    contended: float
    hostile: float


def bounds(recipe: str) -> Rates:
    """The bounds for these states: somebody changes what is observed, or forges znodes."""
    busy = QUIET + PER_CHANGE / PAUSE
    return Rates(QUIET, busy if recipe.endswith("(observed)") else QUIET, busy)


class _Counted(ByteStream):
    """A connection that takes its time, and counts the packets that it sends."""

    def __init__(self, inner: ByteStream, count: list[int]) -> None:
        self._inner = inner
        self._count = count

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        await anyio.sleep(2 * LATENCY)
        return data

    async def send(self, item: bytes) -> None:
        data = bytes(item)
        at = 0
        while at < len(data):
            self._count[0] += 1
            at += 4 + int.from_bytes(data[at : at + 4], "big")
        await self._inner.send(data)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bench:
    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.counts: list[list[int]] = []
        self._seeds = itertools.count(1)

    @asynccontextmanager
    async def client(self, *, is_counted: bool = True) -> AsyncIterator[aiolead.Client]:
        count = [0]
        if is_counted:
            self.counts.append(count)

        async def dial(_host: str, _port: int) -> ByteStream:
            return _Counted(await self.server.connect_stream(), count)

        hooks = aiolead.testing.Hooks(
            dial=dial, clock=VirtualClock(), rng=random.Random(next(self._seeds))
        )
        async with aiolead.connect("10.0.0.1:2181", session_timeout=TAU, hooks=hooks) as client:
            yield client

    async def use(self, enter: Enter, stay: float = inf) -> None:
        """One client has it, or waits for it, for as long as it is let; again after an error.

        And again after `stay` seconds: data that cannot be decoded end a view.
        """
        async with self.client() as client:
            while True:
                with suppress(AioleadError, ExceptionGroup):
                    async with enter(client):
                        await anyio.sleep(stay)
                await anyio.sleep(AGAIN)

    async def forge(self) -> None:
        """Create, change and delete znodes everywhere, as a client that may do all of it."""
        rng, made = random.Random(7), list[str]()
        async with self.client(is_counted=False) as client:
            while True:
                await anyio.sleep(PAUSE)
                there = [path for path in sorted(self.server.znodes()) if path.startswith(PATH)]
                path = rng.choice(there or [PATH])
                kind = rng.randrange(4)
                with suppress(AioleadError):
                    if kind < 2 and len(made) < MOST_FORGED:
                        name = f"{path}/{rng.choice(FORGED)}"
                        mode = rng.choice((CreateMode.PERSISTENT, CreateMode.EPHEMERAL))
                        made.append(name)
                        await client.create(name, b"forged", mode=mode)
                    elif kind == 2 or not made:
                        await client.set(path, rng.choice((b"", b"1", b"\x00\x00\x00\x05", b"x")))
                    else:
                        await client.delete(made.pop(rng.randrange(len(made))))

    async def measure(self) -> float:
        """Requests per second of the client that sends the most."""
        await anyio.sleep(TAU)
        before = [count[0] for count in self.counts]
        await anyio.sleep(SPAN)
        return max(c[0] - b for c, b in zip(self.counts, before, strict=True)) / SPAN


async def _held(bench: _Bench, scene: Scene, state: str) -> float:
    async with bench.client(is_counted=False) as helper, anyio.create_task_group() as tasks:
        for _ in range(CONTENDERS):
            if scene.prepare is not None:
                await scene.prepare(helper, PATH)
        for _ in range(1 if state == "idle" else CONTENDERS):
            tasks.start_soon(bench.use, lambda client: scene.enter(client, PATH))
        await anyio.sleep(TAU / 4)
        if state == "hostile":
            tasks.start_soon(bench.forge)
        rate = await bench.measure()
        tasks.cancel_scope.cancel()
    return rate


async def _followed(bench: _Bench, scene: Followed, state: str) -> float:
    async with bench.client(is_counted=False) as helper, anyio.create_task_group() as tasks:

        async def change() -> None:
            for n in itertools.count(1):
                with suppress(AioleadError):
                    async with scene.change(helper, PATH) as set_to:
                        for m in itertools.count(n):
                            await set_to(m % 1000)
                            if state == "idle":
                                await anyio.sleep_forever()
                            await anyio.sleep(PAUSE)
                await anyio.sleep(AGAIN)

        tasks.start_soon(change)
        await anyio.sleep(TAU / 4)
        stay = TAU if state == "hostile" else inf
        tasks.start_soon(bench.use, lambda client: scene.observe(client, PATH), stay)
        if state == "hostile":
            tasks.start_soon(bench.forge)
        rate = await bench.measure()
        tasks.cancel_scope.cancel()
    return rate


@asynccontextmanager
async def _waiting(client: aiolead.Client, path: str) -> AsyncIterator[None]:
    async with aiolead.Condition(client, path) as held:
        await held.wait()
        yield


@asynccontextmanager
async def _consuming(client: aiolead.Client, path: str) -> AsyncIterator[None]:
    async with aiolead.Queue(client, path).consume() as items:
        async for item in items:
            await item.ack()
    yield


@asynccontextmanager
async def _standing(client: aiolead.Client, path: str) -> AsyncIterator[None]:
    barrier = aiolead.Barrier(client, path)
    await barrier.set()
    await barrier.wait()
    yield


WAITING = {
    "Condition (waiting)": held(_waiting),
    "Queue (consuming)": held(_consuming, prepare=HELD["Queue"].prepare),
    "Barrier (waiting)": held(_standing),
}
"""Waits that are no holds."""

SCENES = HELD | WAITING | KEPT

RECIPES: tuple[str, ...] = (*SCENES, *(f"{name} (observed)" for name in FOLLOWED))
"""The rows of the table."""


def rate(recipe: str, state: str, backend: Backend = "trio") -> float:
    """Measure one: `state` is `idle`, `contended` or `hostile`."""
    found: list[float] = []
    name = recipe.removesuffix(" (observed)")

    async def main() -> None:
        async with embedded() as server:
            bench = _Bench(server)
            if recipe != name:
                found.append(await _followed(bench, FOLLOWED[name], state))
            else:
                found.append(await _held(bench, SCENES[name], state))

    run(main, backend, 20 * SPAN)
    return found[0]


def measure(recipe: str, backend: Backend = "trio") -> Rates:
    """Measure a recipe in each of the states."""
    return Rates(*(rate(recipe, state, backend) for state in ("idle", "contended", "hostile")))


HEAD = (
    "| recipe | idle | contended | hostile | bound: idle | contended | hostile |\n"
    "|---|---|---|---|---|---|---|\n"
)


def row(recipe: str, rates: Rates) -> str:
    """A line of the table."""
    most = bounds(recipe)
    cells = [f"{each:.1f}" for each in (rates.idle, rates.contended, rates.hostile)]
    cells += [f"{each:g}" for each in (most.idle, most.contended, most.hostile)]
    name, _, observed = recipe.partition(" ")
    shown = f"`{name}` {observed}" if observed else f"`{name}`"
    return f"| {shown} | {' | '.join(cells)} |\n"


def table() -> str:
    return HEAD + "".join(row(recipe, measure(recipe)) for recipe in RECIPES)
