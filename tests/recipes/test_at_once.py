"""What must not wait does not: without a connection it is refused, and says why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from kit.virtual_time import SESSION, Link, on_virtual_time, passes
from kit.virtual_time import connect as connect_virtually

from aiolead import (
    AcquireTimeout,
    Client,
    Condition,
    ConnectionLossError,
    DelayQueue,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Lock,
    MultiLock,
    PriorityQueue,
    Queue,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
    TaskBoard,
    UniqueNames,
)
from aiolead.errors import Blame, ConnectFailed, Outcome
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

PATH = "/l"

Enter = Callable[[Client], AbstractAsyncContextManager[Any]]

TRY: dict[str, Enter] = {
    "Lock": lambda c: Lock(c, PATH).try_acquire(),
    "ReentrantLock": lambda c: ReentrantLock(c, PATH).try_acquire(),
    "ReadLock": lambda c: ReadWriteLock(c, PATH).read.try_acquire(),
    "WriteLock": lambda c: ReadWriteLock(c, PATH).write.try_acquire(),
    "MultiLock": lambda c: MultiLock(Lock(c, PATH), Lock(c, "/m")).try_acquire(),
    "Condition": lambda c: Condition(c, PATH).try_acquire(),
    "ExclusiveLock": lambda c: ExclusiveLock(c, PATH).try_acquire(),
    "Semaphore": lambda c: Semaphore(c, PATH, 1).try_acquire(),
    "Queue": lambda c: Queue(c, PATH).try_get(),
    "PriorityQueue": lambda c: PriorityQueue(c, PATH).try_get(),
    "DelayQueue": lambda c: DelayQueue(c, PATH).try_get(),
    "TaskBoard": lambda c: TaskBoard(c, PATH).try_claim(),
    "UniqueNames": lambda c: UniqueNames(c, PATH).try_claim("name"),
}
WAIT: dict[str, Callable[[Client, float], AbstractAsyncContextManager[Any]]] = {
    "Lock": lambda c, wait: Lock(c, PATH).acquire(timeout=wait),
    "Election": lambda c, wait: Election(c, PATH).leadership(timeout=wait),
    "MultiLock": lambda c, wait: MultiLock(Lock(c, PATH), Lock(c, "/m")).acquire(timeout=wait),
    "Condition": lambda c, wait: Condition(c, PATH).acquire(timeout=wait),
    "ExclusiveLock": lambda c, wait: ExclusiveLock(c, PATH).acquire(timeout=wait),
    "Semaphore": lambda c, wait: Semaphore(c, PATH, 1).acquire(timeout=wait),
    "DoubleBarrier": lambda c, wait: DoubleBarrier(c, PATH, 2).enter(timeout=wait),
    "Queue": lambda c, wait: Queue(c, PATH).get(timeout=wait),
    "TaskBoard": lambda c, wait: TaskBoard(c, PATH).claim(timeout=wait),
    "UniqueNames": lambda c, wait: UniqueNames(c, PATH).claim("name", timeout=wait),
}
AT_ONCE: dict[str, Enter] = {f"{name}, try": enter for name, enter in TRY.items()} | {
    f"{name}, timeout=0": lambda c, enter=enter: enter(c, 0)  # type: ignore[misc]
    for name, enter in WAIT.items()
}

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def is_refused(context: AbstractAsyncContextManager[Any], why: str) -> ConnectionLossError:
    began = anyio.current_time()
    with pytest.raises(ConnectionLossError, match=why) as refused:
        async with context:
            pytest.fail("nobody can know that it is ours")
    assert anyio.current_time() - began < 0.001, "on virtual time, where all but waiting takes none"
    assert refused.value.outcome is Outcome.NOT_APPLIED
    return refused.value


@backends
@pytest.mark.parametrize("name", AT_ONCE)
def test_no_server_was_reached_yet(backend: Backend, name: str) -> None:
    """Not even the first attempt of a client that has only begun to connect is waited for."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        link.room = 0
        async with link.connect(connect_timeout=0) as client:
            await is_refused(AT_ONCE[name](client), "not connected to a server: connecting")
            await passes(2.0)
            error = await is_refused(AT_ONCE[name](client), "the proxy refuses connections")
            assert isinstance(error.__cause__, ConnectFailed)
            assert [address for address, _ in error.__cause__.attempts] == ["10.0.0.1:2181"]

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("name", AT_ONCE)
def test_the_connection_was_lost(backend: Backend, name: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client:
            link.lose()
            await passes(1.0)
            await is_refused(AT_ONCE[name](client), "not connected to a server: suspended")
            link.restore()
            await client.ready()
            try:
                async with AT_ONCE[name](client):
                    pass  # it is as good as new
            except AcquireTimeout:
                assert name.startswith(("DoubleBarrier", "Queue", "TaskBoard"))

    on_virtual_time(backend, play)


@backends
@pytest.mark.parametrize("name", AT_ONCE)
def test_the_connection_is_lost_meanwhile(backend: Backend, name: str) -> None:
    """It leaves nothing behind, whatever the server has done."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, connect_virtually(server) as other:
            if name.startswith(("Queue", "PriorityQueue", "DelayQueue")):
                await Queue(other, PATH).put(b"x")
            link.hold()  # it asks, and hears nothing
            refused_at: list[float] = []
            lost_at = 0.0
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    with pytest.raises(ConnectionLossError) as refused:
                        async with AT_ONCE[name](client):
                            pytest.fail("nobody can know that it is ours")
                    assert refused.value.outcome is Outcome.NOT_APPLIED
                    refused_at.append(anyio.current_time())

                tasks.start_soon(ask)
                await passes(0.5)
                assert refused_at == []
                link.lose()
                lost_at = anyio.current_time()
            assert refused_at[0] - lost_at < 0.001
            link.restore()
            await client.ready()
            await passes(2 * SESSION)
            assert not any(stat.ephemeral_owner for stat in await _stats(other, server))

    on_virtual_time(backend, play)


async def _stats(client: Client, server: EmbeddedServer) -> list[Any]:
    stats = [await client.exists(path) for path in server.znodes()]
    return [stat for stat in stats if stat is not None]


@backends
@pytest.mark.parametrize("name", WAIT)
def test_the_time_is_up_and_no_server_was_reached(backend: Backend, name: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        link.room = 0
        async with link.connect(connect_timeout=0) as client:
            began = anyio.current_time()
            with pytest.raises(AcquireTimeout, match="no server was reached within 2 sec") as late:
                async with WAIT[name](client, 2.0):
                    pytest.fail("there is no server")
            assert 2.0 <= anyio.current_time() - began < 2.1
            assert "the proxy refuses connections" in str(late.value)
            assert late.value.blame is Blame.NETWORK

    on_virtual_time(backend, play)


@backends
def test_the_time_is_up_for_another_reason(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        link.room = 0
        async with link.connect(connect_timeout=0) as client, connect_virtually(server) as other:
            async with Lock(other, PATH), anyio.create_task_group() as tasks:

                async def wait(text: str, blame: Blame) -> None:
                    with pytest.raises(AcquireTimeout, match=text) as late:
                        async with Lock(client, PATH).acquire(timeout=4.0):
                            pytest.fail("it is held")
                    assert late.value.blame is blame

                # It comes while we wait.
                tasks.start_soon(
                    wait, f"not our turn within 4 seconds, behind {PATH}/[^ ]+$", Blame.RIVAL
                )
                await passes(1.0)
                link.restore()
                await passes(4.0)
                # It goes while we wait.
                text = "not our turn within 4 seconds; now: not connected to a server: suspended"
                tasks.start_soon(wait, text, Blame.NETWORK)
                await passes(1.0)
                link.lose()
                await passes(4.0)

    on_virtual_time(backend, play)


@backends
def test_several_locks_have_no_time_left_for_one_without_a_connection(backend: Backend) -> None:
    """That is the end of the time as well: only `timeout=0` is refused."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b:
            async with connect_virtually(server) as other, anyio.create_task_group() as tasks:

                async def hold() -> None:
                    async with Lock(other, "/a"):
                        await passes(2.0)

                tasks.start_soon(hold)
                await passes(0.5)
                link.lose()
                with pytest.raises(AcquireTimeout, match="not all were ours within 1 second"):
                    async with MultiLock(Lock(b, "/a"), Lock(a, "/b")).acquire(timeout=1.0):
                        pytest.fail("there is no connection")
                await passes(2.0)
                with pytest.raises(AcquireTimeout, match="not connected to a server") as late:
                    async with MultiLock(Lock(b, "/a"), Lock(a, "/b")).acquire(timeout=1.0):
                        pytest.fail("there is no connection")
                assert late.value.blame is Blame.NETWORK

    on_virtual_time(backend, play)
