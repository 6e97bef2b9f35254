"""Task queues and schedulers: a stop closes every session, a crash costs the session timeout."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts.hosts import ELECTION, HostedElection
from hosts.redis_server import redis_server
from kit.checks import until
from kit.pages import Program

BIN = Path(sys.executable).parent
CELERY = (str(BIN / "celery"), "--quiet", "--app", "celery_app", "worker", "--without-mingle")
DRAMATIQ = ("-m", "dramatiq", "--threads", "1", "--processes")
TASKIQ = ("-m", "taskiq", "worker", "taskiq_app:broker", "--workers")
ARQ = ("-m", "arq", "arq_app.WorkerSettings")

HOSTS: dict[str, tuple[str, ...]] = {
    "apscheduler": ("apscheduler_app.py",),
    "apscheduler threads": ("apscheduler_threads.py",),
    "arq": ARQ,
    "celery": (*CELERY, "--concurrency", "2"),
    "celery solo": (*CELERY, "--pool", "solo"),
    "celery threads": (*CELERY, "--pool", "threads", "--concurrency", "2"),
    "dramatiq": (*DRAMATIQ, "2", "dramatiq_app"),
    "dramatiq async": (*DRAMATIQ, "2", "dramatiq_async"),
    "exit stack": ("exit_stack.py",),
    "taskiq": (*TASKIQ, "2"),
    "taskiq scheduler": ("taskiq_scheduler.py",),
}

POOLS = ("celery", "dramatiq", "dramatiq async", "taskiq")
"""The hosts with two processes, each of which contends."""

STATUS = {
    ("celery", signal.SIGINT): 1,
    ("celery solo", signal.SIGINT): 1,
    ("celery threads", signal.SIGINT): 1,
    ("apscheduler", signal.SIGTERM): 130,
    ("apscheduler", signal.SIGINT): 130,
    ("apscheduler threads", signal.SIGTERM): 130,
    ("apscheduler threads", signal.SIGINT): 130,
    ("taskiq scheduler", signal.SIGTERM): 130,
    ("taskiq scheduler", signal.SIGINT): 130,
}
"""The exit statuses other than 0."""


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield str(port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("name", HOSTS)
def test_stop(
    election: HostedElection, request: pytest.FixtureRequest, name: str, number: signal.Signals
) -> None:
    with start_host(election, request, name) as program:
        election.leader(program)
        election.wait_for_contenders(2 if name in POOLS else 1)
        election.stop(program, number, status=STATUS.get((name, number), 0))


def start_host(election: HostedElection, request: pytest.FixtureRequest, name: str) -> Program:
    env = {"POOL": name.partition(" ")[2] or "prefork"}
    # A reload starts the command again, which is looked up in the path.
    env["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    if name == "arq":
        env["REDIS_PORT"] = request.getfixturevalue("redis_port")
    return election.start(*HOSTS[name], env=env)


@pytest.mark.parametrize("name", [name for name in HOSTS if name not in POOLS])
def test_crash_of_a_single_process(
    election: HostedElection, request: pytest.FixtureRequest, name: str
) -> None:
    with start_host(election, request, name) as program:
        leader = election.leader(program)
        with election.next_contender() as contender:
            election.crash(leader)
            contender.wait_until_it_leads()


@pytest.mark.parametrize("name", POOLS)
def test_crash_of_one_of_two_processes(
    election: HostedElection, request: pytest.FixtureRequest, name: str
) -> None:
    with start_host(election, request, name) as program:
        leader = election.leader(program)
        election.wait_for_contenders(2)
        election.crash(leader)
        assert election.leader(program).pid != leader.pid
        if "dramatiq" in name:  # it stops as a whole if one of its processes ends
            assert program.finish() == 1
            assert election.server.sessions() == {}
        else:
            election.wait_for_contenders(2)


@pytest.mark.parametrize("name", POOLS)
def test_reload(election: HostedElection, request: pytest.FixtureRequest, name: str) -> None:
    with start_host(election, request, name) as program:
        election.leader(program)
        old = election.wait_for_contenders(2)
        program.send(signal.SIGHUP)
        election.wait_until_replaced(program, old)
        election.check_output(program)


# --- Celery beat -------------------------------------------------------------------------------

BEAT = ("celery", "--quiet", "--app", "celery_beat", "beat", "--schedule")
RUN = ("-m", "aiolead", "run", "--forever", ELECTION, "--")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT, signal.SIGKILL],
    ids=["SIGTERM", "SIGINT", "SIGKILL"],
)
def test_beat(election: HostedElection, tmp_path: Path, number: signal.Signals) -> None:
    """`aiolead run` is stopped or killed. Beat is gone before another one starts."""
    command = (*RUN, sys.executable, "-m", *BEAT, str(tmp_path / "schedule"))
    with election.start(*command) as program:
        pid = int(program.wait_for(r"(\d+) is beat")[1])
        with election.next_contender() as contender:
            program.send(number)
            contender.wait_until_it_leads()
            assert not is_alive(pid)
            program.finish()
            assert election.server.sessions().keys() == {contender.session}


# --- a lock in a task of Celery ----------------------------------------------------------------

TASK = (str(BIN / "celery"), "--quiet", "--app", "celery_task")


@contextmanager
def task_that_holds_a_lock(
    election: HostedElection, folder: Path, *options: str
) -> Iterator[Program]:
    """A worker with one task, which holds a lock until there is a file `go on` in the folder."""
    env = {"FOLDER": str(folder)}
    worker = (*TASK, "worker", "--without-mingle", "--concurrency", "1", *options)
    with election.start(*worker, env=env) as program:
        with election.start(*TASK, "call", "celery_task.bill", env=env) as call:
            assert call.finish() == 0, "\n".join(call.lines)
        program.wait_for("holds the lock")
        yield program


def test_sigterm_lets_a_task_finish_that_holds_a_lock(
    election: HostedElection, tmp_path: Path
) -> None:
    with task_that_holds_a_lock(election, tmp_path) as program:
        program.send(signal.SIGTERM)
        program.wait_for("Warm shutdown")
        assert len(election.server.sessions()) == 1
        (tmp_path / "go on").touch()
        program.wait_for("has sent the bill")
        assert program.finish() == 0
    assert election.server.sessions() == {}
    assert election.closed == 1
    election.check_output(program)


def test_soft_time_limit_releases_the_lock_of_a_task(
    election: HostedElection, tmp_path: Path
) -> None:
    with task_that_holds_a_lock(election, tmp_path, "--soft-time-limit", "1") as program:
        program.wait_for("SoftTimeLimitExceeded")
        until(lambda: election.server.sessions() == {}, "the session is closed")
        program.terminate()
        assert program.finish() == 0
    assert election.closed == 1
