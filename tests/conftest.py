"""The backends, the servers and the guards that all tests share.

A coroutine test runs once for each event loop. One that takes `server` runs, in addition, once for
each kind of server: the embedded one, a real ZooKeeper, a real ensemble of three.
`tests/kit/selection.py` says which of these combinations `make test` runs.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import trio
import uvloop
from kit.clients import OVER_AIOZK
from kit.guards import HangGuard, StallGuard, report_margins
from kit.raw_client import SESSION, RawClient
from kit.selection import (
    BACKENDS,
    SERVERS,
    QuickCollection,
    add_options,
    choose,
    configure,
    eager_loop,
    reaches_real_server,
)

from aiolead.testing.ensemble import BlockingEnsemble, Ensemble
from aiolead.testing.installation import ZooKeeperNotFoundError, find_installation
from aiolead.testing.servers import BlockingServer, ZooKeeperServer

# A process that a shell starts in the background ignores SIGINT and SIGQUIT, as do its children.
# The tests interrupt programs.
for _number, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)

# How long a step of an event loop takes says something about the machine, and nothing about what is
# tested: some tests look at everything that is logged.
logging.getLogger("asyncio").addFilter(
    lambda record: record.msg != "Executing %s took %.3f seconds"
)

# So does how long an example takes.
hypothesis.settings.register_profile("aiolead", deadline=None)
hypothesis.settings.load_profile("aiolead")

# Many tests start programs. Without bytecode, each program would compile the library again, which
# takes a good part of its time. So the bytecode is kept apart from the sources, except in copies
# with planted bugs, which change faster than bytecode is recognized as old.
_ROOT = Path(__file__).parents[1]
if (_ROOT / ".git").exists() and os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(_ROOT / ".pytest_cache/bytecode")
    # The test modules, too: to rewrite their assertions is more than half of what collecting takes.
    sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(QuickCollection())
    config.pluginmanager.register(StallGuard())
    config.pluginmanager.register(HangGuard())
    configure(config)


# --- event loops -------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The event loop that coroutine tests run on, one after the other."""
    return request.param


@pytest.fixture
async def right_backend(anyio_backend: tuple[str, dict[str, Any]]) -> None:
    """Fails a test that is about to run on another event loop than it says.

    A fixture of a wider scope that is a coroutine, but does not name `anyio_backend`, keeps the
    first event loop alive. Then every later test silently runs on that event loop.
    """
    name, options = anyio_backend
    if name == "trio":
        assert trio.lowlevel.in_trio_run()
        return
    loop, wanted = asyncio.get_running_loop(), options.get("loop_factory")
    assert isinstance(loop, uvloop.Loop) == (wanted is uvloop.new_event_loop), f"runs on {loop}"
    assert (loop.get_task_factory() is not None) == (wanted is eager_loop), f"runs on {loop}"


class _InternalErrors(logging.Handler):
    """Collects the unexpected errors that the library has contained."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("an unexpected error in the background"):
            self.records.append(record)


@pytest.fixture(autouse=True)
def internal_errors(request: pytest.FixtureRequest) -> Iterator[list[logging.LogRecord]]:
    """The unexpected errors in the log of the library: none, unless a test takes this fixture.

    Such an error ends neither the client nor the test, so that it would go unnoticed otherwise.
    """
    handler = _InternalErrors()
    logger = logging.getLogger("aiolead.client")
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)
    function = getattr(request, "function", None)
    if function is None or "internal_errors" not in inspect.signature(function).parameters:
        errors = [record.getMessage() for record in handler.records]
        assert errors == [], "errors that nothing but the log has shown"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: Any) -> None:
    if collector.istestfunction(obj, name):
        function = obj.hypothesis.inner_test if hasattr(obj, "hypothesis") else obj
        if inspect.iscoroutinefunction(function):
            pytest.mark.usefixtures("right_backend")(obj)


# --- servers -----------------------------------------------------------------------------------

_REQUIRED = "AIOLEAD_REQUIRE_ZOOKEEPER"
_SKIPPED = "needs a real ZooKeeper"


def _ensure_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("real") is None:
        pytest.fail("reaches a real server, and is not marked `real`", pytrace=False)


def _need_zookeeper() -> None:
    try:
        find_installation()
    except ZooKeeperNotFoundError as missing:
        if os.environ.get(_REQUIRED) == "1":
            pytest.fail(f"{_REQUIRED}=1, but: {missing}", pytrace=False)
        pytest.skip(_SKIPPED)


@pytest.fixture(scope="session")
def zookeeper_installed() -> None:
    """Take this in tests that start real servers of their own."""
    _need_zookeeper()


@pytest.fixture(scope="session")
def real_server() -> Iterator[BlockingServer]:
    """The standalone ZooKeeper of the whole run. Take `zookeeper` instead."""
    _need_zookeeper()
    with BlockingServer() as server:
        yield server


@pytest.fixture(scope="session")
def real_ensemble() -> Iterator[BlockingEnsemble]:
    """The ensemble of the whole run. Take `ensemble` instead."""
    _need_zookeeper()
    with BlockingEnsemble(3, partitionable=True) as ensemble:
        yield ensemble


@pytest.fixture
def zookeeper(
    real_server: BlockingServer, request: pytest.FixtureRequest
) -> Iterator[ZooKeeperServer]:
    """A real standalone ZooKeeper that the test may stop, kill or pause."""
    _ensure_marked(request)
    yield ZooKeeperServer.over(real_server)
    real_server.ensure_serving()


@pytest.fixture
def ensemble(real_ensemble: BlockingEnsemble, request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    """A real ensemble of three, whose servers the test may stop, kill, pause or isolate."""
    _ensure_marked(request)
    yield Ensemble.over(real_ensemble)
    real_ensemble.ensure_serving()


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[str]:
    """The connect string of an `EmbeddedServer` in a thread of its own."""
    from aiolead.testing.embedded import EmbeddedServer

    engine, _, version = request.config.getoption("--engine").partition(":")
    with EmbeddedServer.in_thread(
        max_session_timeout=SESSION, engine=engine, version=version or None
    ) as server:
        yield server.connect_string


@dataclass(frozen=True, slots=True)
class ServerUnderTest:
    """Where a behaviour test connects.

    Attributes:
        kind: "embedded", "standalone" or "ensemble".
        hosts: the servers, without a chroot.
        chroot: an empty znode that no other test uses.
    """

    kind: str
    hosts: str
    chroot: str

    @property
    def connect_string(self) -> str:
        return self.hosts + self.chroot


@pytest.fixture
def chroot() -> str:
    """A path that no other test uses. It is not created here."""
    return f"/test-{uuid.uuid4().hex}"


@pytest.fixture(params=SERVERS[: 1 if OVER_AIOZK else None])
def server(request: pytest.FixtureRequest, chroot: str) -> ServerUnderTest:
    """A server of each kind in turn, with an empty chroot of the test's own."""
    match request.param:
        case "embedded":
            hosts = request.getfixturevalue("embedded")
        case "standalone":
            hosts = request.getfixturevalue("zookeeper").connect_string
        case _:
            hosts = request.getfixturevalue("ensemble").connect_string
    with RawClient(hosts) as client:
        client.create(chroot)
    return ServerUnderTest(request.param, hosts, chroot)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if OVER_AIOZK:
        others = choose(items)
        config.hook.pytest_deselected(items=others)
    for item in items:
        if reaches_real_server(item):
            item.add_marker(pytest.mark.real)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    # Here, and not beside the tests that measure them: with several workers, the process that
    # reports does not collect, and reads no conftest.py but this one.
    report_margins(terminalreporter)
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", ())
        if _SKIPPED in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.section("NOT TESTED against a real ZooKeeper", red=True)
        for report in skipped:
            terminalreporter.line(report.nodeid)
        try:
            find_installation()
        except ZooKeeperNotFoundError as missing:
            terminalreporter.line(str(missing))
        terminalreporter.line(f"{len(skipped)} tests; {_REQUIRED}=1 turns this into a failure.")
