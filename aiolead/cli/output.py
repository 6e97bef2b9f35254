"""The command's output: results on standard output, everything else on standard error.

Everything is escaped here: names, data, identities and messages may have been written by anybody.
Exceptions are the colours of `styled`, and the data that `get` writes to a file or a pipe.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final
from weakref import WeakSet

from rich.cells import cell_len

from .._util.escaping import as_line, get_logger
from . import render
from .exits import complaint

if TYPE_CHECKING:
    from ..events import Event

SAID_AFTER = 1.0
"""Seconds of silence before it is said."""


@final
class Styled(str):
    """An escaped text in a colour, made by `styled` alone; `+` and f-strings make it plain text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports what happens, on standard error, one line at a time.

    `quiet` leaves out everything but errors and warnings; `as_json` reports JSON objects; `debug`
    shows where errors come from.
    """

    quiet: bool = False
    as_json: bool = False
    debug: bool = False

    @property
    def is_on_terminal(self) -> bool:
        return sys.stderr is not None and sys.stderr.isatty()

    @property
    def shows_progress(self) -> bool:
        return self.is_on_terminal and not self.quiet and not self.as_json

    def state(self, text: str, **details: object) -> None:
        """Report a change; the details are for programs, not part of the text."""
        if not self.quiet:
            self._print("info", text, details, patience=0.1)

    def step(self, text: str) -> None:
        """Report a step that takes seconds; on a terminal only."""
        if self.shows_progress:
            self.state(text)

    def notice(self, text: str, **details: object) -> None:
        """Report what must be known, even if quiet."""
        self._print("info", text, details, patience=1.0)

    def error(self, text: str, **details: object) -> None:
        """Report what is wrong, or ends the command."""
        self._print("error", text, details, patience=1.0)

    def failure(self, error: BaseException, text: str = "") -> None:
        """Report an error that ends the command; `text` replaces its message."""
        if self.debug:
            import traceback

            where = "".join(traceback.format_exception(error))
            with suppress(OSError):
                print(render.escaped(where, keep="\n"), end="", file=sys.stderr, flush=True)
        if error not in _REPORTED:
            self.error(text or complaint(error))

    def _print(self, level: str, text: str, details: dict[str, object], *, patience: float) -> None:
        message = as_line(" ".join(text.split()))
        if self.as_json:
            about = {"time": render.now(), "level": level, "message": message, **details}
            line = render.as_json(about)
        else:
            line = f"aiolead: {message}"
        # Without a reader, the command still does its work.
        with suppress(OSError):
            if _takes_more(patience):
                print(line, file=sys.stderr, flush=True)


_REPORTED: WeakSet[BaseException] = WeakSet()
"""The errors of warnings that were reported: one that ends the command as well is known by then."""
_WARNING = 30  # `logging.WARNING`, without its import at each start
_OUTAGES = ("client.", "connection.", "contention.blocked")
"""The names of events, or their beginnings, that a command reports while it runs."""


@final
class ConnectingNotice:
    """Reports once that no server has been reached, if entering a client takes so long.

    With `reports_outages`, it goes on to report warnings about the connection and the process, in
    the words of the log, for a command that holds something meanwhile.

    It is both the client's event sink, and a context manager around entering the client. A thread
    waits, since the event loop may have nothing to do, and no loop of its own has been started yet.
    """

    def __init__(
        self, reporter: Reporter, hosts: str, patience: float, *, reports_outages: bool = False
    ) -> None:
        self._reporter = reporter
        self._reports_outages = reports_outages
        self._is_connected = False
        self._hosts = hosts
        self._patience = patience
        self._failures: dict[str, str] = {}
        self._timer = threading.Timer(SAID_AFTER, self._say)
        self._timer.daemon = True

    def __call__(self, event: Event) -> None:
        from ..events import EventName  # imported by the client that has made the event

        if event.name is EventName.CONNECTION_FAILED:
            self._failures[str(event.fields["server"])] = str(event.fields["reason"])
        is_reported = self._reports_outages and self._is_connected
        if is_reported and event.level >= _WARNING and event.name.startswith(_OUTAGES):
            self._reporter.error(str(event), event=str(event.name))

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_connected = True
        self._timer.cancel()

    def _say(self) -> None:
        failures = [f"{server}: {why}" for server, why in dict(self._failures).items()]
        why = "; ".join(failures) or "no answer yet"
        self._reporter.state(
            f"no server reached yet, trying {self._hosts} for {self._patience:g} s ({why})",
            hosts=self._hosts,
        )


def _takes_more(patience: float) -> bool:
    """Whether standard error takes a line within so many seconds.

    A pipe that nobody reads fills up, perhaps by the output of our command. Writing to it would
    block forever, while a lease runs out.
    """
    try:
        poller = select.poll()
        poller.register(sys.stderr.fileno(), select.POLLOUT)
    except (OSError, ValueError, AttributeError):
        return True  # no file of the system, or closed
    return bool(poller.poll(patience * 1000))


def prepare() -> None:
    """Make the standard streams safe to write to: escape characters that their encoding lacks.

    Closed streams are replaced: the next opened file, perhaps a connection, would get their number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_line(*parts: str, keep: str = "") -> None:
    """Print a line of a result, and flush it; `BrokenPipeError` if nobody reads any more.

    All parts but `Styled` ones are escaped, except for the characters in `keep`.
    """
    safe = (part if isinstance(part, Styled) else render.escaped(part, keep=keep) for part in parts)
    print("".join(safe), flush=True)


def write_json(value: Any) -> None:
    """As `write_line`, for a value as JSON."""
    write_line(render.as_json(value))


def write_bytes(data: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def has_lost_terminal() -> bool:
    """Whether standard output was a terminal that is closed now."""
    return stat.S_ISCHR(os.fstat(1).st_mode) and not os.isatty(1)


def has_lost_reader() -> bool:
    """Whether standard output is a pipe that nobody reads any more."""
    poller = select.poll()
    poller.register(1, 0)  # errors are reported without being asked for
    return bool(poller.poll(0))


def flush_output() -> None:
    """Write what is still buffered; raises `OSError` if nobody reads, or a disk is full."""
    if sys.stdout is not None:
        sys.stdout.flush()


def give_up_output() -> None:
    """Discard all further output, which Python would fail to write at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_fancy() -> bool:
    """Whether standard output is a terminal for colours and moving text."""
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
    """A text in a colour, if standard output takes colours."""
    text = render.escaped(text)
    return Styled(f"\x1b[{_CODES[style]}m{text}\x1b[0m" if is_fancy() else text)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> list[str]:
    """The lines of a table, as wide as its content; columns two blanks apart.

    `rows` are escaped already, so that widths are those of what is shown. Columns whose headings
    are in `right` are flush right.
    """
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded: list[str] = []
        for heading, cell, width in zip(headings, cells, widths, strict=True):
            blanks = " " * (width - cell_len(cell))
            padded.append(blanks + cell if heading in right else cell + blanks)
        return "  ".join(padded).rstrip()

    return [styled(line(headings), "dim"), *(line(row) for row in rows)]


@contextmanager
def progress(reporter: Reporter, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs, which the given function advances; none but on a terminal.

    It is on standard error, and is cleared at the end.
    """
    if not reporter.shows_progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with bar, undone_at_once(bar.stop):
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def warnings_reported(reporter: Reporter) -> Iterator[None]:
    """Report the library's warnings, except for events: the commands report what has happened."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            errors = [each for each in arguments if isinstance(each, BaseException)]
            # `sync_before` sends it. The read behind it is refused as well, and reported.
            is_sync = any(getattr(each, "request", "") == "SYNC" for each in errors)
            if not (hasattr(record, "aiolead_event") or is_sync):
                reporter.error(record.getMessage(), event="warning", logger=record.name)
                _REPORTED.update(errors)

    handler = Handler(logging.WARNING)
    logger = get_logger("aiolead")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def show_log() -> None:
    """Show the library's log on standard error."""
    import logging

    class EscapingFormatter(logging.Formatter):
        """One line for each record, followed by its traceback."""

        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name
            return render.escaped(super().formatMessage(record))

        def format(self, record: logging.LogRecord) -> str:
            return render.escaped(super().format(record), keep="\n")

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EscapingFormatter("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])


# --- the end of the process from a signal handler ------------------------------------------------

_TO_UNDO: list[Callable[[], object]] = []


@contextmanager
def undone_at_once(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` also when a signal handler ends the process inside the block."""
    _TO_UNDO.append(undo)
    try:
        yield
    finally:
        _TO_UNDO.remove(undo)


def undo_at_once() -> None:
    """Undo everything, such as terminal modes, before the process ends now."""
    for undo in reversed(_TO_UNDO):
        with suppress(OSError):
            undo()
