"""Operations that many recipes have: calls, blocks that are entered and left, and hand-overs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from aiolead import Client
from costs._counting import Act, Bench

T = TypeVar("T")

Setup = Callable[[Bench], Awaitable[T]]
"""Prepares a recipe; that is not measured."""

Enter = Callable[[T], AbstractAsyncContextManager[Any]]
"""Enters a block of a recipe, which holds or follows something."""

New = Callable[[Client], T]
"""Makes the object of a recipe."""


def new(make: New[T]) -> Setup[T]:
    """A recipe of a new client."""

    async def setup(bench: Bench) -> T:
        return make(await bench.client())

    return setup


def used(make: New[T], enter: Enter[T]) -> Setup[T]:
    """The same, which has held once already."""

    async def setup(bench: Bench) -> T:
        one = make(await bench.client())
        async with enter(one):
            pass
        return one

    return setup


def prepared(make: New[T], do: Callable[[T], Awaitable[object]]) -> Setup[T]:
    """The same, after a call."""

    async def setup(bench: Bench) -> T:
        one = make(await bench.client())
        await do(one)
        return one

    return setup


def call(setup: Setup[T], do: Callable[[T], Awaitable[object]]) -> Act:
    """A call, until it returns."""

    async def act(bench: Bench) -> None:
        one = await setup(bench)
        async with bench.measured():
            await do(one)

    return act


def enter(setup: Setup[T], do: Enter[T]) -> Act:
    """From the beginning of a block until its body runs."""

    async def act(bench: Bench) -> None:
        one = await setup(bench)
        await bench.start()
        async with do(one):
            await bench.stop()

    return act


def leave(setup: Setup[T], do: Enter[T]) -> Act:
    """From the end of the body to the end of the block."""

    async def act(bench: Bench) -> None:
        async with do(await setup(bench)):
            await bench.start()
        await bench.stop()

    return act


def beside(make: New[T], hold: Enter[T], then: Callable[[Setup[T]], Act]) -> Act:
    """An operation of a second client, while the first one holds."""

    async def act(bench: Bench) -> None:
        async with hold(make(await bench.client())):
            await bench.settle()
            await then(new(make))(bench)

    return act


def refused(make: New[Any], hold: Enter[Any], *, tries: int = 1) -> Act:
    """The last one of some tries to acquire what another client holds."""

    async def act(bench: Bench) -> None:
        async with hold(make(await bench.client())):
            other = make(await bench.client())
            for _ in range(tries - 1):
                async with other.try_acquire():
                    pass
            async with bench.measured(), other.try_acquire() as held:
                assert held is None

    return act


def wait(make: New[T], hold: Enter[T], enter: Enter[T] | None = None, *, ahead: int = 1) -> Act:
    """From the beginning of a wait, behind a holder and others that wait, until it sends nothing.

    Args:
        make: the recipe.
        hold: how the holder acquires.
        enter: how the others acquire, if that differs.
        ahead: the contenders before the one that is measured, with the holder.
    """

    async def act(bench: Bench) -> None:
        holder, *others = [make(await bench.client()) for _ in range(ahead + 1)]
        async with hold(holder), anyio.create_task_group() as tasks:
            for other in others[:-1]:
                tasks.start_soon(_hold, other, enter or hold)
                await bench.settle()
            await bench.start()
            tasks.start_soon(_hold, others[-1], enter or hold)
            await anyio.lowlevel.checkpoint()
            await bench.quiet()
            await bench.stop()
            tasks.cancel_scope.cancel()

    return act


def hand_over(
    make: New[T],
    hold: Enter[T],
    enter: Enter[T] | None = None,
    *,
    waiting: int = 2,
    entering: int = 1,
) -> Act:
    """From the release until some of those that wait have entered.

    Args:
        make: the recipe.
        hold: how the first contender acquires.
        enter: how the others acquire, if that differs.
        waiting: how many wait.
        entering: how many of them enter.
    """

    async def act(bench: Bench) -> None:
        first, *others = [make(await bench.client()) for _ in range(waiting + 1)]
        inside = 0

        async def entered() -> None:
            nonlocal inside
            inside += 1
            if inside == entering:
                await bench.stop()

        async with anyio.create_task_group() as tasks:
            async with hold(first):
                for other in others:
                    tasks.start_soon(_hold, other, enter or hold, entered)
                    await bench.settle()
                await bench.start()
            await bench.over()
            tasks.cancel_scope.cancel()

    return act


async def _hold(
    one: T, enter: Enter[T], entered: Callable[[], Awaitable[None]] | None = None
) -> None:
    async with enter(one):
        if entered is not None:
            await entered()
        await anyio.sleep_forever()
