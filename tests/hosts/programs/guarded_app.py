"""Starlette with `close_on_crash`: a guardian closes the session of a worker that was killed."""

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from work import ELECTION, work

import aiolead


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with aiolead.connect(close_on_crash=True) as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


app = Starlette(lifespan=lifespan)
