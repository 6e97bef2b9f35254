"""Web servers that reload: each old worker closes its session before its successor leads."""

from __future__ import annotations

import shutil
from pathlib import Path
from signal import SIGHUP

import pytest
from hosts.hosts import PROGRAMS, HostedElection
from hosts.web_hosts import WEB_HOSTS

_RELOADS = [
    "uvicorn-workers",
    "gunicorn",
    "gunicorn-aiohttp",
    "hypercorn",
    "hypercorn-quart-trio",
    "granian",
]


@pytest.mark.parametrize("name", _RELOADS)
def test_reload_on_sighup(election: HostedElection, name: str) -> None:
    host = WEB_HOSTS[name]
    with election.start(*host.arguments()) as program:
        election.leader(program)
        old = election.wait_until_ready(program, host.ready, host.workers)
        program.send(SIGHUP)
        election.wait_until_replaced(program, old)


@pytest.mark.parametrize(
    "command",
    [
        # It notices only what changes after its first look, which has to come before the change.
        ["uvicorn", "--port", "0", "--reload", "--reload-delay", "0.01", "starlette_app:app"],
        ["hypercorn", "--bind", "127.0.0.1:0", "--reload", "starlette_app:app"],
    ],
    ids=["uvicorn", "hypercorn"],
)
def test_reload_on_a_change(election: HostedElection, tmp_path: Path, command: list[str]) -> None:
    for name in ("starlette_app.py", "work.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    with election.start("-m", *command, cwd=tmp_path) as program:
        election.leader(program)
        old = election.wait_for_contenders(1)
        with (tmp_path / "starlette_app.py").open("a") as file:
            file.write("# changed\n")
        election.wait_until_replaced(program, old)
