"""Every recipe at work, for what must be true of all of them when something breaks.

`HELD` and `KEPT` go on for as long as a block; `FOLLOWED` is looked at; `DONE` is done again and
again. As a program, this is a process that does all of it, until it is killed:

    python -m kit.every_recipe CONNECT_STRING
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import anyio

import aiolead
from aiolead import Client, NoNodeError
from aiolead._util.token_bucket import Write
from aiolead.errors import CoordinationError
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


@asynccontextmanager
async def running(client: Client, path: str) -> AsyncIterator[aiolead.types.Run]:
    """Runs a key that is not done by the end: `DONE` has one that is."""
    # Without a look for old keys, nothing goes on in the background when the run has ended.
    async with aiolead.Once(client, path, ttl=None).claim("key") as run:
        if run is None:
            raise CoordinationError("another client has made the znode of a done key")
        yield run
        await run.release()


HELD: dict[str, Held] = {
    "Election": held(lambda c, p: aiolead.Election(c, p).leadership()),
    "Election.priority": held(
        lambda c, p: aiolead.Election(c, p, priority=1).leadership(),
        lambda c, p: aiolead.Election(c, p, priority=0).leadership(),
    ),
    "Lock": held(lambda c, p: aiolead.Lock(c, p)),
    "ReentrantLock": held(lambda c, p: aiolead.ReentrantLock(c, p)),
    "ReadWriteLock.read": held(
        lambda c, p: aiolead.ReadWriteLock(c, p).read,
        lambda c, p: aiolead.ReadWriteLock(c, p).write,
    ),
    "ReadWriteLock.write": held(
        lambda c, p: aiolead.ReadWriteLock(c, p).write,
        lambda c, p: aiolead.ReadWriteLock(c, p).read,
    ),
    "ReadWriteLock.downgrade": held(downgraded, lambda c, p: aiolead.ReadWriteLock(c, p).write),
    "MultiLock": held(
        lambda c, p: aiolead.MultiLock(aiolead.Lock(c, f"{p}/1"), aiolead.Lock(c, f"{p}/2")),
        lambda c, p: aiolead.MultiLock(aiolead.Lock(c, f"{p}/2"), aiolead.Lock(c, f"{p}/3")),
    ),
    "Condition": held(lambda c, p: aiolead.Condition(c, p)),
    "ExclusiveLock": held(lambda c, p: aiolead.ExclusiveLock(c, p)),
    "Semaphore": held(
        lambda c, p: aiolead.Semaphore(c, p, 3).acquire(permits=2),
        lambda c, p: aiolead.Semaphore(c, p, 3).acquire(permits=3),
    ),
    "DoubleBarrier": held(lambda c, p: aiolead.DoubleBarrier(c, p, 1)),
    "Queue": held(
        lambda c, p: aiolead.Queue(c, p, retry_pause=0).get(),
        prepare=lambda c, p: aiolead.Queue(c, p).put(b"x"),
    ),
    "PriorityQueue": held(
        lambda c, p: aiolead.PriorityQueue(c, p, retry_pause=0).get(),
        prepare=lambda c, p: aiolead.PriorityQueue(c, p).put(b"x", priority=1),
    ),
    "DelayQueue": held(
        lambda c, p: aiolead.DelayQueue(c, p, retry_pause=0).get(),
        prepare=lambda c, p: aiolead.DelayQueue(c, p).put(b"x", delay=0),
    ),
    "TaskBoard": held(
        lambda c, p: aiolead.TaskBoard(c, p, retry_pause=0).claim(),
        prepare=lambda c, p: aiolead.TaskBoard(c, p).submit(b"x"),
    ),
    "UniqueNames": held(lambda c, p: aiolead.UniqueNames(c, p).claim("name", most=1)),
    "Once": held(running),
}
"""All that is lost with the session, and says so."""


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

KEPT: dict[str, Held] = {
    "PersistentNode": held(lambda c, p: kept(aiolead.PersistentNode(c, p))),
    "Group": held(lambda c, p: kept(aiolead.Group(c, p).join(identity="m"))),
    "ServiceRegistry": held(lambda c, p: kept(aiolead.ServiceRegistry(c, p).register(AN_INSTANCE))),
    "Partitioner": Held(sharing, owns_all),
}
"""All recipes whose owner gets them again in the next session."""


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


FOLLOWED: dict[str, Followed] = {
    "SharedValue": Followed(change_value, follow_value),
    "Config": Followed(change_config, observe_config),
    "TreeCache": Followed(change_tree, follow_tree),
    "Group": Followed(change_group, follow_group),
    "ServiceRegistry": Followed(change_service, follow_service),
    "TaskBoard": Followed(change_task, follow_task),
    "Election": Followed(change_leader, follow_leader),
    "Election.hand_over": Followed(hand_over, follow_leader),
}


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


DONE: dict[str, Done] = {
    "Counter": Done(
        lambda c, p: aiolead.Counter(c, p).add(1), lambda c, p: aiolead.Counter(c, p).get()
    ),
    "SharedValue": Done(lambda c, p: a_value(c, p).update(lambda n: n + 1), value),
    "Config": Done(lambda c, p: aiolead.Config(c, p).publish({"n": b"x"}), version, finds_out=True),
    "SequenceAllocator": Done(
        lambda c, p: aiolead.SequenceAllocator(c, p).next(),
        numbers,
        may_lose=True,
        finds_out=True,
    ),
    "RateLimit": Done(
        lambda c, p: rate_limit(c, p).acquire(), calls_taken, may_lose=True, finds_out=True
    ),
    "Once": Done(run_new_key, done_keys),
    "Queue": Done(
        lambda c, p: aiolead.Queue(c, p).put(b"x"), lambda c, p: aiolead.Queue(c, p).size()
    ),
}


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
