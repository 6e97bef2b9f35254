"""Those before us are watched without being read: what becomes of a wait where that says nothing.

On virtual time.
"""

from __future__ import annotations

import anyio
import pytest
from kit.clients import contenders_left, has_looked
from kit.virtual_time import (
    SESSION,
    Link,
    passes,
    settled,
    with_virtual_server,
)
from recipes.blocks import Holder, enter

from aiolead import ACL, Client, CreateMode, Lock
from aiolead.errors import NoAuthError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

PATH = "/line"
PATIENCE = SESSION / 4
"""After which a waiter asks for those before it, in seconds."""

UNREADABLE = [ACL.world(Permission.ALL & ~Permission.READ)]


def keep_to_itself(server: EmbeddedServer, path: str) -> None:
    """What becomes of a znode is not told, as servers do it whose watchers may not read it."""
    watches = server._running.core.processor.watches
    for watcher in watches.by_path()[path]:
        watches._data.discard(path, watcher)


@with_virtual_server
async def test_waiter_notices_a_departure_that_it_is_not_notified_of(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    async with anyio.create_task_group() as tasks:
        waiter = Holder(Lock(b, PATH), span=0)
        async with Lock(a, PATH) as held:
            tasks.start_soon(waiter)
            await settled()
            began = anyio.current_time()
            keep_to_itself(server, held.path)
            await passes(PATIENCE / 2)
        before = server.requests.copy()
        await passes(PATIENCE)
        assert waiter.entered_at == pytest.approx(began + PATIENCE, abs=0.1)
        assert (server.requests - before)["GET_DATA"] == 1


@with_virtual_server
async def test_contender_that_left_before_it_was_watched_is_not_waited_for(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """The listing has shown it still; that it is gone is told before the watches are set."""
    async with anyio.create_task_group() as tasks:
        waiter = Holder(Lock(a, PATH), span=0)
        async with Lock(b, PATH):
            await has_looked(a, PATH)
            link.hold()
            tasks.start_soon(waiter)
            await settled()
            assert len(contenders_left(server, PATH)) == 2
        await settled()
        before = server.requests.copy()
        link.release()
        await settled()
        assert waiter.has_entered
        asked = server.requests - before
        assert (asked["SET_WATCHES"], asked["GET_CHILDREN"]) == (1, 0)


@with_virtual_server
async def test_long_wait_reads_its_predecessor_once(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """In the place of a ping."""
    async with anyio.create_task_group() as tasks:
        async with Lock(a, PATH):
            await passes(1.0)  # so that the holder has looked at its own znode
            tasks.start_soon(enter, Lock(b, PATH))
            await settled()
            before = server.requests.copy()
            await passes(5 * PATIENCE)
            assert (server.requests - before)["GET_DATA"] == 1
        await settled()
        assert contenders_left(server, PATH) == []


@with_virtual_server
async def test_unreadable_neighbour_raises(server: EmbeddedServer, a: Client, b: Client) -> None:
    await a.create(PATH)
    other = f"{PATH}/_c_other-lock-"
    await a.create(other, mode=CreateMode.EPHEMERAL_SEQUENTIAL, acl=UNREADABLE)
    began = anyio.current_time()
    with pytest.raises(NoAuthError):
        await enter(Lock(b, PATH))
    assert anyio.current_time() - began == pytest.approx(PATIENCE, abs=0.1)
    await settled()
    assert len(contenders_left(server, PATH)) == 1


@with_virtual_server
async def test_unreadable_znode_of_its_own_is_refused_at_once(a: Client, b: Client) -> None:
    """Nobody would tell it that others have deleted that."""
    async with Lock(a, PATH):
        began = anyio.current_time()
        with pytest.raises(NoAuthError):
            await enter(Lock(b, PATH, acl=UNREADABLE))
        assert anyio.current_time() - began < 0.1
