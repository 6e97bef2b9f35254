"""The faults of `FaultProxy` between a client and an `EmbeddedServer` in memory.

There are no sockets and no threads, so that it works on virtual time, where seconds of waiting take
none. What a message is, and which one a rule takes, is decided by the same code as over TCP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Literal

import anyio
from anyio.abc import ByteStream, TaskGroup

from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing._proxy.tap import (
    Break,
    Data,
    Direction,
    Hold,
    How,
    Journal,
    Loss,
    MessageTap,
    Piece,
    Rule,
)
from aiolead.testing.streams import MemoryStream, memory_stream_pair
from kit.clients import eventually

_BOTH: tuple[Direction, Direction] = ("to_server", "to_client")
_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class MemoryHeldReply:
    """A reply that is held back; see `aiolead.testing.HeldReply`."""

    def __init__(self) -> None:
        self._arrived = anyio.Event()
        self._decided = anyio.Event()
        self._how: How | None = None

    @property
    def is_held(self) -> bool:
        return self._arrived.is_set() and not self._decided.is_set()

    async def wait(self, timeout: float = 30.0) -> None:
        with anyio.fail_after(timeout):
            await self._arrived.wait()

    def release(self) -> None:
        self._decided.set()

    def cut(self, how: How = "reset") -> None:
        self._how = how
        self._decided.set()

    async def _verdict(self) -> How | None:
        self._arrived.set()
        await self._decided.wait()
        return self._how


class MemoryProxy:
    """A proxy in memory; see `aiolead.testing.FaultProxy` for what its methods do.

    Args:
        server: where its connections lead.
        tasks: where they run.
    """

    def __init__(self, server: EmbeddedServer, tasks: TaskGroup) -> None:
        self._server = server
        self._tasks = tasks
        self._journal = Journal()
        self._rules: list[Rule] = []
        self._held: list[MemoryHeldReply] = []
        self._links: set[_Link] = set()
        self._is_refusing = self._is_ignoring = self._is_lossy = False
        self.gates: dict[Direction, anyio.Event] = {}
        self.cuts: dict[Direction, tuple[int, How]] = {}
        for direction in _BOTH:
            self.gates[direction] = anyio.Event()
            self.gates[direction].set()

    async def dial(self, _host: str, _port: int) -> ByteStream:
        """A connection of the client's: for its `Hooks`."""
        if self._is_refusing:
            raise ConnectionRefusedError("the proxy refuses connections")
        self._journal.connected()
        client, here = memory_stream_pair()
        there = None if self._is_ignoring else await self._server.connect_stream()
        link = _Link(self, here, there, MessageTap(self._rules, self._journal), self._journal)
        self._links.add(link)
        self._tasks.start_soon(self._serve, link)
        return client

    async def _serve(self, link: _Link) -> None:
        try:
            await link.run()
        finally:
            self._links.discard(link)

    # --- what passed ---------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        return self._journal.connections

    @property
    def open_connections(self) -> int:
        return len(self._links)

    @property
    def requests(self) -> Counter[str]:
        return self._journal.requests

    async def wait_for_request(
        self, op: OpCode | Collection[OpCode], *, count: int = 1, timeout: float = 30.0
    ) -> None:
        names = [each.name for each in _set(op)]
        await eventually(
            lambda: sum(self.requests[name] for name in names) >= count,
            f"{count} x {names}",
            within=timeout,
        )

    # --- faults of connections -----------------------------------------------------------------

    def reset(self) -> None:
        self._sever(list(self._links), "reset")

    def fin(self) -> None:
        self._sever(list(self._links), "fin")

    def refuse(self) -> None:
        self._is_refusing = True

    def ignore(self) -> None:
        self._is_ignoring = True

    def stall(self, direction: Direction | Literal["both"] = "both") -> None:
        for each in _directions(direction):
            if self.gates[each].is_set():
                self.gates[each] = anyio.Event()

    def blackhole(self, direction: Direction | Literal["both"] = "both") -> None:
        self.stall(direction)
        self._is_lossy = True

    def cut_after(self, size: int, direction: Direction, how: How = "reset") -> None:
        self.cuts[direction] = (size, how)

    def heal(self) -> None:
        self._is_refusing = self._is_ignoring = False
        self._rules.clear()
        self.cuts.clear()
        self._sever([link for link in self._links if self._is_lossy or link.is_muted], "reset")
        self._is_lossy = False
        for gate in self.gates.values():
            gate.set()
        for held in self._held:
            held.release()
        self._held.clear()

    def close(self) -> None:
        self.reset()

    def _sever(self, links: list[_Link], how: How) -> None:
        for link in links:
            link.cut(how)

    # --- faults of messages --------------------------------------------------------------------

    def drop_request(
        self,
        op: OpCode | Collection[OpCode],
        count: int = 1,
        how: Loss = "reset",
        *,
        after: int = 0,
    ) -> None:
        self._rules.append(Rule("to_server", _set(op), count, how, after))

    def drop_reply(
        self,
        op: OpCode | Collection[OpCode],
        count: int = 1,
        how: Loss = "reset",
        *,
        after: int = 0,
    ) -> None:
        self._rules.append(Rule("to_client", _set(op), count, how, after))

    def hold_reply(self, op: OpCode | Collection[OpCode]) -> MemoryHeldReply:
        held = MemoryHeldReply()
        self._held.append(held)
        self._rules.append(Rule("to_client", _set(op), 1, verdict=held._verdict))
        return held


class _Link:
    """One connection: a client's, and the one to the server that belongs to it, if any."""

    def __init__(
        self,
        proxy: MemoryProxy,
        client: MemoryStream,
        server: MemoryStream | None,
        tap: MessageTap,
        journal: Journal,
    ) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._tap = tap
        self._journal = journal
        self._end = anyio.Event()
        self.is_muted = server is None

    def cut(self, how: How) -> None:
        """Ends the connection at both ends, or makes it fall silent."""
        if how == "silence":
            self.is_muted = True
            return
        for stream in (self._client, self._server):
            if stream is not None:
                (stream.reset if how == "reset" else stream.close)()
        self._end.set()

    async def run(self) -> None:
        async with anyio.create_task_group() as pumps:
            if self._server is not None:
                pumps.start_soon(self._pump, "to_server", self._client, self._server)
                pumps.start_soon(self._pump, "to_client", self._server, self._client)
            await self._end.wait()
            pumps.cancel_scope.cancel()

    async def _pump(self, direction: Direction, source: MemoryStream, sink: MemoryStream) -> None:
        try:
            while True:
                for piece in self._pieces(direction, await source.receive()):
                    await self._take(direction, piece, sink)
        except anyio.EndOfStream:
            await self._may_pass(direction)
            self.cut("fin")
        except _ENDED:
            # The other end learns of it, if anything gets there.
            await self._may_pass(direction)
            self.cut("reset")

    def _pieces(self, direction: Direction, data: bytes) -> Iterator[Piece]:
        return self._tap.to_server(data) if direction == "to_server" else self._tap.to_client(data)

    async def _take(self, direction: Direction, piece: Piece, sink: MemoryStream) -> None:
        await self._may_pass(direction)
        match piece:
            case Data(data, requests):
                await self._pass(direction, data, requests, sink)
            case Hold(verdict):
                how = await verdict()
                if how is not None:
                    await self._stop(how)
                await self._may_pass(direction)
            case Break(how):
                await self._stop(how)

    async def _pass(
        self, direction: Direction, data: bytes, requests: tuple[int, ...], sink: MemoryStream
    ) -> None:
        cut = self._proxy.cuts.get(direction)
        if cut is None:
            await sink.send(data)
            self._journal.passed(direction, len(data), requests)
            return
        room, how = cut
        await sink.send(data[:room])
        self._journal.passed(direction, min(room, len(data)), requests if len(data) <= room else ())
        if len(data) < room:
            self._proxy.cuts[direction] = (room - len(data), how)
            return
        self._proxy.cuts.pop(direction, None)
        # What was passed on arrives before the end does.
        await anyio.sleep(0.001)
        await self._stop(how)

    async def _may_pass(self, direction: Direction) -> None:
        await self._proxy.gates[direction].wait()
        if self.is_muted:
            await anyio.sleep_forever()

    async def _stop(self, how: How) -> None:
        """Ends the connection, or has it fall silent; what waited to pass never does."""
        self.cut(how)
        await anyio.sleep_forever()


def _set(op: OpCode | Collection[OpCode]) -> frozenset[OpCode]:
    return frozenset([op]) if isinstance(op, OpCode) else frozenset(op)


def _directions(direction: Direction | Literal["both"]) -> tuple[Direction, ...]:
    return _BOTH if direction == "both" else (direction,)
