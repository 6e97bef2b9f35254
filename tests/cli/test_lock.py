"""`aiolead lock`."""

from __future__ import annotations

import signal

import pytest
from support.cli import Command, outcome

from aiolead.cli import main


def hold(hosts: str) -> Command:
    return Command("lock", "/mine", "--", "sh", "-c", "echo has; exec sleep 100", hosts=hosts)


def test_somebody_else_has_it(somewhere: str) -> None:
    with hold(somewhere) as holder:
        holder.out.expect("has")
        for options, code in [
            (["-n"], 75),
            (["--nonblock", "-E", "9"], 9),
            (["--wait=0.2", "--conflict-exit-code=1"], 1),
        ]:
            got, out, err = outcome(
                *("lock", "-q", *options, "/mine", "--", "echo", "x"), hosts=somewhere
            )
            assert (got, out) == (code, [])
            assert err == ["aiolead: did not get the lock /mine: somebody else has it"]
        holder.signal(signal.SIGTERM)
        assert holder.finish() == 128 + signal.SIGTERM
    # It is free as soon as the holder has gone.
    got, out, _ = outcome(
        *("lock", "-n", "/mine", "--", "sh", "-c", "echo x; exit 4"), hosts=somewhere
    )
    assert (got, out) == (4, ["x"])


def test_waiting_pays(hosts: str) -> None:
    with hold(hosts) as holder:
        holder.out.expect("has")
        with Command("lock", "-w", "60", "/mine", "--", "echo", "mine", hosts=hosts) as waiter:
            waiter.err.expect("waits for the lock /mine")
            holder.signal(signal.SIGTERM)
            waiter.out.expect("mine")
            assert waiter.finish() == 0


def test_not_to_wait_and_to_wait(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "-n", "-w", "1", "/mine", "--", "true"]) == 2
    assert capfd.readouterr().err == "aiolead: --nonblock, --wait: one or the other\n"
