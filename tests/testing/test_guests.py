"""The effects of an open context of aiolead on the task that has entered it, and on its errors.

The inputs are ordinary accidents of programs on asyncio, and fixtures that enter in one task and
leave in another. `tests/client/test_guest.py` has those of clients alone.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
import trio
import uvloop
from kit.checks import PATIENCE
from kit.clients import connect, eventually, tasks_living
from kit.raw_client import RawClient
from kit.tasks import (
    ON_ASYNCIO,
    ON_EVERY_LOOP,
    Run,
    end_of_cancelled,
    in_ordinary_task,
    on_asyncio,
)

import aiolead
from aiolead import Client, Election, Lock, PersistentNode, Term
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer, FaultProxy
from aiolead.testing.ensemble import BlockingEnsemble, Ensemble
from aiolead.testing.servers import BlockingServer, ZooKeeperServer
from aiolead.testing.threaded import ThreadedServer

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]


@pytest.fixture(scope="module")
def served() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


class Quick:
    """In place of a real server or ensemble, which takes seconds to start."""

    servers: tuple[BlockingServer, ...] = ()

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.starting = threading.Event()
        self.may_start = threading.Event()
        self.may_start.set()

    def start(self, timeout: float = 0.0) -> None:
        self.starting.set()
        assert self.may_start.wait(PATIENCE)
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")


Enter = Callable[[], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def leading(server: ThreadedServer) -> AsyncIterator[None]:
    """A worker leads beside the block, and has ended after it."""
    leads, ended = anyio.Event(), anyio.Event()

    async def work(_term: Term) -> None:
        leads.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            ended.set()

    try:
        async with connect(server) as client, Election(client, "/election").running(work):
            await leads.wait()
            yield
    finally:
        assert ended.is_set()


@asynccontextmanager
async def keeping(server: ThreadedServer) -> AsyncIterator[None]:
    async with connect(server) as client, PersistentNode(client, "/kept"):
        yield


KINDS: dict[str, Callable[[ThreadedServer], AbstractAsyncContextManager[object]]] = {
    "embedded server": lambda _: EmbeddedServer(),
    "proxy": lambda served: FaultProxy("127.0.0.1", served.port),
    "real server": lambda _: ZooKeeperServer.over(cast(BlockingServer, Quick())),
    "ensemble": lambda _: Ensemble.over(cast(BlockingEnsemble, Quick())),
    "client": connect,
    "worker": leading,
    "persistent node": keeping,
}


@pytest.fixture(params=KINDS)
def enter(request: pytest.FixtureRequest, served: ThreadedServer) -> Iterator[Enter]:
    """Makes what is entered by `async with`; no session is left after the test."""
    yield lambda: KINDS[request.param](served)
    assert served.sessions() == {}


# --- the body's exception ------------------------------------------------------------------------


class ErrorsOfTheBody(ExceptionGroup[Exception]):
    """Without `derive`, so that a copy of it is of another type."""


async def fails() -> None:
    await asyncio.sleep(0.01)
    raise ValueError("mine")


async def test_group_that_the_body_raises_propagates_unchanged(enter: Enter) -> None:
    error = ErrorsOfTheBody("of the body", [ValueError("a"), KeyError("b")])
    with pytest.raises(ErrorsOfTheBody) as raised:
        async with enter():
            raise error
    assert raised.value is error
    assert (error.__cause__, error.__context__) == (None, None)


async def test_error_of_a_task_group_propagates_unchanged(enter: Enter) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with enter(), anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            raise ValueError("mine")
    assert [str(error) for error in raised.value.exceptions] == ["mine"]


@on_asyncio
@pytest.mark.parametrize("waits", ["in the block", "on leaving it"])
async def test_error_of_an_asyncio_task_group_propagates_unchanged(
    enter: Enter, waits: str
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with enter(), asyncio.TaskGroup() as group:
            group.create_task(fails())
            if waits == "in the block":
                await asyncio.sleep(60)  # the group cancels this task
    assert [str(error) for error in raised.value.exceptions] == ["mine"]


@on_asyncio
@pytest.mark.parametrize("waits", ["in the block", "on leaving it"])
async def test_handled_error_of_an_asyncio_task_group_is_no_cancellation(
    enter: Enter, waits: str
) -> None:
    """Before Python 3.13 the group leaves its task with a cancellation that was never undone."""
    handled: list[str] = []
    async with enter() as entered:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                if waits == "in the block":
                    await asyncio.sleep(60)
        except* ValueError:
            handled.append("handled")
        if isinstance(entered, Client):
            await entered.exists("/")
        await anyio.lowlevel.checkpoint()
    assert handled == ["handled"]
    await anyio.lowlevel.checkpoint()


@on_asyncio
@pytest.mark.parametrize("how", ["native", "scope"])
async def test_error_of_a_cancelled_body_propagates_unchanged(enter: Enter, how: str) -> None:
    async def body(inside: Callable[[], object]) -> str:
        async with enter():
            inside()
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                raise RuntimeError("cleanup failed") from None

    assert await end_of_cancelled(body, how) == "RuntimeError: cleanup failed"


@on_asyncio
@pytest.mark.parametrize("is_uncancelled", [False, True])
async def test_body_that_swallows_its_cancellation_ends_normally(
    enter: Enter, is_uncancelled: bool
) -> None:
    """A graceful stop: `task.cancel()` asks the task to end."""

    async def body(inside: Callable[[], object]) -> str:
        async with enter():
            inside()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                if is_uncancelled:
                    task.uncancel()
        return "ended normally"

    assert await end_of_cancelled(body, "native") == "ended normally"


async def test_error_of_a_body_out_of_time_propagates_unchanged(enter: Enter) -> None:
    with pytest.raises(RuntimeError, match="cleanup failed"), anyio.fail_after(PATIENCE) as scope:
        async with enter():
            scope.deadline = anyio.current_time()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                raise RuntimeError("cleanup failed") from None


async def test_body_out_of_time_raises_timeout_error(enter: Enter) -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(PATIENCE) as scope:
        async with enter():
            scope.deadline = anyio.current_time()
            await anyio.sleep_forever()


@on_asyncio
async def test_asyncio_timeout_around_the_body_keeps_its_error(enter: Enter) -> None:
    with pytest.raises(RuntimeError, match="cleanup failed"):
        async with asyncio.timeout(PATIENCE) as timeout, enter():
            timeout.reschedule(asyncio.get_running_loop().time())
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise RuntimeError("cleanup failed") from None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
def test_error_of_an_eager_task_group_propagates_unchanged(enter: Enter) -> None:
    async def main() -> None:
        async with enter(), asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.sleep(60)

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
        return loop

    with pytest.raises(ExceptionGroup) as raised, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
    assert [str(error) for error in raised.value.exceptions] == ["mine"]


# --- other tasks ---------------------------------------------------------------------------------


async def test_it_is_left_in_another_task_than_it_was_entered_in(enter: Enter) -> None:
    stack = AsyncExitStack()
    before = tasks_living()
    await in_ordinary_task(lambda: stack.enter_async_context(enter()))
    await in_ordinary_task(stack.aclose)
    assert tasks_living() == before


async def test_embedded_server_serves_while_no_task_is_inside_of_its_block() -> None:
    stack, servers, clients = AsyncExitStack(), list[EmbeddedServer](), list[Client]()

    async def startup() -> None:
        servers.append(await stack.enter_async_context(EmbeddedServer()))
        clients.append(await stack.enter_async_context(connect(servers[0])))

    async def handler() -> None:
        async with Lock(clients[0], "/hooks-lock"):
            servers[0].disconnect()
            await servers[0].stop()
            await servers[0].start()
            await clients[0].sync()

    before = tasks_living()
    for hook in (startup, handler, stack.aclose):
        await in_ordinary_task(hook)
    assert servers[0].sessions() == {}
    assert tasks_living() == before


async def test_embedded_server_is_left_once_by_several_tasks() -> None:
    server = EmbeddedServer()
    await server.__aenter__()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(server.__aexit__, None, None, None)
    with pytest.raises(ConnectionRefusedError):
        await server.connect_stream()
    with pytest.raises(UsageError, match="was left already"):
        await server.start()


@on_asyncio
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
async def test_native_cancellation_while_leaving_is_raised_once_all_has_ended(turns: int) -> None:
    leaving = asyncio.Event()
    server = EmbeddedServer()

    async def own() -> None:
        async with server:
            await server.connect_stream()
            leaving.set()

    before = tasks_living()
    task = asyncio.create_task(own())
    await leaving.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    is_late = not task.cancel()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert is_late or ended is None or isinstance(ended, asyncio.CancelledError)
    assert tasks_living() == before
    with pytest.raises(ConnectionRefusedError):
        await server.connect_stream()


@on_asyncio
@pytest.mark.parametrize("face", ["real server", "ensemble"])
async def test_native_cancellation_while_a_real_server_starts_is_put_off(face: str) -> None:
    """Or else a server that is started after it was closed would outlive the program."""
    blocking = Quick()
    blocking.may_start.clear()
    made: AbstractAsyncContextManager[object]
    if face == "ensemble":
        made = Ensemble.over(cast(BlockingEnsemble, blocking))
    else:
        made = ZooKeeperServer.over(cast(BlockingServer, blocking))

    async def own() -> None:
        async with made:
            raise AssertionError("entered")

    task = asyncio.create_task(own())
    await eventually(blocking.starting.is_set, "it starts")
    for _ in range(2):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    assert not task.done()
    blocking.may_start.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert blocking.calls == ["start", "close"]


# --- native cancellation, and the end of the event loop ------------------------------------------


@on_asyncio
@pytest.mark.parametrize("repeated", [1, 3])
@pytest.mark.parametrize("where", ["around the client", "in a thread"])
async def test_cancel_all_closes_the_session(
    served: ThreadedServer, where: str, repeated: int
) -> None:
    """So do `asyncio.run` after `SystemExit`, and many programs on SIGTERM.

    The server of a test or a demo ends after its clients, as its block is around theirs.
    """
    held = asyncio.Event()
    own = EmbeddedServer()
    server = own if where == "around the client" else served
    closes = 0 if server is own else served.requests["CLOSE_SESSION"]

    async def program() -> None:
        async with AsyncExitStack() as stack:
            if server is own:
                await stack.enter_async_context(own)
            async with connect(server) as client, Lock(client, "/cancel-all"):
                held.set()
                await asyncio.sleep(60)

    kept = asyncio.all_tasks()
    asyncio.create_task(program())  # noqa: RUF006 - all_tasks has it
    await held.wait()
    mine = asyncio.all_tasks() - kept
    assert len(mine) > 2
    for _ in range(repeated):
        for each in mine:
            each.cancel()
        await asyncio.sleep(0)
    results = await asyncio.gather(*mine, return_exceptions=True)
    assert {type(each) for each in results} == {asyncio.CancelledError, type(None)}
    assert server.requests["CLOSE_SESSION"] == closes + 1
    assert server.sessions() == {}


@pytest.mark.parametrize("run", ON_EVERY_LOOP.values(), ids=ON_EVERY_LOOP)
def test_server_that_is_never_left_does_not_hang_the_loop(run: Run) -> None:
    servers: list[EmbeddedServer] = []

    async def main() -> None:
        servers.append(await EmbeddedServer().__aenter__())
        await servers[0].connect_stream()

    run(main)
    assert servers[0].connections == 0
    with pytest.raises(ConnectionRefusedError):
        RawClient(servers[0].connect_string)


@pytest.mark.parametrize("run", ON_EVERY_LOOP.values(), ids=ON_EVERY_LOOP)
def test_client_and_server_that_are_never_left_do_not_hang_the_loop(run: Run) -> None:
    kept: list[Any] = []

    async def main() -> None:
        kept.append(await EmbeddedServer().__aenter__())
        kept.append(await aiolead.connect(kept[0].connect_string, session_timeout=PATIENCE))

    with pytest.warns(ResourceWarning, match="unclosed client"):
        run(main)


@pytest.mark.parametrize("run", ON_ASYNCIO.values(), ids=ON_ASYNCIO)
def test_sys_exit_in_the_body_closes_the_session_at_the_embedded_server(run: Run) -> None:
    """`asyncio.run` cancels all tasks, also those of the server, before it awaits any."""
    servers: list[EmbeddedServer] = []

    async def use() -> None:
        async with EmbeddedServer() as server, connect(server):
            servers.append(server)
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(use())
        await eventually(lambda: bool(servers), "it is inside")
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await task

    with pytest.raises(SystemExit):
        run(main)
    assert servers[0].requests["CLOSE_SESSION"] == 1
    assert servers[0].sessions() == {}


@pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "asyncio+uvloop"]
)
def test_block_that_is_destroyed_after_its_event_loop_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    raised: list[object] = []
    inside: list[bool] = []

    async def use() -> None:
        async with EmbeddedServer(port=None):
            inside.append(True)
            await asyncio.sleep(60)

    async def program() -> None:
        asyncio.create_task(use())  # noqa: RUF006 - it is to be dropped
        await eventually(lambda: bool(inside), "it is inside")

    loop = make_loop()
    loop.run_until_complete(program())
    loop.close()
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    del loop
    gc.collect()
    assert raised == []


def test_end_of_trio_while_the_embedded_server_is_open() -> None:
    """Trio cancels its system tasks once the main task has ended."""
    servers: list[EmbeddedServer] = []

    async def main() -> None:
        async def serve() -> None:
            async with EmbeddedServer() as server:
                servers.append(server)
                await trio.sleep_forever()

        trio.lowlevel.spawn_system_task(serve)
        await eventually(lambda: bool(servers), "it is inside")

    trio.run(main)
    assert servers[0].connections == 0
