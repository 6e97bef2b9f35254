"""`aiolead bench`."""

from __future__ import annotations

import signal

import pytest
from kit.cli import Command, OnTerminal, Run, objects, prints, shown

from aiolead.cli.bench import Measured

pytestmark = pytest.mark.exhaustive("an edge of the command")

NAMES = ["read", "write", "reads", "writes", "lock", "hand-over"]


def test_each_operation_is_measured(run: Run, hosts: str) -> None:
    run("create /here -p")
    out = shown(run, "bench /here --seconds 0.2 --json")
    *measured, summary = objects(out)
    assert [each["name"] for each in measured] == NAMES
    for each in measured:
        assert each["count"] > (100 if each["name"] in ("reads", "writes") else 2)
        assert each["per_second"] > 0
        assert 0 < each["median"] <= each["p99"] <= each["slowest"]
    assert summary["summary"]["text"].startswith("renewing a lease may take 2.5 s with a session")
    assert run("ls /here") == prints()


def test_text_output_has_a_table(run: Run, somewhere: str) -> None:
    run("create / -p")
    out = shown(run, "bench --seconds 0.01 --in-flight 3")
    assert [line.split()[0] for line in out[1:-2]] == NAMES
    assert "get, 3 in flight" in out[3]
    assert "set of 100 bytes" in out[2]


@pytest.mark.parametrize(("quiet", "says"), [((), True), (("-q",), False)])
def test_terminal_shows_what_is_measured(
    run: Run, somewhere: str, quiet: tuple[str, ...], *, says: bool
) -> None:
    run("create / -p")
    with OnTerminal("bench", "--seconds", "0.01", *quiet, hosts=somewhere) as terminal:
        assert terminal.finish() == 0
    said = [line for line in terminal.shown.splitlines() if "measures" in line]
    assert len(said) == (len(NAMES) if says else 0)
    if says:
        assert said[1] == "aiolead: measures write: set of 100 bytes"


def test_signal_removes_its_znodes(run: Run, somewhere: str) -> None:
    run("create /here -p")
    with Command("bench", "/here", "--json", "--seconds", "60", hosts=somewhere) as command:
        while not run("ls /here")[1]:
            pass
        assert command.finish(signal.SIGTERM) == 128 + signal.SIGTERM
    assert run("ls /here") == prints()


def test_missing_permission_is_reported(run: Run, somewhere: str) -> None:
    run("create", "/here", "-p", "--acl", "world:anyone:r")
    code, out, err = run("bench /here")
    assert (code, out) == (77, [])
    assert err[0].startswith("aiolead: not allowed by the znode's ACL: /here/aiolead-bench-")


def test_quantiles_of_measurements() -> None:
    measured = Measured("x", "y", [float(n) for n in range(1, 101)], 50.0)
    assert [measured.quantile(part) for part in (0.0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert measured.rate == 2
    assert Measured("x", "y", [3.0], 1.0).quantile(0.5) == 3
