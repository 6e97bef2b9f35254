"""aiohttp: `on_startup` opens the client, and `on_cleanup` closes it."""

import contextlib
import os

from aiohttp import web
from work import ELECTION, work

import aiolead

STACK = web.AppKey("stack", contextlib.AsyncExitStack)


async def start(app: web.Application) -> None:
    app[STACK] = stack = contextlib.AsyncExitStack()
    client = await stack.enter_async_context(aiolead.connect())
    election = aiolead.Election(client, ELECTION)
    await stack.enter_async_context(election.running(work(client)))


async def stop(app: web.Application) -> None:
    await app[STACK].aclose()


async def stop_something_else(app: web.Application) -> None:
    print(f"{os.getpid()} ran its next hook", flush=True)


async def create_app() -> web.Application:
    app = web.Application()
    app.on_startup.append(start)
    app.on_cleanup.extend([stop, stop_something_else])
    return app


if __name__ == "__main__":
    web.run_app(create_app(), host="127.0.0.1", port=0)
