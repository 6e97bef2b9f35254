"""Litestar: the client lives in one of the application's lifespans."""

import contextlib
from collections.abc import AsyncIterator

from litestar import Litestar
from work import ELECTION, work

import aiolead


@contextlib.asynccontextmanager
async def contending(app: Litestar) -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield


app = Litestar(lifespan=[contending], logging_config=None)
