"""Recipes at a server that lags behind, on the model of an ensemble."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from assurance.simulation.ensemble_model import Stage
from recipes.blocks import enter

from aiolead import Config, ExclusiveLock, Lock, NoNodeError, TaskBoard
from aiolead.errors import BadVersionError
from aiolead.testing.simulation import Backend, Process, run_virtual
from aiolead.testing.simulation.ensemble import Server

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/line"
SLOW = 0.5
"""How long a disk takes, in seconds: until a quorum has written what was proposed."""


def in_a_process(
    backend: Backend, stage: Stage, servers: str, program: Callable[[Process], Awaitable[object]]
) -> None:
    """Runs a program on a host of its own, to its end."""

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            process = Process(
                "p",
                "10.0.1.1",
                servers,
                timeline=stage.timeline,
                network=stage.network,
                tasks=tasks,
                seed=1,
            )
            process.start(program)

    run_virtual(main, backend=backend, timeline=stage.timeline, limit=100)


def hears_late(stage: Stage, server: Server) -> None:
    """From now on a server receives everything later than the others do."""
    leader = stage.ensemble.leader()
    assert leader is not None
    stage.network.path(leader.host, server.host).range = (SLOW, SLOW)


def test_lost_create_is_found_before_it_is_committed(
    backend: Backend,
) -> None:
    """The leader vouches for a session that moves without waiting for what it has proposed for it.
    So a server may list the queue before a create that was made elsewhere is committed. A `sync`
    before that waits for it; without one the create would be sent a second time.
    """
    stage = Stage()
    stage.start()
    first, second = stage.followers()

    async def program(process: Process) -> None:
        async with process.connect(session_timeout=4.0) as client:
            await client.create(PATH)
            for server in stage.ensemble.servers:
                server.disk_delay = SLOW
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(enter, Lock(client, PATH))
                await anyio.sleep(SLOW / 10)  # the leader has proposed it
                (left,) = (s for s in (first, second) if client.session_id in s.attached())
                moved_to = second if left is first else first
                left.kill()
                await anyio.sleep(SLOW / 2)
                assert moved_to.attached() == [client.session_id]
                assert created() == []

    def created() -> list[str]:
        paths = [str(fact["path"]) for fact in stage.told("znode-created")]
        return [path for path in paths if path.startswith(f"{PATH}/")]

    in_a_process(backend, stage, f"{first.address},{second.address}", program)
    (path,) = created()
    assert path.endswith("-lock-0000000000")


def test_abandoned_create_is_deleted_before_it_is_committed(backend: Backend) -> None:
    """Without a sync before the look, the znode would stay until the next one: for a session
    timeout, in which nobody else gets the lock."""
    stage = Stage()
    stage.start()
    first, second = stage.followers()

    async def program(process: Process) -> None:
        async with process.connect(session_timeout=4.0) as client:
            await client.sync()
            for server in stage.ensemble.servers:
                server.disk_delay = SLOW
            async with anyio.create_task_group() as tasks:

                async def hold() -> None:
                    async with ExclusiveLock(client, PATH):
                        pytest.fail("its answer is lost")

                tasks.start_soon(hold)
                await anyio.sleep(SLOW / 10)  # the leader has proposed it
                (left,) = (s for s in (first, second) if client.session_id in s.attached())
                left.kill()
                tasks.cancel_scope.cancel()
            await anyio.sleep(6 * SLOW)
            assert len(stage.told("znode-created")) == 1
            assert await client.exists(PATH) is None

    in_a_process(backend, stage, f"{first.address},{second.address}", program)


def test_result_of_a_task_is_found_at_a_lagging_server(backend: Backend) -> None:
    """Its result is waited for all the same; that there is no such task is said in the end."""
    stage = Stage()
    stage.start()
    first, second = stage.followers()
    results: list[bytes] = []

    async def program(process: Process) -> None:
        async with (
            process.connect(first.address, session_timeout=4.0) as a,
            process.connect(second.address, session_timeout=4.0) as b,
        ):
            board, others = TaskBoard(a, PATH), TaskBoard(b, PATH)
            await board.submit(b"makes the paths")
            async with board.claim() as task:
                await task.finish()
            await b.sync()
            hears_late(stage, second)
            name = await board.submit(b"known to the others later")
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    results.append((await others.result(name)).data)

                tasks.start_soon(wait)
                await anyio.sleep(4 * SLOW)
                async with board.claim() as task:
                    await task.finish(b"done")
            with pytest.raises(NoNodeError):
                await others.result("task-0000000007")

    in_a_process(backend, stage, first.address, program)
    assert results == [b"done"]


def test_version_is_found_at_a_lagging_server(backend: Backend) -> None:
    """It is built upon, and gone back to, all the same."""
    stage = Stage()
    stage.start()
    first, second = stage.followers()

    async def program(process: Process) -> None:
        async with (
            process.connect(first.address, session_timeout=4.0) as a,
            process.connect(second.address, session_timeout=4.0) as b,
        ):
            config, others = Config(a, PATH), Config(b, PATH)
            await config.publish({"k": b"1"})
            await b.sync()
            hears_late(stage, second)
            assert await config.publish({"k": b"2"}) == 2
            assert await others.publish({"k": b"3"}, version=2) == 3
            assert await config.publish({"k": b"4"}) == 4
            assert await others.rollback(4) == 5
            with pytest.raises(BadVersionError):
                await others.publish({"k": b"5"}, version=4)
            with pytest.raises(BadVersionError):
                await others.publish({"k": b"5"}, version=9)
            with pytest.raises(NoNodeError):
                await others.rollback(9)

    in_a_process(backend, stage, first.address, program)
