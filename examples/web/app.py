"""A web application with a scheduler that must run once, however many workers serve it.

AIOLEAD_HOSTS=127.0.0.1:2181 uvicorn --workers 3 --app-dir examples/web app:app
"""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import TypedDict

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import aiolead


class State(TypedDict):
    election: aiolead.Election


async def scheduler(term: aiolead.Term) -> None:
    """The work of the one that leads. It is cancelled if leadership is lost."""
    print(f"worker {os.getpid()} runs the scheduler, token {term.token}", flush=True)
    await anyio.sleep_forever()


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[State]:
    """Contends in the background, in every worker, for as long as the worker serves.

    The `yield` is not inside of `election.leadership()`: then only the leader would ever serve, and
    losing leadership would take the whole application down.
    """
    async with aiolead.connect() as client, anyio.create_task_group() as tasks:
        election = aiolead.Election(client, "/examples/web/scheduler")
        tasks.start_soon(election.run, scheduler)
        yield {"election": election}
        tasks.cancel_scope.cancel()


async def who_leads(request: Request) -> JSONResponse:
    election: aiolead.Election = request.state.election
    leader = await election.leader()
    return JSONResponse(
        {"leader": leader and leader.identity, "answered_by": election.identity},
    )


app = Starlette(routes=[Route("/", who_leads)], lifespan=lifespan)
