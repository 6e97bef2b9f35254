"""What the command says: results on standard output, all else on standard error.

Everything that is printed passes through here, and is escaped here, whatever its callers have done:
names, data, identities, and all that servers and errors say may have been written by anybody. What
is left as it is are the colours of `styled`, and the data that `get` writes to a file or a pipe.
"""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, final

from rich.cells import cell_len

from . import shown
from .complaints import complaint

__all__ = [
    "Reporter",
    "Styled",
    "is_fancy",
    "prepare",
    "styled",
    "table",
    "undo_at_once",
    "undone_at_once",
    "write_bytes",
    "write_json",
    "write_line",
]


@final
class Styled(str):
    """A text in a colour, escaped but for that: only `styled` makes it.

    What is made of it by `+`, or in an f-string, is a plain text: its colour is escaped, too.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reporter:
    """Says what happens, on standard error, one line at a time.

    Attributes:
        quiet: leave out everything but errors and warnings.
        as_json: say it as JSON objects.
        debug: show where errors come from.
    """

    quiet: bool = False
    as_json: bool = False
    debug: bool = False

    def state(self, text: str, **details: object) -> None:
        """Something has changed.

        Args:
            text: what.
            details: the same for programs; they are left out of the text.
        """
        if not self.quiet:
            self._say("info", text, details, patience=0.1)

    def error(self, text: str, **details: object) -> None:
        """Something is wrong, or ends the command."""
        self._say("error", text, details, patience=1.0)

    def failure(self, error: BaseException, text: str = "") -> None:
        """An error ends the command.

        Args:
            error: the error.
            text: what to say of it, if it does not speak for itself.
        """
        if self.debug:
            where = "".join(traceback.format_exception(error))
            with suppress(OSError):
                print(shown.escaped(where, keep="\n"), end="", file=sys.stderr, flush=True)
        self.error(text or complaint(error))

    def _say(self, level: str, text: str, details: dict[str, object], *, patience: float) -> None:
        message = shown.escaped(" ".join(text.split()))
        if self.as_json:
            said = {"time": shown.now(), "level": level, "message": message, **details}
            line = shown.as_json(said)
        else:
            line = f"aiolead: {message}"
        try:
            if _takes_more(patience):
                print(line, file=sys.stderr, flush=True)
        except OSError:
            # Nobody can be told; what the command is there for goes on.
            return


def _takes_more(patience: float) -> bool:
    """Whether standard error takes a line without waiting for longer than that, in seconds.

    A pipe that nobody reads fills up, be it by what a command of ours has written; whoever wrote to
    it then would wait for ever, with a lease that runs out.
    """
    try:
        poller = select.poll()
        poller.register(sys.stderr.fileno(), select.POLLOUT)
    except (OSError, ValueError, AttributeError):
        return True  # it is no file of the system's, or closed
    return bool(poller.poll(patience * 1000))


def prepare() -> None:
    """Sees to it that anything can be written, wherever it goes.

    What a terminal's encoding cannot express is escaped. Standard streams that are closed are
    replaced: or else the next file that is opened, a connection perhaps, would take their number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_line(*parts: str, keep: str = "") -> None:
    """A result, on standard output; there at once, also in a pipe.

    Args:
        parts: what it is made of, one after the other. All but what `styled` has made is escaped.
        keep: what is left as it is, such as newlines.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    safe = (part if isinstance(part, Styled) else shown.escaped(part, keep=keep) for part in parts)
    print("".join(safe), flush=True)


def write_json(value: Any) -> None:
    """As `write_line`, for a value as JSON."""
    write_line(shown.as_json(value))


def write_bytes(data: bytes) -> None:
    """A result that is not ours to change."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def has_lost_terminal() -> bool:
    """Whether standard output was a terminal that is not there any more."""
    return stat.S_ISCHR(os.fstat(1).st_mode) and not os.isatty(1)


def has_lost_reader() -> bool:
    """Whether standard output is a pipe that nobody reads any more."""
    poller = select.poll()
    poller.register(1, 0)  # what is wrong with it is told without being asked for
    return bool(poller.poll(0))


def flush_output() -> None:
    """Writes what was printed and is not written yet.

    Raises:
        OSError: that cannot be: nobody reads any more, or a disk is full.
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def give_up_output() -> None:
    """Lets standard output go nowhere: whoever read has gone.

    Python would else try once more to write what is left, and fail, as it exits.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_fancy() -> bool:
    """Whether standard output is a terminal that colours and moving text are welcome on."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb")
    return is_terminal() and not plain


def can_show(text: str) -> bool:
    """Whether the encoding of standard output has all characters of a text."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


_CODES = {"dim": "2", "green": "32", "yellow": "33", "red": "31"}


def styled(text: str, style: str) -> Styled:
    """A text in a colour, where that is welcome."""
    text = shown.escaped(text)
    return Styled(f"\x1b[{_CODES[style]}m{text}\x1b[0m" if is_fancy() else text)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> list[str]:
    """The lines of a table, columns two blanks apart.

    It is as wide as what is in it: a terminal that is narrower wraps the lines.

    Args:
        headings: of the columns.
        rows: their cells, escaped already, so that the columns are as wide as what is shown.
        right: the headings of those columns that are flush right.
    """
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded: list[str] = []
        for heading, cell, width in zip(headings, cells, widths, strict=True):
            blanks = " " * (width - cell_len(cell))
            padded.append(blanks + cell if heading in right else cell + blanks)
        return "  ".join(padded).rstrip()

    return [styled(line(headings), "dim"), *(line(row) for row in rows)]


class _EscapingFormatter(logging.Formatter):
    """One line for each record, and below it where an error comes from."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name
        return shown.escaped(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return shown.escaped(super().format(record), keep="\n")


def show_log() -> None:
    """Shows what the library logs, on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_EscapingFormatter("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])


# --- leaving at once ---------------------------------------------------------------------------

_TO_UNDO: list[Callable[[], object]] = []


@contextmanager
def undone_at_once(undo: Callable[[], object]) -> Iterator[None]:
    """Has something undone also when the process ends without leaving its blocks.

    Args:
        undo: puts the terminal, say, in order; called by a signal handler.
    """
    _TO_UNDO.append(undo)
    try:
        yield
    finally:
        _TO_UNDO.remove(undo)


def undo_at_once() -> None:
    """Undoes what is to be undone before the process ends now."""
    for undo in reversed(_TO_UNDO):
        with suppress(OSError):
            undo()
