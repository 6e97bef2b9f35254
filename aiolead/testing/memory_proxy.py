"""The faults of a proxy between a client and an embedded server, in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

from .._client.connect import Connection, connect
from .._client.connect_options import Hooks
from ._proxy.tap import (
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
from .embedded import EmbeddedServer
from .proxy import Ops, op_set
from .streams import MemoryStream

__all__ = ["MemoryHeldReply", "MemoryProxy"]

_BOTH: tuple[Direction, Direction] = ("to_server", "to_client")
_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class MemoryHeldReply:
    """A reply that a `MemoryProxy` holds back: see `HeldReply`, whose methods it has."""

    def __init__(self) -> None:
        self._arrived = anyio.Event()
        self._decided = anyio.Event()
        self._how: How | None = None

    @property
    def is_held(self) -> bool:
        """Whether the reply has come from the server and waits here."""
        return self._arrived.is_set() and not self._decided.is_set()

    async def wait(self, timeout: float = 30.0) -> None:
        """Waits until the reply has come from the server and is held.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: it did not come in time.
        """
        with anyio.fail_after(timeout):
            await self._arrived.wait()

    def release(self) -> None:
        """Lets the reply pass, and all that follows it."""
        self._decided.set()

    def cut(self, how: How = "reset") -> None:
        """Drops the reply and ends its connection; see `FaultProxy.drop_reply`."""
        self._how = how
        self._decided.set()

    async def _verdict(self) -> How | None:
        self._arrived.set()
        await self._decided.wait()
        return self._how


class MemoryProxy:
    """A `FaultProxy` in memory, between clients and an `EmbeddedServer` of the same event loop.

        async with EmbeddedServer(port=None) as server:
            link = MemoryProxy(server)
            async with link.connect() as client:
                link.drop_reply(OpCode.CREATE2)
                ...

    Without sockets and threads, it works on virtual time, where seconds of waiting take none. Its
    methods mean what those of `FaultProxy` mean, and the same code decides what a message is and
    which rule takes it. There are two differences. It has no `delay`. It has no tasks, and need
    not be closed: bytes pass as the client sends and receives.

    Not thread-safe: it belongs to the event loop of its server.

    Args:
        server: where its connections lead.

    Attributes:
        segments: the bytes that the clients have sent, each item as the connection received it.
    """

    def __init__(self, server: EmbeddedServer) -> None:
        self.segments: list[bytes] = []
        self._server = server
        self._journal = Journal()
        self._rules: list[Rule] = []
        self._held: list[MemoryHeldReply] = []
        self._streams: list[_ProxiedStream] = []
        self._stalled: set[Direction] = set()
        self._cuts: dict[Direction, tuple[int, How]] = {}
        self._room: int | None = None
        """How many more connections are made; None for any number."""
        self._is_ignoring = self._is_lossy = False
        self._changed = anyio.Event()

    def connect(self, **options: Any) -> Connection:
        """A client whose connections go through this proxy: `aiolead.connect`, without hosts.

        Args:
            options: those of `aiolead.connect`. Hooks keep all but their `dial`.
        """
        hooks = replace(options.pop("hooks", None) or Hooks(), dial=self.dial)
        return connect("127.0.0.1:1", hooks=hooks, **options)

    async def dial(self, _host: str, _port: int) -> ByteStream:
        """A new connection, for the `dial` of `Hooks`; host and port do not matter.

        Raises:
            ConnectionRefusedError: after `refuse`.
        """
        if self._room is not None:
            if not self._room:
                raise ConnectionRefusedError("the proxy refuses connections")
            self._room -= 1
        self._journal.connected()
        server = None if self._is_ignoring else await self._server.connect_stream()
        stream = _ProxiedStream(self, server, MessageTap(self._rules, self._journal))
        self._streams.append(stream)
        return stream

    # --- what passed ---------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """How many connections were made so far."""
        return self._journal.connections

    @property
    def open_connections(self) -> int:
        """How many are open now."""
        return len(self._streams)

    @property
    def requests(self) -> Counter[str]:
        """How many requests were passed on, or dropped by a rule; see `FaultProxy.requests`."""
        return self._journal.requests

    @property
    def bytes(self) -> Counter[str]:
        """How many bytes were passed on: `to_server` and `to_client`."""
        return self._journal.bytes

    async def wait_for_request(self, op: Ops, *, count: int = 1, timeout: float = 30.0) -> None:
        """Waits until requests of a kind were passed on, or dropped by a rule.

        See `FaultProxy.wait_for_request` for the arguments.

        Raises:
            TimeoutError: they did not come in time.
        """
        names = sorted(each.name for each in op_set(op))
        with anyio.move_on_after(timeout):
            while sum(self.requests[name] for name in names) < count:
                await self._changed.wait()
            return
        raise TimeoutError(f"{count} x {' or '.join(names)} within {timeout} s: {self.requests}")

    # --- faults of connections -----------------------------------------------------------------

    def reset(self) -> None:
        """Resets every connection now, at both ends."""
        for stream in self._streams.copy():
            stream.end("reset")

    def fin(self) -> None:
        """Ends every connection in order now (FIN), at both ends."""
        for stream in self._streams.copy():
            stream.end("fin")

    def refuse(self, *, after: int = 0) -> None:
        """Refuses new connections until `heal`. Those that are open go on.

        Args:
            after: how many more connections are made first.
        """
        self._room = after

    def down(self) -> None:
        """Resets every connection and refuses new ones until `heal`, as a server that crashed."""
        self.refuse()
        self.reset()

    def ignore(self) -> None:
        """Accepts new connections, but never answers on them, until `heal`; then they are reset."""
        self._is_ignoring = True

    def stall(self, direction: Direction | Literal["both"] = "both") -> None:
        """Holds all bytes back until `heal`, which delivers them late, as one segment each way."""
        self._stalled.update(_BOTH if direction == "both" else (direction,))

    def blackhole(self, direction: Direction | Literal["both"] = "both") -> None:
        """Delivers no bytes any more; `heal` resets the connections."""
        self.stall(direction)
        self._is_lossy = True

    @contextmanager
    def partition(self) -> Iterator[None]:
        """Cuts the clients off for the body of a `with`: a `blackhole`, and then `heal`."""
        self.blackhole()
        try:
            yield
        finally:
            self.heal()

    def cut_after(self, size: int, direction: Direction, how: How = "reset") -> None:
        """Cuts the connection that carries the last of so many more bytes; see `FaultProxy`."""
        self._cuts[direction] = (size, how)

    def heal(self) -> None:
        """Undoes every standing fault and forgets every rule: the proxy passes bytes on, no more.

        Stalled and held bytes are delivered. Connections that lost bytes are reset.
        """
        self._room = None
        self._is_ignoring = False
        self._rules.clear()
        self._cuts.clear()
        for stream in self._streams.copy():
            if self._is_lossy or stream.is_muted:
                stream.end("reset")
        self._is_lossy = False
        self._stalled.clear()
        for held in self._held:
            held.release()
        self._held.clear()
        for stream in self._streams.copy():
            stream.flush()
        self._touch()

    def close(self) -> None:
        """Resets every connection. Nothing else needs an end."""
        self.reset()

    # --- faults of messages --------------------------------------------------------------------

    def drop_request(self, op: Ops, count: int = 1, how: Loss = "reset", *, after: int = 0) -> None:
        """Loses a request: the server never sees it; see `FaultProxy.drop_request`."""
        self._rules.append(Rule("to_server", op_set(op), count, how, after))

    def drop_reply(self, op: Ops, count: int = 1, how: Loss = "reset", *, after: int = 0) -> None:
        """Loses a reply: the server has done what was asked; see `FaultProxy.drop_reply`."""
        self._rules.append(Rule("to_client", op_set(op), count, how, after))

    def hold_reply(self, op: Ops, *, after: int = 0) -> MemoryHeldReply:
        """Holds a reply of a kind back, and all that follows it on its connection.

        Args:
            op: the kind of request that it answers, one or several.
            after: how many of these replies pass first.
        """
        held = MemoryHeldReply()
        self._held.append(held)
        self._rules.append(Rule("to_client", op_set(op), 1, after=after, verdict=held._verdict))
        return held

    # --- for the streams -----------------------------------------------------------------------

    def _touch(self) -> None:
        """Wakes the tasks that wait for a change."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _passes(self, direction: Direction) -> bool:
        return direction not in self._stalled

    def _passed(self, direction: Direction, data: Data) -> tuple[Data, How | None]:
        """Return the bytes that pass, and how the connection ends after them, if it does."""
        size = len(data.data)
        room, how = self._cuts.get(direction, (size + 1, None))
        passed = data if size <= room else Data(data.data[:room])
        self._journal.passed(direction, len(passed.data), passed.requests)
        self._touch()
        if how is not None:
            self._cuts[direction] = (room - size, how)
            if size < room:
                return passed, None
            del self._cuts[direction]
        return passed, how


class _Pieces:
    """The pieces that have yet to pass in one direction. Rules decide as a piece is taken."""

    def __init__(self) -> None:
        self._parts: deque[Iterator[Piece]] = deque()

    def add(self, pieces: Iterator[Piece]) -> None:
        self._parts.append(pieces)

    def put_back(self, piece: Piece | None) -> None:
        if piece is not None:
            self._parts.appendleft(iter((piece,)))

    def take(self) -> Piece | None:
        while self._parts:
            for piece in self._parts[0]:
                return piece
            self._parts.popleft()
        return None


class _ProxiedStream(ByteStream):
    """The client's end of a connection through a `MemoryProxy`.

    Args:
        proxy: it says what passes.
        server: the connection to the server; None if it is never answered.
        tap: finds the messages in the bytes.
    """

    def __init__(self, proxy: MemoryProxy, server: MemoryStream | None, tap: MessageTap) -> None:
        self.is_muted = server is None
        self._proxy = proxy
        self._server = server
        self._tap = tap
        self._outgoing = _Pieces()
        self._incoming = _Pieces()
        self._next: Piece | None = None
        """The next piece for the client, if it was taken out of those that come in."""
        self._end: How | None = None
        self._is_closed = False
        self._wait_for_verdict: anyio.CancelScope | None = None

    @property
    def extra_attributes(self) -> dict[Any, Callable[[], Any]]:
        return {}

    def end(self, how: How) -> None:
        """Ends the connection at both ends, or makes it fall silent. Passed bytes arrive."""
        if how == "silence":
            self.is_muted = True
        elif self._end is None:
            self._end = how
            if self._server is not None:
                self._server.close()
            if self._wait_for_verdict is not None:
                self._wait_for_verdict.cancel()
            self._leave()

    def _leave(self) -> None:
        if self in self._proxy._streams:
            self._proxy._streams.remove(self)
        self._proxy._touch()

    # --- to the server -------------------------------------------------------------------------

    async def send(self, item: bytes) -> None:
        await checkpoint_if_cancelled()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._end is not None:
            raise anyio.BrokenResourceError
        data = bytes(item)
        self._proxy.segments.append(data)
        self._outgoing.add(self._tap.to_server(data))
        self.flush()
        await cancel_shielded_checkpoint()

    def flush(self) -> None:
        """Passes on what the client has sent, as far as it may pass."""
        while self._server is not None and self._end is None and not self.is_muted:
            if not self._proxy._passes("to_server"):
                break
            match self._outgoing.take():
                case Data() as piece:
                    passed, how = self._proxy._passed("to_server", piece)
                    try:
                        self._server.push(passed.data)
                    except _ENDED:
                        how = "reset"
                    if how is not None:
                        self.end(how)
                case Break(how_):
                    self.end(how_)
                case _:
                    break
        self._proxy._touch()  # a request may have been dropped

    async def send_eof(self) -> None:
        if self._server is not None:
            await self._server.send_eof()

    # --- to the client -------------------------------------------------------------------------

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await checkpoint_if_cancelled()
        was_stalled = False
        while True:
            if self._is_closed:
                raise anyio.ClosedResourceError
            if self._end is not None:
                raise anyio.EndOfStream if self._end == "fin" else anyio.BrokenResourceError
            if self._server is None or self.is_muted or not self._proxy._passes("to_client"):
                was_stalled = True
                await self._proxy._changed.wait()
                continue
            self._next = self._next or self._incoming.take()
            match self._next:
                case None:
                    await self._fill(self._server)
                case Break(how):
                    self.end(how)
                case Hold(verdict):
                    await self._judge(verdict)
                case Data() as piece:
                    if part := self._take(piece, max_bytes, self._server if was_stalled else None):
                        await cancel_shielded_checkpoint()
                        return part

    async def _fill(self, server: MemoryStream) -> None:
        try:
            self._incoming.add(self._tap.to_client(await server.receive()))
        except anyio.EndOfStream:
            self._next = Break("fin")
        except _ENDED:
            self._next = Break("reset")

    async def _judge(self, verdict: Callable[[], Any]) -> None:
        try:
            with anyio.CancelScope() as self._wait_for_verdict:
                how = await verdict()
                self._next = None if how is None else Break(how)
        finally:
            self._wait_for_verdict = None

    def _take(self, first: Data, max_bytes: int, held_back: MemoryStream | None) -> bytes:
        """Return the bytes that arrive now: a piece, and all that was held back behind it."""
        data, self._next = first.data, None
        if held_back is not None:
            self._incoming.add(self._tap.to_client(held_back.receive_nowait()))
            while isinstance(piece := self._incoming.take(), Data):
                data += piece.data
            self._next = piece
        if len(data) > max_bytes:
            self._incoming.put_back(self._next)
            self._next = Data(data[max_bytes:])
        passed, how = self._proxy._passed("to_client", Data(data[:max_bytes]))
        if how is not None:
            self.end(how)
        return passed.data

    async def aclose(self) -> None:
        self._is_closed = True
        self._leave()
        if self._server is not None:
            await self._server.aclose()
