"""Every example does what it says, as a process of its own."""

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

import anyio
import pytest
from kit.pages import PATIENCE, ROOT, WHOLE_LINES, Program, end_lost_session
from kit.raw_client import SESSION, RawClient

import aiolead
from aiolead import blocking
from aiolead.testing import EmbeddedServer, ThreadedServer, simulation
from aiolead.testing.launch import free_ports

pytestmark = pytest.mark.exhaustive("runs each example as a program")

EXAMPLES = ROOT / "examples"


def _wait_for_participants(hosts: str, path: str, count: int) -> None:
    """Waits until that many contend."""

    async def wait() -> None:
        async with aiolead.connect(hosts) as client:
            election = aiolead.Election(client, path)
            with anyio.fail_after(PATIENCE):
                while len(await election.contenders()) != count:  # noqa: ASYNC110
                    await anyio.sleep(0.02)

    anyio.run(wait)


@pytest.mark.parametrize(
    ("first", "second"),
    [("election_asyncio.py", "election_trio.py"), ("election_trio.py", "election_asyncio.py")],
)
def test_one_leads_and_the_next_one_takes_over(hosts: str, first: str, second: str) -> None:
    with Program(f"examples/{first}", hosts=hosts) as one:
        token = int(one.wait_for(r"leads, token (\d+)")[1])
        with Program(f"examples/{second}", hosts=hosts) as other:
            other.wait_for("waits its turn")
            _wait_for_participants(hosts, "/examples/election", 2)
            assert len(other.lines) == 1
            one.interrupt()
            assert int(other.wait_for(r"leads, token (\d+)")[1]) > token
            assert one.finish() == 130
            other.interrupt()
            assert other.finish() == 130
    _wait_for_participants(hosts, "/examples/election", 0)


def test_processes_take_turns_with_the_lock(hosts: str) -> None:
    # They share one pipe, so that their lines are in the order in which things happened.
    scripts = ["lock_asyncio.py", "lock_trio.py", "lock_asyncio.py"]
    python = shlex.quote(sys.executable)
    starts = [f"{python} examples/{name} & p{n}=$!" for n, name in enumerate(scripts)]
    command = "\n".join([*starts, "wait $p0 && wait $p1 && wait $p2"])
    lines = Program("sh", "-c", command, hosts=hosts, env=WHOLE_LINES).run()
    said = [line.split(" ", 1) for line in lines]
    held = [(holder, words) for holder, words in said if words.startswith("holds the lock, token ")]
    assert said[1::2] == [[holder, "has done its work"] for holder, _ in held]
    tokens = [int(words.split()[-1]) for _, words in held]
    assert len(set(tokens)) == 3
    assert tokens == sorted(tokens)


def test_readers_share_what_a_writer_changes(hosts: str) -> None:
    writers = [Program("examples/read_write.py", "write", hosts=hosts) for _ in range(2)]
    said = [writer.run() for writer in writers]
    seen = [re.fullmatch(r"sees version (\d)", lines[1]) for lines in said]
    assert sorted(match[1] for match in seen if match) == ["1", "2"]
    readers = [Program("examples/read_write.py", "read", hosts=hosts) for _ in range(2)]
    assert [reader.run() for reader in readers] == [["sees version 2"]] * 2


def test_a_buffer_is_never_too_full_and_nothing_is_lost(hosts: str) -> None:
    taker = Program("examples/bounded_buffer.py", "take", "5", hosts=hosts)
    putter = Program("examples/bounded_buffer.py", "put", "5", hosts=hosts)
    assert putter.run() == [f"puts {number}" for number in range(5)]
    assert taker.run() == [f"takes {number}" for number in range(5)]


def test_not_more_than_two_downloads_at_a_time(hosts: str) -> None:
    # They share one pipe, so that their lines are in the order in which things happened.
    python = shlex.quote(sys.executable)
    starts = [f"{python} examples/semaphore.py {n}a {n}b {n}c & p{n}=$!" for n in range(2)]
    command = "\n".join([*starts, "wait $p0 && wait $p1"])
    lines = Program("sh", "-c", command, hosts=hosts, env=WHOLE_LINES).run()
    assert len(lines) == 12
    out = [0]
    for line in lines:
        out.append(out[-1] + (1 if line.endswith("begins") else -1))
    assert max(out) == 2
    assert out[-1] == 0


def test_three_processes_do_each_step_together(hosts: str) -> None:
    python = shlex.quote(sys.executable)
    starts = [f"{python} examples/double_barrier.py worker-{n} & p{n}=$!" for n in range(3)]
    command = "\n".join([*starts, "wait $p0 && wait $p1 && wait $p2"])
    said = "\n".join(Program("sh", "-c", command, hosts=hosts, env=WHOLE_LINES).run())
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
    ],
)
def test_a_small_one_says_what_it_does(hosts: str, example: str, says: list[str]) -> None:
    assert Program(f"examples/{example}", hosts=hosts).run() == says


def test_a_shared_limit_is_followed(hosts: str) -> None:
    *before, last = Program("examples/shared_limit.py", hosts=hosts).run()
    assert last == "at most 20 at once"
    assert set(before) <= {"at most 10 at once"}  # what was overtaken may be skipped


def test_the_next_one_is_warm_before_it_serves(hosts: str) -> None:
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


def test_an_observer_sees_who_leads(hosts: str) -> None:
    with Program("examples/observe.py", hosts=hosts) as observer:
        observer.wait_for("nobody leads")
        with Program("examples/election_asyncio.py", hosts=hosts) as leader:
            identity = leader.wait_for(r"(\S+) leads")[1]
            observer.wait_for(f"^{identity} leads$")
            leader.interrupt()
            observer.wait_for("nobody leads")


def test_the_cron_job_is_done_once(hosts: str) -> None:
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


def test_a_process_that_blocks_its_event_loop_is_ended(hosts: str) -> None:
    with Program("examples/hard_stop.py", hosts=hosts) as program:
        program.wait_for("holds the lock, token")
        program.wait_for(r"\d\.\d\d seconds are left")
        program.wait_for("aiolead: held for too long: .*/examples/hard_stop/.* exit code 70")
        program.wait_for("line .* in work")
        assert program.finish() == 70


def test_the_simulation_tells_a_careful_scheduler_from_a_careless_one() -> None:
    careful, careless, *told = Program("examples/simulated_scheduler.py", "6").run()
    assert careful == "careful_schedulers: nothing was wrong in 6 schedules"
    assert re.match(r"careless_schedulers: mixed at [\d.]+: page \d of a job comes after", careless)
    assert told[0].startswith("seed ")
    # The line that replays it does, to the same trace.
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
    """The process id of the worker that leads, as any of the workers tells."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        leader = json.load(response)["leader"]
    return int(leader.rpartition(":")[2])


def test_one_of_the_web_workers_runs_the_scheduler(zookeeper: ThreadedServer) -> None:
    hosts, path = zookeeper.connect_string, "/examples/web/scheduler"
    options = "--workers 3 --timeout-worker-healthcheck 30 --port 0"
    command = ("-m", "uvicorn", *options.split(), "--app-dir", "examples/web", "app:app")
    with Program(sys.executable, *command, hosts=hosts) as server:
        url = server.wait_for(r"running on (http://\S+)")[1]
        first = int(server.wait_for(r"worker (\d+) runs the scheduler")[1])
        _wait_for_participants(hosts, path, 3)
        assert _leader(url) == first

        os.kill(first, signal.SIGKILL)
        end_lost_session(zookeeper)
        second = int(server.wait_for(r"worker (\d+) runs the scheduler")[1])
        assert second != first
        # uvicorn starts a worker in the place of the dead one; it contends, and does not lead.
        _wait_for_participants(hosts, path, 3)
        assert _leader(url) == second
        assert sum("runs the scheduler" in line for line in server.lines) == 2

        server.terminate()
        assert server.finish() == 0
        assert not any("Traceback" in line for line in server.lines), server.lines
    assert zookeeper.sessions() == {}, "a worker that stops in good order closes its session"


@pytest.mark.parametrize("more", ["--worker-class sync", "--worker-class gthread --preload"])
def test_one_of_the_gunicorn_workers_runs_the_job(zookeeper: ThreadedServer, more: str) -> None:
    hosts, path = zookeeper.connect_string, "/examples/gunicorn/scheduler"
    options = f"--workers 3 --bind 127.0.0.1:0 --no-control-socket {more}"
    config = "examples/gunicorn_once/gunicorn.conf.py"
    command = ("-m", "gunicorn", "-c", config, *options.split(), "app:app")
    with Program(sys.executable, *command, hosts=hosts) as server:
        url = server.wait_for(r"Listening at: (http://\S+)")[1]
        first = int(server.wait_for(r"worker (\d+) runs the job")[1])
        server.wait_for(f"worker {first}: run 2")
        _wait_for_participants(hosts, path, 3)
        assert _leader(url) == first

        os.kill(first, signal.SIGKILL)
        end_lost_session(zookeeper)
        second = int(server.wait_for(r"worker (\d+) runs the job")[1])
        assert second != first
        server.wait_for(rf"worker {second}: run \d+")
        # gunicorn starts a worker in the place of the dead one; it contends, and does not lead.
        _wait_for_participants(hosts, path, 3)
        assert _leader(url) == second
        server.terminate()
        assert server.finish() == 0
        assert not any("Traceback" in line for line in server.lines), server.lines
        runs = [
            (int(match[1]), int(match[2]))
            for line in server.lines
            if (match := re.fullmatch(r"worker (\d+): run (\d+)", line))
        ]
    workers, numbers = zip(*runs, strict=True)
    # Each run once, one after the other; none of the killed one's after the first of the next one.
    # (A run that it was killed in may have been counted and not been told.)
    assert list(numbers) == sorted(set(numbers))
    assert numbers[-1] - len(numbers) in (0, 1)
    assert [worker for worker in workers if worker == first] == list(
        workers[: workers.count(first)]
    )
    assert zookeeper.sessions() == {}, "a worker that stops in good order closes its session"


def test_a_service_follows_its_configuration() -> None:
    with EmbeddedServer.in_thread(max_session_timeout=SESSION) as server:
        _follow(server)


def _follow(server: ThreadedServer) -> None:
    hosts = server.connect_string
    other = RawClient(hosts)
    with Program("examples/observe_config.py", hosts=hosts) as service, other:
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
        service.interrupt()
        service.finish()


def test_members_see_each_other_come_and_go(hosts: str) -> None:
    with Program("examples/who_is_there.py", "anna", hosts=hosts) as anna:
        anna.wait_for("joined: anna")
        with Program("examples/who_is_there.py", "ben", hosts=hosts) as ben:
            # Only then does it leave from there; it may be all that anna sees of it.
            anna.wait_for("(joined|updated): ben, at work")
            ben.wait_for("joined: anna, at work")
            ben.interrupt()
            anna.wait_for("left: ben, at work")
            assert ben.finish() == 130
        anna.interrupt()
        anna.finish()


def test_a_status_is_there_as_long_as_its_worker(hosts: str) -> None:
    said = Program("examples/worker_status.py", hosts=hosts).run()
    assert said == ["does the first job", "does the second job", "gone"]


def test_requests_go_to_the_instances_that_are_there(hosts: str) -> None:
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
            other.terminate()
            other.finish()
        client.wait_for("nobody is there")


def test_shards_move_to_who_comes_and_back(hosts: str) -> None:
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
        anna.interrupt()
        anna.finish()


def test_examples_import_public_names_only() -> None:
    for_contributors = EXAMPLES / "rate_gate.py"  # a recipe, as inside of the package
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


def test_jobs_are_done_although_a_worker_goes(hosts: str) -> None:
    jobs = ["a", "b", "c", "d"]
    with Program("examples/queue_worker.py", hosts=hosts) as worker:
        said = Program("examples/queue_worker.py", "put", *jobs, hosts=hosts).run()
        assert said[0].startswith("4 jobs put, ")
        worker.wait_for(r"\d+ begins a")
        worker.interrupt()
        assert worker.finish() == 130
    with RawClient(hosts) as raw:
        left = [jobs[int(name[-10:])] for name in raw.children("/examples/jobs")]
    # It may have been interrupted after the server had removed a job, and before it could say so.
    begun, done = (
        {line.split()[-1] for line in worker.lines if what in line}
        for what in ("begins", "has done")
    )
    assert done <= set(jobs) - set(left) <= begun
    with Program("examples/queue_worker.py", hosts=hosts) as other:
        for job in left:
            other.wait_for(rf"\d+ has done {job}")
        other.interrupt()
        other.finish()


def test_threads_do_jobs_and_finish_what_they_have_begun(hosts: str) -> None:
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


def test_a_board_shows_who_does_a_task(hosts: str) -> None:
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
        service.interrupt()
        service.finish()


def test_no_order_number_is_given_out_twice(hosts: str) -> None:
    desks = [Program("examples/order_desk.py", hosts=hosts) for _ in range(3)]
    said = [line for desk in desks for line in desk.run()]
    found = [re.fullmatch(r"desk-\d: order (\d+), (\d+) in all", line) for line in said]
    numbers, totals = zip(*((int(f[1]), int(f[2])) for f in found if f), strict=True)
    assert len(set(numbers)) == len(said) == 15
    assert sorted(totals) == list(range(1, 16))


def test_a_tree_is_mirrored(hosts: str) -> None:
    async def make_parent() -> None:
        async with aiolead.connect(hosts) as client:
            await client.ensure_path("/examples")

    anyio.run(make_parent)
    with RawClient(hosts) as other, Program("examples/mirror.py", hosts=hosts) as mirror:
        mirror.wait_for("0 znodes")
        other.create("/examples/tree")
        other.create("/examples/tree/a", b"one")
        mirror.wait_for("created /examples/tree/a one")
        other.set("/examples/tree/a", b"two")
        mirror.wait_for("changed /examples/tree/a two")
        other.delete("/examples/tree/a")
        mirror.wait_for("deleted /examples/tree/a$")
        mirror.interrupt()
        mirror.finish()


def test_what_leads_shows_in_its_metrics(hosts: str) -> None:
    (port,) = free_ports(1)
    with Program("examples/observability/metrics.py", str(port), hosts=hosts) as program:
        program.wait_for(r"leads, token \d+")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            text = page.read().decode()
        path = hosts.partition("/")[2] + "/examples/observed"
        assert f'aiolead_held{{path="/{path}",recipe="Election"}} 1.0' in text
        assert "aiolead_session_connected 1.0" in text
        program.interrupt()
        assert program.finish() == 130
