"""The examples, as processes."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from kit.checks import until
from kit.pages import PATIENCE, ROOT, WHOLE_LINES, Program, end_lost_session
from kit.raw_client import SESSION, RawClient

import aiolead
from aiolead import blocking
from aiolead.testing import EmbeddedServer, ThreadedServer, simulation
from aiolead.testing.launch import free_ports

pytestmark = pytest.mark.exhaustive("runs each example as a program")

EXAMPLES = ROOT / "examples"


def _wait_for_participants(hosts: str, path: str, count: int) -> None:
    with blocking.connect(hosts) as client:
        election = blocking.Election(client, path)
        until(lambda: len(election.contenders()) == count, f"{count} contend")


@pytest.mark.parametrize(
    ("first", "second"),
    [("election_asyncio.py", "election_trio.py"), ("election_trio.py", "election_asyncio.py")],
)
def test_second_process_leads_after_the_first(hosts: str, first: str, second: str) -> None:
    with Program(f"examples/{first}", hosts=hosts) as one:
        token = int(one.wait_for(r"leads, token (\d+)")[1])
        with Program(f"examples/{second}", hosts=hosts) as other:
            other.wait_for("waits its turn")
            _wait_for_participants(hosts, "/examples/election", 2)
            assert len(other.lines) == 1
            one.interrupt()
            assert int(other.wait_for(r"leads, token (\d+)")[1]) > token
            assert one.finish() == 130
            assert other.finish(signal.SIGINT) == 130
    _wait_for_participants(hosts, "/examples/election", 0)


def run_together(hosts: str, *scripts: str) -> list[str]:
    """Runs examples at the same time. They share one pipe, so that their lines are in order."""
    python = shlex.quote(sys.executable)
    starts = [f"{python} examples/{script} & p{n}=$!" for n, script in enumerate(scripts)]
    waits = " && ".join(f"wait $p{n}" for n in range(len(scripts)))
    command = "\n".join([*starts, waits])
    return Program("sh", "-c", command, hosts=hosts, env=WHOLE_LINES).run()


def test_processes_hold_the_lock_one_after_the_other(hosts: str) -> None:
    lines = run_together(hosts, "lock_asyncio.py", "lock_trio.py", "lock_asyncio.py")
    said = [line.split(" ", 1) for line in lines]
    held = [(holder, words) for holder, words in said if words.startswith("holds the lock, token ")]
    assert said[1::2] == [[holder, "has done its work"] for holder, _ in held]
    tokens = [int(words.split()[-1]) for _, words in held]
    assert len(set(tokens)) == 3
    assert tokens == sorted(tokens)


def test_readers_see_the_last_write(hosts: str) -> None:
    writers = [Program("examples/read_write.py", "write", hosts=hosts) for _ in range(2)]
    said = [writer.run() for writer in writers]
    seen = [re.fullmatch(r"sees version (\d)", lines[1]) for lines in said]
    assert sorted(match[1] for match in seen if match) == ["1", "2"]
    readers = [Program("examples/read_write.py", "read", hosts=hosts) for _ in range(2)]
    assert [reader.run() for reader in readers] == [["sees version 2"]] * 2


def test_bounded_buffer_passes_everything_on(hosts: str) -> None:
    taker = Program("examples/bounded_buffer.py", "take", "5", hosts=hosts)
    putter = Program("examples/bounded_buffer.py", "put", "5", hosts=hosts)
    assert putter.run() == [f"puts {number}" for number in range(5)]
    assert taker.run() == [f"takes {number}" for number in range(5)]


def test_semaphore_bounds_downloads(hosts: str) -> None:
    lines = run_together(hosts, *[f"semaphore.py {n}a {n}b {n}c" for n in range(2)])
    assert len(lines) == 12
    out = [0]
    for line in lines:
        out.append(out[-1] + (1 if line.endswith("begins") else -1))
    assert max(out) == 2
    assert out[-1] == 0


def test_processes_do_each_step_together(hosts: str) -> None:
    said = "\n".join(run_together(hosts, *[f"double_barrier.py worker-{n}" for n in range(3)]))
    lines = re.findall(r"^(\w+): worker-\d (begins|is done)$", said, re.MULTILINE)
    assert [step for step, _ in lines] == ["map"] * 6 + ["shuffle"] * 6 + ["reduce"] * 6
    for first in range(0, 18, 6):
        assert lines[first][1] == "begins"
        assert lines[first + 5][1] == "is done"


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("nightly_report.py", ["written here", "a second one at the same time: None"]),
        ("transfer.py", ["2 locks held", "-5 on ours", "+5 on theirs"]),
        ("maintenance.py", ["maintenance; the barrier is set: True", "the work goes on"]),
        ("priorities.py", ["at once", "can wait", "in a moment"]),
        ("worker_status.py", ["does the first job", "does the second job", "gone"]),
    ],
)
def test_small_example_prints_what_it_does(hosts: str, example: str, says: list[str]) -> None:
    assert Program(f"examples/{example}", hosts=hosts).run() == says


def test_shared_limit_is_followed(hosts: str) -> None:
    *before, last = Program("examples/shared_limit.py", hosts=hosts).run()
    assert last == "at most 20 at once"
    assert set(before) <= {"at most 10 at once"}  # older values may be skipped


def test_standby_warms_up_before_it_serves(hosts: str) -> None:
    script, path = "examples/warm_standby.py", "/examples/pair"
    with Program(script, "anna", hosts=hosts) as anna, Program(script, "ben", hosts=hosts) as ben:
        first = int(anna.wait_for(r"anna serves, token (\d+)")[1])
        second = int(ben.wait_for(r"ben serves, token (\d+)")[1])
        with Program(script, "cleo", hosts=hosts) as cleo:
            cleo.wait_for("cleo warms up")
            with Program(script, "dora", hosts=hosts) as dora:
                _wait_for_participants(hosts, path, 4)
                assert dora.lines == []
                anna.interrupt()
                assert int(cleo.wait_for(r"cleo serves, token (\d+)")[1]) > max(first, second)
                dora.wait_for("dora warms up")
                assert len(ben.lines) == 1
                for program in (dora, cleo, ben):
                    program.interrupt()
    _wait_for_participants(hosts, path, 0)


def test_observer_sees_the_leader(hosts: str) -> None:
    with Program("examples/observe.py", hosts=hosts) as observer:
        observer.wait_for("nobody leads")
        with Program("examples/election_asyncio.py", hosts=hosts) as leader:
            identity = leader.wait_for(r"(\S+) leads")[1]
            observer.wait_for(f"^{identity} leads$")
            leader.interrupt()
            observer.wait_for("nobody leads")


def test_cron_job_runs_once(hosts: str) -> None:
    job = ("examples/cron_once.py", "2026-11-21")
    together = [Program(*job, hosts=hosts) for _ in range(3)]
    said = [line for program in together for line in program.run()]
    assert sorted(said) == ["2026-11-21: done", *["2026-11-21: done already"] * 2]
    assert Program(*job, hosts=hosts).run() == ["2026-11-21: done already"]
    assert Program(job[0], "2026-11-22", hosts=hosts).run() == ["2026-11-22: done"]


def test_late_writes_are_refused(hosts: str) -> None:
    said = Program("examples/fenced_writes.py", hosts=hosts).run()
    assert len(said) == 3, said
    assert said[0].startswith("ZooKeeper: write refused: /examples/fenced/election/")
    assert said[1].startswith("the store: token ")
    assert said[2] == "the plan is the new leader's, the store has the new leader's"


def test_process_that_blocks_its_event_loop_is_ended(hosts: str) -> None:
    with Program("examples/hard_stop.py", hosts=hosts) as program:
        program.wait_for("holds the lock, token")
        program.wait_for(r"\d\.\d\d seconds are left")
        program.wait_for("aiolead: held for too long: .*/examples/hard_stop/.* exit code 70")
        program.wait_for("line .* in work")
        assert program.finish() == 70


def test_simulation_finds_the_careless_scheduler() -> None:
    careful, careless, *told = Program("examples/simulated_scheduler.py", "6").run()
    assert careful == "careful_schedulers: nothing was wrong in 6 schedules"
    assert re.match(r"careless_schedulers: mixed at [\d.]+: page \d of a job comes after", careless)
    assert told[0].startswith("seed ")
    command = told[-1].removeprefix("To replay it: python ").split()
    replayed = Program(sys.executable, *command)
    replayed.wait_for("VIOLATION mixed")
    assert replayed.finish() == 1


@pytest.fixture
def zookeeper() -> Iterator[ThreadedServer]:
    """A server of the test's own."""
    with EmbeddedServer.in_thread() as server:
        yield server


def _leader(url: str) -> int:
    """The process id of the leading worker, which any worker returns."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        leader = json.load(response)["leader"]
    return int(leader.rpartition(":")[2])


def run_with_a_crash(
    zookeeper: ThreadedServer, command: list[str], url: str, works: str, path: str
) -> tuple[int, list[str]]:
    """Runs a web server with three workers, of which the leading one is killed.

    Args:
        zookeeper: the server.
        command: the arguments of Python.
        url: a pattern for the line with the address of the web server.
        works: the line of the leading worker.
        path: that of the election.

    Returns:
        The process that was killed, and the lines of the web server.
    """
    with Program(sys.executable, *command, hosts=zookeeper.connect_string) as server:
        address = server.wait_for(url)[1]

        def leader() -> int:
            pid = int(server.wait_for(rf"worker (\d+) {works}")[1])
            if works == "runs the job":
                server.wait_for(rf"worker {pid}: run (?!1$)")
            # The server replaces a dead worker. The new one contends, and does not lead.
            _wait_for_participants(zookeeper.connect_string, path, 3)
            assert _leader(address) == pid
            return pid

        first = leader()
        os.kill(first, signal.SIGKILL)
        end_lost_session(zookeeper)
        assert leader() != first
        assert sum(works in line for line in server.lines) == 2
        assert server.finish(signal.SIGTERM) == 0
    assert not any("Traceback" in line for line in server.lines), server.lines
    assert zookeeper.sessions() == {}, "a worker that is stopped closes its session"
    return first, server.lines


def test_one_web_worker_runs_the_scheduler(zookeeper: ThreadedServer) -> None:
    options = "--workers 3 --timeout-worker-healthcheck 30 --port 0 --app-dir examples/web"
    command = ["-m", "uvicorn", *options.split(), "app:app"]
    path = "/examples/web/scheduler"
    run_with_a_crash(zookeeper, command, r"running on (http://\S+)", "runs the scheduler", path)


@pytest.mark.parametrize("more", ["--worker-class sync", "--worker-class gthread --preload"])
def test_one_gunicorn_worker_runs_the_job(zookeeper: ThreadedServer, more: str) -> None:
    options = f"--workers 3 --bind 127.0.0.1:0 --no-control-socket {more}"
    config = "examples/gunicorn_once/gunicorn.conf.py"
    command = ["-m", "gunicorn", "-c", config, *options.split(), "app:app"]
    path = "/examples/gunicorn/scheduler"
    killed, lines = run_with_a_crash(
        zookeeper, command, r"Listening at: (http://\S+)", "runs the job", path
    )
    found = [re.fullmatch(r"worker (\d+): run (\d+)", line) for line in lines]
    runs = [(int(match[1]), int(match[2])) for match in found if match]
    workers, numbers = zip(*runs, strict=True)
    # Each number runs once, in order. The killed worker has no run after those of its successor.
    # A run in which it was killed may have been counted, but not printed.
    assert list(numbers) == sorted(set(numbers))
    assert numbers[-1] - len(numbers) in (0, 1)
    assert list(workers) == sorted(workers, key=lambda worker: worker != killed)


def test_service_follows_its_configuration() -> None:
    with (
        EmbeddedServer.in_thread(max_session_timeout=SESSION) as server,
        RawClient(hosts := server.connect_string) as other,
        Program("examples/observe_config.py", hosts=hosts) as service,
    ):
        service.wait_for("config: none yet")
        service.wait_for(r"jobs: \[\]")
        other.create("/examples/config", b"red")
        service.wait_for(r"config: red \(version 0\)")
        other.set("/examples/config", b"blue")
        service.wait_for(r"config: blue \(version 1\)")
        other.create("/examples/jobs/a")
        service.wait_for("jobs: /examples/jobs/a created")
        (session,) = (id_ for id_ in server.sessions() if id_ != other.session.session_id)
        server.expire_session(session)
        service.wait_for(r"jobs: \['a'\], after a gap \(expired\)")
        other.delete("/examples/jobs/a")
        service.wait_for("jobs: /examples/jobs/a deleted")
        assert not any("blue" in line for line in service.lines[-3:])
        service.finish(signal.SIGINT)


def test_members_see_each_other(hosts: str) -> None:
    with Program("examples/who_is_there.py", "anna", hosts=hosts) as anna:
        anna.wait_for("joined: anna")
        with Program("examples/who_is_there.py", "ben", hosts=hosts) as ben:
            # It must have updated its state before it leaves.
            anna.wait_for("(joined|updated): ben, at work")
            ben.wait_for("joined: anna, at work")
            ben.interrupt()
            anna.wait_for("left: ben, at work")
            assert ben.finish() == 130
        anna.finish(signal.SIGINT)


def test_requests_go_to_registered_instances(hosts: str) -> None:
    ports = free_ports(2)
    command = ("examples/services.py", "serve")
    with Program("examples/services.py", "ask", hosts=hosts) as client:
        client.wait_for("nobody is there")
        with (
            Program(*command, str(ports[0]), hosts=hosts) as one,
            Program(*command, str(ports[1]), hosts=hosts) as other,
        ):
            for server, port in zip((one, other), ports, strict=True):
                server.wait_for("serves")
                client.wait_for(f"hello from {port}")
            client.wait_for(f"hello from {ports[0]}")
            one.terminate()
            one.wait_for("gone")
            assert one.finish() == 0
            client.wait_for(f"hello from {ports[1]}")
            other.finish(signal.SIGTERM)
        client.wait_for("nobody is there")


def test_shards_move_to_a_new_member_and_back(hosts: str) -> None:
    with Program("examples/shared_work.py", "anna", hosts=hosts) as anna:
        for _ in range(6):
            anna.wait_for("anna takes")
        with Program("examples/shared_work.py", "ben", hosts=hosts) as ben:
            for _ in range(3):
                shard = ben.wait_for(r"ben takes (\S+),")[1]
                assert f"anna leaves {shard}" in anna.lines or anna.wait_for(f"leaves {shard}")
            ben.interrupt()
            for _ in range(3):
                anna.wait_for("anna takes")
            ben.finish()
        anna.finish(signal.SIGINT)


def test_examples_import_public_names_only() -> None:
    for_contributors = EXAMPLES / "rate_gate.py"  # imports what a recipe of the package does
    scripts = sorted({*EXAMPLES.rglob("*.py")} - {for_contributors})
    assert len(scripts) >= 10
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                is_sink = module.startswith("aiolead.instrumentation.")
                is_public = is_sink or module == "aiolead.testing"
                assert is_public or not module.startswith("aiolead."), script
                if module == "aiolead":
                    assert {alias.name for alias in node.names} == {"blocking"}, script
                if module == "aiolead.testing":
                    assert {alias.name for alias in node.names} == {"simulation"}, script
            elif isinstance(node, ast.Import):
                ours = {alias.name for alias in node.names if alias.name.startswith("aiolead")}
                assert ours <= {"aiolead"}, script
            match node:
                case ast.Attribute(ast.Name("aiolead"), name):
                    is_public = name in dir(aiolead) and not name.startswith("_")
                    assert is_public, f"{script}: aiolead.{name}"
                case ast.Attribute(ast.Name("blocking"), name):
                    assert name in blocking.__all__, f"{script}: blocking.{name}"
                case ast.Attribute(ast.Name("simulation"), name):
                    assert name in simulation.__all__, f"{script}: simulation.{name}"


def test_jobs_of_an_interrupted_worker_are_done(hosts: str) -> None:
    jobs = ["a", "b", "c", "d"]
    with Program("examples/queue_worker.py", hosts=hosts) as worker:
        said = Program("examples/queue_worker.py", "put", *jobs, hosts=hosts).run()
        assert said[0].startswith("4 jobs put, ")
        worker.wait_for(r"\d+ begins a")
        assert worker.finish(signal.SIGINT) == 130
    with RawClient(hosts) as raw:
        left = [jobs[int(name[-10:])] for name in raw.children("/examples/jobs")]
    # The worker may have been interrupted between a removal and its line.
    begun, done = (
        {line.split()[-1] for line in worker.lines if what in line}
        for what in ("begins", "has done")
    )
    assert done <= set(jobs) - set(left) <= begun
    with Program("examples/queue_worker.py", hosts=hosts) as other:
        for job in left:
            other.wait_for(rf"\d+ has done {job}")
        other.finish(signal.SIGINT)


def test_threads_finish_the_jobs_that_they_have_begun(hosts: str) -> None:
    jobs = ["a", "b", "c", "d", "e"]
    with Program("examples/queue_threads.py", hosts=hosts) as worker:
        said = Program("examples/queue_threads.py", "put", *jobs, hosts=hosts).run()
        assert "5 jobs put, " in said[0]
        done = {worker.wait_for(r"has done (\w)")[1] for _ in range(3)}
        worker.terminate()
        worker.wait_for("stopped")
        assert worker.finish() == 0
    begun = [line.split()[-1] for line in worker.lines if "begins" in line]
    finished = [line.split()[-1] for line in worker.lines if "has done" in line]
    assert sorted(begun) == sorted(finished)
    assert done <= set(finished) <= set(jobs)


def test_task_board_shows_the_worker_of_a_task(hosts: str) -> None:
    said = Program("examples/task_board.py", hosts=hosts).run()
    name = "task-0000000000"
    assert f"ben has done {name}: 4 pages" in said
    seen = [line.removeprefix(f"{name}: ") for line in said if line.startswith(name)]
    order = list(dict.fromkeys(line.split(",")[0].strip() for line in seen))
    assert [each for each in order if each.startswith("working")] == ["working anna", "working ben"]
    assert any(line.endswith("50%") for line in seen)


def test_settings_are_published_and_followed(hosts: str) -> None:
    script = "examples/configuration.py"
    with Program(script, hosts=hosts) as service:
        service.wait_for(r"version 0: Settings\(workers=1, queue='default'\)")
        said = Program(script, "workers=8", "queue=jobs", hosts=hosts).run()
        assert said == ["published as version 1"]
        service.wait_for(r"version 1: Settings\(workers=8, queue='jobs'\)")
        with Program(script, "workers=99", hosts=hosts) as careless:
            careless.wait_for("refused: .*from 1 to 64, not 99")
            assert careless.finish() == 1
        assert Program(script, "workers=2", hosts=hosts).run() == ["published as version 2"]
        assert Program(script, "rollback", "1", hosts=hosts).run() == ["published as version 3"]
        service.wait_for(r"version 3: Settings\(workers=8, queue='jobs'\)")
        service.finish(signal.SIGINT)


def test_order_numbers_are_unique(hosts: str) -> None:
    desks = [Program("examples/order_desk.py", hosts=hosts) for _ in range(3)]
    said = [line for desk in desks for line in desk.run()]
    found = [re.fullmatch(r"desk-\d: order (\d+), (\d+) in all", line) for line in said]
    numbers, totals = zip(*((int(f[1]), int(f[2])) for f in found if f), strict=True)
    assert len(set(numbers)) == len(said) == 15
    assert sorted(totals) == list(range(1, 16))


def test_tree_is_mirrored(hosts: str) -> None:
    with blocking.connect(hosts) as client:
        client.ensure_path("/examples")
    with RawClient(hosts) as other, Program("examples/mirror.py", hosts=hosts) as mirror:
        mirror.wait_for("0 znodes")
        other.create("/examples/tree")
        other.create("/examples/tree/a", b"one")
        mirror.wait_for("created /examples/tree/a one")
        other.set("/examples/tree/a", b"two")
        mirror.wait_for("changed /examples/tree/a two")
        other.delete("/examples/tree/a")
        mirror.wait_for("deleted /examples/tree/a$")
        mirror.finish(signal.SIGINT)


def test_metrics_show_the_held_leadership(hosts: str) -> None:
    (port,) = free_ports(1)
    with Program("examples/observability/metrics.py", str(port), hosts=hosts) as program:
        program.wait_for(r"leads, token \d+")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            text = page.read().decode()
        path = hosts.partition("/")[2] + "/examples/observed"
        assert f'aiolead_held{{path="/{path}",recipe="Election"}} 1.0' in text
        assert "aiolead_session_connected 1.0" in text
        assert program.finish(signal.SIGINT) == 130
