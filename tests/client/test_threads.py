"""Clients, threads and event loops: a client belongs to the one that it was opened in.

A call from another process, thread or event loop is refused, and sends nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
from kit.cli import WITHIN, environment
from kit.clients import PATIENCE, Owner, eventually
from kit.elsewhere import in_thread
from kit.pages import ROOT

from aiolead import Auth, Client, Election, Lock, admin, connect
from aiolead.errors import ClientClosedError, UsageError
from aiolead.testing import EmbeddedServer, ThreadedServer

pytestmark = pytest.mark.both_loops

USES: dict[str, Callable[[Client], Any]] = {
    "create": lambda client: client.create("/b"),
    "delete": lambda client: client.delete("/a"),
    "get": lambda client: client.get("/a"),
    "set": lambda client: client.set("/a", b""),
    "exists": lambda client: client.exists("/a"),
    "get_children": lambda client: client.get_children("/"),
    "get_acl": lambda client: client.get_acl("/a"),
    "sync": lambda client: client.sync(),
    "check": lambda client: client.check("/a"),
    "transaction": lambda client: client.transaction().set("/a", b"").commit(),
    "in a chroot": lambda client: client.chroot("/a").get("/"),
    "make_watch": lambda client: client.backend.make_watch(),
    "observe": lambda client: client.observe(),
    "subscribe": lambda client: client.backend.subscribe(lambda *_: None),
    "spawn": lambda client: client.backend.spawn(anyio.sleep_forever),
    "shared": lambda client: client.backend.shared("/a", object),
    "serial": lambda client: client.backend.serial(),
    "pipelined": lambda client: client.pipelined(),
    "hold": lambda client: client.backend.lease.hold("/a", Owner()),
    "add_auth": lambda client: client.add_auth(Auth.digest("ann", "secret")),
    "update_hosts": lambda client: client.update_hosts("localhost"),
    "Lock": lambda client: Lock(client, "/lock"),
    "Election": lambda client: Election(client, "/election"),
}


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def sent(server: ThreadedServer) -> int:
    """How many packets were sent to the server, but for pings."""
    return server.packets_in - server.requests["PING"]


@pytest.fixture
async def client(server: ThreadedServer) -> AsyncIterator[Client]:
    async with connect(server.connect_string) as client:
        yield client


async def test_call_from_a_thread_through_the_event_loop(client: Client, chroot: str) -> None:
    def work() -> bool:
        anyio.from_thread.run(client.ensure_path, chroot)
        return client.session_id != 0 and client.backend.lease.remaining() > 0

    assert await anyio.to_thread.run_sync(work)
    assert await client.exists(chroot)


def test_call_from_another_event_loop_of_the_thread_is_refused(server: ThreadedServer) -> None:
    entered: list[Client] = []
    ready, done = asyncio.Event(), asyncio.Event()

    async def here() -> None:
        async with connect(server.connect_string) as client:
            entered.append(client)
            ready.set()
            await done.wait()

    def use_all() -> None:
        for use in USES.values():
            with pytest.raises(UsageError, match="belongs to another event loop"):
                use(entered[0])

    async def elsewhere() -> None:
        use_all()

    with asyncio.Runner() as one:
        loop = one.get_loop()
        task = loop.create_task(here())
        loop.run_until_complete(ready.wait())
        before = sent(server)
        other = asyncio.new_event_loop()
        other.run_until_complete(elsewhere())
        other.close()
        use_all()  # no event loop at all is another one, too
        assert sent(server) == before
        done.set()
        loop.run_until_complete(task)


async def test_recipe_entered_in_another_thread_is_refused(
    server: ThreadedServer, client: Client, chroot: str
) -> None:
    await client.ensure_path(chroot)
    lock, election = Lock(client, chroot + "/lock"), Election(client, chroot + "/election")
    calls: list[Callable[[], Any]] = [
        partial(admin.whoami, client),
        lambda: client.ensure_path("/a"),
        client.watch("/a").__aenter__,
        client.observe_data("/a").__aenter__,
        lock.__aenter__,
        election.leadership().__aenter__,
        election.leader,
    ]

    async def use() -> None:
        for call in calls:
            with pytest.raises(UsageError, match="another thread"):
                await call()

    before = sent(server)
    await anyio.to_thread.run_sync(anyio.run, use)
    assert sent(server) == before
    async with lock, election.leadership():
        pass


# --- what threads may do ------------------------------------------------------------------------


async def test_threads_read_statistics_while_watches_change(client: Client) -> None:
    interval = sys.getswitchinterval()
    watches = [client.backend.make_watch() for _ in range(300)]
    for number, watch in enumerate(watches):
        await client.exists(f"/{number}", watch=watch)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            client.statistics()
            client.healthy()

    sys.setswitchinterval(1e-6)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, read)
            for number in range(300):
                watch = client.backend.make_watch()
                await client.exists(f"/n{number}", watch=watch)
                watches[number].close()
                watches.append(watch)
            stop.set()
    finally:
        stop.set()
        sys.setswitchinterval(interval)


def refused_elsewhere(function: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="another thread"):
        in_thread(function)


async def test_transaction_refused_in_a_thread_can_still_be_sent(client: Client) -> None:
    transaction, fenced = client.transaction().check("/"), client.fenced("/").transaction()
    fenced.create("/a")
    for each in (transaction, fenced):
        refused_elsewhere(each.commit)
    await transaction
    await fenced
    assert await client.exists("/a")


async def test_read_refused_in_a_thread_has_not_reserved_its_watch(client: Client) -> None:
    watch, other = client.backend.make_watch(), client.backend.make_watch()
    refused_elsewhere(lambda: client.exists("/a", watch=watch))
    assert client.statistics().watches == 0
    await client.exists("/a", watch=watch)
    await client.exists("/b", watch=other)
    await client.create("/a")
    assert (await watch.wait()).path == "/a"
    assert other.is_armed


async def test_watch_is_closed_by_a_thread(client: Client) -> None:
    watch = client.backend.make_watch()
    await client.exists("/a", watch=watch)
    in_thread(watch.close)
    await client.get("/")
    assert not watch.is_armed
    assert client.statistics().watches == 0


# --- fork --------------------------------------------------------------------------------------

PARENT = """
import asyncio, os, sys, anyio, aiolead

{child}

async def main():
    async with aiolead.connect(sys.argv[1], session_timeout=2) as client:
        await client.create("/mine", mode=aiolead.CreateMode.EPHEMERAL)
        pid = os.fork()
        if not pid:
            child(client)
        # The parent's session and connection are as they were, whatever the child does.
        for number in range(8):
            await anyio.sleep(0.1)
            await client.set("/mine", b"%d" % number)
        print("child:", os.waitpid(pid, 0)[1] >> 8)
        stat = await client.exists("/mine")
        print("parent:", stat.version, stat.ephemeral_owner == client.session_id)

anyio.run(main, backend=sys.argv[2], backend_options=eval(sys.argv[3]))
"""

REFUSED = """
def child(client):
    make_watch = client.backend.make_watch
    for use in (lambda: client.get("/"), make_watch, lambda: aiolead.Lock(client, "/a")):
        try:
            use()
        except aiolead.errors.UsageError as error:
            assert f"of which this one, {os.getpid()}, was forked" in str(error), error
        else:
            os._exit(1)
    os._exit(3)
"""

LEAVES = """
def child(client):
    raise SystemExit(3)
"""

CONNECTS = """
def child(client):
    async def work():
        try:
            client.get("/")
        except aiolead.errors.UsageError:
            async with aiolead.connect(sys.argv[1]) as own:
                assert own.session_id != client.session_id
                stat = await own.exists("/mine")
                assert stat.ephemeral_owner == client.session_id
            os._exit(3)
    try:
        asyncio.run(work())
    finally:
        os._exit(1)
"""

LOOPS = {
    "asyncio": ("asyncio", "{}"),
    "asyncio+uvloop": ("asyncio", "{'use_uvloop': True}"),
    "trio": ("trio", "{}"),
}
# On trio, a child that lets the event loop of its parent run, if only to leave it, shares the epoll
# with it. No library can make that work.
FORKS = [(REFUSED, loop) for loop in LOOPS] + [(LEAVES, "asyncio"), (CONNECTS, "asyncio")]


@pytest.mark.exhaustive("each case starts processes", one_in=3)
@pytest.mark.parametrize(("child", "loop"), FORKS, ids=[*LOOPS, "leaves", "connects"])
def test_forked_child_cannot_use_the_client(child: str, loop: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(child=child))
    with EmbeddedServer.in_thread() as server:
        command = [sys.executable, str(script), server.connect_string, *LOOPS[loop]]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WITHIN, check=False, env=environment()
        )
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert second == "parent: 8 True"
        # asyncio may break down under a child that leaves: that is no harm to the parent.
        assert first == "child: 3" or child is LEAVES, done.stderr
        assert server.requests["CLOSE_SESSION"] == (2 if child is CONNECTS else 1)
        assert server.requests["SET_DATA"] == 8
        assert server.sessions() == {}


# --- event loops that end by force ---------------------------------------------------------------

EXITS = dedent("""
    import signal, sys, trio, aiolead

    signal.signal(signal.SIGALRM, lambda *_: sys.exit(3))

    async def main():
        async with aiolead.connect(sys.argv[1]):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            await trio.sleep_forever()

    trio.run(main)
""")
"""A program of trio that exits in a signal handler: trio abandons all of its tasks."""


def test_dropped_client_is_quiet_after_its_event_loop_was_ended(tmp_path: Path) -> None:
    script = tmp_path / "exits.py"
    script.write_text(EXITS)
    with EmbeddedServer.in_thread() as server:
        command = [sys.executable, str(script), server.connect_string]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WITHIN, check=False, env=environment()
        )
    assert done.returncode == 3
    assert "ClientHandle" not in done.stderr


# --- callbacks of the event loop -----------------------------------------------------------------


def in_callback(function: Callable[[], object]) -> None:
    """Have the event loop call a function: on asyncio in no task, and without anyio's context.

    That is how `asyncio.run` calls handlers of signals.
    """
    if trio.lowlevel.in_trio_run():
        trio.lowlevel.current_trio_token().run_sync_soon(function)
    else:
        asyncio.get_running_loop().call_soon(function, context=contextvars.Context())


async def test_callback_of_the_event_loop_starts_jobs(client: Client) -> None:
    ran, over = anyio.Event(), anyio.Event()

    async def job() -> None:
        ran.set()

    in_callback(lambda: client.backend.spawn(job, lambda _error: over.set()))
    with anyio.fail_after(PATIENCE):
        await ran.wait()
        await over.wait()


async def test_job_of_a_callback_begins_before_a_close(server: ThreadedServer) -> None:
    ended: list[object] = []

    async def job() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")

    async with connect(server.connect_string) as client:
        in_callback(lambda: client.backend.spawn(job, ended.append))
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    assert ended[0] == "ended"
    assert isinstance(ended[1], ClientClosedError)


async def test_callback_of_the_event_loop_replaces_the_servers(
    server: ThreadedServer, client: Client
) -> None:
    """As a program does it on SIGHUP. The client moves, here to the same server by another name."""
    other = server.connect_string.replace("127.0.0.1", "localhost")
    assert other != server.connect_string
    in_callback(lambda: client.update_hosts(other))
    await eventually(lambda: client.statistics().connections == 2, "it has moved", within=10)
    await client.exists("/")


# --- subinterpreters, as in mod_wsgi and InterpreterPoolExecutor ---------------------------------

ASYNC = """
    import asyncio, aiolead

    async def main():
        async with aiolead.connect("{hosts}"{options}) as client:
            async with aiolead.Lock(client, "/lock") as held:
                held.check()

    asyncio.run(main())
"""
BLOCKING = """
    from aiolead import blocking

    with blocking.connect("{hosts}") as client:
        with blocking.Lock(client, "/lock").acquire() as held:
            held.check()
"""
CODE = {
    "asyncio": ASYNC,
    "guardian": ASYNC.replace("{options}", ", close_on_crash=True"),
    "watchdog": ASYNC.replace("{options}", ", watchdog=True"),
    "blocking": BLOCKING,
}
DAEMONS = {"watchdog", "blocking"}
"""They have a daemon thread, which Python refuses in isolated interpreters."""

PROGRAM = """
    import sys

    import _interpreters as interpreters

    kind, code = sys.argv[1:]
    interpreter = interpreters.create(kind)
    problem = interpreters.exec(interpreter, code)
    interpreters.destroy(interpreter)
    print("ok" if problem is None else problem.formatted)
"""


@pytest.mark.skipif(
    sys.version_info < (3, 13),
    reason="in 3.12, an isolated one that has imported asyncio aborts the process as it ends",
)
@pytest.mark.parametrize("use", CODE)
@pytest.mark.parametrize("kind", ["legacy", "isolated"])
def test_lock_is_held_in_a_subinterpreter(kind: str, use: str) -> None:
    with EmbeddedServer.in_thread() as server:
        code = dedent(CODE[use]).replace("{hosts}", server.connect_string).replace("{options}", "")
        command = [sys.executable, "-c", dedent(PROGRAM), kind, code]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN, check=False
        )
    assert done.returncode == 0, done.stderr
    if kind == "isolated" and use in DAEMONS:
        assert "daemon threads are disabled" in done.stdout
    else:
        assert done.stdout == "ok\n"
