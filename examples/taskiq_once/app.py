"""taskiq's scheduler, in exactly one of its processes. Start this twice.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/taskiq_once/app.py
"""

import asyncio
import sys
from typing import Annotated

import anyio
from anyio.abc import TaskStatus
from taskiq import Context, InMemoryBroker, TaskiqDepends, TaskiqScheduler
from taskiq.api import run_scheduler_task
from taskiq.exceptions import ScheduledTaskCancelledError
from taskiq.schedule_sources import LabelScheduleSource
from taskiq.scheduler.scheduled_task import ScheduledTask

import aiolead

broker = InMemoryBroker()  # stands for yours: this one runs what it is sent in this process


@broker.task(schedule=[{"interval": 1}])
async def report(context: Annotated[Context, TaskiqDepends()]) -> None:
    """A task, wherever the broker's workers are."""
    labels = context.message.labels
    print(f"report of {labels['leader']}, token {labels['token']}", flush=True)


class TermSource(LabelScheduleSource):
    """The schedules at the tasks, for one term."""

    def __init__(self, term: aiolead.Term) -> None:
        super().__init__(broker)
        self._term = term

    def pre_send(self, task: ScheduledTask) -> None:
        """Called for what is due, in a task of taskiq's own, which outlives the scheduler."""
        if not self._term.is_held:
            raise ScheduledTaskCancelledError
        # A worker that stores something can have a smaller token refused than was there before.
        task.labels.update(leader=self._term.identity, token=self._term.token)


async def schedule(term: aiolead.Term) -> None:
    """A scheduler for each term; it knows nothing of what earlier ones have sent."""
    print(f"{term.identity} schedules", flush=True)
    try:
        await run_scheduler_task(TaskiqScheduler(broker, [TermSource(term)]))
    finally:
        print(f"{term.identity} has stopped", flush=True)


async def main(
    hosts: str | None = None,
    identity: str | None = None,
    task_status: TaskStatus[aiolead.Client] = anyio.TASK_STATUS_IGNORED,
) -> None:
    await broker.startup()
    try:
        async with aiolead.connect(hosts) as client:
            election = aiolead.Election(client, "/examples/taskiq", identity=identity)
            task_status.started(client)  # ready, before it leads
            await election.run(schedule)
    finally:
        with anyio.move_on_after(5, shield=True):
            await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main(identity=sys.argv[1] if sys.argv[1:] else None))
