"""kazoo, as its documentation shows it, with its default handler: threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import kazoo
import kazoo.client
import kazoo.exceptions
from kazoo.recipe.cache import TreeCache, TreeEvent

from .interface import LOOK_AFTER, RETRY_AFTER, Answer, Kind, Stopwatch, is_shut, now
from .threads import in_threads

_THREADS = 32
"""Of a program that acquires many locks: each call waits for its answer."""

_PATIENCE = 90.0

_LOST = (
    kazoo.exceptions.ConnectionLoss,
    kazoo.exceptions.ConnectionClosedError,
    kazoo.exceptions.OperationTimeoutError,
    kazoo.exceptions.SessionExpiredError,
)

# A waiter takes a thread. Thousands of them, with the usual 8 MiB of address space, may be refused.
threading.stack_size(256 * 1024)


class Kazoo:
    """See `interface.Peer`."""

    def __init__(self) -> None:
        self._clients: list[Any] = []
        self._watches: list[Any] = []
        self._contenders: list[Future[None]] = []
        self._let_go = threading.Event()
        self._held: list[Any] = []

    def version(self) -> str:
        return str(kazoo.__version__)

    def open(self, hosts: str, sessions: int, timeout: float) -> None:
        servers = hosts.split(",")
        for i in range(sessions):
            client = kazoo.client.KazooClient(servers[i % len(servers)], timeout=timeout)
            client.start()
            self._clients.append(client)

    def close(self) -> None:
        for client in self._clients:
            client.stop()
            client.close()
        self._clients.clear()
        self._watches.clear()
        self._contenders.clear()

    @property
    def _client(self) -> Any:
        return self._clients[0]

    def gets(self, path: str, count: int) -> Answer:
        client = self._client
        with Stopwatch() as watch:
            for _ in range(count):
                client.get(path)
        return watch.answer()

    def pipeline(self, op: str, path: str, count: int, size: int) -> Answer:
        client, data = self._client, bytes(size)
        send: Any = {
            "create": lambda path: client.create_async(path, data),
            "set": lambda path: client.set_async(path, data),
            "get": client.get_async,
            "delete": client.delete_async,
        }[op]
        with Stopwatch() as watch:
            results = [send(f"{path}/n-{i}") for i in range(count)]
            for result in results:
                result.get()
        return watch.answer()

    def cycles(self, path: str, count: int) -> Answer:
        lock = self._client.Lock(path)
        with Stopwatch() as watch:
            for _ in range(count):
                with lock:
                    pass
        return watch.answer()

    def together(self, path: str, locks: int, each: int) -> Answer:
        def cycle(lock: Any) -> None:
            for _ in range(each):
                with lock:
                    pass

        mine = [self._client.Lock(f"{path}/{i}") for i in range(locks)]
        with Stopwatch() as watch:
            _wait_for([_start(cycle, lock) for lock in mine])
        return watch.answer()

    def threads(self, op: str, path: str, threads: int, each: int) -> Answer:
        return in_threads(op, self._client.get, self._client.Lock, path, threads, each)

    def watch(self, path: str, count: int) -> Answer:
        results = []
        with Stopwatch() as watch:
            for i in range(count):

                def seen(_event: object) -> None:
                    pass

                self._watches.append(seen)
                results.append(self._client.exists_async(f"{path}/absent-{i}", watch=seen))
            for result in results:
                result.get()
        return watch.answer()

    # --- growth --------------------------------------------------------------------------------

    def hold(self, path: str, count: int) -> Answer:
        self._held = [self._client.Lock(f"{path}/{i}") for i in range(count)]
        with Stopwatch() as watch, ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda lock: lock.acquire(), self._held))
        return watch.answer()

    def let_go(self) -> Answer:
        with Stopwatch() as watch, ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda lock: lock.release(), self._held))
        self._held.clear()
        return watch.answer()

    def tree(self, path: str, count: int) -> Answer:
        cache, full = TreeCache(self._client, path), threading.Event()

        def listen(event: Any) -> None:
            if event.event_type == TreeEvent.INITIALIZED:
                full.set()

        cache.listen(listen)
        with Stopwatch() as watch:
            cache.start()
            if not full.wait(_PATIENCE):
                raise TimeoutError(f"the tree of {count} znodes is not complete in {_PATIENCE} s")
        return watch.answer() | {"nodes": count}

    def observers(self, path: str, count: int) -> Answer:
        client = self._client
        told = {b"one": 0, b"two": 0}
        moments = {name: threading.Event() for name in told}

        def observe() -> None:
            seen = b""

            def changed(names: list[str]) -> None:
                nonlocal seen
                if not names:
                    return
                # A program has to ask for the leader: kazoo's elections have no observers.
                try:
                    first = min(names, key=lambda name: name[-10:])
                    name, _ = client.get(f"{path}/{first}")
                except kazoo.exceptions.NoNodeError:
                    return
                if name in told and name != seen:
                    seen = name
                    told[name] += 1
                    if told[name] == count:
                        moments[name].set()

            client.ChildrenWatch(path, changed)

        def wait(name: bytes) -> None:
            if not moments[name].wait(_PATIENCE):
                raise TimeoutError(f"{count - told[name]} observers do not know of the leader")

        # An election's leader is who has its lock.
        with client.Lock(path, "one"), Stopwatch() as first:
            for _ in range(count):
                observe()
            wait(b"one")
        with Stopwatch() as then, client.Lock(path, "two"):
            wait(b"two")
        return {"first": first.seconds, "next": then.seconds}

    def items(self, path: str, count: int) -> Answer:
        queue = self._client.Queue(path)
        with Stopwatch() as put:
            for i in range(count):
                queue.put(b"%d" % i)
        with Stopwatch() as take:
            for _ in range(count):
                if queue.get() is None:
                    raise RuntimeError("an item is missing")
        return {"put": put.seconds, "take": take.seconds}

    def recover(self, within: float) -> Answer:
        attempts, deadline = 0, time.monotonic() + within
        while time.monotonic() < deadline:
            attempts += 1
            try:
                self._client.exists("/")
                return {"usable": now(), "attempts": attempts}
            except _LOST:
                time.sleep(RETRY_AFTER)
        raise TimeoutError(f"not usable after {within} s, in {attempts} attempts")

    # --- contenders ----------------------------------------------------------------------------

    @staticmethod
    def _contender(kind: Kind, client: Any, path: str) -> Callable[[Callable[[], None]], None]:
        """Has a function called in each turn."""
        if kind != "lock":
            election = client.Election(path)
            return lambda work: election.run(work)
        lock = client.Lock(path)

        def run(work: Callable[[], None]) -> None:
            with lock:
                work()

        return run

    def turns(self, kind: Kind, path: str, each: int, hold: float, gate: str) -> Answer:
        turns: list[tuple[int, int]] = []

        def work() -> None:
            had = now()
            time.sleep(hold)
            while is_shut(gate):
                time.sleep(LOOK_AFTER)
            turns.append((had, now()))

        def contend(client: Any) -> None:
            turn = self._contender(kind, client, path)
            for _ in range(each):
                turn(work)

        with Stopwatch() as watch:
            _wait_for([_start(contend, client) for client in self._clients])
        return {"turns": turns, "cpu": watch.cpu}

    def queue(self, kind: Kind, path: str, contenders: int, hold: int) -> Answer:
        self._let_go.clear()
        if hold:
            holds = threading.Event()

            def work() -> None:
                holds.set()
                self._let_go.wait()

            first = _start(self._contender(kind, self._client, path), work)
            while not holds.wait(0.1):
                if first.done():
                    first.result()
        # An object belongs to one contender: acquiring it takes a lock of the object's own.
        clients = [self._clients[i % len(self._clients)] for i in range(contenders)]
        turns = [self._contender(kind, client, path) for client in clients]
        began = now()
        self._contenders = [_start(turn, _nothing) for turn in turns]
        return {"began": began}

    def drain(self) -> Answer:
        with Stopwatch() as watch:
            self._let_go.set()
            _wait_for(self._contenders)
        return watch.answer()

    def connects(self, hosts: str, count: int, timeout: float) -> Answer:
        samples = []
        for _ in range(count):
            start = time.perf_counter()
            client = kazoo.client.KazooClient(hosts, timeout=timeout)
            client.start()
            client.exists("/")
            samples.append(time.perf_counter() - start)
            client.stop()
            client.close()
        return {"samples": samples}


def _nothing() -> None:
    pass


def _start(work: Callable[..., None], *arguments: Any) -> Future[None]:
    """Runs something in a thread of its own."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            work(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return future


def _wait_for(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()


make = Kazoo
