"""`aiolead shell`."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from anyio.from_thread import BlockingPortal
from kit.checks import until
from kit.cli import WITHIN, Command, OnTerminal, Run, environment, fails, objects
from kit.raw_client import RawClient

from aiolead.cli.app import SHOWN, app
from aiolead.cli.options import AT_PROMPT, Common
from aiolead.cli.shell import _MAY_WRITE, Prompt
from aiolead.testing import ThreadedServer

TAB, UP = "\t", "\x1b[A"


class Shell(OnTerminal):
    """The shell on a terminal, with a history of its own in a folder."""

    def __init__(self, hosts: str, folder: Path, *options: str, **env: str) -> None:
        env |= {"XDG_STATE_HOME": str(folder), "PROMPT_TOOLKIT_NO_CPR": "1"}
        super().__init__("shell", *options, hosts=hosts, fresh=True, env=env)
        self._hosts = hosts
        self._seen = 0
        self.prompt()

    def expect(self, text: str) -> None:
        """Waits for a text, after those that were expected before."""
        self.wait_for(text, self.shown.count(text, 0, self._seen) + 1)
        self._seen = self.shown.index(text, self._seen) + len(text)

    def prompt(self, path: str = "/") -> None:
        self.expect(f"{self._hosts}:{path}>")

    def enter(self, line: str, *prints: str, path: str = "/") -> None:
        """Types a line, and waits for what it prints, and for the next prompt."""
        self.type(line + "\r")
        self.expect("\r\n")
        for text in prints:
            self.expect(text)
        self.prompt(path)

    def leave(self) -> None:
        """Leaves by Ctrl-D, after a prompt was drawn: before that, the terminal would take it."""
        self.type("\x04")
        assert self.finish() == 0


@pytest.fixture
def shell(server: ThreadedServer, tmp_path: Path) -> Iterator[Shell]:
    with Shell(server.connect_string, tmp_path) as shell:
        yield shell


# --- on a terminal -------------------------------------------------------------------------------


def test_commands_share_a_path_and_a_session(shell: Shell, server: ThreadedServer) -> None:
    shell.enter("create -p app/state one", "/app/state\r\n")
    shell.enter("cd app", path="/app")
    shell.enter("get state", "one\r\n", path="/app")
    shell.enter("ls", "state\r\n", path="/app")
    shell.enter("doctor state", "/app/state: 0 contenders", path="/app")
    shell.enter("doctor", "6 ok, 1 warn\r\n", path="/app")
    shell.enter("pwd", "/app\r\n", path="/app")
    shell.enter("cd ../app/state/", path="/app/state")
    shell.enter("cd /", path="/")
    shell.enter("cd nowhere", "aiolead: no such znode: /nowhere", path="/")
    shell.enter("aiolead ls", "(see: aiolead --help)")
    shell.enter("ls 'open", "aiolead: No closing quotation")
    shell.enter("ls --json # as objects", '{"name": "app", "path": "/app"}')
    shell.enter("shell", "aiolead: this is aiolead shell already")
    assert len(server.sessions()) == 1
    shell.leave()
    assert not server.sessions()


def test_tab_completes_commands_options_and_paths(shell: Shell) -> None:
    shell.enter("create -p /app/settings 'the data'", "/app/settings\r\n")
    shell.type("epheme" + TAB)
    shell.expect("rals")
    shell.type(" --sessi" + TAB + "\x03")
    shell.prompt()
    shell.type("get a" + TAB)
    shell.expect("pp")
    shell.type("/s" + TAB)
    shell.expect("ettings")
    shell.type("\r")
    shell.expect("the data\r\n")
    shell.prompt()
    shell.type("config hist" + TAB)
    shell.expect("ory")
    shell.type("\x03")
    shell.enter("pwd", "/\r\n")
    shell.leave()


def test_ctrl_c_ends_a_line_and_a_command(shell: Shell, server: ThreadedServer) -> None:
    shell.enter("create /app")
    shell.type("rm /app\x03")
    shell.prompt()
    shell.type("watch /app\r")
    until(lambda: "/app" in server.watches(), "the watch is set")
    with RawClient(server.connect_string) as client:
        client.set("/app", b"seen")
    shell.expect("data changed")
    shell.type("\x03")
    shell.prompt()
    shell.type("create -e /app/mine\r")
    shell.expect("this command holds it")
    shell.type("\x03")
    shell.prompt()
    shell.enter("stat /app/mine", "no such znode")
    shell.leave()


def test_slow_end_of_a_command_does_not_end_the_shell(shell: Shell, server: ThreadedServer) -> None:
    """A session of its own is closed, which a silent server never confirms."""
    shell.type("create -e /mine\r")
    shell.expect("this command holds it")
    server.pause()
    shell.type("\x03")
    shell.expect("^C")
    shell.prompt()
    server.resume()
    shell.enter("ls /", "zookeeper")
    shell.leave()


def test_history_is_private_and_has_no_secrets(
    shell: Shell, server: ThreadedServer, tmp_path: Path
) -> None:
    shell.enter("stat /", "persistent")
    shell.enter("ls / --auth digest:ann:sesame")
    shell.enter(" ls /zookeeper")
    shell.leave()
    history = tmp_path / "aiolead" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert [line for line in history.read_text().splitlines() if line[:1] == "+"] == ["+stat /"]
    with Shell(server.connect_string, tmp_path) as again:
        again.type(UP)
        again.expect("stat /")
        again.enter("", "persistent")
        again.leave()


def test_unwritable_history_is_done_without(server: ThreadedServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Shell(server.connect_string, tmp_path / "file") as shell:
        shell.enter("ls /", "zookeeper")
        shell.leave()


def test_shell_survives_its_servers(server: ThreadedServer, tmp_path: Path) -> None:
    hosts = server.connect_string
    options = ("--session-timeout", "2", "--connect-timeout", "0.5")
    with Shell(hosts, tmp_path, *options) as shell:
        shell.enter("create /app")
        server.stop()
        shell.enter("ls /", "aiolead: ")
        shell.type("ls /" + TAB + "\r")
        shell.expect("aiolead: ")
        shell.prompt()
        server.start()
        shell.enter("ls /", "app\r\n")
        (session,) = server.sessions()
        server.expire_session(session)
        until(lambda: {session} != {*server.sessions()} != set(), "there is a new session")
        shell.enter("ls /", "app\r\n")
        assert "never awaited" not in shell.shown
        shell.leave()


def test_shell_starts_without_servers(server: ThreadedServer, tmp_path: Path) -> None:
    server.stop()
    with Shell(server.connect_string, tmp_path, "--connect-timeout", "0.3") as shell:
        shell.type("ls /" + TAB + "\x03")
        shell.prompt()
        shell.enter("ls /", "aiolead: ")
        server.start()
        shell.enter("ls /", "zookeeper")
        shell.leave()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_shell_and_its_session(
    shell: Shell, server: ThreadedServer, number: int
) -> None:
    shell.enter("ls /", "zookeeper")
    os.kill(shell.process.pid, number)
    assert shell.finish() == 128 + number
    assert not server.sessions()


FINALIZED = """
import os, signal, time
from aiolead.cli.shell import _Ended, _ended_by_signals

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

try:
    with _ended_by_signals():
        Finalized()
        time.sleep(600)
except _Ended as ended:
    print("ended by", ended.number)
"""


def test_signal_during_a_finalizer_ends_the_shell() -> None:
    """Python drops an exception that is raised there, also that of a handler of signals."""
    with Command(code=FINALIZED) as program:
        program.out.expect(f"ended by {int(signal.SIGTERM)}")
        assert (program.finish(), program.err.rest()) == (0, [])


def test_editor_runs_in_the_shell(server: ThreadedServer, tmp_path: Path) -> None:
    editor = shlex.join(["sed", "-i", "s/old/new/"])
    with Shell(server.connect_string, tmp_path, VISUAL=editor) as shell:
        shell.enter("create /app old")
        shell.enter("edit app", "/app has version 1")
        shell.enter("get app", "new\r\n")
        shell.leave()


# --- without a terminal --------------------------------------------------------------------------


def script(lines: str, *options: str, hosts: str, **env: str) -> tuple[int, list[str], list[str]]:
    """Runs lines without a terminal."""
    ended = subprocess.run(
        [sys.executable, "-m", "aiolead", "shell", *options],
        input=lines,
        env=environment(AIOLEAD_HOSTS=hosts, **env),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
    return ended.returncode, ended.stdout.splitlines(), ended.stderr.splitlines()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_lines_of_standard_input_are_commands(server: ThreadedServer, backend: str) -> None:
    lines = "create /app\n\n# nothing\nls\ncd app\npwd\nget ../nowhere\n"
    assert script(lines, "--backend", backend, hosts=server.connect_string) == (
        1,
        ["/app", "app", "zookeeper", "/app"],
        ["aiolead: no such znode: /nowhere"],
    )
    assert script("ls /x\nquit\nls", hosts=server.connect_string)[:2] == (1, [])


def test_options_of_the_shell_are_those_of_its_commands(server: ThreadedServer) -> None:
    hosts = server.connect_string
    lines = "ls\nls nowhere\npwd\n"
    code, out, err = script(lines, "--json", "--hosts", hosts, hosts="127.0.0.1:1")
    assert (code, objects(out)) == (0, [{"name": "zookeeper", "path": "/zookeeper"}, {"path": "/"}])
    (error,) = objects(err)
    assert error["message"] == "no such znode: /nowhere"
    other = f"create /app\nls --hosts {hosts}/app --quiet\n"
    assert script(other, hosts=hosts) == (0, ["/app"], [])


@pytest.mark.parametrize(("command", "hosts"), [("ls", "zk1"), ("demo", None)])
def test_demo_has_its_own_servers(command: str, hosts: str | None) -> None:
    options = Common(hosts="zk1", debug=True)
    prompt = Prompt(options, cast("BlockingPortal", None), read_only=False)
    token = AT_PROMPT.set(prompt)
    try:
        _, bound, _ = app.parse_args([command])
    finally:
        AT_PROMPT.reset(token)
    common = bound.arguments["common"]
    assert (common.hosts, common.debug) == (hosts, True)


WRITING = [
    "create /x",
    "set /a x",
    "rm /a",
    "delete /a",
    "deleteall /a",
    "edit /a",
    "cp /a /b",
    "import /b --file /dev/null",
    "acl /a world:anyone:r",
    "quota /a --count 3",
    "quota /a --delete",
    "config set /a x=y",
    "config rollback /a 1",
    "members --remove 1",
    "revoke /a",
    "run /a -- true",
    "lock /a -- true",
    "run /a",
    "once /a key -- true",
    "bench /a",
    "demo",
    "demo herd",
    "server",
]


def test_read_only_shell_refuses_what_writes(server: ThreadedServer) -> None:
    hosts = server.connect_string
    script("create /a\n", hosts=hosts)
    zxid = server.zxid
    code, out, err = script("\n".join(WRITING), "--read-only", hosts=hosts)
    assert (code, out, len(err), server.zxid) == (2, [], len(WRITING), zxid)
    assert all(line.endswith("writes, which --read-only forbids") for line in err)
    reading = "ls\nacl /a\nquota /a\nget /a\ncd /a\npwd\nhelp ls\nfind\n"
    assert script(reading, "--read-only", hosts=hosts)[0] == 0


def test_read_only_shell_knows_every_command() -> None:
    written = {line.split()[0] for line in WRITING}
    known = {name.split()[0] for name in _MAY_WRITE}
    assert known | written >= {*SHOWN} - {"shell"}
    assert known & written == {"acl", "quota", "members", "config"}


def test_missing_prompt_toolkit_is_reported(
    run: Run, somewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiolead.cli.shell.find_spec", lambda name: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    why = 'the prompt needs prompt_toolkit: pip install "aiolead[shell]"'
    assert run("shell") == fails(why, code=2)


@pytest.mark.parametrize("line", ["cd /", "pwd"])
def test_path_exists_in_the_shell_only(run: Run, line: str) -> None:
    assert run(line) == fails("only aiolead shell has a current path", code=2)
