"""`aiolead once`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.cli import Command, Outcome, Run, objects, prints
from kit.raw_client import RawClient

JOB = "/jobs/nightly"
KEY = "2026-11-21"
DONE = f"aiolead: the key {KEY} of {JOB} is done already"


def once(run: Run, hosts: str, *options: str, key: str = KEY, child: str = "echo x") -> Outcome:
    return run("once", *options, "--hosts", hosts, JOB, key, "--", "sh", "-c", child)


def test_command_runs_once_per_key(run: Run, somewhere: str) -> None:
    assert once(run, somewhere) == prints("x")
    assert once(run, somewhere) == (0, [], [DONE])
    assert once(run, somewhere, "-q") == (0, [], [])
    assert once(run, somewhere, "-n", key="2026-11-22") == prints("x")
    code, out, err = once(run, somewhere, "--json")
    (said,) = objects(err)
    assert (code, out, said["event"], said["path"]) == (0, [], "done already", JOB)
    with RawClient(somewhere) as client:
        assert sorted(client.children(JOB)) == [KEY, "2026-11-22"]


def test_failed_command_leaves_the_key_undone(run: Run, somewhere: str) -> None:
    assert once(run, somewhere, child="exit 3") == (3, [], [])
    with RawClient(somewhere) as client:
        assert client.children(JOB) == []
    assert once(run, somewhere) == prints("x")


def test_command_that_a_signal_ends_leaves_the_key_undone(run: Run, somewhere: str) -> None:
    with hold(somewhere) as first:
        first.out.expect("runs")
        assert first.finish(signal.SIGTERM) == 128 + signal.SIGTERM
    assert once(run, somewhere) == prints("x")


def hold(hosts: str, child: str = "echo runs; exec sleep 100") -> Command:
    return Command("once", "--id", "me", JOB, KEY, "--", "sh", "-c", child, hosts=hosts)


@contextmanager
def waiting(hosts: str) -> Iterator[Command]:
    """Another command, which waits."""
    with Command("once", "--json", JOB, KEY, "--", "echo", "x", hosts=hosts) as waiter:
        waiter.err.expect('"waiting"')
        yield waiter


def test_key_that_another_machine_runs_is_waited_for(
    run: Run, somewhere: str, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    with hold(somewhere, f"echo runs; until [ -e {end} ]; do sleep 0.1; done") as first:
        first.out.expect("runs")
        for options, code in [(["-n"], 75), (["-n", "-E", "9"], 9), (["--wait", "0.1"], 75)]:
            got, out, err = once(run, somewhere, *options)
            assert (got, out) == (code, [])
            (line,) = err
            assert line == f"aiolead: did not get the key {KEY} of {JOB}: run by me"
            assert once(run, somewhere, "-q", *options) == (code, [], [])
        with waiting(somewhere) as waiter:
            end.touch()
            assert first.finish() == 0
            assert waiter.finish() == 0
            assert waiter.out.rest() == []
            assert objects(waiter.err.rest())[-1]["event"] == "done already"


def test_waiting_machine_runs_the_key_of_a_failed_one(somewhere: str) -> None:
    with hold(somewhere) as first:
        first.out.expect("runs")
        with waiting(somewhere) as waiter:
            assert first.finish(signal.SIGTERM) == 128 + signal.SIGTERM
            waiter.out.expect("x")
            assert waiter.finish() == 0


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("once /x '' -- true", "KEY: must have 1 to 256 bytes of UTF-8, not 0"),
        (f"once /x {'k' * 257} -- true", "KEY: must have 1 to 256 bytes of UTF-8, not 257"),
        ("once /x k --keep 0 -- true", "--keep: must be 1 to 20000, not 0"),
        ("once /x k --ttl 0 -- true", "--ttl: must be 1 seconds or more, not 0"),
        ("once /x k -n -w 1 -- true", "--nonblock, --wait: one or the other"),
        ("once /x k", "no command was given; it goes last, after --"),
    ],
)
def test_misuse_is_refused(run: Run, typed: str, why: str) -> None:
    code, out, err = run(typed)
    assert (code, out) == (2, [])
    assert err[0].removeprefix("aiolead: ") == why
