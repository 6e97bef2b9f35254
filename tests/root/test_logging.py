"""Everything that is logged is one printable line, for any data of other processes."""

from __future__ import annotations

import ast
import importlib
import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit.checks import check_each

import aiolead
import aiolead.events
from aiolead import NoNodeError
from aiolead._client.watchdog import _report
from aiolead._recipes.layouts import SequenceWarning
from aiolead._util.escaping import LONGEST_LINE, as_line, escaped, get_logger
from aiolead.cli.output import Reporter
from aiolead.errors import AioleadError, ConnectFailed, ReleaseError
from aiolead.events import _LINES, LOGGERS, Event, EventHook, EventName
from aiolead.instrumentation.measures import Measures

ROOT = Path(aiolead.__file__).parent
BAD = "\x1b[2J\r\n2026-11-23 aiolead all is well \u2028\u2029\x85\u202e\u2066\x00\x9b31m"
NAMES = st.text(min_size=1) | st.text(
    st.sampled_from("a/\x00\n\r\t\x1b\x7f\x85\x9b\u200b\u200e\u2028\u2029\u202e\u2066\ud800%\\"),
    min_size=1,
)


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """The output of a handler at the logger `aiolead`, as programs have it."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.terminator = ""
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("aiolead")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield out
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# --- every place that logs -----------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A call of a logger.

    Attributes:
        file: from the package's root.
        logger: its name in the module; empty for one that is made for this call.
        template: the message.
    """

    file: str
    logger: str
    template: str


@cache
def sites() -> list[Site]:
    """All of the library, the command and the test kit."""
    found: list[Site] = []
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner, method = node.func.value, node.func.attr
            if method not in ("debug", "info", "warning", "error", "exception", "log", "critical"):
                continue
            name = ast.unparse(owner)
            if not re.fullmatch(r"(?i)_?logger|get_logger\(.*\)", name):
                continue
            template = node.args[1] if method == "log" else node.args[0]
            assert isinstance(template, ast.Constant), (file, "a message that is no literal")
            logger = name if isinstance(owner, ast.Name) else ""
            found.append(Site(str(file.relative_to(ROOT)), logger, str(template.value)))
    return found


def logger_of(site: Site) -> logging.Logger:
    module = importlib.import_module(
        "aiolead." + site.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    )
    if not site.logger:
        logger = get_logger("aiolead")
    elif module is aiolead.events and site.logger not in vars(module):
        logger = LOGGERS["tenure"]  # an event chooses one of these
    else:
        logger = getattr(module, site.logger)
    assert isinstance(logger, logging.Logger)
    return logger


def test_scan_finds_the_places_that_log() -> None:
    assert len(sites()) >= 19
    some = {"events.py", "_client/core.py", "_client/client_host.py", "cli/dashboard/site.py"}
    assert some <= {site.file for site in sites()}


@check_each("site", sites, ids=lambda site: f"{site.file}: {site.template}")
@given(name=NAMES)
@example(name=BAD)
def test_place_that_logs_writes_one_printable_line(site: Site, name: str) -> None:
    wanted = re.findall(r"%[0-9.]*([a-z])", site.template)
    arguments = [name if letter == "s" else 7 for letter in wanted]
    errors = [OSError(name) if letter == "s" else 7 for letter in wanted]
    for each in (arguments, errors):
        with logged() as out:
            logger_of(site).warning(site.template, *each)
        line = out.getvalue()
        assert line
        assert line.isprintable()
        if name.isprintable():
            assert line == site.template % tuple(each)


def test_printable_message_keeps_its_template() -> None:
    logger = get_logger("aiolead.test")
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        logger.warning("%s: is %d", "/a/ä", 1)
        logger.warning("%s: is %d", "/a/\n", 1)
        logger.warning("as it is")
    finally:
        logger.removeHandler(handler)
    plain, bad, bare = records
    assert (plain.msg, plain.args) == ("%s: is %d", ("/a/ä", 1))
    assert (bad.getMessage(), bad.args) == ("/a/\\n: is 1", None)
    assert bare.getMessage() == "as it is"


def test_logger_escapes_once_however_often_it_is_asked_for() -> None:
    logger = get_logger("aiolead.test")
    assert logger is get_logger("aiolead.test") is logging.getLogger("aiolead.test")
    assert len(logger.filters) == 1


def test_message_that_cannot_be_formatted_is_reported_by_the_handler() -> None:
    logger, handler = get_logger("aiolead.test.alone"), logging.StreamHandler(io.StringIO())
    failed: list[logging.LogRecord] = []
    handler.handleError = failed.append  # type: ignore[method-assign]
    logger.propagate = False  # pytest's own handler raises
    logger.addHandler(handler)
    logger.warning("%d", "x")
    assert [(record.msg, record.args) for record in failed] == [("%d", ("x",))]


# --- long names ----------------------------------------------------------------------------------

HUGE = ("x" * 1000 + "\x1b\U0010ffff") * 1000
"""A name of a megabyte, as others may choose it."""


def long_lines() -> dict[str, str]:
    """Each line of the library that has a name, with a huge one, by where it comes from."""
    fields: dict[str, str | int | float] = FIELDS | dict.fromkeys(TEXTS, HUGE)
    events = {name: Event(name, logging.INFO, 1, f"/{HUGE}", fields) for name in EventName}
    lines = {f"event {name}": str(event) for name, event in events.items()}
    for name, event in events.items():
        lines |= {f"{name}: {key}": str(value) for key, value in event.as_dict().items()}
    lines["error"] = str(NoNodeError(f"/{HUGE}"))
    lines["errors"] = str(ReleaseError(f"/{HUGE}", NoNodeError(f"/{HUGE}")))
    with logged() as out:
        get_logger("aiolead.test").warning("%s: delete it", HUGE)
    lines["log"] = out.getvalue()
    return lines


def test_huge_names_make_short_lines() -> None:
    lines = long_lines()
    assert {where for where, line in lines.items() if len(line) > LONGEST_LINE} == set()
    assert {where for where, line in lines.items() if not line.isprintable()} == set()
    # The remedy is at the end, and is kept.
    assert lines["errors"].endswith("delete it by hand, or close the client")
    assert lines["log"].endswith(": delete it")
    assert f"(of {len(HUGE) + 11:,} characters)" in as_line(f"{HUGE}: delete it")
    assert len(as_line("\x1b" * LONGEST_LINE)) == LONGEST_LINE


@given(text=st.text(max_size=40), times=st.integers(1, 400))
def test_line_of_bounded_length_is_whole_if_it_fits(text: str, times: int) -> None:
    line = as_line(text * times)
    assert len(line) <= LONGEST_LINE
    assert line.isprintable()
    if len(escaped(text)) * times <= LONGEST_LINE:
        assert line == escaped(text) * times


def test_command_prints_a_huge_name_on_a_short_line(capfd: pytest.CaptureFixture[str]) -> None:
    Reporter().error(f"{HUGE}: no such znode", path="/")
    line = capfd.readouterr().err
    assert len(line) <= LONGEST_LINE + len("aiolead: \n")
    assert line.endswith(": no such znode\n")


def test_traceback_keeps_its_lines() -> None:
    with logged() as out:
        try:
            raise NoNodeError(f"/a{BAD}")
        except NoNodeError:
            get_logger("aiolead.test").exception("%s failed", BAD)
    first, *rest = out.getvalue().split("\n")
    assert first.isprintable()
    assert rest[0] == "Traceback (most recent call last):"
    # The error escapes what it quotes.
    assert all(line.isprintable() for line in rest)
    assert rest[-1].endswith("NoNodeError: no such znode: /a" + _shown(BAD))


def _shown(text: str) -> str:
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


# --- events --------------------------------------------------------------------------------------

FIELDS: dict[str, int | float] = dict.fromkeys(
    (
        *("took", "remaining", "timeout", "waited", "token", "lasted", "leaders"),
        *("away", "held", "hidden", "reports", "attempt", "delay"),
        *("age", "position", "is_known"),
        "created",
    ),
    1,
)
TEXTS = (
    *("server", "reason", "recipe", "identity", "outcome", "before", "error", "attempts"),
    *("session", "cause", "item", "holder", "znode", "operation"),
)


@pytest.mark.parametrize("name", EventName)
@given(text=NAMES)
@example(text=BAD)
def test_event_is_one_printable_line(name: EventName, text: str) -> None:
    fields = FIELDS | dict.fromkeys(TEXTS, text)
    event = Event(name, logging.INFO, 1, f"/{text}", fields)
    assert str(event).isprintable()
    assert all(str(value).isprintable() for value in event.as_dict().values())
    # The attributes have it as it is.
    assert (event.path, event.fields["identity"]) == (f"/{text}", text)
    emitted: list[Event] = []
    hub = EventHook([emitted.append])
    with logged() as out:
        hub.emit(name, logging.INFO, session_id=1, path=f"/{text}", fields=fields)
    assert out.getvalue() == str(event)
    assert emitted == [event]


def test_every_event_has_a_line() -> None:
    assert set(_LINES) == set(EventName)


@given(text=NAMES)
def test_label_of_a_path_is_printable(text: str) -> None:
    # A label with a lone surrogate could not be written: no metric would be served any more.
    event = Event(EventName.ELECTION_CHANGED, logging.INFO, 1, f"/{text}", {"leaders": 1})
    ((_, _, labels),) = Measures().of(event)
    assert labels["path"].isprintable()


# --- errors --------------------------------------------------------------------------------------


@given(text=NAMES)
@example(text=BAD)
def test_error_is_one_printable_line(text: str) -> None:
    inner = NoNodeError(f"/{text}")
    errors: list[AioleadError] = [
        inner,
        ReleaseError(f"/{text}", inner),
        ConnectFailed("no server", [(text, OSError(text))]),
        aiolead.LockLost(f"/{text}", aiolead.errors.LossReason.DELETED, 7),
        AioleadError(text),
    ]
    warning = SequenceWarning(f"/{text}", 1 << 30)
    assert str(warning).isprintable()
    assert warning.path == f"/{text}"
    for error in errors:
        assert str(error).isprintable(), repr(error)
    assert inner.path == f"/{text}"


def test_last_message_of_the_watchdog_is_one_printable_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    # A lone surrogate would have ended it before it ends the process.
    _report(f"{BAD}\ud800")
    line, stacks = capfd.readouterr().err.split("\n", 1)
    assert line.isprintable()
    assert line.startswith("aiolead: \\x1b[2J\\r\\n")
    assert "test_last_message_of_the_watchdog" in stacks
