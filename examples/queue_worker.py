"""Jobs that are done at least once. Start this a few times at once, and kill one: none is lost.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/queue_worker.py put resize-1.png resize-2.png
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/queue_worker.py
"""

import asyncio
import os
from typing import Literal

from _command import command

import aiolead


async def put(queue: aiolead.Queue, jobs: tuple[str, ...]) -> None:
    await queue.put_many([job.encode() for job in jobs])
    print(f"{len(jobs)} jobs put, {await queue.size()} are there", flush=True)


async def work(queue: aiolead.Queue) -> None:
    while True:
        try:
            async with queue.consume() as items:
                async for item in items:
                    job = item.data.decode()
                    print(f"{os.getpid()} begins {job}", flush=True)
                    await asyncio.sleep(0.2)  # the work: it is cancelled if the claim is lost
                    await item.ack()  # from here on nobody gets it again
                    print(f"{os.getpid()} has done {job}", flush=True)
        except aiolead.errors.ClaimLost as lost:
            print(f"somebody else gets it: {lost}", flush=True)


async def main(what: Literal["work", "put"] = "work", *jobs: str) -> None:
    async with aiolead.connect() as client:
        queue = aiolead.Queue(client, "/examples/jobs")
        if what == "put":
            await put(queue, jobs)
        else:
            await work(queue)


with command(main) as arguments:
    asyncio.run(main(*arguments))
