"""Helpers of tests: enter the block of a recipe, or hold it in a task of its own."""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from kit.clients import PATIENCE

from aiolead import Term
from aiolead.types import Campaign

Block = AbstractAsyncContextManager[Any]


async def enter(block: Block) -> None:
    """Enters a block, and leaves it at once."""
    async with block:
        pass


async def happens(event: anyio.Event) -> None:
    """Waits for an event that must come.

    Raises:
        TimeoutError: it has not, after `PATIENCE` seconds.
    """
    with anyio.fail_after(PATIENCE):
        await event.wait()


async def term_of(campaign: Campaign) -> Term:
    """Waits until a campaign leads; gives its term."""
    with anyio.fail_after(PATIENCE):
        async for state in campaign:
            if state.term is not None:
                return state.term
    raise AssertionError("the campaign has ended")


class Holder:
    """Holds a block in a task of its own: `tasks.start_soon(holder)`.

    Args:
        block: the block that it enters.
        span: after how many seconds it leaves. By default, it leaves once `may_leave` is set.

    Attributes:
        held: the hold, or whatever else the block gave.
        entered: set once it has entered.
        entered_at: when that was, on the clock of the event loop; not a number before.
        may_leave: set to make it leave.
        left_at: when its body ended; not a number before.
        scope: cancels it.
    """

    def __init__(self, block: Block, span: float | None = None) -> None:
        self.held: Any = None
        self.entered, self.may_leave = anyio.Event(), anyio.Event()
        self.entered_at = self.left_at = math.nan
        self.scope = anyio.CancelScope()
        self._block, self._span = block, span

    @property
    def has_entered(self) -> bool:
        return self.entered.is_set()

    @property
    def has_left(self) -> bool:
        return not math.isnan(self.left_at)

    async def __call__(self) -> None:
        with self.scope:
            async with self._block as self.held:
                self.entered_at = anyio.current_time()
                self.entered.set()
                try:
                    if self._span is None:
                        await self.may_leave.wait()
                    else:
                        await anyio.sleep(self._span)
                finally:
                    self.left_at = anyio.current_time()
