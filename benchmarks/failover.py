"""How long an ensemble accepts no write when it loses its leader, and what a holder sees of it.

A real ensemble, all on this machine. In each trial the server that leads is killed, or frozen with
its connections open; one client holds a term all the while, another one tries to write. See
docs/explanation/ensembles.md, which quotes the numbers.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import anyio

import aiolead
from aiolead.testing import Ensemble, ZooKeeperServer

TICK, SYNC_LIMIT = 0.5, 4
PATIENCE = 60.0


@dataclass(frozen=True)
class Trial:
    """Seconds without writes, the least that was left of the lease, and whether it was kept."""

    outage: float
    least: float
    kept: bool


async def _first_write(hosts: str) -> None:
    """Returns when a write was answered that was sent after the call."""
    while True:
        with anyio.move_on_after(1.0):
            try:
                async with aiolead.connect(hosts, session_timeout=10.0) as client:
                    # The creation of the session was agreed on.
                    await client.sync("/")
                    return
            except aiolead.AioleadError:
                await anyio.sleep(0.01)


async def _trial(ensemble: Ensemble, fault: str, session_timeout: float) -> Trial:
    leader = await ensemble.leader()
    others = ",".join(s.connect_string for s in ensemble.servers if s is not leader)
    left: list[float] = []
    holds, over = anyio.Event(), anyio.Event()

    async def hold() -> None:
        async with (
            aiolead.connect(
                ensemble.connect_string, session_timeout=session_timeout, tick_time=TICK
            ) as client,
            aiolead.Election(client, "/failover").leadership(timeout=PATIENCE) as term,
        ):
            await anyio.sleep(session_timeout)  # Until it is renewed as it always will be.
            holds.set()
            while not over.is_set():
                left.append(term.remaining())
                await anyio.sleep(0.01)

    kept = True

    async def hold_or_lose() -> None:
        nonlocal kept
        try:
            await hold()
        except aiolead.LeadershipLost:
            kept = False

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold_or_lose)
        await holds.wait()
        start = anyio.current_time()
        await (leader.kill() if fault == "killed" else leader.pause())
        await _first_write(others)
        outage = anyio.current_time() - start
        await anyio.sleep(session_timeout / 2)
        over.set()
    await _bring_back(ensemble, leader)
    return Trial(outage, min(left), kept)


async def _bring_back(ensemble: Ensemble, leader: ZooKeeperServer) -> None:
    if leader.is_running:
        await leader.resume()
    else:
        await leader.start()
    await ensemble.wait_serving()


async def _main(trials: int, servers: int) -> None:
    async with Ensemble(servers, tick_time=TICK, sync_limit=SYNC_LIMIT) as ensemble:
        for fault, session_timeout in (("killed", 4.0), ("frozen", 8.0)):
            done = [await _trial(ensemble, fault, session_timeout) for _ in range(trials)]
            outages = sorted(trial.outage for trial in done)
            print(
                f"{fault}, session timeout {session_timeout} s: "
                f"no writes for {outages[0]:.2f} / {statistics.median(outages):.2f} / "
                f"{outages[-1]:.2f} s (min / median / max of {trials}); "
                f"terms kept {sum(trial.kept for trial in done)} of {trials}, "
                f"least lease {min(trial.least for trial in done):.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--servers", type=int, default=3)
    arguments = parser.parse_args()
    anyio.run(_main, arguments.trials, arguments.servers, backend="trio")
