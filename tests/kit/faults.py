"""Contenders in an arena: what tests of the recipes under faults share.

A test makes contenders in an `Arena`, breaks their links and servers, and
says what must follow at once. The arena checks at its end whatever must hold after any fault: it
heals every link, tells everybody to leave, and then

* every invariant holds (`aiolead.testing.invariants`): above all, everybody who stayed has had its
  turn, one at a time, with rising tokens;
* no znode, no watch of a client or a server, no connection, no task is left behind.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
import pytest
import uvloop
from anyio.abc import ByteStream, TaskGroup
from testing.stream_client import StreamClient

import aiolead
from aiolead._client.connect_options import lease_clock
from aiolead._wire.requests import Create
from aiolead.errors import LossReason, NoNodeError, TenureLost
from aiolead.model import OPEN_ACL_UNSAFE, SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import EmbeddedServer, FaultProxy, Hooks, MemoryProxy
from aiolead.testing._proxy.thread import LoopThread
from aiolead.testing.history import History
from aiolead.testing.invariants import Bounds

from .checks import PATIENCE
from .clients import eventually
from .raw_client import RawClient
from .selection import DebugLoop
from .virtual_time import Link, VirtualClock

T = TypeVar("T")

GRACE = 15.0
"""How long after a fault a contender may need to have its turn or to end, in seconds."""

GLANCE = 0.01

TRIALS = int(os.environ.get("AIOLEAD_TRIALS", "1"))
"""How often each measurement is repeated. With more than one, no test is kept to one loop."""

_LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {"debug": True, "loop_factory": DebugLoop}),
    "asyncio+uvloop": ("asyncio", {"loop_factory": uvloop.new_event_loop}),
    "trio": ("trio", {}),
}


def only_on(loop: str) -> pytest.MarkDecorator:
    """Keeps a slow test to one event loop, where its faults are those of servers."""
    loops = _LOOPS if TRIALS > 1 else {loop: _LOOPS[loop]}
    return pytest.mark.parametrize("anyio_backend", loops.values(), ids=loops.keys())


AnyProxy = FaultProxy | MemoryProxy

Recipe = aiolead.Lock | aiolead.Election
Make = Callable[[aiolead.Client, str, str], Recipe]


def a_lock(client: aiolead.Client, line: str, name: str) -> Recipe:
    return aiolead.Lock(client, line, identity=name)


def an_election(client: aiolead.Client, line: str, name: str) -> Recipe:
    return aiolead.Election(client, line, identity=name)


async def end_session(hosts: str, client: aiolead.Client) -> None:
    """Has the servers end a client's session, as an operator can who knows its password.

    Args:
        hosts: the servers, without a chroot.
        client: whose session it is.
    """
    machine = client._core.machine
    await end_session_of(hosts, (machine.session_id, machine._password), repr(client))


async def end_session_of(hosts: str, session: tuple[int, bytes], whose: str) -> None:
    """The same, of any client: by the id and the password of its session."""

    def close() -> bool:
        # The client, which is thrown out by this, comes back and throws this out.
        with suppress(EOFError, OSError), RawClient(hosts, session=session) as raw:
            return raw.session.session_id == 0
        return False

    await eventually(lambda: anyio.to_thread.run_sync(close), f"the session of {whose} is over")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it was when the body of a tenure had ended.

    Attributes:
        at: when that was, on the clock of leases.
        proven_until: how long the session was known to live, with nothing deducted.
    """

    at: float
    proven_until: float


class Contender:
    """One that wants its turn in a line until it has had one to the end, on a client of its own.

    Made by `Arena.contender`.

    Attributes:
        who: its name in the history: many paths have an `a`.
        client: its client, once it is `online`.
        proxy: the link that the client goes through, where it does.
        tenure: its latest tenure.
        losses: why it lost each tenure that it lost.
        tokens: those of all tenures that it had.
        on_entered: called in the first moment of each tenure.
        ended: how it was when the body of its latest tenure had ended.
    """

    client: aiolead.Client
    tenure: Any
    ended: Ended

    def __init__(
        self,
        arena: Arena,
        line: str,
        name: str,
        hosts: str,
        proxy: AnyProxy | None,
        make: Make,
        options: dict[str, Any],
    ) -> None:
        self.line = line
        self.name = name
        self.who = f"{name} of {line[1:]}"
        self.losses: list[LossReason] = []
        self.tokens: list[int] = []
        self.on_entered: Callable[[], object] | None = None
        self._arena = arena
        self._hosts = hosts
        self._proxy = proxy
        self._make = make
        self._options = options
        self._online = anyio.Event()
        self._entered = anyio.Event()
        self._may_leave = anyio.Event()
        self._served = anyio.Event()

    def __repr__(self) -> str:
        return f"<{self.name} in {self.line}>"

    @property
    def proxy(self) -> AnyProxy:
        assert self._proxy is not None, "it has no proxy"
        return self._proxy

    @property
    def machine(self) -> Any:
        return self.client._core.machine

    @property
    def is_holding(self) -> bool:
        """Whether it is in the body of a tenure."""
        return self._entered.is_set()

    def leave(self) -> None:
        """It leaves when it holds, or as soon as it does."""
        self._may_leave.set()

    async def online(self) -> None:
        with anyio.fail_after(PATIENCE):
            await self._online.wait()

    async def holding(self) -> None:
        await eventually(lambda: self.is_holding, f"{self!r} holds")

    async def waiting(self) -> None:
        """Waits until it is in the queue and the server watches the contenders before it."""
        await self.online()
        await eventually(
            # Its own znode, and one before it.
            lambda: (
                len(self.machine.watches) >= 2
                and self.machine.watches.is_live
                and not self.machine.requests.inflight
            ),
            f"{self!r} is in the queue",
        )

    async def renewed(self, times: int = 1) -> None:
        """Waits until its lease was prolonged so often: just now, the last time.

        Three times, and nothing counts any more of what was asked before the tenure began.
        """
        for _ in range(times):
            before = self.client.backend.lease.deadline
            await eventually(
                lambda before=before: self.client.backend.lease.deadline > before,  # type: ignore[misc]
                f"the lease of {self!r} is renewed",
            )

    async def beaten(self, losses: int = 1) -> None:
        """Waits until it has lost so many tenures."""
        await eventually(lambda: len(self.losses) >= losses, f"{self!r} loses its tenure")

    async def served(self) -> None:
        """Waits until it has had a tenure and left it of its own accord."""
        await eventually(self._served.is_set, f"{self!r} is served")

    async def run(self) -> None:
        options = {
            "session_timeout": self._arena.session_timeout,
            "connect_timeout": PATIENCE,
            **self._options,
        }
        hooks = self._arena.hooks(self._proxy)
        dial = options.pop("dial", hooks.dial)
        options["hooks"] = replace(hooks, dial=partial(_Stream.open, dial, self._arena.streams))
        async with aiolead.connect(self._hosts, **options) as client:
            self.client = client
            client.backend.subscribe(self._on_session)
            self._on_session(client.state, client.session_id)
            self._online.set()
            recipe = self._make(client, self.line, self.name)
            while not self._served.is_set():
                await self._turn(recipe)
            await self._arena.closing.wait()

    def _on_session(self, state: SessionState, session_id: int) -> None:
        self._arena.sessions.add(session_id)
        self._arena.history.session(self.who, state.value, session_id)

    async def _turn(self, recipe: Recipe) -> None:
        history = self._arena.history
        history.joined(self.line, self.who)
        enter = recipe.acquire() if isinstance(recipe, aiolead.Lock) else recipe.leadership()
        try:
            async with enter as tenure:
                self.tenure = tenure
                self.tokens.append(tenure.token)
                history.entered(
                    self.line,
                    self.who,
                    tenure.token,
                    path=tenure.path,
                    session_id=tenure.session_id,
                )
                history.looked(self.line, self.who, tenure.token, held=tenure.is_held)
                self._entered.set()
                if self.on_entered is not None:
                    self.on_entered()
                try:
                    await self._may_leave.wait()
                finally:
                    was_lost = tenure.loss is not None
                    history.looked(self.line, self.who, tenure.token, held=tenure.is_held)
                    history.left(self.line, self.who, tenure.token, was_lost=was_lost)
                    self.ended = Ended(self._arena.clock(), self.machine._lease_proof.proven_until)
                    self._entered = anyio.Event()
        except TenureLost as lost:
            self.losses.append(lost.reason)
        else:
            self._served.set()


class _Stream(ByteStream):
    """A client's connection that is in a set for as long as the client has not closed it."""

    def __init__(self, stream: ByteStream, streams: set[ByteStream]) -> None:
        self._stream = stream
        self._streams = streams
        streams.add(self)

    @classmethod
    async def open(
        cls,
        dial: Callable[[str, int], Awaitable[ByteStream]],
        streams: set[ByteStream],
        address: str,
        port: int,
    ) -> Self:
        return cls(await dial(address, port), streams)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self._streams.discard(self)
        await self._stream.aclose()


class Arena:
    """Where contenders meet. An async context manager; see this module.

    Args:
        hosts: the connect string of all servers, without a chroot.
        chroot: an empty znode that is there; all lines stand below it.
        session_timeout: of every contender, in seconds.
    """

    clock: Callable[[], float] = staticmethod(lease_clock)
    """The clock of the leases."""

    def __init__(self, hosts: str, chroot: str, *, session_timeout: float = 2.0) -> None:
        self.hosts = hosts
        self.chroot = chroot
        self.session_timeout = session_timeout
        self.history = History(self.clock)
        self.history.fault_began("a fault of the test", severe=True)
        self.contenders: list[Contender] = []
        self.sessions: set[int] = set()
        self.streams: set[ByteStream] = set()
        self.closing = anyio.Event()
        self._proxies: list[AnyProxy] = []
        self._lines: set[str] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks_before = len(anyio.get_running_tasks())
        self._watches_before = await self._look(self._watches)
        self._open()
        self._group: TaskGroup = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                await self.finish()
            elif isinstance(exc, Exception):
                exc.add_note(self._tell())
        except AssertionError as error:
            error.add_note(self._tell())
            raise
        finally:
            self._group.cancel_scope.cancel()
            for proxy in self._proxies:
                proxy.close()
            try:
                await self._stack.__aexit__(exc_type, exc, traceback)
            except BaseExceptionGroup:
                # The body's own error goes first; else it is a contender's.
                if exc is None:
                    raise

    async def line(
        self, line: str, *names: str, make: Make = a_lock, **options: Any
    ) -> list[Contender]:
        """Contenders, each behind a proxy of its own: the first holds, the others wait in order."""
        found: list[Contender] = []
        for name in names:
            contender = self.contender(line, name, make=make, **options)
            await (contender.waiting() if found else contender.holding())
            found.append(contender)
        return found

    def contender(
        self,
        line: str,
        name: str,
        *,
        hosts: str | None = None,
        make: Make = a_lock,
        prepare: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Contender:
        """One more contender.

        Args:
            line: below the chroot.
            name: its identity.
            hosts: where it connects, without a proxy; by default through one, to the first server.
            make: what it contends with.
            prepare: does something to the proxy before the contender connects.
            **options: for `aiolead.connect`.
        """
        proxy = None
        if hosts is None:
            proxy = self.proxy()
            if prepare is not None:
                prepare(proxy)
            hosts = self._hosts_behind(proxy)
        self._lines.add(line)
        contender = Contender(self, line, name, hosts + self.chroot, proxy, make, options)
        self.contenders.append(contender)
        self._group.start_soon(contender.run)
        return contender

    def proxy(self) -> AnyProxy:
        """A proxy before the first server; the arena heals it and closes it."""
        proxy = self._make_proxy()
        self._proxies.append(proxy)
        return proxy

    async def end_session(self, contender: Contender) -> None:
        """Has the servers end a contender's session, as an operator can who knows its password."""
        self.history.revoked(contender.line, contender.who)
        await self._end_session(contender.client)

    # --- where it is ---------------------------------------------------------------------------

    def _open(self) -> None:
        thread = self._thread = LoopThread("arena")
        self._stack.callback(thread.close)

    def _make_proxy(self) -> AnyProxy:
        proxy = FaultProxy(*parse_connect_string(self.hosts).hosts[0], thread=self._thread)
        proxy.start()
        return proxy

    def _hosts_behind(self, proxy: AnyProxy) -> str:
        assert isinstance(proxy, FaultProxy)
        return proxy.connect_string

    def hooks(self, _proxy: AnyProxy | None) -> Hooks:
        """The hooks of a contender behind a proxy."""
        return Hooks(dial=anyio.connect_tcp)

    @asynccontextmanager
    async def witness(self, hosts: str | None = None) -> AsyncIterator[aiolead.Client]:
        """A client that nothing is done to, to look on with."""
        async with aiolead.connect(
            (hosts or self.hosts) + self.chroot, connect_timeout=PATIENCE
        ) as client:
            yield client

    async def _end_session(self, client: aiolead.Client) -> None:
        await end_session(self.hosts, client)

    async def create_in_session(self, client: aiolead.Client, path: str, data: bytes) -> None:
        """Creates an ephemeral, sequential znode in a client's session that it does not know of."""
        machine = client._core.machine
        session = (machine.session_id, machine._password)

        def create() -> None:
            with RawClient(self.hosts + self.chroot, session=session) as raw:
                raw.create(path, data, flags=3)
                raw.drop()

        await anyio.to_thread.run_sync(create)

    async def _look(self, look: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(look)

    # --- the end -------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Heals everything, has everybody served, and looks at what is left."""
        for proxy in self._proxies:
            proxy.heal()
        self.history.healed()
        for contender in self.contenders:
            contender.leave()
        for contender in self.contenders:
            await contender.served()
        # No test depends on how fast the machine is.
        bounds = Bounds(session_timeout=self.session_timeout, grace=GRACE, slack=1.0)
        self.history.check(bounds)
        await self._nothing_left(self._znodes, "znodes")
        await eventually(
            lambda: not any(len(contender.machine.watches) for contender in self.contenders),
            "the contenders take their watches back",
        )
        await self._nothing_left(
            lambda: max(0, self._watches() - self._watches_before), "watches on the servers"
        )
        self.closing.set()
        await self._nothing_left(self._connections, "connections of the contenders")
        await eventually(lambda: not self.streams, "the clients close their connections")
        await eventually(
            lambda: len(anyio.get_running_tasks()) <= self._tasks_before,
            f"no task is left: {anyio.get_running_tasks()}",
        )

    def _tell(self) -> str:
        """The history, and the present state, for the report of a failure."""
        lines = ["The history:", self.history.tell(), "The contenders:"]
        for contender in self.contenders:
            lines.append(f"  {contender!r}")
            if contender._online.is_set():
                machine = contender.machine
                watched = [path for armed in machine.watches._armed.values() for path in armed]
                lines.append(f"    {contender.client!r}, {machine.requests.inflight} in flight")
                lines.append(f"    watches {watched}, live: {machine.watches.is_live}")
        lines.append("The znodes:")
        with suppress(OSError, EOFError):
            lines += [f"  {path}" for path in sorted(self._znodes())]
        return "\n".join(lines)

    async def _nothing_left(self, look: Callable[[], object], what: str) -> None:
        deadline = anyio.current_time() + PATIENCE
        while left := await self._look(look):
            assert anyio.current_time() < deadline, f"{what} are left behind: {left}"
            await anyio.sleep(5 * GLANCE)

    def _znodes(self) -> list[str]:
        left: list[str] = []
        with RawClient(self.hosts + self.chroot) as raw:
            for line in self._lines:
                with suppress(NoNodeError):  # The server has reaped the empty container.
                    left += [f"{line}/{name}" for name in raw.children(line)]
        return left

    def _watches(self) -> int:
        total = 0
        for address in parse_connect_string(self.hosts).hosts:
            said = _ask(address, "wchs")
            total += int(said.rsplit(":", 1)[1])
        return total

    def _connections(self) -> list[str]:
        mask = (1 << 64) - 1
        marks = [f"sid=0x{session & mask:x}," for session in self.sessions if session]
        return [
            line
            for address in parse_connect_string(self.hosts).hosts
            for line in _ask(address, "cons").splitlines()
            if any(mark in line for mark in marks)
        ]


def _ask(address: tuple[str, int], word: str) -> str:
    answer = bytearray()
    with socket.create_connection(address, PATIENCE) as link:
        link.sendall(word.encode())
        while chunk := link.recv(65536):
            answer += chunk
    return answer.decode()


class MemoryArena(Arena):
    """The same, in memory: on virtual time, its sessions end as soon as nobody has more to do.

    Args:
        server: the only server.
        session_timeout: of every contender, in seconds.
    """

    clock = staticmethod(anyio.current_time)

    def __init__(self, server: EmbeddedServer, *, session_timeout: float = 2.0) -> None:
        super().__init__("10.0.0.1:2181", "", session_timeout=session_timeout)
        self.server = server

    def _open(self) -> None:
        pass

    def _make_proxy(self) -> AnyProxy:
        return MemoryProxy(self.server)

    def _hosts_behind(self, _proxy: AnyProxy) -> str:
        return self.hosts

    def hooks(self, proxy: AnyProxy | None) -> Hooks:
        assert isinstance(proxy, MemoryProxy)
        # Each has numbers of its own, as clients have that are not tested.
        rng = random.Random(len(self.contenders))
        return Hooks(dial=proxy.dial, clock=VirtualClock(), rng=rng)

    @asynccontextmanager
    async def witness(self, hosts: str | None = None) -> AsyncIterator[aiolead.Client]:
        async with Link(self.server).connect() as client:
            yield client

    async def _end_session(self, client: aiolead.Client) -> None:
        self.server.expire_session(client.session_id)

    async def create_in_session(self, client: aiolead.Client, path: str, data: bytes) -> None:
        machine = client._core.machine
        raw = StreamClient(await self.server.connect_stream())
        await raw.greet(self.session_timeout, (machine.session_id, machine._password))
        await raw.ask(Create(path, data, OPEN_ACL_UNSAFE, 3))
        await raw.stream.aclose()

    async def _look(self, look: Callable[[], T]) -> T:
        return look()

    def _znodes(self) -> list[str]:
        lines = tuple(f"{line}/" for line in self._lines)
        return [path for path in self.server.znodes() if path.startswith(lines)]

    def _watches(self) -> int:
        return sum(len(sessions) for sessions in self.server.watches().values())

    def _connections(self) -> list[str]:
        found = self.server.sessions()
        return [f"{each:#x}" for each in self.sessions if each in found]


Scene = Callable[[Arena, str], Awaitable[None]]


async def together(arena: Arena, *scenes: Scene) -> None:
    """Plays scenes at the same time, each in a line of its own: most of their time is waiting."""

    async def play(scene: Scene) -> None:
        name = scene.func.__name__ if isinstance(scene, partial) else scene.__name__
        args = [str(arg) for arg in scene.args] if isinstance(scene, partial) else []
        try:
            await scene(arena, "/" + "-".join([name, *args]))
        except Exception as error:
            error.add_note(f"in the scene {name} {' '.join(args)}")
            raise

    async with anyio.create_task_group() as tasks:
        for scene in scenes:
            tasks.start_soon(play, scene)
