"""Every recipe, cancelled at every await, in every way there is: nothing is left behind.

No znode, no watch, no task of a cancelled client stays, others get their turn, and the object is as
good as new. How it is cancelled: see `recipes/cancelling.py`. A recipe has its row in
`kit/every_recipe.py`; `MORE` has what takes several of its verbs, or several clients.
"""

from __future__ import annotations

import re
from collections import Counter as Counts
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from kit.clients import (
    PATIENCE,
    Link,
    catch_up,
    contenders_left,
    eventually,
    has_looked,
    in_memory,
    nothing_left,
    owned,
    watches_the_bytes,
)
from kit.every_recipe import (
    AN_INSTANCE,
    DONE,
    FOLLOWED,
    HELD,
    KEPT,
    RECIPES,
    Done,
    Followed,
    Held,
    Recipe,
    calls_taken,
    rate_limit,
)
from kit.faults import only_on
from recipes.blocks import enter
from recipes.cancelling import (
    at_packet,
    at_suspension,
    cancel_everywhere,
    native_only,
    no_complaints,
)
from recipes.crowd import crowd

from aiolead import (
    Barrier,
    Client,
    Condition,
    Counter,
    CreateMode,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Group,
    Lock,
    Once,
    Partitioner,
    PersistentNode,
    Phase,
    Queue,
    Semaphore,
    SequenceAllocator,
    ServiceRegistry,
    TaskBoard,
    Term,
)
from aiolead.errors import HandOverTimeout
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(120), pytest.mark.both_loops]

PATH = "/contended"

checkpoint = anyio.lowlevel.checkpoint

Do = Callable[[Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a recipe by a client, in which it is cancelled.

    Attributes:
        make: makes the object that is used again and again.
        do: uses it once.
        recipe: the row of `HELD` or `KEPT` whose turn another client gets afterwards; empty where
            nobody waits for a turn.
        beside: what another client does all the time.
        ends_items: whether it may use up what the row prepares.
    """

    make: Callable[[Client, str], Any]
    do: Do
    recipe: str = ""
    beside: Use | None = None
    ends_items: bool = False

    @property
    def scene(self) -> Held | None:
        return (HELD | KEPT)[self.recipe] if self.recipe else None

    def begin(self, client: Client) -> Callable[[], Coroutine[Any, Any, None]]:
        used = self.make(client, PATH)

        async def work() -> None:
            await self.do(used)

        return work


# --- every recipe --------------------------------------------------------------------------------


def entered(act: Do | None = None) -> Do:
    """A block of a context that one function makes again and again, and an act in it."""

    async def enter(make: Callable[[], Any]) -> None:
        async with make() as mine:
            if act is not None:
                await act(mine)
            await checkpoint()

    return enter


def holding(scene: Held, name: str) -> Use:
    return Use(lambda c, p: partial(scene.enter, c, p), entered(lambda mine: mine.verify()), name)


def following(what: Followed) -> Use:
    return Use(lambda c, p: partial(what.observe, c, p), entered())


def doing(what: Done) -> Use:
    return Use(lambda c, p: partial(what.do, c, p), lambda do: do())


def calling(recipe: Recipe) -> Use:
    """Its calls, one after the other."""

    async def call_all(thing: Any) -> None:
        for call in recipe.calls.values():
            await call(thing)

    return Use(recipe, call_all)


# --- other verbs ---------------------------------------------------------------------------------


class Finished(Exception):
    pass


async def run(election: Election) -> None:
    async def lead(_term: Term) -> None:
        await checkpoint()
        raise Finished

    with pytest.raises(Finished):
        await election.run(lead)


async def campaign(election: Election) -> None:
    async with election.campaign() as states:
        async for state in states:
            if state.phase is Phase.LEADING:
                break


async def step_back(elect: Callable[..., Election]) -> None:
    """A worse contender is in front of a better one, and leads after it."""
    async with AsyncExitStack() as stack:
        async with elect(priority=2).leadership() as term:
            worse = await stack.enter_async_context(elect(priority=0).campaign())
            better = await stack.enter_async_context(elect(priority=1).campaign())
            for each in (worse, better):
                async for state in each:
                    if state.rank is not None:
                        break  # it has joined; else the worse one might lead alone, and stay
            await term.resign()
        for each in (better, worse):
            async for state in each:
                if state.term is not None:
                    await state.term.resign()
                    break


async def observe_election(election: Election) -> None:
    async with election.observe() as states:
        await anext(aiter(states))


async def consume(queue: Queue) -> None:
    async with queue.consume() as items:
        await anext(items)
        item = await anext(items)  # the same one: it was not acknowledged
        await item.ack()


async def report(board: TaskBoard) -> None:
    async with board.claim() as task:
        await task.report(0.5)
        await task.verify()


async def result(board: TaskBoard) -> None:
    name = await board.submit(b"x")
    with anyio.move_on_after(0.01):
        await board.result(name)


def gate(client: Client, path: str) -> Barrier:
    return Barrier(client, f"{path}/gate")


async def open_and_close(barrier: Barrier) -> None:
    await barrier.set()
    await barrier.remove()


class Adder:
    """Counts what it adds to a counter, below a lock."""

    def __init__(self, client: Client, path: str) -> None:
        self._counter = Counter(client, path, promote_after=0)
        self._begun = self._added = 0

    async def add(self) -> None:
        assert self._added <= await self._counter.get() <= self._begun
        self._begun += 1
        await self._counter.add(1)
        self._added += 1


class Taker:
    """Takes numbers that must all be different."""

    def __init__(self, client: Client, path: str) -> None:
        self._allocator = SequenceAllocator(client, path, block=2)
        self._given: list[int] = []

    async def take(self) -> None:
        self._given.append(await self._allocator.next())
        self._given.extend(await self._allocator.take(2))
        assert len(set(self._given)) == len(self._given)


class Spender:
    """Makes calls of a rate limit, of which none may be allowed that was not taken."""

    def __init__(self, client: Client, path: str) -> None:
        self._taken = partial(calls_taken, client, path)
        self._limit = rate_limit(client, path)
        self._made = 0

    async def spend(self) -> None:
        await self._limit.acquire(2)
        self._made += 2
        self._made += await self._limit.try_acquire()
        await self._limit.set_rate(1e-6, burst=100_000)
        self._made += await self._limit.try_acquire()
        assert self._made <= await self._taken()


def in_a_sequence(client: Client, path: str) -> Callable[[], PersistentNode]:
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    return lambda: PersistentNode(client, f"{path}-s/node", b"x", mode=mode)


async def set_and_observe(node: PersistentNode) -> None:
    await node.set(b"y")
    await anext(aiter(node))


async def join(group: Group) -> None:
    async with group.observe() as view, group.join(identity="m") as membership:
        await membership.set(b"x")
        await anext(view.changes())


async def register(registry: ServiceRegistry) -> None:
    async with registry.register(AN_INSTANCE, load_interval=0.0) as registration:
        await registration.report_load(1)
        await registration.drain()


async def partition(partitioner: Partitioner) -> None:
    async def own(_item: str, hold: Any) -> None:
        await hold.verify()
        raise Finished

    with pytest.raises(Finished):
        await partitioner.run(own)


def meeting(identity: str, beside: Use | None = None) -> Use:
    return Use(
        lambda c, p: DoubleBarrier(c, p, 2, identity=identity).enter, entered(), beside=beside
    )


def board(client: Client, path: str) -> TaskBoard:
    return TaskBoard(client, path, report_every=0, retry_pause=0)


def queue(client: Client, path: str) -> Queue:
    return Queue(client, path, retry_pause=0)


def leading_as(identity: str, act: Do | None = None) -> Callable[[Client, str], Do]:
    """Leads for a moment under a name, and acts."""
    return lambda c, p: partial(
        entered(act), Election(c, p, identity=identity, on_revocation="ignore").leadership
    )


def several(*makers: Callable[[Client, str], Do]) -> Use:
    """Several uses by one client at the same time, again and again: it ends by cancellation."""

    async def repeat(use: Do) -> None:
        while True:
            await use()  # type: ignore[call-arg]
            await checkpoint()

    async def do(uses: list[Do]) -> None:
        async with anyio.create_task_group() as tasks:
            for use in uses:
                tasks.start_soon(repeat, use)

    return Use(lambda c, p: [make(c, p) for make in makers], do)


async def hand_over(term: Term) -> None:
    with suppress(HandOverTimeout):  # the successor may have led before
        await term.hand_over("new", timeout=0.02)


async def get_ready(election: Election) -> None:
    async with election.campaign(ready=False) as view:
        async for state in view:
            if state.rank is not None:
                await view.set_ready()
                return


async def revoke_for_a_successor(election: Election) -> None:
    with suppress(HandOverTimeout):
        await election.revoke(successor="new", timeout=0.02)


SUCCESSORS = several(leading_as("middle"), leading_as("new"))
OLD_AND_NEW = several(leading_as("old", hand_over), leading_as("new"))

MORE: dict[str, Use] = {
    "Lock.acquire": Use(
        lambda c, p: partial(Lock(c, p).acquire, timeout=PATIENCE), entered(), "Lock"
    ),
    "Lock.try_acquire": Use(lambda c, p: Lock(c, p).try_acquire, entered(), "Lock"),
    "ExclusiveLock.try_acquire": Use(
        lambda c, p: ExclusiveLock(c, p).try_acquire, entered(), "ExclusiveLock"
    ),
    "Once.try_claim": Use(
        lambda c, p: partial(Once(c, p, ttl=None).try_claim, "again"),
        entered(lambda run: run.release()),
    ),
    "Semaphore.try_acquire": Use(
        lambda c, p: partial(Semaphore(c, p, 3).try_acquire, permits=2), entered(), "Semaphore"
    ),
    "Term.resign": Use(
        lambda c, p: Election(c, p).leadership, entered(lambda term: term.resign()), "Election"
    ),
    "Term.hand_over to a successor": Use(
        lambda c, p: leading_as("old", hand_over)(c, p), lambda use: use(), beside=SUCCESSORS
    ),
    "Election asked to step behind": Use(
        lambda c, p: leading_as("middle")(c, p), lambda use: use(), beside=OLD_AND_NEW
    ),
    "Election.revoke for a successor": Use(Election, revoke_for_a_successor, beside=SUCCESSORS),
    "Campaign.set_ready": Use(Election, get_ready, "Election"),
    "Election.run": Use(Election, run, "Election"),
    "Election.campaign": Use(Election, campaign, "Election"),
    "Election, stepping back": Use(
        lambda c, p: partial(Election, c, p), step_back, "Election.priority"
    ),
    "Election.observe": Use(Election, observe_election, "Election"),
    "Condition.wait in vain": Use(
        lambda c, p: Condition(c, p).acquire,
        entered(lambda held: held.wait(timeout=0)),
        "Condition",
    ),
    "Condition.wait": Use(
        lambda c, p: Condition(c, p).acquire,
        entered(lambda held: held.wait()),
        "Condition",
        beside=Use(lambda c, p: Condition(c, p).acquire, entered(lambda held: held.notify_all())),
    ),
    "Queue.get": Use(lambda c, p: partial(queue(c, p).get, timeout=PATIENCE), entered(), "Queue"),
    "Queue.try_get": Use(lambda c, p: queue(c, p).try_get, entered(), "Queue"),
    "Queue.ack": Use(
        lambda c, p: queue(c, p).get, entered(lambda item: item.ack()), "Queue", ends_items=True
    ),
    "Queue.retry": Use(
        lambda c, p: queue(c, p).get, entered(lambda item: item.retry(delay=0.001)), "Queue"
    ),
    "Queue.try_get, the last attempt": Use(
        lambda c, p: Queue(c, p, max_attempts=1, dead_letters="/dead").try_get,
        entered(),
        "Queue",
        ends_items=True,
    ),
    "Queue.consume": Use(queue, consume, "Queue", ends_items=True),
    "Task.report": Use(board, report, "TaskBoard"),
    "Task.finish": Use(
        lambda c, p: board(c, p).claim,
        entered(lambda task: task.finish()),
        "TaskBoard",
        ends_items=True,
    ),
    "TaskBoard.result": Use(TaskBoard, result),
    "Barrier.wait": Use(gate, lambda barrier: barrier.wait(), beside=Use(gate, open_and_close)),
    "DoubleBarrier of two": meeting("one", beside=meeting("other")),
    "Counter below a lock": Use(Adder, lambda adder: adder.add()),
    "SequenceAllocator.take": Use(Taker, lambda taker: taker.take()),
    "RateLimit": Use(Spender, lambda spender: spender.spend()),
    "PersistentNode in a sequence": Use(in_a_sequence, entered(set_and_observe)),
    "Group.join": Use(Group, join, "Group"),
    "ServiceRegistry.register": Use(ServiceRegistry, register, "ServiceRegistry"),
    "Partitioner.run": Use(lambda c, p: Partitioner(c, p, ["one"], identity="m"), partition),
}

USES: dict[str, Use] = {
    **{name: holding(scene, name) for name, scene in (HELD | KEPT).items()},
    **{f"observing {name}": following(what) for name, what in FOLLOWED.items()},
    **{f"doing {name}": doing(what) for name, what in DONE.items()},
    **{f"calling {name}": calling(recipe) for name, recipe in RECIPES.items() if recipe.calls},
    **MORE,
}

CONTENDED = [name for name, use in USES.items() if use.recipe in HELD and use.beside is None]
"""The uses of what another client may have as they begin."""


# --- cancelled at every await --------------------------------------------------------------------


def _znodes(server: EmbeddedServer) -> Counts[str]:
    """The recipe's znodes on a server but results, without the numbers in their names."""
    names = (re.sub(r"[0-9a-f-]{32,}|[0-9]{10}", "#", path) for path in server.znodes())
    return Counts(name for name in names if name.startswith(PATH) and "/results/" not in name)


def _of_client(server: EmbeddedServer, client: Client) -> list[str]:
    """The watches and the ephemeral znodes that a client has on a server."""
    session = client.session_id
    watched = [path for path, sessions in server.watches().items() if session in sessions]
    return watched + sorted(server._running.core.processor.tree.ephemerals(session))


@asynccontextmanager
async def _rival(
    server: EmbeddedServer, mine: Client, theirs: Client, scene: Held
) -> AsyncIterator[None]:
    """Somebody has it as the body begins, until the other client waits, or the body has ended."""
    has_it = anyio.Event()
    is_over = False

    async def have() -> None:
        async with scene.enter(theirs, PATH):
            has_it.set()
            await eventually(lambda: is_over or bool(_of_client(server, mine)), "it is wanted")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(have)
        await has_it.wait()
        yield
        is_over = True


@asynccontextmanager
async def _beside(client: Client, use: Use | None) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        if use is not None:
            work = use.begin(client)

            async def go_on() -> None:
                while True:
                    await work()
                    await checkpoint()

            tasks.start_soon(go_on)
        yield
        tasks.cancel_scope.cancel()


WAYS = {
    "scope, await": ("scope", at_suspension),
    "scope, packet": ("scope", at_packet),
    "native, await": ("native", at_suspension),
    "native, packet": ("native", at_packet),
    "native twice, await": ("native twice", at_suspension),
}
ALONE = [*USES, *(f"{name} behind another client" for name in CONTENDED)]

exhaustive = pytest.mark.exhaustive("each case cancels at every await", one_in=4)


@exhaustive
@pytest.mark.parametrize("way", [name for name in WAYS if name.startswith("scope")])
@pytest.mark.parametrize("use", ALONE)
async def test_cancelled_by_a_scope(use: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    await _cancel(use, way)
    no_complaints(caplog)


@exhaustive
@native_only
@pytest.mark.parametrize("way", [name for name in WAYS if name.startswith("native")])
@pytest.mark.parametrize("use", ALONE)
async def test_cancelled_natively(use: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    await _cancel(use, way)
    no_complaints(caplog)


async def _cancel(name: str, kind: str) -> None:
    name, behind, _ = name.partition(" behind another client")
    use, (way, moment) = USES[name], WAYS[kind]
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        scene = use.scene
        await _prepare(scene, b)
        used: Counts[str] | None = None

        async def afterwards() -> None:
            """Others get their turn, and then nothing is left that was not there before."""
            nonlocal used
            if scene is not None:
                if use.ends_items:
                    # A transaction that ends an item may still be on its way; it ends the claim.
                    await eventually(lambda: _of_client(server, a) == [], "its claim is gone")
                if use.ends_items and (used is None or used - _znodes(server)):
                    await _prepare(scene, b)
                with anyio.fail_after(PATIENCE):
                    await scene.turn(b, PATH)
            await eventually(lambda: _of_client(server, a) == [], "nothing of it is on the server")
            if scene is not None and use.beside is None:
                used = used or _znodes(server)  # the first time, it is not cancelled
                await eventually(lambda: _znodes(server) == used, "the same znodes as before")

        def around() -> AbstractAsyncContextManager[None]:
            return _rival(server, a, b, scene) if behind and scene else nullcontext()

        async with _beside(b, use.beside):
            await cancel_everywhere(
                way, moment, a, use.begin(a), afterwards, around=around, most=200
            )


async def _prepare(scene: Held | None, client: Client, times: int = 1) -> None:
    if scene is not None and scene.prepare is not None:
        for _ in range(times):
            await scene.prepare(client, PATH)


@exhaustive
@only_on("trio")
@pytest.mark.parametrize("server", ["standalone"], indirect=True)
@pytest.mark.parametrize("name", [name for name, use in USES.items() if use.beside is None])
async def test_cancelled_at_a_real_server(a: Client, b: Client, name: str) -> None:
    use = USES[name]
    scene = use.scene
    await _prepare(scene, b, times=100 if use.ends_items else 1)
    await catch_up(a)

    async def nothing_is_left() -> bool:
        return await owned(a) == []

    async def afterwards() -> None:
        await eventually(nothing_is_left, "no znode of it is left")

    await cancel_everywhere("scope", at_suspension, a, use.begin(a), afterwards, most=200)
    if scene is not None:
        await scene.turn(b, PATH)


# --- at certain moments ------------------------------------------------------------------------


@watches_the_bytes
@exhaustive
@pytest.mark.parametrize("is_applied", [True, False], ids=["create applied", "create on its way"])
async def test_cancelled_while_the_create_is_unanswered(is_applied: bool) -> None:
    """It does not wait for the answer; the znode goes as soon as that comes."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        await b.create(PATH)
        wire = Link(server)
        async with wire.connect() as a:
            await has_looked(a, PATH)
            lock = Lock(a, PATH)
            async with crowd() as them:
                sent = len(wire.segments)
                (partial(wire.stall, "to_client") if is_applied else server.pause)()
                them.come("a", to=lock)
                await eventually(lambda: len(wire.segments) > sent, "it is sent")
                if is_applied:
                    await eventually(lambda: contenders_left(server, PATH) != [], "applied")
                them.cancel("a")
            # The task has ended while the answer is still held back.
            assert them.log == []
            if is_applied:
                assert len(contenders_left(server, PATH)) == 1
            (wire.heal if is_applied else server.resume)()
            await enter(Lock(b, PATH).acquire(timeout=PATIENCE))
            await nothing_left(server, PATH)
            await enter(lock)
        await nothing_left(server, PATH)


@watches_the_bytes
@exhaustive
async def test_cancelled_while_the_delete_is_unanswered() -> None:
    """It waits for the confirmation, but not forever; the znode has gone anyway."""
    async with EmbeddedServer() as server:
        wire = Link(server)
        async with wire.connect(session_timeout=2) as a:
            lock = Lock(a, PATH)
            async with crowd() as them:
                them.come("a", to=lock)
                await them.are_inside("a")
                wire.stall("to_client")
                them.leave("a")
                await eventually(lambda: contenders_left(server, PATH) == [], "applied")
                them.cancel("a")
            wire.heal()
            await enter(lock)


@pytest.mark.parametrize("holds", [True, False], ids=["holding", "waiting"])
async def test_everything_is_cancelled_at_once(holds: bool) -> None:
    """As at the end of a program: the client is cancelled together with its user."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:

            async def program() -> None:
                async with in_memory(server) as a, Lock(a, PATH):
                    await anyio.sleep_forever()

            if not holds:
                await stack.enter_async_context(Lock(b, PATH))
            tasks.start_soon(program)
            count = 1 if holds else 2
            await eventually(lambda: len(contenders_left(server, PATH)) == count, "it is there")
            tasks.cancel_scope.cancel()
        # Its session was closed in order: nobody has to wait until it expires.
        assert list(server.sessions()) == [b.session_id]
        assert contenders_left(server, PATH) == []
        await enter(Lock(b, PATH).acquire(timeout=0))


@exhaustive
async def test_cancelled_while_it_is_being_lost() -> None:
    """Cancelled from outside and lost in the same moment: the cancellation is what counts."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        lock = Lock(a, PATH)
        ends: list[type[BaseException]] = []
        with anyio.CancelScope() as scope:
            try:
                async with lock as held:
                    await b.delete(held.path)
                    scope.cancel()
                    await anyio.sleep_forever()
            except BaseException as error:
                ends.append(type(error))
                raise
        assert ends == [anyio.get_cancelled_exc_class()]
        await enter(lock)
        await nothing_left(server, PATH)
