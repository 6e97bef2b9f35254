"""Escaping text of other processes for logs, errors and terminals; the loggers of aiolead.

Messages quote paths, host names, identities and errors of other processes, so a filter on every
logger escapes them: each message is one printable line of bounded length (`as_line`). All loggers
come from `get_logger`
(ruff checks that, see pyproject.toml). Tracebacks are not escaped; errors escape their own text
(`AioleadError`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

T = TypeVar("T")


def escaped(text: str, *, keep: str = "") -> str:
    r"""Escape unprintable characters, as `\x1b`, `\u2028`, `\u202e`, except those in `keep`.

    Control characters move the cursor or make a terminal run commands, line separators forge log
    lines, and changes of direction make one name look like another.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


LONGEST_LINE = 4000
"""The most characters of a line for a log: what syslog and journald take without cutting it."""

_LINE_END = 1500
"""How many of them are the end of a longer line."""


def as_line(text: str) -> str:
    """Escape a text for a log, as one line of at most `LONGEST_LINE` characters.

    A line begins with what has happened, and ends with why, and what to do. Names that others chose
    stand in between, and may have a megabyte. So the middle of a longer line is left out.
    """
    if len(text) <= LONGEST_LINE and len(line := escaped(text)) <= LONGEST_LINE:
        return line
    gap = f" ... (of {len(text):,} characters) ... "
    begin, end = escaped(text[:LONGEST_LINE]), escaped(text[-_LINE_END:])
    return begin[: LONGEST_LINE - _LINE_END - len(gap)] + gap + end[-_LINE_END:]


_OF_THE_LOOP = ("Connect call failed", "Error connecting to")
"""The beginnings of texts by which asyncio and trio replace those of the system."""


def in_words(error: Exception) -> str:
    """The text of an error, in the words of the system; its type, if it has no text."""
    said = error.strerror if isinstance(error, OSError) else None
    if said is not None and said.startswith(_OF_THE_LOOP):
        said = os.strerror(error.errno)  # type: ignore[attr-defined]
    return said or str(error) or type(error).__name__


def described(value: object) -> str:
    """An argument's `repr` for an error message, even if `repr` fails (on a huge number, say)."""
    try:
        return repr(value)
    except Exception:
        return f"a value that cannot be shown, of type {type(value).__name__}"


def unless_invalid(convert: Callable[[], T]) -> T | None:
    """Encode or decode a secret; None if that fails.

    Python's error carries the whole secret. An error that is raised while it is handled has it as
    `__context__`, where tools that report errors find it, also after `raise ... from None`.
    """
    try:
        return convert()
    except UnicodeError:
        return None


def in_seconds(value: float | None) -> str:
    """A number of seconds for a message: `1 second`, `2.5 seconds`."""
    return f"{value:g} second" if value == 1 else f"{value:g} seconds"


def lasting(seconds: float) -> str:
    """A time in words, in two units at most: `3 h 12 min`, `40 s`."""
    whole = int(seconds)
    for unit, name, below, rest in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // below} {rest}"
    return f"{whole} s"


def shown_session(session_id: int) -> str:
    """A session id as the servers show it. Those of servers with an id above 127 are negative."""
    return f"0x{session_id & (1 << 64) - 1:x}"


def repr_with_session(value: Any) -> str:
    """The repr of a dataclass, with its `session_id` as the servers show it."""
    from dataclasses import fields

    shown = (
        f"{each.name}={shown_session(value.session_id)}"
        if each.name == "session_id"
        else f"{each.name}={getattr(value, each.name)!r}"
        for each in fields(value)
        if each.repr
    )
    return f"{type(value).__qualname__}({', '.join(shown)})"


def get_logger(name: str) -> logging.Logger:
    """The logger `aiolead` or one below it; messages are escaped and cut before any handler.

    A printable message of bounded length keeps its template and arguments, by which tools group
    messages. Otherwise the escaped text replaces both. Filters do not apply to child loggers, so
    each has one.
    """
    import logging  # not needed by the errors, which escape their text

    logger = logging.getLogger(name)
    logger.addFilter(_escape_record)  # adding it again has no effect
    return logger


def _escape_record(record: logging.LogRecord) -> bool:
    try:
        message = record.getMessage()
    except Exception:
        return True  # the handler meets the same error and reports it
    if len(message) > LONGEST_LINE or not message.isprintable():
        record.msg, record.args = as_line(message), None
    return True
