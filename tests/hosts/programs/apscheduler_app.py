"""APScheduler 3 on asyncio: a scheduler for each term."""

import asyncio
import os
import signal

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from work import ELECTION, work

import aiolead


async def job(term: aiolead.Term) -> None:
    term.check()
    print(f"{os.getpid()} runs a job", flush=True)


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with aiolead.connect() as client:
        at_work = work(client)

        async def schedule(term: aiolead.Term) -> None:
            scheduler = AsyncIOScheduler()
            scheduler.add_job(job, "interval", seconds=0.1, args=[term])
            scheduler.start()
            try:
                await at_work(term)
            finally:
                scheduler.shutdown()

        await aiolead.Election(client, ELECTION).run(schedule)


try:
    asyncio.run(main())
except (KeyboardInterrupt, asyncio.CancelledError):
    raise SystemExit(130) from None
