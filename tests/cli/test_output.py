"""Everything that is printed passes one place, which escapes it. And how a process ends at once."""

from __future__ import annotations

import ast
import io
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.hostile_servers import ESCAPES
from kit.checks import check_each
from kit.cli import WITHIN, Lines, Run, environment

import aiolead.cli
from aiolead.cli import output, render
from aiolead.cli.output import Reporter, Styled, styled, table, write_json, write_line
from aiolead.cli.scene import Scene
from aiolead.cli.top_picture import Picture

SOURCES = sorted(Path(aiolead.cli.__file__).parent.rglob("*.py"))


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_fancy", lambda: True)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    return (out + err).split("\n")[:-1]


def test_whatever_is_written_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    write_line(ESCAPES, "ok", ESCAPES)
    write_line(f"a{ESCAPES}\nb", keep="\n")
    write_json({ESCAPES: [ESCAPES]})
    for line in table(["a"], [[ESCAPES]]):
        write_line(line)
    Reporter().error(ESCAPES)
    Reporter(as_json=True).state(ESCAPES, path=ESCAPES)
    lines = printed(capsys)
    assert len(lines) == 8
    assert all(line.isprintable() for line in lines)
    assert lines[0].count(r"\x1b[2J") == 2


@pytest.mark.usefixtures("on_terminal")
def test_colours_are_ours_alone(capsys: pytest.CaptureFixture[str]) -> None:
    red = styled(f"red{ESCAPES}", "red")
    write_line(red, ESCAPES)
    # A text that has a colour in it is a text like any other: so nobody can bring one along.
    write_line(f"{red}")
    write_line(str(red) + "x")
    first, *others = printed(capsys)
    assert isinstance(red, Styled)
    assert first.startswith("\x1b[31mred\\x1b[2J")
    assert first.replace("\x1b[31m", "").replace("\x1b[0m", "").isprintable()
    assert all(line.isprintable() and line.startswith(r"\x1b[31m") for line in others)


def test_where_errors_come_from_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError(ESCAPES)
    except ValueError as error:
        Reporter(debug=True).failure(error)
    lines = printed(capsys)
    assert lines[0] == "Traceback (most recent call last):"
    assert all(line.isprintable() for line in lines)


def test_the_log_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, root = io.StringIO(), logging.Logger("root")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging, "root", root)
    output.show_log()
    try:
        raise ValueError(ESCAPES)
    except ValueError:
        root.exception("a\n%s", ESCAPES)
    first, *others = stream.getvalue().split("\n")[:-1]
    assert r"a\n\x1b[2J" in first
    assert others[0] == "Traceback (most recent call last):"
    assert all(line.isprintable() for line in [first, *others])


def test_what_is_drawn_is_escaped() -> None:
    lines = Picture(scene=Scene(["/a"]), title=f"zk{ESCAPES}").draw(0.0, 200, 20)
    assert all(line.plain.isprintable() for line in lines)


ALLOWED = {
    "print": {"output.py", "__init__.py", "demo_contender.py"},
    "Console": {"top.py", "demo_screen.py"},
    "write": {"output.py", "signals.py", "top.py", "process_keeper.py"},
}
"""Who may call what writes. `__init__` says which package is missing, `demo_contender` is read by
the demo, `signals` and `process_keeper` write to pipes of their own, and the screens are `Picture`
and `LiveScreen`."""


@check_each("file", SOURCES, ids=lambda file: file.name)
def test_nobody_else_writes(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr"):
            is_ours = isinstance(node.value, ast.Name) and node.value.id == "sys"
            allowed = {"output.py", "top.py", "__init__.py"}
            assert not is_ours or file.name in allowed, node.lineno
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else ""
            if isinstance(function, ast.Attribute) and function.attr == "write":
                name = "write"
            assert file.name in ALLOWED.get(name, {file.name}), node.lineno


# --- values that make no sense -------------------------------------------------------------------


@pytest.mark.parametrize(
    "milliseconds", [10**400, -(10**400), 10**6000, -(1 << 63), 1 << 63], ids=range(5)
)
def test_moments_that_make_no_sense(milliseconds: int) -> None:
    assert render.age(milliseconds)
    assert render.seconds_since(milliseconds) >= 0.0
    assert len(render.moment(milliseconds)) < 100


@pytest.mark.parametrize("seconds", [float("inf"), float("-inf"), float("nan"), 1e300])
def test_spans_that_make_no_sense(seconds: float) -> None:
    assert render.span(seconds)


@pytest.mark.parametrize(
    "content", ["hosts = " + "[" * 20_000, "a." * 2_000 + "a = 1", "[run]\nx = " + "9" * 5000]
)
def test_a_configuration_file_that_makes_no_sense(run: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(content)
    code, out, err = run("ls", "--config", str(file))
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith(f"aiolead: --config: {file}: ")


# --- signals -------------------------------------------------------------------------------------

BUSY = """
import sys, time
from aiolead.cli.signals import PATIENT_FOR, Signals
with Signals(passed_on=sys.argv[1:] == ["passed on"]) as signals:
    print("begins", flush=True)
    while signals.first is None:
        pass
    begin = time.monotonic()
    while time.monotonic() < begin + PATIENT_FOR:
        pass
    print("goes on", flush=True)
    while len(signals._waiting) < 2:
        pass
    print("ends", flush=True)
"""
"""What notes signals, and computes: no event loop gets a turn."""


def busy(*arguments: str) -> tuple[subprocess.Popen[str], Lines]:
    process = subprocess.Popen(
        ["env", "--default-signal=INT,HUP", sys.executable, "-c", BUSY, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Lines(process.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_what_goes_on(number: int) -> None:
    process, lines = busy()
    try:
        lines.expect("begins")
        process.send_signal(number)
        lines.expect("goes on")
        process.send_signal(number)
        assert process.wait(WITHIN) == -number
    finally:
        process.kill()
        process.wait(WITHIN)


def test_signals_that_are_passed_on_end_nothing() -> None:
    process, lines = busy("passed on")
    try:
        lines.expect("begins")
        process.send_signal(signal.SIGTERM)
        lines.expect("goes on")
        process.send_signal(signal.SIGTERM)
        lines.expect("ends")
        assert process.wait(WITHIN) == 0
    finally:
        process.kill()
        process.wait(WITHIN)


def test_what_is_to_be_undone_is_undone_in_reverse() -> None:
    done: list[int] = []

    def fails() -> None:
        done.append(2)
        raise OSError

    with output.undone_at_once(lambda: done.append(1)), output.undone_at_once(fails):
        output.undo_at_once()
    output.undo_at_once()
    assert done == [2, 1]
