"""A long job on a board: its worker, its progress, and its result.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/task_board.py
"""

import trio
from _command import command

import aiolead


async def worker(client: aiolead.Client, name: str, *, is_reliable: bool) -> None:
    board = aiolead.TaskBoard(client, "/examples/board", identity=name, report_every=0.02)
    async with board.claim() as task:
        await task.report(0.0, "begun")
        for page in range(1, 5):
            await trio.sleep(0.1)
            await task.report(page / 4, f"page {page} of 4")
            if page == 2 and not is_reliable:
                return  # without `finish`: the task waits for the next worker
        await task.finish(b"4 pages")


async def watch(board: aiolead.TaskBoard) -> None:
    async with board.observe() as view:
        async for states in view:
            for state in states.values():
                done = "" if state.progress is None else f", {state.progress:.0%}"
                print(f"{state.task}: {state.phase.value} {state.worker or ''}{done}", flush=True)


async def main() -> None:
    async with aiolead.connect() as client, trio.open_nursery() as nursery:
        board = aiolead.TaskBoard(client, "/examples/board")
        nursery.start_soon(watch, board)
        task = await board.submit(b"print the report")
        await worker(client, "anna", is_reliable=False)
        await worker(client, "ben", is_reliable=True)
        result = await board.result(task)
        print(f"{result.worker} has done {task}: {result.data.decode()}", flush=True)
        nursery.cancel_scope.cancel()


with command(main):
    trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
