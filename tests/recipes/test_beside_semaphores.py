"""Locks, elections and semaphores on one path do not exclude each other: they refuse each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, names
from recipes.blocks import enter

from aiolead import Client, CreateMode, Election, Lock, ReadWriteLock, ReentrantLock, Semaphore
from aiolead.errors import MixedLayoutError
from aiolead.types import Layout

pytestmark = pytest.mark.timeout(60)

PATH = "/shared"

Enter = Callable[[Client], Callable[..., Any]]

CONTENDERS: dict[str, Enter] = {
    "lock": lambda client: Lock(client, PATH).acquire,
    "kazoo's lock": lambda client: Lock(client, PATH, layout=Layout.KAZOO).acquire,
    "reentrant lock": lambda client: ReentrantLock(client, PATH).acquire,
    "election": lambda client: Election(client, PATH).leadership,
    "reader": lambda client: ReadWriteLock(client, PATH).read.acquire,
    "writer": lambda client: ReadWriteLock(client, PATH).write.acquire,
}

contenders = pytest.mark.parametrize("contend", CONTENDERS.values(), ids=CONTENDERS)
layouts = pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO], ids=repr)


async def is_refused(context: Any, held: Any) -> None:
    with pytest.raises(MixedLayoutError, match="a path of its own") as caught, anyio.fail_after(30):
        await enter(context)
    assert caught.value.session_id == held.session_id
    assert caught.value.neighbour == held.path


@contenders
@layouts
async def test_contender_is_refused_on_the_path_of_a_semaphore_in_use(
    a: Client, b: Client, layout: Layout, contend: Enter
) -> None:
    async with Semaphore(a, PATH, 2, layout=layout) as held:
        await catch_up(b)
        before = set(await names(b, PATH))
        for _ in range(2):
            await is_refused(contend(b)(timeout=PATIENCE), held)

        async def nothing_new() -> bool:
            # Servers delete empty containers, such as that of a semaphore's lock.
            return set(await names(b, PATH)) <= before

        await eventually(nothing_new, "nothing was left")
    await catch_up(b)
    await enter(contend(b)(timeout=PATIENCE))


@contenders
@layouts
async def test_semaphore_is_refused_on_the_path_of_a_contender(
    server: ServerUnderTest, a: Client, b: Client, layout: Layout, contend: Enter
) -> None:
    """Whether a semaphore was used there before, or not."""
    for _ in range(2):
        async with contend(a)(timeout=PATIENCE) as held:
            await catch_up(b)
            for _ in range(2):
                context = Semaphore(b, PATH, 2, layout=layout).acquire(timeout=PATIENCE)
                await is_refused(context, held)
        await catch_up(b)
        async with connect(server) as another, Semaphore(another, PATH, 2, layout=layout):
            pass
        await catch_up(a)


async def test_lock_is_refused_beside_a_permit_of_kazoos_own(a: Client, b: Client) -> None:
    await a.ensure_path(PATH)
    await a.create(f"{PATH}/{uuid4().hex}", b"kazoo", mode=CreateMode.EPHEMERAL)
    await catch_up(b)
    with pytest.raises(MixedLayoutError, match="a permit of a semaphore"):
        await enter(Lock(b, PATH).acquire(timeout=PATIENCE))


async def test_children_that_only_look_like_permits_refuse_nothing(a: Client, b: Client) -> None:
    """No session holds them, or they are below a path that happens to have the name."""
    await a.ensure_path(f"{PATH}/leases/note")
    await a.create(f"{PATH}/leases/x-lease-0000000001", b"")
    await a.create(f"{PATH}/leases/contract", b"", mode=CreateMode.EPHEMERAL)
    await a.create(f"{PATH}/{'a' * 32}", b"")
    await catch_up(b)
    await enter(Lock(b, PATH).acquire(timeout=PATIENCE))
