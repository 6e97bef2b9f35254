"""Cancels contenders of every holding recipe at random moments, in real time, on one event loop.

    python -m tests.assurance.chaos.random_cancellation --loop uvloop --seconds 60

Three tasks of each of three clients want the same thing, and are cancelled, time out, or hold it
for a moment. Prints what happened; the exit code is 1 if two held together, or a hold was lost to
"somebody else" although nobody but the recipes deletes anything. `--hosts` names real servers; the
embedded server is the default.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio

import aiolead
from aiolead.errors import AcquireTimeout, LossReason, TenureLost
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

Enter = Callable[[aiolead.Client, str], AbstractAsyncContextManager[Any]]

RECIPES: dict[str, tuple[int, Enter]] = {
    "Lock": (1, lambda c, p: aiolead.Lock(c, p, identity="same")),
    "Lock, kazoo": (1, lambda c, p: aiolead.Lock(c, p, layout=Layout.KAZOO)),
    "Election": (1, lambda c, p: aiolead.Election(c, p).leadership()),
    "Election, 2 leaders": (2, lambda c, p: aiolead.Election(c, p, leaders=2).leadership()),
    "ExclusiveLock": (1, lambda c, p: aiolead.ExclusiveLock(c, p, identity="same")),
    "UniqueNames": (2, lambda c, p: aiolead.UniqueNames(c, p).claim("name", most=2)),
    "ReadWriteLock.write": (1, lambda c, p: aiolead.ReadWriteLock(c, p).write),
    "ReadWriteLock.read": (9, lambda c, p: aiolead.ReadWriteLock(c, p).read),
    "Condition": (1, lambda c, p: aiolead.Condition(c, p)),
    "Semaphore": (2, lambda c, p: aiolead.Semaphore(c, p, 2)),
    "Queue": (3, lambda c, p: aiolead.Queue(c, p).get()),
}
ITEMS = 3
"""How many items the queue has; none is acknowledged."""


class Watched:
    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0
        self.entered = 0
        self.together = 0
        self.lost: Counter[str] = Counter()

    async def hold(self, enter: AbstractAsyncContextManager[Any], turns: int) -> None:
        try:
            async with enter as held:
                self.entered += 1
                self.inside += 1
                self.together += self.inside > self.most
                try:
                    for _ in range(turns):
                        held.check()
                        await anyio.lowlevel.checkpoint()
                finally:
                    self.inside -= 1
        except AcquireTimeout:
            pass
        except TenureLost as error:
            self.lost[error.reason.name] += 1


async def contend(
    enter: Callable[[], Any], watched: Watched, rng: random.Random, end: float
) -> None:
    while time.monotonic() < end:
        with anyio.move_on_after(rng.choice((0.0, 0.0005, 0.001, 0.003, 0.01, 0.5))):
            for _ in range(rng.randrange(6)):
                await anyio.lowlevel.checkpoint()
            await watched.hold(enter(), rng.randrange(12))
        await anyio.sleep(rng.random() * 0.002)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def run(hosts: str, seconds: float, seed: int) -> bool:
    right = True
    each = seconds / len(RECIPES)
    async with (
        aiolead.connect(hosts) as a,
        aiolead.connect(hosts) as b,
        aiolead.connect(hosts) as c,
    ):
        for name, (most, enter) in RECIPES.items():
            path, watched = f"/cancelled-{uuid.uuid4().hex}", Watched(most)
            if name == "Queue":
                for number in range(ITEMS):
                    await aiolead.Queue(a, path).put(b"%d" % number)
            end = time.monotonic() + each
            async with anyio.create_task_group() as tasks:
                for client in (a, b, c):
                    for number in range(3):
                        rng = random.Random(f"{seed} {name} {client.session_id} {number}")
                        tasks.start_soon(contend, partial(enter, client, path), watched, rng, end)
            deleted = watched.lost[LossReason.DELETED.name]
            right = right and not (deleted or watched.together) and watched.entered > 0
            say(
                f"{name:22} entered {watched.entered:6}, too many together {watched.together}, "
                f"lost {dict(watched.lost)}"
            )
    return right


def on_loop(loop: str, main: Callable[[], Awaitable[bool]]) -> bool:
    options: dict[str, Any] = {"use_uvloop": True} if loop == "uvloop" else {}
    backend = "trio" if loop == "trio" else "asyncio"
    return anyio.run(main, backend=backend, backend_options=options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loop", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", help="of real servers; the embedded one by default")
    options = parser.parse_args()
    with EmbeddedServer.in_thread() as server:
        hosts = options.hosts or server.connect_string
        right = on_loop(options.loop, partial(run, hosts, options.seconds, options.seed))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
