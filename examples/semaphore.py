"""Not more than two downloads at a time, whatever the number of processes. Start this a few times.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/semaphore.py a b c d
"""

import asyncio

from _command import command

import aiolead


async def download(semaphore: aiolead.Semaphore, name: str) -> None:
    async with semaphore:  # waits for one of the permits, first come first served
        print(f"{name}: begins", flush=True)
        await asyncio.sleep(0.3)  # the download: it is cancelled if the permit is lost
        print(f"{name}: ends", flush=True)


async def main(*names: str) -> None:
    async with aiolead.connect() as client:
        semaphore = aiolead.Semaphore(client, "/examples/downloads", 2)
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(download(semaphore, name))


with command(main) as arguments:
    asyncio.run(main(*arguments))
