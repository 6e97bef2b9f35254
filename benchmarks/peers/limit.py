"""The limit: a client by hand that does the least that can be done, without being safe.

It leaves out some things that a library must not: it believes that the contender before it holds,
so that the end of that znode makes it the next; it does not look for znodes whose creation was not
answered; it keeps no lease. Its names are numbers, so that it knows its neighbour's without listing
anybody.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from . import _limit_wire as wire
from ._limit_loops import Close, Dial, dial_asyncio, dial_trio
from .interface import RETRY_AFTER, Answer, Kind, Stopwatch, now, until_open

_ROOT = wire.exists(b"/")


class Limit:
    """See `interface.Peer`."""

    def __init__(self, tasks: Any, dial: Dial) -> None:
        self._tasks = tasks
        self._dial = dial
        self._links: list[tuple[wire.Link, Close]] = []
        self._pinging: anyio.CancelScope | None = None
        self._address: tuple[str, int] = ("", 0)
        self._timeout = 0.0
        self._holder: Callable[[], Any] | None = None
        self._served: Any = None

    def version(self) -> str:
        return platform.python_version()

    async def open(self, hosts: str, sessions: int, timeout: float) -> None:
        self._address, self._timeout = _addresses(hosts)[0], timeout
        for address in (_addresses(hosts) * sessions)[:sessions]:
            link, close = await self._dial(*address, wire.hello(timeout))
            await link.welcome
            self._links.append((link, close))
        if self._pinging:
            self._pinging.cancel()
        self._tasks.start_soon(self._ping)

    async def _ping(self) -> None:
        with anyio.CancelScope() as scope:
            self._pinging = scope
            while True:
                await anyio.sleep(self._timeout / 3)
                for link, _ in self._links:
                    link.ping()

    async def close(self) -> None:
        if self._pinging:
            self._pinging.cancel()
        for link, close in self._links:
            if not link.is_lost:
                await link.ask(wire.GOODBYE)
            close()
        self._links.clear()
        self._holder = self._served = None
        await anyio.lowlevel.checkpoint()

    @property
    def _link(self) -> wire.Link:
        return self._links[0][0]

    async def gets(self, path: str, count: int) -> Answer:
        request, ask = wire.get(path.encode()), self._link.ask
        with Stopwatch() as watch:
            for _ in range(count):
                await ask(request)
        return self._checked(watch)

    async def pipeline(self, op: str, path: str, count: int, size: int) -> Answer:
        data = bytes(size)
        make = {
            "create": lambda path: wire.create(path, data),
            "set": lambda path: wire.put(path, data),
            "get": wire.get,
            "delete": wire.delete,
        }[op]
        with Stopwatch() as watch:
            requests = b"".join([make(b"%s/n-%d" % (path.encode(), i)) for i in range(count)])
            await self._link.burst(requests, count)
        return self._checked(watch)

    def _checked(self, watch: Stopwatch) -> Answer:
        if self._link.errors:
            raise RuntimeError(f"{self._link.errors} requests were refused")
        return watch.answer()

    async def cycles(self, path: str, count: int) -> Answer:
        with Stopwatch() as watch:
            await self._cycle(path.encode(), count)
        return self._checked(watch)

    async def _cycle(self, path: bytes, count: int) -> None:
        link, join = self._link, _join(path)
        for _ in range(count):
            created, parent = await link.ask_all(join, 2)
            if wire.children(parent) != 1:
                raise RuntimeError("somebody else is there")
            await link.ask(wire.delete(wire.created(created)))

    async def together(self, path: str, locks: int, each: int) -> Answer:
        with Stopwatch() as watch:
            async with anyio.create_task_group() as tasks:
                for i in range(locks):
                    tasks.start_soon(self._cycle, b"%s/%d" % (path.encode(), i), each)
        return self._checked(watch)

    async def watch(self, path: str, count: int) -> Answer:
        link = self._link
        paths = [b"%s/absent-%d" % (path.encode(), i) for i in range(count)]
        with Stopwatch() as watch:
            for each in paths:
                link.watch(each)
            await link.burst(b"".join([wire.exists(each, True) for each in paths]), count)
        link.errors = 0
        return watch.answer()

    async def recover(self, within: float) -> Answer:
        attempts, deadline = 0, time.monotonic() + within
        while time.monotonic() < deadline:
            link, close = self._links[0]
            attempts += 1
            try:
                if link.is_lost:
                    close()
                    first = wire.hello(self._timeout, link.session)
                    self._links[0] = await self._dial(*self._address, first)
                    await self._link.welcome
                if await self._link.ask(_ROOT):
                    return {"usable": now(), "attempts": attempts}
            except OSError:
                await anyio.sleep(RETRY_AFTER)
        raise TimeoutError(f"not usable after {within} s, in {attempts} attempts")

    # --- contenders ----------------------------------------------------------------------------

    async def turns(self, kind: Kind, path: str, each: int, hold: float, gate: str) -> Answer:
        turns: list[tuple[int, int]] = []

        async def contend(link: wire.Link) -> None:
            for _ in range(each):
                own = await _reach_front(link, path.encode())
                had = now()
                await anyio.sleep(hold)
                await until_open(gate, anyio.sleep)
                turns.append((had, now()))
                await link.ask(wire.delete(own))

        with Stopwatch() as watch:
            async with anyio.create_task_group() as tasks:
                for link, _ in self._links:
                    tasks.start_soon(contend, link)
        return {"turns": turns, "cpu": watch.cpu}

    async def queue(self, kind: Kind, path: str, contenders: int, hold: int) -> Answer:
        where = path.encode()
        if hold:
            (created,) = await self._link.ask_all(wire.create(where + b"/lock-", b"", 3), 1)
            self._holder = lambda: self._link.ask(wire.delete(wire.created(created)))
        self._served = _Countdown(contenders)
        began = now()
        for i in range(contenders):
            link, _ = self._links[i % len(self._links)]
            self._tasks.start_soon(self._pass, link, where, self._served)
        return {"began": began}

    async def _pass(self, link: wire.Link, path: bytes, served: _Countdown) -> None:
        own = await _reach_front(link, path)
        await link.ask(wire.delete(own))
        served.one()

    async def drain(self) -> Answer:
        with Stopwatch() as watch:
            if self._holder is not None:
                await self._holder()
            await self._served.over.wait()
        return watch.answer()

    async def connects(self, hosts: str, count: int, timeout: float) -> Answer:
        addresses, samples = _addresses(hosts), []
        for i in range(count):
            start = time.perf_counter()
            # The request does not wait for the answer to the handshake: it is in the same segment.
            address = addresses[i % len(addresses)]
            link, close = await self._dial(*address, wire.hello(timeout) + _ROOT)
            reply = link._make_future()
            link._waiting.append(reply)
            await reply
            samples.append(time.perf_counter() - start)
            await link.ask(wire.GOODBYE)
            close()
        return {"samples": samples}


class _Countdown:
    """Opens when so many have called."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.over = anyio.Event()
        if not count:
            self.over.set()

    def one(self) -> None:
        self._left -= 1
        if not self._left:
            self.over.set()


def _join(path: bytes) -> bytes:
    return wire.create(path + b"/lock-", b"", wire.EPHEMERAL_SEQUENTIAL) + wire.exists(path)


async def _reach_front(link: wire.Link, path: bytes) -> bytes:
    """Joins the line, waits for the end of the one before, and gives the own znode's path."""
    created, parent = await link.ask_all(_join(path), 2)
    own = wire.created(created)
    if wire.children(parent) > 1:
        before = b"%s%010d" % (own[:-10], int(own[-10:]) - 1)
        event = link.watch(before)
        if wire.is_fine(await link.ask(wire.exists(before, True))):
            await event
        else:
            # It was gone already. The watch stays, for a znode that will never be.
            link.errors -= 1
            del link.watches[before]
    return own


def _addresses(hosts: str) -> list[tuple[str, int]]:
    split = (each.rpartition(":") for each in hosts.split(","))
    return [(host, int(port)) for host, _, port in split]


def make(tasks: Any) -> Limit:
    """On the event loop that runs."""
    is_trio = "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run()
    return Limit(tasks, dial_trio(tasks) if is_trio else dial_asyncio)
