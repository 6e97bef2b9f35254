"""The objects of a hold in memory. A full garbage collection takes time for each object.

Nothing of a finished hold is left to the garbage collector.

`benchmarks/` measures seconds and bytes (docs/explanation/performance.md). The server runs in a
process of its own, so that the objects are those of the client alone.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Literal

import anyio
import pytest
from anyio.abc import TaskStatus
from kit.clients import eventually

import aiolead

HOLDS = 200

SERVER = """
import sys
from aiolead.testing import EmbeddedServer
with EmbeddedServer.in_thread() as server:
    print(server.connect_string, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield server.stdout.readline().decode().strip()
        server.stdin.close()


def objects() -> Counter[str]:
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects())


@pytest.mark.parametrize(("backend", "most"), [("asyncio", 31), ("trio", 33)])
def test_objects_of_a_hold(hosts: str, backend: Literal["asyncio", "trio"], most: int) -> None:
    """Besides the user's task; with the `Lock`, whose path nobody else uses.

    Lower the number when there are fewer; more need a reason.
    """

    async def main() -> Counter[str]:
        async with aiolead.connect(hosts) as client, anyio.create_task_group() as tasks:

            async def hold(name: str, *, task_status: TaskStatus[None]) -> None:
                task_status.started()
                await go_on.wait()
                async with aiolead.Lock(client, f"/locks/{backend}{name}"):
                    await leave.wait()

            go_on, leave = anyio.Event(), anyio.Event()
            for number in range(HOLDS + 1):
                await tasks.start(hold, str(number))
            async with aiolead.Lock(client, "/locks/another"):
                pass
            before = objects()
            go_on.set()
            machine = client._core.machine
            await eventually(
                lambda: machine.leases.held == len(machine.watches) == HOLDS + 1,
                "all are held, and watched",
            )
            after = objects()
            leave.set()
        return after - before

    found = anyio.run(main, backend=backend)
    each = {name: count // HOLDS for name, count in found.items() if count >= HOLDS}
    assert sum(each.values()) <= most, each


Enter = Callable[[aiolead.Client, str], AbstractAsyncContextManager[object]]

RECIPES: dict[str, Enter] = {
    "lock": lambda client, path: aiolead.Lock(client, path),
    "acquire": lambda client, path: aiolead.Lock(client, path).acquire(),
    "timeout": lambda client, path: aiolead.Lock(client, path).acquire(timeout=60),
    "try": lambda client, path: aiolead.Lock(client, path).try_acquire(),
    "reentrant": lambda client, path: aiolead.ReentrantLock(client, path),
    "read": lambda client, path: aiolead.ReadWriteLock(client, path).read,
    "write": lambda client, path: aiolead.ReadWriteLock(client, path).write,
    "condition": lambda client, path: aiolead.Condition(client, path),
    "leadership": lambda client, path: aiolead.Election(client, path).leadership(),
    "multi": lambda client, path: aiolead.MultiLock(aiolead.Lock(client, path)),
    "exclusive": lambda client, path: aiolead.ExclusiveLock(client, path),
    "name": lambda client, path: aiolead.UniqueNames(client, path).claim("worker"),
    "run": lambda client, path: aiolead.Once(client, path).claim("key"),
}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_finished_hold_leaves_no_reference_cycle(
    hosts: str, backend: Literal["asyncio", "trio"], name: str
) -> None:
    """Its memory is free at once; cycles would pile up until the garbage collector runs."""

    async def main() -> Counter[str]:
        async with aiolead.connect(hosts) as client:
            enter, path = RECIPES[name], f"/finished/{backend}/{name}"
            for _ in range(2):
                gc.collect()
                async with enter(client, path):
                    pass
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            return Counter(
                type(each).__qualname__
                for each in gc.garbage
                if type(each).__module__.startswith("aiolead")
            )

    gc.disable()
    try:
        gc.collect()
        gc.freeze()  # objects of other tests
        assert not anyio.run(main, backend=backend)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
