"""Events for structlog: a name, and keys with values."""

from __future__ import annotations

from typing import Any

import structlog

from ..events import Event

__all__ = ["StructlogSink"]


class StructlogSink:
    """Logs events with structlog, beside the log of the standard library.

    The event's name is structlog's event; the session, the path and the fields are its keys. Raise
    the level of the logger `aiolead` to avoid duplicates.

    Args:
        logger: any logger with structlog's `log(level, event, **keys)`; defaults to
            `structlog.get_logger("aiolead")`.
    """

    def __init__(self, logger: Any = None) -> None:
        self._logger = structlog.get_logger("aiolead") if logger is None else logger

    def __call__(self, event: Event) -> None:
        keys = event.as_dict()
        self._logger.log(event.level, keys.pop("event"), **keys)
