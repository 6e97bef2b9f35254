"""aiozk, as its documentation shows it. On asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiozk
import aiozk.exc

from .interface import RETRY_AFTER, Answer, Kind, Stopwatch, now, until_open


class Aiozk:
    """See `interface.Peer`."""

    def __init__(self, _tasks: Any) -> None:
        self._clients: list[aiozk.ZKClient] = []
        self._watches: list[Any] = []
        self._contenders: list[asyncio.Task[None]] = []
        self._holder: Any = None

    def version(self) -> str:
        from importlib.metadata import version

        return version("aiozk")

    async def open(self, hosts: str, sessions: int, timeout: float) -> None:
        servers = hosts.split(",")
        for i in range(sessions):
            client = aiozk.ZKClient(servers[i % len(servers)], session_timeout=timeout)
            await client.start()
            self._clients.append(client)

    async def close(self) -> None:
        for task in self._contenders:
            task.cancel()
        for client in self._clients:
            await client.close()
        self._clients.clear()
        self._watches.clear()
        self._contenders.clear()
        self._holder = None

    @property
    def _client(self) -> aiozk.ZKClient:
        return self._clients[0]

    async def gets(self, path: str, count: int) -> Answer:
        client = self._client
        with Stopwatch() as watch:
            for _ in range(count):
                await client.get(path)
        return watch.answer()

    async def pipeline(self, op: str, path: str, count: int, size: int) -> Answer:
        client, data = self._client, bytes(size)
        send: Any = {
            "create": lambda path: client.create(path, data),
            "set": lambda path: client.set_data(path, data, force=True),
            "get": client.get,
            "delete": lambda path: client.delete(path, force=True),
        }[op]
        with Stopwatch() as watch:
            await asyncio.gather(*(send(f"{path}/n-{i}") for i in range(count)))
        return watch.answer()

    async def cycles(self, path: str, count: int) -> Answer:
        lock = self._client.recipes.Lock(path)
        with Stopwatch() as watch:
            for _ in range(count):
                async with lock:
                    pass
        return watch.answer()

    async def together(self, path: str, locks: int, each: int) -> Answer:
        async def cycle(lock: Any) -> None:
            for _ in range(each):
                async with lock:
                    pass

        mine = [self._client.recipes.Lock(f"{path}/{i}") for i in range(locks)]
        with Stopwatch() as watch:
            await asyncio.gather(*map(cycle, mine))
        return watch.answer()

    async def watch(self, path: str, count: int) -> None:
        kinds = [aiozk.WatchEvent.CREATED]
        for i in range(count):
            absent = f"{path}/absent-{i}"
            self._watches.append(self._client.wait_for_events(kinds, absent))
            await self._client.exists(absent, watch=True)

    async def recover(self, within: float) -> Answer:
        attempts, deadline = 0, time.monotonic() + within
        while time.monotonic() < deadline:
            attempts += 1
            try:
                await asyncio.wait_for(self._client.exists("/"), deadline - time.monotonic())
                return {"usable": now(), "attempts": attempts}
            except (aiozk.exc.ZKError, OSError):
                await asyncio.sleep(RETRY_AFTER)
        raise TimeoutError(f"not usable after {within} s, in {attempts} attempts")

    # --- contenders ----------------------------------------------------------------------------

    @staticmethod
    def _contender(kind: Kind, client: aiozk.ZKClient, path: str) -> Any:
        return client.recipes.Lock(path) if kind == "lock" else _Leadership(client, path)

    async def turns(self, kind: Kind, path: str, each: int, hold: float, gate: str) -> Answer:
        turns: list[tuple[int, int]] = []

        async def contend(client: aiozk.ZKClient) -> None:
            contender = self._contender(kind, client, path)
            for _ in range(each):
                async with contender:
                    had = now()
                    await asyncio.sleep(hold)
                    await until_open(gate, asyncio.sleep)
                    turns.append((had, now()))

        with Stopwatch() as watch:
            await asyncio.gather(*map(contend, self._clients))
        return {"turns": turns, "cpu": watch.cpu}

    async def queue(self, kind: Kind, path: str, contenders: int, hold: int) -> Answer:
        async def once(contender: Any) -> None:
            async with contender:
                pass

        if hold:
            self._holder = self._contender(kind, self._client, path)
            await self._holder.__aenter__()
        began = now()
        for i in range(contenders):
            # Its locks are not for several tasks, so each contender has one of its own.
            client = self._clients[i % len(self._clients)]
            contender = self._contender(kind, client, path)
            self._contenders.append(asyncio.create_task(once(contender)))
        return {"began": began}

    async def drain(self) -> Answer:
        with Stopwatch() as watch:
            if self._holder is not None:
                await self._holder.__aexit__(None, None, None)
            await asyncio.gather(*self._contenders)
        self._contenders.clear()
        return watch.answer()

    async def connects(self, hosts: str, count: int, timeout: float) -> Answer:
        samples = []
        for _ in range(count):
            start = time.perf_counter()
            client = aiozk.ZKClient(hosts, session_timeout=timeout)
            await client.start()
            await client.exists("/")
            samples.append(time.perf_counter() - start)
            await client.close()
        return {"samples": samples}


class _Leadership:
    """A turn in an election. Each turn has an election of its own: one cannot be won twice."""

    def __init__(self, client: aiozk.ZKClient, path: str) -> None:
        self._client, self._path = client, path

    async def __aenter__(self) -> None:
        self._election = self._client.recipes.LeaderElection(self._path)
        await self._election.volunteer()
        await self._election.wait_for_leadership()

    async def __aexit__(self, *_: object) -> None:
        await self._election.resign()


make = Aiozk
