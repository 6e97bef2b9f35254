"""APScheduler's jobs, in exactly one of its processes. Start this twice.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/apscheduler_once/app.py
"""

import asyncio
import math
import sys
from datetime import datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from apscheduler.executors.base import BaseExecutor, run_coroutine_job
from apscheduler.schedulers.asyncio import AsyncIOScheduler

import aiolead


class TermExecutor(BaseExecutor):
    """Runs jobs in the term's own task group: cancelled, and waited for, when the term is over.

    APScheduler's own executor cancels them as well, but nobody waits until they have stopped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._submit, self._submitted = anyio.create_memory_object_stream[Any](math.inf)

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        # A callback of the event loop, where a task group starts nothing: only a task can.
        self._submit.send_nowait((job, run_times))

    async def run(self, tasks: TaskGroup) -> None:
        with self._submit, self._submitted:
            async for job, run_times in self._submitted:
                tasks.start_soon(self._run, job, run_times)

    async def _run(self, job: Any, run_times: list[datetime]) -> None:
        log = self._logger.name
        events = await run_coroutine_job(job, job._jobstore_alias, run_times, log)
        self._run_job_success(job.id, events)


async def report(term: aiolead.Term) -> None:
    """A job. Its exceptions are logged, and it runs again when it is due the next time."""
    print(f"{term.identity} begins a report, token {term.token}", flush=True)
    try:
        await anyio.sleep(0.2)
        term.check()  # before what must not happen twice
        print(f"{term.identity} has done a report", flush=True)
    finally:
        with anyio.move_on_after(0.5, shield=True):
            await anyio.sleep(0.05)  # puts its papers away; nobody else leads before that
        print(f"{term.identity} is not at work", flush=True)


async def schedule(term: aiolead.Term) -> None:
    """A scheduler for each term. Jobs that are due while nobody leads are skipped."""
    async with anyio.create_task_group() as jobs:
        executor = TermExecutor()
        jobs.start_soon(executor.run, jobs)
        scheduler = AsyncIOScheduler(executors={"default": executor})
        scheduler.add_job(report, "interval", seconds=0.5, args=[term])
        scheduler.start()
        try:
            await anyio.sleep_forever()
        finally:
            scheduler.pause()  # at once, while shutting down takes a turn of the event loop
            scheduler.shutdown()


async def main(
    hosts: str | None = None,
    identity: str | None = None,
    task_status: TaskStatus[aiolead.Client] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with aiolead.connect(hosts) as client:
        election = aiolead.Election(client, "/examples/apscheduler", identity=identity)
        task_status.started(client)  # ready, before it leads
        await election.run(schedule)


if __name__ == "__main__":
    asyncio.run(main(identity=sys.argv[1] if sys.argv[1:] else None))
