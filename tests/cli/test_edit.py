"""`aiolead edit`."""

from __future__ import annotations

import re
import shlex
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kit.cli import OnTerminal, Run, fails, prints, report, shown

from aiolead.cli import edit

Editor = Callable[[str], None]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Makes a Python program the editor; `file` in it is the path of the file to edit."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("VISUAL", "")

    def use(program: str) -> None:
        script = tmp_path / "an editor.py"
        begin = "import sys, os, pathlib\nfile = pathlib.Path(sys.argv[-1])\n"
        script.write_text(begin + program)
        monkeypatch.setenv("EDITOR", shlex.join([sys.executable, str(script), "--wait"]))

    return use


def kept(err: list[str]) -> Path:
    """The file that a failed edit has named."""
    return Path(err[0].removeprefix("aiolead: the edited text is in "))


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("aiolead-*"))


def test_edited_data_are_written(run: Run, hosts: str, tmp_path: Path, editor: Editor) -> None:
    run("create / -p")
    run("create /settings.json", "übel\n")
    editor("file.write_text(file.read_text().replace('übel', 'gut') + file.name)")
    assert run("edit /settings.json") == prints(err="/settings.json has version 1")
    assert shown(run, "get /settings.json") == ["gut", "settings.json"]
    (found,) = report(run, "edit /settings.json")
    assert found["version"] == 2
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "program", "after"),
    [
        ("text", "file.write_text('text\\n')", "text"),
        ("text\n", "pass", "text\n"),
        ("", "file.write_text('\\n')", ""),
        ("text", "file.unlink()", "text"),
    ],
    ids=["newline of the editor", "nothing", "empty", "deleted"],
)
def test_unchanged_text_writes_nothing(
    run: Run, somewhere: str, tmp_path: Path, editor: Editor, data: str, program: str, after: str
) -> None:
    run("create /a -p", data)
    editor(program)
    assert run("edit /a") == prints(err="/a was not changed")
    (found,) = report(run, "edit /a")
    assert (found["version"], found["data_length"]) == (0, len(after))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    ["set(path, b'new')", "delete(path), client.create(path, b'new')", "delete(path)"],
    ids=["changed", "created again", "deleted"],
)
def test_conflict_writes_nothing_and_keeps_the_text(
    run: Run, somewhere: str, tmp_path: Path, editor: Editor, change: str
) -> None:
    run("create /a -p", "old")
    client = f"aiolead.blocking.connect({somewhere!r})"
    editor(
        "import aiolead.blocking\nfile.write_text('mine')\npath = '/a'\n"
        f"with {client} as client:\n    client.{change}\n"
    )
    code, out, err = run("edit /a")
    assert (code, out, len(err)) == (1, [], 2)
    assert re.search("has changed since it was read|no such znode", err[1])
    assert kept(err).read_text() == "mine"
    assert stat.S_IMODE(kept(err).parent.stat().st_mode) == 0o700
    assert run("get /a")[1] == ([] if change == "delete(path)" else ["new"])


def test_text_is_kept_if_the_servers_are_gone(
    run: Run, somewhere: str, tmp_path: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("create /a -p", "old")
    editor("file.write_text('mine')")
    run_editor = edit._run

    def lose_servers(editor: Sequence[str], file: Path) -> None:
        run_editor(editor, file)
        monkeypatch.setattr("aiolead.cli.options.Common.wanted_hosts", "127.0.0.1:1")

    monkeypatch.setattr("aiolead.cli.edit._run", lose_servers)
    code, _, err = run("edit /a --connect-timeout 0.3")
    assert code == 69
    assert kept(err).read_text() == "mine"


def test_failed_editor_writes_nothing(
    run: Run, somewhere: str, tmp_path: Path, editor: Editor
) -> None:
    run("create /a -p", "old")
    editor("sys.exit(3)")
    assert run("edit /a") == fails("the editor ended with exit code 3: nothing is written")
    assert leftovers(tmp_path) == []
    editor("file.write_text('mine'); os.kill(os.getpid(), 9)")
    code, _, err = run("edit /a")
    assert (code, err[1]) == (1, "aiolead: the editor ended with signal 9: nothing is written")
    assert kept(err).read_text() == "mine"
    assert shown(run, "get /a") == ["old"]


def test_binary_data_are_refused(run: Run, somewhere: str, tmp_path: Path, editor: Editor) -> None:
    editor("file.write_text('mine')")
    (tmp_path / "data").write_bytes(b"\xff\x00")
    run(f"create /a -p --file {tmp_path / 'data'}")
    assert run("edit /a") == fails("/a: its 2 bytes are no text: use get and set --file")


@pytest.mark.parametrize("command", ["/no/such/editor", "'open quotes", "''"])
def test_missing_editor_is_reported_before_anything_is_sent(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("VISUAL", command)
    code, out, (error,) = run("edit /a", hosts="127.0.0.1:1")
    assert (code, out) == (127, [])
    assert f"there is no editor {command!r}: set VISUAL or EDITOR" in error


def test_editor_gets_no_credentials(
    run: Run, somewhere: str, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOLEAD_AUTH", "digest:ann:open sesame")
    run("create /a -p")
    editor("file.write_text(' '.join(name for name in os.environ if 'AUTH' in name))")
    assert run("edit /a") == prints(err="/a was not changed")


AN_EDITOR = """
import pathlib, sys
print("what is", "new?", flush=True)
pathlib.Path(sys.argv[1]).write_text(sys.stdin.readline())
"""


def test_editor_has_the_terminal_and_its_keys(run: Run, somewhere: str, tmp_path: Path) -> None:
    """Ctrl-Z stops the command and its editor, `fg` continues both; Ctrl-C ends the editor."""
    run("create /a -p", "old")
    script = tmp_path / "editor.py"
    script.write_text(AN_EDITOR)
    env = {"VISUAL": f"{sys.executable} {script}", "TMPDIR": str(tmp_path), "PS1": "prompt> "}
    shell = ["bash", "--norc", "-i"]
    with OnTerminal(program=shell, hosts=somewhere, env=env) as terminal:
        terminal.wait_for("prompt> ")
        terminal.type(f"{sys.executable} -m aiolead edit /a\n")
        terminal.wait_for("what is new?")
        terminal.type("\x1a")
        terminal.wait_stopped("prompt> ")
        terminal.type("fg\n")
        terminal.wait_for("edit /a", times=3)  # typed, stopped, continued
        terminal.type("new data\n")
        terminal.wait_for("/a has version 1")
        terminal.wait_for("prompt> ", times=3)
        terminal.type(f"{sys.executable} -m aiolead edit /a; echo code $?\n")
        terminal.wait_for("what is new?", times=2)
        terminal.type("\x03")
        terminal.wait_for("the editor ended with signal 2: nothing is written")
        terminal.wait_for("code 1")
        terminal.wait_for("prompt> ", times=4)
        terminal.type("exit\n")
        assert terminal.finish() == 0
    assert shown(run, "get /a") == ["new data"]
