"""Work that stops at a gate while somebody maintains what it works on.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/maintenance.py
"""

import anyio

import aiolead


async def work(client: aiolead.Client, closed: anyio.Event) -> None:
    await closed.wait()
    await aiolead.Barrier(client, "/examples/gate").wait()  # at once, while the gate is open
    print("the work goes on", flush=True)


async def main() -> None:
    async with aiolead.connect() as client, anyio.create_task_group() as tasks:
        gate, closed = aiolead.Barrier(client, "/examples/gate"), anyio.Event()
        tasks.start_soon(work, client, closed)
        await gate.close()
        closed.set()
        print(f"maintenance; the gate is open: {await gate.is_open()}", flush=True)
        await gate.open()


anyio.run(main, backend="trio")
