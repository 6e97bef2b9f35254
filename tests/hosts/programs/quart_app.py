"""Quart on trio: the client lives in `while_serving`."""

from collections.abc import AsyncIterator

from quart_trio import QuartTrio
from work import ELECTION, work

import aiolead

app = QuartTrio(__name__)


@app.while_serving
async def contending() -> AsyncIterator[None]:
    async with aiolead.connect() as client:
        async with aiolead.Election(client, ELECTION).running(work(client)):
            yield
