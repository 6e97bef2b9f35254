"""Every recipe, cancelled at every await, in every way there is: nothing is left behind.

No znode, no watch, no task of a cancelled client stays, others get their turn, and the object is as
good as new. How it is cancelled: see `recipes/cancelling.py`. A new recipe has a row in `HELD`,
`KEPT`, `FOLLOWED` or `DONE` of `kit/every_recipe.py`, and one in `MORE` for each other verb.
"""

from __future__ import annotations

import re
from collections import Counter as Counts
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    Wire,
    catch_up,
    connect,
    contenders_left,
    eventually,
    has_looked,
    in_memory,
    nothing_left,
)
from kit.every_recipe import AN_INSTANCE, DONE, FOLLOWED, HELD, KEPT, Done, Followed, Held
from kit.faults import only_on
from recipes.cancelling import (
    at_packet,
    at_suspension,
    cancel_everywhere,
    native_only,
    no_complaints,
)

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
    LockLost,
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
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(120), pytest.mark.both_loops]

PATH = "/contended"

Work = Callable[[], Coroutine[Any, Any, None]]
Begin = Callable[[Client, str], Work]
"""Makes the object that is used again and again, and gives what is done with it."""

checkpoint = anyio.lowlevel.checkpoint


@dataclass(frozen=True, slots=True)
class Use:
    """What a client does with a recipe, and is cancelled in.

    Attributes:
        begin: makes the work.
        recipe: the row of `HELD` or `KEPT` whose turn somebody else gets afterwards; empty where
            nobody waits for a turn.
        beside: what another client does all the time.
        ends_items: whether it may use up what the row prepares.
    """

    begin: Begin
    recipe: str = ""
    beside: Begin | None = None
    ends_items: bool = False

    @property
    def scene(self) -> Held | None:
        return (HELD | KEPT)[self.recipe] if self.recipe else None


# --- every recipe --------------------------------------------------------------------------------


def hold(scene: Held) -> Begin:
    def begin(client: Client, path: str) -> Work:
        async def work() -> None:
            async with scene.enter(client, path) as mine:
                await mine.verify()

        return work

    return begin


def follow(what: Followed) -> Begin:
    def begin(client: Client, path: str) -> Work:
        async def work() -> None:
            async with what.observe(client, path):
                await checkpoint()

        return work

    return begin


def do(what: Done) -> Begin:
    def begin(client: Client, path: str) -> Work:
        async def work() -> None:
            await what.do(client, path)

        return work

    return begin


# --- other verbs ---------------------------------------------------------------------------------


class Finished(Exception):
    pass


def entered(
    context: Callable[[Client, str], Callable[[], Any]],
    act: Callable[[Any], Awaitable[object]] | None = None,
) -> Begin:
    """A block of a context that one object makes again and again, and what is done in it."""

    def begin(client: Client, path: str) -> Work:
        enter = context(client, path)

        async def work() -> None:
            async with enter() as mine:
                if act is not None:
                    await act(mine)
                await checkpoint()

        return work

    return begin


def run(client: Client, path: str) -> Work:
    election = Election(client, path)

    async def lead(_term: Term) -> None:
        await checkpoint()
        raise Finished

    async def work() -> None:
        with pytest.raises(Finished):
            await election.run(lead)

    return work


def campaign(client: Client, path: str) -> Work:
    election = Election(client, path)

    async def work() -> None:
        async with election.campaign() as states:
            async for state in states:
                if state.phase is Phase.LEADING:
                    break

    return work


def observe_election(client: Client, path: str) -> Work:
    election = Election(client, path)

    async def work() -> None:
        async with election.observe() as states:
            await anext(aiter(states))

    return work


def consume(client: Client, path: str) -> Work:
    queue = Queue(client, path)

    async def work() -> None:
        async with queue.consume() as items:
            await anext(items)
            item = await anext(items)  # the same one: it was not acknowledged
            await item.ack()

    return work


def report(client: Client, path: str) -> Work:
    board = TaskBoard(client, path, report_every=0)

    async def work() -> None:
        async with board.claim() as task:
            await task.report(0.5)
            await task.verify()

    return work


def result(client: Client, path: str) -> Work:
    board = TaskBoard(client, path)

    async def work() -> None:
        name = await board.submit(b"x")
        with anyio.move_on_after(0.01):
            await board.result(name)

    return work


def pass_barrier(client: Client, path: str) -> Work:
    barrier = Barrier(client, f"{path}/gate")

    async def work() -> None:
        await barrier.set()
        await barrier.remove()
        await barrier.wait()

    return work


def wait_at_barrier(client: Client, path: str) -> Work:
    barrier = Barrier(client, f"{path}/gate")
    return barrier.wait


def open_and_close_barrier(client: Client, path: str) -> Work:
    barrier = Barrier(client, f"{path}/gate")

    async def work() -> None:
        await barrier.set()
        await barrier.remove()

    return work


def add_below_lock(client: Client, path: str) -> Work:
    counter = Counter(client, path, promote_after=0)
    begun = added = 0

    async def work() -> None:
        nonlocal begun, added
        assert added <= await counter.get() <= begun
        begun += 1
        await counter.add(1)
        added += 1

    return work


def take_numbers(client: Client, path: str) -> Work:
    allocator = SequenceAllocator(client, path, block=2)
    given: list[int] = []

    async def work() -> None:
        given.append(await allocator.next())
        given.extend(await allocator.take(2))
        assert len(set(given)) == len(given)

    return work


def keep_in_a_sequence(client: Client, path: str) -> Work:
    async def work() -> None:
        mode = CreateMode.EPHEMERAL_SEQUENTIAL
        async with PersistentNode(client, f"{path}-s/node", b"x", mode=mode) as node:
            await node.set(b"y")
            await anext(aiter(node))

    return work


def join(client: Client, path: str) -> Work:
    group = Group(client, path)

    async def work() -> None:
        async with group.observe() as view, group.join(identity="m") as membership:
            await membership.set(b"x")
            await anext(view.changes())

    return work


def register(client: Client, path: str) -> Work:
    registry = ServiceRegistry(client, path)

    async def work() -> None:
        async with registry.register(AN_INSTANCE, load_interval=0.0) as registration:
            await registration.report_load(1)
            await registration.drain()

    return work


def partition(client: Client, path: str) -> Work:
    partitioner = Partitioner(client, path, ["one"], identity="m")

    async def own(_item: str, hold: Any) -> None:
        await hold.verify()
        raise Finished

    async def work() -> None:
        with pytest.raises(Finished):
            await partitioner.run(own)

    return work


def meet(identity: str) -> Begin:
    def begin(client: Client, path: str) -> Work:
        barrier = DoubleBarrier(client, path, 2, identity=identity)
        return entered(lambda _client, _path: barrier.enter)(client, path)

    return begin


MORE: dict[str, Use] = {
    "Lock.acquire": Use(
        entered(lambda c, p: partial(Lock(c, p).acquire, timeout=PATIENCE)), "Lock"
    ),
    "Lock.try_acquire": Use(entered(lambda c, p: Lock(c, p).try_acquire), "Lock"),
    "ExclusiveLock.try_acquire": Use(
        entered(lambda c, p: ExclusiveLock(c, p).try_acquire), "ExclusiveLock"
    ),
    "Semaphore.try_acquire": Use(
        entered(lambda c, p: partial(Semaphore(c, p, 3).try_acquire, permits=2)), "Semaphore"
    ),
    "Term.resign": Use(
        entered(lambda c, p: Election(c, p).leadership, lambda term: term.resign()), "Election"
    ),
    "Election.run": Use(run, "Election"),
    "Election.campaign": Use(campaign, "Election"),
    "Election.observe": Use(observe_election, "Election"),
    "Condition.wait in vain": Use(
        entered(lambda c, p: Condition(c, p).acquire, lambda held: held.wait(timeout=0)),
        "Condition",
    ),
    "Condition.wait": Use(
        entered(lambda c, p: Condition(c, p).acquire, lambda held: held.wait()),
        "Condition",
        beside=entered(lambda c, p: Condition(c, p).acquire, lambda held: held.notify_all()),
    ),
    "Queue.get": Use(entered(lambda c, p: partial(Queue(c, p).get, timeout=PATIENCE)), "Queue"),
    "Queue.try_get": Use(entered(lambda c, p: Queue(c, p).try_get), "Queue"),
    "Queue.ack": Use(
        entered(lambda c, p: Queue(c, p).get, lambda item: item.ack()), "Queue", ends_items=True
    ),
    "Queue.consume": Use(consume, "Queue", ends_items=True),
    "Task.report": Use(report, "TaskBoard"),
    "Task.finish": Use(
        entered(lambda c, p: TaskBoard(c, p).claim, lambda task: task.finish()),
        "TaskBoard",
        ends_items=True,
    ),
    "TaskBoard.result": Use(result),
    "Barrier": Use(pass_barrier),
    "Barrier.wait": Use(wait_at_barrier, beside=open_and_close_barrier),
    "DoubleBarrier of two": Use(meet("one"), beside=meet("other")),
    "Counter below a lock": Use(add_below_lock),
    "SequenceAllocator.take": Use(take_numbers),
    "PersistentNode in a sequence": Use(keep_in_a_sequence),
    "Group.join": Use(join, "Group"),
    "ServiceRegistry.register": Use(register, "ServiceRegistry"),
    "Partitioner.run": Use(partition),
}

USES: dict[str, Use] = {
    **{name: Use(hold(scene), name) for name, scene in (HELD | KEPT).items()},
    **{f"observing {name}": Use(follow(what)) for name, what in FOLLOWED.items()},
    **{f"doing {name}": Use(do(what)) for name, what in DONE.items()},
    **MORE,
}

CONTENDED = [name for name, use in USES.items() if use.recipe in HELD and use.beside is None]
"""What another client may have as the work begins."""


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
async def _beside(client: Client, begin: Begin | None) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        if begin is not None:
            work = begin(client, PATH)

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
NATIVE = [name for name in WAYS if name.startswith("native")]
BY_SCOPE = [name for name in WAYS if name.startswith("scope")]


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@pytest.mark.parametrize("way", BY_SCOPE)
@pytest.mark.parametrize("use", USES)
async def test_cancelled_by_a_scope(use: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    await _cancel(use, way)
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@pytest.mark.parametrize("way", NATIVE)
@pytest.mark.parametrize("use", USES)
async def test_cancelled_natively(use: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    await _cancel(use, way)
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@pytest.mark.parametrize("way", BY_SCOPE)
@pytest.mark.parametrize("use", CONTENDED)
async def test_cancelled_by_a_scope_behind_another_client(
    use: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _cancel(use, way, is_contended=True)
    no_complaints(caplog)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@pytest.mark.parametrize("way", NATIVE)
@pytest.mark.parametrize("use", CONTENDED)
async def test_cancelled_natively_behind_another_client(
    use: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _cancel(use, way, is_contended=True)
    no_complaints(caplog)


async def _cancel(name: str, kind: str, *, is_contended: bool = False) -> None:
    use, (way, moment) = USES[name], WAYS[kind]
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        scene = use.scene
        await _prepare(scene, b)
        used: Counts[str] | None = None

        async def afterwards() -> None:
            """Others get their turn, and then nothing is left that was not there before."""
            nonlocal used
            if scene is not None:
                if use.ends_items and (used is None or used - _znodes(server)):
                    await _prepare(scene, b)
                with anyio.fail_after(PATIENCE):
                    await scene.turn(b, PATH)
            await eventually(lambda: _of_client(server, a) == [], "nothing of it is on the server")
            if scene is not None and use.beside is None:
                used = used or _znodes(server)  # the first time, it is not cancelled
                await eventually(lambda: _znodes(server) == used, "the same znodes as before")

        async with _beside(b, use.beside):
            await cancel_everywhere(
                way,
                moment,
                a,
                use.begin(a, PATH),
                afterwards,
                around=(lambda: _rival(server, a, b, scene))
                if is_contended and scene
                else nullcontext,
                most=200,
            )


async def _prepare(scene: Held | None, client: Client, times: int = 1) -> None:
    if scene is not None and scene.prepare is not None:
        for _ in range(times):
            await scene.prepare(client, PATH)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@only_on("trio")
@pytest.mark.parametrize("server", ["standalone"], indirect=True)
@pytest.mark.parametrize("name", [name for name, use in USES.items() if use.beside is None])
async def test_cancelled_at_a_real_server(server: ServerUnderTest, name: str) -> None:
    use = USES[name]
    async with connect(server) as a, connect(server) as b:
        scene = use.scene
        await _prepare(scene, b, times=100 if use.ends_items else 1)
        await catch_up(a)

        async def nothing_is_left() -> bool:
            return await a.get_ephemerals() == []

        async def afterwards() -> None:
            await eventually(nothing_is_left, "no znode of it is left")

        await cancel_everywhere("scope", at_suspension, a, use.begin(a, PATH), afterwards, most=200)
        if scene is not None:
            await scene.turn(b, PATH)


# --- at certain moments ------------------------------------------------------------------------


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@pytest.mark.parametrize("how", ["create applied", "create on its way"])
async def test_cancelled_while_the_create_is_unanswered(how: str) -> None:
    """It does not wait for the answer; the znode goes as soon as that comes."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        await b.create(PATH)
        wire = Wire(server)
        async with wire.connect() as a:
            await has_looked(a, PATH)
            lock = Lock(a, PATH)
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    async with lock:
                        pytest.fail("nobody told it that it holds")

                if how == "create applied":
                    wire.hold()
                    tasks.start_soon(wait)
                    await eventually(lambda: contenders_left(server, PATH) != [], "applied")
                else:
                    sent = len(wire.segments)
                    server.pause()
                    tasks.start_soon(wait)
                    await eventually(lambda: len(wire.segments) > sent, "it is sent")
                tasks.cancel_scope.cancel()
            # The task has ended while the answer is still held back.
            if how == "create applied":
                assert len(contenders_left(server, PATH)) == 1
                wire.release()
            else:
                server.resume()
            async with Lock(b, PATH).acquire(timeout=PATIENCE):
                pass
            await nothing_left(server, PATH)
            async with lock:
                pass
        await nothing_left(server, PATH)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
async def test_cancelled_while_the_delete_is_unanswered() -> None:
    """It waits for the confirmation, but not for ever; the znode has gone anyway."""
    async with EmbeddedServer() as server:
        wire = Wire(server)
        async with wire.connect(session_timeout=2) as a:
            lock = Lock(a, PATH)
            async with anyio.create_task_group() as tasks:
                leaving = anyio.Event()

                async def hold() -> None:
                    async with lock:
                        wire.hold()
                        leaving.set()

                tasks.start_soon(hold)
                await leaving.wait()
                await eventually(lambda: contenders_left(server, PATH) == [], "applied")
                tasks.cancel_scope.cancel()
            wire.release()
            async with lock:
                pass


@pytest.mark.parametrize("holds", [True, False], ids=["holding", "waiting"])
async def test_everything_is_cancelled_at_once(holds: bool) -> None:
    """As at the end of a program: the client is cancelled together with who uses it."""
    async with EmbeddedServer() as server, in_memory(server) as b:
        async with anyio.create_task_group() as tasks:
            inside = anyio.Event()

            async def program() -> None:
                async with in_memory(server) as a:
                    async with Lock(a, PATH):
                        inside.set()
                        await anyio.sleep_forever()

            if holds:
                tasks.start_soon(program)
                await inside.wait()
                tasks.cancel_scope.cancel()
            else:
                async with Lock(b, PATH):
                    tasks.start_soon(program)
                    await eventually(lambda: len(contenders_left(server, PATH)) == 2, "it waits")
                    tasks.cancel_scope.cancel()
        # Its session was closed in order: nobody has to wait until it expires.
        assert list(server.sessions()) == [b.session_id]
        assert contenders_left(server, PATH) == []
        async with Lock(b, PATH).acquire(timeout=0):
            pass


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
async def test_cancelled_while_it_is_being_lost() -> None:
    """Cancelled from outside and lost in the same moment: the cancellation is what counts."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        lock = Lock(a, PATH)
        ends: list[str] = []
        with anyio.CancelScope() as scope:
            try:
                async with lock as held:
                    await b.delete(held.path)
                    scope.cancel()
                    await anyio.sleep_forever()
            except LockLost:
                ends.append("lost")
                raise
            except anyio.get_cancelled_exc_class():
                ends.append("cancelled")
                raise
        assert ends == ["cancelled"]
        async with lock:
            pass
        await nothing_left(server, PATH)
