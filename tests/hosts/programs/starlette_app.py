"""Starlette: the client lives in the lifespan of the application."""

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from work import ELECTION, work

import aiolead


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


app = Starlette(lifespan=lifespan)
