"""A job that the cron of every host starts, and that one of them does.

The lock alone is not enough: a host that starts late would find it free again, and do the job a
second time. So the host that has done the job records that, under the lock, before it releases.

If a host dies between the job and the note, the next host does the job again. If that must not
happen, let the system that the job writes to refuse a second time.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/cron_once.py 2026-11-21
"""

import asyncio

from _command import command

import aiolead


async def send_the_invoices(day: str) -> None:
    await asyncio.sleep(0.5)


async def main(day: str) -> None:
    note = f"/examples/invoices/done/{day}"
    async with aiolead.connect() as client:
        await client.ensure_path("/examples/invoices/done")
        async with aiolead.Lock(client, "/examples/invoices/lock") as held:
            if await client.exists(note):
                print(f"{day}: done already", flush=True)
                return
            await send_the_invoices(day)
            # Refused if the lock was lost: its next holder does the job.
            await held.fenced().create(note, held.identity.encode())
            print(f"{day}: done", flush=True)


with command(main) as arguments:
    asyncio.run(main(*arguments))
