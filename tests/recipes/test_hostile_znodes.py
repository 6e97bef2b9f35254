"""Another client writes hostile data and names into every path of a recipe that is in use.

The user of the recipe goes on, or gets a documented error. Its other hold stays, its client does
not end, and nothing unexpected is logged (`internal_errors`, which no test here asks for).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, connect
from kit.every_recipe import (
    AN_INSTANCE,
    DONE,
    FOLLOWED,
    HELD,
    KEPT,
    RECIPES,
    Followed,
    Held,
    Recipe,
)
from parsing.hostile_data import ALLOWED_NAMES, DATA_CASES
from recipes.blocks import enter

from aiolead import (
    AioleadError,
    Client,
    Condition,
    Config,
    Counter,
    DelayQueue,
    DoubleBarrier,
    Election,
    Group,
    Lock,
    Once,
    PriorityQueue,
    Queue,
    RateLimit,
    ReadWriteLock,
    Semaphore,
    ServiceRegistry,
    SharedValue,
    TaskBoard,
    TreeCache,
    UniqueNames,
)
from aiolead.errors import ConfigurationError, InternalError, UsageError
from aiolead.model import SessionState
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
    """Waits until all that goes on at a client has had its turns."""
    for _ in range(ROUND_TRIPS):
        with suppress(AioleadError):
            await client.exists("/")


async def meanwhile(client: Client, act: Callable[[], Awaitable[object]]) -> None:
    """Does something for a while, since it may wait forever now."""
    async with anyio.create_task_group() as tasks:

        async def acting() -> None:
            async with documented():
                await act()
            tasks.cancel_scope.cancel()

        tasks.start_soon(acting)
        await seen(client)
        tasks.cancel_scope.cancel()


async def verified(scene: Held, client: Client) -> None:
    async with scene.enter(client, PATH) as mine:
        await mine.verify()


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
            # A member that leaves a barrier waits for all that say that they are in it.
            await seen(client)
            tasks.cancel_scope.cancel()

        await meanwhile(client, lambda: verified(scene, client))

    return use


def waiting(scene: Held) -> Use:
    """Another client holds it, and is waited for."""

    async def use(client: Client, helper: Client, attack: Attack) -> None:
        async def wait_while_attacked() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(verified, scene, client)
                await attack()

        if scene.prepare is not None:
            await scene.prepare(helper, PATH)
        with anyio.CancelScope() as scope:
            # A leader that is asked by its data to resign does so.
            async with documented(), scene.enter(helper, PATH):
                await meanwhile(client, wait_while_attacked)
                scope.cancel()

    return use


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
                    values = view.events() if isinstance(view, TreeCache) else view
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
        async def do_all() -> None:
            for act in acts:
                await meanwhile(client, lambda act=act: act(client))  # type: ignore[misc]

        await do_all()
        await attack()
        await do_all()

    return use


def config(client: Client) -> Config[Any]:
    return Config(client, PATH)


def json_value(client: Client) -> SharedValue[Any]:
    return SharedValue(client, PATH, None, codec=Codec.json())


def int_value(client: Client) -> SharedValue[int]:
    return SharedValue(client, PATH, 0, codec=Codec.int32())


async def register(client: Client) -> None:
    await client.ensure_path(f"{PATH}/web/i")
    await client.set(f"{PATH}/web/i", AN_INSTANCE.to_json())


async def wait_for_a_condition(client: Client) -> None:
    async with Condition(client, PATH) as held:
        await held.wait()


async def notify(client: Client) -> None:
    async with Condition(client, PATH) as held:
        await held.notify_all()


def make_znodes(client: Client) -> Awaitable[object]:
    return client.ensure_path(f"{PATH}/a/b")


def called(recipe: Recipe) -> Use:
    """Calls one after the other, of one object."""
    objects: dict[Client, Any] = {}

    def call(verb: Callable[[Any], Awaitable[object]], client: Client) -> Awaitable[object]:
        if client not in objects:
            objects[client] = recipe(client, PATH)
        return verb(objects[client])

    return doing(*(partial(call, verb) for verb in recipe.calls.values()))


def seeing(what: Followed) -> Use:
    """Another client changes what is followed, before it is attacked."""

    async def use(client: Client, helper: Client, attack: Attack) -> None:
        async with documented(), what.change(helper, PATH) as change:
            await change(1)
            async with documented(), what.observe(client, PATH):
                await attack()
                await seen(client)

    return use


def calls(make: Callable[[Client, str], Any], *verbs: str) -> Use:
    """Calls methods without arguments."""
    return doing(*(lambda c, verb=verb: getattr(make(c, PATH), verb)() for verb in verbs))  # type: ignore[misc]


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
    **{f"{name}, seen": seeing(what) for name, what in FOLLOWED.items()},
    **{f"{name}, called": called(recipe) for name, recipe in RECIPES.items() if recipe.calls},
    "observe_data": following(lambda c: c.observe_data(PATH), make_znodes),
    "observe_children": following(lambda c: c.observe_children(PATH), make_znodes),
    "TreeCache": following(lambda c: TreeCache(c, PATH), make_znodes),
    "SharedValue, followed": following(
        lambda c: json_value(c).observe(), lambda c: json_value(c).set({"a": 1})
    ),
    "SharedValue of int32, followed": following(
        lambda c: int_value(c).observe(), lambda c: int_value(c).set(1)
    ),
    "Config, followed": following(
        lambda c: config(c).observe(), lambda c: config(c).publish({"a": b"1"})
    ),
    "Group, followed": following(
        lambda c: Group(c, PATH).observe(), lambda c: c.ensure_path(f"{PATH}/m")
    ),
    "ServiceRegistry, followed": following(
        lambda c: ServiceRegistry(c, PATH).observe("web"), register
    ),
    "TaskBoard, followed": following(
        lambda c: TaskBoard(c, PATH).observe(), lambda c: TaskBoard(c, PATH).submit(b"x")
    ),
    "Election, observed": following(lambda c: Election(c, PATH).observe(), make_znodes),
    "Election, campaign": following(lambda c: Election(c, PATH).campaign(), make_znodes),
    "Queue, consumed": doing(
        lambda c: Queue(c, PATH).put(b"x"), lambda c: enter(Queue(c, PATH).get())
    ),
    "PriorityQueue": doing(
        lambda c: PriorityQueue(c, PATH).put(b"x", priority=3),
        lambda c: enter(PriorityQueue(c, PATH).get()),
    ),
    "DelayQueue": doing(
        lambda c: DelayQueue(c, PATH).put(b"x", delay=0),
        lambda c: enter(DelayQueue(c, PATH).get()),
    ),
    "TaskBoard": doing(
        lambda c: TaskBoard(c, PATH).submit(b"x"), lambda c: enter(TaskBoard(c, PATH).claim())
    ),
    "Config": doing(
        lambda c: config(c).publish({"a": b"1"}),
        lambda c: config(c).get(),
        lambda c: config(c).history(),
        lambda c: config(c).rollback(1),
    ),
    "Condition": doing(wait_for_a_condition, notify, lambda c: Condition(c, PATH).waiters()),
    "Semaphore": doing(
        lambda c: Semaphore(c, PATH, 2).set_limit(3),
        lambda c: Semaphore(c, PATH, 2).limit(),
        lambda c: Semaphore(c, PATH, 2).available(),
        lambda c: Semaphore(c, PATH, 2).holders(),
        lambda c: Semaphore(c, PATH, 2).contenders(),
    ),
    "Counter": doing(lambda c: Counter(c, PATH).get(), lambda c: Counter(c, PATH).add(1)),
    "RateLimit": doing(
        lambda c: RateLimit(c, PATH, rate=5).try_acquire(),
        lambda c: RateLimit(c, PATH).try_acquire(),
        lambda c: RateLimit(c, PATH).set_rate(5),
    ),
    "DoubleBarrier": doing(
        lambda c: DoubleBarrier(c, PATH, 2).members(),
        lambda c: enter(DoubleBarrier(c, PATH, 2)),
    ),
    "Once": doing(
        lambda c: Once(c, PATH).is_done("key"),
        lambda c: enter(Once(c, PATH, keep=1).claim("key", timeout=0)),
    ),
    "UniqueNames": doing(
        lambda c: UniqueNames(c, PATH).holders(),
        lambda c: enter(UniqueNames(c, PATH).claim("worker")),
    ),
    "ServiceRegistry": doing(
        lambda c: ServiceRegistry(c, PATH).services(),
        lambda c: ServiceRegistry(c, PATH).instances("web"),
    ),
    "Group": calls(Group, "members"),
    "Lock": calls(Lock, "revoke", "contenders"),
    "Election": calls(Election, "revoke", "contenders"),
    "ReadWriteLock": calls(ReadWriteLock, "holders"),
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
        async with Lock(client, "/bystander") as held:
            with anyio.fail_after(3 * PATIENCE):
                await USES[name](client, helper, lambda: attack(attacker))
            await held.verify()
            assert client.session_id == session_id
            assert client.state is SessionState.CONNECTED
