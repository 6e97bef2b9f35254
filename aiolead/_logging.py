"""The loggers of aiolead: whatever a message quotes, it is one printable line.

Messages quote paths, host names, identities and errors that other processes wrote. Handlers print
them on terminals and into files, where control characters run commands and line separators forge
lines. So every logger of aiolead has one filter that escapes the message. Loggers come from
`get_logger` and from nowhere else (tests/meta/test_house.py).

Tracebacks are left alone: they have lines of their own. Errors of aiolead escape their text
themselves (`AioleadError`).
"""

from __future__ import annotations

import logging

from ._escaping import escaped

__all__ = ["get_logger"]


def get_logger(name: str) -> logging.Logger:
    """The logger of that name. Its messages are escaped before any handler formats them.

    A message that is printable, as nearly all are, keeps its template and its arguments, by which
    other tools group messages. Of any other, the escaped text replaces both.

    Args:
        name: `aiolead` or below. A filter of a logger does not see what the loggers below it log:
            each has its own.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_escape)  # once, however often it is added
    return logger


def _escape(record: logging.LogRecord) -> bool:
    try:
        message = record.getMessage()
    except Exception:
        return True  # the handler meets the same error, and reports it as `logging` does
    if not message.isprintable():
        record.msg, record.args = escaped(message), None
    return True
