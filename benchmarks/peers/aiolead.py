"""aiolead, as its documentation shows it. On asyncio, uvloop and trio alike."""

from __future__ import annotations

import time
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

import aiolead

from .interface import RETRY_AFTER, Answer, Kind, Stopwatch, batched, now, until_open

_BATCH = 10_000
"""How many requests are outstanding at most: a client refuses to queue any number."""


class Aiolead:
    """See `interface.Peer`."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._clients: list[aiolead.Client] = []
        self._over = anyio.Event()
        self._closed: list[anyio.Event] = []
        self._watches: list[aiolead.types.ClientWatch] = []
        self._contenders = anyio.Event()
        self._let_go = anyio.Event()

    def version(self) -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("aiolead")
        except PackageNotFoundError:
            return "from the source"

    async def open(self, hosts: str, sessions: int, timeout: float) -> None:
        if not self._clients:
            self._over = anyio.Event()
        servers = hosts.split(",")
        for i in range(sessions):
            connection = aiolead.connect(servers[i % len(servers)], session_timeout=timeout)
            # In a task of its own, as a thousand of them would be in a program.
            self._clients.append(await self._tasks.start(self._keep, connection, self._over))

    async def _keep(
        self,
        connection: aiolead.types.Connection,
        over: anyio.Event,
        *,
        task_status: TaskStatus[aiolead.Client],
    ) -> None:
        closed = anyio.Event()
        try:
            async with connection as client:
                self._closed.append(closed)
                task_status.started(client)
                await over.wait()
        finally:
            closed.set()

    async def close(self) -> None:
        self._over.set()
        for closed in self._closed:
            await closed.wait()
        self._clients.clear()
        self._closed.clear()
        self._watches.clear()

    @property
    def _client(self) -> aiolead.Client:
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
            "set": lambda path: client.set(path, data),
            "get": client.get,
            "delete": client.delete,
        }[op]
        with Stopwatch() as watch:
            replies = [send(f"{path}/n-{i}") for i in range(count)]
            for reply in replies:
                await reply
        return watch.answer()

    async def cycles(self, path: str, count: int) -> Answer:
        lock = aiolead.Lock(self._client, path)
        with Stopwatch() as watch:
            for _ in range(count):
                async with lock:
                    pass
        return watch.answer()

    async def together(self, path: str, locks: int, each: int) -> Answer:
        async def cycle(lock: aiolead.Lock) -> None:
            for _ in range(each):
                async with lock:
                    pass

        with Stopwatch() as watch:
            async with anyio.create_task_group() as tasks:
                for i in range(locks):
                    tasks.start_soon(cycle, aiolead.Lock(self._client, f"{path}/{i}"))
        return watch.answer()

    async def watch(self, path: str, count: int) -> Answer:
        client = self._client
        with Stopwatch() as timer:
            for batch in batched(range(count), _BATCH):
                replies = []
                for i in batch:
                    watch = client.backend.make_watch()
                    self._watches.append(watch)
                    replies.append(client.exists(f"{path}/absent-{i}", watch=watch))
                for reply in replies:
                    await reply
        return timer.answer()

    # --- growth --------------------------------------------------------------------------------

    async def hold(self, path: str, count: int) -> Answer:
        self._let_go, done = anyio.Event(), anyio.Event()
        held, self._contenders = 0, anyio.Event()
        let_go, released = self._let_go, self._contenders

        async def one(lock: aiolead.Lock) -> None:
            nonlocal held
            async with lock:
                held += 1
                if held == count:
                    done.set()
                await let_go.wait()

        async def all_of_them() -> None:
            async with anyio.create_task_group() as tasks:
                for i in range(count):
                    tasks.start_soon(one, aiolead.Lock(self._client, f"{path}/{i}"))
            released.set()

        with Stopwatch() as watch:
            self._tasks.start_soon(all_of_them)
            await done.wait()
        return watch.answer()

    async def let_go(self) -> Answer:
        return await self.drain()

    async def tree(self, path: str, count: int) -> Answer:
        with Stopwatch() as watch:
            async with aiolead.TreeCache(self._client, path, max_nodes=2 * count + 1000) as cache:
                answer = {"seconds": watch.so_far(), "nodes": len(cache)}
        return watch.answer() | answer

    async def observers(self, path: str, count: int) -> Answer:
        election = aiolead.Election(self._client, path)
        told = {"one": 0, "two": 0}
        moments: dict[str, anyio.Event] = {name: anyio.Event() for name in told}

        async def observe() -> None:
            async with election.observe() as view:
                seen = ""
                async for state in view:
                    name = state.leader.identity if state.leader else ""
                    if name in told and name != seen:
                        seen = name
                        told[name] += 1
                        if told[name] == count:
                            moments[name].set()

        async with anyio.create_task_group() as tasks:
            async with aiolead.Election(self._client, path, identity="one").leadership():
                with Stopwatch() as first:
                    for _ in range(count):
                        tasks.start_soon(observe)
                    await moments["one"].wait()
            with Stopwatch() as then:
                async with aiolead.Election(self._client, path, identity="two").leadership():
                    await moments["two"].wait()
            tasks.cancel_scope.cancel()
        return {"first": first.seconds, "next": then.seconds}

    async def items(self, path: str, count: int) -> Answer:
        queue = aiolead.Queue(self._client, path, max_items=25_000)
        with Stopwatch() as put:
            for batch in batched(range(count), 100):
                await queue.put_many([b"%d" % i for i in batch])
        left = count
        with Stopwatch() as take:
            async with queue.consume() as items:
                async for item in items:
                    await item.ack()
                    left -= 1
                    if not left:
                        break
        return {"put": put.seconds, "take": take.seconds}

    async def recover(self, within: float) -> Answer:
        attempts, deadline = 0, time.monotonic() + within
        while time.monotonic() < deadline:
            attempts += 1
            try:
                await self._client.exists("/")
                return {"usable": now(), "attempts": attempts}
            except aiolead.ConnectionLossError:
                await anyio.sleep(RETRY_AFTER)
        raise TimeoutError(f"not usable after {within} s, in {attempts} attempts")

    # --- contenders ----------------------------------------------------------------------------

    def _context(self, kind: Kind, client: aiolead.Client, path: str) -> Any:
        """Makes what is entered for one turn, any number of times."""
        if kind == "lock":
            return aiolead.Lock(client, path).acquire
        return aiolead.Election(client, path).leadership

    async def turns(self, kind: Kind, path: str, each: int, hold: float, gate: str) -> Answer:
        turns: list[tuple[int, int]] = []

        async def contend(client: aiolead.Client) -> None:
            turn = self._context(kind, client, path)
            for _ in range(each):
                async with turn():
                    had = now()
                    await anyio.sleep(hold)
                    await until_open(gate, anyio.sleep)
                    turns.append((had, now()))

        with Stopwatch() as watch:
            async with anyio.create_task_group() as tasks:
                for client in self._clients:
                    tasks.start_soon(contend, client)
        return {"turns": turns, "cpu": watch.cpu}

    async def queue(self, kind: Kind, path: str, contenders: int, hold: int) -> Answer:
        turns = [self._context(kind, client, path) for client in self._clients]
        self._let_go, self._contenders = anyio.Event(), anyio.Event()
        if hold:
            await self._tasks.start(self._hold, turns[0](), self._let_go)
        began = now()
        self._tasks.start_soon(self._contend, turns, contenders, self._contenders)
        return {"began": began}

    async def _hold(self, turn: Any, let_go: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        async with turn:
            task_status.started()
            await let_go.wait()

    async def _contend(self, turns: list[Any], contenders: int, done: anyio.Event) -> None:
        async def once(turn: Any) -> None:
            async with turn():
                pass

        async with anyio.create_task_group() as tasks:
            for i in range(contenders):
                tasks.start_soon(once, turns[i % len(turns)])
        done.set()

    async def drain(self) -> Answer:
        with Stopwatch() as watch:
            self._let_go.set()
            await self._contenders.wait()
        return watch.answer()

    async def connects(self, hosts: str, count: int, timeout: float) -> Answer:
        samples = []
        for _ in range(count):
            start = time.perf_counter()
            # As its docstring says for a first read without a round trip of waiting before it.
            async with aiolead.connect(hosts, session_timeout=timeout, connect_timeout=0) as client:
                await client.exists("/")
                samples.append(time.perf_counter() - start)
        return {"samples": samples}


make = Aiolead
