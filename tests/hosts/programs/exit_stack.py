"""An `AsyncExitStack` that one task fills and another one closes."""

import asyncio
import contextlib
import signal

from work import ELECTION, work

import aiolead


async def main() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stack = contextlib.AsyncExitStack()

    async def start() -> None:
        client = await stack.enter_async_context(aiolead.connect())
        election = aiolead.Election(client, ELECTION)
        await stack.enter_async_context(election.running(work(client)))

    await asyncio.create_task(start())
    await stop.wait()
    await asyncio.create_task(stack.aclose())


asyncio.run(main())
