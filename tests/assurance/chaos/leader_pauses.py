"""The leader of a real ensemble is stopped and continued, again and again, under every recipe.

    python -m tests.assurance.chaos --leader-pauses --seconds 100 --loop trio

A leader that was stopped for about as long as its followers wait for it comes back to an ensemble
that is about to elect another one. Sessions move, and servers skip requests or answers
(ZOOKEEPER-2886). Four clients use every recipe meanwhile. These must hold:

* Only two errors reach a user: a lost connection, and a lost hold.
* No job of a client's own ends with an error.
* Once all is well, everybody has a turn at everything within one session timeout, of the time that
  this process runs. So no contender waits for a znode that a living session has released.
* When all have left, no session that lives has a znode.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
from kit.every_recipe import HELD, KEPT, Held
from kit.guards import StallMonitor

import aiolead
from aiolead import Client, ConnectionLossError, TenureLost, admin
from aiolead.testing import BlockingEnsemble

SESSION = 3.0
"""The session timeout of every client, in seconds: clients of a leader that is stopped for longer
than two thirds of it move to another server, and what they had sent there is still done."""

CLIENTS = 4

LEAST_PAUSE, MOST_PAUSE = 0.5, 3.5
"""For how long the leader is stopped, in seconds."""

REST = 0.5
"""How long a leader is left alone between two pauses, in seconds, and up to twice as long."""

HOLD = 0.1
"""How long something is held, in seconds, and up to twice as long."""

PATIENCE = 60.0
"""How long what must come may take before the run is given up, in seconds."""

OWN = frozenset({"DoubleBarrier"})
"""Recipes with a path for each client: members who come and go would keep each other inside."""


@dataclass(slots=True)
class Report:
    """The result of a run.

    Attributes:
        pauses: how often the leader was stopped.
        turns: how often something was held.
        losses: how often a hold was lost, a connection under a request, and how often a server
            skipped a request.
        wrong: the violations.
        slowest: how long the last one waited for its turn after the healing, in seconds.
    """

    pauses: int = 0
    turns: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def __str__(self) -> str:
        waited, who = self.slowest
        return "\n".join(
            [
                f"{self.pauses} pauses of the leader; lost: {dict(self.losses)}",
                f"{sum(self.turns.values())} holds of {len(self.turns)} recipes",
                f"after the healing, the last turn came after {waited:.2f} s: {who}",
                *([f"{len(self.wrong)} WRONG:", *self.wrong] if self.wrong else ["nothing wrong"]),
            ]
        )


class _Jobs(logging.Handler):
    """The log messages of background jobs that have failed."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.DEBUG)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "the server skipped request" in message:
            self._report.losses["skipped request"] += 1
        if "background" in message:
            self._report.wrong.append(message)


class _Run:
    def __init__(
        self, ensemble: BlockingEnsemble, seconds: float, seed: int, report: Report
    ) -> None:
        self._ensemble = ensemble
        self._seconds = seconds
        self._random = random.Random(seed)
        self.report = report
        self._stalls = StallMonitor()
        self._healed_at: float | None = None
        self._unserved: set[str] = set()
        self._all_served = anyio.Event()
        self._closing = anyio.Event()
        self._left: list[anyio.Event] = []

    async def play(self) -> None:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    aiolead.connect(
                        self._ensemble.connect_string,
                        session_timeout=SESSION,
                        connect_timeout=PATIENCE,
                    )
                )
                for _ in range(CLIENTS)
            ]
            for name, scene in HELD.items():
                for path in {_path(name, number) for number in range(CLIENTS)}:
                    if scene.prepare is not None:
                        await scene.prepare(clients[0], path)
            async with anyio.create_task_group() as tasks:
                for number, client in enumerate(clients):
                    for name, scene in HELD.items():
                        tasks.start_soon(self._contend, name, scene, client, number)
                    for name, scene in KEPT.items():
                        tasks.start_soon(self._keep, name, scene, client, number)
                await anyio.to_thread.run_sync(self._rage)
                self._unserved = {
                    f"{name} of client {number}" for name in HELD for number in range(CLIENTS)
                }
                with self._stalls:
                    self._healed_at = time.monotonic()
                    await self._eventually(lambda: not self._unserved, self._tell_unserved)
                self._closing.set()
                self._all_served.set()
                await self._eventually(
                    lambda: all(left.is_set() for left in self._left), lambda: "somebody stays"
                )
                tasks.cancel_scope.cancel()
            for number, client in enumerate(clients):
                await self._nothing_left(client, number)

    # --- the recipes -------------------------------------------------------------------------

    async def _contend(self, name: str, scene: Held, client: Client, number: int) -> None:
        who = f"{name} of client {number}"
        left = anyio.Event()
        self._left.append(left)
        while not self._closing.is_set():
            try:
                async with scene.enter(client, _path(name, number)) as mine:
                    self._served(name, who)
                    await self._try(mine.verify)
                    await anyio.sleep(HOLD * (1 + self._random.random()))
            except TenureLost as lost:
                self.report.losses[lost.reason.name] += 1
            except ConnectionLossError:
                self.report.losses["connection"] += 1
            except Exception as error:
                self.report.wrong.append(f"{who}: {error!r}")
            if self._healed_at is not None and who not in self._unserved:
                # Not every recipe is fair: once served, it leaves the turns to the others.
                await self._all_served.wait()
        left.set()

    async def _keep(self, name: str, scene: Held, client: Client, number: int) -> None:
        left = anyio.Event()
        self._left.append(left)
        try:
            async with scene.enter(client, f"/{name}-{number}"):
                await self._closing.wait()
        except Exception as error:
            self.report.wrong.append(f"{name} of client {number}: {error!r}")
        left.set()

    async def _try(self, act: Callable[[], Awaitable[Any]]) -> None:
        try:
            await act()
        except ConnectionLossError:
            self.report.losses["connection"] += 1

    def _served(self, name: str, who: str) -> None:
        self.report.turns[name] += 1
        if self._healed_at is not None and who in self._unserved:
            self._unserved.remove(who)
            waited = time.monotonic() - self._healed_at
            self.report.slowest = max(self.report.slowest, (waited, who))
            if waited - self._stalls.total > SESSION:
                self.report.wrong.append(f"{who} was served {waited:.1f} s after the healing")

    # --- what is done to the servers ---------------------------------------------------------

    def _rage(self) -> None:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            leader = self._ensemble.leader()
            leader.pause()
            try:
                time.sleep(self._random.uniform(LEAST_PAUSE, MOST_PAUSE))
            finally:
                leader.resume()
            self.report.pauses += 1
            time.sleep(REST * (1 + self._random.random()))
        self._ensemble.ensure_serving()

    # --- the end -----------------------------------------------------------------------------

    async def _nothing_left(self, client: Client, number: int) -> None:
        left: list[str] = ["not looked at"]

        async def look() -> bool:
            try:
                left[:] = await admin.get_ephemerals(client)
            except ConnectionLossError:
                return False
            return not left

        await self._eventually(look, lambda: f"client {number} has {left} still")

    async def _eventually(
        self, holds: Callable[[], bool | Awaitable[bool]], tell: Callable[[], str]
    ) -> None:
        with anyio.move_on_after(PATIENCE):
            while True:
                answer = holds()
                if answer if isinstance(answer, bool) else await answer:
                    return
                await anyio.sleep(0.02)
        self.report.wrong.append(f"not within {PATIENCE:g} s: {tell()}")

    def _tell_unserved(self) -> str:
        return f"never served after the healing: {sorted(self._unserved)}"


def _path(name: str, number: int) -> str:
    return f"/{name}-{number}" if name in OWN else f"/{name}"


def play(ensemble: BlockingEnsemble, *, seconds: float, seed: int, backend: str) -> Report:
    """Has every recipe used while the leader is stopped and continued.

    Args:
        ensemble: three real servers.
        seconds: for how long.
        seed: of the pauses.
        backend: `"asyncio"` or `"trio"`.
    """
    report = Report()
    handler, logger = _Jobs(report), logging.getLogger("aiolead")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)  # it has lost connections, and the reasons
    try:
        anyio.run(_Run(ensemble, seconds, seed, report).play, backend=backend)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return report
