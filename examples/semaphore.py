"""Not more than two downloads at a time, whatever the number of processes. Start this a few times.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/semaphore.py a b c d
"""

import asyncio
import sys

import aiolead


async def download(semaphore: aiolead.Semaphore, name: str) -> None:
    async with semaphore:  # waits for one of the permits, first come first served
        print(f"{name}: begins", flush=True)
        await asyncio.sleep(0.3)  # the download: it is cancelled if the permit is lost
        print(f"{name}: ends", flush=True)


async def main(names: list[str]) -> None:
    async with aiolead.connect() as client:
        semaphore = aiolead.Semaphore(client, "/examples/downloads", 2)
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(download(semaphore, name))


asyncio.run(main(sys.argv[1:]))
