"""Test suites: a fixture that opens a client and closes it, in a run that passes, is interrupted or
is killed."""

from __future__ import annotations

import signal

import pytest
from hosts.hosts import PROGRAMS, HostedElection
from kit.pages import Program

PYTEST = ("-m", "pytest", "-p", "no:aiolead")
AUTO = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")

SUITES: dict[str, tuple[str, ...]] = {
    "anyio on asyncio": (*PYTEST, "-p", "no:asyncio", "-p", "no:trio", "anyio_suite.py"),
    "anyio on trio": (*PYTEST, "-p", "no:asyncio", "-p", "no:trio", "anyio_suite.py"),
    "pytest-asyncio": (*PYTEST, "-p", "no:trio", *AUTO, "pytest_asyncio_suite.py"),
    "pytest-trio": (*PYTEST, "-p", "no:asyncio", "-o", "trio_mode=true", "pytest_trio_suite.py"),
    "unittest": ("unittest_suite.py",),
}


def start(election: HostedElection, name: str, **env: str) -> Program:
    env["BACKEND"] = name.rpartition(" ")[2]
    return election.start(*SUITES[name], cwd=PROGRAMS / "suites", env=env)


@pytest.mark.parametrize("name", SUITES)
def test_suite_passes_and_leaves_no_session(election: HostedElection, name: str) -> None:
    with start(election, name) as program:
        assert program.finish() == 0, "\n".join(program.lines)
    assert election.server.sessions() == {}
    assert election.closed == 2
    election.check_output(program)


@pytest.mark.parametrize("name", SUITES)
def test_ctrl_c_closes_the_session(election: HostedElection, name: str) -> None:
    with start(election, name, STOPPED_BY="signal") as program:
        leader = election.leader(program)
        with election.next_contender() as contender:
            program.send(signal.SIGINT)
            contender.wait_until_it_leads()
            program.finish()
            assert leader.session not in election.server.sessions()
    assert f"{leader.pid} has stopped" in program.lines


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_other_signals_cost_the_session_timeout(
    election: HostedElection, name: str, number: signal.Signals
) -> None:
    """pytest and unittest have no handler for SIGTERM."""
    with start(election, name, STOPPED_BY="signal") as program:
        leader = election.leader(program)
        with election.next_contender() as contender:
            program.send(number)
            assert program.finish() == -number
            election.let_expire(leader)
            contender.wait_until_it_leads()
