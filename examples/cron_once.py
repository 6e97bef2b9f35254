"""A job that the cron of every host starts, and that one of them does.

A host that starts late finds that the day is done. If a host fails, another one does the job. If a
host dies between the work and the record that it is done, the job is done again. If that must not
happen, let the system that the job writes to refuse a second time.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/cron_once.py 2026-11-21
"""

import asyncio

from _command import command

import aiolead


async def send_the_invoices(day: str) -> None:
    await asyncio.sleep(0.5)


async def main(day: str) -> None:
    async with aiolead.connect() as client:
        async with aiolead.Once(client, "/examples/invoices").claim(day) as run:
            if run is None:
                print(f"{day}: done already", flush=True)
                return
            await send_the_invoices(day)
        print(f"{day}: done", flush=True)


with command(main) as arguments:
    asyncio.run(main(*arguments))
