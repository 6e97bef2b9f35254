"""Web servers on signals, on reloads, and when their leading worker is killed.

On SIGTERM, on SIGINT and on a reload every worker closes its session, so the next contender leads
within one round trip. After a crash the next contender leads when the session has ended, by its
timeout or by a guardian.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest
from hosts.hosts import PROGRAMS, HostedElection, Leader
from hosts.web_hosts import WEB_HOSTS, To, WebHost
from kit.pages import Program


@contextmanager
def leading(
    election: HostedElection, host: WebHost, *more: str, app: str = ""
) -> Iterator[tuple[Program, Leader, set[int]]]:
    """A host all of whose workers contend; the process that leads, and the workers' sessions."""
    arguments = [*host.arguments(), *more]
    if app:
        arguments[-1] = app
    with election.start(*arguments) as program:
        leader = election.leader(program)
        yield program, leader, election.wait_until_ready(program, host.ready, host.workers)


@contextmanager
def django(election: HostedElection) -> Iterator[tuple[Program, Leader]]:
    with election.start("django_site/manage.py", "schedule") as program:
        yield program, election.leader(program)


# --- stops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "number", "to"),
    [
        pytest.param(host, number, to, id=f"{name}-{number.name}-{to}")
        for name, host in WEB_HOSTS.items()
        for number, to in host.stops
    ],
)
def test_stop_closes_every_session(
    election: HostedElection, host: WebHost, number: Signals, to: To
) -> None:
    with leading(election, host) as (program, _, _):
        status = host.statuses.get(number, 0)
        to_all = to == "group"
        or_else = host.or_else if to_all else 0
        election.stop(program, number, whole_group=to_all, status=status, or_else=or_else)
        if "aiohttp" in " ".join(host.command):
            # The client raised nothing that would keep the next hook from running.
            assert sum("ran its next hook" in line for line in program.lines) == host.workers


@pytest.mark.parametrize(
    ("number", "status", "expected"),
    [(SIGTERM, 128 + SIGTERM, ""), (SIGINT, -SIGINT, "Traceback")],
)
def test_django_command_closes_its_session(
    election: HostedElection, number: Signals, status: int, expected: str
) -> None:
    """Django shows the KeyboardInterrupt of a command as Python does."""
    with django(election) as (program, leader):
        election.stop(program, number, status=status, expected=expected)
        assert f"{leader.pid} has stopped" in program.lines


# --- reloads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("uvicorn-workers", "gunicorn", "gunicorn-aiohttp"),
        *("hypercorn", "hypercorn-quart-trio", "granian"),
    ],
)
def test_reload_on_sighup_closes_the_old_sessions(election: HostedElection, name: str) -> None:
    with leading(election, WEB_HOSTS[name]) as (program, _, old):
        program.send(SIGHUP)
        election.wait_until_replaced(program, old)


@pytest.mark.parametrize(
    "command",
    [
        # It notices only changes after its first look.
        ["uvicorn", "--port", "0", "--reload", "--reload-delay", "0.01", "starlette_app:app"],
        ["hypercorn", "--bind", "127.0.0.1:0", "--reload", "starlette_app:app"],
    ],
    ids=["uvicorn", "hypercorn"],
)
def test_reload_on_a_change_closes_the_old_session(
    election: HostedElection, tmp_path: Path, command: list[str]
) -> None:
    for name in ("starlette_app.py", "work.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    with election.start("-m", *command, cwd=tmp_path) as program:
        election.leader(program)
        old = election.wait_for_contenders(1)
        with (tmp_path / "starlette_app.py").open("a") as file:
            file.write("# changed\n")
        election.wait_until_replaced(program, old)


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("uvicorn-workers", ()),
        ("gunicorn", ()),
        ("gunicorn-aiohttp", ()),
        ("sanic-workers", ()),
        ("granian", ("--respawn-failed-workers",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_worker_leads_after_the_session_timeout(
    election: HostedElection, name: str, options: tuple[str, ...]
) -> None:
    host = WEB_HOSTS[name]
    with leading(election, host, *options) as (program, leader, _):
        election.crash(leader)
        assert election.leader(program).pid != leader.pid
        if name != "sanic-workers":  # which does not replace a worker that was killed
            election.wait_for_contenders(host.workers)


@pytest.mark.parametrize(
    "name",
    [
        *("uvicorn-fastapi", "hypercorn", "hypercorn-quart-trio"),
        *("granian", "aiohttp-hooks", "sanic"),
    ],
)
def test_another_host_leads_after_the_session_timeout(election: HostedElection, name: str) -> None:
    """These servers are one process, or stop all workers if one of them was killed."""
    with leading(election, WEB_HOSTS[name]) as (_, leader, _):
        with election.next_contender() as contender:
            election.crash(leader)
            contender.wait_until_it_leads()


@pytest.mark.parametrize("name", ["uvicorn-workers", "gunicorn", "hypercorn-workers", "granian"])
def test_guardian_closes_the_session_of_a_killed_worker(
    election: HostedElection, name: str
) -> None:
    with leading(election, WEB_HOSTS[name], app="guarded_app:app") as (program, leader, _):
        with election.next_contender() as contender:
            election.crash_guarded(leader)
            if name in ("uvicorn-workers", "gunicorn"):
                assert election.leader(program).pid != leader.pid
                assert not contender.leads
            else:
                contender.wait_until_it_leads()


def test_django_command_is_killed(election: HostedElection) -> None:
    with django(election) as (_, leader), election.next_contender() as contender:
        election.crash(leader)
        contender.wait_until_it_leads()


@pytest.mark.parametrize(
    ("name", "number", "options"),
    [
        # gunicorn sends SIGQUIT to its workers. uvicorn's worker ignores it until it is killed.
        ("gunicorn", SIGINT, ("--graceful-timeout", "1")),
        # A worker of hypercorn has no handler for SIGTERM, which systemd sends to all processes by
        # default. `KillMode=mixed`, or a guardian, closes the session.
        ("hypercorn", SIGTERM, ()),
    ],
)
def test_signal_that_is_a_crash(
    election: HostedElection, name: str, number: Signals, options: tuple[str, ...]
) -> None:
    with leading(election, WEB_HOSTS[name], *options) as (program, leader, _):
        program.send(number, whole_group=name == "hypercorn")
        program.finish()
        assert leader.session in election.server.sessions()
    assert f"{leader.pid} has stopped" not in program.lines
