"""What somebody types in the first hour, and what the command says then."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kit.cli import Command, Run, kazoo_client

from aiolead._escaping import in_seconds
from aiolead.cli.demo import next_steps, own_name
from aiolead.cli.exits import in_plain_words
from aiolead.cli.options import listening_address
from aiolead.errors import ConfigurationError

pytestmark = pytest.mark.exhaustive("an edge of the command")


def test_delete_and_deleteall_are_what_other_tools_call_it(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        for path in ("/a", "/a/b", "/c"):
            client.create(path)
        code, _, err = run("delete", "/a", hosts=somewhere)
        assert (code, "--recursive deletes them, too" in err[0]) == (1, True)
        assert run("delete", "/c", hosts=somewhere) == (0, [], ["aiolead: deleted 1 znode"])
        assert run("deleteall", "/a", hosts=somewhere) == (0, [], ["aiolead: deleted 2 znodes"])
        assert run("deleteall", "/a", hosts=somewhere)[0] == 1
        assert run("deleteall", "-f", "/a", hosts=somewhere)[0] == 0


def test_an_ephemeral_znode_is_said_to_be_held_by_the_command(somewhere: str) -> None:
    with Command("create", "-ep", "/e", hosts=somewhere) as holder:
        holder.out.expect("^/e$")
        holder.err.expect("^aiolead: /e exists until Ctrl-C: this command holds it$")
        holder.signal(signal.SIGINT)
        assert holder.finish() == 0


@pytest.mark.parametrize(
    ("listen", "port", "address"),
    [
        ("127.0.0.1:2181", None, ("127.0.0.1", 2181)),
        ("[::1]:2181", None, ("::1", 2181)),
        ("127.0.0.1:2181", 0, ("127.0.0.1", 0)),
    ],
)
def test_listen_and_port(listen: str, port: int | None, address: tuple[str, int]) -> None:
    assert listening_address(listen, port) == address


@pytest.mark.parametrize("listen", ["2181", "127.0.0.1", "127.0.0.1:65536", ":1", "a:b"])
def test_what_is_no_address_to_listen_on(listen: str) -> None:
    with pytest.raises(ConfigurationError, match="--listen: must be ADDRESS:PORT"):
        listening_address(listen, None)


@pytest.mark.parametrize("command", ["server", "dashboard"])
def test_both_options_are_those_of_every_command_that_listens(run: Run, command: str) -> None:
    _, out, _ = run(command, "--help")
    shown = " ".join(out)
    assert "--listen" in shown
    assert "--port" in shown
    code, _, err = run(command, "--port", "65536", hosts="127.0.0.1:1")
    assert (code, "--port" in err[0]) == (2, True)


def test_seconds_are_counted_in_english() -> None:
    assert [in_seconds(each) for each in (1, 1.0, 0.5, 2)] == [
        "1 second",
        "1 second",
        "0.5 seconds",
        "2 seconds",
    ]


@pytest.mark.parametrize(
    "command", [("ls",), ("get", "/a"), ("lock", "/l", "--", "true"), ("top",)]
)
def test_after_a_second_without_a_server_it_says_whom_it_tries(command: tuple[str, ...]) -> None:
    name, *rest = command
    arguments = [name, "--connect-timeout", "8.5", *rest]
    with Command(*arguments, hosts="127.0.0.1:1") as process:
        said = process.err.expect("").string
        assert said.startswith("aiolead: no server reached yet, trying 127.0.0.1:1 for 8.5 s (")
        assert "127.0.0.1:1: " in said
        assert "refused" in said
        assert process.finish() == 69
        why = "(127.0.0.1:1: Connection refused)"
        assert (
            process.err.rest()[-1]
            == f"aiolead: no session with 127.0.0.1:1 within 8.5 seconds {why}"
        )


@pytest.mark.parametrize(
    ("why", "plain"),
    [
        ("[Errno 111] Connect call failed ('127.0.0.1', 2181)", "Connection refused"),
        ("[Errno 111] Connection refused", "Connection refused"),
        ("[Errno -2] Name or service not known", "Name or service not known"),
        (
            "[Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 113] Connect call failed ()",
            "Connection refused, No route to host",
        ),
        ("TimeoutError", "TimeoutError"),
    ],
)
def test_errors_of_the_system_are_in_plain_words(why: str, plain: str) -> None:
    assert in_plain_words(why) == plain


def test_a_server_that_does_not_answer_is_named_as_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        with Command("ls", "--connect-timeout", "8", hosts=hosts) as process:
            said = process.err.expect("").string
            assert said == f"aiolead: no server reached yet, trying {hosts} for 8 s (no answer yet)"
            assert process.finish() == 69


def test_the_demo_has_a_server_of_its_own_whatever_the_environment_says() -> None:
    """A new user has exported AIOLEAD_HOSTS, and then tries the demo."""
    env = {"AIOLEAD_HOSTS": "127.0.0.1:1", "AIOLEAD_AUTH": "digest:a:b"}
    with Command("demo", "--session-timeout", "2", env=env) as demo:
        demo.out.expect("on its own ZooKeeper server")
        demo.signal(signal.SIGINT)
        assert demo.finish() == 130


def test_the_next_steps_are_commands_that_work_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    own = bin_ / "aiolead"
    own.write_text("#!/bin/sh\necho it works\n")
    own.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert own_name() == os.path.join(".venv", "bin", "aiolead")  # noqa: PTH118 - as it is typed
    typed = next_steps(own_name())[2][0].split()[0]
    assert subprocess.run([typed], capture_output=True, check=True).stdout == b"it works\n"
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    assert own_name() == "aiolead"
    own.unlink()
    assert own_name() == f"{bin_ / 'python'} -m aiolead"
