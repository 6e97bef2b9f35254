"""Which znodes are ours, on every server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect, eventually

import aiolead
from aiolead import CreateMode, Election, ExclusiveLock, Lock, ReadWriteLock, UniqueNames
from aiolead.errors import AcquireTimeout, TenureLost
from aiolead.paths import parse_connect_string
from aiolead.testing import FaultProxy, OpCode

pytestmark = pytest.mark.timeout(90)

PATH = "/path"
SESSION = 4.0

Enter = Callable[[aiolead.Client], AbstractAsyncContextManager[Any]]

RECIPES: dict[str, Enter] = {
    "Lock": lambda client: Lock(client, PATH, identity="same"),
    "Election": lambda client: Election(client, PATH, identity="same").leadership(),
    "ReadWriteLock.write": lambda client: ReadWriteLock(client, PATH, identity="same").write,
    "ExclusiveLock": lambda client: ExclusiveLock(client, PATH, identity="same"),
}


def proxy_for(server: ServerUnderTest) -> FaultProxy:
    host, port = parse_connect_string(server.hosts).hosts[0]
    return FaultProxy(host, port, chroot=server.chroot)


@pytest.mark.parametrize("mode", [CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
@pytest.mark.parametrize("recipe", ["Lock", "Election", "ReadWriteLock.write"])
async def test_forged_twin_of_a_lost_create_is_not_adopted(
    server: ServerUnderTest, recipe: str, mode: CreateMode
) -> None:
    enter, inside, leave = RECIPES[recipe], list[str](), anyio.Event()

    async def hold(name: str, client: aiolead.Client) -> None:
        async with enter(client):
            inside.append(name)
            await leave.wait()

    with proxy_for(server) as proxy:
        async with (
            aiolead.connect(proxy.connect_string, session_timeout=30) as victim,
            connect(server) as holder,
            connect(server) as forger,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(hold, "holder", holder)
            await eventually(lambda: inside == ["holder"], "it is held")
            await forger.sync(PATH)  # its server may lag behind the holder's
            (first,) = await forger.get_children(PATH)
            proxy.refuse()
            proxy.drop_reply(OpCode.CREATE2)
            tasks.start_soon(hold, "victim", victim)
            names = [first]
            with anyio.fail_after(PATIENCE):
                while len(names) < 2:
                    names = await forger.get_children(PATH)
            (real,) = {*names} - {first}
            await forger.create(f"{PATH}/{real[:-10]}-000000001", b"same", mode=mode)
            proxy.heal()
            await victim.ready()
            for _ in range(20):  # it looks for its znode meanwhile, and finds two
                await victim.exists(PATH)
            assert inside == ["holder"]
            tasks.cancel_scope.cancel()


@pytest.mark.keeps_time(SESSION)
@pytest.mark.parametrize("recipe", RECIPES)
async def test_resumed_session_waits_for_the_lease_of_its_first_process(
    server: ServerUnderTest, recipe: str
) -> None:
    enter, happened, clients = RECIPES[recipe], list[str](), list[aiolead.Client]()

    async def first(proxy: FaultProxy) -> None:
        async with aiolead.connect(proxy.connect_string, session_timeout=SESSION) as client:
            clients.append(client)
            try:
                async with enter(client):
                    happened.append("first enters")
                    try:
                        await anyio.sleep_forever()
                    finally:
                        happened.append("first is cancelled")
            except TenureLost:
                pass

    with proxy_for(server) as proxy:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first, proxy)
            await eventually(lambda: happened == ["first enters"], "it is held")
            credentials = clients[0].credentials
            proxy.blackhole()
            proxy.refuse()
            async with connect(server, session_timeout=SESSION, resume=credentials) as second:
                with anyio.fail_after(PATIENCE + 3 * SESSION):
                    async with enter(second):
                        happened.append("second enters")
            tasks.cancel_scope.cancel()
    assert happened == ["first enters", "first is cancelled", "second enters"]


async def test_two_recipes_of_one_client_exclude_each_other(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        async with UniqueNames(client, PATH, identity="same").claim("worker") as name:
            other = ExclusiveLock(client, name.path, identity="same")
            with pytest.raises(AcquireTimeout):
                async with other.acquire(timeout=0.2):
                    pytest.fail("two hold the znode")
            await name.verify()
        async with other.acquire(timeout=PATIENCE) as held:
            assert held.token > name.token
