"""FastAPI: the client lives in the lifespan of the application."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from work import ELECTION, work

import aiolead


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


app = FastAPI(lifespan=lifespan)
