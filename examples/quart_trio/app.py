"""A Quart application on trio, which every worker serves, and one of them runs the scheduler of.

AIOLEAD_HOSTS=127.0.0.1:2181 PYTHONPATH=examples/quart_trio \
    hypercorn --worker-class trio --workers 3 app:app
"""

import os
from typing import Any

import trio
from quart_trio import QuartTrio

import aiolead

app = QuartTrio(__name__)


class Contending:
    """The application's part in the election, while it serves."""

    scope: trio.CancelScope
    client: aiolead.Client
    election: aiolead.Election

    async def run(self, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        with trio.CancelScope() as self.scope:
            async with aiolead.connect() as self.client:
                self.election = aiolead.Election(self.client, "/examples/quart")
                task_status.started()
                await self.election.run(scheduler)


contending = Contending()


async def scheduler(term: aiolead.Term) -> None:
    """The work of the one that leads. It is cancelled if leadership is lost."""
    print(f"worker {os.getpid()} runs the scheduler, token {term.token}", flush=True)
    try:
        await trio.sleep_forever()
    finally:
        print(f"worker {os.getpid()} has stopped", flush=True)


@app.before_serving
async def start() -> None:
    await app.nursery.start(contending.run)


@app.after_serving
async def stop() -> None:
    contending.scope.cancel()  # Quart itself would let it go on for a while


@app.get("/")
async def who_leads() -> dict[str, str | None]:
    leader = await contending.election.leader()
    return {"leader": leader and leader.identity, "answered_by": contending.election.identity}


@app.get("/ready")
async def ready() -> tuple[str, int]:
    """Whether the servers know of us, leading or not."""
    return "", 200 if contending.client.healthy() else 503


@app.get("/live")
async def live() -> tuple[str, int]:
    """Whether we still contend. A server that is away is nothing that a restart would mend."""
    return "", 503 if contending.client.state.is_final else 200
