"""A fleet of workers: all of them work, one of them plans. Start this several times.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/asyncio_workers/worker.py [PORT]

`http://127.0.0.1:PORT/ready` is for a probe; any free port by default.
"""

import asyncio
import contextlib
import os
import signal
import sys

import aiolead


async def plan(term: aiolead.Term, queue: aiolead.Queue) -> None:
    """The work of the leader. It is cancelled if leadership is lost."""
    print(f"{os.getpid()} plans, token {term.token}", flush=True)
    try:
        for page in range(1_000_000):
            await queue.put(f"page {page} of plan {term.token}".encode())
            await asyncio.sleep(0.3)
    finally:
        print(f"{os.getpid()} plans no more", flush=True)


async def work(queue: aiolead.Queue) -> None:
    """The work of every process, the leader included."""
    while True:
        with contextlib.suppress(aiolead.errors.ClaimLost):  # then somebody else gets it
            async with queue.consume() as jobs:
                async for job in jobs:
                    print(f"{os.getpid()} does {job.data.decode()}", flush=True)
                    await job.ack()


async def serve_probes(client: aiolead.Client, port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status = "200 OK" if client.healthy() else "503 Service Unavailable"
        writer.write(f"HTTP/1.0 {status}\r\n\r\n".encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    address, port = server.sockets[0].getsockname()
    print(f"{os.getpid()} answers at http://{address}:{port}/ready", flush=True)
    await server.serve_forever()


async def main() -> None:
    # On SIGTERM: everything is cancelled, and leaving the client closes its session.
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    async with aiolead.connect() as client, asyncio.TaskGroup() as tasks:
        queue = aiolead.Queue(client, "/examples/fleet/jobs")
        election = aiolead.Election(client, "/examples/fleet/planner")
        tasks.create_task(work(queue))
        tasks.create_task(serve_probes(client, int(sys.argv[1]) if sys.argv[1:] else 0))
        tasks.create_task(election.run(lambda term: plan(term, queue)))


with contextlib.suppress(asyncio.CancelledError):
    asyncio.run(main())
