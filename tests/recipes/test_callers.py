"""Every public synchronous member, called by threads and by forked children at each time.

`recipes/callers.py` says who may call what. A call by a thread must change nothing: a hold goes on,
or is ended by its own event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.checks import check_each
from kit.clients import SESSION, JumpingClock, connect, eventually
from kit.elsewhere import in_child, in_thread
from kit.selection import on_embedded
from recipes.callers import (
    ANY,
    CALLS,
    HOLDER,
    HOME,
    ROWS,
    UNCHECKED,
    call,
    members_of,
    nothing_is_left_to_the_next_test,  # noqa: F401
    one_of_each,
    public_classes,
)
from recipes.crowd import crowd

import aiolead
from aiolead import Client
from aiolead.errors import AioleadError, TenureLost, UsageError

pytestmark = [
    pytest.mark.timeout(60),
    # The calls make contexts and transactions, which nobody uses.
    pytest.mark.filterwarnings("ignore:a context of .* was never entered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:a transaction was never committed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:a request that was never awaited:RuntimeWarning"),
]


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


# --- the calls ---------------------------------------------------------------------------------


def outcome(thing: Any, row: str) -> str:
    try:
        call(thing, row)
    except AioleadError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def call_all(things: dict[str, Any]) -> dict[str, str]:
    """The outcome of the call of each member, by object and row."""
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


def parts(held: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each hold, and each of several locks, by the name of the hold."""
    for name, each in held.items():
        for part in getattr(each, "holds", (each,)):
            yield name, part


@on_embedded
@pytest.mark.parametrize("when", ["fresh", "settled"])
async def test_hold_goes_on_whatever_others_call(a: Client, when: str) -> None:
    held: dict[str, Any] = {}
    async with one_of_each(a, held) as things:
        covered = {kind.__name__ for kind in public_classes() if members_of(kind)}
        assert covered - things.keys() == set(), "give it to a row of kit/every_recipe.py"
        leases = a._core.machine.leases
        if when == "settled":
            await eventually(lambda: not leases.fresh, "the holds have settled")
        calls_are_as_the_table_says(things, held)
        for each in held.values():
            each.check()
            await each.verify()
        assert things["DataView"].is_live
        await a.set("/", b"goes on")


@on_embedded
async def test_waiter_waits_on_whatever_others_call(a: Client, b: Client) -> None:
    held: dict[str, Any] = {}
    async with crowd() as them:
        async with aiolead.Lock(b, "/waited"):
            them.come("waiter", to=aiolead.Lock(a, "/waited"))
            async with one_of_each(a, held) as things:
                lock = aiolead.Lock(a, "/waited")
                calls_are_as_the_table_says({**things, "Lock": lock}, held)
            assert them.log == []
        await them.are_inside("waiter")


@on_embedded
async def test_event_loop_ends_the_holds_that_others_have_seen_the_end_of(
    server: ServerUnderTest,
) -> None:
    """The lease is over by the clock, and the event loop stands still while others look."""
    clock = JumpingClock()
    held: dict[str, Any] = {}
    lost: list[str] = []
    cancelled = False
    may_end = anyio.Event()

    async def hold() -> None:
        nonlocal cancelled
        async with connect(server, clock=clock) as client:
            with suppress(TenureLost):
                async with one_of_each(client, held) as things:
                    for name, part in parts(held):
                        part.add_lost_callback(lambda name=name: lost.append(name))
                    clock.jump(2 * SESSION)
                    calls_are_as_the_table_says(things, held)
                    assert lost == [], "a thread has ended a hold"
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
    assert sorted(lost) == sorted(name for name, _ in parts(held))
    assert len(lost) >= 11


@on_embedded
async def test_lost_hold_stays_lost_whatever_others_call(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    held: dict[str, Any] = {}
    lost: list[str] = []
    async with connect(server, clock=clock) as client:
        with pytest.raises(TenureLost):
            async with one_of_each(client, held) as things:
                for name, part in parts(held):
                    part.add_lost_callback(lambda name=name: lost.append(name))
                clock.jump(2 * SESSION)
                with anyio.CancelScope(shield=True):
                    count = len(list(parts(held)))
                    await eventually(lambda: len(lost) == count, f"all are lost: {lost}")
                calls_are_as_the_table_says(things, held)
        assert not any(each.is_held for each in held.values())


@on_embedded
async def test_hold_that_was_released_or_left_stays_so_whatever_others_call(a: Client) -> None:
    held: dict[str, Any] = {}
    left: dict[str, Any] = {}
    async with one_of_each(a, held) as things:
        for each in held.values():
            await each.release()
        calls_are_as_the_table_says(things, held)
    # Released by leaving. Each has its own paths, which are free again.
    async with one_of_each(a.chroot("/again"), left) as others:
        pass
    calls_are_as_the_table_says(others, left)
    for each in (*held.values(), *left.values()):
        with pytest.raises(UsageError):
            each.check()


@on_embedded
async def test_closed_client_is_as_the_table_says(server: ServerUnderTest) -> None:
    held: dict[str, Any] = {}
    async with connect(server) as client, one_of_each(client, held) as things:
        pass
    calls_are_as_the_table_says(things, held)


def test_table_has_no_other_callers() -> None:
    assert set(ROWS.values()) == {ANY, HOLDER, HOME, UNCHECKED}
