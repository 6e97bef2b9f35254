"""A Litestar application that every worker serves, and one of them runs the scheduler of.

AIOLEAD_HOSTS=127.0.0.1:2181 \
    uvicorn --factory --workers 3 --app-dir examples/litestar_lifespan app:create_app
"""

import contextlib
from collections.abc import AsyncIterator

import anyio
from litestar import Litestar, Response, get
from litestar.datastructures import State

import aiolead


async def scheduler(term: aiolead.Term) -> None:
    """The work of the one that leads. It is cancelled if leadership is lost."""
    print(f"{term.identity} runs the scheduler, token {term.token}", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print(f"{term.identity} has stopped", flush=True)


@get("/")
async def who_leads(state: State) -> dict[str, str | None]:
    election: aiolead.Election = state.election
    leader = await election.leader()
    return {"leader": leader and leader.identity, "answered_by": election.identity}


@get("/ready")
async def ready(state: State) -> Response[None]:
    """Whether the servers know of us, leading or not."""
    return Response(None, status_code=200 if state.client.healthy() else 503)


@get("/live")
async def live(state: State) -> Response[None]:
    """Whether we still contend. A server that is away is nothing that a restart would mend."""
    return Response(None, status_code=503 if state.client.state.is_final else 200)


def create_app(hosts: str | None = None, identity: str | None = None) -> Litestar:
    """The application; by default at $AIOLEAD_HOSTS, and called by its host and process id."""

    @contextlib.asynccontextmanager
    async def contending(app: Litestar) -> AsyncIterator[None]:
        async with aiolead.connect(hosts) as client:
            election = aiolead.Election(client, "/examples/litestar", identity=identity)
            app.state.client, app.state.election = client, election
            async with election.running(scheduler):
                yield

    handlers = [who_leads, ready, live]
    # The operator of the server configures logging.
    return Litestar(handlers, lifespan=[contending], logging_config=None)
