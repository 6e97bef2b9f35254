"""`aiolead run`: when the command runs, with which environment, signals and exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from kit.checks import until
from kit.cli import WITHIN, Command, OnTerminal, Process, Run, environment, outcome
from kit.raw_client import RawClient

from aiolead.errors import NoNodeError

WORKS = "echo works $AIOLEAD_TOKEN $$; exec sleep 100"
"""A command that prints its token and its process id, and goes on."""


def contender(name: str, hosts: str, *more: str, script: str = WORKS) -> Command:
    options = ["--id", name, "--session-timeout", "30", *more]
    return Command("run", *options, "/app", "--", "sh", "-c", script, hosts=hosts)


def works(command: Command) -> tuple[int, Process]:
    """Waits until the child works; its token, and the child."""
    match = command.out.expect(r"works (\d+) (\d+)")
    return int(match[1]), Process(int(match[2]))


def contenders(hosts: str) -> int:
    """The length of the queue."""
    with RawClient(hosts) as client:
        try:
            return len(client.children("/app"))
        except NoNodeError:
            return 0


def test_three_processes_run_one_after_the_other(hosts: str) -> None:
    """The first one is killed, the others end in order, on both event loops."""
    chosen = ("--backend", "trio")
    with contender("one", hosts) as one:
        first_token, first = works(one)
        with contender("two", hosts, *chosen) as two:
            until(lambda: contenders(hosts) == 2, "two contend")
            with contender("three", hosts, *chosen) as three:
                until(lambda: contenders(hosts) == 3, "three contend")
                with first:
                    assert first.is_running
                    one.signal(signal.SIGKILL)
                    first.death()
                second_token, second = works(two)
                with second:
                    assert two.finish(signal.SIGTERM) == 128 + signal.SIGTERM
                    second.death()
                third_token, third = works(three)
                with third:
                    assert three.finish(signal.SIGINT) == 128 + signal.SIGINT
                    third.death()
    assert first_token < second_token < third_token
    assert contenders(hosts) == 0


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)]
)
def test_exit_code_is_that_of_the_child(somewhere: str, script: str, code: int) -> None:
    got, out, err = outcome("run", "/app", "--", "sh", "-c", f"echo out; {script}", hosts=somewhere)
    assert (got, out) == (code, ["out"]), err
    assert contenders(somewhere) == 0


def test_environment_describes_the_hold(somewhere: str) -> None:
    """It overrides the inherited one, which may describe the hold of an outer command."""
    with Command(
        *("run", "--id", "me", "-q", "/app", "--", "sh", "-c", "env; exec cat /dev/null"),
        hosts=somewhere,
        env={"AIOLEAD_TOKEN": "outer", "MINE": "yes"},
    ) as command:
        assert command.finish() == 0
        env = dict(line.split("=", 1) for line in command.out.rest() if "=" in line)
        assert command.err.rest() == []
    assert env["MINE"] == "yes"
    assert env["AIOLEAD_PATH"] == "/app"
    assert env["AIOLEAD_ID"] == "me"
    assert env["AIOLEAD_CONNECT"] == somewhere
    assert env["AIOLEAD_NODE"].endswith("-latch-0000000000")
    assert int(env["AIOLEAD_TOKEN"]) > 0
    assert int(env["AIOLEAD_SESSION"], 16) > 0
    assert env["AIOLEAD_SESSION"].startswith("0x")


CREDENTIALS = {
    "AIOLEAD_AUTH": "digest:ann:open-sesame-1",
    "AIOLEAD_DASHBOARD_TOKEN": "open-sesame-2-open-sesame",
    "AIOLEAD_TLS_KEY_PASSWORD": "open-sesame-3",
}


@pytest.mark.parametrize("how", [("run",), ("lock", "-n")], ids=["run", "lock"])
@pytest.mark.parametrize("is_asked", [False, True])
def test_environment_has_no_credentials_unless_asked(
    somewhere: str, how: tuple[str, ...], is_asked: bool
) -> None:
    script = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"  # and that of the keeper
    with Command(
        *(*how, *["--pass-credentials"] * is_asked, "-q", "/app", "--", "sh", "-c", script),
        hosts=somewhere,
        env={**CREDENTIALS, "AIOLEAD_BACKEND": "trio"},
    ) as command:
        assert command.finish() == 0
        lines = command.out.rest()
    assert lines.count("AIOLEAD_BACKEND=trio") == 2
    for name, value in CREDENTIALS.items():
        assert lines.count(f"{name}={value}") == 2 * is_asked
    assert any("open-sesame" in line for line in lines) == is_asked
    assert any(line.startswith("AIOLEAD_TOKEN=") for line in lines)  # that of the hold


def test_nested_run_passes_its_path_and_the_exit_code(somewhere: str) -> None:
    inner = [sys.executable, "-m", "aiolead", "run", "-q", "/inner", "--", "sh", "-c"]
    script = "echo $AIOLEAD_PATH; exit 5"
    got, out, err = outcome("run", "-q", "/app", "--", *inner, script, hosts=somewhere)
    assert (got, out, err) == (5, ["/inner"], [])


def test_full_pipe_of_errors_does_not_stop_the_child(somewhere: str) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    command = subprocess.Popen(
        [sys.executable, "-m", "aiolead", "run", "/app", "--", "sh", "-c", "echo works; exit 3"],
        env=environment(AIOLEAD_HOSTS=somewhere),
        stdout=subprocess.PIPE,
        stderr=writer,
    )
    try:
        assert command.communicate(timeout=WITHIN)[0] == b"works\n"
        assert command.returncode == 3
    finally:
        command.kill()
        command.wait(WITHIN)
        os.close(reader)
        os.close(writer)


# --- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_while_waiting_leaves_the_queue_at_once(somewhere: str, number: int) -> None:
    with contender("one", somewhere) as one, works(one)[1]:
        with contender("two", somewhere) as two:
            until(lambda: contenders(somewhere) == 2, "two contend")
            assert two.finish(number) == 128 + number
            assert two.out.rest() == []
        assert contenders(somewhere) == 1


def test_signal_while_connecting_ends_the_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        with Command("run", "/app", "--", "true", hosts=hosts) as command:
            for _ in range(2):
                silent.accept()[0].close()
            assert command.finish(signal.SIGTERM) == 128 + signal.SIGTERM


def test_signals_are_passed_on_to_the_child(somewhere: str) -> None:
    script = """
        trap 'echo reloaded' HUP
        trap 'echo stops; exit 5' TERM
        echo works $AIOLEAD_TOKEN $$
        while :; do sleep 0.05; done
    """
    with contender("one", somewhere, script=script) as command, works(command)[1] as child:
        command.signal(signal.SIGHUP)
        command.out.expect("reloaded")
        assert child.is_running
        command.signal(signal.SIGTERM)
        command.out.expect("stops")
        assert command.finish() == 5


def test_processes_that_the_child_leaves_behind_are_ended(somewhere: str) -> None:
    """Otherwise they would go on without leadership."""
    script = """
        trap 'exit 3' TERM
        sleep 100 & echo works $AIOLEAD_TOKEN $!
        while :; do sleep 0.05; done
    """
    with contender("one", somewhere, script=script) as command, works(command)[1] as left:
        command.signal(signal.SIGTERM)
        left.death()
        assert command.finish() == 3


def test_forever_contends_again_after_the_child_has_ended(somewhere: str) -> None:
    with contender("one", somewhere, "--forever", script="echo token $AIOLEAD_TOKEN") as command:
        tokens = [int(command.out.expect(r"token (\d+)")[1]) for _ in range(2)]
        command.finish(signal.SIGTERM)
    assert tokens[0] < tokens[1]


def test_forever_ends_with_the_child_after_a_signal(somewhere: str) -> None:
    with contender("one", somewhere, "--forever") as command, works(command)[1]:
        assert command.finish(signal.SIGTERM) == 128 + signal.SIGTERM


def test_preferred_run_takes_over_and_the_other_one_follows_it(hosts: str) -> None:
    preferring = ("--stable-for", "1", "--forever", "--priority")
    with contender("spare", hosts, *preferring, "0") as spare, works(spare)[1] as first:
        with contender("best", hosts, *preferring, "7") as best:
            with works(best)[1] as preferred:
                first.death()
                assert preferred.is_running
                assert best.finish(signal.SIGTERM) == 128 + signal.SIGTERM
            with works(spare)[1]:
                assert spare.finish(signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--priority 1001", "--priority"),
        ("--priority 1 --stable-for 0", "--stable-for"),
        ("--changing-from 0", "--changing-from"),
    ],
)
def test_argument_of_the_election_is_named_as_its_option(
    run: Run, somewhere: str, options: str, named: str
) -> None:
    code, _, err = run(f"run /app {options} -- true")
    assert code == 2
    assert named in err[0]


# --- on a terminal -------------------------------------------------------------------------------

READS = "echo asks; while read x; do echo got $x; done"


def test_keys_reach_the_child(somewhere: str) -> None:
    with OnTerminal("lock", "/mine", "--", "sh", "-c", READS, hosts=somewhere) as command:
        command.wait_for("asks")
        command.type("one\n")
        command.wait_for("got one")
        # A stopped child would keep the lock, and the shell would not know it. So it goes on.
        command.type("\x1a")
        command.type("two\n")
        command.wait_for("got two")
        command.type("\x03")
        assert command.finish() == 128 + signal.SIGINT


def test_ctrl_c_ends_a_run_forever(somewhere: str) -> None:
    child = ("sh", "-c", READS)
    with OnTerminal("run", "--forever", "/app", "--", *child, hosts=somewhere) as command:
        command.wait_for("asks")
        command.type("\x03")
        assert command.finish() == 128 + signal.SIGINT


def test_ctrl_c_ends_a_command_that_waits(somewhere: str) -> None:
    with OnTerminal("lock", "/mine", "--", "sh", "-c", READS, hosts=somewhere) as holder:
        holder.wait_for("asks")
        with OnTerminal("lock", "/mine", "--", "true", hosts=somewhere) as waiter:
            waiter.wait_for("waits for the lock")
            waiter.type("\x03")
            assert waiter.finish() == 128 + signal.SIGINT


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("child", "code", "complaint"),
    [
        ("there-is-no-such-thing", 127, "command not found"),
        ("{file}", 126, "not executable"),
        ("/tmp", 126, "is a directory"),
        ("true", 69, "no session with 127.0.0.1:1"),
    ],
)
def test_child_that_cannot_be_started_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, child: str, code: int, complaint: str
) -> None:
    monkeypatch.setenv("AIOLEAD_HOSTS", "127.0.0.1:1")
    (file := tmp_path / "file").touch()
    options = ("--connect-timeout", "0.5", "/app", "--")
    got, out, (error,) = run("run", *options, child.format(file=file))
    assert (got, out) == (code, [])
    assert error.startswith("aiolead: ")
    assert complaint in error


def test_queue_that_needs_credentials(run: Run, somewhere: str) -> None:
    login = ("--auth", "digest:me:pw")
    assert run("create /app -p", *login, "--acl", "auth::cdrwa")[0] == 0
    code, out, err = outcome("run", "-q", "/app", "--", "true", hosts=somewhere)
    assert (code, out, len(err)) == (77, [], 1)
    env = {"AIOLEAD_AUTH": "digest:me:pw"}
    with Command("run", "/app", "--", "true", hosts=somewhere, env=env) as command:
        assert command.finish() == 0
