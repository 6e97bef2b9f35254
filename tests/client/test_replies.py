"""Replies: awaited by several tasks, given to tasks of the program, or dropped."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from kit.clients import connect
from kit.selection import BACKENDS

import aiolead
from aiolead import Client, NoNodeError
from aiolead._client.core import PendingReply
from aiolead._client.fast import waiting
from aiolead._session.requests import no_result
from aiolead._wire.codes import OpCode
from aiolead.errors import ClientClosedError, UsageError
from aiolead.testing import EmbeddedServer

Woken = list[tuple[str, Any]]


def pending_reply() -> PendingReply[Any]:
    return PendingReply(OpCode.GET_DATA, b"", no_result)


async def wait_for(pending: PendingReply[Any], name: str, woken: Woken) -> None:
    try:
        woken.append((name, await pending))
    except NoNodeError as error:
        woken.append((name, error))


@pytest.mark.both_loops
async def test_callbacks_run_before_the_tasks_that_wait() -> None:
    pending, woken = pending_reply(), Woken()
    async with anyio.create_task_group() as tasks:
        for i in range(3):
            tasks.start_soon(wait_for, pending, f"task {i}", woken)
            await anyio.wait_all_tasks_blocked()
            pending.add_done_callback(partial(woken.append, (f"callback {i}", None)))
        pending.succeed("answer")
        assert woken == [(f"callback {i}", None) for i in range(3)]
        del woken[:]
    # Trio runs the tasks of one turn in any order.
    assert sorted(woken) == [(f"task {i}", "answer") for i in range(3)]


@pytest.mark.both_loops
@pytest.mark.parametrize("order", [["callback", "task"], ["task", "callback"]])
async def test_callback_and_task_run_in_the_order_in_which_they_came(order: list[str]) -> None:
    ran: list[str] = []

    class Noting(PendingReply[Any]):
        __slots__ = ()

        def _wake(self, waiter: Any) -> None:
            ran.append("task")
            super()._wake(waiter)

    pending = Noting(OpCode.GET_DATA, b"", no_result)
    async with anyio.create_task_group() as tasks:
        for each in order:
            if each == "callback":
                pending.add_done_callback(partial(ran.append, "callback"))
            else:
                tasks.start_soon(wait_for, pending, "waits", Woken())
                await anyio.wait_all_tasks_blocked()
        pending.succeed("answer")
    assert ran == order


@pytest.mark.both_loops
@pytest.mark.parametrize("cancelled", [0, 1])
async def test_cancelling_one_wait_leaves_the_others(cancelled: int) -> None:
    pending, woken = pending_reply(), Woken()
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
        pending.succeed("answer")
    assert woken == [(f"task {1 - cancelled}", "answer")]
    assert await pending == "answer"


@pytest.mark.both_loops
@pytest.mark.parametrize("cancel_first", [True, False])
async def test_wait_cancelled_as_the_answer_comes_is_resumed_once(cancel_first: bool) -> None:
    pending, woken = pending_reply(), Woken()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for, pending, "task", woken)
            await anyio.wait_all_tasks_blocked()
            steps = [scope.cancel, partial(pending.succeed, "answer")]
            for step in steps if cancel_first else reversed(steps):
                step()
    await checkpoint()
    assert woken in ([], [("task", "answer")])
    assert await pending == "answer"


@pytest.mark.both_loops
async def test_error_is_raised_in_each_task() -> None:
    pending, woken, error = pending_reply(), Woken(), NoNodeError("/a")
    async with anyio.create_task_group() as tasks:
        for i in range(2):
            tasks.start_soon(wait_for, pending, f"task {i}", woken)
        await anyio.wait_all_tasks_blocked()
        pending.fail(error)
    assert sorted(name for name, _ in woken) == ["task 0", "task 1"]
    assert all(each is error for _, each in woken)
    with pytest.raises(NoNodeError):
        await pending


# --- replies that were answered before they are awaited -------------------------------------------


def answered(answer: str) -> PendingReply[str]:
    pending = pending_reply()
    pending.succeed(answer)
    return pending


@pytest.mark.both_loops
async def test_answered_replies_take_no_turn_of_the_event_loop() -> None:
    turns = list[str]()

    async def other() -> None:
        turns.append("another task")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        assert [await answered(f"{i}") for i in range(100)] == [f"{i}" for i in range(100)]
        assert turns == []


@pytest.mark.both_loops
async def test_cancellation_is_looked_for_once_per_turn(
    monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str
) -> None:
    looks = 0

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await checkpoint_if_cancelled()

    monkeypatch.setattr(waiting, "checkpoint_if_cancelled", counted)
    for _ in range(2):
        for _ in range(100):
            await answered("an answer")
        await checkpoint()
    # Trio's own look is cheap.
    assert looks == (2 if anyio_backend_name == "asyncio" else 0)


@pytest.mark.both_loops
async def test_cancelled_task_gets_no_answered_reply() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        pytest.fail(await answered("given to a cancelled task"))
    assert scope.cancelled_caught


@pytest.mark.both_loops
async def test_cancellation_during_a_wait_is_noticed_at_the_next_answered_reply() -> None:
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


@pytest.mark.both_loops
async def test_each_task_looks_for_its_own_cancellation() -> None:
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


@pytest.mark.both_loops
async def test_task_that_cancels_itself_between_answered_replies_notices_when_it_waits() -> None:
    with anyio.CancelScope() as scope:
        await answered("the first")
        scope.cancel()
        await answered("given on asyncio, not on trio")
        await checkpoint()
        pytest.fail("the cancellation was not noticed")
    assert scope.cancelled_caught


# --- requests in tasks ---------------------------------------------------------------------------

ASYNCIO = [each for each in BACKENDS if each.values[0][0] == "asyncio"]  # type: ignore[index]
TRIO = [each for each in BACKENDS if each.values[0][0] == "trio"]  # type: ignore[index]


on_asyncio = pytest.mark.parametrize("anyio_backend", ASYNCIO)
on_trio = pytest.mark.parametrize("anyio_backend", TRIO)

Get = Callable[[], Awaitable[Any]]
"""Reads a znode."""


async def _in_a_task_group(get: Get) -> Any:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(get())  # type: ignore[arg-type]
    return task.result()


async def _gathered(get: Get) -> Any:
    first, _ = await asyncio.gather(get(), get())
    return first


async def _as_completed(get: Get) -> Any:
    (first,) = [await each for each in asyncio.as_completed([get()])]
    return first


async def _waited(get: Get) -> Any:
    done, _ = await asyncio.wait([asyncio.ensure_future(get())])
    return done.pop().result()


USES: dict[str, Callable[[Get], Awaitable[Any]]] = {
    "create_task": lambda get: asyncio.create_task(get()),  # type: ignore[arg-type]
    "TaskGroup": _in_a_task_group,
    "ensure_future": lambda get: asyncio.ensure_future(get()),
    "gather": _gathered,
    "wait_for": lambda get: asyncio.wait_for(get(), 30),
    "shield": lambda get: asyncio.shield(get()),
    "as_completed": _as_completed,
    "wait": _waited,
    "thread": lambda get: anyio.to_thread.run_sync(lambda: anyio.from_thread.run(get)),
}


@pytest.fixture
async def client(client: Client) -> Client:
    """A client; there is one znode."""
    await client.create("/a", b"x")
    return client


@on_asyncio
@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_asyncio_awaits_request(client: Client, use: Callable[[Get], Awaitable[Any]]) -> None:
    for _ in range(2):
        data, stat = await use(lambda: client.get("/a"))
        assert (data, stat.version) == (b"x", 0)


@on_asyncio
async def test_asyncio_wait_refuses_a_request_at_once(client: Client) -> None:
    with pytest.raises(TypeError, match="use tasks explicitly"):
        await asyncio.wait([client.get("/a")])  # type: ignore[type-var]


@on_asyncio
async def test_error_of_a_request_ends_its_task(client: Client) -> None:
    async def grouped() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.delete("/none"))

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.create_task(grouped())
    (error,) = caught.value.exceptions
    assert isinstance(error, NoNodeError)
    answered = client.delete("/none")
    await client.sync()
    with pytest.raises(NoNodeError):
        await asyncio.create_task(answered)


@on_asyncio
async def test_cancelled_task_leaves_the_request(client: Client) -> None:
    reply = client.get("/a")
    early, late = asyncio.create_task(reply), asyncio.create_task(client.get("/a"))
    early.cancel()  # before it has begun
    await asyncio.sleep(0)
    late.cancel()
    for task in (early, late):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await reply)[0] == b"x"
    assert (await asyncio.create_task(reply))[0] == b"x"


@on_asyncio
async def test_one_task_at_a_time_is_made_of_a_request(client: Client) -> None:
    """They may await one request; only one may be made of it while it is under way."""

    async def awaited() -> bytes:
        return (await reply)[0]

    reply = client.get("/a")
    assert await asyncio.gather(awaited(), awaited()) == [b"x", b"x"]
    reply = client.get("/a")
    first, second = asyncio.create_task(reply), asyncio.create_task(reply)
    assert (await first)[0] == b"x"
    with pytest.raises(UsageError, match="a task was made of this request already"):
        await second


async def test_call_in_a_task_group_of_anyio_is_sent(client: Client) -> None:
    def start(tasks: Any) -> None:
        tasks.start_soon(client.create, "/b")

    try:
        async with anyio.create_task_group() as tasks:
            start(tasks)
    except (TypeError, ExceptionGroup) as error:  # anyio before 4.13, on asyncio
        said = repr(getattr(error, "exceptions", [error])[0])
        assert "await it, in an `async def` if a task group is to start that" in said
    assert await client.exists("/b") is not None  # it was sent at the call


async def test_request_of_a_cancelled_task_group_is_left(client: Client) -> None:
    """anyio asks a task that it cancels whether it has begun."""
    async with anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(client.get, "/a")
        except TypeError:
            pytest.skip("an anyio that starts `async def` alone")
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert (await client.get("/a"))[0] == b"x"


@on_trio
async def test_call_in_a_nursery_of_trio_is_sent(client: Client) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.create, "/b")
    assert await client.exists("/b") is not None
    with pytest.raises(ExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.create, "/b")
    assert isinstance(caught.value.exceptions[0], aiolead.NodeExistsError)


async def test_request_has_no_truth_value(client: Client) -> None:
    reply = client.exists("/a")
    with pytest.raises(UsageError, match=r"a request has no truth value: await it.*EXISTS /a"):
        bool(reply)
    assert await reply


async def test_transaction_that_is_not_committed_warns(client: Client) -> None:
    with pytest.warns(RuntimeWarning, match="never committed, so nothing was written .*on /n"):
        client.transaction().create("/n")
    async with aiolead.Lock(client, "/l").acquire() as held:
        with pytest.warns(RuntimeWarning, match="never committed.*on /n"):
            held.fenced().transaction().create("/n")
        held.fenced().transaction()
        await held.fenced().create("/m")
    client.transaction()  # of nothing
    await client.transaction().create("/o")
    with pytest.raises(aiolead.errors.ConfigurationError):
        await client.transaction()
    gc.collect()
    assert await client.exists("/n") is None


async def test_transaction_of_a_closed_client_does_not_warn(zk: EmbeddedServer) -> None:
    async with connect(zk) as client:
        transaction = client.transaction().create("/n")
    with warnings.catch_warnings(action="error"):
        del transaction
        gc.collect()


# --- requests that are dropped -------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records if "never awaited" in record.message]


DROPPED: dict[str, Callable[[Client], Any]] = {
    "DELETE /none": lambda client: client.delete("/none"),
    "GET_DATA /none": lambda client: client.get("/none"),
    "MULTI /none": lambda client: client.transaction().delete("/none").commit(),
}
exhaustive = pytest.mark.exhaustive("each request is one case", one_in=2)


@exhaustive
@pytest.mark.parametrize("what", DROPPED)
@pytest.mark.parametrize("when", ["before it fails", "after it has failed"])
async def test_dropped_request_that_fails_is_logged(
    client: Client, what: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [DROPPED[what](client)]
    if when == "after it has failed":
        await client.sync()
        assert logged(caplog) == []  # the program may still ask for it
    with pytest.warns(RuntimeWarning, match=f"was never awaited has failed: {what}: "):
        await _drop(client, replies)
    (message,) = logged(caplog)
    assert message.startswith(f"a request that was never awaited has failed: {what}: ")


async def _drop(client: Client, replies: list[Any]) -> None:
    replies.clear()
    gc.collect()
    await client.sync()
    gc.collect()


async def _awaited(client: Client) -> None:
    with pytest.raises(NoNodeError):
        await client.delete("/none")


async def _awaited_late(client: Client) -> None:
    reply = client.delete("/none")
    await client.sync()
    with pytest.raises(NoNodeError):
        await reply


async def _asked_for_its_error(client: Client) -> None:
    reply = client.delete("/none")
    await client.sync()
    assert isinstance(reply.error(), NoNodeError)


async def _asked_in_a_callback(client: Client) -> None:
    reply = client.delete("/none")
    reply.add_done_callback(reply.error)


async def _cancelled(client: Client) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.delete("/none")


async def _succeeded(client: Client) -> None:
    client.create("/b")


async def _made_by_a_recipe(client: Client) -> None:
    client.backend.unlimited().delete("/none")


@exhaustive
@pytest.mark.parametrize(
    "use",
    [
        _awaited,
        _awaited_late,
        _asked_for_its_error,
        _asked_in_a_callback,
        _cancelled,
        _succeeded,
        _made_by_a_recipe,
    ],
)
async def test_request_whose_outcome_was_seen_or_is_no_news_is_not_logged(
    client: Client, use: Callable[[Client], Any], caplog: pytest.LogCaptureFixture
) -> None:
    await use(client)
    await client.sync()
    assert logged(caplog) == []


@exhaustive
async def test_request_under_way_at_the_close_is_not_logged(
    client: Client, zk: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    zk.pause()
    reply = client.delete("/none")
    client._core.machine.closed()
    assert reply.is_done
    zk.resume()
    del reply
    with pytest.raises(ClientClosedError):
        await client.get("/")
    assert logged(caplog) == []
