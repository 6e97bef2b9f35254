"""A TCP proxy that breaks connections in every way that networks do."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import anyio.to_thread

from .._wire.codes import OpCode
from ..errors import UsageError
from ..paths import format_host
from ._proxy.link import Faults, Link, close_with_reset
from ._proxy.tap import Direction, How, Journal, MessageTap, Rule, Tap
from ._proxy.thread import LoopThread
from .launch import LOOPBACK

__all__ = ["FaultProxy", "HeldReply"]

_T = TypeVar("_T")
_Ops = OpCode | Collection[OpCode]
_BACKLOG = 128
_DIAL_SECONDS = 10.0
_REDIAL_SECONDS = 0.01


class HeldReply:
    """A reply that the proxy holds back, with all that follows it on its connection.

    Made by `FaultProxy.hold_reply`. The server has answered; the client does not know it.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._arrived = threading.Event()
        self._decided = asyncio.Event()
        self._how: How | None = None

    @property
    def is_held(self) -> bool:
        """Whether the reply has come from the server and waits here."""
        return self._arrived.is_set() and not self._decided.is_set()

    async def wait(self, timeout: float = 5.0) -> None:
        """Waits until the reply has come from the server and is held.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: it did not come in time.
        """
        await _in_time(self._arrived.wait, timeout, "the reply that is to be held")

    def release(self) -> None:
        """Lets the reply pass, and all that follows it."""
        self._decide(None)

    def cut(self, how: How = "reset") -> None:
        """Drops the reply and ends its connection; see `FaultProxy.drop_reply`."""
        self._decide(how)

    def _decide(self, how: How | None) -> None:
        async def decide() -> None:
            self._how = how
            self._decided.set()

        self._thread.run(decide)

    async def _verdict(self) -> How | None:
        self._arrived.set()
        await self._decided.wait()
        return self._how


class FaultProxy:
    """A TCP proxy between a client and a server, with faults on demand.

    It listens on a port of its own on loopback and runs in a thread of its own, so that it works
    under any event loop and without one, and goes on while a test blocks. A context manager, with
    `with` and `async with` alike:

        async with FaultProxy("127.0.0.1", server.port) as proxy:
            async with aiolead.connect(proxy.connect_string) as client:
                proxy.drop_reply(OpCode.CREATE2)
                ...

    The methods that make faults are plain functions. They return, in well under a millisecond,
    once the fault is there. `heal` undoes all of them.

    Where the bytes are ZooKeeper's protocol, the proxy knows its messages: it counts the requests,
    and can lose or hold back a certain one. Whatever else they are, they pass as they come.

    Args:
        host: the server's host.
        port: the server's port.
        listen_port: where the proxy listens; by default, a port that is free.
        patience: how long, in seconds, a new connection waits for a server that refuses it. Then it
            is reset; it cannot be refused any more, as it would be without the proxy.
        seed: for the jitter of `delay`.
        tap: what looks at the bytes of each connection; by default, ZooKeeper's messages.
        thread: the thread to run in; by default, one that lives as long as the proxy.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        listen_port: int = 0,
        patience: float = 0.0,
        seed: int | None = None,
        tap: Callable[[], Tap] | None = None,
        thread: LoopThread | None = None,
    ) -> None:
        self._target = (host, port)
        self._patience = patience
        # Jitter is no secret.
        self._faults = Faults(random.Random(seed))  # noqa: S311
        self._journal = Journal()
        self._rules: list[Rule] = []
        self._held: list[HeldReply] = []
        self._tap = tap or (lambda: MessageTap(self._rules, self._journal))
        self._owns_thread = thread is None
        self._given_thread = thread
        self._running: LoopThread | None = None
        self._listener: socket.socket | None = None
        self._port = listen_port
        self._is_listening = False
        self._links: dict[asyncio.Task[None], Link | None] = {}
        self._ignoring = False
        self._lossy = False
        self._defects: list[BaseException] = []

    # --- life ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begins to listen."""
        if self._running is not None:
            raise UsageError("the proxy runs already")
        self._running = self._given_thread or LoopThread("fault-proxy")
        self._do(self._listen)

    def close(self) -> None:
        """Resets every connection and stops listening.

        Raises:
            ExceptionGroup: the proxy itself failed while it ran, so what the test saw means little.
        """
        if self._running is None:
            return
        try:
            self._do(self._shut)
        finally:
            if self._owns_thread:
                self._running.close()
            self._running = None
        if self._defects:
            defects, self._defects = self._defects, []
            raise BaseExceptionGroup("the fault proxy itself failed", defects)

    @property
    def port(self) -> int:
        """Where it listens; the same for its whole life."""
        return self._port

    @property
    def connect_string(self) -> str:
        return format_host(LOOPBACK, self._port)

    # --- what passed ---------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        return self._journal.connections

    @property
    def open_connections(self) -> int:
        """How many are open now."""
        return len(self._links)

    @property
    def requests(self) -> Counter[str]:
        """How many requests were passed on, or dropped by a rule: by name, such as `CREATE2`.

        The handshake counts as `CREATE_SESSION`, and pings count, too.
        """
        return self._journal.requests

    @property
    def bytes(self) -> Counter[str]:
        """How many bytes were passed on: `to_server` and `to_client`."""
        return self._journal.bytes

    async def wait_for_request(self, op: _Ops, *, count: int = 1, timeout: float = 5.0) -> None:
        """Waits until requests of a kind were passed on to the server, or dropped by a rule.

        Args:
            op: which requests, one kind or several.
            count: how many, counted since the proxy started (see `requests`).
            timeout: in seconds.

        Raises:
            TimeoutError: they did not come in time.
        """
        ops = _set(op)
        await _in_time(
            lambda patience: self._journal.wait_for_request(ops, count, patience),
            timeout,
            f"{count} x {' or '.join(sorted(each.name for each in ops))}, saw {self.requests}",
        )

    # --- faults of connections -----------------------------------------------------------------

    def reset(self) -> None:
        """Resets every connection now, at both ends."""
        self._do(lambda: self._cut_all("reset"))

    def fin(self) -> None:
        """Ends every connection in order now (FIN), at both ends."""
        self._do(lambda: self._cut_all("fin"))

    def refuse(self) -> None:
        """Refuses new connections until `heal`. Those that are open go on."""
        self._do(self._refuse)

    def ignore(self) -> None:
        """Accepts new connections, but never answers on them, until `heal`; then they are reset."""
        self._do(self._ignore)

    def stall(self, direction: Direction | Literal["both"] = "both") -> None:
        """Holds all bytes back until `heal`, which delivers them late, in order."""
        self._do(lambda: self._hold(direction, lossy=False))

    def blackhole(self, direction: Direction | Literal["both"] = "both") -> None:
        """Delivers no bytes any more; `heal` resets the connections that this has hit.

        Neither end notices, as behind a firewall that drops packets: no FIN, no reset.
        """
        self._do(lambda: self._hold(direction, lossy=True))

    def delay(
        self,
        seconds: float,
        jitter: float = 0.0,
        direction: Direction | Literal["both"] = "both",
    ) -> None:
        """Delivers bytes late.

        Args:
            seconds: by how much, each way.
            jitter: up to how much more, drawn anew for each chunk; order is kept.
            direction: which way.
        """

        async def delay() -> None:
            for each in _directions(direction):
                self._faults.delays[each] = (seconds, jitter)

        self._do(delay)

    def cut_after(self, size: int, direction: Direction, how: How = "reset") -> None:
        """Cuts the connection that carries the last of so many more bytes, right after it. Once.

        Args:
            size: how many bytes still pass in this direction, on all connections together; with
                0, the next byte finds its connection cut.
            direction: which way.
            how: `"reset"` and `"fin"` end the connection; `"silence"` leaves it open, but nothing
                passes on it any more, until `heal` resets it.
        """

        async def set_cut() -> None:
            self._faults.cut_after(size, direction, how)

        self._do(set_cut)

    def heal(self) -> None:
        """Undoes every standing fault and forgets every rule: the proxy passes bytes on, no more.

        What was stalled or held back is delivered. Connections that lost bytes (`blackhole`,
        `ignore`, `how="silence"`) are reset, since they cannot go on.
        """
        self._do(self._heal)

    # --- faults of messages --------------------------------------------------------------------

    def drop_request(self, op: _Ops, count: int = 1, how: How = "reset") -> None:
        """Loses a request: the server never sees it, and the connection ends there.

        Args:
            op: which requests, one kind or several; `CREATE_SESSION` is the handshake.
            count: how many of them, each with its connection.
            how: as for `cut_after`.
        """
        self._add(Rule("to_server", _set(op), count, how))

    def drop_reply(self, op: _Ops, count: int = 1, how: How = "reset") -> None:
        """Loses a reply: the server has done what was asked, and the client cannot know.

        Args:
            op: the kind of request that it answers; `NOTIFICATION` is a watch's event.
            count: how many of them, each with its connection.
            how: as for `cut_after`.
        """
        self._add(Rule("to_client", _set(op), count, how))

    def hold_reply(self, op: _Ops) -> HeldReply:
        """Holds the next reply of a kind back, and all that follows it on its connection.

        Returns:
            what tells when it is held, and then releases it or cuts the connection.
        """
        held = HeldReply(self._thread)
        self._held.append(held)
        self._add(Rule("to_client", _set(op), 1, verdict=held._verdict))
        return held

    def _add(self, rule: Rule) -> None:
        async def add() -> None:
            self._rules.append(rule)

        self._do(add)

    # --- in the thread -------------------------------------------------------------------------

    @property
    def _thread(self) -> LoopThread:
        if self._running is None:
            raise UsageError("the proxy does not run")
        return self._running

    def _do(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return self._thread.run(work)

    async def _listen(self) -> None:
        # The socket that keeps the port while connections are refused is the one that listens
        # afterwards: a port that is bound, but not listened on, refuses.
        if self._listener is None:
            self._listener = _bound(self._port)
            self._port = self._listener.getsockname()[1]
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
        self._journal.connected()
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
            return  # There is no server: being reset is all that the client can be told.
        link = self._links[task] = Link(client, server, self._tap(), self._faults, self._journal)
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

    def _stop_listening(self) -> None:
        if self._listener is not None:
            if self._is_listening:
                asyncio.get_running_loop().remove_reader(self._listener)
                self._is_listening = False
            self._listener.close()
            self._listener = None

    async def _refuse(self) -> None:
        self._stop_listening()
        self._listener = _bound(self._port)

    async def _ignore(self) -> None:
        self._ignoring = True

    async def _hold(self, direction: Direction | Literal["both"], *, lossy: bool) -> None:
        for each in _directions(direction):
            self._faults.open[each].clear()
        self._lossy = lossy

    async def _heal(self) -> None:
        self._ignoring = False
        if not self._is_listening:
            await self._listen()
        self._rules.clear()
        self._faults.delays.clear()
        self._faults.cuts.clear()
        await self._sever(lambda link: self._lossy or link.is_muted)
        self._lossy = False
        for held in self._held:
            held._decided.set()
        self._held.clear()
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

    async def _cut_all(self, how: How) -> None:
        await self._stop_dialling()
        await self._sever(lambda _: True, how)

    async def _shut(self) -> None:
        self._stop_listening()
        await self._cut_all("reset")
        # What is left waits, politely, for two ends to close that were told so by `fin`.
        leaving = list(self._links)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    def _note_defect(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._defects.append(error)


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    return listener


def _directions(direction: Direction | Literal["both"]) -> tuple[Direction, ...]:
    return ("to_server", "to_client") if direction == "both" else (direction,)


def _set(op: _Ops) -> frozenset[OpCode]:
    return frozenset([op]) if isinstance(op, OpCode) else frozenset(op)


async def _in_time(wait: Callable[[float], bool], timeout: float, what: str) -> None:
    # The thread is left behind if the caller is cancelled; it ends when the time is up.
    if not await anyio.to_thread.run_sync(wait, timeout, abandon_on_cancel=True):
        raise TimeoutError(f"no {what}, within {timeout} s")
