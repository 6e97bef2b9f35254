"""A znode in front of a queue that no session owns: it is waited for, and named."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import pytest
from kit.clients import PATIENCE, eventually
from kit.virtual_time import SESSION, with_virtual_server
from recipes.blocks import Block, Holder, enter, happens

from aiolead import (
    AcquireTimeout,
    Client,
    Condition,
    Election,
    ExclusiveLock,
    Lock,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
)
from aiolead.events import OWNERLESS
from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.timeout(60)

PATH = "/queue"
NAME = "_c_0b1c2d3e-0000-4000-8000-000000000000-{}0000000000"
"""A name of Curator's, as a backup that was restored has them."""

Acquire = Callable[..., Block]

RECIPES: dict[str, tuple[str, str, Callable[[Client], Acquire]]] = {
    "Lock": (PATH, "lock-", lambda c: Lock(c, PATH).acquire),
    "ReentrantLock": (PATH, "lock-", lambda c: ReentrantLock(c, PATH).acquire),
    "Election": (PATH, "latch-", lambda c: Election(c, PATH).leadership),
    "Election of two": (PATH, "latch-", lambda c: Election(c, PATH, leaders=2).leadership),
    "reader": (PATH, "__WRIT__", lambda c: ReadWriteLock(c, PATH).read.acquire),
    "writer": (PATH, "__READ__", lambda c: ReadWriteLock(c, PATH).write.acquire),
    "Condition": (f"{PATH}/lock", "lock-", lambda c: Condition(c, PATH).acquire),
    "Semaphore": (f"{PATH}/locks", "lock-", lambda c: Semaphore(c, PATH, 2).acquire),
}


@pytest.fixture(autouse=True)
def logs_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aiolead.recipes")


async def leave_behind(client: Client, path: str, marker: str) -> str:
    """A persistent znode with a contender's name and the smallest number."""
    await client.ensure_path(path)
    return (await client.create(f"{path}/{NAME.format(marker)}", b"restored")).path


@pytest.mark.parametrize("recipe", RECIPES)
@with_virtual_server
async def test_timeout_and_warning_name_znode_of_no_session(
    client: Client, recipe: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, marker, recipe_of = RECIPES[recipe]
    acquire = recipe_of(client)
    ownerless = await leave_behind(client, path, marker)
    for _ in range(2):
        with pytest.raises(AcquireTimeout) as late:
            await enter(acquire(timeout=SESSION / 2))
        assert ownerless in str(late.value)
        assert "belongs to no session" in str(late.value)
    said = [record.message for record in caplog.records if ownerless in record.message]
    assert len(said) == 1
    assert "it will never go away by itself" in said[0]
    await client.delete(ownerless)
    await enter(acquire(timeout=SESSION))


@with_virtual_server
async def test_owner_of_the_contender_ahead_is_read_once_for_each_waiter(
    server: EmbeddedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ownerless = await leave_behind(client, PATH, "lock-")
    before = server.requests.copy()
    for _ in range(2):
        with pytest.raises(AcquireTimeout, match=f"behind {ownerless}, which {OWNERLESS}$"):
            await enter(Lock(client, PATH).acquire(timeout=4 * SESSION))
    # And its own znode, each time.
    assert (server.requests - before)["GET_DATA"] == 2 * 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@with_virtual_server
async def test_znode_of_a_session_is_named_without_a_warning(
    a: Client, b: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with Lock(a, PATH) as held:
        with pytest.raises(AcquireTimeout, match=f"behind {held.path}, held by "):
            await enter(Lock(b, PATH).acquire(timeout=SESSION))
    assert caplog.records == []


async def test_waiting_contender_warns_of_znode_of_no_session_on_every_server(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        ownerless = await leave_behind(client, PATH, "latch-")
        waiter = Holder(Election(client, PATH).leadership(), span=0)
        tasks.start_soon(waiter)
        await eventually(
            lambda: any(ownerless in record.message for record in caplog.records),
            "it is named",
            within=PATIENCE,
        )
        assert not waiter.has_entered
        await client.delete(ownerless)
        await happens(waiter.entered)


@with_virtual_server
async def test_exclusive_lock_names_ownerless_znode(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create(PATH, b"restored")
    for _ in range(2):
        with pytest.raises(AcquireTimeout, match=f"{PATH} belongs to no session"):
            await enter(ExclusiveLock(client, PATH).acquire(timeout=SESSION))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{PATH}: contenders wait" in caplog.records[0].getMessage()
