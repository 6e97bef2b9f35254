"""A TCP proxy that breaks connections in every way that networks do."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import anyio.to_thread

from .._wire.codes import OpCode
from ..errors import UsageError
from ..paths import format_host
from ._proxy.engine import Engine
from ._proxy.tap import Direction, How, Loss, Rule, Tap
from ._proxy.thread import LoopThread
from .launch import LOOPBACK

__all__ = ["FaultProxy", "HeldReply"]

_T = TypeVar("_T")
Ops = OpCode | Collection[OpCode]


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

    async def wait(self, timeout: float = 30.0) -> None:
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
    and can lose or hold back a certain one. All other bytes pass unchanged.

    Args:
        host: the server's host.
        port: the server's port.
        listen_port: where the proxy listens; by default, a port that is free.
        patience: how long, in seconds, a new connection waits for a server that refuses it. Then it
            is reset; it cannot be refused any more, as it would be without the proxy.
        seed: for the jitter of `delay`.
        tap: the inspector of each connection's bytes; by default, ZooKeeper's messages.
        thread: the thread to run in; by default, one that lives as long as the proxy.
        chroot: the end of `connect_string`: the chroot of the clients that are to use it.
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
        chroot: str = "",
    ) -> None:
        self._engine = Engine((host, port), port=listen_port, patience=patience, seed=seed, tap=tap)
        self._held: list[HeldReply] = []
        self._given_thread = thread
        self._chroot = chroot
        self._running: LoopThread | None = None

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
        """Begins to listen.

        Raises:
            UsageError: it listens already.
            OSError: somebody else listens on `listen_port`.
        """
        if self._running is not None:
            raise UsageError("the proxy runs already")
        self._running = self._given_thread or LoopThread("the fault proxy")
        try:
            self._do(self._engine.listen)
        except BaseException:
            self._leave_thread()
            raise

    def close(self) -> None:
        """Resets every connection and stops listening.

        Does nothing in a forked child, since the proxy belongs to the parent.

        Raises:
            ExceptionGroup: the proxy itself failed while it ran, so what the test saw means little.
        """
        if self._running is None or self._running.is_out_of_reach:
            return
        try:
            self._do(self._engine.shut)
        finally:
            self._leave_thread()
        if defects := self._engine.defects:
            raise ExceptionGroup("the fault proxy itself failed", defects)

    def _leave_thread(self) -> None:
        if self._running is not None and self._given_thread is None:
            self._running.close()
        self._running = None

    @property
    def port(self) -> int:
        """Where it listens; the same for its whole life.

        Raises:
            UsageError: it has not chosen a free port yet, since it was not started.
        """
        if self._engine.port == 0:
            raise UsageError("the proxy was not started: use `with`")
        return self._engine.port

    @property
    def connect_string(self) -> str:
        return format_host(LOOPBACK, self.port) + self._chroot

    # --- what passed ---------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        return self._engine.journal.connections

    @property
    def open_connections(self) -> int:
        """How many are open now."""
        return self._engine.open_connections

    @property
    def requests(self) -> Counter[str]:
        """How many requests were passed on, or dropped by a rule: by name, such as `CREATE2`.

        The handshake counts as `CREATE_SESSION`, and pings count, too.
        """
        return self._engine.journal.requests

    @property
    def bytes(self) -> Counter[str]:
        """How many bytes were passed on: `to_server` and `to_client`."""
        return self._engine.journal.bytes

    async def wait_for_request(self, op: Ops, *, count: int = 1, timeout: float = 30.0) -> None:
        """Waits until requests of a kind were passed on to the server, or dropped by a rule.

        Args:
            op: which requests, one kind or several.
            count: how many, counted since the proxy started (see `requests`).
            timeout: in seconds.

        Raises:
            TimeoutError: they did not come in time.
        """
        ops = op_set(op)
        await _in_time(
            lambda patience: self._engine.journal.wait_for_request(ops, count, patience),
            timeout,
            f"{count} x {' or '.join(sorted(each.name for each in ops))}, saw {self.requests}",
        )

    # --- faults of connections -----------------------------------------------------------------

    def reset(self) -> None:
        """Resets every connection now, at both ends."""
        self._do(lambda: self._engine.cut_all("reset"))

    def fin(self) -> None:
        """Ends every connection in order now (FIN), at both ends."""
        self._do(lambda: self._engine.cut_all("fin"))

    def refuse(self) -> None:
        """Refuses new connections until `heal`. Those that are open go on."""
        self._do(self._engine.refuse)

    def down(self) -> None:
        """Resets every connection and refuses new ones until `heal`, as a server that crashed."""
        self.refuse()
        self.reset()

    def ignore(self) -> None:
        """Accepts new connections, but never answers on them, until `heal`; then they are reset."""
        self._do(self._engine.ignore)

    def stall(self, direction: Direction | Literal["both"] = "both") -> None:
        """Holds all bytes back until `heal`, which delivers them late, in order."""
        self._do(lambda: self._engine.hold(direction, lossy=False))

    def blackhole(self, direction: Direction | Literal["both"] = "both") -> None:
        """Delivers no bytes any more; `heal` resets the connections that this has hit.

        Neither end notices, as behind a firewall that drops packets: no FIN, no reset.
        """
        self._do(lambda: self._engine.hold(direction, lossy=True))

    @contextmanager
    def partition(self) -> Iterator[None]:
        """Cuts the clients off for the body of a `with`: a `blackhole`, and then `heal`."""
        self.blackhole()
        try:
            yield
        finally:
            self.heal()

    def delay(
        self,
        seconds: float,
        jitter: float = 0.0,
        direction: Direction | Literal["both"] = "both",
    ) -> None:
        """Delivers bytes late.

        Args:
            seconds: by how much, each way.
            jitter: the most to add at random, for each chunk; order is kept.
            direction: which way.
        """
        self._do(lambda: self._engine.delay(direction, seconds, jitter))

    def cut_after(self, size: int, direction: Direction, how: How = "reset") -> None:
        """Cuts the connection that carries the last of so many more bytes, right after it. Once.

        Args:
            size: how many bytes still pass in this direction, on all connections together; with
                0, the next byte finds its connection cut.
            direction: which way.
            how: `"reset"` and `"fin"` end the connection; `"silence"` leaves it open, but nothing
                passes on it any more, until `heal` resets it.
        """
        self._do(lambda: self._engine.cut_after(size, direction, how))

    def heal(self) -> None:
        """Undoes every standing fault and forgets every rule: the proxy passes bytes on, no more.

        Stalled and held bytes are delivered. Connections that lost bytes (`blackhole`,
        `ignore`, `how="silence"`) are reset, since they cannot go on.
        """

        async def heal() -> None:
            await self._engine.heal()
            for held in self._held:
                held._decided.set()
            self._held.clear()

        self._do(heal)

    # --- faults of messages --------------------------------------------------------------------

    def drop_request(self, op: Ops, count: int = 1, how: Loss = "reset", *, after: int = 0) -> None:
        """Loses a request: the server never sees it.

        Args:
            op: which requests, one kind or several; `CREATE_SESSION` is the handshake.
            count: how many of them, each with its connection.
            how: the fate of the connection: as for `cut_after`; or `"skip"`: it goes on, and
                the requests behind the lost one, pings included, are passed on and answered.
            after: how many of these requests pass first.
        """
        self._add(Rule("to_server", op_set(op), count, how, after))

    def drop_reply(self, op: Ops, count: int = 1, how: Loss = "reset", *, after: int = 0) -> None:
        """Loses a reply: the server has done what was asked, and the client cannot know.

        Args:
            op: the kind of request that it answers; `NOTIFICATION` is a watch's event.
            count: how many of them, each with its connection.
            how: the fate of the connection: as for `cut_after`; or `"skip"`: it goes on, and
                the replies behind the lost one are passed on, as by a server that skips an answer.
            after: how many of these replies pass first.
        """
        self._add(Rule("to_client", op_set(op), count, how, after))

    def hold_reply(self, op: Ops, *, after: int = 0) -> HeldReply:
        """Holds a reply of a kind back, and all that follows it on its connection.

        Args:
            op: the kind of request that it answers, one or several.
            after: how many of these replies pass first.

        Returns:
            an object that knows when it is held, and then releases it or cuts the connection.
        """
        held = HeldReply(self._thread)
        self._held.append(held)
        self._add(Rule("to_client", op_set(op), 1, after=after, verdict=held._verdict))
        return held

    def _add(self, rule: Rule) -> None:
        self._do(lambda: self._engine.add_rule(rule))

    @property
    def _thread(self) -> LoopThread:
        if self._running is None:
            raise UsageError("the proxy does not run")
        return self._running

    def _do(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return self._thread.run(work)


def op_set(op: Ops) -> frozenset[OpCode]:
    return frozenset([op]) if isinstance(op, OpCode) else frozenset(op)


async def _in_time(wait: Callable[[float], bool], timeout: float, what: str) -> None:
    deadline = anyio.current_time() + timeout
    # The thread is left behind if the caller is cancelled; it ends within a second.
    while not await anyio.to_thread.run_sync(
        wait, max(0.0, min(1.0, deadline - anyio.current_time())), abandon_on_cancel=True
    ):
        if anyio.current_time() >= deadline:
            raise TimeoutError(f"no {what}, within {timeout} s")
