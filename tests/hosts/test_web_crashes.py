"""Web servers whose leading worker is killed: the next contender leads when the session has ended,
by its timeout or by a guardian.
"""

from __future__ import annotations

from signal import SIGINT, SIGTERM

import pytest
from hosts.hosts import HostedElection
from hosts.web_hosts import WEB_HOSTS

_GOES_ON = ["uvicorn-workers", "gunicorn", "gunicorn-aiohttp", "sanic-workers"]
_ENDS = [
    "uvicorn-fastapi",
    "hypercorn",
    "hypercorn-quart-trio",
    "granian",
    "aiohttp-hooks",
    "sanic",
]


@pytest.mark.parametrize("name", _GOES_ON)
def test_another_worker_leads_after_the_session_timeout(
    election: HostedElection, name: str
) -> None:
    host = WEB_HOSTS[name]
    with election.start(*host.arguments()) as program:
        leader = election.leader(program)
        election.wait_until_ready(program, host.ready, host.workers)
        election.crash(leader)
        assert election.leader(program).pid != leader.pid
        if name != "sanic-workers":  # which does not replace a worker that was killed
            election.wait_for_contenders(host.workers)


@pytest.mark.parametrize("name", _ENDS)
def test_another_host_leads_after_the_session_timeout(election: HostedElection, name: str) -> None:
    """These servers are one process, or stop all workers if one of them was killed."""
    host = WEB_HOSTS[name]
    with election.start(*host.arguments()) as program:
        leader = election.leader(program)
        election.wait_until_ready(program, host.ready, host.workers)
        with election.next_contender() as contender:
            election.crash(leader)
            contender.wait_until_it_leads()


def test_granian_respawns_a_worker_if_asked_to(election: HostedElection) -> None:
    host = WEB_HOSTS["granian"]
    with election.start(*host.arguments(), "--respawn-failed-workers") as program:
        leader = election.leader(program)
        election.wait_until_ready(program, host.ready, host.workers)
        election.crash(leader)
        assert election.leader(program).pid != leader.pid
        election.wait_for_contenders(host.workers)


@pytest.mark.parametrize("name", ["uvicorn-workers", "gunicorn", "hypercorn-workers", "granian"])
def test_guardian_closes_the_session_of_a_killed_worker(
    election: HostedElection, name: str
) -> None:
    host = WEB_HOSTS[name]
    *arguments, _ = host.arguments()
    with election.start(*arguments, "guarded_app:app") as program:
        leader = election.leader(program)
        election.wait_until_ready(program, host.ready, host.workers)
        with election.next_contender() as contender:
            election.crash_guarded(leader)
            if name in ("uvicorn-workers", "gunicorn"):
                assert election.leader(program).pid != leader.pid
                assert not contender.leads
            else:
                contender.wait_until_it_leads()


def test_django_command_is_killed(election: HostedElection) -> None:
    with election.start("django_site/manage.py", "schedule") as program:
        leader = election.leader(program)
        with election.next_contender() as contender:
            election.crash(leader)
            contender.wait_until_it_leads()


def test_sigint_to_the_master_of_gunicorn_is_a_crash(election: HostedElection) -> None:
    """gunicorn sends SIGQUIT to its workers. uvicorn's worker ignores it until it is killed."""
    host = WEB_HOSTS["gunicorn"]
    with election.start(*host.arguments(), "--graceful-timeout", "1") as program:
        leader = election.leader(program)
        election.wait_for_contenders(host.workers)
        program.send(SIGINT)
        program.finish()
        assert leader.session in election.server.sessions()
    assert f"{leader.pid} has stopped" not in program.lines


def test_sigterm_to_all_processes_of_hypercorn_is_a_crash(election: HostedElection) -> None:
    """A worker of hypercorn has no handler for SIGTERM, which systemd sends to all processes by
    default. `KillMode=mixed`, or a guardian, closes the session.
    """
    host = WEB_HOSTS["hypercorn"]
    with election.start(*host.arguments()) as program:
        leader = election.leader(program)
        program.send(SIGTERM, whole_group=True)
        program.finish()
        assert leader.session in election.server.sessions()
    assert f"{leader.pid} has stopped" not in program.lines
