"""The loggers of aiolead: each message is one printable line, whatever it quotes.

Messages quote paths, host names, identities and errors of other processes, so a filter on every
logger escapes them. All loggers come from `get_logger` (tests/meta/test_house.py). Tracebacks are
not escaped; errors escape their own text (`AioleadError`).
"""

from __future__ import annotations

import logging

from ._escaping import escaped


def get_logger(name: str) -> logging.Logger:
    """The logger `aiolead` or one below it; messages are escaped before any handler.

    A printable message keeps its template and arguments, by which tools group messages; otherwise
    the escaped text replaces both. Filters do not apply to child loggers, so each has one.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_escape)  # adding it again has no effect
    return logger


def _escape(record: logging.LogRecord) -> bool:
    try:
        message = record.getMessage()
    except Exception:
        return True  # the handler meets the same error and reports it
    if not message.isprintable():
        record.msg, record.args = escaped(message), None
    return True
