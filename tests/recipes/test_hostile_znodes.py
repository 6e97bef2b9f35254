"""Another client writes hostile data and names into every path of a recipe that is in use.

Whoever uses the recipe goes on, or gets a documented error. Its other hold stays, its client does
not end, and nothing unexpected is logged (`internal_errors`, which no test here asks for).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, connect
from kit.every_recipe import AN_INSTANCE, DONE, HELD, KEPT, Held
from parsing.hostile_data import ALLOWED_NAMES, DATA_CASES

import aiolead
from aiolead import AioleadError, Client
from aiolead.errors import ConfigurationError, InternalError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.exhaustive("each case is one recipe and one kind of data", one_in=3),
]

PATH = "/here"

LARGE = ("JSON a million digits", "revoke 1 MB", "1 MB")
"""Those of the data of a megabyte that are written; more of them would only take time."""

DATA = [
    data
    for name, data in DATA_CASES.items()
    if data is not None and (len(data) <= 250_000 or name in LARGE)
]
NAMES = list(ALLOWED_NAMES.values())

ROUND_TRIPS = 40
"""How many requests are answered before what waits, or follows, is taken to have seen it all."""

MOST = 12
"""How many of the znodes of one recipe are written to."""

Attack = Callable[[], Awaitable[None]]
Use = Callable[[Client, Client, Attack], Awaitable[object]]
"""Uses a recipe at `PATH` on the first client, with the help of the second, and has it attacked."""


@asynccontextmanager
async def documented() -> AsyncIterator[None]:
    """Takes errors of the documented kinds, but for those that say that a caller was wrong."""
    try:
        yield
    except* (InternalError, ConfigurationError, UsageError):
        raise
    except* AioleadError:
        pass


async def attack(attacker: Client) -> None:
    """Sets each znode to each data, and gives each one children of each name."""
    paths, queued = [PATH], [PATH]
    while queued and len(paths) < MOST:
        path = queued.pop(0)
        with suppress(AioleadError):
            below = [f"{path}/{name}" for name in sorted(await attacker.get_children(path))]
            paths += below
            queued += below
    data = itertools.cycle(DATA)
    for path in paths[:MOST]:
        replies: list[Any] = [attacker.create(f"{path}/{name}", next(data)) for name in NAMES]
        replies += [attacker.set(path, each) for each in DATA]
        for reply in replies:
            with suppress(AioleadError):
                await reply


async def seen(client: Client) -> None:
    """Waits until whatever goes on on a client has had its turns."""
    for _ in range(ROUND_TRIPS):
        with suppress(AioleadError):
            await client.exists("/")


async def meanwhile(client: Client, act: Callable[[], Awaitable[object]]) -> None:
    """Does something that may wait for ever now, for a while."""
    async with anyio.create_task_group() as tasks:

        async def acting() -> None:
            async with documented():
                await act()
            tasks.cancel_scope.cancel()

        tasks.start_soon(acting)
        await seen(client)
        tasks.cancel_scope.cancel()


def holding(scene: Held) -> Use:
    async def use(client: Client, helper: Client, attack: Attack) -> None:
        if scene.prepare is not None:
            await scene.prepare(helper, PATH)
        is_over = anyio.Event()

        async def hold() -> None:
            try:
                async with documented(), scene.enter(client, PATH) as mine:
                    await attack()
                    await seen(client)
                    await mine.verify()
                    is_over.set()
            finally:
                is_over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await is_over.wait()
            # To leave a barrier is to wait for all who say that they are in it.
            await seen(client)
            tasks.cancel_scope.cancel()

        async def again() -> None:
            async with scene.enter(client, PATH) as mine:
                await mine.verify()

        await meanwhile(client, again)

    return use


def waiting(scene: Held) -> Use:
    """Somebody else holds it, and is waited for."""

    async def use(client: Client, helper: Client, attack: Attack) -> None:
        async def wait() -> None:
            async with scene.enter(client, PATH) as mine:
                await mine.verify()

        if scene.prepare is not None:
            await scene.prepare(helper, PATH)
        with anyio.CancelScope() as scope:
            async with scene.enter(helper, PATH):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(meanwhile, client, lambda: attack_while(wait, attack))
                scope.cancel()

    return use


async def attack_while(act: Callable[[], Awaitable[object]], attack: Attack) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await attack()


def following(
    follow: Callable[[Client], AbstractAsyncContextManager[Any]],
    prepare: Callable[[Client], Awaitable[object]],
) -> Use:
    async def use(client: Client, helper: Client, attack: Attack) -> None:
        await prepare(helper)

        async def read(is_open: anyio.Event) -> None:
            try:
                async with documented(), follow(client) as view:
                    is_open.set()
                    values = view.events() if isinstance(view, aiolead.TreeCache) else view
                    async for _ in values:
                        pass
            finally:
                is_open.set()

        for act in (attack, lambda: seen(client)):
            async with anyio.create_task_group() as tasks:
                is_open = anyio.Event()
                tasks.start_soon(read, is_open)
                await is_open.wait()
                await act()
                await seen(client)
                tasks.cancel_scope.cancel()

    return use


def doing(*acts: Callable[[Client], Awaitable[object]]) -> Use:
    async def use(client: Client, _: Client, attack: Attack) -> None:
        for act in acts:
            await meanwhile(client, lambda act=act: act(client))  # type: ignore[misc]
        await attack()
        for act in acts:
            await meanwhile(client, lambda act=act: act(client))  # type: ignore[misc]

    return use


async def a_tenure(manager: AbstractAsyncContextManager[Any]) -> None:
    async with manager:
        pass


def a_board(client: Client) -> aiolead.TaskBoard:
    return aiolead.TaskBoard(client, PATH)


def a_config(client: Client) -> aiolead.Config[Any]:
    return aiolead.Config(client, PATH)


def a_value(client: Client) -> aiolead.SharedValue[Any]:
    return aiolead.SharedValue(client, PATH, None, codec=Codec.json())


def a_registry(client: Client) -> aiolead.ServiceRegistry:
    return aiolead.ServiceRegistry(client, PATH)


async def register(client: Client) -> None:
    await client.ensure_path(f"{PATH}/web/i")
    await client.set(f"{PATH}/web/i", AN_INSTANCE.to_json())


async def joined(client: Client) -> None:
    await client.ensure_path(f"{PATH}/m")


async def wait_for_a_condition(client: Client) -> None:
    async with aiolead.Condition(client, PATH) as held:
        await held.wait()


async def notify(client: Client) -> None:
    async with aiolead.Condition(client, PATH) as held:
        await held.notify_all()


def made(client: Client) -> Awaitable[object]:
    return client.ensure_path(f"{PATH}/a/b")


USES: dict[str, Use] = {
    **{f"{name}, held": holding(scene) for name, scene in (HELD | KEPT).items()},
    **{
        f"{name}, waited for": waiting(HELD[name])
        for name in ("Election", "Lock", "ReadWriteLock.write", "MultiLock", "ExclusiveLock")
    },
    **{
        f"{name}, done": doing(lambda c, d=done: d.do(c, PATH), lambda c, d=done: d.count(c, PATH))  # type: ignore[misc]
        for name, done in DONE.items()
    },
    "observe_data": following(lambda c: c.observe_data(PATH), made),
    "observe_children": following(lambda c: c.observe_children(PATH), made),
    "TreeCache": following(lambda c: aiolead.TreeCache(c, PATH), made),
    "SharedValue, followed": following(
        lambda c: a_value(c).observe(), lambda c: a_value(c).set({"a": 1})
    ),
    "SharedValue of int32, followed": following(
        lambda c: aiolead.SharedValue(c, PATH, 0, codec=Codec.int32()).observe(),
        lambda c: aiolead.SharedValue(c, PATH, 0, codec=Codec.int32()).set(1),
    ),
    "Config, followed": following(
        lambda c: a_config(c).observe(), lambda c: a_config(c).publish({"a": b"1"})
    ),
    "Group, followed": following(lambda c: aiolead.Group(c, PATH).observe(), joined),
    "ServiceRegistry, followed": following(lambda c: a_registry(c).observe("web"), register),
    "TaskBoard, followed": following(
        lambda c: a_board(c).observe(), lambda c: a_board(c).submit(b"x")
    ),
    "Election, observed": following(lambda c: aiolead.Election(c, PATH).observe(), made),
    "Election, campaign": following(lambda c: aiolead.Election(c, PATH).campaign(), made),
    "Queue, consumed": doing(
        lambda c: aiolead.Queue(c, PATH).put(b"x"), lambda c: a_tenure(aiolead.Queue(c, PATH).get())
    ),
    "PriorityQueue": doing(
        lambda c: aiolead.PriorityQueue(c, PATH).put(b"x", priority=3),
        lambda c: a_tenure(aiolead.PriorityQueue(c, PATH).get()),
    ),
    "DelayQueue": doing(
        lambda c: aiolead.DelayQueue(c, PATH).put(b"x", delay=0),
        lambda c: a_tenure(aiolead.DelayQueue(c, PATH).get()),
    ),
    "TaskBoard": doing(lambda c: a_board(c).submit(b"x"), lambda c: a_tenure(a_board(c).claim())),
    "Config": doing(
        lambda c: a_config(c).publish({"a": b"1"}),
        lambda c: a_config(c).get(),
        lambda c: a_config(c).history(),
        lambda c: a_config(c).rollback(1),
    ),
    "Barrier": doing(
        lambda c: aiolead.Barrier(c, PATH).set(),
        lambda c: aiolead.Barrier(c, PATH).wait(),
        lambda c: aiolead.Barrier(c, PATH).remove(),
    ),
    "Condition": doing(
        wait_for_a_condition, notify, lambda c: aiolead.Condition(c, PATH).waiters()
    ),
    "Semaphore": doing(
        lambda c: aiolead.Semaphore(c, PATH, 2).set_limit(3),
        lambda c: aiolead.Semaphore(c, PATH, 2).limit(),
        lambda c: aiolead.Semaphore(c, PATH, 2).available(),
        lambda c: aiolead.Semaphore(c, PATH, 2).holders(),
        lambda c: aiolead.Semaphore(c, PATH, 2).contenders(),
    ),
    "Counter": doing(
        lambda c: aiolead.Counter(c, PATH).get(), lambda c: aiolead.Counter(c, PATH).add(1)
    ),
    "DoubleBarrier": doing(
        lambda c: aiolead.DoubleBarrier(c, PATH, 2).members(),
        lambda c: a_tenure(aiolead.DoubleBarrier(c, PATH, 2)),
    ),
    "UniqueNames": doing(
        lambda c: aiolead.UniqueNames(c, PATH).holders(),
        lambda c: a_tenure(aiolead.UniqueNames(c, PATH).claim("worker")),
    ),
    "ServiceRegistry": doing(
        lambda c: a_registry(c).services(), lambda c: a_registry(c).instances("web")
    ),
    "Group": doing(lambda c: aiolead.Group(c, PATH).members()),
    "revocation": doing(
        lambda c: aiolead.Lock(c, PATH).revoke(),
        lambda c: aiolead.Election(c, PATH).revoke(),
        lambda c: aiolead.Lock(c, PATH).contenders(),
        lambda c: aiolead.Election(c, PATH).contenders(),
        lambda c: aiolead.ReadWriteLock(c, PATH).holders(),
    ),
}


@pytest.mark.parametrize("name", USES)
async def test_hostile_znodes_end_nothing(name: str) -> None:
    async with (
        EmbeddedServer(max_session_timeout=60) as server,
        connect(server, session_timeout=60) as attacker,
        connect(server, session_timeout=60) as helper,
        connect(server, session_timeout=60) as client,
    ):
        session_id = client.session_id
        async with aiolead.Lock(client, "/bystander") as held:
            with anyio.fail_after(3 * PATIENCE):
                await USES[name](client, helper, lambda: attack(attacker))
            await held.verify()
            assert client.session_id == session_id
            assert client.state is aiolead.model.SessionState.CONNECTED
