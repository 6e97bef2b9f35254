"""taskiq's scheduler: one for each term."""

import asyncio
import signal

from taskiq import InMemoryBroker, TaskiqScheduler
from taskiq.api import run_scheduler_task
from taskiq.schedule_sources import LabelScheduleSource
from work import ELECTION, work

import aiolead

broker = InMemoryBroker()


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with aiolead.connect() as client:
        at_work = work(client)

        async def schedule(term: aiolead.Term) -> None:
            async with asyncio.TaskGroup() as tasks:
                scheduler = TaskiqScheduler(broker, [LabelScheduleSource(broker)])
                tasks.create_task(run_scheduler_task(scheduler))
                tasks.create_task(at_work(term))

        await aiolead.Election(client, ELECTION).run(schedule)


try:
    asyncio.run(main())
except (KeyboardInterrupt, asyncio.CancelledError):
    raise SystemExit(130) from None
