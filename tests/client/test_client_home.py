"""A client used from another process, thread or event loop says so, and sends nothing."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
from kit.cli import environment
from kit.clients import eventually

from aiolead import Auth, Client, Election, Lock, connect
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
    "hold": lambda client: client.backend.lease.hold("/a", lambda _: None),
    "add_auth": lambda client: client.add_auth(Auth.digest("ann", "secret")),
    "update_hosts": lambda client: client.update_hosts("localhost"),
    "Lock": lambda client: Lock(client, "/lock"),
    "Election": lambda client: Election(client, "/election"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def sent(server: ThreadedServer) -> int:
    """How many packets were sent to the server, but for pings."""
    return server.packets_in - server.requests["PING"]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_from_another_thread(server: ThreadedServer, use: Callable[[Client], Any]) -> None:
    async with connect(server.connect_string) as client:
        before = sent(server)
        with pytest.raises(UsageError, match="belongs to the event loop of another thread"):
            await anyio.to_thread.run_sync(use, client)
        await anyio.wait_all_tasks_blocked()
        assert sent(server) == before


async def test_from_another_thread_by_way_of_its_own(server: ThreadedServer, chroot: str) -> None:
    async with connect(server.connect_string) as client:

        def work() -> bool:
            anyio.from_thread.run(client.ensure_path, chroot)
            return client.session_id != 0 and client.backend.lease.remaining() > 0

        assert await anyio.to_thread.run_sync(work)
        assert await client.exists(chroot)


def test_from_another_event_loop_of_the_same_thread(server: ThreadedServer) -> None:
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


async def test_entering_a_recipe_elsewhere(server: ThreadedServer, chroot: str) -> None:
    async with connect(server.connect_string) as client:
        await client.ensure_path(chroot)
        lock, election = Lock(client, chroot + "/lock"), Election(client, chroot + "/election")

        def others() -> None:
            async def use() -> None:
                with pytest.raises(UsageError, match="another thread"):
                    await client.whoami()
                with pytest.raises(UsageError, match="another thread"):
                    await client.ensure_path("/a")
                with pytest.raises(UsageError, match="another thread"):
                    async with client.watch("/a"):
                        pass
                with pytest.raises(UsageError, match="another thread"):
                    async with client.observe_data("/a"):
                        pass
                with pytest.raises(UsageError, match="another thread"):
                    async with lock:
                        pass
                with pytest.raises(UsageError, match="another thread"):
                    async with election.leadership():
                        pass
                with pytest.raises(UsageError, match="another thread"):
                    await election.leader()

            anyio.run(use)

        before = sent(server)
        await anyio.to_thread.run_sync(others)
        assert sent(server) == before
        async with lock, election.leadership():
            pass


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
# A child that lets the loop of its parent run, if only to leave it, shares more than a client with
# it on trio: its epoll. Nobody can make that work.
FORKS = [pytest.param(REFUSED, loop, id=f"refused-{loop}") for loop in LOOPS]
FORKS += [
    pytest.param(LEAVES, "asyncio", id="leaves"),
    pytest.param(CONNECTS, "asyncio", id="connects"),
]


@pytest.mark.exhaustive("each case starts processes", one_in=3)
@pytest.mark.parametrize(("child", "loop"), FORKS)
def test_a_forked_child_cannot_use_it_and_does_it_no_harm(
    child: str, loop: str, tmp_path: Path
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(child=child))
    with EmbeddedServer.in_thread() as server:
        done = subprocess.run(
            [sys.executable, str(script), server.connect_string, *LOOPS[loop]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert second == "parent: 8 True"
        # asyncio may break down under a child that leaves: that is no harm to the parent.
        assert first == "child: 3" or child is LEAVES, done.stderr
        assert server.requests["CLOSE_SESSION"] == (2 if child is CONNECTS else 1)
        assert server.requests["SET_DATA"] == 8
        assert server.sessions() == {}


# --- callbacks of the event loop -----------------------------------------------------------------


def in_callback(function: Callable[[], object]) -> None:
    """Have the event loop call a function: on asyncio in no task, and without anyio's context.

    That is how `asyncio.run` calls handlers of signals.
    """
    if trio.lowlevel.in_trio_run():
        trio.lowlevel.current_trio_token().run_sync_soon(function)
    else:
        asyncio.get_running_loop().call_soon(function, context=contextvars.Context())


async def test_a_callback_of_the_event_loop_starts_jobs(server: ThreadedServer) -> None:
    ran, over = anyio.Event(), anyio.Event()

    async def job() -> None:
        ran.set()

    async with connect(server.connect_string) as client:
        in_callback(lambda: client.backend.spawn(job, lambda _error: over.set()))
        with anyio.fail_after(10):
            await ran.wait()
            await over.wait()


async def test_a_job_of_a_callback_begins_even_if_the_client_is_closed_at_once(
    server: ThreadedServer,
) -> None:
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


async def test_a_callback_of_the_event_loop_replaces_the_list_of_servers(
    server: ThreadedServer,
) -> None:
    """As a program does it on SIGHUP. The client moves, here to the same server by another name."""
    other = server.connect_string.replace("127.0.0.1", "localhost")
    assert other != server.connect_string
    async with connect(server.connect_string) as client:
        in_callback(lambda: client.update_hosts(other))
        await eventually(lambda: client.statistics().connections == 2, "it has moved", within=10)
        await client.exists("/")
