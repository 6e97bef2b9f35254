"""How long nobody leads in a rolling restart in which new processes lead before old ones end.

Replicas contend for one election, each a process, all on this machine with the servers. In each
trial a new process starts, warms up, and is named as the successor, behind all others. When it
leads, the process that led before is ended. The gap is the time from the end of the body of the old
leader to the beginning of the body of the new one.

    python -m benchmarks.rolling                   # 20 trials with 5 replicas, on three servers
    python -m benchmarks.rolling --hosts zk1,zk2   # on other servers

docs/how-to/rolling-deployment.md quotes the numbers. It fails if two have led at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

import aiolead
from aiolead.testing import Ensemble

ELECTION = "/rolling"
PATIENCE = 60.0
WARM_UP = 0.2
"""How long a new process takes until it is ready, in seconds."""

_LEADS, _STOPPED, _READY = "leads", "stopped", "ready"


# --- a replica ---------------------------------------------------------------------------------


def say(what: str) -> None:
    print(what, time.monotonic(), flush=True)


async def replica(identity: str) -> None:
    """Contend, as a campaign until it is ready to lead, and then by a worker for each term."""

    async def work(_term: aiolead.Term) -> None:
        say(_LEADS)
        try:
            await anyio.sleep_forever()
        finally:
            say(_STOPPED)

    async with aiolead.connect() as client, anyio.create_task_group() as tasks:
        await anyio.sleep(WARM_UP)
        tasks.start_soon(aiolead.Election(client, ELECTION, identity=identity).run, work)
        say(_READY)
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                tasks.cancel_scope.cancel()
                break


# --- the restarts ------------------------------------------------------------------------------


@dataclass
class Replica:
    """A process, and what it has printed: a word and the time, the same clock for all."""

    identity: str
    process: Process
    lines: list[tuple[str, float]]

    async def said(self, what: str) -> float:
        with anyio.fail_after(PATIENCE):
            while True:
                for word, at in self.lines:
                    if word == what:
                        return at
                await anyio.sleep(0.005)

    async def read(self) -> None:
        assert self.process.stdout is not None
        left = ""
        async for text in TextReceiveStream(self.process.stdout):
            *lines, left = (left + text).split("\n")
            for line in lines:
                word, at = line.split()
                self.lines.append((word, float(at)))


def end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


async def restart(hosts: str, replicas: int, trials: int) -> list[float]:
    """The gap of each hand-over, in seconds."""
    gaps: list[float] = []
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiolead.connect(hosts))
        election = aiolead.Election(client, ELECTION)
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def start(number: int) -> Replica:
            identity = f"replica-{number}"
            process = await anyio.open_process(
                [sys.executable, "-m", "benchmarks.rolling", "--replica", identity],
                env=os.environ | {"AIOLEAD_HOSTS": hosts},
                stderr=None,
            )
            stack.push_async_callback(process.aclose)
            stack.callback(end, process)
            one = Replica(identity, process, [])
            tasks.start_soon(one.read)
            await one.said(_READY)
            return one

        pool = [await start(number) for number in range(replicas)]
        leader = pool[0]
        await leader.said(_LEADS)
        for number in range(replicas, replicas + trials):
            new = await start(number)
            await election.revoke(successor=new.identity, timeout=PATIENCE)
            began, ended = await new.said(_LEADS), await leader.said(_STOPPED)
            assert ended <= began, "two have led at once"
            gaps.append(began - ended)
            leader.process.send_signal(signal.SIGTERM)
            await leader.process.wait()
            leader = new
        tasks.cancel_scope.cancel()
    return gaps


async def measure(hosts: str | None, replicas: int, trials: int) -> None:
    async with AsyncExitStack() as stack:
        if hosts is None:
            ensemble = await stack.enter_async_context(Ensemble(3))
            hosts = ensemble.connect_string
        gaps = sorted(1000 * gap for gap in await restart(hosts, replicas, trials))
    print(f"{trials} restarts of {replicas} replicas: nobody led for, in ms")
    print(f"median {statistics.median(gaps):.1f}, slowest {gaps[-1]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", help="the servers; default: an ensemble of three")
    parser.add_argument("--replicas", type=int, default=5)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--replica", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.replica:
        anyio.run(replica, asked.replica)
    else:
        anyio.run(measure, asked.hosts, asked.replicas, asked.trials)


if __name__ == "__main__":
    main()
