"""The type of all task groups, whether trio runs, and whether the current task is cancelled."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVarTuple

import anyio
import anyio.lowlevel

Ts = TypeVarTuple("Ts")

_modules = sys.modules


class AnyTaskGroup(Protocol):
    """The common part of `anyio.TaskGroup` and the groups of the client's tasks."""

    cancel_scope: anyio.CancelScope

    def start_soon(self, function: Callable[[*Ts], Awaitable[Any]], /, *args: *Ts) -> object: ...


def trio_here() -> Any:
    """Trio if the current task is trio's, also in a guest loop of asyncio; else None."""
    trio = _modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None


def cancellations() -> int:
    """How many cancellations of the current task asyncio counts; 0 on trio."""
    return 0 if trio_here() is not None else _modules["asyncio"].current_task().cancelling()


async def check_cancelled_since(before: int) -> None:
    """Raise if the current task was cancelled, and an error has replaced the cancellation.

    Cancel scopes cancel again. asyncio itself cancels once, but counts it: `before` is an earlier
    result of `cancellations`.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    if cancellations() > before:
        raise anyio.get_cancelled_exc_class()
