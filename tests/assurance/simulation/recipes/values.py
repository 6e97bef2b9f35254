"""Values that several processes read and change, in a world of faults.

* `count`: processes count, allocate numbers and update a shared value; each may be cancelled,
  killed, or lose the answers to its writes.
* `named`: processes claim names, of which there are fewer than processes.
* `mirror`: processes publish a configuration and change a tree; others follow both, and a value.

These must hold, besides the invariants of everything that is held (a line for each name):

    count-lost      a counter is between what was confirmed and what was attempted
    count-again     no number is given out twice, by whatever process
    update-lost     what was confirmed to be in a value is in it; and nothing is in it twice
    mirror-back     a value, a configuration or a znode in a copy that goes back in time
    mirror-torn     a configuration with keys of two versions
    mirror-events   events of a copy that contradict each other
    (the last word) in the end, all that is followed is what there is
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import anyio

import aiolead
from aiolead import Config, Counter, SequenceAllocator, SharedValue, TreeCache, UniqueNames, admin
from aiolead.errors import (
    AcquireTimeout,
    AioleadError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Outcome,
    SessionError,
    TenureLost,
)
from aiolead.testing.simulation import Process, World
from aiolead.types import Codec
from tests.assurance.simulation.programs import (
    claimed,
    end_of_session,
    explored,
    insist,
    start_each,
)

COUNTER, VALUE, NUMBERS = "/values/counter", "/values/words", "/values/numbers"
CONFIG, TREE = "/config", "/tree"
NAMES = "/names"
LAST_WORD = "the last word of what is followed"


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    busy: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    attempted: int = 0
    confirmed: int = 0
    words: set[str] = field(default_factory=set)
    attempted_words: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)

    def is_done(self) -> None:
        self.busy -= 1
        if self.busy <= 0:
            self.done.set()


def may_be_applied(error: AioleadError) -> bool:
    return error.outcome is not Outcome.NOT_APPLIED


# --- counting ------------------------------------------------------------------------------------


@explored(range(8), range(8))
async def count(world: World) -> None:
    """Three or four processes that count, and an auditor."""
    plan = Plan(world)
    count = world.rng("count").choice((3, 4))
    plan.busy = len(start_each(world, "p", count, partial(counting, plan)))
    world.start("auditor", partial(auditor, plan))


async def counting(plan: Plan, process: Process) -> None:
    words = 0

    async def work(client: aiolead.Client) -> bool:
        nonlocal words
        world, rng = plan.world, process.rng
        promote = rng.choice((0, 1, 3))
        counter = Counter(client, COUNTER, promote_after=promote, rng=rng)
        numbers = SequenceAllocator(client, NUMBERS, block=rng.choice((1, 5)), rng=rng)
        value = SharedValue(client, VALUE, "", codec=Codec.text(), rng=rng)
        while True:
            was_healed = world.is_healed
            with world.may_be_cancelled(process, COUNTER, process.name):
                match rng.choice(("add", "add", "number", "word")):
                    case "add":
                        await add(plan, counter, rng.choice((1, 1, 2)))
                    case "number":
                        await allocate(plan, numbers)
                    case _:
                        words += 1
                        await say(plan, value, f"{process.name}-{words}")
                if was_healed:
                    plan.is_done()
                    return True
            await anyio.sleep(rng.uniform(0.0, 0.25) * client.session_timeout)

    await insist(plan.world, process, work)


async def add(plan: Plan, counter: Counter, n: int) -> None:
    plan.attempted += n
    try:
        await counter.add(n)
    except AioleadError as error:
        if not may_be_applied(error):
            plan.attempted -= n
        if not isinstance(error, ConnectionLossError):
            raise
    else:
        plan.confirmed += n


async def allocate(plan: Plan, numbers: SequenceAllocator) -> None:
    number = await numbers.next()
    if number in plan.numbers:
        plan.world.violation("count-again", f"{number} is given out twice")
    plan.numbers.add(number)
    stamp = -await numbers.stamp()
    if stamp in plan.numbers:
        plan.world.violation("count-again", f"stamp {-stamp} is given out twice")
    plan.numbers.add(stamp)


async def say(plan: Plan, value: SharedValue[str], word: str) -> None:
    plan.attempted_words.add(word)
    with suppress(ConnectionLossError):
        await value.update(lambda text: f"{text} {word}".strip())
        plan.words.add(word)


async def auditor(plan: Plan, process: Process) -> None:
    async def work(client: aiolead.Client) -> bool:
        await plan.done.wait()
        world = plan.world
        while True:
            with suppress(ConnectionLossError):
                await client.sync()
                total = await Counter(client, COUNTER).get()
                text = (await SharedValue(client, VALUE, "", codec=Codec.text()).get()).value
                break
        if not plan.confirmed <= total <= plan.attempted:
            world.violation(
                "count-lost", f"{total}, of {plan.confirmed} confirmed, {plan.attempted} attempted"
            )
        words = text.split()
        lost, twice = plan.words - set(words), len(words) - len(set(words))
        if lost or twice or set(words) - plan.attempted_words:
            world.violation("update-lost", f"{sorted(lost)} are lost, {twice} are there twice")
        return True

    await insist(plan.world, process, work)


# --- names ---------------------------------------------------------------------------------------


@explored(range(8), range(8))
async def named(world: World) -> None:
    """Three or four processes, and two names."""
    plan = Plan(world)
    start_each(world, "p", world.rng("named").choice((3, 4)), partial(bearer, plan))


async def bearer(plan: Plan, process: Process) -> None:
    """Has a name, again and again; once more after the healing."""
    world, rng = plan.world, process.rng

    async def work(client: aiolead.Client) -> bool:
        names = UniqueNames(client, NAMES, identity=process.name)
        while True:
            was_healed = world.is_healed
            wait = None if was_healed else rng.choice((None, rng.uniform(0.01, 1.0)))
            with (
                world.may_be_cancelled(process, NAMES, process.name),
                suppress(AcquireTimeout, TenureLost, ConnectionLossError),
            ):
                async with names.claim("n", most=2, timeout=wait) as held:
                    await bear(plan, process, client, held)
                if was_healed:
                    return True
            await end_of_session(client)
            await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)

    await insist(world, process, work)


async def bear(
    plan: Plan, process: Process, client: aiolead.Client, held: aiolead.types.HeldName
) -> None:
    with claimed(plan.world, process.name, held, may_be_revoked=False):
        length = 0.001 if plan.world.is_healed else process.rng.uniform(0.0, 1.5)
        await anyio.sleep(length * client.session_timeout)
        plan.world.history.looked(held.path, process.name, held.token, held=held.is_held)
        held.check()


# --- mirroring -----------------------------------------------------------------------------------


@explored(range(8), range(8))
async def mirror(world: World) -> None:
    """Two processes that write, and two that follow."""
    plan = Plan(world)
    plan.busy = len(start_each(world, "w", 2, partial(writer, plan)))
    start_each(world, "f", 2, partial(follower, plan))
    if not plan.busy:
        plan.done.set()


async def writer(plan: Plan, process: Process) -> None:
    marks = 0

    async def work(client: aiolead.Client) -> bool:
        nonlocal marks
        world, rng = plan.world, process.rng
        config = Config(client, CONFIG, keep=rng.choice((2, 10)), rng=rng)
        value = SharedValue(client, VALUE, "", codec=Codec.text(), rng=rng)
        while True:
            was_healed = world.is_healed
            marks += 1
            mark = f"{process.name}-{marks}".encode()
            with world.may_be_cancelled(process, CONFIG, process.name):
                with suppress(ConnectionLossError):
                    match rng.choice(("config", "config", "rollback", "value", "tree", "tree")):
                        case "config":
                            await config.publish({"x": mark, "y": mark, rng.choice("abc"): mark})
                        case "rollback":
                            with suppress(NoNodeError):
                                versions = [entry.version for entry in await config.history()]
                                if versions:
                                    await config.rollback(rng.choice(versions))
                        case "value":
                            await value.set(mark.decode())
                        case _:
                            await change_tree(client, process, mark)
                if was_healed:
                    plan.is_done()
                    return True
            await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)

    await insist(plan.world, process, work)


async def change_tree(client: aiolead.Client, process: Process, mark: bytes) -> None:
    rng = process.rng
    path = TREE + "".join(f"/{rng.choice('ab')}" for _ in range(rng.randint(0, 3)))
    with suppress(NoNodeError, NotEmptyError, NodeExistsError):
        match rng.choice(("create", "set", "delete", "delete all")):
            case "create":
                await client.ensure_path(path)
            case "set":
                await client.set(path, mark)
            case "delete":
                await client.delete(path)
            case _:
                await admin.delete_all(client, path)
                await client.ensure_path(path)


async def follower(plan: Plan, process: Process) -> None:
    """Follows until all writers have finished. Then its copies must be equal to the znodes."""
    world = plan.world

    async def work(client: aiolead.Client) -> bool:
        config = Config(client, CONFIG, on_invalid=None)
        value = SharedValue(client, VALUE, "", codec=Codec.text())
        async with (
            TreeCache(client, TREE) as cache,
            config.observe() as settings,
            value.observe() as words,
            anyio.create_task_group() as tasks,
        ):

            async def look_at_settings() -> None:
                latest = 0
                async for keys in settings:
                    if keys.get("x") != keys.get("y"):
                        world.violation("mirror-torn", f"version {settings.version} is {keys}")
                    if settings.version < latest:
                        world.violation("mirror-back", f"{settings.version} after {latest}")
                    latest = settings.version

            async def look_at_words() -> None:
                latest = 0
                async for _ in words:
                    stat = words.versioned.stat
                    if stat is not None and stat.mzxid < latest:
                        world.violation("mirror-back", f"{stat.mzxid:#x} after {latest:#x}")
                    latest = latest if stat is None else stat.mzxid

            async def guarded(look: Callable[[], Awaitable[None]]) -> None:
                with suppress(SessionError):
                    await look()
                tasks.cancel_scope.cancel()  # the client has come to its end

            tree = Events(world, cache)
            for look in (look_at_settings, look_at_words, tree.look):
                tasks.start_soon(guarded, look)
            await plan.done.wait()
            world.history.began(process.name, LAST_WORD, world.bounds().progress)
            while not client.state.is_final:
                with suppress(ConnectionLossError, NoNodeError, SessionError):
                    await client.sync()
                    truth = await read_tree(client, TREE)
                    now = await config.get()
                    word = await value.get()
                    copy = {path: data_of(cache, path) for path in cache}
                    told = {path: node.data for path, node in tree.nodes.items()}
                    if (
                        cache.is_live
                        and settings.is_live
                        and words.is_live
                        and copy == told == truth
                        and (settings.value, settings.version) == (now.value, now.version)
                        and words.versioned == word
                    ):
                        world.history.ended(process.name, LAST_WORD)
                        tasks.cancel_scope.cancel()
                        return True
                await anyio.sleep(0.1)
        return False

    await insist(world, process, work)


class Events:
    """Adds the events of a copy up."""

    def __init__(self, world: World, cache: TreeCache) -> None:
        self._world = world
        self._cache = cache
        self.nodes: dict[str, aiolead.types.TreeNode] = {}

    async def look(self) -> None:
        async for event in self._cache.events(initial=True):
            known, old, new = self.nodes.get(event.path), event.old, event.new
            if written(known) != written(old):
                self._world.violation("mirror-events", f"{event} after {known}")
            if old is not None and new is not None and new.stat.mzxid <= old.stat.mzxid:
                self._world.violation("mirror-back", f"{event}")
            if new is None:
                self.nodes.pop(event.path, None)
            else:
                self.nodes[event.path] = new


def written(node: aiolead.types.TreeNode | None) -> tuple[int, int] | None:
    return None if node is None else (node.stat.czxid, node.stat.mzxid)


def data_of(cache: TreeCache, path: str) -> bytes | None:
    node = cache.get(path)
    return None if node is None else node.data


async def read_tree(client: aiolead.Client, path: str) -> dict[str, bytes | None]:
    try:
        data, _ = await client.get(path)
    except NoNodeError:
        return {}
    tree: dict[str, bytes | None] = {path: data}
    for name in await client.get_children(path):
        tree.update(await read_tree(client, f"{path}/{name}"))
    return tree
