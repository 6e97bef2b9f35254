"""Leaving a cancel scope that is open over the body of an `async with`."""

from __future__ import annotations

from types import TracebackType

import anyio


def leave_scope(
    scope: anyio.CancelScope,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: TracebackType | None,
) -> BaseException | None:
    """Leave the scope; return what propagates: None for our own cancellation alone."""
    try:
        return None if scope.__exit__(exc_type, exc, traceback) else exc
    except BaseException as rest:
        # The rest of a group, without our own cancellation.
        return rest


def propagate(left: BaseException, exc: BaseException | None) -> None:
    """Raise `left`, unless it is `exc`: that propagates when `__aexit__` returns."""
    if left is exc:
        return
    context = left.__context__
    try:
        raise left
    finally:
        left.__context__ = context
