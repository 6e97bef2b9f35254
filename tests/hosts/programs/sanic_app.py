"""Sanic: one listener opens the client, and another one closes it."""

import contextlib

from sanic import HTTPResponse, Request, Sanic, empty
from work import ELECTION, work

import aiolead

app = Sanic("contending")


@app.before_server_start
async def start(app: Sanic) -> None:
    app.ctx.stack = stack = contextlib.AsyncExitStack()
    client = await stack.enter_async_context(aiolead.connect())
    election = aiolead.Election(client, ELECTION)
    await stack.enter_async_context(election.running(work(client)))


@app.after_server_stop
async def stop(app: Sanic) -> None:
    await app.ctx.stack.aclose()


@app.get("/")
async def nothing(request: Request) -> HTTPResponse:
    return empty()
