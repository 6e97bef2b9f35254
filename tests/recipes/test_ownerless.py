"""A znode in front of a queue that no session owns: it is waited for, and named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect, eventually
from kit.virtual_time import SESSION, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import AcquireTimeout, Client, Lock
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

pytestmark = pytest.mark.timeout(60)

PATH = "/queue"
NAME = "_c_0b1c2d3e-0000-4000-8000-000000000000-{}0000000000"
"""A name of Curator's, as a backup that was restored has them."""

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])

Acquire = Callable[[Client, float], Any]

RECIPES: dict[str, tuple[str, str, Acquire]] = {
    "Lock": (PATH, "lock-", lambda c, wait: Lock(c, PATH).acquire(timeout=wait)),
    "ReentrantLock": (
        PATH,
        "lock-",
        lambda c, wait: aiolead.ReentrantLock(c, PATH).acquire(timeout=wait),
    ),
    "Election": (
        PATH,
        "latch-",
        lambda c, wait: aiolead.Election(c, PATH).leadership(timeout=wait),
    ),
    "Election of two": (
        PATH,
        "latch-",
        lambda c, wait: aiolead.Election(c, PATH, leaders=2).leadership(timeout=wait),
    ),
    "reader": (
        PATH,
        "__WRIT__",
        lambda c, wait: aiolead.ReadWriteLock(c, PATH).read.acquire(timeout=wait),
    ),
    "writer": (
        PATH,
        "__READ__",
        lambda c, wait: aiolead.ReadWriteLock(c, PATH).write.acquire(timeout=wait),
    ),
    "Condition": (
        f"{PATH}/lock",
        "lock-",
        lambda c, wait: aiolead.Condition(c, PATH).acquire(timeout=wait),
    ),
    "Semaphore": (
        f"{PATH}/locks",
        "lock-",
        lambda c, wait: aiolead.Semaphore(c, PATH, 2).acquire(timeout=wait),
    ),
}


async def _leave_behind(client: Client, path: str, marker: str) -> str:
    """A persistent znode with a contender's name and the smallest number."""
    await client.ensure_path(path)
    return (await client.create(f"{path}/{NAME.format(marker)}", b"restored")).path


@backends
@pytest.mark.parametrize("recipe", RECIPES)
def test_timeout_and_warning_name_znode_of_no_session(
    backend: Backend, recipe: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, marker, acquire = RECIPES[recipe]

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a:
            ownerless = await _leave_behind(a, path, marker)
            for _ in range(2):
                with pytest.raises(AcquireTimeout) as late:
                    async with acquire(a, SESSION / 2):
                        pytest.fail("it is not its turn")
                assert ownerless in str(late.value)
                assert "belongs to no session" in str(late.value)
            said = [record.message for record in caplog.records if ownerless in record.message]
            assert len(said) == 1
            assert "it will never go away by itself" in said[0]
            await a.delete(ownerless)
            async with acquire(a, SESSION):
                pass

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)


@backends
def test_look_for_the_owner_is_not_made_before_a_quarter_of_the_session_timeout(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs one read for each znode that is waited for, once."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, anyio.create_task_group() as tasks:
            ownerless = await _leave_behind(a, PATH, "lock-")
            with pytest.raises(AcquireTimeout, match=f"behind {ownerless}$"):
                async with Lock(a, PATH).acquire(timeout=SESSION / 8):
                    pytest.fail("it is not its turn")
            with pytest.raises(AcquireTimeout, match=f"behind {ownerless}$"):
                async with Lock(a, PATH).acquire(timeout=0):
                    pytest.fail("it is not its turn")

            async def wait() -> None:
                async with Lock(a, PATH):
                    pass

            await settled()
            tasks.start_soon(wait)
            await passes(SESSION / 5)
            before = server.requests["GET_DATA"]
            assert caplog.records == []
            await passes(4 * SESSION)
            assert server.requests["GET_DATA"] - before == 1
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            await a.delete(ownerless)

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)


@backends
def test_znode_of_a_session_is_named_without_a_warning(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a, connect_virtually(server) as b:
            async with Lock(a, PATH) as held:
                with pytest.raises(AcquireTimeout, match=f"behind {held.path}$"):
                    async with Lock(b, PATH).acquire(timeout=SESSION):
                        pytest.fail("it is held")

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)
    assert caplog.records == []


async def test_waiting_contender_warns_of_znode_of_no_session_on_every_server(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(server) as a, anyio.create_task_group() as tasks:
        ownerless = await _leave_behind(a, PATH, "latch-")
        led = anyio.Event()

        async def lead() -> None:
            async with aiolead.Election(a, PATH).leadership():
                led.set()

        with caplog.at_level(logging.WARNING, "aiolead.recipes"):
            tasks.start_soon(lead)
            await eventually(
                lambda: any(ownerless in record.message for record in caplog.records),
                "it is named",
            )
        assert not led.is_set()
        await a.delete(ownerless)
        with anyio.fail_after(PATIENCE):
            await led.wait()


@backends
def test_exclusive_lock_names_znode_of_no_session(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as a:
            await a.create(PATH, b"restored")
            for _ in range(2):
                with pytest.raises(AcquireTimeout, match=f"{PATH} belongs to no session"):
                    async with aiolead.ExclusiveLock(a, PATH).acquire(timeout=SESSION):
                        pytest.fail("it exists")
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            assert f"{PATH}: contenders wait" in caplog.text

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)
