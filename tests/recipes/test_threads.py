"""A hold that threads, callbacks and signal handlers look at: only its own event loop ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import OVER_AIOZK, SESSION, JumpingClock, connect, eventually
from kit.elsewhere import in_thread
from recipes.blocks import enter

from aiolead import (
    Client,
    Election,
    Group,
    LeadershipLost,
    Lock,
    MultiLock,
    PersistentNode,
    Queue,
    Term,
    TreeCache,
)
from aiolead._recipes.holding import TenureContext
from aiolead.errors import ClientClosedError, LossReason, UsageError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.parametrize("server", ["embedded"], indirect=True),
    pytest.mark.both_loops,
]

PATH = "/election"


def refused(term: Term) -> None:
    with pytest.raises(LeadershipLost):
        term.check()


class Body:
    """The body of a term in a task of its own, and what has become of it."""

    def __init__(self) -> None:
        self.entered, self.may_end = anyio.Event(), anyio.Event()
        self.term: Term
        self.steps: list[str] = []
        self.loss: LeadershipLost | None = None

    async def run(self, election: Election) -> None:
        try:
            async with election.leadership() as self.term:
                self.term.add_lost_callback(lambda: self.steps.append("called back"))
                self.entered.set()
                try:
                    await self.may_end.wait()
                except anyio.get_cancelled_exc_class():
                    self.steps.append("cancelled")
                    raise
        except LeadershipLost as loss:
            self.loss = loss


@asynccontextmanager
async def leading(client: Client) -> AsyncIterator[Body]:
    """A body that is waited for at the end of the block: it must have been cancelled."""
    body = Body()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(body.run, Election(client, PATH))
        await body.entered.wait()
        try:
            yield body
            await eventually(lambda: body.loss is not None, "the body has ended", within=5)
        finally:
            body.may_end.set()  # where nothing can cancel it any more


async def test_scope_cancels_a_body_whose_loss_a_thread_saw(server: ServerUnderTest) -> None:
    clock, body = JumpingClock(), Body()
    async with connect(server, clock=clock) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(body.run, Election(client, PATH))
        await body.entered.wait()
        clock.jump(2 * SESSION)
        in_thread(lambda: refused(body.term))
        tasks.cancel_scope.cancel()
        with anyio.move_on_after(5, shield=True):
            await eventually(lambda: bool(body.steps), "the body was cancelled")
        body.may_end.set()
    assert "cancelled" in body.steps


async def test_thread_that_asks_many_times_wakes_the_loop_once(
    server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = JumpingClock()
    async with connect(server, clock=clock) as client, leading(client) as body:
        clock.jump(2 * SESSION)
        core, woken = client._core, []
        wake = core.wake
        monkeypatch.setattr(core, "wake", lambda: (woken.append(None), wake()))

        def ask() -> None:
            for _ in range(1000):
                with suppress(LeadershipLost):
                    body.term.check()

        in_thread(ask)
        await eventually(lambda: bool(woken), "the event loop was woken", within=5)
        await eventually(lambda: body.loss is not None, "the body has ended", within=5)
        assert len(woken) == 1


# --- in the thread of the event loop, but in no task ---------------------------------------------


@contextmanager
def handling_signals(function: Callable[[], object]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: function())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


async def in_a_callback(function: Callable[[], object]) -> None:
    """Have the event loop call a function: on asyncio in no task, on trio in a system task."""
    done = anyio.Event()

    def call() -> None:
        function()
        done.set()

    if trio.lowlevel.in_trio_run():
        trio.lowlevel.current_trio_token().run_sync_soon(call)
    else:
        asyncio.get_running_loop().call_soon(call)
    await done.wait()


async def in_a_signal_handler(function: Callable[[], object]) -> None:
    with handling_signals(function):
        signal.raise_signal(signal.SIGUSR1)


class _Dropped:
    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def __del__(self) -> None:
        self._function()


async def as_an_object_is_dropped(function: Callable[[], object]) -> None:
    del (dropped := [_Dropped(function)])[0]
    assert dropped == []


async def in_another_task(function: Callable[[], object]) -> None:
    function()


async def in_a_signal_handler_while_the_loop_sleeps(function: Callable[[], object]) -> None:
    """The handler runs in no task, while the event loop waits for something to happen."""
    called = threading.Event()
    thread = threading.get_ident()

    def handle() -> None:
        function()
        called.set()

    def interrupt() -> None:
        # The event loop is asleep by then, or will be interrupted in one of its own steps.
        time.sleep(0.05)
        signal.pthread_kill(thread, signal.SIGUSR1)

    with handling_signals(handle):
        await anyio.to_thread.run_sync(interrupt)
        await eventually(called.is_set, "the handler has run")


CALLERS = [
    in_a_signal_handler_while_the_loop_sleeps,
    in_a_callback,
    in_a_signal_handler,
    as_an_object_is_dropped,
    in_another_task,
]


@pytest.mark.parametrize("caller", CALLERS)
async def test_every_caller_in_the_thread_of_the_loop_sees_the_loss_and_the_body_ends(
    server: ServerUnderTest, caller: Any
) -> None:
    clock = JumpingClock()
    seen: list[Any] = []

    def look() -> None:
        try:
            body.term.check()
        except LeadershipLost as loss:
            seen.append(loss.reason)

    async with connect(server, clock=clock) as client, leading(client) as body:
        clock.jump(2 * SESSION)
        await caller(look)
    assert seen == [LossReason.UNCONFIRMED]
    assert sorted(body.steps) == ["called back", "cancelled"]


# --- callbacks for the loss ----------------------------------------------------------------------


async def test_callbacks_of_several_threads_are_called_once(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    calls: list[int] = []
    async with connect(server, clock=clock) as client, leading(client) as body:
        began = threading.Barrier(5)

        def register(first: int) -> None:
            began.wait()
            for number in range(first, first + 500):
                body.term.add_lost_callback(lambda number=number: calls.append(number))

        async with anyio.create_task_group() as threads:
            for first in range(0, 2000, 500):
                threads.start_soon(anyio.to_thread.run_sync, register, first)
            await anyio.to_thread.run_sync(began.wait)
            clock.jump(2 * SESSION)
    assert sorted(calls) == list(range(2000))


# --- what only the event loop may do -------------------------------------------------------------


USES: dict[str, Callable[[Term, Election], Awaitable[object]]] = {
    "release": lambda term, _: term.release(),
    "resign": lambda term, _: term.resign(),
    "revocation_requested": lambda term, _: term.revocation_requested(),
    "verify": lambda term, _: term.verify(),
    "leadership": lambda _, election: enter(election.leadership()),
}


other_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


async def run_elsewhere(loop: str, function: Callable[..., Any], *args: Any) -> None:
    """Runs a coroutine function on an event loop of its own, in another thread."""
    await anyio.to_thread.run_sync(lambda: anyio.run(function, *args, backend=loop))


@other_loops
@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_use_on_another_event_loop_is_refused(client: Client, use: Any, loop: str) -> None:
    election = Election(client, PATH)
    async with election.leadership() as term:
        with pytest.raises(UsageError, match="another thread"):
            await run_elsewhere(loop, use, term, election)
        term.check()
        assert not term.is_released
        assert term.statistics().is_held
        await term.verify()


@other_loops
async def test_block_is_not_left_in_another_event_loop(client: Client, loop: str) -> None:
    lock, several = Lock(client, "/a"), MultiLock(Lock(client, "/b"))
    context = Lock(client, "/c").acquire()
    async with lock as held, several as all_held, context as other:
        for each in (lock, several, context):
            with pytest.raises(UsageError, match="another thread"):
                await run_elsewhere(loop, each.__aexit__, None, None, None)
        for each in (held, all_held, other):
            each.check()
    assert not held.is_held


OPEN: dict[str, Callable[[Client], Any]] = {
    "view": lambda client: client.observe_data("/"),
    "states": lambda client: client.observe(),
    "stream": lambda client: client.watch("/", recursive=True),
    "tree": lambda client: TreeCache(client, "/"),
    "campaign": lambda client: Election(client, PATH).campaign(),
    "membership": lambda client: Group(client, "/group").join(identity="m"),
    "node": lambda client: PersistentNode(client, "/node"),
    "items": lambda client: Queue(client, "/queue").consume(),
}


@other_loops
@pytest.mark.parametrize("make", OPEN.values(), ids=OPEN)
async def test_open_views_are_neither_left_nor_read_in_another_event_loop(
    client: Client, make: Callable[[Client], Any], loop: str
) -> None:
    context = make(client)
    async with context:
        uses = [lambda: context.__aexit__(None, None, None)]
        if hasattr(context, "__anext__"):
            uses.append(context.__anext__)
        elif hasattr(context, "__aiter__") and hasattr(context, "value"):
            uses.append(aiter(context).__anext__)
        for use in uses:
            with pytest.raises(UsageError):
                await run_elsewhere(loop, use)
        if hasattr(context, "is_live"):
            assert context.is_live
        await client.get("/")
    # And it is left by the task that has entered it.
    await client.get("/")


@pytest.mark.skipif(OVER_AIOZK, reason="closes aiozk's client, too: see test_aiozk.py")
@other_loops
async def test_other_event_loop_does_not_close_a_client(server: ServerUnderTest, loop: str) -> None:
    connection = connect(server)
    async with connection as client, Lock(client, "/lock") as held:
        with pytest.raises(UsageError, match="another thread"):
            await run_elsewhere(loop, connection.__aexit__, None, None, None)
        await held.verify()


def test_check_after_the_event_loop_was_closed_raises_the_loss(
    server: ServerUnderTest, internal_errors: list[logging.LogRecord]
) -> None:
    clock, body = JumpingClock(), Body()

    async def main() -> None:
        async with connect(server, clock=clock) as client:
            tasks.append(asyncio.create_task(body.run(Election(client, PATH))))
            await body.entered.wait()
            stopped.set()
            await asyncio.Event().wait()

    tasks: list[asyncio.Task[None]] = []
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()
    task = loop.create_task(main())
    loop.run_until_complete(stopped.wait())
    clock.jump(2 * SESSION)
    # The loop is closed as a program does it that forgets its tasks.
    loop.close()
    with pytest.raises(LeadershipLost):
        body.term.check()
    assert not body.term.is_held
    assert body.steps == []
    assert internal_errors == []
    for each in (task, *tasks):
        each._log_destroy_pending = False  # type: ignore[attr-defined]


async def test_closed_client_is_the_reason_of_the_loss_in_a_thread(server: ServerUnderTest) -> None:
    body = Body()
    async with anyio.create_task_group() as tasks:
        async with connect(server) as client:
            tasks.start_soon(body.run, Election(client, PATH))
            await body.entered.wait()
        await eventually(lambda: body.loss is not None, "the body has ended")
        with pytest.raises(LeadershipLost) as caught:
            in_thread(body.term.check)
        assert caught.value.reason is LossReason.CLOSED
        with pytest.raises((ClientClosedError, UsageError)):
            in_thread(lambda: client.get("/"))


# --- a cancellation that fails -------------------------------------------------------------------


async def test_body_that_could_not_be_cancelled_is_cancelled_at_the_next_tick(
    server: ServerUnderTest,
    monkeypatch: pytest.MonkeyPatch,
    internal_errors: list[logging.LogRecord],
) -> None:
    clock = JumpingClock()
    cancel, tries = TenureContext._on_lost, []

    def fails_first(scope: TenureContext[Any]) -> None:
        tries.append(scope)
        if len(tries) == 1:
            raise RuntimeError("no running event loop")
        cancel(scope)

    monkeypatch.setattr(TenureContext, "_on_lost", fails_first)
    async with connect(server, clock=clock) as client, leading(client) as body:
        clock.jump(2 * SESSION)
        await eventually(lambda: bool(tries), "the loss is noticed")
        with pytest.raises(LeadershipLost):
            body.term.check()
    assert len(tries) == 2
    assert sorted(body.steps) == ["called back", "cancelled"]
    assert len(internal_errors) == 1


async def test_thread_may_read_whether_a_changing_view_is_live(
    server: ServerUnderTest,
) -> None:
    """Threads take turns as often as Python allows, so that a read meets each step of a change."""
    failed: list[BaseException] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            try:
                assert view.is_live in (False, True)
            except Exception as error:
                failed.append(error)
                return

    before = sys.getswitchinterval()
    async with connect(server) as a, connect(server) as b, Group(a, "/group").observe() as view:
        await b.ensure_path("/group")
        for number in range(30):
            await b.create(f"/group/member{number}")
        sys.setswitchinterval(1e-6)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, read)
                for number in range(100):
                    await b.create(f"/group/guest{number}")
                    await b.delete(f"/group/guest{number}")
                is_over.set()
        finally:
            sys.setswitchinterval(before)
    assert failed == []
