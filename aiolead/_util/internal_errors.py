"""Containing unexpected exceptions of background jobs and of callbacks.

Each is logged once, with its traceback, and becomes an `InternalError`. It ends what the job or
the callback belongs to, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import AioleadError, InternalError
from .escaping import get_logger

logger = get_logger("aiolead.client")


def internal_error(error: Exception, what: object) -> InternalError:
    """Log an unexpected exception of `what`, a function or a place; return an `InternalError`."""
    # Without its text, which may be data of a hostile znode.
    failure = InternalError(f"{_name(what)} raised {type(error).__name__}")
    failure.__cause__ = error
    logger.error("an unexpected error in the background: %s", failure, exc_info=error)
    return failure


def as_aiolead_error(error: Exception, what: object) -> AioleadError:
    """The error itself if it is a documented one; else its `internal_error`."""
    return error if isinstance(error, AioleadError) else internal_error(error, what)


def call_back(function: Callable[..., object], *args: Any) -> None:
    """Call a function; log its exceptions instead of raising them."""
    try:
        function(*args)
    except Exception as error:
        internal_error(error, function)


def contained(
    function: Callable[..., object], on_failure: Callable[[InternalError], object]
) -> Callable[..., None]:
    """The function, with its exceptions logged and passed to `on_failure` instead of raised."""

    def call(*args: Any) -> None:
        try:
            function(*args)
        except Exception as error:
            on_failure(internal_error(error, function))

    return call


def _name(what: object) -> str:
    while isinstance(what, partial):
        what = what.func
    return what if isinstance(what, str) else getattr(what, "__qualname__", type(what).__name__)
