"""A waiter reads the contenders before it. On virtual time."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import contenders_left, has_looked
from kit.virtual_time import Link, settled, with_virtual_server
from recipes.blocks import Holder, enter

from aiolead import ACL, Client, CreateMode, Lock
from aiolead.errors import NoAuthError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

PATH = "/line"
UNREADABLE = [ACL.world(Permission.ALL & ~Permission.READ)]


@with_virtual_server
async def test_contender_that_left_before_it_was_read_is_not_waited_for(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """The listing has shown it still."""
    async with anyio.create_task_group() as tasks:
        waiter = Holder(Lock(a, PATH), span=0)
        async with Lock(b, PATH):
            await has_looked(a, PATH)
            link.stall("to_client")
            tasks.start_soon(waiter)
            await settled()
            assert len(contenders_left(server, PATH)) == 2
        await settled()
        link.heal()
        await settled()
        assert waiter.has_entered


@with_virtual_server
async def test_unreadable_neighbour_is_refused_at_once(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    await a.create(PATH)
    other = f"{PATH}/_c_other-lock-"
    await a.create(other, mode=CreateMode.EPHEMERAL_SEQUENTIAL, acl=UNREADABLE)
    began = anyio.current_time()
    with pytest.raises(NoAuthError):
        await enter(Lock(b, PATH))
    assert anyio.current_time() - began < 0.1
    await settled()
    assert len(contenders_left(server, PATH)) == 1


@with_virtual_server
async def test_unreadable_znode_of_its_own_is_refused_at_once(a: Client, b: Client) -> None:
    async with Lock(a, PATH):
        began = anyio.current_time()
        with pytest.raises(NoAuthError):
            await enter(Lock(b, PATH, acl=UNREADABLE))
        assert anyio.current_time() - began < 0.1
