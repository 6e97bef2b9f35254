"""aiohttp with a runner of its own, which is set up in one task and cleaned up in another."""

import asyncio
import signal
import sys

from aiohttp import web
from aiohttp_context import create_app as with_context
from aiohttp_hooks import create_app as with_hooks


async def main() -> None:
    app = await {"hooks": with_hooks, "context": with_context}[sys.argv[1]]()
    runner, stop = web.AppRunner(app), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    await asyncio.create_task(start())
    await stop.wait()
    await asyncio.create_task(runner.cleanup())


asyncio.run(main())
