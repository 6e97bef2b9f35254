"""A complete service: several workers, of which one sends the invoices.

AIOLEAD_HOSTS=127.0.0.1:2181 DATABASE=invoices.db \
    uvicorn --factory --workers 3 --app-dir examples/application app:create_app

Each worker serves requests. One of them, the leader, runs the scheduler, and what it writes is
fenced: the database refuses a leader that others have replaced without its knowing.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Annotated, TypedDict, cast

import anyio
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from ledger import Ledger
from prometheus_client import CollectorRegistry, generate_latest

import aiolead
from aiolead.instrumentation.prometheus import PrometheusSink

PATH = "/examples/application/scheduler"


class State(TypedDict):
    client: aiolead.Client
    election: aiolead.Election
    ledger: Ledger
    metrics: CollectorRegistry


def create_app(
    hosts: str | None = None,
    database: str | None = None,
    *,
    identity: str | None = None,
    every: float = 1.0,
) -> FastAPI:
    """The application of one worker.

    Args:
        hosts: the ZooKeeper servers; $AIOLEAD_HOSTS by default.
        database: the SQLite file that all workers share; $DATABASE by default.
        identity: the worker's name in the election; host name and process id by default.
        every: how often the leader sends an invoice, in seconds.
    """
    path = database or os.environ.get("DATABASE", "invoices.db")

    async def send_invoices(term: aiolead.Term) -> None:
        """The work of the leader. It is cancelled if leadership is lost."""
        print(f"{term.identity} leads, token {term.token}", flush=True)
        ledger = Ledger(path)
        try:
            while True:
                # The token says which term writes: see `Ledger.add`. The file is local, and a write
                # takes microseconds; for a slow database use a thread.
                number = ledger.add(f"sent by {term.identity}", term.token)
                print(f"{term.identity} sent invoice {number}", flush=True)
                await anyio.sleep(every)
        finally:
            ledger.close()
            print(f"{term.identity} has stopped", flush=True)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[State]:
        metrics = CollectorRegistry()
        sink = PrometheusSink(registry=metrics)
        # uvicorn waits for the lifespan when it is asked to stop: leaving `running` stops the
        # scheduler and resigns, and leaving the client closes the session. So the next worker leads
        # at once, and nobody waits for a session timeout.
        async with aiolead.connect(hosts, session_timeout=6, on_event=sink) as client:
            election = aiolead.Election(client, PATH, identity=identity)
            with contextlib.closing(Ledger(path)) as ledger:
                async with election.running(send_invoices):
                    yield {
                        "client": client,
                        "election": election,
                        "ledger": ledger,
                        "metrics": metrics,
                    }

    app = FastAPI(lifespan=lifespan)
    app.include_router(router)
    return app


router = APIRouter()


def _state(request: Request) -> State:
    return cast(State, request.state._state)


Worker = Annotated[State, Depends(_state)]


@router.get("/")
async def status(worker: Worker) -> dict[str, object]:
    leader = await worker["election"].leader()
    return {
        "leader": leader and leader.identity,
        "answered_by": worker["election"].identity,
        "invoices": worker["ledger"].count(),
    }


@router.get("/health")
async def health(worker: Worker) -> Response:
    """Ready: the servers know of this worker. It need not lead."""
    return Response(status_code=200 if worker["client"].healthy() else 503)


@router.get("/metrics")
async def metrics(worker: Worker) -> Response:
    return Response(generate_latest(worker["metrics"]), media_type="text/plain; version=0.0.4")
