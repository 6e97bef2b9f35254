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
    """Leave the scope; return what propagates: None if that was only our own cancellation."""
    try:
        return None if scope.__exit__(exc_type, exc, traceback) else exc
    except BaseException as rest:
        # What is left of a group once our own cancellation is taken out of it.
        return rest


def propagate(left: BaseException, exc: BaseException | None) -> None:
    """Raise what propagates, unless `__aexit__` lets it propagate by returning."""
    if left is exc:
        return
    context = left.__context__
    try:
        raise left
    finally:
        left.__context__ = context
