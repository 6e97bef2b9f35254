"""The output of the command is escaped, in one place; and how signals end the command."""

from __future__ import annotations

import ast
import io
import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli.hostile_servers import ESCAPES
from kit.checks import check_each
from kit.cli import WITHIN, Command, OnTerminal, Run, environment, fails, without_notice
from kit.raw_client import RawClient

import aiolead.cli
from aiolead.cli import output, render
from aiolead.cli.output import Reporter, Styled, styled, table, write_json, write_line
from aiolead.cli.scene import Scene
from aiolead.cli.top_picture import Picture

EDGE = pytest.mark.exhaustive("an edge of the command")
SOURCES = sorted(Path(aiolead.cli.__file__).parent.rglob("*.py"))


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_fancy", lambda: True)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    return (out + err).split("\n")[:-1]


def test_written_texts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_only_own_colours_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    red = styled(f"red{ESCAPES}", "red")
    write_line(red, ESCAPES)
    # A plain text with a colour in it is escaped.
    write_line(f"{red}")
    write_line(str(red) + "x")
    first, *others = printed(capsys)
    assert isinstance(red, Styled)
    assert first.startswith("\x1b[31mred\\x1b[2J")
    assert first.replace("\x1b[31m", "").replace("\x1b[0m", "").isprintable()
    assert all(line.isprintable() and line.startswith(r"\x1b[31m") for line in others)


def test_tracebacks_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError(ESCAPES)
    except ValueError as error:
        Reporter(debug=True).failure(error)
    lines = printed(capsys)
    assert lines[0] == "Traceback (most recent call last):"
    assert all(line.isprintable() for line in lines)


def test_log_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_picture_is_escaped() -> None:
    lines = Picture(scene=Scene(["/a"]), title=f"zk{ESCAPES}").draw(0.0, 200, 20)
    assert all(line.plain.isprintable() for line in lines)


ALLOWED = {
    "print": {"output.py", "__init__.py", "demo_contender.py"},
    "Console": {"top.py", "demo.py", "output.py"},
    "write": {"output.py", "signals.py", "top.py", "process_keeper.py", "trees.py"},
}
"""The modules that may call a function that writes. `__init__` names a missing package, the demo
reads `demo_contender`, `signals` and `process_keeper` write to pipes, `trees` writes a file, and
the screens are `Picture`, that of the demo, and a bar."""


@check_each("file", SOURCES, ids=lambda file: file.name)
def test_other_modules_do_not_write(file: Path) -> None:
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


# --- absurd values -------------------------------------------------------------------------------


@pytest.mark.parametrize("milliseconds", [1 << 62, -(1 << 62)])
def test_time_out_of_range_is_a_number(milliseconds: int) -> None:
    assert render.moment(milliseconds) == str(milliseconds)


@pytest.mark.parametrize(
    "milliseconds",
    [1 << 62, -(1 << 62), 10**400, -(10**400), 10**6000, -(1 << 63), 1 << 63],
    ids=range(7),
)
def test_absurd_times_are_rendered(milliseconds: int) -> None:
    assert render.age(milliseconds)
    assert render.seconds_since(milliseconds) >= 0.0
    assert len(render.moment(milliseconds)) < 100


@pytest.mark.parametrize("seconds", [float("inf"), float("-inf"), float("nan"), 1e300])
def test_absurd_spans_are_rendered(seconds: float) -> None:
    assert render.span(seconds)


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("näme 名", "näme 名"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\x9b2Jb", r"a\x9b2Jb"),  # a C1 control: ESC [ in one character
        ("gnp.\u202eexe", r"gnp.\u202eexe"),  # reads backwards
        ("a\u200bb\u2028c", r"a\u200bb\u2028c"),
        ("\udc80", r"\udc80"),
        ("a\nb", r"a\nb"),
    ],
)
def test_controls_are_escaped(text: str, seen: str) -> None:
    assert render.escaped(text) == seen


def test_kept_characters_are_not_escaped() -> None:
    assert render.escaped("a\n\tb\r", keep="\n\t") == "a\n\tb" + r"\r"


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("ä\n".encode(), "ä\n"), (b"\xff", None), (b"a\0b", None), (b"\x1b[2J", None)],
)
def test_data_is_text_or_not(data: bytes, text: str | None) -> None:
    assert render.text_of(data) == text


def test_previews_are_bounded_lines() -> None:
    assert render.preview(b"one\ntwo") == r"one\ntwo"
    assert render.preview(b"x" * 100, 10) == "x" * 10 + "…"
    assert render.preview(b"\x00\xff") == "0x00ff (2 bytes)"
    assert render.preview(bytes(1000), 10) == "0x0000000000… (1,000 bytes)"


def test_hex_dump_has_sixteen_bytes_on_a_line() -> None:
    lines = list(render.hex_dump(bytes(range(65, 83))))
    assert lines[0].startswith("00000000  41 42 43 44 45 46 47 48  49 4a 4b")
    assert lines[0].endswith("  |ABCDEFGHIJKLMNOP|")
    assert lines[1].startswith("00000010  51 52 ")
    assert lines[1].index("|") == lines[0].index("|")


def test_session_ids_are_unsigned() -> None:
    assert render.hexadecimal(-1) == "0xffffffffffffffff"


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(hours=-1), "0 s"),  # the server's clock is ahead
        (timedelta(seconds=59, milliseconds=500), "59 s"),
        (timedelta(minutes=3, seconds=4.5), "3 min 4 s"),
        (timedelta(hours=5, minutes=12.5), "5 h 12 min"),
        (timedelta(days=2, hours=3.5), "2 d 3 h"),
    ],
)
def test_ages_in_words(ago: timedelta, words: str) -> None:
    assert render.age(round((datetime.now(UTC) - ago).timestamp() * 1000)) == words


def test_data_as_json() -> None:
    assert render.data_as_json("ä".encode()) == {"encoding": "utf-8", "data": "ä"}
    assert render.data_as_json(b"\xff") == {"encoding": "base64", "data": "/w=="}
    assert render.as_json({"a": "ä\x9b"}) == r'{"a": "\u00e4\u009b"}'


# --- encodings, pipes and terminals --------------------------------------------------------------


@pytest.fixture
def tree(somewhere: str) -> str:
    """A server with some znodes."""
    with RawClient(somewhere) as client:
        client.create("")
        client.create("/näme")
        client.create("/näme/名-0000000001", "an idéntity".encode(), flags=0)
    return somewhere


def shell(
    command: str, hosts: str, *, stdout: int = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command line of bash, in which `aiolead` is the command."""
    script = f'set -o pipefail; aiolead() {{ "{sys.executable}" -m aiolead "$@"; }}; {command}'
    ended = subprocess.run(
        ["bash", "-c", script],
        env=environment(AIOLEAD_HOSTS=hosts, **env),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    ended.stderr = "\n".join(without_notice(ended.stderr.splitlines()))
    return ended


@EDGE
def test_characters_outside_the_encoding_are_escaped(tree: str) -> None:
    ended = shell("aiolead tree", tree, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == ["/", r"`-- n\xe4me", r"    `-- \u540d-0000000001"]


@EDGE
def test_closed_pipe_or_full_disk_ends_the_command(tree: str) -> None:
    ended = shell("aiolead stat /näme >&- 2>&-", tree)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    reader, writer = os.pipe()
    os.close(reader)
    ended = shell("aiolead stat /näme", tree, stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")
    for command in ("stat /näme", "--version"):
        # Python must not write its buffer again as it exits.
        ended = shell(f"aiolead {command} > /dev/full", tree, PYTHONUNBUFFERED="")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
        assert "No space left on device" in ended.stderr


@EDGE
@pytest.mark.parametrize("command", ["top --interval 0", "observe /näme", "watch /näme"])
def test_closed_pipe_ends_a_command_that_has_nothing_to_write(tree: str, command: str) -> None:
    first = {"watch": "sleep 0"}.get(command.split()[0], "head -1")
    ended = shell(f"aiolead {command} --quiet | {first}", tree)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


@EDGE
def test_closed_pipe_ends_the_demo() -> None:
    """It has several tasks, but ends without a group of errors."""
    ended = shell("aiolead demo | head -1", "")
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")
    assert ended.stdout.startswith("aiolead demo, on its own ZooKeeper server")


@EDGE
def test_wide_rows_on_a_terminal(tree: str) -> None:
    with RawClient(tree) as contender:
        contender.create("/lock")
        contender.create("/lock/名-lock-0000000001", "an idéntity".encode(), flags=1)
        with OnTerminal("contenders", "/lock", hosts=tree) as command:
            assert command.finish() == 0
    heading, row = command.shown.splitlines()
    assert heading.startswith("\x1b[2mplace  state")
    assert heading.endswith("\x1b[0m")
    assert "an idéntity" in row


@EDGE
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_colours_are_off(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.styled("x", "red") == "\x1b[31mx\x1b[0m"
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert output.styled("x", "red") == "x"


@EDGE
def test_tables_are_aligned_by_the_width_of_characters() -> None:
    assert output.table(["a", "n"], [["名", "1"], ["x", "10"]], right=["n"]) == [
        "a    n",
        "名   1",
        "x   10",
    ]
    assert output.table(["a"], []) == ["a"]


@EDGE
def test_defect_is_one_line_without_debug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> None:
        raise KeyError("the defect")

    monkeypatch.setattr("aiolead.cli.options.validate", defect)
    assert run("ls /", hosts="127.0.0.1:1") == fails("KeyError: 'the defect' (--debug shows where)")
    code, out, err = run("ls / --debug", hosts="127.0.0.1:1")
    assert (code, out, err[-1]) == (1, [], "aiolead: KeyError: 'the defect'")
    assert any(f'File "{Path(__file__)}"' in line for line in err)


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
"""A program that computes, so that no event loop handles the signals."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_a_busy_process(number: int) -> None:
    with Command(code=BUSY) as program:
        program.out.expect("begins")
        program.signal(number)
        program.out.expect("goes on")
        assert program.finish(number) == 128 + number


def test_signal_ends_a_process_that_does_not_react() -> None:
    with Command(code=BUSY) as program:
        program.out.expect("begins")
        assert program.finish(signal.SIGTERM) == 128 + signal.SIGTERM


def test_signal_ends_a_command_whose_output_nobody_reads(
    somewhere: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "large").write_bytes(bytes(1_000_000))
    assert run("create /large -p --file", str(tmp_path / "large"))[0] == 0
    command = [sys.executable, "-m", "aiolead", "get", "/large"]
    with subprocess.Popen(
        command, env=environment(AIOLEAD_HOSTS=somewhere), stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"\0"  # the rest does not fit into a pipe
            process.terminate()
            assert process.wait(WITHIN) == -signal.SIGTERM
        finally:
            process.kill()


def test_passed_on_signals_do_not_end_the_process() -> None:
    with Command("passed on", code=BUSY) as program:
        program.out.expect("begins")
        program.signal(signal.SIGTERM)
        program.out.expect("goes on")
        program.signal(signal.SIGTERM)
        program.out.expect("ends")
        assert program.finish() == 0


NOTED = """
import _thread, signal, sys, threading, time, anyio
from aiolead.cli.signals import Signals

def note():
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name != sys.argv[2]:
        time.sleep(0.01)
    _thread.interrupt_main(signal.SIGTERM)

async def main():
    threading.Thread(target=note).start()
    with anyio.fail_after(20):
        print(await signals.next())

with Signals(survives=True) as signals:
    anyio.run(main, backend=sys.argv[1])
print(signal.set_wakeup_fd(-1))
"""
"""A program whose signal comes just before its event loop sleeps. Python only notes it.
Its arguments are the event loop, and the function in which that sleeps."""


@pytest.mark.parametrize(("loop", "sleeps"), [("asyncio", "select"), ("trio", "get_events")])
def test_signal_that_comes_before_the_event_loop_sleeps_wakes_it(loop: str, sleeps: str) -> None:
    with Command(loop, sleeps, code=NOTED) as program:
        assert program.finish() == 0
        assert (program.out.rest(), program.err.rest()) == ([str(signal.SIGTERM.value), "-1"], [])


def test_undoing_runs_in_reverse_order() -> None:
    done: list[int] = []

    def fails() -> None:
        done.append(2)
        raise OSError

    with output.undone_at_once(lambda: done.append(1)), output.undone_at_once(fails):
        output.undo_at_once()
    output.undo_at_once()
    assert done == [2, 1]
