"""The type of all task groups, and the question of whether trio runs."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVarTuple

import anyio

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
