"""The herd: electing by watching the parent, and by watching the predecessor. See README.md.

Contenders with a session each stand in line; the leader leaves, and what that makes the server and
everybody else say to each other is counted, until all is quiet again. The election that watches the
parent, in which everybody wakes at every departure and lists everybody, exists here and nowhere
else: it is what not to do.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

import aiolead
from aiolead import Client, CreateMode, Election
from aiolead.testing import BlockingServer, EmbeddedServer, Hooks

PATH = "/herd/election"
SIZES = (2, 3, 5, 10, 30, 100, 300, 1000)
QUIET = 0.15
"""After so many seconds without a frame, all is quiet."""

EVENT, PING = -1, -2
"""What stands in the place of a request's number."""


# --- two ways to elect ---------------------------------------------------------------------------

Held = Callable[[], Awaitable[None]]
Elect = Callable[[Client, anyio.Event, Held], Awaitable[None]]


async def by_predecessor(client: Client, begin: anyio.Event, held: Held) -> None:
    """As the library does it."""
    async with Election(client, PATH, identity="host-1").leadership():
        await begin.wait()
        await held()


async def by_parent(client: Client, begin: anyio.Event, held: Held) -> None:
    """Whenever anybody comes or goes, everybody looks again whether he is the first.

    Nobody looks before all are there: else their coming alone would take hours.
    """
    # Named as the library does it, so that listings are of the same length.
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


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has passed between a server and its clients, without pings.

    Attributes:
        events: notifications of watches.
        requests: how many.
        bytes_in: to the server.
        bytes_out: from the server, events included.
    """

    events: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.events - other.events,
            self.requests - other.requests,
            self.bytes_in - other.bytes_in,
            self.bytes_out - other.bytes_out,
        )


class Meter:
    """Counts the frames of any number of connections."""

    def __init__(self) -> None:
        self._events = self._requests = self._bytes_in = self._bytes_out = 0
        self._unanswered = 0
        self.last_frame = time.monotonic()

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._events, self._requests, self._bytes_in, self._bytes_out)

    def request(self, xid: int, size: int) -> None:
        if xid != PING:
            self.last_frame = time.monotonic()
            self._requests += 1
            self._unanswered += 1
            self._bytes_in += size

    def answer(self, xid: int, size: int) -> None:
        if xid != PING:
            self.last_frame = time.monotonic()
            self._events += xid == EVENT
            self._unanswered -= xid != EVENT
            self._bytes_out += size

    async def quiet(self) -> None:
        """Waits until all is answered, and nothing has been said for a while."""
        left = QUIET
        while left > 0 or self._unanswered:
            await anyio.sleep(max(left, QUIET / 10))
            left = self.last_frame + QUIET - time.monotonic()


class Frames:
    """Cuts a stream of bytes into frames: the number in each, and its size with the length."""

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

    def __init__(self, inner: ByteStream, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter
        self._there, self._back = Frames(), Frames()

    async def send(self, item: bytes) -> None:
        for xid, size in self._there.feed(bytes(item)):
            self._meter.request(xid, size)
        await self._inner.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        for xid, size in self._back.feed(data):
            self._meter.answer(xid, size)
        return data

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


# --- one measurement -----------------------------------------------------------------------------

Dial = Callable[[str, int], Awaitable[ByteStream]]


@dataclass(frozen=True, slots=True)
class Result:
    """What one hand-over takes.

    Attributes:
        way: how it is elected.
        contenders: how many are in line, with the leader.
        traffic: until all is quiet again.
        seconds: from the departure to the next leader's first moment, the median of several.
    """

    way: str
    contenders: int
    traffic: Traffic
    seconds: float


async def measure(way: str, contenders: int, hosts: str, dial: Dial) -> Result:
    """Has leaders leave, one after the other. The first departure is counted, three are timed."""
    meter = Meter()

    async def metered(host: str, port: int) -> ByteStream:
        return MeteredStream(await dial(host, port), meter)

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

    async with AsyncExitStack() as stack:
        connections = [
            aiolead.connect(hosts, hooks=Hooks(dial=metered), session_timeout=40.0)
            for _ in range(contenders)
        ]
        clients = [await stack.enter_async_context(each) for each in connections]
        await clients[0].ensure_path(PATH)
        async with anyio.create_task_group() as tasks:
            for number, client in enumerate(clients):
                tasks.start_soon(contend, client, number)
                # One behind the other, so that we know who is next.
                there = 0
                while there <= number:
                    await anyio.lowlevel.checkpoint()
                    stat = await clients[0].exists(PATH)
                    there = 0 if stat is None else stat.num_children
            begin.set()
            await meter.quiet()
            traffic: list[Traffic] = []
            seconds: list[float] = []
            for number in range(min(3, contenders - 1)):
                before, start = meter.traffic, time.perf_counter()
                leaving[number].set()
                await led[number + 1].wait()
                await meter.quiet()
                traffic.append(meter.traffic - before)
                seconds.append(led_at[-1] - start)
            tasks.cancel_scope.cancel()
    return Result(way, contenders, traffic[0], statistics.median(seconds))


async def on_embedded(way: str, contenders: int) -> Result:
    async with EmbeddedServer(tick_time=3) as server:

        async def dial(_host: str, _port: int) -> ByteStream:
            return await server.connect_stream()

        return await measure(way, contenders, "127.0.0.1:1", dial)


async def on_real(way: str, contenders: int, hosts: str) -> Result:
    async with aiolead.connect(hosts) as client:
        await client.delete_all("/herd")

    async def dial(host: str, port: int) -> ByteStream:
        return await anyio.connect_tcp(host, port)

    return await measure(way, contenders, hosts, dial)


# --- what is said of it --------------------------------------------------------------------------

_HEAD = (
    "| contenders | watching | notifications | requests | bytes to the server | bytes from it "
    "| next leader after |\n|---|---|---|---|---|---|---|"
)


def line(result: Result) -> str:
    traffic = result.traffic
    return (
        f"| {result.contenders} | the {result.way} | {traffic.events:,} | {traffic.requests:,} "
        f"| {traffic.bytes_in:,} | {traffic.bytes_out:,} | {result.seconds * 1000:.1f} ms |"
    )


def plot(results: list[Result], file: Path) -> None:
    """Draws a picture, where matplotlib is there."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        print("(No picture: matplotlib is not there; pip install --group soak)")
        return
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for way in WAYS:
        mine = [result for result in results if result.way == way]
        sizes = [result.contenders for result in mine]
        label = f"watching the {way}"
        left.plot(sizes, [each.traffic.events for each in mine], marker="o", label=label)
        right.plot(sizes, [each.traffic.bytes_out for each in mine], marker="o", label=label)
    for axes, title in ((left, "notifications"), (right, "bytes from the server")):
        axes.set(xscale="log", yscale="log", title=f"{title} per hand-over", xlabel="contenders")
        axes.grid(visible=True, alpha=0.3)
    left.legend()
    # Texts as texts make it small, and the rest is the same each time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "herd"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    print(f"({file})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many contend")
    parser.add_argument("--real", action="store_true", help="on a real ZooKeeper")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draws a picture, too")
    options = parser.parse_args()
    results: list[Result] = []
    print(_HEAD)
    with ExitStack() as stack:
        hosts = ""
        if options.real:
            server = BlockingServer(tick_time=2.0, extra={"maxClientCnxns": 0})
            hosts = stack.enter_context(server).connect_string
        for contenders in options.sizes:
            for way in WAYS:
                if options.real:
                    result = anyio.run(on_real, way, contenders, hosts)
                else:
                    result = anyio.run(on_embedded, way, contenders)
                results.append(result)
                print(line(result), flush=True)
    kind = "a real ZooKeeper" if options.real else "the embedded server"
    print(f"\n{kind}, {platform.platform()}, Python {platform.python_version()}")
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
