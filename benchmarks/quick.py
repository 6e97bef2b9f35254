"""aiolead beside kazoo and aiozk: sequential reads, lock cycles, hand-over. See README.md.

Each peer is driven through its own public recipes, as its documentation shows them. A round runs
every peer once, in shuffled order; what is printed is the median over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial

import aiozk
import anyio
import kazoo.client
import uvloop

import aiolead
from aiolead.testing import BlockingServer

Workload = Callable[[str, int], float]


# --- aiolead ------------------------------------------------------------------------------------


async def _aiolead_gets(hosts: str, count: int) -> float:
    async with aiolead.connect(hosts) as client:
        await client.ensure_path("/bench/get")
        start = time.perf_counter()
        for _ in range(count):
            await client.get("/bench/get")
        return count / (time.perf_counter() - start)


async def _aiolead_cycles(hosts: str, count: int) -> float:
    async with aiolead.connect(hosts) as client:
        lock = aiolead.Lock(client, "/bench/aiolead-lock")
        async with lock:
            pass
        start = time.perf_counter()
        for _ in range(count):
            async with lock:
                pass
        return count / (time.perf_counter() - start)


async def _aiolead_handover(hosts: str, count: int) -> float:
    async def contender(share: int) -> None:
        async with aiolead.connect(hosts) as client:
            lock = aiolead.Lock(client, "/bench/aiolead-handover")
            for _ in range(share):
                async with lock:
                    pass

    start = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(CONTENDERS):
            tasks.start_soon(contender, count // CONTENDERS)
    return count / (time.perf_counter() - start)


def _on(loop: str, workload: Callable[[str, int], object]) -> Workload:
    options = {"loop_factory": uvloop.new_event_loop} if loop == "uvloop" else {}
    backend = "trio" if loop == "trio" else "asyncio"
    return lambda hosts, count: anyio.run(
        partial(workload, hosts, count), backend=backend, backend_options=options
    )


# --- kazoo --------------------------------------------------------------------------------------


def _kazoo_gets(hosts: str, count: int) -> float:
    client = kazoo.client.KazooClient(hosts)
    client.start()
    client.ensure_path("/bench/get")
    start = time.perf_counter()
    for _ in range(count):
        client.get("/bench/get")
    rate = count / (time.perf_counter() - start)
    client.stop()
    client.close()
    return rate


def _kazoo_cycles(hosts: str, count: int) -> float:
    client = kazoo.client.KazooClient(hosts)
    client.start()
    lock = client.Lock("/bench/kazoo-lock")
    with lock:
        pass
    start = time.perf_counter()
    for _ in range(count):
        with lock:
            pass
    rate = count / (time.perf_counter() - start)
    client.stop()
    client.close()
    return rate


def _kazoo_handover(hosts: str, count: int) -> float:
    def contender(share: int) -> None:
        client = kazoo.client.KazooClient(hosts)
        client.start()
        lock = client.Lock("/bench/kazoo-handover")
        for _ in range(share):
            with lock:
                pass
        client.stop()
        client.close()

    threads = [
        threading.Thread(target=contender, args=(count // CONTENDERS,)) for _ in range(CONTENDERS)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - start)


# --- aiozk --------------------------------------------------------------------------------------


async def _aiozk_gets(hosts: str, count: int) -> float:
    client = aiozk.ZKClient(hosts)
    await client.start()
    await client.ensure_path("/bench/get")
    start = time.perf_counter()
    for _ in range(count):
        await client.get("/bench/get")
    rate = count / (time.perf_counter() - start)
    await client.close()
    return rate


async def _aiozk_cycles(hosts: str, count: int) -> float:
    client = aiozk.ZKClient(hosts)
    await client.start()
    lock = client.recipes.Lock("/bench/aiozk-lock")
    async with lock:
        pass
    start = time.perf_counter()
    for _ in range(count):
        async with lock:
            pass
    rate = count / (time.perf_counter() - start)
    await client.close()
    return rate


async def _aiozk_handover(hosts: str, count: int) -> float:
    async def contender(share: int) -> None:
        client = aiozk.ZKClient(hosts)
        await client.start()
        lock = client.recipes.Lock("/bench/aiozk-handover")
        for _ in range(share):
            async with lock:
                pass
        await client.close()

    start = time.perf_counter()
    await asyncio.gather(*(contender(count // CONTENDERS) for _ in range(CONTENDERS)))
    return count / (time.perf_counter() - start)


# --- the run ------------------------------------------------------------------------------------

CONTENDERS = 10

AIOLEAD = {"gets": _aiolead_gets, "cycles": _aiolead_cycles, "handover": _aiolead_handover}
AIOZK = {"gets": _aiozk_gets, "cycles": _aiozk_cycles, "handover": _aiozk_handover}

PEERS: dict[str, dict[str, Workload]] = {
    **{
        f"aiolead, {loop}": {name: _on(loop, workload) for name, workload in AIOLEAD.items()}
        for loop in ("asyncio", "uvloop", "trio")
    },
    "kazoo": {"gets": _kazoo_gets, "cycles": _kazoo_cycles, "handover": _kazoo_handover},
    "aiozk": {name: _on("asyncio", workload) for name, workload in AIOZK.items()},
}

WORKLOADS = {
    "gets": ("sequential gets a second", 2000),
    "cycles": ("uncontended lock cycles a second", 600),
    "handover": (f"lock turns a second, {CONTENDERS} clients", 300),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each peer runs")
    rounds = parser.parse_args().rounds
    with BlockingServer() as server:
        for name, (title, count) in WORKLOADS.items():
            results: dict[str, list[float]] = {peer: [] for peer in PEERS}
            for _ in range(rounds):
                for peer in random.sample(list(PEERS), len(PEERS)):
                    results[peer].append(PEERS[peer][name](server.connect_string, count))
            print(f"\n{title}, median of {rounds}")
            base = statistics.median(results["aiolead, asyncio"])
            for peer, rates in results.items():
                rate = statistics.median(rates)
                print(f"  {peer:18} {rate:8.0f}   {rate / base:5.2f} x aiolead on asyncio")


if __name__ == "__main__":
    main()
