"""`aiolead lock`."""

from __future__ import annotations

import signal

import pytest
from kit.cli import Command, Run, objects, outcome

from aiolead.cli import main


def hold(hosts: str) -> Command:
    return Command("lock", "/mine", "--", "sh", "-c", "echo has; exec sleep 100", hosts=hosts)


@pytest.mark.exhaustive("an edge of the command")
def test_somebody_else_has_it(run: Run, somewhere: str) -> None:
    with hold(somewhere) as holder:
        holder.out.expect("has")
        for options, code in [
            (["-n"], 75),
            (["--nonblock", "-E", "9"], 9),
            (["--wait=0.2", "--conflict-exit-code=1"], 1),
        ]:
            where = ["--hosts", somewhere, "-q", "/mine"]
            got, out, err = run("lock", *options, *where, "--", "echo", "x")
            assert (got, out) == (code, [])
            assert err == ["aiolead: did not get the lock /mine: somebody else has it"]
        holder.signal(signal.SIGTERM)
        assert holder.finish() == 128 + signal.SIGTERM
    # It is free as soon as the holder has gone.
    got, out, _ = outcome(
        *("lock", "-n", "/mine", "--", "sh", "-c", "echo x; exit 4"), hosts=somewhere
    )
    assert (got, out) == (4, ["x"])


def test_waiting_pays(somewhere: str) -> None:
    with hold(somewhere) as holder:
        holder.out.expect("has")
        with Command("lock", "-w", "60", "/mine", "--", "echo", "mine", hosts=somewhere) as waiter:
            waiter.err.expect("waits for the lock /mine")
            holder.signal(signal.SIGTERM)
            waiter.out.expect("mine")
            assert waiter.finish() == 0


def test_not_to_wait_and_to_wait(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "-n", "-w", "1", "/mine", "--", "true"]) == 2
    assert capfd.readouterr().err == "aiolead: --nonblock, --wait: one or the other\n"


@pytest.mark.exhaustive("an edge of the command", only="standalone")
def test_shared_and_exclusive(run: Run, hosts: str) -> None:
    held = ("--", "sh", "-c", "echo has; exec sleep 100")
    with Command("lock", "-s", "/mine", *held, hosts=hosts) as reader:
        reader.out.expect("has")
        # Another reader comes in, a writer does not.
        options = ["--hosts", hosts, "-q", "/mine", "--", "echo", "x"]
        assert run("lock", "-ns", *options) == (0, ["x"], [])
        code, out, err = run("lock", "-nx", *options)
        assert (code, out) == (75, [])
        assert err == ["aiolead: did not get the lock /mine: somebody else has it"]
        reader.signal(signal.SIGTERM)
        assert reader.finish() == 128 + signal.SIGTERM
    options = ["--hosts", hosts, "-q", "/mine", "--", "echo $((1 + 1))"]
    assert run("lock", "-n", "-e", "-c", *options) == (0, ["2"], [])


@pytest.mark.exhaustive("an edge of the command")
def test_slots(run: Run, somewhere: str) -> None:
    held = ("--", "sh", "-c", "echo $AIOLEAD_NODE; exec sleep 100")
    with (
        Command("lock", "--slots", "2", "/some", *held, hosts=somewhere) as one,
        Command("lock", "--slots", "2", "/some", *held, hosts=somewhere) as two,
    ):
        one.out.expect("^/some/leases/")
        two.out.expect("^/some/leases/")
        options = ["--hosts", somewhere, "--slots=2", "--json", "/some", "--", "echo", "x"]
        code, out, err = run("lock", "-n", *options)
        assert (code, out) == (75, [])
        waiting, conflict = objects(err)
        assert (waiting["event"], waiting["path"]) == ("waiting", "/some")
        assert (conflict["event"], conflict["level"]) == ("not acquired", "error")
        two.signal(signal.SIGTERM)
        assert two.finish() == 128 + signal.SIGTERM
        code, out, err = run("lock", "-n", *options)
        assert (code, out) == (0, ["x"])
        assert [said["event"] for said in objects(err)] == ["waiting", "held", "released"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-s", "-x"], "--shared, --exclusive, --slots: one of them"),
        (["-x", "--slots", "2"], "--shared, --exclusive, --slots: one of them"),
        (["--slots", "0"], "--slots: must be 1 or more, not 0"),
        (["--shell", "--", "echo", "x"], "--shell: give the command as one argument, in quotes"),
    ],
)
def test_what_does_not_go_together(run: Run, options: list[str], why: str) -> None:
    command = [] if "--" in options else ["--", "true"]
    assert run("lock", "/mine", *options, *command) == (2, [], [f"aiolead: {why}"])
