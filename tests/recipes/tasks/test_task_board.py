"""The task board, over every kind of server: who works on what, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, names
from kit.virtual_time import SESSION, Link, on_virtual_time, passes
from kit.virtual_time import connect as connect_virtually

from aiolead import ACL, AcquireTimeout, Auth, Client, NodeExistsError, NoNodeError, TaskBoard
from aiolead.errors import (
    ClaimLost,
    ConfigurationError,
    InvalidDataError,
    NoAuthError,
    QueueFullError,
    UsageError,
)
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import BoardView, TaskPhase, TaskResult, TaskState

pytestmark = pytest.mark.timeout(60)

PATH = "/board"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)
"""For what the client decides, whatever the server."""
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])

WAITING, WORKING, DONE, FAILED = TaskPhase


async def sees(view: BoardView, what: str, *expected: Callable[[TaskState], bool]) -> None:
    """Waits until a board looks like this: one condition for each task, in order."""

    def fits(states: Mapping[str, TaskState]) -> bool:
        return len(states) == len(expected) and all(
            check(state) for check, state in zip(expected, states.values(), strict=True)
        )

    with anyio.move_on_after(PATIENCE):
        async for states in view:
            if fits(states):
                return
    raise AssertionError(f"{what}: {view.value}")


def waits(state: TaskState) -> bool:
    return state == TaskState(state.task, WAITING)


# --- from the announcement to the result ------------------------------------------------------


async def test_a_task_is_announced_worked_on_and_finished(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        board = TaskBoard(a, PATH)
        task_name = await board.submit(b"add 1 and 2")
        assert task_name == "task-0000000000"
        results: list[TaskResult] = []

        async def wait_for() -> None:
            results.append(await board.result(task_name))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for)
            async with TaskBoard(b, PATH, identity="adder").claim(timeout=PATIENCE) as task:
                assert (task.name, task.data) == (task_name, b"add 1 and 2")
                assert results == []
                await task.finish(b"3\n")
                await task.finish(b"4")  # once more does nothing
                with pytest.raises(UsageError, match="done with"):
                    task.check()
        assert results == [TaskResult(task_name, b"3\n", "adder")]
        await catch_up(a)
        assert await board.result(task_name) == results[0]
        assert await names(a, f"{PATH}/tasks") == await names(a, f"{PATH}/claims") == []


async def test_a_task_fails(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        board = TaskBoard(client, PATH, identity="me")
        name = await board.submit(b"x")
        async with board.consume() as tasks:
            task = await anext(tasks)
            await task.fail("no: é", b"rest")
        assert await board.result(name) == TaskResult(name, b"rest", "me", True, "no: é")


async def test_a_task_that_is_left_goes_to_the_next_worker(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        mine, theirs = TaskBoard(a, PATH), TaskBoard(b, PATH)
        await mine.submit(b"0")
        await mine.submit(b"1")
        with pytest.raises(ZeroDivisionError):
            async with mine.claim() as task:
                assert task.data == b"0"
                await catch_up(b)
                async with theirs.claim() as other:
                    assert other.data == b"1"
                    await other.finish()
                raise ZeroDivisionError
        async with theirs.claim(timeout=PATIENCE) as task:
            assert task.data == b"0"
            await task.finish()
        async with theirs.try_claim() as nothing:
            assert nothing is None


# --- looking on --------------------------------------------------------------------------------


async def test_everybody_sees_how_tasks_stand(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        board = TaskBoard(a, PATH)
        worker = TaskBoard(b, PATH, identity="w", report_every=0.01)
        async with board.observe() as view:
            assert view.value == {}
            for data in (b"0", b"1", b"2"):
                await board.submit(data)
            await sees(view, "all wait", waits, waits, waits)
            assert list(view.value) == [f"task-{number:010d}" for number in range(3)]
            await catch_up(b)
            async with worker.claim() as task:
                await sees(view, "taken", lambda s: s.phase is WORKING, waits, waits)
                first = view.value[task.name]
                _, stat = await b.get(task.path)
                assert first == TaskState(task.name, WORKING, "w", stat.ctime / 1000)
                await task.report(0.5, "half of it")
                await sees(
                    view,
                    "half",
                    lambda s: (s.progress, s.note) == (0.5, "half of it"),
                    waits,
                    waits,
                )
                await task.report(1)
                await sees(view, "all", lambda s: (s.progress, s.note) == (1.0, ""), waits, waits)
                await task.finish(b"done")
            async with worker.claim() as task:
                await task.fail("cannot")
            await sees(
                view,
                "finished",
                lambda s: (s.phase, s.worker) == (DONE, "w"),
                lambda s: (s.phase, s.worker, s.note) == (FAILED, "w", "cannot"),
                waits,
            )
            await eventually(lambda: view.is_live, "it is watched again")
        async with board.observe() as late:
            assert late.value == view.value


@on_embedded
async def test_a_view_is_live_after_each_reading(server: ServerUnderTest) -> None:
    """Also after one that has found a list gone that was there, or there that was not."""
    async with EmbeddedServer() as alone, connect(alone) as a:
        board = TaskBoard(a, PATH)
        async with board.observe() as view:
            assert view.is_live
            await board.submit(b"x")
            await sees(view, "waits", waits)
            await eventually(lambda: view.is_live, "there is something to do")
            async with board.claim() as task:
                await task.finish(b"done")
            await sees(view, "done", lambda s: s.phase is DONE)
            await eventually(lambda: view.is_live, "there is a result")


@on_embedded
async def test_a_report_costs_those_who_look_on_one_read(server: ServerUnderTest) -> None:
    async with EmbeddedServer() as alone, connect(alone) as a, connect(alone) as b:
        board, worker = TaskBoard(a, PATH), TaskBoard(b, PATH, report_every=0)
        for _ in range(3):
            await board.submit(b"x")
        async with worker.claim() as first, worker.claim(), board.observe() as view:
            await first.report(0.1)
            await sees(view, "0.1", lambda s: s.progress == 0.1, lambda _: True, waits)
            await first.verify()
            before = alone.requests.copy()
            await first.report(0.2)
            await sees(view, "0.2", lambda s: s.progress == 0.2, lambda _: True, waits)
            cost = alone.requests - before
            assert cost["GET_CHILDREN"] == 0
            assert cost["GET_DATA"] == 1


@on_embedded
async def test_reports_are_coalesced(server: ServerUnderTest) -> None:
    async with EmbeddedServer() as alone, connect(alone) as client:
        board = TaskBoard(client, PATH, report_every=3600)
        await board.submit(b"x")
        async with board.claim() as task:
            await task.report(0.0)
            await eventually(lambda: alone.requests["MULTI"] == 2, "the first one is written")
            for percent in range(100):
                await task.report(percent / 100)
            await task.finish()
            assert alone.requests["MULTI"] <= 5  # the claim, a report, and what finishing takes
            with pytest.raises(UsageError):
                await task.report(1.0)


async def test_a_board_is_looked_at_before_it_is_there(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with TaskBoard(a, PATH).observe() as view:
            assert view.value == {}
            await TaskBoard(b, PATH).submit(b"x")
            await sees(view, "it is there", waits)
            assert await a.exists(f"{PATH}/claims") is None  # who only looks makes nothing


# --- limits and mistakes -----------------------------------------------------------------------


async def test_the_latest_results_are_kept(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        board = TaskBoard(client, PATH, keep_results=4)
        announced = [await board.submit(b"x") for _ in range(8)]
        async with board.claim() as slow:
            for _ in range(5):
                async with board.claim() as task:
                    await task.finish()
            await slow.finish()  # the smallest number, and the latest result

        async def trimmed() -> bool:
            return len(await names(client, f"{PATH}/results")) == 4

        await eventually(trimmed, "four results are left")
        # There were five, which is not too many yet, and then the sixth.
        kept = await names(client, f"{PATH}/results")
        assert kept == [announced[0], *announced[3:6]]
        with pytest.raises(NoNodeError, match=announced[1]):
            await board.result(announced[1])


@on_embedded
async def test_a_board_has_a_limit(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        board = TaskBoard(client, PATH, max_tasks=1)
        await board.submit(b"x")
        with pytest.raises(QueueFullError):
            await board.submit(b"x")
        async with board.claim() as task:
            await task.finish()
        await board.submit(b"x")


@on_embedded
async def test_arguments_are_checked(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        for options in (
            {"max_tasks": 0},
            {"keep_results": 20_001},
            {"report_every": -1},
            {"report_every": float("inf")},
        ):
            with pytest.raises(ConfigurationError, match=next(iter(options))):
                TaskBoard(client, PATH, **options)  # type: ignore[arg-type]
        board = TaskBoard(client, PATH)
        with pytest.raises(ConfigurationError, match="data"):
            await board.submit("x")  # type: ignore[arg-type]
        for bad in ("task-1", "../x", "", 7):
            with pytest.raises(ConfigurationError, match="task"):
                await board.result(bad)  # type: ignore[arg-type]
        await board.submit(b"x")
        async with board.claim() as task:
            for progress in (-0.1, 1.1, True, "1"):
                with pytest.raises(ConfigurationError, match="progress"):
                    await task.report(progress)  # type: ignore[arg-type]
            for note in ("x" * 5000, 7, "\ud800"):
                with pytest.raises(ConfigurationError, match="note"):
                    await task.report(0.5, note)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="data"):
                await task.finish("x")  # type: ignore[arg-type]
            await task.finish()


@on_embedded
async def test_what_others_have_written(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        board = TaskBoard(client, PATH)
        names = [await board.submit(b"x") for _ in range(2)]
        await client.ensure_path(f"{PATH}/results")
        await client.create(f"{PATH}/results/{names[0]}", b"what is this?")
        await client.create(f"{PATH}/results/note", b"none of ours")
        with pytest.raises(InvalidDataError, match="first line"):
            await board.result(names[0])
        async with board.observe() as view:
            assert list(view.value) == names
            assert view.value[names[0]].phase is FAILED
            assert "cannot be read" in view.value[names[0]].note
        with suppress(ClaimLost):
            async with board.claim() as task:
                with pytest.raises(NodeExistsError):
                    await task.finish()
                assert task.is_held  # nothing was applied
        await client.delete(f"{PATH}/results/{names[0]}")
        async with board.claim() as task:
            await client.set(task.path, b"[]")
            async with board.observe() as view:
                assert view.value[names[0]].phase is WORKING
                assert view.value[names[0]].worker is None


# --- faults ------------------------------------------------------------------------------------


@backends
def test_a_worker_that_dies_is_seen_and_its_task_goes_to_the_next(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with (
            link.connect() as dead,
            connect_virtually(server) as client,
            anyio.create_task_group() as tasks,
        ):
            board, doomed = TaskBoard(client, PATH), TaskBoard(dead, PATH, identity="doomed")
            name = await board.submit(b"x")
            seen: list[TaskPhase] = []
            workers: list[str | None] = []

            async def look_on(view: BoardView) -> None:
                async for states in view:
                    seen.append(states[name].phase)
                    workers.append(states[name].worker)

            async def next_one() -> None:
                async with TaskBoard(client, PATH, identity="heir").claim() as task:
                    await passes(1.0)
                    await task.finish(b"y")

            async with board.observe() as view:
                tasks.start_soon(look_on, view)
                with pytest.raises(ClaimLost):
                    async with doomed.claim() as task:
                        await passes(0.1)
                        await task.report(0.3)
                        await passes(0.1)
                        tasks.start_soon(next_one)
                        await passes(0.1)
                        link.lose()
                        await anyio.sleep_forever()
                assert (await board.result(name)).worker == "heir"
                await passes(0.1)
            assert list(dict.fromkeys(workers)) == [None, "doomed", "heir"]
            assert seen[-1] is DONE
            tasks.cancel_scope.cancel()

    on_virtual_time(backend, play)


@pytest.mark.parametrize(
    "drop",
    [EmbeddedServer.drop_reply, EmbeddedServer.drop_request],
    ids=["answer lost", "request lost"],
)
@backends
def test_the_answer_to_the_end_of_a_task_is_lost(
    backend: Backend, drop: Callable[[EmbeddedServer, OpCode], None]
) -> None:
    """It is finished, once, with the result that was given."""

    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as client:
            board = TaskBoard(client, PATH, identity="me")
            for _ in range(2):  # the path of the results is missing, then it is there
                name = await board.submit(b"x")
                async with board.claim() as task:
                    drop(server, OpCode.MULTI)
                    await task.finish(b"y")
                assert await board.result(name) == TaskResult(name, b"y", "me")
                assert await _left(client) == (0, 0)

    on_virtual_time(backend, play)


async def _left(client: Client) -> tuple[int, int]:
    children = [await client.get_children(f"{PATH}/{which}") for which in ("tasks", "claims")]
    return len(children[0]), len(children[1])


@backends
def test_the_link_breaks_while_everybody_waits(backend: Backend) -> None:
    """A worker, who waits for a result, and who looks on: all go on, over another session too."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as client, connect_virtually(server) as other:
            board, theirs = TaskBoard(client, PATH), TaskBoard(other, PATH)
            name = await theirs.submit(b"0")
            got: list[object] = []

            async def wait_for_result() -> None:
                got.append((await board.result(name)).data)

            async def work() -> None:
                async with board.claim() as task:
                    got.append(task.data)
                    await task.finish()

            async with (
                anyio.create_task_group() as tasks,
                board.observe() as view,
                theirs.claim() as task,
            ):
                tasks.start_soon(wait_for_result)
                tasks.start_soon(work)
                await passes(1.0)
                link.lose()
                await passes(2 * SESSION)
                assert not view.is_live
                await task.finish(b"result")
                await theirs.submit(b"1")
                link.restore()
            assert sorted(map(str, got)) == ["b'1'", "b'result'"]

    on_virtual_time(backend, play)


@backends
def test_a_report_is_said_again_after_a_lost_connection(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect_virtually(server) as client, connect_virtually(server) as other:
            board = TaskBoard(client, PATH)
            name = await board.submit(b"x")
            async with TaskBoard(other, PATH).observe() as view, board.claim() as task:
                server.drop_request(OpCode.MULTI)
                await task.report(0.7)
                await passes(1.0)
                assert view.value[name].progress == 0.7
                with pytest.raises(AcquireTimeout):
                    async with TaskBoard(other, PATH).claim(timeout=0.1):
                        pass

    on_virtual_time(backend, play)


async def test_a_result_that_may_not_be_read(server: ServerUnderTest) -> None:
    """Servers do not tell of it; who waits for it is told that it may not be read."""
    me = Auth.digest("me", "secret")
    async with connect(server) as a, connect(server, auth=[me]) as b:
        task = await TaskBoard(a, PATH).submit(b"1")
        board = TaskBoard(b, PATH, acl=[ACL.digest("me", "secret")], keep_results=1)
        failed = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(NoAuthError):
                    await TaskBoard(a, PATH).result(task)
                failed.set()

            await b.ensure_path(f"{PATH}/results")
            await catch_up(a)
            tasks.start_soon(wait)
            async with board.claim() as mine:
                await anyio.wait_all_tasks_blocked()
                await mine.finish(b"done")
            with anyio.fail_after(20):
                await failed.wait()
