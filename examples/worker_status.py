"""A znode that says what this process does, as long as it lives; an operator may look at it.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/worker_status.py
"""

import asyncio

from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        # That of the last run goes when its session ends, if it died; this waits for it.
        async with aiolead.PersistentNode(client, "/examples/status/worker", b"idle") as status:
            for job in ("first", "second"):
                await status.set(f"does the {job} job".encode())
                print((await client.get(status.path))[0].decode(), flush=True)
                await asyncio.sleep(0.1)  # the job
        print("gone" if await client.exists(status.path) is None else "still there", flush=True)


with command(main):
    asyncio.run(main())
