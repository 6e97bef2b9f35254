"""The process model of `aiolead run` and `lock`: each row of its table, beside flock(1).

Commands are typed into a shell on a pseudo-terminal, as a user would. Texts that a test waits for
are computed by the shell (`up$((1+1))`), so that they differ from what was typed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kit.checks import until
from kit.cli import WITHIN, OnTerminal, Process, environment, processes_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

AGAIN = "echo AGAIN$((40+2))\n"
"""Shows that the shell has the terminal back."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory. Its `bin` has the command."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "aiolead"
    program.write_text(f"#!{sys.executable}\nimport aiolead.cli, sys\nsys.exit(aiolead.cli.main())")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["flock", "aiolead"])
def tool(request: pytest.FixtureRequest, folder: Path) -> str:
    """The words before a command that run it under a lock."""
    return {"flock": "flock lock", "aiolead": "aiolead lock -q /lock --"}[request.param]


@pytest.fixture(params=["bash", "dash"])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of the shell."""
    return str(request.param)


@pytest.fixture
def shell(kind: str, folder: Path, somewhere: str) -> Iterator[OnTerminal]:
    """An interactive shell."""
    program = {"bash": ["bash", "--norc", "--noprofile", "-i"], "dash": ["dash", "-i"]}[kind]
    env = {"PS1": "$ ", "TERM": "dumb", "SHELL": kind}
    with OnTerminal(program=program, hosts=somewhere, env=env) as shell:
        shell.wait_for("$ ")
        yield shell
        for pid in processes_with(shell.mark):
            os.kill(pid, signal.SIGKILL)


def is_back(shell: OnTerminal) -> None:
    """Waits until the shell obeys again.

    It waits for its own child. The child of flock, which was stopped or killed as well, may still
    be in its read, and would get the first character that is typed.
    """
    until(lambda: set(states_of(shell, "sh -c", "read x")) <= {"T"}, "no command reads")
    times = shell.shown.count("AGAIN42") + 1
    shell.type(AGAIN)
    shell.wait_for("AGAIN42", times)


def interrupt(shell: OnTerminal) -> None:
    """Types Ctrl-C, which discards all input, and waits for a prompt."""
    prompts = shell.shown.count("\n$ ") + 1
    shell.type("\x03")
    shell.wait_for("\n$ ", prompts)
    is_back(shell)


def bring_to_the_foreground(shell: OnTerminal) -> None:
    """Waits until the shell has printed the command that it continues."""
    times = shell.shown.count("sh -c") + 1
    shell.type("fg\n")
    shell.wait_for("sh -c", times)


def fields(pid: int) -> list[str]:
    """From the process's state on; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def states_of(shell: OnTerminal, words: str, does: str = "") -> list[str]:
    """The states of the processes whose command line begins with some words, and has a text."""
    line, states = words.replace(" ", "\0").encode(), []
    for pid in processes_with(shell.mark):
        with suppress(OSError):
            found = Path(f"/proc/{pid}/cmdline").read_bytes()
            if found.startswith(line) and does.encode() in found:
                states += fields(pid)[:1]
    return states


# --- what the command inherits -------------------------------------------------------------------


def test_command_inherits_open_descriptors(
    shell: OnTerminal, kind: str, tool: str, folder: Path
) -> None:
    (folder / "file").write_text("from-the-file")
    shell.type(f"{tool} sh -c 'cat <&3; echo -up$((1+1))' 3<file\n")
    shell.wait_for("from-the-file-up2")
    if kind == "bash":
        shell.type(f"{tool} cat <(echo substituted$((1+1)))\n")
        shell.wait_for("substituted2")
        shell.type(f"echo a$((1+1)) | {tool} tee >(sed s/^/teed-/) >/dev/null\n")
        shell.wait_for("teed-a2")


def test_make_shares_its_job_server_with_the_command(
    folder: Path, somewhere: str, tool: str
) -> None:
    (folder / "Makefile").write_text(f"all:\n\t+{tool} make inner\ninner:\n\t@echo made\n")
    ended = subprocess.run(
        ["make", "-j2"], env=environment(AIOLEAD_HOSTS=somewhere), text=True, capture_output=True
    )
    assert "made" in ended.stdout
    assert "jobserver" not in ended.stderr


def test_sockets_of_systemd_are_for_the_command(folder: Path, somewhere: str) -> None:
    command = "test $LISTEN_PID = $$ && echo mine"
    ended = subprocess.run(
        ["sh", "-c", f"LISTEN_PID=$$ exec aiolead lock -q /lock --shell -- '{command}'"],
        env=environment(AIOLEAD_HOSTS=somewhere),
        text=True,
        capture_output=True,
    )
    assert (ended.stdout, ended.stderr) == ("mine\n", "")


def test_script_without_an_interpreter_runs_in_a_shell(
    folder: Path, somewhere: str, tool: str
) -> None:
    (folder / "script").write_text('echo "ran $1"')
    (folder / "script").chmod(0o755)
    ended = subprocess.run(
        [*tool.split(), "./script", "a b"],
        env=environment(AIOLEAD_HOSTS=somewhere),
        text=True,
        capture_output=True,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("ran a b\n", "", 0)


# --- the terminal --------------------------------------------------------------------------------


def test_command_reads_the_terminal(shell: OnTerminal, tool: str) -> None:
    shell.type(f"{tool} sh -c 'read x; echo got-$x-up$((1+1))'\n")
    shell.type("hello\n")
    shell.wait_for("got-hello-up2")
    is_back(shell)


def test_pager_behind_the_command_reads_the_keys(shell: OnTerminal, tool: str) -> None:
    pager = "sh -c 'read line; echo $line; read key </dev/tty; echo key-$key-up$((1+1))'"
    work = "echo up$((1+1)); while ! [ -e go ]; do sleep 0.05; done"
    shell.type(f"{tool} sh -c '{work}' | {pager}\n")
    shell.wait_for("up2")
    shell.type("x\n")
    shell.wait_for("key-x-up2")
    assert "Stopped" not in shell.shown
    Path("go").touch()
    is_back(shell)


def test_background_command_that_reads_continues_in_the_foreground(
    shell: OnTerminal, tool: str
) -> None:
    shell.type(f"{tool} sh -c 'read x; echo got-$x-up$((1+1))' &\n")

    def waits() -> bool:
        # flock stops with its command, a moment later.
        return {*states_of(shell, "sh -c"), *states_of(shell, "flock")} == {"T"}

    until(waits, "the command waits for the terminal")
    is_back(shell)
    bring_to_the_foreground(shell)
    shell.type("hello\n")
    shell.wait_for("got-hello-up2")
    is_back(shell)


@pytest.mark.parametrize("reads", [False, True], ids=["works", "reads"])
def test_ctrl_z_stops_and_fg_continues(shell: OnTerminal, tool: str, reads: bool) -> None:
    work = "read x" if reads else "while ! [ -e go ]; do sleep 0.05; done"
    shell.type(f"{tool} sh -c 'echo up$((1+1)); {work}; echo got-$x-done$((1+1))'\n")
    shell.wait_for("up2")
    if reads and "aiolead" in tool:
        until(lambda: has_terminal(shell), "the command has the terminal")
    shell.type("\x1a")
    shell.wait_stopped("\n$ ")
    is_back(shell)
    Path("go").touch()
    assert "done2" not in shell.shown
    bring_to_the_foreground(shell)
    shell.type("hello\n")
    shell.wait_for("got-hello-done2" if reads else "got--done2")
    is_back(shell)


def test_ctrl_z_and_bg_continue_in_the_background(shell: OnTerminal, tool: str) -> None:
    work = "while ! [ -e go ]; do sleep 0.05; done"
    shell.type(f"{tool} sh -c 'echo up$((1+1)); {work}; echo done$((1+1)) >&2'\n")
    shell.wait_for("up2")
    shell.type("\x1a")
    shell.wait_stopped("\n$ ")
    shell.type("bg\n")
    is_back(shell)
    Path("go").touch()
    shell.wait_for("done2")
    is_back(shell)


@pytest.mark.parametrize("reads", [False, True], ids=["works", "reads"])
def test_ctrl_c_ends_the_loop_of_a_script(shell: OnTerminal, tool: str, reads: bool) -> None:
    work = "read x" if reads else "exec sleep 100"
    loop = f'for i in 1 2 3; do {tool} sh -c "echo up\\$((1+1)); {work}"; done'
    shell.type(f"$SHELL -c '{loop}'\n")
    shell.wait_for("up2")
    if reads and "aiolead" in tool:
        until(lambda: has_terminal(shell), "the command has the terminal")
    interrupt(shell)
    assert shell.shown.count("up2") == 1


@pytest.mark.parametrize("reads", [False, True], ids=["works", "reads"])
def test_ctrl_backslash_ends_the_command(shell: OnTerminal, tool: str, reads: bool) -> None:
    work = "read x" if reads else "exec sleep 100"
    shell.type(f"{tool} sh -c 'echo up$((1+1)); {work}'; echo status$?-\n")
    shell.wait_for("up2")
    if reads and "aiolead" in tool:
        until(lambda: has_terminal(shell), "the command has the terminal")
    shell.type("\x1c")
    shell.wait_for(f"status{128 + signal.SIGQUIT}-\r\n$ ")
    is_back(shell)


def test_ctrl_c_reaches_all_processes_of_the_command(shell: OnTerminal, tool: str) -> None:
    """A shell that waits for a child ends only when the child has ended."""
    shell.type(f"{tool} sh -c 'echo up$((1+1)); sleep 1000; :'\n")
    shell.wait_for("up2")
    until(lambda: bool(states_of(shell, "sleep 1000")), "the child runs")
    interrupt(shell)
    until(lambda: not states_of(shell, "sleep 1000"), "the child has ended")


@pytest.mark.parametrize("reads", [False, True], ids=["works", "reads"])
def test_ctrl_c_ends_forever_even_if_the_command_succeeds(shell: OnTerminal, reads: bool) -> None:
    work = "read x" if reads else "sleep 0.05"
    script = f'trap "exit 0" INT; echo up$((1+1)); while :; do {work}; done'
    shell.type(f"aiolead run -q --forever /run -- sh -c '{script}'; echo status$?-\n")
    shell.wait_for("up2")
    if reads:
        until(lambda: has_terminal(shell), "the command has the terminal")
    shell.type("\x03")
    shell.wait_for("status0-")
    assert shell.shown.count("up2") == 1
    is_back(shell)


def test_modes_of_the_terminal_are_restored_when_the_command_is_killed(
    shell: OnTerminal, tool: str
) -> None:
    """Bash restores them itself, but only if it sees a command die of a signal."""
    shell.type(f"{tool} sh -c 'stty -echo raw; kill -KILL $$'; stty -a\n")
    shell.wait_for(" echo " if "aiolead" in tool else "-echo ")
    is_back(shell)


def has_terminal(shell: OnTerminal) -> bool:
    """Whether the command's process group is in the foreground."""
    for pid in processes_with(shell.mark):
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sh\0-c"):
            state = fields(pid)
            if state and state[2] == state[5] and state[0] == "S":
                return True
    return False


# --- process 1 ---------------------------------------------------------------------------------

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
LEAVES_ORPHANS = "setsid sh -c 'sleep 0.1' & setsid sh -c 'sleep 0.2' & sleep 0.05; echo again"
THEN_STAYS = f"if [ -e go ]; then echo last; exec sleep 1000; fi; {LEAVES_ORPHANS}"


def can_unshare() -> bool:
    return subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs a process namespace of its own")
def test_process_1_reaps_orphans_and_passes_signals_on(folder: Path, somewhere: str) -> None:
    with subprocess.Popen(
        [*CONTAINER, "aiolead", "run", "-q", "--forever", "/run", "--", "sh", "-c", THEN_STAYS],
        env=environment(AIOLEAD_HOSTS=somewhere),
        stdout=subprocess.PIPE,
        text=True,
    ) as unshare:
        assert unshare.stdout is not None
        for _ in range(4):
            assert unshare.stdout.readline() == "again\n"
        Path("go").touch()
        assert "last\n" in iter(unshare.stdout.readline, "")
        (init,) = children_of(unshare.pid)
        until(lambda: not zombies_below(init), "all orphans are reaped")
        os.kill(init, signal.SIGTERM)
        assert unshare.wait(WITHIN) == 128 + signal.SIGTERM


def children_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()]


def zombies_below(pid: int) -> list[int]:
    return [child for child in children_of(pid) if fields(child)[:1] == ["Z"]]


# --- the end -------------------------------------------------------------------------------------


def test_death_by_a_signal_is_seen(folder: Path, somewhere: str, tool: str) -> None:
    ended = subprocess.run(
        [*tool.split(), "sh", "-c", "kill -TERM $$"], env=environment(AIOLEAD_HOSTS=somewhere)
    )
    expected = 128 + signal.SIGTERM if "flock" in tool else -signal.SIGTERM
    assert ended.returncode == expected


@pytest.mark.parametrize("left", ["in the group", "a daemon"])
def test_processes_that_the_command_leaves_behind(
    folder: Path, somewhere: str, tool: str, left: str
) -> None:
    """Under flock they keep the lock. Under aiolead they run without it, or not at all."""
    start = "setsid" if left == "a daemon" else ""
    script = f"{start} sh -c 'echo $$ > pid; exec sleep 1000' & while ! [ -s pid ]; do :; done"
    env = environment(AIOLEAD_HOSTS=somewhere)
    subprocess.run([*tool.split(), "sh", "-c", script], env=env, check=True)
    pid = int((folder / "pid").read_text())
    if tool.startswith("aiolead") and not start:
        until(lambda: not fields(pid), "it is gone")
        return
    with Process(pid) as process:
        assert process.is_running
        again = "flock -n lock" if tool.startswith("flock") else "aiolead lock -qn /lock --"
        ended = subprocess.run([*again.split(), "true"], env=env)
        assert ended.returncode == (1 if tool.startswith("flock") else 0)


def test_exit_code_that_looks_like_a_signal_is_none(folder: Path, somewhere: str) -> None:
    ended = subprocess.run(
        ["aiolead", "lock", "-q", "/lock", "--", "sh", "-c", "exit 143"],
        env=environment(AIOLEAD_HOSTS=somewhere),
    )
    assert ended.returncode == 143


@pytest.mark.parametrize("name", ["USR1", "USR2", "WINCH", "HUP", "TERM", "INT", "QUIT"])
def test_signal_is_passed_on(folder: Path, somewhere: str, name: str) -> None:
    script = f"trap 'echo got {name}; exit 3' {name}; echo up; while :; do sleep 0.05; done"
    with subprocess.Popen(
        ["env", "--default-signal", "aiolead", "lock", "-q", "/lock", "--", "sh", "-c", script],
        env=environment(AIOLEAD_HOSTS=somewhere),
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.readline() == f"got {name}\n"
        assert process.wait(WITHIN) == 3
