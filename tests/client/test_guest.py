"""The effects of an open client on the task that has opened it, and those of the end of a program.

The inputs are ordinary accidents of programs on asyncio, and of frameworks that open a client in
one task and close it in another.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import unittest
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from kit.checks import PATIENCE
from kit.clients import connect, eventually, tasks_living
from kit.tasks import ON_ASYNCIO, ON_EVERY_LOOP, Run, on_asyncio

import aiolead
from aiolead import Client, Lock
from aiolead._util.asyncio_tasks import OwnTask, Spawner
from aiolead.errors import ClientClosedError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.testing.threaded import ThreadedServer

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def served() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


@pytest.fixture
def server(served: ThreadedServer) -> Iterator[ThreadedServer]:
    """A server with which no session is left afterwards."""
    yield served
    assert served.sessions() == {}


@pytest.fixture(params=ON_ASYNCIO)
def run(request: pytest.FixtureRequest) -> Run:
    runner: Run = ON_ASYNCIO[request.param]
    return runner


# --- other tasks ---------------------------------------------------------------------------------


async def in_task(function: Callable[[], Awaitable[None]]) -> None:
    """Run it in a task of its own, as start-up and shut-down hooks of frameworks are."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(function)


async def test_client_is_left_in_another_task_than_it_was_entered_in(
    server: ThreadedServer,
) -> None:
    stack, clients = AsyncExitStack(), list[Client]()

    async def startup() -> None:
        clients.append(await stack.enter_async_context(connect(server)))

    async def handler() -> None:
        await clients[0].create("/hooks", mode=aiolead.CreateMode.EPHEMERAL)
        async with Lock(clients[0], "/hooks-lock"):
            pass

    before = tasks_living()
    for hook in (startup, handler, stack.aclose):
        await in_task(hook)
    assert server.sessions() == {}
    assert tasks_living() == before
    with pytest.raises(ClientClosedError):
        await clients[0].get("/")


async def test_client_is_opened_by_await_and_closed_by_aclose(server: ThreadedServer) -> None:
    before = tasks_living()
    client = await connect(server)
    assert client.session_id in server.sessions()
    view = client.chroot("/a")
    await view.aclose()  # views share the client
    assert server.sessions() == {}
    assert tasks_living() == before
    await client.aclose()  # without effect
    with pytest.raises(ClientClosedError):
        await client.get("/")


async def test_aclose_in_a_block_ends_it_as_leaving_does(server: ThreadedServer) -> None:
    async with connect(server) as client:
        async with Lock(client, "/in-a-block"):
            assert len(server.sessions()) == 1
        await client.aclose()
        assert server.sessions() == {}


async def test_client_is_closed_by_several_tasks_at_once(server: ThreadedServer) -> None:
    client = await connect(server)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(client.aclose)
    assert server.sessions() == {}


async def test_connection_is_awaited_once(server: ThreadedServer) -> None:
    connection = connect(server)
    client = await connection
    with pytest.raises(UsageError, match="entered already"):
        await connection
    await client.aclose()


async def test_client_that_is_dropped_unclosed_warns_and_is_closed(server: ThreadedServer) -> None:
    before = tasks_living()
    client = await connect(server)
    assert len(server.sessions()) == 1
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del client
        gc.collect()
    assert [each.category for each in warned] == [ResourceWarning]
    assert str(warned[0].message).startswith("unclosed client of 127.0.0.1")
    await eventually(lambda: server.sessions() == {}, "its session is closed")
    await eventually(lambda: tasks_living() <= before, "its tasks have ended")


async def test_view_keeps_the_client_open(server: ThreadedServer) -> None:
    client = (await connect(server)).chroot("/")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    await client.exists("/")
    await client.aclose()


def test_isolated_asyncio_test_case(server: ThreadedServer) -> None:
    """`asyncSetUp`, the test and the clean-up are tasks of their own."""

    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self) -> None:
            self.client = await self.enterAsyncContext(aiolead.connect(server.connect_string))

        async def test_get(self) -> None:
            assert await self.client.exists("/") is not None

        async def test_lock(self) -> None:
            async with Lock(self.client, "/isolated") as held:
                held.check()

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


# --- native cancellation -------------------------------------------------------------------------


@on_asyncio
async def test_scopes_cancel_own_tasks_and_nothing_else_does() -> None:
    """Fails if anyio changes the message by which its cancellations are recognized."""
    reached: list[str] = []
    begun = asyncio.Event()
    scope = anyio.CancelScope()

    async def job() -> None:
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        reached.append("deadline")
        with scope:
            begun.set()
            await anyio.sleep_forever()
        reached.append("scope")

    spawn = Spawner(lambda: None, lambda: False)
    spawn(job, job)
    (task,) = (each for each in asyncio.all_tasks() if isinstance(each, OwnTask))
    with anyio.fail_after(PATIENCE):
        await begun.wait()
        for message in (None, "bye"):
            assert task.cancel(message)
            await asyncio.sleep(0)
        assert reached == ["deadline"]
        assert task.cancelling() == 0
        scope.cancel()
        await task
    assert reached == ["deadline", "scope"]
    assert not task.cancel()


@on_asyncio
async def test_client_survives_that_its_tasks_are_cancelled(server: ThreadedServer) -> None:
    """Clean-up code cancels all other tasks, and its own task goes on."""
    async with connect(server) as client, Lock(client, "/survives") as held:
        session = client.session_id
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            if isinstance(each, OwnTask):
                each.cancel()
        for _ in range(3):
            await client.sync()
        held.check()
        assert client.session_id == session


@on_asyncio
@pytest.mark.parametrize("wait", ["gather", "wait", "await", "gathered before"])
async def test_task_that_opened_the_client_waits_for_all_tasks_inside_of_it(
    server: ThreadedServer, wait: str
) -> None:
    """Clean-up code in the block: the client is closed, since nobody else could end its tasks."""
    kept = asyncio.all_tasks()
    with anyio.fail_after(PATIENCE):
        async with connect(server) as client:
            others = asyncio.all_tasks() - kept
            assert others
            if wait == "gathered before":
                gathering = asyncio.gather(*others)
                gathering.cancel()
                await asyncio.wait([gathering])
            else:
                for each in others:
                    each.cancel()
                if wait == "gather":
                    await asyncio.gather(*others, return_exceptions=True)
                elif wait == "wait":
                    await asyncio.wait(others)
                else:
                    for each in others:
                        await each
            assert server.sessions() == {}
            with pytest.raises(ClientClosedError):
                await client.get("/")


@on_asyncio
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_native_cancellation_while_leaving_closes_the_session(
    server: ThreadedServer, turns: int, times: int
) -> None:
    """Also while a holder in another task still cleans up."""
    leaving = asyncio.Event()
    holding: list[asyncio.Task[None]] = []

    async def hold(client: Client, ready: asyncio.Event) -> None:
        try:
            async with Lock(client, "/leaving"):
                ready.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(0.05)
        except aiolead.errors.LockLost:
            pass

    async def own() -> None:
        async with connect(server) as client:
            ready = asyncio.Event()
            holding.append(asyncio.create_task(hold(client, ready)))
            await ready.wait()
            leaving.set()

    task = asyncio.create_task(own())
    await leaving.wait()
    for _ in range(times):
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
    results = await asyncio.gather(task, *holding, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert server.sessions() == {}


@on_asyncio
async def test_timeout_of_asyncio_works_in_code_that_the_client_calls(
    server: ThreadedServer,
) -> None:
    """`dial` and the sources of servers are called in tasks that may cancel themselves."""
    calls: list[str] = []

    async def dial(address: str, port: int) -> anyio.abc.ByteStream:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            calls.append("dial")
        return await anyio.connect_tcp(address, port)

    async def servers() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            calls.append("servers")
        return server.connect_string

    hosts = aiolead.Hosts.provider(servers)
    async with aiolead.connect(hosts, hooks=aiolead.testing.Hooks(dial=dial)) as client:
        await client.sync()
    assert calls == ["servers", "dial"]


@on_asyncio
async def test_client_survives_that_a_dial_is_cancelled(server: ThreadedServer) -> None:
    begun = 0

    async def dial(address: str, port: int) -> anyio.abc.ByteStream:
        nonlocal begun
        begun += 1
        if begun == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
        return await anyio.connect_tcp(address, port)

    hooks = aiolead.testing.Hooks(dial=dial)
    async with aiolead.connect(server.connect_string, hooks=hooks) as client:
        await client.sync()
    assert begun == 2


# --- the end of the event loop -------------------------------------------------------------------


@pytest.mark.parametrize("run", ON_EVERY_LOOP.values(), ids=ON_EVERY_LOOP)
def test_client_that_is_never_closed_is_closed_as_the_loop_ends(
    server: ThreadedServer, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """`asyncio.run` cancels all tasks and waits for them: neither hangs, nor loses the session."""
    clients: list[Client] = []

    async def main() -> None:
        clients.append(await aiolead.connect(server.connect_string))

    with pytest.warns(ResourceWarning, match="unclosed client"):
        run(main)
    assert server.sessions() == {}
    assert "has not closed the client" in caplog.text


@pytest.mark.parametrize("is_held", [False, True])
def test_unclosed_client_without_a_server_does_not_hang_the_loop(run: Run, is_held: bool) -> None:
    clients: list[Client] = []

    async def main() -> None:
        clients.append(await aiolead.connect("127.0.0.1:1", connect_timeout=0))
        if not is_held:
            clients.clear()

    with pytest.warns(ResourceWarning, match="unclosed client"):
        run(main)


def test_client_of_a_cancelled_main_task_that_does_not_close_it(
    server: ThreadedServer, run: Run
) -> None:
    clients: list[Client] = []

    async def main() -> None:
        clients.append(await aiolead.connect(server.connect_string))
        for each in asyncio.all_tasks():
            each.cancel()
        await asyncio.sleep(60)

    with (
        pytest.warns(ResourceWarning, match="unclosed client"),
        pytest.raises(asyncio.CancelledError),
    ):
        run(main)
    assert server.sessions() == {}


def test_abandoned_generator_that_holds_a_lock_does_not_break_leaving(
    server: ThreadedServer, run: Run
) -> None:
    async def main() -> None:
        async with aiolead.connect(server.connect_string) as client:

            async def tokens() -> Any:
                async with Lock(client, "/generator") as held:
                    while True:
                        yield held.token

            async for _ in tokens():
                break
            while await Lock(client, "/generator").holders():
                await client.sync()

    run(main)
    assert server.sessions() == {}


def test_ctrl_c_during_a_client_task_on_trio_reaches_the_main_task(server: ThreadedServer) -> None:
    """Trio raises `KeyboardInterrupt` in the code that runs, unless that is protected."""
    protected: list[bool] = []

    def interrupt() -> None:
        protected.append(trio.lowlevel.currently_ki_protected())
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with aiolead.connect(server.connect_string) as client:
            # The task that reads from the server calls it.
            client.get("/").add_done_callback(interrupt)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert protected == [True]


PROGRAM = """
import asyncio, signal, sys
import aiolead

async def main(loop_name):
    async with aiolead.connect(sys.argv[1], session_timeout=30) as client:
        async with aiolead.Election(client, "/program").leadership():
            # uvloop swallows what a handler raises while bytes arrive, and the program goes on.
            await asyncio.sleep(0.3)
            print("leads", flush=True)
            await asyncio.sleep(600)

if sys.argv[3] == "exit":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
elif sys.argv[3] == "cancel all":
    async def inner(loop_name, main=main):
        def stop():
            for each in asyncio.all_tasks():
                each.cancel()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        await main(loop_name)
    main = inner
if sys.argv[2] == "uvloop":
    import uvloop
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[2]))
else:
    asyncio.run(main(sys.argv[2]))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("how", "number"),
    [("exit", signal.SIGTERM), ("cancel all", signal.SIGTERM), ("default", signal.SIGINT)],
    ids=["sys.exit", "cancel all", "Ctrl-C"],
)
def test_program_that_ends_by_a_signal_leaves_no_session(
    server: ThreadedServer, tmp_path: Path, loop: str, how: str, number: signal.Signals
) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(script), server.connect_string, loop, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(aiolead.__file__).parents[1])},
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "leads\n"
            program.send_signal(number)
            _, errors = program.communicate(timeout=PATIENCE / 2)
        finally:
            program.kill()
    assert server.sessions() == {}
    assert "ExceptionGroup" not in errors
    assert "Task was destroyed" not in errors
    assert "_client" not in errors  # no traceback of ours, and nothing chained
