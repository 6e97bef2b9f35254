"""The processor time of an operation, in turns of the event loop and in calls.

Seconds are measured by `benchmarks/`. The server runs in another thread, so that the turns and the
calls are those of the client alone.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio._backends._asyncio
import pytest
import trio

import aiolead
from aiolead.testing import EmbeddedServer

OURS = str(Path(aiolead.__file__).parent)

WARM_UP, ROUNDS = 20, 40

TURNS_A_ROUND_TRIP = 2
"""In one turn the answer is read, and the task is woken; in the next one the task runs."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with EmbeddedServer.in_thread() as server:
        yield server.connect_string


async def lock(client: aiolead.Client) -> Callable[[], Awaitable[None]]:
    lock = aiolead.Lock(client, "/lock")

    async def cycle() -> None:
        async with lock:
            pass

    return cycle


async def read(client: aiolead.Client) -> Callable[[], Awaitable[None]]:
    await client.ensure_path("/a")

    async def get() -> None:
        await client.get("/a")

    return get


SCOPES = [("asyncio", anyio._backends._asyncio.CancelScope), ("trio", trio.CancelScope)]

Make = Callable[[aiolead.Client], Awaitable[Callable[[], Awaitable[None]]]]


def least(hosts: str, make: Make, count: Callable[[], int]) -> int:
    """The least of what one of many calls has cost: an answer may come in two pieces."""

    async def main() -> int:
        async with aiolead.connect(hosts) as client:
            act = await make(client)
            for _ in range(WARM_UP):
                await act()
            costs: list[int] = []
            for _ in range(ROUNDS):
                before = count()
                await act()
                costs.append(count() - before)
            return min(costs)

    return asyncio.run(main())


@pytest.mark.parametrize(("make", "round_trips"), [(lock, 2), (read, 1)])
def test_turns_of_the_event_loop(hosts: str, make: Make, round_trips: int) -> None:
    """As many as a client that is written by hand would take."""
    turns = 0

    async def counting(client: aiolead.Client) -> Callable[[], Awaitable[None]]:
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select = selector.select

        def counted(timeout: float | None = None) -> Any:
            nonlocal turns
            turns += 1
            return select(timeout)

        selector.select = counted
        return await make(client)

    assert least(hosts, counting, lambda: turns) == TURNS_A_ROUND_TRIP * round_trips


@pytest.mark.parametrize(("backend", "kind"), SCOPES)
def test_lock_enters_one_scope(
    hosts: str, backend: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the body, which shields the wait for the answer to the delete as well."""
    entered = 0
    enter = kind.__enter__  # type: ignore[attr-defined]

    def counted(scope: Any) -> Any:
        nonlocal entered
        entered += anyio.get_current_task().id == task
        return enter(scope)

    async def main() -> int:
        nonlocal task
        async with aiolead.connect(hosts) as client:
            cycle = await lock(client)
            await cycle()
            task, before = anyio.get_current_task().id, entered
            for _ in range(ROUNDS):
                await cycle()
            return entered - before

    task = 0
    monkeypatch.setattr(kind, "__enter__", counted)
    assert anyio.run(main, backend=backend) == ROUNDS


@pytest.mark.parametrize(("make", "most"), [(lock, 240), (read, 31)])
def test_calls_of_library_functions(hosts: str, make: Make, most: int) -> None:
    """Lower the bound when there are fewer; more need a reason."""
    calls = 0

    def profiler(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls += 1

    sys.setprofile(profiler)
    try:
        found = least(hosts, make, lambda: calls)
    finally:
        sys.setprofile(None)
    assert found <= most
