"""Work that waits at a barrier while somebody maintains what it works on.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/maintenance.py
"""

import anyio
from _command import command

import aiolead


async def work(client: aiolead.Client, begun: anyio.Event) -> None:
    await begun.wait()
    await aiolead.Barrier(client, "/examples/maintenance").wait()  # at once, if it is not set
    print("the work goes on", flush=True)


async def main() -> None:
    async with aiolead.connect() as client, anyio.create_task_group() as tasks:
        barrier, begun = aiolead.Barrier(client, "/examples/maintenance"), anyio.Event()
        tasks.start_soon(work, client, begun)
        await barrier.set()
        begun.set()
        print(f"maintenance; the barrier is set: {await barrier.is_set()}", flush=True)
        await barrier.remove()


with command(main):
    anyio.run(main, backend="trio")
