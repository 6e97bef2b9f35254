"""The examples of frameworks: of two instances one acts, and the other one when that stops; both
are ready before they lead.

Where a framework allows it the two are in this process, each with a client of its own: what it
costs to import a framework is most of what these tests cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from kit.pages import EXAMPLES, PATIENCE, Load, Program, Said, lifespan

import aiolead
from aiolead.testing import EmbeddedServer, ThreadedServer


@pytest.fixture
def impatient() -> Iterator[ThreadedServer]:
    """A server whose sessions are short, so that a lost session ends soon."""
    with EmbeddedServer.in_thread(max_session_timeout=3.0) as server:
        yield server


# --- web applications, in this process ---------------------------------------------------------


@contextlib.asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, while that serves."""
    async with lifespan(app) as manager:
        transport = httpx.ASGITransport(manager.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            yield http


async def _status(http: httpx.AsyncClient, path: str) -> int:
    return (await http.get(path)).status_code


@pytest.mark.keeps_time(3.0)
@pytest.mark.parametrize("example", ["fastapi_lifespan", "litestar_lifespan"])
def test_one_of_two_applications_runs_the_scheduler(
    impatient: ThreadedServer, load: Load, said: Said, example: str
) -> None:
    create_app, hosts = load(f"{example}/app.py").create_app, impatient.connect_string

    async def main() -> None:
        async with contextlib.AsyncExitStack() as of_two:
            async with _serving(create_app(hosts, "one")) as one:
                await said.wait_for("one runs the scheduler")
                two = await of_two.enter_async_context(_serving(create_app(hosts, "two")))
                for http, name in ((one, "one"), (two, "two")):
                    answer = (await http.get("/")).json()
                    assert answer == {"leader": "one", "answered_by": name}
                    assert await _status(http, "/ready") == 200  # the second one has never led
                    assert await _status(http, "/live") == 200
                assert [line.split(",")[0] for line in said.lines] == ["one runs the scheduler"]
            await said.wait_for("two runs the scheduler")
            assert [line.split(",")[0] for line in said.lines] == [
                "one runs the scheduler",
                "one has stopped",
                "two runs the scheduler",
            ]
            assert (await two.get("/")).json() == {"leader": "two", "answered_by": "two"}

            # Without servers: the work stops, and requests go elsewhere; nobody is restarted.
            await anyio.to_thread.run_sync(impatient.stop)
            await said.wait_for("two has stopped")
            with anyio.fail_after(PATIENCE):
                while await _status(two, "/ready") != 503:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            assert await _status(two, "/live") == 200

    anyio.run(main)


# --- schedulers, in this process ---------------------------------------------------------------


def by_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


@pytest.mark.parametrize(
    ("example", "acts"),
    [("apscheduler_once", "{} begins a report"), ("taskiq_once", "report of {}")],
)
@pytest.mark.parametrize("run_all", [anyio.run, by_asyncio])
def test_one_of_two_schedulers_acts(
    embedded: str, chroot: str, load: Load, said: Said, example: str, acts: str, run_all: Any
) -> None:
    """Also by `asyncio.run`, as programs do it: its callbacks know of no anyio."""
    run, hosts = load(f"{example}/app.py").main, embedded + chroot

    async def main() -> None:
        async with anyio.create_task_group() as second:
            async with anyio.create_task_group() as first:
                await first.start(run, hosts, "one")
                await said.wait_for(acts.format("one"))
                client: aiolead.Client = await second.start(run, hosts, "two")
                assert client.healthy()
                await said.wait_for(acts.format("one"), times=said.count(acts.format("one")) + 1)
                assert said.count(acts.format("two")) == 0
                first.cancel_scope.cancel()
            over = len(said.lines)
            # Its work has ended, too.
            assert said.count("one begins") == said.count("one is not at work")
            await said.wait_for(acts.format("two"))
            assert not any("one" in line for line in said.lines[over:])
            second.cancel_scope.cancel()

    run_all(main)


# --- Quart on trio, under hypercorn ------------------------------------------------------------


def _http_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_one_of_two_quart_servers_runs_the_scheduler(
    embedded: str, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES / "quart_trio"))
    command = ["-m", "hypercorn", "--worker-class", "trio", "--bind", "127.0.0.1:0", "app:app"]

    def start() -> Program:
        return Program(sys.executable, *command, hosts=embedded + chroot)

    def url_of(program: Program) -> str:
        return program.wait_for(r"Running on (http://\S+)")[1]

    with start() as one, start() as other:
        urls = [url_of(one), url_of(other)]
        first, second = _leader_first(one, other)
        for url in urls:
            assert _http_status(f"{url}/ready") == 200
            assert _http_status(f"{url}/live") == 200
        assert not _leads(second)
        first.terminate()
        first.wait_for(r"worker \d+ has stopped")
        assert first.finish() == 0
        second.wait_for(r"worker \d+ runs the scheduler")
        assert second.finish(signal.SIGTERM) == 0
        for program in (first, second):
            assert not any("Traceback" in line for line in program.lines), program.lines


def _leads(program: Program) -> bool:
    return any("runs the scheduler" in line for line in program.lines)


def _leader_first(one: Program, other: Program) -> tuple[Program, Program]:
    deadline = time.monotonic() + PATIENCE
    while not (_leads(one) or _leads(other)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return (one, other) if _leads(one) else (other, one)


# --- programs of their own ---------------------------------------------------------------------


def test_one_worker_of_a_fleet_plans(embedded: str, chroot: str) -> None:
    script, hosts = "examples/asyncio_workers/worker.py", embedded + chroot
    with Program(script, hosts=hosts) as one:
        first = int(one.wait_for(r"\d+ plans, token (\d+)")[1])
        with Program(script, hosts=hosts) as other:
            url = other.wait_for(r"answers at (http://\S+)")[1]
            assert _http_status(url) == 200
            other.wait_for(rf"does page \d+ of plan {first}")
            assert not any("plans" in line for line in other.lines)
            assert one.finish(signal.SIGTERM) == 0
            assert any("plans no more" in line for line in one.lines)
            second = int(other.wait_for(r"\d+ plans, token (\d+)")[1])
            assert second > first
            other.wait_for(rf"does page \d+ of plan {second}")
            assert other.finish(signal.SIGTERM) == 0


def test_service_is_ready_for_systemd_before_it_leads(
    embedded: str, chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, hosts = "examples/trio_service/service.py", embedded + chroot
    told: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)

        def until(state: str) -> None:
            while not any(each.startswith(state) for each in told):
                told.append(systemd.recv(1000).decode())

        with Program(script, hosts=hosts) as one:
            one.wait_for("leads, token")
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            monkeypatch.setenv("WATCHDOG_USEC", "300_000")
            with Program(script, hosts=hosts) as other:
                until("READY=1")
                until("WATCHDOG=1")
                assert not any("leads" in line for line in other.lines)
                assert one.finish(signal.SIGTERM) == 0
                assert any("has stopped" in line for line in one.lines)
                until("STATUS=leads, token")
                other.terminate()
                until("STOPPING=1")
                assert other.finish() == 0
    order = [each for each in told if not each.startswith("WATCHDOG")]
    assert [each.split("\n")[0].split(",")[0] for each in order[:3]] == [
        "READY=1",
        "STATUS=leads",
        "STOPPING=1",
    ]
