"""aiohttp: the client lives in a context of `cleanup_ctx`."""

import os
from collections.abc import AsyncIterator

from aiohttp import web
from work import ELECTION, work

import aiolead


async def contending(app: web.Application) -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


async def stop_something_else(app: web.Application) -> None:
    print(f"{os.getpid()} ran its next hook", flush=True)


async def create_app() -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(contending)
    app.on_cleanup.append(stop_something_else)
    return app


if __name__ == "__main__":
    web.run_app(create_app(), host="127.0.0.1", port=0)
