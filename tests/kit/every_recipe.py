"""Every recipe at work, for what must be true of all of them when something breaks.

`RECIPES` has one row for each recipe. `HELD`, `KEPT`, `FOLLOWED` and `DONE` are made from it, and
so are the tests of all recipes. As a program, this is a process that does all of it, until it is
killed:

    python -m kit.every_recipe CONNECT_STRING
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

import anyio

import aiolead
from aiolead import Client, NoNodeError
from aiolead._util.token_bucket import Write
from aiolead.errors import CoordinationError
from aiolead.model import Stat
from aiolead.types import Codec

SESSION = 4.0
"""The session timeout where sessions end by themselves, in seconds."""

ITEMS = frozenset({"one", "two", "three", "four"})

Enter = Callable[[Client, str], AbstractAsyncContextManager[Any]]
Turn = Callable[[Client, str], Awaitable[object]]
Prepare = Callable[[Client, str], Awaitable[object]]


# --- recipes that are held -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """Something that one client at a time has.

    Attributes:
        enter: holds it for a block; the result has `verify`.
        turn: gets it when nobody else has it any more, and returns.
        prepare: what has to be there before.
    """

    enter: Enter
    turn: Turn
    prepare: Prepare | None = None


def held(enter: Enter, then: Enter | None = None, prepare: Prepare | None = None) -> Held:
    async def turn(client: Client, path: str) -> None:
        async with (then or enter)(client, path) as mine:
            await mine.verify()

    return Held(enter, turn, prepare)


@asynccontextmanager
async def downgraded(client: Client, path: str) -> AsyncIterator[aiolead.types.WriteHeld]:
    async with aiolead.ReadWriteLock(client, path).write as mine:
        await mine.downgrade()
        yield mine


def two_locks(client: Client, path: str, *numbers: int) -> aiolead.MultiLock:
    return aiolead.MultiLock(*(aiolead.Lock(client, f"{path}/{number}") for number in numbers))


@asynccontextmanager
async def an_item(client: Client, path: str) -> AsyncIterator[aiolead.types.QueueItem[bytes]]:
    await aiolead.Queue(client, path).put(b"x")
    async with aiolead.Queue(client, path).get() as item:
        yield item


@asynccontextmanager
async def a_task(client: Client, path: str) -> AsyncIterator[aiolead.types.Task[bytes]]:
    await aiolead.TaskBoard(client, path).submit(b"x")
    async with aiolead.TaskBoard(client, path).claim() as task:
        yield task


@asynccontextmanager
async def running(client: Client, path: str) -> AsyncIterator[aiolead.types.Run]:
    """Runs a key that is not done by the end: `DONE` has one that is."""
    # Without a look for old keys, nothing goes on in the background when the run has ended.
    async with aiolead.Once(client, path, ttl=None).claim("key") as run:
        if run is None:
            raise CoordinationError("another client has made the znode of a done key")
        yield run
        await run.release()


# --- what is kept --------------------------------------------------------------------------------


class Kept:
    """Something that its owner gets again after a loss.

    Args:
        tokens: gives what is another one each time.
    """

    def __init__(self, tokens: Callable[[], frozenset[int]]) -> None:
        self.tokens = tokens

    async def verify(self) -> None:
        assert self.tokens()


@asynccontextmanager
async def kept(node: aiolead.PersistentNode) -> AsyncIterator[Kept]:
    async with node:
        yield Kept(lambda: frozenset(filter(None, [node.state.czxid])))


@asynccontextmanager
async def sharing(client: Client, path: str) -> AsyncIterator[Kept]:
    """Has a share of the items; all of them, at first, while nobody else is there."""
    holds: dict[str, aiolead.Held] = {}
    partitioner = aiolead.Partitioner(client, path, ITEMS)
    has_some = anyio.Event()

    async def work(item: str, hold: aiolead.Held) -> None:
        holds[item] = hold
        has_some.set()
        try:
            await anyio.sleep_forever()
        finally:
            del holds[item]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partitioner.run, work)
        await has_some.wait()
        yield Kept(lambda: frozenset(hold.token for hold in holds.values()))
        tasks.cancel_scope.cancel()


async def owns_all(client: Client, path: str) -> None:
    partitioner = aiolead.Partitioner(client, path, ITEMS)
    owned: set[str] = set()

    async def work(item: str, _hold: aiolead.Held) -> None:
        owned.add(item)
        if owned == ITEMS:
            tasks.cancel_scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            owned.discard(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partitioner.run, work)


AN_INSTANCE = aiolead.ServiceInstance(name="web", id="i", port=80, registered_at=0.0)


# --- what is followed ----------------------------------------------------------------------------

Change = Callable[[int], Awaitable[object]]
Seen = Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class Followed:
    """Something that one client changes and another one looks at.

    Attributes:
        change: a block in which it can be set to a number.
        observe: a block in which the latest number can be seen.
    """

    change: Callable[[Client, str], AbstractAsyncContextManager[Change]]
    observe: Callable[[Client, str], AbstractAsyncContextManager[Seen]]


def a_value(client: Client, path: str) -> aiolead.SharedValue[int]:
    return aiolead.SharedValue(client, path, 0, codec=Codec.int32())


@asynccontextmanager
async def change_value(client: Client, path: str) -> AsyncIterator[Change]:
    yield a_value(client, path).set


@asynccontextmanager
async def follow_value(client: Client, path: str) -> AsyncIterator[Seen]:
    async with a_value(client, path).observe() as view:
        yield lambda: view.value


@asynccontextmanager
async def change_config(client: Client, path: str) -> AsyncIterator[Change]:
    config = aiolead.Config(client, path)
    yield lambda n: config.publish({"n": b"%d" % n})


@asynccontextmanager
async def observe_config(client: Client, path: str) -> AsyncIterator[Seen]:
    async with aiolead.Config(client, path).observe() as view:
        yield lambda: int(view.value.get("n", b"0"))


@asynccontextmanager
async def change_tree(client: Client, path: str) -> AsyncIterator[Change]:
    await client.ensure_path(f"{path}/n")
    yield lambda n: client.set(f"{path}/n", b"%d" % n)


@asynccontextmanager
async def follow_tree(client: Client, path: str) -> AsyncIterator[Seen]:
    async with aiolead.TreeCache(client, path) as cache:

        def seen() -> int | None:
            node = cache.get(f"{path}/n")
            return None if node is None else int(node.data or b"0")

        yield seen


@asynccontextmanager
async def change_group(client: Client, path: str) -> AsyncIterator[Change]:
    async with aiolead.Group(client, path).join(b"0", identity="m") as membership:
        yield lambda n: membership.set(b"%d" % n)


@asynccontextmanager
async def follow_group(client: Client, path: str) -> AsyncIterator[Seen]:
    async with aiolead.Group(client, path).observe() as view:
        yield lambda: int(view.value["m"].data) if "m" in view.value else None


@asynccontextmanager
async def change_service(client: Client, path: str) -> AsyncIterator[Change]:
    registry = aiolead.ServiceRegistry(client, path)
    async with registry.register(AN_INSTANCE) as registration:
        yield lambda n: registration.update(replace(AN_INSTANCE, port=n))


@asynccontextmanager
async def follow_service(client: Client, path: str) -> AsyncIterator[Seen]:
    async with aiolead.ServiceRegistry(client, path).observe("web") as view:
        yield lambda: view.value["i"].port if "i" in view.value else None


@asynccontextmanager
async def change_task(client: Client, path: str) -> AsyncIterator[Change]:
    board = aiolead.TaskBoard(client, path, report_every=0.0)
    await board.submit(b"")
    async with board.claim() as task:
        yield lambda n: task.report(note=str(n))


@asynccontextmanager
async def follow_task(client: Client, path: str) -> AsyncIterator[Seen]:
    async with aiolead.TaskBoard(client, path).observe() as view:
        yield lambda: next((int(state.note or 0) for state in view.value.values()), None)


@asynccontextmanager
async def change_leader(client: Client, path: str) -> AsyncIterator[Change]:
    async with AsyncExitStack() as stack:

        async def change(n: int) -> None:
            await stack.aclose()
            campaign = aiolead.Election(client, path, identity=str(n)).campaign()
            async for state in await stack.enter_async_context(campaign):
                if state.phase is aiolead.Phase.LEADING:
                    break

        yield change


@asynccontextmanager
async def hand_over(client: Client, path: str) -> AsyncIterator[Change]:
    async with AsyncExitStack() as stack:
        terms: list[aiolead.Term] = []

        async def change(n: int) -> None:
            campaign = aiolead.Election(client, path, identity=str(n)).campaign()
            view = await stack.enter_async_context(campaign)
            if terms:
                await terms.pop().hand_over(str(n))
            async for state in view:
                if state.term is not None:
                    terms.append(state.term)
                    break

        yield change


@asynccontextmanager
async def follow_leader(client: Client, path: str) -> AsyncIterator[Seen]:
    async with (
        aiolead.Election(client, path).observe() as states,
        anyio.create_task_group() as tasks,
    ):
        latest: list[str] = [""]

        async def look() -> None:
            async for state in states:
                latest[0] = "" if state.leader is None else state.leader.identity

        tasks.start_soon(look)
        # Other tests write anything there.
        yield lambda: int(latest[0]) if latest[0].isdecimal() else None
        tasks.cancel_scope.cancel()


# --- what is done --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """Something that is done again and again.

    Attributes:
        do: does it once.
        count: how often it was done, by all.
        may_lose: whether what was lost may count, though the call did not say so: numbers or calls
            that nobody gets.
        finds_out: whether it finds out what became of a lost request, and so raises for none.
    """

    do: Turn
    count: Callable[[Client, str], Awaitable[int]]
    may_lose: bool = False
    finds_out: bool = False


async def value(client: Client, path: str) -> int:
    return (await a_value(client, path).get()).value


async def version(client: Client, path: str) -> int:
    return (await aiolead.Config(client, path).get()).version


async def numbers(client: Client, path: str) -> int:
    return await aiolead.SequenceAllocator(client, path).next() - 1


def rate_limit(client: Client, path: str) -> aiolead.RateLimit:
    """A limit whose bucket is never filled again, so that nothing that was taken is forgotten."""
    return aiolead.RateLimit(client, path, rate=1e-6, burst=100_000)


async def calls_taken(client: Client, path: str) -> int:
    """How many calls the processes have taken from a `rate_limit`."""
    try:
        data, stat = await client.get(path)
    except NoNodeError:
        return 0
    return round(Write.parse(path, data, stat).lack_after(stat))


STAT = Stat(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)


def written_twice(data: bytes) -> object:
    """The state after a write with these data, and after another one, which can be read again."""
    written = Write.parse("/limit", data, STAT).followed(STAT, 2, 0.5, 1, None)
    return Write.parse("/limit", written.encode(), STAT)


async def run_new_key(client: Client, path: str) -> None:
    async with aiolead.Once(client, path, ttl=None).claim(uuid4().hex) as run:
        assert run is not None
    assert run.is_done


async def done_keys(client: Client, path: str) -> int:
    try:
        names = await client.get_children(path)
    except NoNodeError:
        return 0
    stats = [await client.exists(f"{path}/{name}") for name in names]
    return len([stat for stat in stats if stat is not None and not stat.ephemeral_owner])


# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe, for the tests of all recipes.

    Attributes:
        make: its class, or a function that makes an object of a client and a path.
        arguments: the other arguments that it needs.
        held: how it is held; lost with the session, and says so.
        kept: the same, if its owner gets it again in the next session.
        followed: how it is changed and followed.
        done: a call that is made again and again.
        variants: other ways to hold or to follow it.
        gives: blocks that give an object of a public class of its own, by the name of the class.
        calls: some of its calls, in an order in which each of them returns.
        parses: its parsers of the data of znodes, by their names, as `module: function function`.
        refuses: invalid values of its own arguments, and of common ones that it treats differently.
    """

    make: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    held: Held | None = None
    kept: Held | None = None
    followed: Followed | None = None
    done: Done | None = None
    variants: Mapping[str, Held | Followed] = field(default_factory=dict)
    gives: Mapping[str, Enter] = field(default_factory=dict)
    calls: Mapping[str, Callable[[Any], Awaitable[object]]] = field(default_factory=dict)
    parses: Mapping[str, Callable[[bytes], object]] = field(default_factory=dict)
    refuses: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __call__(self, client: Client, path: str) -> Any:
        """Make an object."""
        return self.make(client, path, **self.arguments)


RECIPES: dict[str, Recipe] = {
    "Election": Recipe(
        make=aiolead.Election,
        held=held(lambda c, p: aiolead.Election(c, p).leadership()),
        followed=Followed(change_leader, follow_leader),
        variants={
            "priority": held(
                lambda c, p: aiolead.Election(c, p, priority=1).leadership(),
                lambda c, p: aiolead.Election(c, p, priority=0).leadership(),
            ),
            "hand_over": Followed(hand_over, follow_leader),
        },
        gives={
            "Term": lambda c, p: aiolead.Election(c, p).leadership(),
            "Campaign": lambda c, p: aiolead.Election(c, f"{p}-campaign").campaign(),
            "ElectionObserver": lambda c, p: aiolead.Election(c, f"{p}-campaign").observe(),
        },
    ),
    "Lock": Recipe(make=aiolead.Lock, held=held(aiolead.Lock), gives={"Held": aiolead.Lock}),
    "ReentrantLock": Recipe(make=aiolead.ReentrantLock, held=held(aiolead.ReentrantLock)),
    "ReadWriteLock": Recipe(
        make=aiolead.ReadWriteLock,
        variants={
            "read": held(
                lambda c, p: aiolead.ReadWriteLock(c, p).read,
                lambda c, p: aiolead.ReadWriteLock(c, p).write,
            ),
            "write": held(
                lambda c, p: aiolead.ReadWriteLock(c, p).write,
                lambda c, p: aiolead.ReadWriteLock(c, p).read,
            ),
            "downgrade": held(downgraded, lambda c, p: aiolead.ReadWriteLock(c, p).write),
        },
        gives={"WriteHeld": lambda c, p: aiolead.ReadWriteLock(c, p).write},
    ),
    "MultiLock": Recipe(
        make=lambda client, path: two_locks(client, path, 1, 2),
        held=held(lambda c, p: two_locks(c, p, 1, 2), lambda c, p: two_locks(c, p, 2, 3)),
        gives={"MultiHeld": lambda c, p: two_locks(c, p, 1, 2)},
    ),
    "Condition": Recipe(
        make=aiolead.Condition,
        held=held(aiolead.Condition),
        gives={"ConditionHeld": aiolead.Condition},
    ),
    "ExclusiveLock": Recipe(make=aiolead.ExclusiveLock, held=held(aiolead.ExclusiveLock)),
    "Semaphore": Recipe(
        make=aiolead.Semaphore,
        arguments={"limit": 3},
        held=held(
            lambda c, p: aiolead.Semaphore(c, p, 3).acquire(permits=2),
            lambda c, p: aiolead.Semaphore(c, p, 3).acquire(permits=3),
        ),
    ),
    "Barrier": Recipe(
        make=aiolead.Barrier,
        calls={
            "set": lambda barrier: barrier.set(),
            "remove, nobody waits": lambda barrier: barrier.remove(),
            "wait, it is not set": lambda barrier: barrier.wait(),
        },
    ),
    "DoubleBarrier": Recipe(
        make=aiolead.DoubleBarrier,
        arguments={"count": 1},
        held=held(lambda c, p: aiolead.DoubleBarrier(c, p, 1)),
        gives={"BarrierMember": lambda c, p: aiolead.DoubleBarrier(c, p, 1)},
    ),
    "Queue": Recipe(
        make=aiolead.Queue,
        held=held(
            lambda c, p: aiolead.Queue(c, p, retry_pause=0).get(),
            prepare=lambda c, p: aiolead.Queue(c, p).put(b"x"),
        ),
        done=Done(
            lambda c, p: aiolead.Queue(c, p).put(b"x"), lambda c, p: aiolead.Queue(c, p).size()
        ),
        gives={"QueueItem": an_item},
    ),
    "PriorityQueue": Recipe(
        make=aiolead.PriorityQueue,
        held=held(
            lambda c, p: aiolead.PriorityQueue(c, p, retry_pause=0).get(),
            prepare=lambda c, p: aiolead.PriorityQueue(c, p).put(b"x", priority=1),
        ),
    ),
    "DelayQueue": Recipe(
        make=aiolead.DelayQueue,
        held=held(
            lambda c, p: aiolead.DelayQueue(c, p, retry_pause=0).get(),
            prepare=lambda c, p: aiolead.DelayQueue(c, p).put(b"x", delay=0),
        ),
    ),
    "TaskBoard": Recipe(
        make=aiolead.TaskBoard,
        held=held(
            lambda c, p: aiolead.TaskBoard(c, p, retry_pause=0).claim(),
            prepare=lambda c, p: aiolead.TaskBoard(c, p).submit(b"x"),
        ),
        followed=Followed(change_task, follow_task),
        gives={
            "Task": a_task,
            "BoardView": lambda c, p: aiolead.TaskBoard(c, p).observe(),
        },
    ),
    "UniqueNames": Recipe(
        make=aiolead.UniqueNames,
        held=held(lambda c, p: aiolead.UniqueNames(c, p).claim("name", most=1)),
        gives={"HeldName": lambda c, p: aiolead.UniqueNames(c, p).claim("name")},
    ),
    "Once": Recipe(
        make=aiolead.Once,
        held=held(running),
        done=Done(run_new_key, done_keys),
        gives={"Run": lambda c, p: aiolead.Once(c, p).claim("key")},
    ),
    "PersistentNode": Recipe(
        make=aiolead.PersistentNode,
        kept=held(lambda c, p: kept(aiolead.PersistentNode(c, p))),
        gives={"PersistentNode": aiolead.PersistentNode},
    ),
    "Group": Recipe(
        make=aiolead.Group,
        kept=held(lambda c, p: kept(aiolead.Group(c, p).join(identity="m"))),
        followed=Followed(change_group, follow_group),
        gives={
            "Membership": lambda c, p: aiolead.Group(c, p).join(identity="m"),
            "MembersView": lambda c, p: aiolead.Group(c, p).observe(),
        },
    ),
    "ServiceRegistry": Recipe(
        make=aiolead.ServiceRegistry,
        kept=held(lambda c, p: kept(aiolead.ServiceRegistry(c, p).register(AN_INSTANCE))),
        followed=Followed(change_service, follow_service),
        gives={
            "Registration": lambda c, p: aiolead.ServiceRegistry(c, p).register(AN_INSTANCE),
            "ServiceView": lambda c, p: aiolead.ServiceRegistry(c, p).observe("web"),
        },
    ),
    "Partitioner": Recipe(
        make=aiolead.Partitioner, arguments={"items": ITEMS}, kept=Held(sharing, owns_all)
    ),
    "SharedValue": Recipe(
        make=aiolead.SharedValue,
        followed=Followed(change_value, follow_value),
        done=Done(lambda c, p: a_value(c, p).update(lambda n: n + 1), value),
        gives={"SharedValueView": lambda c, p: aiolead.SharedValue(c, p).observe()},
    ),
    "Counter": Recipe(
        make=aiolead.Counter,
        done=Done(
            lambda c, p: aiolead.Counter(c, p).add(1), lambda c, p: aiolead.Counter(c, p).get()
        ),
    ),
    "SequenceAllocator": Recipe(
        make=aiolead.SequenceAllocator,
        done=Done(
            lambda c, p: aiolead.SequenceAllocator(c, p).next(),
            numbers,
            may_lose=True,
            finds_out=True,
        ),
    ),
    "RateLimit": Recipe(
        make=aiolead.RateLimit,
        arguments={"rate": 1},
        done=Done(
            lambda c, p: rate_limit(c, p).acquire(), calls_taken, may_lose=True, finds_out=True
        ),
        parses={"_util.token_bucket: Write.parse _number": written_twice},
    ),
    "Config": Recipe(
        make=aiolead.Config,
        followed=Followed(change_config, observe_config),
        done=Done(lambda c, p: aiolead.Config(c, p).publish({"n": b"x"}), version, finds_out=True),
        gives={"ConfigView": lambda c, p: aiolead.Config(c, p).observe()},
    ),
    "TreeCache": Recipe(
        make=aiolead.TreeCache,
        followed=Followed(change_tree, follow_tree),
        gives={"TreeCache": lambda c, _: aiolead.TreeCache(c, "/")},
        refuses={"path": ["tree"], "max_nodes": [0], "select": [1]},
    ),
}
"""Every recipe. The tables below, and those of the tests of all recipes, are made from it."""

T = TypeVar("T")


def _each(kind: type[T], main: Callable[[Recipe], T | None]) -> dict[str, T]:
    """The rows of one kind, by the recipes' names and those of their variants."""
    found: dict[str, T] = {}
    for name, recipe in RECIPES.items():
        if (first := main(recipe)) is not None:
            found[name] = first
        for variant, way in recipe.variants.items():
            if isinstance(way, kind):
                found[f"{name}.{variant}"] = way
    return found


HELD = _each(Held, lambda recipe: recipe.held)
"""All that is lost with the session, and says so."""

KEPT = {name: recipe.kept for name, recipe in RECIPES.items() if recipe.kept is not None}
"""All recipes whose owner gets them again in the next session."""

FOLLOWED = _each(Followed, lambda recipe: recipe.followed)
DONE = {name: recipe.done for name, recipe in RECIPES.items() if recipe.done is not None}


# --- a process that does all of it ---------------------------------------------------------------

WAITING = "/waiting"
"""The condition that it waits for."""

HOLDS = "holds"
"""The line that it prints once it has all of them. Later lines name those that it has done."""


async def live(hosts: str) -> None:
    """Has all that can be had, waits for a condition, and does the rest until it is killed."""
    scenes = HELD | KEPT
    missing = set(scenes)
    has_all = anyio.Event()

    async def have(name: str) -> None:
        async with scenes[name].enter(client, f"/{name}"):
            missing.remove(name)
            if not missing:
                has_all.set()
            await anyio.sleep_forever()

    async def wait() -> None:
        async with aiolead.Condition(client, WAITING) as mine:
            await mine.wait()
            raise AssertionError("it was killed before it could come back")

    async with (
        aiolead.connect(hosts, session_timeout=SESSION) as client,
        anyio.create_task_group() as tasks,
    ):
        for name in scenes:
            tasks.start_soon(have, name)
        tasks.start_soon(wait)
        await has_all.wait()
        say(HOLDS)
        while True:
            for name, done in DONE.items():
                await done.do(client, f"/done/{name}")
                say(name)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(live, sys.argv[1])
