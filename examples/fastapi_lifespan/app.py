"""A FastAPI application that every worker serves, and one of them runs the scheduler of.

AIOLEAD_HOSTS=127.0.0.1:2181 \
    uvicorn --factory --workers 3 --app-dir examples/fastapi_lifespan app:create_app
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, TypedDict

import anyio
from fastapi import APIRouter, Depends, FastAPI, Request, Response

import aiolead


class State(TypedDict):
    client: aiolead.Client
    election: aiolead.Election


async def scheduler(term: aiolead.Term) -> None:
    """The work of the one that leads. It is cancelled if leadership is lost."""
    print(f"{term.identity} runs the scheduler, token {term.token}", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print(f"{term.identity} has stopped", flush=True)


def create_app(hosts: str | None = None, identity: str | None = None) -> FastAPI:
    """The application; by default at $AIOLEAD_HOSTS, and called by its host and process id."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[State]:
        async with aiolead.connect(hosts) as client:
            election = aiolead.Election(client, "/examples/fastapi", identity=identity)
            async with election.running(scheduler):
                yield {"client": client, "election": election}

    app = FastAPI(lifespan=lifespan)
    app.include_router(router)
    return app


router = APIRouter()


def _client(request: Request) -> aiolead.Client:
    return request.state.client


def _election(request: Request) -> aiolead.Election:
    return request.state.election


@router.get("/")
async def who_leads(
    election: Annotated[aiolead.Election, Depends(_election)],
) -> dict[str, str | None]:
    leader = await election.leader()
    return {"leader": leader and leader.identity, "answered_by": election.identity}


@router.get("/ready")
async def ready(client: Annotated[aiolead.Client, Depends(_client)]) -> Response:
    """Whether the servers know of us, leading or not."""
    return Response(status_code=200 if client.healthy() else 503)


@router.get("/live")
async def live(client: Annotated[aiolead.Client, Depends(_client)]) -> Response:
    """Whether we still contend. A server that is away is nothing that a restart would mend."""
    return Response(status_code=503 if client.state.is_final else 200)
