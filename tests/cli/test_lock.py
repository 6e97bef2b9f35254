"""`aiolead lock`."""

from __future__ import annotations

import re
import signal

import pytest
from kit.checks import until
from kit.cli import Command, OnTerminal, Run, objects, outcome, prints
from kit.raw_client import RawClient


def hold(hosts: str) -> Command:
    held = ("/mine", "--", "sh", "-c", "echo has; exec sleep 100")
    return Command("lock", "--id", "me", *held, hosts=hosts)


@pytest.mark.exhaustive("an edge of the command")
def test_lock_of_another_client_is_a_conflict(run: Run, somewhere: str) -> None:
    with hold(somewhere) as holder:
        holder.out.expect("has")
        for options, code in [
            (["-n"], 75),
            (["--nonblock", "-E", "9"], 9),
            (["--wait=0.2", "--conflict-exit-code=1"], 1),
        ]:
            where = ["--hosts", somewhere, "/mine", "--", "echo", "x"]
            assert run("lock -q", *options, *where) == (code, [], [])
            got, out, err = run("lock", *options, *where)
            assert (got, out, len(err)) == (code, [], 1)
            found = r"aiolead: did not get the lock /mine: held by me \(there for \d+ s\)"
            assert re.fullmatch(found, err[0])
        assert holder.finish(signal.SIGTERM) == 128 + signal.SIGTERM
    # It is free as soon as the holder has ended.
    child = ("sh", "-c", "echo x; exit 4")
    got, out, _ = outcome("lock", "-n", "/mine", "--", *child, hosts=somewhere)
    assert (got, out) == (4, ["x"])


def test_waiting_acquires_a_released_lock(somewhere: str) -> None:
    with hold(somewhere) as holder:
        holder.out.expect("has")
        with (
            Command("lock", "-w", "60", "/mine", "--", "echo", "mine", hosts=somewhere) as waiter,
            OnTerminal("lock", "/mine", "--", "true", hosts=somewhere) as person,
            RawClient(somewhere) as client,
        ):
            until(lambda: len(client.children("/mine")) == 3, "both wait")
            person.wait_for("waits for the lock /mine: held by me (there for")
            person.wait_for(" waiting")
            holder.signal(signal.SIGTERM)
            waiter.out.expect("mine")
            assert waiter.finish() == 0
            assert waiter.err.rest() == []
            assert person.finish() == 0
        assert holder.finish() == 128 + signal.SIGTERM
        assert holder.err.rest() == []


@pytest.mark.exhaustive("an edge of the command", only="standalone")
def test_shared_lock_excludes_an_exclusive_one(run: Run, hosts: str) -> None:
    held = ("--", "sh", "-c", "echo has; exec sleep 100")
    with Command("lock", "-s", "/mine", *held, hosts=hosts) as reader:
        reader.out.expect("has")
        # A reader acquires it, a writer does not.
        options = ["--hosts", hosts, "-q", "/mine", "--", "echo", "x"]
        assert run("lock -ns", *options) == prints("x")
        assert run("lock -nx", *options) == (75, [], [])
        assert reader.finish(signal.SIGTERM) == 128 + signal.SIGTERM
    options = ["--hosts", hosts, "-q", "/mine", "--", "echo $((1 + 1))"]
    assert run("lock -n -e -c", *options) == prints("2")


@pytest.mark.exhaustive("an edge of the command")
def test_slots_are_a_semaphore(run: Run, somewhere: str) -> None:
    held = ("--", "sh", "-c", "echo $AIOLEAD_NODE; exec sleep 100")
    with (
        Command("lock", "--slots", "2", "/some", *held, hosts=somewhere) as one,
        Command("lock", "--slots", "2", "/some", *held, hosts=somewhere) as two,
    ):
        one.out.expect("^/some/leases/")
        two.out.expect("^/some/leases/")
        options = ["--hosts", somewhere, "--slots=2", "--json", "/some", "--", "echo", "x"]
        code, out, err = run("lock -n", *options)
        assert (code, out) == (75, [])
        (conflict,) = objects(err)
        assert "held by" in conflict["message"]
        assert (conflict["event"], conflict["level"]) == ("not acquired", "error")
        assert two.finish(signal.SIGTERM) == 128 + signal.SIGTERM
        code, out, err = run("lock -n", *options)
        assert (code, out) == (0, ["x"])
        assert [said["event"] for said in objects(err)] == ["held", "released"]
