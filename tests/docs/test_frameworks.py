"""The examples of frameworks: of two instances one acts, and the other one when that stops; both
are ready before they lead.

Where a framework allows it the two are in this process, each with a client of its own: what it
costs to import a framework is most of what these tests cost.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import anyio
import httpx
import pytest
from asgi_lifespan import LifespanManager
from support.docs import PATIENCE, ROOT, Program

from aiolead.testing import EmbeddedServer, ThreadedServer

EXAMPLES = ROOT / "examples"

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports an example, under a name that nothing else has."""

    def load(path: str) -> ModuleType:
        name = "example_" + re.sub(r"\W", "_", path)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


class Said:
    """What the examples print in this process, as far as it is about leading."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        self._lines += self._capsys.readouterr().out.splitlines()
        return self._lines

    async def wait_for(self, line: str, times: int = 1) -> None:
        """Waits until a line was printed that begins so, that many times."""
        with anyio.fail_after(PATIENCE):
            while sum(each.startswith(line) for each in self.lines) < times:  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


@pytest.fixture
def impatient() -> Iterator[ThreadedServer]:
    """A server whose sessions are short, so that one that is not heard of is missed soon."""
    with EmbeddedServer.in_thread(max_session_timeout=2.0) as server:
        yield server


# --- web applications, in this process ---------------------------------------------------------


@contextlib.asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application from its startup to its shutdown, as a server has them."""
    async with LifespanManager(app) as manager:
        transport = httpx.ASGITransport(manager.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            yield http


async def _status(http: httpx.AsyncClient, path: str) -> int:
    return (await http.get(path)).status_code


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


# --- Quart on trio, under hypercorn ------------------------------------------------------------


def _http_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_one_of_two_servers_of_quart_runs_the_scheduler(
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
        second.terminate()
        assert second.finish() == 0
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
