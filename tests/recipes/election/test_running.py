"""A worker per term in the background of a block: `async with election.running(worker)`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import (
    PATIENCE,
    connect,
    eventually,
    in_memory,
    joined,
    names,
    nothing_left,
)
from kit.tasks import ON_EVERY_LOOP, Run, in_ordinary_task, on_asyncio

from aiolead import Client, Election, Term
from aiolead._session.machine import SessionMachine
from aiolead.errors import (
    ClientClosedError,
    ConfigurationError,
    InternalError,
    LeadershipLost,
    UsageError,
)
from aiolead.testing import EmbeddedServer

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/election"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""


class Work:
    """A worker that leads until it is cancelled, and takes a moment to end."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.ended = 0

    @property
    def is_on(self) -> bool:
        return len(self.terms) > self.ended

    async def __call__(self, term: Term) -> None:
        self.terms.append(term)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            self.ended += 1


async def test_it_leads_beside_the_body_and_resigns_with_it(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        first, second = Work(), Work()
        async with Election(a, PATH).running(first):
            await eventually(lambda: first.is_on, "the first one leads")
            async with Election(b, PATH).running(second):
                await joined(b, PATH, 2)
                assert not second.is_on
            await joined(b, PATH, 1)
        # Its worker was awaited, and its znode is gone.
        assert (first.ended, first.is_on, second.terms) == (1, False, [])
        assert await names(a, PATH) == []


@on_embedded
async def test_a_lost_term_is_followed_by_another(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        terms: list[Term] = []

        async def work(term: Term) -> None:
            terms.append(term)
            await anyio.sleep_forever()

        async with Election(a, PATH).running(work):
            await eventually(lambda: len(terms) == 1, "it leads")
            await b.delete(terms[0].path)
            await eventually(lambda: len(terms) == 2, "it leads again")
            assert terms[1].token > terms[0].token
            with pytest.raises(LeadershipLost):
                terms[0].check()


async def test_over_a_lost_link() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        work = Work()
        async with Election(client, PATH).running(work):
            await eventually(lambda: work.is_on, "it leads")
            server.disconnect()
            await client.sync()
            assert (len(work.terms), work.is_on) == (1, True)
        await nothing_left(server, PATH)


@on_embedded
@pytest.mark.parametrize(
    "error", [ValueError("bare"), ExceptionGroup("of the worker", [ValueError("bare")])], ids=type
)
@pytest.mark.parametrize("cause", [None, KeyError("cause")], ids=["no cause", "cause"])
async def test_what_the_worker_raises_ends_the_block(
    server: ServerUnderTest, error: Exception, cause: Exception | None
) -> None:
    async def work(_term: Term) -> None:
        raise error from cause

    async with connect(server) as client:
        with anyio.fail_after(PATIENCE), pytest.raises(type(error)) as raised:
            async with Election(client, PATH).running(work):
                await anyio.sleep_forever()
        assert raised.value is error
        assert (error.__cause__, error.__context__) == (cause, None)
        assert await names(client, PATH) == []


@on_embedded
@pytest.mark.parametrize("cause", [None, KeyError("cause")], ids=["no cause", "cause"])
async def test_what_the_body_raises_leaves_it_unchanged(
    server: ServerUnderTest, cause: Exception | None
) -> None:
    work, error = Work(), ValueError("of the body")
    async with connect(server) as client:
        with pytest.raises(ValueError, match="of the body") as raised:
            async with Election(client, PATH).running(work):
                await eventually(lambda: work.is_on, "it leads")
                raise error from cause
        assert raised.value is error
        assert (error.__cause__, error.__context__) == (cause, None)
        assert work.ended == 1
        assert await names(client, PATH) == []


@on_embedded
async def test_cancelled_it_cancels_the_worker_and_resigns(server: ServerUnderTest) -> None:
    work = Work()
    async with connect(server) as client:
        with anyio.CancelScope() as scope:
            async with Election(client, PATH).running(work):
                await eventually(lambda: work.is_on, "it leads")
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert work.ended == 1
        assert await names(client, PATH) == []


@on_embedded
async def test_cancelled_in_a_body_that_raises_on_its_way_out(server: ServerUnderTest) -> None:
    work = Work()
    async with connect(server) as client:
        with pytest.raises(ValueError, match="on its way out"), anyio.CancelScope() as scope:
            async with Election(client, PATH).running(work):
                await eventually(lambda: work.is_on, "it leads")
                try:
                    scope.cancel()
                    await anyio.sleep_forever()
                finally:
                    raise ValueError("on its way out")
        assert work.ended == 1


async def test_it_ends_with_its_client() -> None:
    ended: list[type[BaseException]] = []

    async def beside(election: Election, work: Work) -> None:
        try:
            async with election.running(work):
                await anyio.sleep_forever()
        except ClientClosedError as error:
            ended.append(type(error))

    async with EmbeddedServer() as server, anyio.create_task_group() as tasks:
        async with in_memory(server) as client:
            work = Work()
            tasks.start_soon(beside, Election(client, PATH), work)
            await eventually(lambda: work.is_on, "it leads")
        with anyio.fail_after(PATIENCE):
            await eventually(lambda: ended == [ClientClosedError], "it has ended")


# --- the task of the body ------------------------------------------------------------------------


@on_asyncio
@pytest.mark.parametrize("ends", ["raises", "swallows"])
async def test_end_of_a_natively_cancelled_body_is_its_own(ends: str) -> None:
    """Not `CancelledError`, as a task group in the task of the body would make of it."""
    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()

        async def use() -> str:
            async with Election(client, PATH).running(work):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if ends == "raises":
                        raise RuntimeError("cleanup failed") from None
            return "ended normally"

        task = asyncio.create_task(use())
        await eventually(lambda: work.is_on, "it leads")
        task.cancel()
        ended = (await asyncio.gather(task, return_exceptions=True))[0]
        expected = "ended normally" if ends == "swallows" else "cleanup failed"
        assert str(ended) == expected
        assert (work.ended, await names(client, PATH)) == (1, [])


@on_asyncio
async def test_handled_error_of_an_asyncio_task_group_in_the_body_is_no_cancellation() -> None:
    """Before Python 3.13 the group leaves its task with a cancellation that was never undone."""

    async def fails() -> None:
        await eventually(lambda: work.is_on, "it leads")
        raise ValueError("mine")

    async def use() -> str:
        async with Election(client, PATH).running(work):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(fails())
            except* ValueError:
                pass
        return "ended normally"

    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()
        # In a task of its own, since the server has a task group in this one.
        assert await asyncio.create_task(use()) == "ended normally"
        assert work.ended == 1


class ErrorsOfTheBody(ExceptionGroup[Exception]):
    """Without `derive`, so that a copy of it is of another type."""


async def test_group_that_the_body_raises_propagates_unchanged() -> None:
    error = ErrorsOfTheBody("of the body", [ValueError("a"), KeyError("b")])
    async with EmbeddedServer() as server, connect(server) as client:
        with pytest.raises(ErrorsOfTheBody) as raised:
            async with Election(client, PATH).running(Work()):
                raise error
    assert raised.value is error


async def test_error_of_a_body_out_of_time_propagates_unchanged() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        with (
            pytest.raises(RuntimeError, match="cleanup failed"),
            anyio.fail_after(PATIENCE) as scope,
        ):
            async with Election(client, PATH).running(Work()):
                scope.deadline = anyio.current_time()
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class():
                    raise RuntimeError("cleanup failed") from None


async def test_body_out_of_time_raises_timeout_error() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()
        with pytest.raises(TimeoutError):
            with anyio.fail_after(PATIENCE) as scope:
                async with Election(client, PATH).running(work):
                    await eventually(lambda: work.is_on, "it leads")
                    scope.deadline = anyio.current_time()
                    await anyio.sleep_forever()
        assert (work.ended, await names(client, PATH)) == (1, [])


async def test_error_in_the_cleanup_of_the_worker_propagates_from_a_cancelled_body() -> None:
    error, leads = ValueError("of the worker"), anyio.Event()

    async def work(_term: Term) -> None:
        leads.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    async with EmbeddedServer() as server, connect(server) as client:
        with (
            pytest.raises(ValueError, match="of the worker") as raised,
            anyio.CancelScope() as scope,
        ):
            async with Election(client, PATH).running(work):
                await leads.wait()
                scope.cancel()
                await anyio.sleep_forever()
        assert raised.value is error
        assert await names(client, PATH) == []


async def test_defect_of_the_client_ends_the_block(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Any]
) -> None:
    def defect(*_: object) -> None:
        raise ZeroDivisionError

    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()
        with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError) as raised:
            async with Election(client, PATH).running(work):
                await eventually(lambda: work.is_on, "it leads")
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
    run: Run, kind: type[BaseException]
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


async def test_it_is_left_in_another_task_once_the_first_has_ended() -> None:
    """As start-up and shut-down hooks of frameworks do."""
    async with EmbeddedServer() as server, connect(server) as client:
        work, stack = Work(), AsyncExitStack()
        running = Election(client, PATH).running(work)
        await in_ordinary_task(lambda: stack.enter_async_context(running))
        await eventually(lambda: work.is_on, "it leads")
        await in_ordinary_task(stack.aclose)
        assert (work.ended, await names(client, PATH)) == (1, [])


async def test_it_is_not_left_in_another_task_while_the_first_is_inside() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        work, left, ended = Work(), anyio.Event(), anyio.Event()
        running = Election(client, PATH).running(work)

        async def enter() -> None:
            await running.__aenter__()
            await left.wait()
            ended.set()

        if trio.lowlevel.in_trio_run():
            trio.lowlevel.spawn_system_task(enter)
        else:
            task = asyncio.create_task(enter())
            task.add_done_callback(lambda task: task.result())
        await eventually(lambda: work.is_on, "it leads")
        with pytest.raises(UsageError, match="not entered by this task"):
            await running.__aexit__(None, None, None)
        left.set()
        await ended.wait()
        assert (work.ended, await names(client, PATH)) == (1, [])


async def test_abandoned_generator_resigns() -> None:
    async def leading(client: Client) -> AsyncGenerator[None, None]:
        async with Election(client, PATH).running(work):
            while True:
                yield

    async with EmbeddedServer() as server, connect(server) as client:
        work, generator = Work(), leading(client)

        async def abandon() -> None:
            await anext(generator)
            await eventually(lambda: work.is_on, "it leads")

        await in_ordinary_task(abandon)
        await in_ordinary_task(generator.aclose)
        assert (work.ended, await names(client, PATH)) == (1, [])


@on_asyncio
async def test_worker_uses_timeouts_of_asyncio() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        timed_out = asyncio.Event()

        async def work(_term: Term) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(60)
            timed_out.set()
            await asyncio.sleep(60)

        async with Election(client, PATH).running(work):
            await asyncio.wait_for(timed_out.wait(), PATIENCE)


@on_asyncio
async def test_cancellation_of_all_tasks_ends_it() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        work = Work()

        async def use() -> None:
            async with Election(client, PATH).running(work):
                await asyncio.sleep(60)

        kept = asyncio.all_tasks()
        asyncio.create_task(use())  # noqa: RUF006 - all_tasks has it
        await eventually(lambda: work.is_on, "it leads")
        mine = asyncio.all_tasks() - kept
        for each in mine:
            each.cancel()
        ended = await asyncio.gather(*mine, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        assert (work.ended, await names(client, PATH)) == (1, [])


@on_embedded
async def test_arguments_are_checked_by_the_call(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        election = Election(client, PATH)
        with pytest.raises(ConfigurationError, match="worker"):
            election.running("x")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="pause"):
            election.running(Work(), pause=-1)
        with pytest.raises(UsageError, match="not a coroutine"):
            election.running(_nothing())  # type: ignore[arg-type]


async def _nothing() -> None:
    pass
