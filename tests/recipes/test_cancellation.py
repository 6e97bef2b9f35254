"""Cancellation at every await of every recipe, in every way there is.

A contender that is cancelled leaves nothing behind: no znode, no watch, no task; others get their
turn; and the object is as good as new. How it is cancelled: see `support/cancelling.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from support.cancelling import (
    Moment,
    at_suspension,
    cancel_everywhere,
    moments,
    native_only,
    no_complaints,
)
from support.recipes import (
    PATIENCE,
    Wire,
    contenders_left,
    eventually,
    has_looked,
    in_memory,
    nothing_left,
)

from aiolead import (
    Client,
    Election,
    Lock,
    LockLost,
    MultiLock,
    Phase,
    ReadWriteLock,
    ReentrantLock,
    Term,
)
from aiolead.testing import EmbeddedServer
from aiolead.types import TenureContext

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/contended"


# --- what is cancelled -------------------------------------------------------------------------


class Subjects:
    """One object of each kind, used again and again."""

    def __init__(self, client: Client) -> None:
        self.lock = Lock(client, PATH)
        self.election = Election(client, PATH)
        self.reentrant = ReentrantLock(client, PATH)
        self.shared = ReadWriteLock(client, PATH)
        self.multi = MultiLock(Lock(client, PATH), Lock(client, f"{PATH}-too"))


async def hold(subjects: Subjects) -> None:
    async with subjects.lock:
        await anyio.lowlevel.checkpoint()


async def hold_in_time(subjects: Subjects) -> None:
    async with subjects.lock.acquire(timeout=PATIENCE):
        await anyio.lowlevel.checkpoint()


async def try_acquire(subjects: Subjects) -> None:
    async with subjects.lock.try_acquire():
        await anyio.lowlevel.checkpoint()


async def hold_twice(subjects: Subjects) -> None:
    async with subjects.reentrant, subjects.reentrant:
        await anyio.lowlevel.checkpoint()


async def hold_both(subjects: Subjects) -> None:
    async with subjects.multi:
        await anyio.lowlevel.checkpoint()


async def read(subjects: Subjects) -> None:
    async with subjects.shared.read:
        await anyio.lowlevel.checkpoint()


async def write(subjects: Subjects) -> None:
    async with subjects.shared.write:
        await anyio.lowlevel.checkpoint()


async def downgrade(subjects: Subjects) -> None:
    async with subjects.shared.write as held:
        await held.downgrade()
        await anyio.lowlevel.checkpoint()


async def lead(subjects: Subjects) -> None:
    async with subjects.election.leadership() as term:
        await term.verify()


async def lead_and_resign(subjects: Subjects) -> None:
    async with subjects.election.leadership() as term:
        await term.resign()
        await anyio.lowlevel.checkpoint()


class Done(Exception):
    pass


async def run(subjects: Subjects) -> None:
    async def work(_term: Term) -> None:
        await anyio.lowlevel.checkpoint()
        raise Done

    with pytest.raises(Done):
        await subjects.election.run(work)


async def campaign(subjects: Subjects) -> None:
    async with subjects.election.campaign() as states:
        async for state in states:
            if state.phase is Phase.LEADING:
                break


async def observe(subjects: Subjects) -> None:
    async with subjects.election.observe() as states:
        await anext(aiter(states))


Verb = Callable[[Subjects], Coroutine[Any, Any, None]]
LOCKS: list[Verb] = [hold, hold_in_time, try_acquire]
MORE_LOCKS: list[Verb] = [hold_twice, hold_both]
SHARED: list[Verb] = [read, write, downgrade]
ELECTIONS: list[Verb] = [lead, campaign, observe]
MORE_ELECTIONS: list[Verb] = [lead_and_resign, run]


@pytest.fixture(autouse=True)
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Any:
    """No test here may leave a complaint behind."""
    yield
    no_complaints(caplog)


# --- everywhere --------------------------------------------------------------------------------


@asynccontextmanager
async def rival_before(
    server: EmbeddedServer, turn: Callable[[], TenureContext[Any]], is_there: bool
) -> AsyncIterator[None]:
    """Somebody who holds as the body begins, until somebody waits, or the body has ended."""
    if not is_there:
        yield
        return
    holds, ended = anyio.Event(), anyio.Event()

    async def hold() -> None:
        async with turn():
            holds.set()
            await eventually(
                lambda: ended.is_set() or len(contenders_left(server, PATH)) == 2, "somebody waits"
            )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await holds.wait()
        yield
        ended.set()


def verbs(*lists: list[Verb]) -> Any:
    every = [verb for verbs in lists for verb in verbs]
    return pytest.mark.parametrize("verb", every, ids=lambda verb: verb.__name__)


situations = pytest.mark.parametrize("contended", [False, True], ids=["alone", "behind another"])


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@verbs(LOCKS, MORE_LOCKS, SHARED, ELECTIONS, MORE_ELECTIONS)
@moments
@situations
async def test_cancelled_by_a_scope_anywhere_it_leaves_nothing(
    moment: Moment, verb: Verb, contended: bool
) -> None:
    await _cancel_everywhere("scope", moment, verb, contended)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs(LOCKS, SHARED, ELECTIONS)
@moments
@situations
async def test_cancelled_natively_anywhere_it_leaves_nothing(
    moment: Moment, verb: Verb, contended: bool
) -> None:
    await _cancel_everywhere("native", moment, verb, contended)


@pytest.mark.exhaustive("each case cancels at every await", one_in=4)
@native_only
@verbs(LOCKS, SHARED, ELECTIONS)
@situations
async def test_cancelled_natively_and_again_at_once_it_leaves_nothing(
    verb: Verb, contended: bool
) -> None:
    await _cancel_everywhere("native twice", at_suspension, verb, contended)


async def _cancel_everywhere(way: str, moment: Moment, verb: Verb, contended: bool) -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        subjects = Subjects(a)
        if verb in SHARED:
            turn: Callable[..., TenureContext[Any]] = ReadWriteLock(b, PATH).write.acquire
        elif verb in LOCKS + MORE_LOCKS:
            turn = Lock(b, PATH).acquire
        else:
            turn = Election(b, PATH).leadership

        async def afterwards() -> None:
            """Others get their turn, and then nothing is left."""
            async with turn(timeout=PATIENCE) as term:
                await term.verify()
            await nothing_left(server, PATH)

        await cancel_everywhere(
            way,
            moment,
            a,
            partial(verb, subjects),
            afterwards,
            around=partial(rival_before, server, turn, contended),
        )


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
