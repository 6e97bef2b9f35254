"""kazoo's and aiozk's recipes, told by lines on the standard input what to do: as Peer.java.

    python peer.py kazoo

A line is `number actor command argument...`, separated by tabs; the answer to it is `number ok
value` or `number error what`. An actor is a client, made by `open`, and does one thing after the
other. Times are milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import aiozk
from kazoo.client import KazooClient

PATIENCE = 30.0
_out = threading.Lock()


class Led:
    """kazoo's `Election`, which calls a function, as something to acquire and to release."""

    def __init__(self, election: Any) -> None:
        self._election = election
        self.contenders: Callable[[], list[str]] = election.contenders

    def acquire(self, timeout: float) -> bool:
        self._leads, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._election.run, args=(self._lead,), daemon=True)
        self._thread.start()
        return self._leads.wait(timeout)

    def _lead(self) -> None:
        self._leads.set()
        self._leave.wait()

    def release(self) -> None:
        self._leave.set()
        self._thread.join(PATIENCE)


class Kazoo:
    def __init__(self) -> None:
        # One object for each path, as programs have them.
        self._thing = cache(self._make)

    def open(self, hosts: str, session_timeout: str) -> int:
        self._client: Any = KazooClient(hosts, timeout=int(session_timeout) / 1000)
        self._client.start(timeout=PATIENCE)
        return int(self._client.client_id[0])

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def _make(self, kind: str, path: str) -> Any:
        match kind:
            case "lock":
                return self._client.Lock(path, "kazoo")
            case "election":
                return Led(self._client.Election(path, "kazoo"))
            case "read":
                return self._client.ReadLock(path, "kazoo")
            case "write":
                return self._client.WriteLock(path, "kazoo")
            case _:
                return self._client.Semaphore(path, "kazoo", max_leases=1)

    def acquire(self, kind: str, path: str, wait: str) -> bool:
        return bool(self._thing(kind, path).acquire(timeout=int(wait) / 1000))

    def release(self, kind: str, path: str) -> None:
        self._thing(kind, path).release()

    def seen(self, kind: str, path: str) -> str:
        thing = self._thing(kind, path)
        return ",".join(thing.lease_holders() if kind == "semaphore" else thing.contenders())


class Aiozk:
    loop = asyncio.new_event_loop()
    """Where all of them live."""

    def __init__(self) -> None:
        self._thing = cache(self._make)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def open(self, hosts: str, session_timeout: str) -> int:
        return int(self._run(self._open(hosts, int(session_timeout) / 1000)))

    async def _open(self, hosts: str, session_timeout: float) -> int:
        servers, _, chroot = hosts.partition("/")
        # Its annotations, where it has none, are guessed from the defaults.
        make: Any = aiozk.ZKClient
        self._client = make(servers, chroot=chroot, session_timeout=session_timeout)
        await self._client.start()
        return int(self._client.session.session_id)

    def close(self) -> None:
        self._run(self._client.close())

    def _make(self, kind: str, path: str) -> Any:
        match kind:
            case "lock":
                return self._client.recipes.Lock(path)
            case "election":
                return self._client.recipes.LeaderElection(path)
            case "read":
                return self._client.recipes.SharedLock(path).reader_lock
            case _:
                return self._client.recipes.SharedLock(path).writer_lock

    def acquire(self, kind: str, path: str, wait: str) -> bool:
        return bool(self._run(self._acquire(kind, path, int(wait) / 1000)))

    async def _acquire(self, kind: str, path: str, wait: float) -> bool:
        thing = self._thing(kind, path)
        try:
            if kind != "election":
                await thing.acquire(wait)
                return bool(thing.is_locked)
            await thing.volunteer()
            await thing.wait_for_leadership(wait)
        except aiozk.exc.TimeoutError:
            return False
        return True

    def release(self, kind: str, path: str) -> None:
        self._run(self._release(kind, path))

    async def _release(self, kind: str, path: str) -> None:
        thing = self._thing(kind, path)
        await (thing.resign() if kind == "election" else thing.release())
        if kind == "election":
            # It remembers that it once has led.
            thing.leadership_future = None


def obey(actor: Any, number: str, command: str, words: list[str]) -> None:
    try:
        kind, _, verb = command.rpartition(".")
        value = getattr(actor, verb)(*([kind] if kind else []), *words)
        text = str(value).lower() if isinstance(value, bool) else str(value or "")
        answer = f"{number}\tok\t{text}"
    except BaseException as failed:
        answer = f"{number}\terror\t{' '.join(repr(failed).split())}"
    with _out:
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def main(library: str) -> None:
    threading.Thread(target=Aiozk.loop.run_forever, daemon=True).start()
    actors: dict[str, tuple[Any, ThreadPoolExecutor]] = {}
    for line in sys.stdin:
        number, name, command, *words = line.rstrip("\n").split("\t")
        if name not in actors:
            made = Kazoo() if library == "kazoo" else Aiozk()
            actors[name] = (made, ThreadPoolExecutor(1))
        actor, thread = actors[name]
        thread.submit(obey, actor, number, command, words)
    # The process that has started this one is gone.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
