"""Awaiting one reply in several tasks, beside callbacks: the order, errors, cancellation."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from aiolead._client.api import pending_reply
from aiolead._client.api.pending_reply import PendingReply
from aiolead._session.requests.call import no_result
from aiolead._wire.codes import OpCode
from aiolead.errors import NoNodeError

pytestmark = pytest.mark.both_loops


def reply() -> PendingReply[Any]:
    return PendingReply(OpCode.GET_DATA, b"", no_result)


async def wait_for(pending: PendingReply[Any], name: str, woken: list[tuple[str, Any]]) -> None:
    try:
        woken.append((name, await pending))
    except NoNodeError as error:
        woken.append((name, error))


async def test_tasks_are_woken_in_the_order_in_which_they_came() -> None:
    pending, woken = reply(), list[tuple[str, Any]]()
    async with anyio.create_task_group() as tasks:
        for i in range(3):
            tasks.start_soon(wait_for, pending, f"task {i}", woken)
            await anyio.wait_all_tasks_blocked()
            pending.add_done_callback(partial(woken.append, (f"callback {i}", None)))
        pending._succeed("answer")
        assert woken == [(f"callback {i}", None) for i in range(3)]
        del woken[:]
    # Trio runs the tasks of one turn in any order.
    assert sorted(woken) == [(f"task {i}", "answer") for i in range(3)]


async def test_a_task_does_not_overtake_a_callback() -> None:
    wake, order = PendingReply._wake, list[str]()

    class Noting(PendingReply[Any]):
        __slots__ = ()

        def _wake(self, waiter: Any) -> None:
            order.append("task")
            wake(self, waiter)

    for callback_first in (True, False):
        pending, order = Noting(OpCode.GET_DATA, b"", no_result), []
        if callback_first:
            pending.add_done_callback(partial(order.append, "callback"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for, pending, "waits", [])
            await anyio.wait_all_tasks_blocked()
            if not callback_first:
                pending.add_done_callback(partial(order.append, "callback"))
            pending._succeed("answer")
        assert order == (["callback", "task"] if callback_first else ["task", "callback"])


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_cancelling_one_wait_leaves_the_others(cancelled: int) -> None:
    pending, woken = reply(), list[tuple[str, Any]]()
    scopes = [anyio.CancelScope(), anyio.CancelScope()]

    async def wait_in(scope: anyio.CancelScope, name: str) -> None:
        with scope:
            await wait_for(pending, name, woken)

    async with anyio.create_task_group() as tasks:
        for i, scope in enumerate(scopes):
            tasks.start_soon(wait_in, scope, f"task {i}")
            await anyio.wait_all_tasks_blocked()
        scopes[cancelled].cancel()
        await anyio.wait_all_tasks_blocked()
        pending._succeed("answer")
    assert woken == [(f"task {1 - cancelled}", "answer")]
    assert await pending == "answer"


async def test_an_answer_in_the_moment_of_a_cancellation() -> None:
    """In both orders: a wait that was cancelled is not resumed a second time."""
    for cancel_first in (True, False):
        pending, woken = reply(), list[tuple[str, Any]]()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_for, pending, "task", woken)
                await anyio.wait_all_tasks_blocked()
                steps = [scope.cancel, partial(pending._succeed, "answer")]
                for step in steps if cancel_first else reversed(steps):
                    step()
        await checkpoint()
        assert woken in ([], [("task", "answer")])
        assert await pending == "answer"


async def test_an_error_is_raised_in_each_task() -> None:
    pending, woken, error = reply(), list[tuple[str, Any]](), NoNodeError("/a")
    async with anyio.create_task_group() as tasks:
        for i in range(2):
            tasks.start_soon(wait_for, pending, f"task {i}", woken)
        await anyio.wait_all_tasks_blocked()
        pending._fail(error)
    assert sorted(name for name, _ in woken) == ["task 0", "task 1"]
    assert all(each is error for _, each in woken)
    with pytest.raises(NoNodeError):
        await pending


# --- replies that were answered before they are awaited -------------------------------------------


def answered(answer: str) -> PendingReply[str]:
    pending = reply()
    pending._succeed(answer)
    return pending


async def test_answered_replies_take_no_turn_of_the_event_loop() -> None:
    turns = list[str]()

    async def other() -> None:
        turns.append("another task")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        assert [await answered(f"{i}") for i in range(100)] == [f"{i}" for i in range(100)]
        assert turns == []


async def test_one_look_is_enough_for_all_that_a_task_takes_at_once(
    monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str
) -> None:
    looks = 0

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await checkpoint_if_cancelled()

    monkeypatch.setattr(pending_reply, "checkpoint_if_cancelled", counted)
    for _ in range(2):
        for _ in range(100):
            await answered("an answer")
        await checkpoint()
    # Trio's own look is cheap.
    assert looks == (2 if anyio_backend_name == "asyncio" else 0)


async def test_a_cancelled_task_gets_no_answered_reply() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        pytest.fail(await answered("given to a cancelled task"))
    assert scope.cancelled_caught


async def test_a_cancellation_while_the_task_waited_is_noticed_at_the_next_answered_reply() -> None:
    """Also where the wait itself was shielded, and the task has looked just before it."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            for i in range(2):
                assert await answered(f"{i}") == f"{i}"
            with anyio.CancelScope(shield=True):
                cancelled = anyio.Event()

                async def cancel() -> None:
                    scope.cancel()
                    cancelled.set()

                tasks.start_soon(cancel)
                await cancelled.wait()
            pytest.fail(await answered("given to a cancelled task"))
    assert scope.cancelled_caught


async def test_each_task_looks_for_itself() -> None:
    """The last look was that of another task, in the same turn of the event loop."""
    given = list[str]()

    async def take(scope: anyio.CancelScope) -> None:
        with scope:
            given.append(await answered("an answer"))

    scopes = [anyio.CancelScope() for _ in range(4)]
    for scope in scopes[1::2]:
        scope.cancel()
    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(take, scope)
    assert len(given) == 2
    assert [scope.cancelled_caught for scope in scopes] == [False, True] * 2


async def test_who_cancels_itself_between_two_answered_replies_notices_when_it_waits() -> None:
    with anyio.CancelScope() as scope:
        await answered("the first")
        scope.cancel()
        await answered("given on asyncio, not on trio")
        await checkpoint()
        pytest.fail("the cancellation was not noticed")
    assert scope.cancelled_caught
