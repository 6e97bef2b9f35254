"""The loggers of aiolead: each message is one printable line, whatever it quotes.

Messages quote paths, host names, identities and errors that other processes wrote, so every logger
of aiolead has a filter that escapes the message. All loggers come from `get_logger`
(tests/meta/test_house.py). Tracebacks are not escaped; errors escape their own text
(`AioleadError`).
"""

from __future__ import annotations

import logging

from ._escaping import escaped


def get_logger(name: str) -> logging.Logger:
    """The logger of that name, `aiolead` or below, whose messages are escaped before any handler.

    A printable message keeps its template and its arguments, by which other tools group messages;
    otherwise the escaped text replaces both. Filters do not apply to child loggers: each has one.
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
