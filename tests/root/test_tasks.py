"""The current task and waiting to be woken: as in anyio, at a lower cost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from anyio.lowlevel import checkpoint

from aiolead._client.fast.waiting import Wakeup, current_task_id, wait_shielded
from aiolead._recipes.holding import Contest, TaskGuard, leave_scope


async def test_task_has_the_number_of_anyio() -> None:
    numbers: list[tuple[int, int]] = []

    async def look() -> None:
        numbers.append((current_task_id(), anyio.get_current_task().id))
        await checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(look)
    assert all(ours == anyio_s for ours, anyio_s in numbers)
    assert len(set(numbers)) == 3


async def wait_for(wakeup: Wakeup) -> None:
    await wakeup.wait()


async def test_waiting_task_is_woken_and_a_later_one_does_not_wait() -> None:
    wakeup, order = Wakeup(), []

    async def wait() -> None:
        order.append("waits")
        await wakeup.wait()
        order.append("woken")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert (order, wakeup.is_set()) == (["waits"], False)
        wakeup.set()
        wakeup.set()
        order.append("set")
    assert order == ["waits", "set", "woken"]
    assert wakeup.is_set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await wakeup.wait()  # a checkpoint all the same
        pytest.fail("it was not cancelled")


@pytest.mark.parametrize("has_scope", [True, False])
async def test_shielded_wait_ends_when_it_is_woken_or_with_its_time(has_scope: bool) -> None:
    async def wait(seconds: float, wakeup: Wakeup) -> None:
        with anyio.CancelScope() as scope:
            await wait_shielded(wakeup, seconds, scope if has_scope else None)
            ended.append(seconds)

    ended: list[float] = []
    await wait(0.001, Wakeup())
    wakeup = Wakeup()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 600.0, wakeup)
        tasks.start_soon(wait, 0.002, Wakeup())
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
        wakeup.set()
    assert ended == [0.001, 0.002, 600.0]


@pytest.mark.parametrize("is_woken", [True, False])
async def test_end_of_a_shielded_wait_does_not_hide_a_cancellation(is_woken: bool) -> None:
    """Even if both come at the same moment."""
    propagates = False
    with anyio.CancelScope() as outer:
        scope = anyio.CancelScope()
        scope.__enter__()
        outer.cancel()
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            wakeup = Wakeup()
            if is_woken:
                wakeup.set()
            await wait_shielded(wakeup, 0.0, scope)
            left = leave_scope(scope, type(error), error, error.__traceback__)
            propagates = left is error
            raise
    assert propagates
    assert outer.cancelled_caught


async def test_cancelled_wait_leaves_the_wakeup_unchanged() -> None:
    wakeup = Wakeup()
    for _ in range(2):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_for, wakeup)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert not wakeup.is_set()
    # Set in the same moment, in both orders: the cancelled task has not run yet.
    for cancel_first, each in ((True, wakeup), (False, Wakeup())):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for, each)
            await anyio.wait_all_tasks_blocked()
            actions = [tasks.cancel_scope.cancel, each.set]
            for action in actions if cancel_first else reversed(actions):
                action()
        assert each.is_set()


async def test_second_waiting_task_is_refused() -> None:
    wakeup = Wakeup()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for, wakeup)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="another task"):
            await wakeup.wait()
        wakeup.set()


def test_guest_run_of_trio_in_asyncio_is_trio() -> None:
    """Both event loops run in the thread."""

    async def wakes_itself() -> int:
        wakeup = Wakeup()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, wakeup)
            await trio.testing.wait_all_tasks_blocked()
            wakeup.set()
        return current_task_id() - id(trio.lowlevel.current_task())

    async def host() -> int:
        over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        trio.lowlevel.start_guest_run(
            wakes_itself,
            run_sync_soon_threadsafe=asyncio.get_running_loop().call_soon_threadsafe,
            done_callback=over.set_result,
        )
        wakeup = Wakeup()
        asyncio.get_running_loop().call_soon(wakeup.set)
        await wakeup.wait()
        difference: int = (await over).unwrap()
        return difference

    assert asyncio.run(host()) == 0


def steps(call: Callable[[], object]) -> int:
    """How many instructions of Python a call takes."""
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # Twice: Python 3.12 traces the instructions of code only from the next call on.
    for _ in range(2):
        count = 0
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


async def test_cost_of_a_wait_does_not_depend_on_the_number_of_waits() -> None:
    contest: Contest[Any] = object.__new__(Contest)
    contest.guard, contest.check_task = TaskGuard(), None

    async def wait() -> None:
        contest.enter(forever=True)
        await anyio.sleep_forever()

    def enter_and_leave() -> None:
        contest.leave(contest.enter(forever=True))

    alone = steps(enter_and_leave)
    assert alone > 0
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert steps(enter_and_leave) == alone
        tasks.cancel_scope.cancel()
