"""Every public synchronous member, called by threads and by forked children at each time.

`recipes/callers.py` says who may call what. What a thread has called must have changed nothing: a
hold goes on, or is ended by its own event loop.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.checks import check_each
from kit.clients import SESSION, JumpingClock, connect, eventually
from kit.elsewhere import in_child, in_thread
from recipes.callers import (
    AN_INSTANCE,
    ANY,
    CALLS,
    HOLDER,
    HOME,
    ROWS,
    UNCHECKED,
    call,
    members_of,
    public_classes,
)

import aiolead
from aiolead import Client
from aiolead.errors import AioleadError, TenureLost, UsageError
from aiolead.types import Codec

pytestmark = [
    pytest.mark.timeout(60),
    # The calls make contexts and transactions, which nobody uses.
    pytest.mark.filterwarnings("ignore:a context of .* was never entered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:a transaction was never committed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:a request that was never awaited:RuntimeWarning"),
]

HELD = ("Term", "Held", "BarrierMember", "ConditionHeld", "HeldName", "WriteHeld", "QueueItem")
HELD += ("Task", "MultiHeld")


@pytest.fixture(autouse=True)
def nothing_is_left_to_the_next_test() -> Iterator[None]:
    """What the calls have made is dropped while its warnings are expected."""
    yield
    gc.collect()


# --- the table -----------------------------------------------------------------------------------


def test_every_public_member_has_a_row() -> None:
    found = {row for kind in public_classes() for row in members_of(kind).values()}
    inherited = {row for row in ROWS if not any(row in _all_rows(k) for k in public_classes())}
    assert found - ROWS.keys() == set(), "say in tests/recipes/callers.py who may call it"
    assert inherited == set(), "there is no such member any more"
    assert CALLS.keys() - ROWS.keys() == set()


def _all_rows(kind: type) -> set[str]:
    return {f"{base.__name__}.{name}" for base in kind.__mro__ for name in vars(base)}


@check_each("kind", list(public_classes()), ids=lambda kind: kind.__name__)
def test_every_public_class_says_who_may_call_it(kind: type) -> None:
    if not members_of(kind):
        return
    docs = [base.__doc__ or "" for base in kind.__mro__ if base.__module__.startswith("aiolead")]
    assert any("Threads and forks:" in doc for doc in docs)


# --- one of each ---------------------------------------------------------------------------------


@asynccontextmanager
async def one_of_each(client: Client, held: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """An object of each class, by its name; `held` gets what is held, as it is acquired."""
    things: dict[str, Any] = {}

    def add(thing: Any, *names: str) -> Any:
        for name in names or (type(thing).__name__,):
            things[name] = thing
        return thing

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        add(client)
        add(client.backend)
        add(client.backend.lease)
        add(aiolead.Barrier(client, "/barrier"))
        counter = aiolead.SharedValue(client, "/value", 0, codec=Codec.int32())
        config, group = aiolead.Config(client, "/config"), aiolead.Group(client, "/group")
        await counter.set(1)
        await config.publish({"a": b"b"})
        registry = aiolead.ServiceRegistry(client, "/services")
        board, queue = aiolead.TaskBoard(client, "/board"), aiolead.Queue(client, "/queue")
        await board.submit(b"x")
        await queue.put(b"x")
        for thing in (counter, config, group, registry, board, queue):
            add(thing)
        add(aiolead.Counter(client, "/counter"))
        add(aiolead.DelayQueue(client, "/delay"))
        add(aiolead.PriorityQueue(client, "/priority"))
        add(aiolead.Partitioner(client, "/partitioner", ["a"]))
        add(aiolead.SequenceAllocator(client, "/sequence"))
        # Views, and what is kept.
        states = await enter(client.observe())
        add(states)
        add(await enter(client.watch("/")))
        add(await enter(client.observe_data("/")), "DataView", "View")
        add(await enter(client.observe_children("/")))
        add(await enter(aiolead.Election(client, "/campaign").campaign()))
        add(await enter(aiolead.Election(client, "/campaign").observe()))
        add(await enter(board.observe()))
        add(await enter(config.observe()))
        add(await enter(counter.observe()))
        add(await enter(group.observe()))
        service = add(await enter(registry.observe("web")))
        cache = add(await enter(aiolead.TreeCache(client, "/")))
        add(cache.events())
        add(await enter(group.join(identity="m")))
        add(await enter(registry.register(AN_INSTANCE)))
        add(await enter(aiolead.PersistentNode(client, "/kept")))
        # Requests.
        reply = client.get("/")
        await reply
        add(reply)
        add(client.transaction())
        add(client.fenced("/"))
        add(client.fenced("/").transaction())
        add(client.reads())
        add(client.backend.make_watch())
        strategies = (
            aiolead.types.ConsistentHash(),
            aiolead.types.LeastLoaded(),
            aiolead.types.WeightedRandom(),
            aiolead.types.RoundRobin(),
        )
        for strategy in strategies:
            add(strategy)
        add(aiolead.types.Picker(service, strategies[-1]))
        # What is held, last, so that its release is the first.
        lock, other = aiolead.Lock(client, "/lock"), aiolead.ReadWriteLock(client, "/rw")
        election = aiolead.Election(client, "/election")
        condition = aiolead.Condition(client, "/condition")
        names = aiolead.UniqueNames(client, "/names")
        double = aiolead.DoubleBarrier(client, "/double", 1)
        several = aiolead.MultiLock(aiolead.Lock(client, "/a"), aiolead.Lock(client, "/b"))
        for thing in (lock, other, other.read, other.write, election, condition, names, double):
            add(thing)
        add(several)
        add(aiolead.ExclusiveLock(client, "/exclusive"))
        add(aiolead.ReentrantLock(client, "/reentrant"))
        add(aiolead.Semaphore(client, "/semaphore", 1))
        contexts: dict[str, Any] = {
            "Term": election.leadership(),
            "Held": lock,
            "BarrierMember": double,
            "ConditionHeld": condition,
            "HeldName": names.claim("name"),
            "WriteHeld": other.write,
            "QueueItem": queue.get(),
            "Task": board.claim(),
            "MultiHeld": several,
        }
        add(lock.acquire())
        add(queue.consume())
        for name, context in contexts.items():
            held[name] = add(await enter(context), name)
        add(held["Held"], "Held", "Tenure")
        add(held["Task"], "Task", "Claimed")
        yield things


def outcome(thing: Any, row: str) -> str:
    try:
        call(thing, row)
    except AioleadError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def call_all(things: dict[str, Any]) -> dict[str, str]:
    """What became of the call of each member, by object and row."""
    return {
        f"{name} {row}": outcome(thing, row)
        for name, thing in things.items()
        for row in members_of(type(thing)).values()
        if ROWS[row] != UNCHECKED
    }


ELSEWHERE, FORKED = "belongs to the event loop of another thread", "was forked: connect in this"


def check_outcomes(thread: dict[str, str], child: dict[str, str]) -> None:
    wrong = []
    for what, found in thread.items():
        if (ELSEWHERE in found) != (ROWS[what.split()[1]] == HOME):
            wrong.append(f"thread: {what}: {found}")
    for what, found in child.items():
        if (FORKED in found) != (ROWS[what.split()[1]] in (HOME, HOLDER)):
            wrong.append(f"child: {what}: {found}")
    assert not wrong


def look_at(held: dict[str, Any]) -> dict[str, tuple[bool, float]]:
    return {name: (each.is_held, each.remaining()) for name, each in held.items()}


def calls_are_as_the_table_says(things: dict[str, Any], held: dict[str, Any]) -> None:
    check_outcomes(in_thread(lambda: call_all(things)), in_child(lambda: call_all(things)))
    assert in_child(lambda: look_at(held)) == dict.fromkeys(held, (False, 0.0))


# --- at each time --------------------------------------------------------------------------------

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@on_embedded
@pytest.mark.parametrize("when", ["fresh", "settled"])
async def test_a_hold_goes_on_whatever_others_call(server: ServerUnderTest, when: str) -> None:
    held: dict[str, Any] = {}
    async with connect(server) as client, one_of_each(client, held) as things:
        covered = {kind.__name__ for kind in public_classes() if members_of(kind)}
        assert covered - things.keys() == set(), "make one of it"
        leases = client._core.machine.leases
        if when == "settled":
            await eventually(lambda: not leases.fresh, "the holds have settled")
        calls_are_as_the_table_says(things, held)
        for each in held.values():
            each.check()
            await each.verify()
        assert things["DataView"].is_live
        await client.set("/", b"goes on")


@on_embedded
async def test_a_waiter_waits_on_whatever_others_call(server: ServerUnderTest) -> None:
    held: dict[str, Any] = {}
    async with connect(server) as other, connect(server) as client:
        async with anyio.create_task_group() as tasks:
            entered = anyio.Event()

            async def wait() -> None:
                async with aiolead.Lock(client, "/waited"):
                    entered.set()

            async with aiolead.Lock(other, "/waited"):
                tasks.start_soon(wait)
                async with one_of_each(client, held) as things:
                    lock = aiolead.Lock(client, "/waited")
                    calls_are_as_the_table_says({**things, "Lock": lock}, held)
                assert not entered.is_set()
        assert entered.is_set()


@on_embedded
async def test_the_loop_ends_what_others_have_seen_the_end_of(server: ServerUnderTest) -> None:
    """The lease is over by the clock, and the event loop stands still while others look."""
    clock = JumpingClock()
    held: dict[str, Any] = {}
    told: list[str] = []
    cancelled = False
    may_end = anyio.Event()

    async def hold() -> None:
        nonlocal cancelled
        async with connect(server, clock=clock) as client:
            with suppress(TenureLost):
                async with one_of_each(client, held) as things:
                    for name, each in held.items():
                        for hold in getattr(each, "holds", (each,)):
                            hold.add_lost_callback(lambda name=name: told.append(name))
                    clock.jump(2 * SESSION)
                    calls_are_as_the_table_says(things, held)
                    assert told == [], "a thread has ended a hold"
                    try:
                        await may_end.wait()
                    except anyio.get_cancelled_exc_class():
                        cancelled = True
                        raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        with suppress(AssertionError):
            await eventually(lambda: cancelled, "the body was cancelled", within=10)
        may_end.set()
    assert cancelled
    assert sorted(told) == sorted([*HELD, "MultiHeld"])


@on_embedded
async def test_a_lost_hold_stays_lost_whatever_others_call(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    held: dict[str, Any] = {}
    async with connect(server, clock=clock) as client:
        with pytest.raises(TenureLost):
            async with one_of_each(client, held) as things:
                clock.jump(2 * SESSION)
                with anyio.CancelScope(shield=True):
                    for each in held.values():
                        for hold in getattr(each, "holds", (each,)):
                            await eventually(lambda hold=hold: hold._loss is not None, "it is lost")
                calls_are_as_the_table_says(things, held)
        for each in held.values():
            assert not each.is_held


@on_embedded
async def test_what_was_released_or_left_stays_so_whatever_others_call(
    server: ServerUnderTest,
) -> None:
    held: dict[str, Any] = {}
    async with connect(server) as client:
        async with one_of_each(client, held) as things:
            for each in held.values():
                await each.release()
            calls_are_as_the_table_says(things, held)
        left: dict[str, Any] = {}
        # Released by leaving. Each has its own paths, which are free again.
        async with one_of_each(client.chroot("/again"), left) as others:
            pass
        calls_are_as_the_table_says(others, left)
        for each in (*held.values(), *left.values()):
            with pytest.raises(UsageError):
                each.check()


@on_embedded
async def test_a_closed_client_is_as_the_table_says(server: ServerUnderTest) -> None:
    held: dict[str, Any] = {}
    async with connect(server) as client, one_of_each(client, held) as things:
        pass
    calls_are_as_the_table_says(things, held)


def test_the_table_has_no_other_kinds_of_callers() -> None:
    assert set(ROWS.values()) == {ANY, HOLDER, HOME, UNCHECKED}
