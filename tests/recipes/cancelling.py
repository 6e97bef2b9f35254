"""Cancellation at every await of a recipe, in every way there is.

Some work is done again and again, and cancelled a bit later each time, until it ends by itself:

* at its k-th suspension, for every k: by a cancel scope; natively (`Task.cancel`, asyncio only);
  and natively twice in a row, as impatient frameworks do, which no shield withstands;
* in the step of the event loop in which the k-th packet came in, before the work has run.

A test calls `cancel_everywhere` with the work and with a check to make after it. See
`recipes/test_cancellation.py`, whose tables have every recipe.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, eventually, tasks_living
from kit.selection import BACKENDS

from aiolead import Client

MOST_STEPS = 60


class Stepped(Awaitable[None]):
    """Runs a coroutine, and reports each of its suspensions just before it happens."""

    def __init__(self, work: Coroutine[Any, Any, None], on_step: Callable[[int], None]) -> None:
        self._work = work
        self._on_step = on_step
        self._steps = 0

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self._work.__await__()
        resume: Callable[[Any], Any] = inner.send
        value: Any = None
        while True:
            try:
                waits_for = resume(value)
            except StopIteration:
                return
            self._steps += 1
            self._on_step(self._steps)
            try:
                resume, value = inner.send, (yield waits_for)
            except BaseException as error:
                resume, value = inner.throw, error


class Canceller:
    """Runs some work, and cancels it in one of the ways.

    Attributes:
        has_struck: whether it came to that.
    """

    def __init__(self, way: str) -> None:
        self._native = way.startswith("native")
        self._times = 2 if way == "native twice" else 1
        self._cancel: Callable[[], object] = lambda: None
        self.has_struck = False

    async def run(self, work: Awaitable[None]) -> None:
        async def body() -> None:
            await work

        if self._native:
            task = asyncio.get_running_loop().create_task(body())
            self._cancel = task.cancel
            await asyncio.wait([task])
            if isinstance(work, Coroutine):
                work.close()  # where a packet was quicker than the task
            if not task.cancelled():
                task.result()
        else:
            with anyio.CancelScope() as scope:
                self._cancel = scope.cancel
                await body()

    def strike_at(self, when: int) -> Callable[[int], None]:
        """A function to call at each moment: it cancels at the `when`-th."""

        def strike(now: int) -> None:
            if when <= now < when + self._times:
                self.has_struck = True
                self._cancel()

        return strike


async def at_suspension(
    canceller: Canceller, when: int, work: Coroutine[Any, Any, None], _client: Client
) -> None:
    await canceller.run(Stepped(work, canceller.strike_at(when)))


async def at_packet(
    canceller: Canceller, when: int, work: Coroutine[Any, Any, None], client: Client
) -> None:
    machine = client._core.machine
    receive, strike, count = machine.receive, canceller.strike_at(when), 0

    def receive_and_strike(data: bytes, now: float) -> None:
        nonlocal count
        receive(data, now)
        count += 1
        strike(count)

    machine.receive = receive_and_strike  # type: ignore[method-assign]
    try:
        await canceller.run(work)
    finally:
        del machine.receive


Moment = Callable[[Canceller, int, Coroutine[Any, Any, None], Client], Awaitable[None]]


moments = pytest.mark.parametrize("moment", [at_suspension, at_packet], ids=["await", "packet"])
native_only = pytest.mark.parametrize(
    "anyio_backend",
    [backend for backend in BACKENDS if backend.values[0][0] == "asyncio"],
    scope="session",
)


def no_complaints(caplog: pytest.LogCaptureFixture) -> None:
    """Fails if asyncio or the library has logged a warning, except for reports of its events."""
    assert [
        record
        for record in caplog.records
        if record.levelno >= logging.WARNING and not hasattr(record, "aiolead_event")
    ] == []


async def cancel_everywhere(
    way: str,
    moment: Moment,
    client: Client,
    work: Callable[[], Coroutine[Any, Any, None]],
    afterwards: Callable[[], Awaitable[None]],
    *,
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    most: int = MOST_STEPS,
) -> None:
    """Cancels some work everywhere, one place after the other, until it ends by itself.

    Each time no task and no watch of the client's may be left after it.

    Args:
        way: "scope", "native" or "native twice".
        moment: `at_suspension` or `at_packet`, of the client.
        client: the client that does the work.
        work: makes the work again. It is done once without being cancelled, at first.
        afterwards: checks each time that others get their turn, and that nothing is left.
        around: a block around the work in which, for instance, another client holds.
        most: how many places there may be.
    """
    await work()
    await afterwards()
    tasks, watches = tasks_living(), len(client._core.machine.watches)
    for when in range(1, most):
        canceller = Canceller(way)
        async with around():
            with anyio.fail_after(PATIENCE):
                await moment(canceller, when, work(), client)
        await afterwards()
        # Fewer, if one of the first time was about to end as they were counted.
        await eventually(lambda: tasks_living() <= tasks, f"at most {tasks} tasks live")
        await eventually(
            lambda: len(client._core.machine.watches) == watches, f"{watches} watches are known"
        )
        if not canceller.has_struck:
            break
    else:
        pytest.fail(f"it does not end within {most} steps")
    assert when > 1, "it was never cancelled"
