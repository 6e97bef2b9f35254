"""Acquiring on entering and releasing on leaving: the `with` of every tenure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from ._deputy import Block
from ._loop import Loop

T_co = TypeVar("T_co", covariant=True)


class HoldContext(Generic[T_co]):
    """Holds something for the body of a `with`: what `acquire` and `leadership` return.

    Entering waits, and leaving releases, as with `aiolead.types.TenureContext`: the same errors at
    the same places. The body is not cancelled if what it holds is lost: nothing cancels a thread.
    Leaving it then raises the loss all the same, unless the body raised something else. What the
    body asks of the same client after the loss raises it, too.

    An exception that a signal handler raises (Ctrl-C) while this waits to enter gives up waiting,
    and whatever it got; while this waits for the servers to confirm that we have left, only that
    waiting is given up. For one thread at a time.
    """

    def __init__(
        self,
        loop: Loop,
        context: AbstractAsyncContextManager[Any],
        wrap: Callable[[Any], T_co],
        owner: object = None,
    ) -> None:
        self._loop = loop
        self._context = context
        self._wrap = wrap
        self._owner = self if owner is None else owner

    def __enter__(self) -> T_co:
        return self._loop.enter(self._owner, Block(self._context, self._wrap))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.leave(self._owner, exc)
