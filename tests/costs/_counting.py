"""The costs of an operation of a recipe, measured on the embedded server, in memory.

During a measurement, everything that the clients send is held back until none of them can go on.
Then it is delivered at once, the server answers it, and its events go out. Such a round is a
network round trip, if nothing else takes time. So the number of **round trips** is the number of
rounds from the beginning of the operation to its end. Requests that no client waits for count as
requests and bytes, but not as round trips.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, TaskGroup, TaskStatus
from kit.clients import HandClock

import aiolead
from aiolead._wire.codes import OpCode
from aiolead.testing import EmbeddedServer, Hooks

PATH = "/app/thing"
"""The path of the measured recipes. The bytes depend on its length."""

IDENTITY = "host-1"
"""The identity of the measured contenders. The bytes depend on it, too."""

PATIENCE = 30.0
"""A limit for a measurement, in seconds. It takes milliseconds."""

_CALM = 25
"""After so many turns of the event loop without any traffic, there will be none."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of an operation, summed over all clients.

    Attributes:
        requests: by kind, without pings.
        round_trips: how many of them had to follow one after the other.
        watches: how many were set.
        sent: bytes to the server, with the length of each frame.
        received: bytes from it, events included.
    """

    requests: tuple[tuple[str, int], ...]
    round_trips: int
    watches: int
    sent: int
    received: int

    @property
    def total(self) -> int:
        """How many requests."""
        return sum(count for _, count in self.requests)


Act = Callable[["Bench"], Awaitable[None]]


@dataclass(frozen=True)
class Operation:
    """One row of the table.

    Attributes:
        recipe: the name of the recipe.
        name: the operation, in a few words.
        act: prepares and runs it, once. It calls `start` and `stop` of the bench, or uses
            `measured`, around the measured part.
    """

    recipe: str
    name: str
    act: Act

    def __str__(self) -> str:
        return f"{self.recipe}: {self.name}"


def rows(recipe: str, acts: Mapping[str, Act]) -> list[Operation]:
    """The operations of a recipe, by their names."""
    return [Operation(recipe, name, act) for name, act in acts.items()]


# --- the network ---------------------------------------------------------------------------------


class _Network:
    """The network of one client."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.is_cut = False

    async def dial(self, _host: str, _port: int) -> ByteStream:
        if self.is_cut:
            raise ConnectionRefusedError("cut")
        link = _Link(self._bench, self, await self._bench.server.connect_stream())
        self._bench._links.append(link)
        return link


class _Link(ByteStream):
    """A connection of a client, which holds data back during a measurement."""

    def __init__(self, bench: Bench, network: _Network, inner: ByteStream) -> None:
        self._bench = bench
        self._network = network
        self._inner = inner
        self.held: list[bytes] = []

    async def send(self, item: bytes) -> None:
        if self._network.is_cut:
            await anyio.lowlevel.checkpoint()
            return
        data = bytes(item)
        self._bench._sent(data)
        if self._bench._lockstep:
            self.held.append(data)
            await anyio.lowlevel.checkpoint()
        else:
            await self._inner.send(data)

    async def flush(self) -> None:
        held, self.held = self.held, []
        for data in held:
            await self._inner.send(data)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._inner.receive(max_bytes)
        if not self._network.is_cut:
            self._bench._received(data)
        return data

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass
class _Traffic:
    requests: Counter[str] = field(default_factory=Counter)
    watches: int = 0
    sent: int = 0
    received: int = 0


class Bench:
    """A server, the clients of one measurement, and the traffic between them.

    Attributes:
        server: the server, for preparations.
        clock: the clock of the clients' leases. It stands still, so that no renewal is due.
    """

    def __init__(self, server: EmbeddedServer, tasks: TaskGroup) -> None:
        self.server = server
        self.clock = HandClock()
        self._tasks = tasks
        self._closing = anyio.Event()
        self._links: list[_Link] = []
        self._networks: dict[aiolead.Client, _Network] = {}
        self._over = anyio.Event()
        self._lockstep = False
        self._rounds = 0
        self._rounds_taken: int | None = None
        self._moves = 0
        self._traffic = _Traffic()
        self._cost: Cost | None = None

    async def client(self, clock: Callable[[], float] | None = None) -> aiolead.Client:
        """One more client, with a session and a connection of its own."""
        network = _Network(self)
        connection = aiolead.connect(
            "127.0.0.1:1",
            session_timeout=60,
            hooks=Hooks(dial=network.dial, clock=clock or self.clock),
        )
        # In a task of its own, so that others may be inside of a block already.
        client: aiolead.Client = await self._tasks.start(self._host, connection)
        self._networks[client] = network
        await self.settle()
        return client

    def kill(self, client: aiolead.Client) -> None:
        """Drops its traffic until `stop`. Its session lives until it is expired."""
        self._networks[client].is_cut = True

    async def start(self) -> None:
        """Begins the measurement, once there is no traffic any more."""
        assert self._cost is None, "one operation has one cost"
        await self.settle()
        self._traffic = _Traffic()
        self._rounds, self._rounds_taken = 0, None
        self._lockstep = True

    async def stop(self) -> None:
        """Ends the operation. Requests that it leaves to the clients still count, without time."""
        assert self._lockstep, "not started"
        assert self._rounds_taken is None
        self._rounds_taken = self._rounds
        await self._calm()
        while any(link.held for link in self._links):
            await self._turn()
            await self._calm()
        traffic = self._traffic
        self._lockstep = False
        self._cost = Cost(
            tuple(sorted(traffic.requests.items())),
            self._rounds_taken,
            traffic.watches,
            traffic.sent,
            traffic.received,
        )
        for network in self._networks.values():
            # Killed clients learn that their sessions are over.
            network.is_cut = False
        self._over.set()

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """From `start` to `stop`."""
        await self.start()
        yield
        await self.stop()

    async def settle(self) -> None:
        """Waits until there is no traffic any more; for preparations."""
        assert not self._lockstep, "this is measured"
        await self._calm()

    @property
    def is_measuring(self) -> bool:
        """Whether the measurement has begun, and not ended."""
        return self._lockstep

    async def quiet(self) -> None:
        """Waits until no client sends anything more, if that is the end of the operation."""
        assert self._lockstep, "this is not measured"
        rounds = -1
        while rounds != self._rounds or any(link.held for link in self._links):
            rounds = self._rounds
            await self._calm()

    async def over(self) -> None:
        """Waits until another task has called `stop`."""
        await self._over.wait()

    def cost(self) -> Cost:
        assert self._cost is not None, "it was not measured: call `start` and `stop`"
        return self._cost

    def close(self) -> None:
        """Closes all clients."""
        self._closing.set()

    async def run(self) -> None:
        """Delivers the data that is held back, round after round, until it is cancelled."""
        while True:
            await self._calm()
            waits = self._lockstep and self._rounds_taken is None
            if waits and any(link.held for link in self._links):
                self._rounds += 1
                await self._turn()
            else:
                await anyio.sleep(0.0005)

    # --- inside ----------------------------------------------------------------------------------

    async def _host(
        self, connection: aiolead.types.Connection, *, task_status: TaskStatus[aiolead.Client]
    ) -> None:
        async with connection as client:
            task_status.started(client)
            await self._closing.wait()

    def _sent(self, data: bytes) -> None:
        self._moves += 1
        traffic = self._traffic
        traffic.sent += len(data)
        if self._lockstep:
            for kind, watches in _requests(data):
                traffic.requests[kind] += 1
                traffic.watches += watches

    def _received(self, data: bytes) -> None:
        self._moves += 1
        self._traffic.received += len(data)

    async def _turn(self) -> None:
        for link in list(self._links):
            await link.flush()

    async def _calm(self) -> None:
        quiet, seen = 0, None
        while quiet < _CALM:
            now = (self._moves, self.server.packets_in, self.server.packets_out)
            quiet = quiet + 1 if now == seen else 0
            seen = now
            await anyio.lowlevel.checkpoint()


_WATCH_FLAG = {OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2}


def _requests(segment: bytes) -> list[tuple[str, int]]:
    """The kinds of the requests in a segment, and how many watches each sets."""
    found = []
    while segment:
        (length,) = struct.unpack_from(">i", segment)
        frame, segment = segment[4 : 4 + length], segment[4 + length :]
        assert len(frame) == length, "a segment holds whole frames"
        _, code = struct.unpack_from(">ii", frame)
        op = OpCode(code)
        assert op is not OpCode.PING, "the clock stands still"
        if op is OpCode.SET_WATCHES:
            # The paths whose data is watched, after a zxid.
            (watches,) = struct.unpack_from(">i", frame, 16)
        else:
            # The flag is the last field of those that have it.
            watches = frame[-1] if op in _WATCH_FLAG else int(op is OpCode.ADD_WATCH)
        found.append((op.name.lower(), watches))
    return found


async def measure(operation: Operation) -> Cost:
    """Runs an operation, and returns its costs.

    Raises:
        TimeoutError: it is not over after `PATIENCE` seconds.
    """
    with anyio.fail_after(PATIENCE):
        # Sessions last so long that no ping is due meanwhile.
        async with EmbeddedServer(tick_time=3) as server, anyio.create_task_group() as pump:
            async with anyio.create_task_group() as tasks:
                bench = Bench(server, tasks)
                pump.start_soon(bench.run)
                operator = await bench.client()
                await operator.ensure_path(PATH.rpartition("/")[0])
                await operation.act(bench)
                bench.close()
            pump.cancel_scope.cancel()
    return bench.cost()
