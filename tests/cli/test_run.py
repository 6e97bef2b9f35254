"""`aiolead run`: who runs the command, when, and with which exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from kit.cli import WITHIN, Command, Process, environment, outcome
from kit.raw_client import RawClient

import aiolead
from aiolead.cli import main
from aiolead.errors import NoNodeError
from aiolead.model import CREATOR_ALL_ACL, Auth

WORKS = "echo works $AIOLEAD_TOKEN $$; exec sleep 100"
"""A command that says who it is, and goes on."""


def contender(name: str, hosts: str, *more: str, script: str = WORKS) -> Command:
    options = ["--id", name, "--session-timeout", "30", *more]
    return Command("run", *options, "/app", "--", "sh", "-c", script, hosts=hosts)


def works(command: Command) -> tuple[int, Process]:
    """Waits until the command's child works: its token, and the child."""
    match = command.out.expect(r"works (\d+) (\d+)")
    return int(match[1]), Process(int(match[2]))


def wait_for_line(hosts: str, length: int) -> None:
    """Waits until there are so many in the line."""
    deadline = time.monotonic() + WITHIN
    with RawClient(hosts) as client:
        while (found := _in_line(client)) != length:
            assert time.monotonic() < deadline, f"{found} in line"
            time.sleep(0.02)


def _in_line(client: RawClient) -> int:
    try:
        return len(client.children("/app"))
    except NoNodeError:
        return 0


def test_three_processes_take_turns(hosts: str) -> None:
    """A crash, an orderly end, and the last one of the line; on both event loops."""
    chosen = ("--backend", "trio")
    with contender("one", hosts) as one:
        first_token, first = works(one)
        with contender("two", hosts, *chosen) as two:
            wait_for_line(hosts, 2)
            with contender("three", hosts, *chosen) as three:
                wait_for_line(hosts, 3)
                with first:
                    assert first.is_running
                    one.signal(signal.SIGKILL)
                    first.death()
                second_token, second = works(two)
                with second:
                    two.signal(signal.SIGTERM)
                    second.death()
                assert two.finish() == 128 + signal.SIGTERM
                third_token, third = works(three)
                with third:
                    three.signal(signal.SIGINT)
                    third.death()
                assert three.finish() == 128 + signal.SIGINT
    assert first_token < second_token < third_token
    with RawClient(hosts) as client:
        assert _in_line(client) == 0


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)]
)
def test_the_exit_code_is_the_commands_own(somewhere: str, script: str, code: int) -> None:
    got, out, err = outcome("run", "/app", "--", "sh", "-c", f"echo out; {script}", hosts=somewhere)
    assert (got, out) == (code, ["out"]), err
    with RawClient(somewhere) as client:
        assert _in_line(client) == 0


def test_the_environment_tells_the_command_what_it_holds(somewhere: str) -> None:
    """Over what is inherited: a command in a command must not see the outer one's token."""
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
def test_the_command_finds_no_credentials_unless_asked(
    somewhere: str, how: tuple[str, ...], is_asked: bool
) -> None:
    script = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"  # and those of who looks after it
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


def test_a_run_in_a_run(somewhere: str) -> None:
    """Each tells its command what that one holds; exit codes come through."""
    inner = [sys.executable, "-m", "aiolead", "run", "-q", "/inner", "--", "sh", "-c"]
    script = "echo $AIOLEAD_PATH; exit 5"
    got, out, err = outcome("run", "-q", "/app", "--", *inner, script, hosts=somewhere)
    assert (got, out, err) == (5, ["/inner"], [])


def test_a_full_pipe(somewhere: str) -> None:
    """Nobody reads what we say; we do what we are there for all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)  # as it is for whoever shares it
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


def test_a_signal_before_our_turn_ends_us_and_starts_nothing(somewhere: str) -> None:
    with contender("one", somewhere) as one, works(one)[1]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with contender("two", somewhere) as two:
                wait_for_line(somewhere, 2)
                two.signal(number)
                assert two.finish() == 128 + number
                assert two.out.rest() == []
            # It has left the line itself: nobody has to wait for its session to time out.
            with RawClient(somewhere) as client:
                assert _in_line(client) == 1


def test_a_signal_ends_us_while_no_server_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Command("run", "/app", "--", "true", hosts=f"127.0.0.1:{port}") as command:
            silent.accept()[0].close()
            silent.accept()[0].close()
            command.signal(signal.SIGTERM)
            assert command.finish() == 128 + signal.SIGTERM


def test_signals_are_passed_on_to_the_command(somewhere: str) -> None:
    """And what becomes of it is the command's own affair."""
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


def test_what_the_command_leaves_behind_ends_with_it(somewhere: str) -> None:
    """Else it would go on without leadership."""
    script = """
        trap 'exit 3' TERM
        sleep 100 & echo works $AIOLEAD_TOKEN $!
        while :; do sleep 0.05; done
    """
    with contender("one", somewhere, script=script) as command, works(command)[1] as left:
        command.signal(signal.SIGTERM)
        left.death()
        assert command.finish() == 3


# --- for ever ----------------------------------------------------------------------------------


def test_forever_contends_again_after_the_command_has_ended(somewhere: str) -> None:
    with contender("one", somewhere, "--forever", script="echo token $AIOLEAD_TOKEN") as command:
        tokens = [int(command.out.expect(r"token (\d+)")[1]) for _ in range(2)]
        command.signal(signal.SIGTERM)
        command.finish()
    assert tokens[0] < tokens[1]


def test_forever_ends_with_the_command_after_a_signal(somewhere: str) -> None:
    with contender("one", somewhere, "--forever") as command, works(command)[1]:
        command.signal(signal.SIGTERM)
        assert command.finish() == 128 + signal.SIGTERM


# --- what cannot work --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "/app", "--", "there-is-no-such-thing"], 127, "command not found"),
        (["run", "/app", "--", "{file}"], 126, "not executable"),
        (["run", "/app", "--", "/tmp"], 126, "is a directory"),
        (["run", "/app"], 2, "no command was given"),
        (["run", "app", "--", "true"], 2, "path: must start with '/'"),
        (["run", "--grace", "3", "/app", "--", "true"], 2, "0 to 2.5 seconds"),
        (["run", "/app", "ls", "-l"], 2, "goes after --"),
        (["run", "/app", "--", "true"], 2, "AIOLEAD_HOSTS"),
        (["run", "--hosts", "a b", "/app", "--", "true"], 2, "hosts"),
        (["run", "--hosts", "a", "--auth", "secret", "/app", "--", "true"], 2, "--auth"),
        (["run", "--hosts", "a", "--session-timeout", "x", "/app", "--", "true"], 2, "timeout"),
        (["ruin"], 2, "ruin"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("AIOLEAD_HOSTS", raising=False)
    file = tmp_path / "file"
    file.touch()
    assert main([each.format(file=file) for each in arguments]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert says in err
    assert err.startswith("aiolead: ")
    assert "secret" not in err


def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hosts = f"127.0.0.1:{listener.getsockname()[1]}"
    code, out, err = outcome("run", "--connect-timeout", "0.5", "/app", "--", "true", hosts=hosts)
    assert (code, out, len(err)) == (69, [], 1)


async def _protect(hosts: str) -> None:
    me = Auth.digest("me", "pw")
    async with aiolead.connect(hosts, auth=[me]) as client:
        await client.ensure_path("/")
        await client.create("/app", acl=CREATOR_ALL_ACL)


def test_credentials(somewhere: str) -> None:
    """A line that only somebody else may join."""
    anyio.run(_protect, somewhere)
    code, out, err = outcome("run", "-q", "/app", "--", "true", hosts=somewhere)
    assert (code, out, len(err)) == (77, [], 1)
    with Command(
        *("run", "/app", "--", "true"), hosts=somewhere, env={"AIOLEAD_AUTH": "digest:me:pw"}
    ) as command:
        assert command.finish() == 0
