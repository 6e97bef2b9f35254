"""Web servers on SIGTERM and SIGINT: every worker closes its session, so the next contender leads
within one round trip.
"""

from __future__ import annotations

from signal import SIGINT, SIGTERM, Signals

import pytest
from hosts.hosts import HostedElection
from hosts.web_hosts import WEB_HOSTS, To, WebHost

_STOPS = [
    pytest.param(host, number, to, id=f"{name}-{number.name}-{to}")
    for name, host in WEB_HOSTS.items()
    for number, to in host.stops
]


@pytest.mark.parametrize(("host", "number", "to"), _STOPS)
def test_stop_closes_every_session(
    election: HostedElection, host: WebHost, number: Signals, to: To
) -> None:
    with election.start(*host.arguments()) as program:
        election.leader(program)
        election.wait_until_ready(program, host.ready, host.workers)
        election.stop(
            program, number, whole_group=to == "group", status=host.statuses.get(number, 0)
        )
        if "aiohttp" in " ".join(host.command):
            # Nothing that the client raised kept the next hook from running.
            assert sum("ran its next hook" in line for line in program.lines) == host.workers


@pytest.mark.parametrize(
    ("number", "status", "expected"),
    [(SIGTERM, 128 + SIGTERM, ""), (SIGINT, -SIGINT, "Traceback")],
)
def test_django_command_closes_its_session(
    election: HostedElection, number: Signals, status: int, expected: str
) -> None:
    """Django shows the KeyboardInterrupt of a command as Python does."""
    with election.start("django_site/manage.py", "schedule") as program:
        leader = election.leader(program)
        election.stop(program, number, status=status, expected=expected)
        assert f"{leader.pid} has stopped" in program.lines
