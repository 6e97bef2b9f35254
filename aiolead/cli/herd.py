"""`aiolead demo herd`: an election by watching the parent, and one by watching the predecessor.

Contenders with a session each stand in a queue; the leader leaves, and the traffic between the
server and everybody is counted until nothing more is sent. In the election that watches the parent,
every departure wakes all contenders, and each lists all of them. It exists here alone, as the
example of how not to do it.
"""

from __future__ import annotations

import itertools
import statistics
import struct
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from .. import Client, CreateMode, Election, connect
from ..testing import EmbeddedServer, Hooks
from . import render
from .options import BASICS, Basics, within
from .output import table

LARGEST = 1000
BAR = 40
"""The longest bar, in columns."""


def herd(
    *,
    sizes: Annotated[tuple[int, ...], within(2, LARGEST)] = (2, 10, 50, 200),
    basics: Basics = BASICS,
) -> int:
    """Show the herd effect: how many clients wake when a leader leaves.

    Contenders with a session each elect a leader on a server in memory. Where each watches the
    parent, every departure wakes all of them, and each lists all the others. Where each watches its
    predecessor, as with aiolead, it wakes the next leader, and the one behind that.

    With --json, one object for each measurement: watching, contenders, woken (other clients that
    are notified), notifications, requests, bytes_in, bytes_out, next_leader_after (seconds).

    Args:
        sizes: How many contend; several times for several measurements.
        basics: How to run.
    """

    async def work() -> None:
        results: list[Result] = []
        for size in sizes:
            for way in WAYS:
                basics.reporter.step(f"measures {size} contenders that watch the {way}")
                results.append(await on_embedded(way, size))
                basics.show(_as_json(results[-1]))
        basics.show_all((), _as_text(results))

    return basics.run_until_signal(work)


_HEADINGS = (
    *("contenders", "watching", "clients that wake", "requests", "bytes from the server"),
    "next leader after",
)


def _as_text(results: Sequence[Result]) -> Iterator[str]:
    counts = [
        (each.contenders, f"the {each.way}", each.woken, each.traffic.requests,
         each.traffic.bytes_out, f"{each.seconds * 1000:.1f} ms")
        for each in results
    ]  # fmt: skip
    rows = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in counts]
    right = tuple(name for name in _HEADINGS if name != "watching")
    yield from table(_HEADINGS, rows, right=right)
    yield ""
    yield "clients that wake when the leader leaves"
    most = max(each.woken for each in results)
    for each in results:
        bar = "#" * max(1, round(BAR * each.woken / most)) if each.woken else ""
        yield f"{each.contenders:>5}  {each.way:<11}  {bar} {each.woken}"


def _as_json(each: Result) -> dict[str, Any]:
    return {
        "watching": each.way,
        "contenders": each.contenders,
        "woken": each.woken,
        "notifications": each.traffic.events,
        "requests": each.traffic.requests,
        "bytes_in": each.traffic.bytes_in,
        "bytes_out": each.traffic.bytes_out,
        "next_leader_after": render.rounded(each.seconds),
    }


# --- the measurement ----------------------------------------------------------------------------

PATH = "/herd/election"
QUIET = 0.15
"""Seconds without a frame after which a hand-over is over."""

EVENT, PING = -1, -2
"""Numbers of frames that answer no request."""


# --- two ways to elect ---------------------------------------------------------------------------

Held = Callable[[], Awaitable[None]]
Elect = Callable[[Client, anyio.Event, Held], Awaitable[None]]


async def by_predecessor(client: Client, begin: anyio.Event, held: Held) -> None:
    """Elect as the library does."""
    async with Election(client, PATH, identity="host-1").leadership():
        await begin.wait()
        await held()


async def by_parent(client: Client, begin: anyio.Event, held: Held) -> None:
    """Elect by watching the parent: every arrival and departure makes everybody look again.

    Nobody looks before all are there: their arrival alone would take hours.
    """
    # Named as by the library, so that listings are of the same length.
    prefix = f"{PATH}/{client.session_id & (1 << 64) - 1:016x}-1-latch-"
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    created = await client.create(prefix, b"host-1", mode=mode)
    own = created.path.rpartition("/")[2]
    await begin.wait()
    while True:
        watch = client.backend.make_watch()
        line = await client.get_children(PATH, watch=watch)
        if min(line, key=lambda name: name[-10:]) == own:
            break
        await watch.wait()
    watch.close()
    await held()
    await client.delete(created.path)


WAYS: dict[str, Elect] = {"parent": by_parent, "predecessor": by_predecessor}


# --- counting ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Traffic:
    """The traffic between a server and its clients, without pings.

    Attributes:
        requests: how many.
        bytes_in: to the server.
        bytes_out: from the server, notifications of watches included.
        notified: the number of the client of each notification.
    """

    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    notified: list[int] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many notifications of watches."""
        return len(self.notified)


class Meter:
    """Counts the frames of any number of connections in `traffic`, which may be replaced."""

    def __init__(self) -> None:
        self.traffic: Traffic = Traffic()
        self._unanswered = 0
        self._last_frame = time.monotonic()

    def count(self, client: int, xid: int, size: int, *, is_request: bool) -> None:
        """Count a frame of a client, or of the server's to that client."""
        if xid == PING:
            return
        self._last_frame = time.monotonic()
        if is_request:
            self.traffic.requests += 1
            self.traffic.bytes_in += size
            self._unanswered += 1
            return
        self.traffic.bytes_out += size
        if xid == EVENT:
            self.traffic.notified.append(client)
        else:
            self._unanswered -= 1

    async def quiet(self) -> None:
        """Wait until all is answered, and nothing was sent for a while."""
        left = QUIET
        while left > 0 or self._unanswered:
            await anyio.sleep(max(left, QUIET / 10))
            left = self._last_frame + QUIET - time.monotonic()


class Frames:
    """Cuts a stream of bytes into frames: the number in each, and its size with its length."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, int]]:
        self._rest += data
        while len(self._rest) >= 8:
            length, xid = struct.unpack_from(">ii", self._rest)
            if len(self._rest) < 4 + length:
                return
            self._rest = self._rest[4 + length :]
            yield xid, 4 + length


class MeteredStream(ByteStream):
    """A connection whose frames a meter counts."""

    def __init__(self, inner: ByteStream, meter: Meter, client: int) -> None:
        self._inner = inner
        self._client = client
        self._meter = meter
        self._there, self._back = Frames(), Frames()

    async def send(self, item: bytes) -> None:
        for xid, size in self._there.feed(bytes(item)):
            self._meter.count(self._client, xid, size, is_request=True)
        await self._inner.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        for xid, size in self._back.feed(data):
            self._meter.count(self._client, xid, size, is_request=False)
        return data

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


# --- one measurement -----------------------------------------------------------------------------

Dial = Callable[[str, int], Awaitable[ByteStream]]


@dataclass(frozen=True, slots=True)
class Result:
    """The cost of one hand-over.

    Attributes:
        way: how it is elected.
        contenders: how many contend, with the leader.
        woken: how many other clients are notified.
        traffic: until nothing more is sent.
        seconds: from the departure to the next leader's first moment, the median of several.
    """

    way: str
    contenders: int
    woken: int
    traffic: Traffic
    seconds: float


async def measure(way: str, contenders: int, hosts: str, dial: Dial) -> Result:
    """Let leaders leave, one after the other. The first departure is counted, three are timed."""
    meter = Meter()
    numbers = itertools.count()

    async def metered(host: str, port: int) -> ByteStream:
        # Clients connect one after the other.
        return MeteredStream(await dial(host, port), meter, next(numbers))

    begin = anyio.Event()
    leaving = [anyio.Event() for _ in range(contenders)]
    led = [anyio.Event() for _ in range(contenders)]
    led_at: list[float] = []

    async def contend(client: Client, number: int) -> None:
        async def held() -> None:
            led_at.append(time.perf_counter())
            led[number].set()
            await leaving[number].wait()

        await WAYS[way](client, begin, held)

    traffic: list[Traffic] = []
    seconds: list[float] = []
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connect(hosts, hooks=Hooks(dial=metered), session_timeout=40.0)
            )
            for _ in range(contenders)
        ]
        await clients[0].ensure_path(PATH)
        async with anyio.create_task_group() as tasks:
            for number, client in enumerate(clients):
                tasks.start_soon(contend, client, number)
                # One behind the other, so that we know who is next.
                while (stat := await clients[0].exists(PATH)) and stat.num_children <= number:
                    await anyio.lowlevel.checkpoint()
            begin.set()
            await meter.quiet()
            for number in range(min(3, contenders - 1)):
                meter.traffic, start = Traffic(), time.perf_counter()
                leaving[number].set()
                await led[number + 1].wait()
                await meter.quiet()
                traffic.append(meter.traffic)
                seconds.append(led_at[-1] - start)
            tasks.cancel_scope.cancel()
    woken = len({*traffic[0].notified} - {0})
    return Result(way, contenders, woken, traffic[0], statistics.median(seconds))


async def on_embedded(way: str, contenders: int) -> Result:
    async with EmbeddedServer(tick_time=3) as server:

        async def dial(_host: str, _port: int) -> ByteStream:
            return await server.connect_stream()

        return await measure(way, contenders, "127.0.0.1:1", dial)
