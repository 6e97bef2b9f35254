"""The task board: tasks, their workers and their results, over every kind of server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, names
from kit.selection import on_embedded
from kit.virtual_time import Link, passes, with_virtual_server
from recipes.blocks import enter, happens

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
from aiolead.types import BoardView, Codec, TaskPhase, TaskResult, TaskState

pytestmark = pytest.mark.timeout(60)

PATH = "/board"

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
    return state == TaskState(state.task, WAITING, attempts=state.attempts)


# --- from the announcement to the result ------------------------------------------------------


async def test_task_is_submitted_claimed_and_finished(a: Client, b: Client) -> None:
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
    assert results == [TaskResult(task_name, b"3\n", "adder", attempts=1)]
    await catch_up(a)
    assert await board.result(task_name) == results[0]
    assert await names(a, f"{PATH}/tasks") == await names(a, f"{PATH}/claims") == []


async def test_failed_task_has_a_result_with_its_note(client: Client) -> None:
    board = TaskBoard(client, PATH, identity="me")
    name = await board.submit(b"x")
    async with board.consume() as tasks:
        task = await anext(tasks)
        await task.fail("no: é", b"rest")
    assert await board.result(name) == TaskResult(name, b"rest", "me", True, "no: é", 1)


async def test_unfinished_task_goes_to_the_next_worker(a: Client, b: Client) -> None:
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


async def test_observer_sees_the_phase_and_progress_of_each_task(a: Client, b: Client) -> None:
    board = TaskBoard(a, PATH)
    worker = TaskBoard(b, PATH, identity="w", report_every=0.01)
    async with board.observe() as view:
        assert view.value == {}
        assert await a.exists(PATH) is None  # an observer creates nothing
        for data in (b"0", b"1", b"2"):
            await board.submit(data)
        await sees(view, "all wait", waits, waits, waits)
        assert list(view.value) == [f"task-{number:010d}" for number in range(3)]
        await catch_up(b)
        async with worker.claim() as task:
            await sees(view, "taken", lambda s: s.phase is WORKING, waits, waits)
            first = view.value[task.name]
            _, stat = await b.get(task.path)
            assert first == TaskState(task.name, WORKING, "w", stat.ctime / 1000, attempts=1)
            for said in ((0.5, "half of it"), (1.0, "")):
                await task.report(*said)
                await sees(
                    view, str(said), lambda s, said=said: (s.progress, s.note) == said, waits, waits
                )
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


async def test_view_is_live_after_each_reading() -> None:
    """Also after one that has found a list gone that was there, or there that was not."""
    async with EmbeddedServer() as server, connect(server) as a:
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


@with_virtual_server
async def test_report_costs_an_observer_one_read(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    board, worker = TaskBoard(a, PATH), TaskBoard(b, PATH, report_every=0)
    for _ in range(3):
        await board.submit(b"x")
    async with worker.claim() as first, worker.claim(), board.observe() as view:
        for progress in (0.1, 0.2):
            before = server.requests.copy()
            await first.report(progress)
            await sees(view, "it", lambda s, p=progress: s.progress == p, lambda _: True, waits)
            await first.verify()
        cost = server.requests - before
        assert (cost["GET_CHILDREN"], cost["GET_DATA"]) == (0, 1)


@with_virtual_server
async def test_reports_are_coalesced(server: EmbeddedServer, client: Client) -> None:
    board = TaskBoard(client, PATH, report_every=3600)
    await board.submit(b"x")
    async with board.claim() as task:
        await task.report(0.0)
        await eventually(lambda: server.requests["MULTI"] == 2, "the first one is written")
        for percent in range(100):
            await task.report(percent / 100)
        await task.finish()
        assert server.requests["MULTI"] <= 5  # the claim, a report, and what finishing takes
        with pytest.raises(UsageError):
            await task.report(1.0)


# --- limits and mistakes -----------------------------------------------------------------------


async def test_the_latest_results_are_kept(client: Client) -> None:
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
async def test_full_board_refuses_tasks(client: Client) -> None:
    board = TaskBoard(client, PATH, max_tasks=1)
    await board.submit(b"x")
    with pytest.raises(QueueFullError):
        await board.submit(b"x")
    async with board.claim() as task:
        await task.finish()
    await board.submit(b"x")


@on_embedded
async def test_invalid_reports_and_results_are_refused(client: Client) -> None:
    board = TaskBoard(client, PATH)
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
async def test_foreign_data_on_the_board_are_reported(client: Client) -> None:
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


@on_embedded
async def test_observer_sees_how_often_each_task_was_claimed(a: Client, b: Client) -> None:
    board, worker = TaskBoard(a, PATH), TaskBoard(b, PATH, retry_pause=0, max_attempts=3)
    first, _ = [await board.submit(b"x") for _ in range(2)]

    def after(attempts: int, phase: TaskPhase) -> Callable[[TaskState], bool]:
        return lambda state: (state.phase, state.attempts) == (phase, attempts)

    async with board.observe() as view:
        await sees(view, "both wait", after(0, WAITING), after(0, WAITING))
        for attempt in (1, 2, 3):
            async with worker.claim(timeout=PATIENCE) as task:
                await sees(view, "claimed", after(attempt, WORKING), after(0, WAITING))
                assert (task.name, task.attempts) == (first, attempt)
            if attempt < 3:
                await sees(view, "released", after(attempt, WAITING), after(0, WAITING))
        await sees(view, "given up", after(3, FAILED), after(0, WAITING))
    assert (await board.result(first)).attempts == 3
    async with board.claim() as task, board.observe() as view:
        await sees(view, "seen by a new observer", after(3, FAILED), after(1, WORKING))


# --- values --------------------------------------------------------------------------------------


@on_embedded
async def test_codec_encodes_and_decodes_tasks_and_results(client: Client) -> None:
    board = TaskBoard(client, PATH, codec=Codec.json())
    sums, nothing, failed = [await board.submit(value) for value in ([1, 2], {"a": None}, "é")]
    async with board.consume() as tasks:
        task = await anext(tasks)
        assert (task.value, task.data) == ([1, 2], b"[1,2]")
        with pytest.raises(ConfigurationError, match="data: "):
            await task.finish(object())
        task.check()
        await task.finish({"sum": 3})
        await (await anext(tasks)).finish()
        await (await anext(tasks)).fail("no", [None])
    results = [await board.result(name) for name in (sums, nothing, failed)]
    assert [result.value for result in results] == [{"sum": 3}, None, [None]]
    assert [result.data for result in results] == [b'{"sum":3}', b"", b"[null]"]
    with pytest.raises(InvalidDataError):
        await TaskBoard(client, PATH, codec=Codec.int32()).result(sums)
    plain = await TaskBoard(client, PATH).result(sums)
    assert plain.value == plain.data == b'{"sum":3}'


@on_embedded
async def test_codec_refuses_tasks_before_anything_is_sent(client: Client) -> None:
    board = TaskBoard(client, PATH, codec=Codec.int32())
    with pytest.raises(ConfigurationError, match="data: "):
        await board.submit(1 << 31)
    assert await client.exists(PATH) is None
    for wrong in ({"codec": "json"}, {"on_invalid": 7}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}: "):
            TaskBoard(client, PATH, **wrong)  # type: ignore[arg-type]


@on_embedded
async def test_task_that_the_codec_refuses_is_invalid(client: Client) -> None:
    """It is passed over, or counts as failed after its attempts."""
    bad = await TaskBoard(client, PATH).submit(b"?")
    told: list[InvalidDataError] = []
    board = TaskBoard(client, PATH, codec=Codec.json(), on_invalid=told.append)
    good = await board.submit(1)
    async with board.claim() as task:
        assert task.name == good
    assert [error.path for error in told] == [f"{PATH}/tasks/{bad}"]
    strict = TaskBoard(client, PATH, codec=Codec.json(), max_attempts=2)
    async with strict.claim() as task:
        assert task.name == good
    result = await strict.result(bad)
    assert (result.is_failed, result.value) == (True, None)
    assert result.note.startswith("given up after 2 attempts: invalid: ")


# --- faults ------------------------------------------------------------------------------------


@with_virtual_server
async def test_task_of_a_dead_worker_goes_to_the_next_and_observers_see_it(
    link: Link, client: Client, other: Client
) -> None:
    board, doomed = TaskBoard(other, PATH), TaskBoard(client, PATH, identity="doomed")
    name = await board.submit(b"x")
    seen: list[TaskState] = []

    async def look_on(view: BoardView) -> None:
        async for states in view:
            seen.append(states[name])  # noqa: PERF401 - one by one

    async def next_one() -> None:
        async with TaskBoard(other, PATH, identity="heir").claim() as task:
            await passes(1.0)
            await task.finish(b"y")

    async with anyio.create_task_group() as tasks, board.observe() as view:
        tasks.start_soon(look_on, view)
        with pytest.raises(ClaimLost):
            async with doomed.claim() as task:
                await passes(0.1)
                await task.report(0.3)
                await passes(0.1)
                tasks.start_soon(next_one)
                await passes(0.1)
                link.down()
                await anyio.sleep_forever()
        assert (await board.result(name)).worker == "heir"
        await passes(0.1)
        assert list(dict.fromkeys(each.worker for each in seen)) == [None, "doomed", "heir"]
        assert seen[-1].phase is DONE
        tasks.cancel_scope.cancel()


@with_virtual_server
async def test_report_is_repeated_after_a_lost_connection(
    server: EmbeddedServer, client: Client, other: Client
) -> None:
    board = TaskBoard(client, PATH)
    name = await board.submit(b"x")
    async with TaskBoard(other, PATH).observe() as view, board.claim() as task:
        server.drop_request(OpCode.MULTI)
        await task.report(0.7)
        await passes(1.0)
        assert view.value[name].progress == 0.7
        with pytest.raises(AcquireTimeout):
            await enter(TaskBoard(other, PATH).claim(timeout=0.1))


async def test_unreadable_result_is_refused(server: ServerUnderTest) -> None:
    """Servers send no event for it."""
    me = Auth.digest("me", "secret")
    async with connect(server) as a, connect(server, auth=[me]) as b:
        task = await TaskBoard(a, PATH).submit(b"1")
        board = TaskBoard(b, PATH, acl=[ACL.digest("me", "secret")], keep_results=1)
        failed = anyio.Event()

        async def wait() -> None:
            with pytest.raises(NoAuthError):
                await TaskBoard(a, PATH).result(task)
            failed.set()

        async with anyio.create_task_group() as tasks:
            await b.ensure_path(f"{PATH}/results")
            await catch_up(a)
            tasks.start_soon(wait)
            async with board.claim() as mine:
                await anyio.wait_all_tasks_blocked()
                await mine.finish(b"done")
            await happens(failed)
