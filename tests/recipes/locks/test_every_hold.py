"""Promises of every hold: locks, semaphores, names and the leadership of an election."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, JumpingClock, catch_up, connect, eventually, owned, raw
from kit.selection import on_embedded
from recipes.blocks import enter

from aiolead import (
    AcquireTimeout,
    Client,
    Condition,
    Election,
    ExclusiveLock,
    Lock,
    MultiLock,
    Once,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
    TenureLost,
    UniqueNames,
)
from aiolead.errors import AlreadyHeldError, Blame, ClientClosedError, LossReason, UsageError
from aiolead.types import Run

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/held"

RECIPES: dict[str, Callable[[Client], Any]] = {
    "Condition": lambda c: Condition(c, PATH),
    "Election": lambda c: Election(c, PATH),
    "ExclusiveLock": lambda c: ExclusiveLock(c, PATH),
    "Lock": lambda c: Lock(c, PATH),
    "MultiLock": lambda c: MultiLock(Lock(c, "/another"), Lock(c, PATH)),
    "ReadWriteLock": lambda c: ReadWriteLock(c, PATH).write,
    "ReentrantLock": lambda c: ReentrantLock(c, PATH),
    "Semaphore": lambda c: Semaphore(c, PATH, 1),
    "UniqueNames": lambda c: UniqueNames(c, PATH),
    "Once": lambda c: Once(c, PATH),
}

recipes = pytest.mark.parametrize("make", RECIPES.values(), ids=RECIPES)
Make = Callable[[Client], Any]


@asynccontextmanager
async def running(once: Once, timeout: float | None, *, is_try: bool) -> AsyncIterator[Run | None]:
    """A run of the first key that is not done."""
    for key in map(str, count()):
        if not await once.is_done(key):
            async with once.try_claim(key) if is_try else once.claim(key, timeout=timeout) as run:
                if run is not None or is_try:
                    yield run
                    return


def acquire(recipe: Any, timeout: float | None = None) -> AbstractAsyncContextManager[Any]:
    match recipe:
        case Election():
            return recipe.leadership(timeout=timeout)
        case UniqueNames():
            return recipe.claim("name", most=1, timeout=timeout)
        case Once():
            return running(recipe, timeout, is_try=False)
        case _:
            return recipe.acquire(timeout=timeout)


def last(held: Any) -> Any:
    """The hold itself, or of several locks the last one."""
    return getattr(held, "holds", [held])[-1]


async def has_nothing(client: Client) -> None:
    async def is_so() -> bool:
        return await owned(client) == []

    await eventually(is_so, "no znode of the client is left")


@recipes
async def test_tasks_of_two_clients_exclude_each_other_in_the_order_of_tokens(
    a: Client, b: Client, make: Make
) -> None:
    """They count together, with a counter that nothing else guards."""
    counter, tokens = 0, []

    async def count(recipe: Any) -> None:
        nonlocal counter
        async with acquire(recipe) as held:
            seen = counter
            tokens.append(last(held).token)
            await anyio.lowlevel.checkpoint()
            counter = seen + 1

    async with anyio.create_task_group() as tasks:
        for recipe in (make(a), make(b)):
            for _ in range(10):
                tasks.start_soon(count, recipe)
    assert counter == 20
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("wait", [0, 0.05])
@recipes
async def test_waiting_ends_in_time_and_leaves_nothing(
    a: Client, b: Client, make: Make, wait: float
) -> None:
    recipe = make(b)
    async with acquire(make(a)):
        with anyio.fail_after(PATIENCE), pytest.raises(AcquireTimeout) as caught:
            await enter(acquire(recipe, wait))
        assert isinstance(caught.value, TimeoutError)
        assert f"{wait:g} seconds" in str(caught.value)
        await has_nothing(b)
    async with acquire(recipe, PATIENCE) as held:
        held.check()


@recipes
async def test_try_acquire_gives_none_while_another_client_holds(
    a: Client, b: Client, make: Make
) -> None:
    recipe = make(b)
    if isinstance(recipe, Election):
        assert not hasattr(recipe, "try_acquire")
        return

    def attempt() -> AbstractAsyncContextManager[Any]:
        if isinstance(recipe, Once):
            return running(recipe, 0, is_try=True)
        if isinstance(recipe, UniqueNames):
            return recipe.try_claim("name", most=1)
        return recipe.try_acquire()

    async with acquire(make(a)):
        async with attempt() as none:
            assert none is None
            await has_nothing(b)
    await catch_up(b)
    async with attempt() as held:
        assert held is not None
        await held.verify()


@recipes
async def test_hold_is_lost_when_its_znode_is_deleted(
    server: ServerUnderTest, a: Client, make: Make
) -> None:
    recipe = make(a)
    for verifies in (False, True):
        with anyio.fail_after(PATIENCE), pytest.raises(TenureLost) as caught:
            async with acquire(recipe) as held:
                with raw(server) as operator:
                    operator.delete(last(held).path)
                if verifies:
                    await held.verify()
                    pytest.fail("it was verified")
                await anyio.sleep_forever()
        lost = caught.value
        assert (lost.reason, lost.blame) == (LossReason.DELETED, Blame.RIVAL)
        assert lost.token == last(held).token
        assert not lost.session_over
        with pytest.raises(TenureLost):
            last(held).check()


@recipes
async def test_loss_that_nobody_noticed_is_raised_as_the_block_ends(
    server: ServerUnderTest, a: Client, make: Make
) -> None:
    """The answer to the release says that the znode was gone: somebody else may have held it."""
    with pytest.raises(TenureLost) as caught:
        async with acquire(make(a)) as held:
            with raw(server) as operator:
                operator.delete(last(held).path)
    assert caught.value.reason is LossReason.DELETED


@on_embedded
@recipes
async def test_hold_ends_with_the_lease_of_a_blocked_event_loop(
    server: ServerUnderTest, b: Client, make: Make
) -> None:
    """Nothing has run that could have cancelled the body: only the clock says so."""
    clock = JumpingClock()
    async with connect(server, clock=clock) as a:
        with pytest.raises(TenureLost) as caught:
            async with acquire(make(a)) as held:
                held.check()
                assert 0 < held.remaining() <= a.session_timeout
                clock.jump(2 * a.session_timeout)
                assert not held.is_held
                assert held.remaining() == 0
                with pytest.raises(TenureLost):
                    held.check()
        assert caught.value.reason is LossReason.UNCONFIRMED
        # The session itself may well live on: the znode must not stay.
        await enter(acquire(make(b), PATIENCE))


@on_embedded
@recipes
async def test_release_after_the_end_of_the_lease_does_not_hide_the_loss(
    server: ServerUnderTest, b: Client, make: Make
) -> None:
    """The body has held nothing for a while, and releases before anything could cancel it."""
    clock = JumpingClock()
    async with connect(server, clock=clock) as a:
        with pytest.raises(TenureLost) as caught:
            async with acquire(make(a)) as held:
                clock.jump(2 * a.session_timeout)
                await held.release()
                assert last(held).is_released
                assert last(held).loss is LossReason.UNCONFIRMED
        assert caught.value.reason is LossReason.UNCONFIRMED
        await enter(acquire(make(b), PATIENCE))


@recipes
async def test_released_hold_can_be_had_by_others_while_the_body_goes_on(
    a: Client, b: Client, make: Make
) -> None:
    recipe = make(a)
    async with acquire(recipe) as held:
        await held.release()
        assert not held.is_held
        for _ in range(2):
            with pytest.raises(UsageError, match="resigned"):
                held.check()
        async with acquire(make(b), PATIENCE) as other:
            await other.verify()
        await held.release()
    await enter(acquire(recipe, PATIENCE))


@on_embedded
@recipes
async def test_hold_that_was_left_is_held_no_longer(a: Client, make: Make) -> None:
    async with acquire(make(a)) as held:
        await held.verify()
    assert not held.is_held
    assert held.remaining() == 0
    with pytest.raises(UsageError, match="released"):
        held.check()
    with pytest.raises(UsageError, match="released"):
        await held.verify()
    assert await owned(a) == []


@on_embedded
@recipes
async def test_error_of_the_body_propagates_unchanged(a: Client, make: Make) -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with acquire(make(a)):
            raise error
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert await owned(a) == []


@on_embedded
@recipes
async def test_task_that_holds_it_is_not_made_to_wait_for_itself(a: Client, make: Make) -> None:
    recipe = make(a)
    async with acquire(recipe) as held:
        if isinstance(recipe, ReentrantLock):
            async with recipe as again:
                assert again is held
        elif not isinstance(recipe, UniqueNames):
            with pytest.raises(AlreadyHeldError):
                await enter(acquire(recipe))
        held.check()


@on_embedded
@recipes
async def test_client_that_is_closed_ends_holds_and_waits(
    server: ServerUnderTest, b: Client, make: Make
) -> None:
    ended: list[BaseException] = []

    async def enter(recipe: Any, entered: anyio.Event) -> None:
        try:
            async with acquire(recipe):
                entered.set()
                await anyio.sleep_forever()
        except (TenureLost, ClientClosedError) as error:
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(enter, make(client), entered := anyio.Event())
            await entered.wait()
    async with acquire(make(b), PATIENCE), anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(enter, make(client), anyio.Event())
            for _ in range(4):
                await client.sync()  # requests are answered in order: it waits by now
    lost, closed = ended
    assert isinstance(lost, TenureLost)
    assert (lost.reason, lost.session_over) == (LossReason.CLOSED, True)
    assert isinstance(closed, ClientClosedError)
