"""A report that one of many machines writes: the first one; the others have nothing to do.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/nightly_report.py
"""

import anyio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        lock = aiolead.ExclusiveLock(client, "/examples/report")
        async with lock.try_acquire() as held:  # one request, whatever the answer
            if held is None:
                print("somebody else writes it", flush=True)
                return
            print("written here", flush=True)
            async with aiolead.ExclusiveLock(client, "/examples/report").try_acquire() as second:
                print(f"a second one at the same time: {second}", flush=True)


with command(main):
    anyio.run(main)
