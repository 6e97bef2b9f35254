"""uvicorn: one worker, several workers, and `--reload`."""

from __future__ import annotations

import signal

import pytest
from support.hosts import HostedElection

UVICORN = ("-m", "uvicorn", "--port", "0", "fastapi_app:app")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)]
)
def test_one_worker_stops(election: HostedElection, number: signal.Signals, status: int) -> None:
    with election.start(*UVICORN) as program:
        election.leader(program)
        election.stop(program, number, status=status)
