"""A worker for each term: `election.run(worker)`, and `election.running(worker)` for a block."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    JumpingClock,
    connect,
    contenders_left,
    eventually,
    joined,
    names,
    raw,
)
from kit.selection import on_embedded
from kit.tasks import ON_EVERY_LOOP, in_ordinary_task, on_asyncio
from kit.tasks import Run as RunOnLoop
from kit.virtual_time import (
    VirtualClock,
    embedded,
    on_virtual_time,
    passes,
    virtually,
    with_virtual_server,
)
from kit.virtual_time import connect as connect_virtually
from recipes.blocks import enter

from aiolead import ACL, Client, Election, Term
from aiolead._session.machine import SessionMachine
from aiolead.errors import (
    AlreadyHeldError,
    ClientClosedError,
    ConfigurationError,
    InternalError,
    LeadershipLost,
    LossReason,
    UsageError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"

Run = Callable[[Election, Any], Awaitable[None]]


class Work:
    """A worker that leads until it is cancelled, and takes a moment to end."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.ended = 0

    @property
    def is_on(self) -> bool:
        return len(self.terms) > self.ended

    async def leads(self, terms: int = 1) -> None:
        await eventually(lambda: len(self.terms) >= terms, f"it has led {terms} times")

    async def __call__(self, term: Term) -> None:
        self.terms.append(term)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            self.ended += 1


async def run(election: Election, worker: Any) -> None:
    await election.run(worker)


async def running(election: Election, worker: Any) -> None:
    async with election.running(worker):
        await anyio.sleep_forever()


both = pytest.mark.parametrize("runs", [run, running])


# --- both of them --------------------------------------------------------------------------------


@both
async def test_lost_term_is_followed_by_another(
    server: ServerUnderTest, a: Client, runs: Run
) -> None:
    work = Work()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runs, Election(a, PATH), work)
        for number in range(3):
            await work.leads(number + 1)
            with raw(server) as operator:
                operator.delete(work.terms[number].path)
        await work.leads(4)
        tasks.cancel_scope.cancel()
    for term in work.terms[:3]:
        with pytest.raises(LeadershipLost):
            term.check()
    tokens = [term.token for term in work.terms]
    assert tokens == sorted(set(tokens))
    assert not work.is_on
    await joined(a, PATH, 0)


@on_embedded
@both
@pytest.mark.parametrize(
    "error", [KeyError("mine"), ExceptionGroup("mine", [KeyError("one")])], ids=["bare", "group"]
)
@pytest.mark.parametrize("cause", [None, KeyError("cause")], ids=["no cause", "cause"])
async def test_error_of_the_worker_propagates_unchanged(
    a: Client, runs: Run, error: Exception, cause: Exception | None
) -> None:
    async def work(_term: Term) -> None:
        raise error from cause

    with anyio.fail_after(PATIENCE), pytest.raises(type(error)) as caught:
        await runs(Election(a, PATH), work)
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (cause, None)
    assert await names(a, PATH) == []


@on_embedded
@both
async def test_it_ends_with_its_client(server: ServerUnderTest, runs: Run) -> None:
    work = Work()

    async def run_until_closed(election: Election) -> None:
        with pytest.raises(ClientClosedError):
            await runs(election, work)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            async with connect(server) as client:
                tasks.start_soon(run_until_closed, Election(client, PATH))
                await work.leads()
    assert len(work.terms) == 1


@on_embedded
async def test_wrong_arguments_are_refused(a: Client) -> None:
    async def worker() -> None:
        pass

    election = Election(a, PATH)
    for call in (election.run, election.running):
        for wrong in (None, "x"):
            with pytest.raises(ConfigurationError, match="worker: must be a function"):
                await call(wrong)  # type: ignore[arg-type, misc]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UsageError, match=r"write `run\(worker\)` instead of"):
                await call(worker())  # type: ignore[arg-type, misc]
    assert await names(a, PATH) == []


# --- run -----------------------------------------------------------------------------------------


async def test_contenders_whose_workers_return_take_turns(a: Client, b: Client) -> None:
    """A worker that returns resigns, and its contender goes to the end of the queue."""
    terms: list[tuple[str, int]] = []

    class Enough(Exception):
        pass

    async def work(term: Term) -> None:
        term.check()
        terms.append((term.identity, term.token))
        await joined(a, PATH, 2)
        if len(terms) == 6:
            raise Enough

    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(Election(a, PATH, identity="a").run, work, pause=0))
            await joined(a, PATH, 1)
            tasks.start_soon(partial(Election(b, PATH, identity="b").run, work, pause=0))
    assert [type(error) for error in caught.value.exceptions] == [Enough]
    await joined(a, PATH, 0)
    # The seventh may have begun before the error has come out of the sixth.
    assert [name for name, _ in terms][:6] == ["a", "b", "a", "b", "a", "b"]
    tokens = [token for _, token in terms]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("pause", [None, 2.5], ids=["default", "given"])
@with_virtual_server
async def test_terms_of_a_worker_that_returns_are_a_pause_apart(
    server: EmbeddedServer, a: Client, b: Client, pause: float | None
) -> None:
    """Nothing is held then, and another contender may lead."""
    span = 1.0 if pause is None else pause
    began: list[float] = []

    async def work(_term: Term) -> None:
        began.append(anyio.current_time())

    options = {} if pause is None else {"pause": pause}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(Election(a, PATH).run, work, **options))
        await passes(span / 2)
        assert contenders_left(server, PATH) == []
        async with Election(b, PATH).leadership(timeout=0):
            pass
        await passes(20.0)
        tasks.cancel_scope.cancel()
    apart = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert len(apart) >= 7
    assert all(span <= each < span + 0.01 for each in apart)


@with_virtual_server
async def test_lost_term_is_followed_by_another_without_a_pause(a: Client, b: Client) -> None:
    began: list[float] = []

    async def work(term: Term) -> None:
        began.append(anyio.current_time())
        await passes(0.5)
        with anyio.CancelScope(shield=True):
            await b.delete(term.path)
        await anyio.sleep_forever()

    with anyio.move_on_after(3.0):
        await Election(a, PATH).run(work, pause=100.0)
    assert len(began) > 3


@with_virtual_server
async def test_term_that_the_servers_refuse_to_confirm_is_followed_by_a_pause(a: Client) -> None:
    """They would refuse to confirm the next one at once, too."""
    unreadable = [ACL(Permission.ALL & ~Permission.READ, "world", "anyone")]
    began: list[float] = []
    losses: list[LossReason | None] = []

    async def work(term: Term) -> None:
        began.append(anyio.current_time())
        try:
            await anyio.sleep_forever()
        finally:
            losses.append(term.loss)

    await a.ensure_path(PATH)  # else it would be unreadable, too
    with anyio.move_on_after(10.5):
        await Election(a, PATH, acl=unreadable).run(work)
    assert set(losses[:-1]) == {LossReason.REFUSED}
    apart = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert len(apart) >= 7
    assert all(1.0 <= each < 1.1 for each in apart)


@pytest.mark.parametrize("nested", [1, 2])
@virtually
async def test_loss_that_tasks_of_the_worker_notice_is_followed_by_another_term(
    nested: int,
) -> None:
    """`term.check()` raises in a task group of the worker, which wraps what it raises."""
    terms: list[Term] = []

    async def watch(term: Term) -> None:
        while True:
            await anyio.sleep(0.005)
            term.check()

    async def in_groups(term: Term, depth: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, term)
            if depth > 1:
                await in_groups(term, depth - 1)
            elif len(terms) < 3:
                clock.jump(2 * a.session_timeout)

    async def work(term: Term) -> None:
        terms.append(term)
        await in_groups(term, nested)

    clock = JumpingClock(VirtualClock())
    async with embedded() as server, connect_virtually(server, clock=clock) as a:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Election(a, PATH).run, work)
            await eventually(lambda: len(terms) == 3, "three terms")
            terms[2].check()
            tasks.cancel_scope.cancel()


@virtually
async def test_loss_at_the_moment_of_the_cancellation_is_no_error_of_the_run() -> None:
    """On trio, the group of the worker has the cancellation beside the loss."""
    clock, ended = JumpingClock(VirtualClock()), list[BaseException]()

    async def check_at_the_end(term: Term) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            term.check()

    async def work(term: Term) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(check_at_the_end, term)
            tasks.start_soon(anyio.sleep_forever)
            await passes(1.0)
            clock.jump(2 * a.session_timeout)
            scope.cancel()

    async with embedded() as server, connect_virtually(server, clock=clock) as a:
        with anyio.CancelScope() as scope:
            try:
                await Election(a, PATH).run(work)
            except BaseException as error:
                ended.append(error)
                raise
        (end,) = ended
        while isinstance(end, BaseExceptionGroup):
            (end,) = end.exceptions
        assert isinstance(end, anyio.get_cancelled_exc_class())


@pytest.mark.parametrize("is_in_group", [False, True])
def test_native_cancellation_that_a_loss_replaces_ends_the_run(is_in_group: bool) -> None:
    """asyncio cancels once: a cleanup that raises the loss, as it may in a group, replaces that."""

    async def play(server: EmbeddedServer) -> None:
        clock, terms = JumpingClock(VirtualClock()), list[Term]()

        async def check_at_the_end(term: Term) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                term.check()

        async def work(term: Term) -> None:
            terms.append(term)
            if is_in_group:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(check_at_the_end(term))
                    await anyio.sleep_forever()
            else:
                await check_at_the_end(term)

        async with connect_virtually(server, clock=clock) as a:
            task = asyncio.create_task(Election(a, PATH).run(work))
            await passes(1.0)
            clock.jump(2 * a.session_timeout)
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled()
            assert len(terms) == 1

    on_virtual_time("asyncio", play)


@virtually
async def test_end_of_the_program_beside_a_loss_ends_the_run() -> None:
    clock = JumpingClock(VirtualClock())

    async def fail(term: Term) -> None:
        term.check()

    async def end_program() -> None:
        raise SystemExit(3)

    async def work(term: Term) -> None:
        clock.jump(2 * a.session_timeout)
        errors = []
        for function in (partial(fail, term), end_program):
            try:
                await function()
            except BaseException as error:
                errors.append(error)
        raise BaseExceptionGroup("both", errors)

    async with embedded() as server, connect_virtually(server, clock=clock) as a:
        with pytest.raises(BaseExceptionGroup, match="both") as raised:
            await Election(a, PATH).run(work)
        assert [type(each) for each in raised.value.exceptions] == [LeadershipLost, SystemExit]


@on_embedded
async def test_loss_of_another_election_ends_the_run(server: ServerUnderTest, a: Client) -> None:
    async def work(term: Term) -> None:
        async with Election(a, "/other").leadership() as other:
            with raw(server) as operator:
                operator.delete(other.path)
            await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE), pytest.raises(LeadershipLost) as caught:
        await Election(a, PATH).run(work)
    assert caught.value.path == "/other"


# --- running -------------------------------------------------------------------------------------


@on_embedded
@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_body_does_not_wait_for_its_own_worker(a: Client, timeout: float | None) -> None:
    """The worker may lead until the body has ended, so each would wait for the other one."""
    election, work = Election(a, PATH), Work()
    async with election.running(work):
        await work.leads()
        with anyio.fail_after(PATIENCE):
            with pytest.raises(AlreadyHeldError, match="wait for itself"):
                await enter(election.leadership(timeout=timeout))
            with pytest.raises(AlreadyHeldError):
                await election.run(work)
            with pytest.raises(AlreadyHeldError):
                await enter(Election(a, PATH).leadership())
    with anyio.fail_after(PATIENCE):
        await enter(election.leadership())


@on_embedded
async def test_body_may_lead_once_the_inner_block_is_left(a: Client) -> None:
    election, first, second = Election(a, PATH), Work(), Work()
    async with election.running(first):
        await first.leads()
        async with election.running(second):  # another contender, beside the same body
            await joined(a, PATH, 2)
        with anyio.fail_after(PATIENCE), pytest.raises(AlreadyHeldError):
            await enter(election.leadership())
    with anyio.fail_after(PATIENCE):
        await enter(election.leadership())


async def test_it_leads_beside_the_body_and_resigns_with_it(a: Client, b: Client) -> None:
    first, second = Work(), Work()
    async with Election(a, PATH).running(first):
        await first.leads()
        async with Election(b, PATH).running(second):
            await joined(b, PATH, 2)
            assert not second.is_on
        await joined(b, PATH, 1)
    # Its worker was awaited, and its znode is gone.
    assert (first.ended, first.is_on, second.terms) == (1, False, [])
    assert await names(a, PATH) == []


@on_embedded
@pytest.mark.parametrize("cause", [None, KeyError("cause")], ids=["no cause", "cause"])
async def test_error_of_the_body_propagates_unchanged(a: Client, cause: Exception | None) -> None:
    work, error = Work(), ValueError("of the body")
    with pytest.raises(ValueError, match="of the body") as raised:
        async with Election(a, PATH).running(work):
            await work.leads()
            raise error from cause
    assert raised.value is error
    assert (error.__cause__, error.__context__) == (cause, None)
    assert work.ended == 1
    assert await names(a, PATH) == []


@on_embedded
@pytest.mark.parametrize("raises", [False, True], ids=["ends", "raises"])
async def test_cancellation_of_the_body_cancels_the_worker_and_resigns(
    a: Client, raises: bool
) -> None:
    work, ended = Work(), list[str]()
    with anyio.CancelScope() as scope:
        try:
            async with Election(a, PATH).running(work):
                await work.leads()
                try:
                    scope.cancel()
                    await anyio.sleep_forever()
                finally:
                    if raises:
                        raise ValueError("on its way out")
        except ValueError as error:
            ended.append(str(error))
    assert ended == (["on its way out"] if raises else [])
    assert scope.cancelled_caught != raises
    assert work.ended == 1
    assert await names(a, PATH) == []


# --- running on asyncio: the task of the body ----------------------------------------------------


async def test_error_in_the_cleanup_of_the_worker_propagates_from_a_cancelled_body(
    local: Client,
) -> None:
    error, leads = ValueError("of the worker"), anyio.Event()

    async def work(_term: Term) -> None:
        leads.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    with (
        pytest.raises(ValueError, match="of the worker") as raised,
        anyio.CancelScope() as scope,
    ):
        async with Election(local, PATH).running(work):
            await leads.wait()
            scope.cancel()
            await anyio.sleep_forever()
    assert raised.value is error
    assert await names(local, PATH) == []


async def test_error_of_a_body_that_the_worker_has_ended_becomes_a_note(local: Client) -> None:
    async def work(_term: Term) -> None:
        raise ValueError("of the worker")

    with pytest.raises(ValueError, match="of the worker") as raised:
        async with Election(local, PATH).running(work):
            try:
                await anyio.sleep_forever()
            finally:
                raise RuntimeError("cleanup failed")
    assert raised.value.__notes__ == ["the body raised, too: RuntimeError('cleanup failed')"]


async def test_defect_of_the_client_ends_the_block(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Any]
) -> None:
    def defect(*_: object) -> None:
        raise ZeroDivisionError

    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()
        with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError) as raised:
            async with Election(client, PATH).running(work):
                await work.leads()
                monkeypatch.setattr(SessionMachine, "tick", defect)
                server.disconnect(client.session_id)
                await anyio.sleep_forever()
        monkeypatch.undo()
        assert isinstance(raised.value.__cause__, InternalError)
        assert work.ended == 1
    assert len(internal_errors) == 1


@pytest.mark.parametrize("run", ON_EVERY_LOOP.values(), ids=ON_EVERY_LOOP)
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_end_of_the_program_in_the_worker_is_raised_by_the_block(
    run: RunOnLoop, kind: type[BaseException]
) -> None:
    """The program's own blocks are left on its way, as by an error of the body."""
    seen: list[type[BaseException]] = []

    async def work(_term: Term) -> None:
        if kind is SystemExit:
            sys.exit(3)
        # Ctrl-C: on trio it interrupts the worker, as any other task of the program.
        signal.default_int_handler(signal.SIGINT, None)

    async def main() -> None:
        async with EmbeddedServer() as server, connect(server) as client:
            try:
                async with Election(client, PATH).running(work):
                    await anyio.sleep_forever()
            except BaseException as error:
                seen.append(type(error))
                assert await names(client, PATH) == []
                raise

    with pytest.raises(kind):
        run(main)
    assert seen == [kind]


@pytest.mark.parametrize("run", ON_EVERY_LOOP.values(), ids=ON_EVERY_LOOP)
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_end_of_the_program_in_the_body_is_raised_although_the_worker_fails_then(
    run: RunOnLoop, kind: type[BaseException]
) -> None:
    """A cleanup that fails must not keep the program running."""
    seen: list[BaseException] = []

    async def work(_term: Term) -> None:
        leads.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("of the worker")

    async def main() -> None:
        nonlocal leads
        leads = anyio.Event()
        async with EmbeddedServer() as server, connect(server) as client:
            try:
                async with Election(client, PATH).running(work):
                    await leads.wait()
                    raise kind
            except BaseException as error:
                seen.append(error)
                raise

    leads: anyio.Event
    with pytest.raises(kind):
        run(main)
    assert [type(each) for each in seen] == [kind]
    assert seen[0].__notes__ == ["the function beside the body failed: ValueError('of the worker')"]


def test_ctrl_c_interrupts_the_worker_on_trio() -> None:
    """As it does with every other task of the program that runs at that moment."""
    interrupted: list[bool] = []

    async def work(_term: Term) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            interrupted.append(True)
            raise

    async def main() -> None:
        async with EmbeddedServer() as server, connect(server) as client:
            async with Election(client, PATH).running(work):
                await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert interrupted == [True]


async def test_it_is_not_left_in_another_task_while_the_first_is_inside(local: Client) -> None:
    work, left, ended = Work(), anyio.Event(), anyio.Event()
    running = Election(local, PATH).running(work)

    async def enter() -> None:
        await running.__aenter__()
        await left.wait()
        ended.set()

    if trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(enter)
    else:
        task = asyncio.create_task(enter())
        task.add_done_callback(lambda task: task.result())
    await work.leads()
    with pytest.raises(UsageError, match="not entered by this task"):
        await running.__aexit__(None, None, None)
    left.set()
    await ended.wait()
    assert (work.ended, await names(local, PATH)) == (1, [])


async def test_abandoned_generator_resigns(local: Client) -> None:
    async def leading(client: Client) -> AsyncGenerator[None, None]:
        async with Election(client, PATH).running(work):
            while True:
                yield

    work, generator = Work(), leading(local)

    async def abandon() -> None:
        await anext(generator)
        await work.leads()

    await in_ordinary_task(abandon)
    await in_ordinary_task(generator.aclose)
    assert (work.ended, await names(local, PATH)) == (1, [])


@on_asyncio
@on_embedded
async def test_worker_uses_timeouts_of_asyncio(a: Client) -> None:
    timed_out = asyncio.Event()

    async def work(_term: Term) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        timed_out.set()
        await asyncio.sleep(60)

    async with Election(a, PATH).running(work):
        await asyncio.wait_for(timed_out.wait(), PATIENCE)


@on_asyncio
@on_embedded
async def test_cancellation_of_all_tasks_ends_it(a: Client) -> None:
    work = Work()
    kept = asyncio.all_tasks()
    asyncio.create_task(running(Election(a, PATH), work))  # noqa: RUF006 - all_tasks has it
    await work.leads()
    mine = asyncio.all_tasks() - kept
    for each in mine:
        each.cancel()
    ended = await asyncio.gather(*mine, return_exceptions=True)
    assert {type(each) for each in ended} == {asyncio.CancelledError}
    assert (work.ended, await names(a, PATH)) == (1, [])
