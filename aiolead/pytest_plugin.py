"""The pytest plugin: fixtures for code that uses ZooKeeper.

Every fixture is a plain one, and the servers live in threads or processes of their own. So they
work with any plugin for coroutine tests (anyio's, pytest-asyncio, pytest-trio) and without one.

pytest imports this in every session of an environment that has aiolead. So it imports nothing but
pytest until a test asks for a server; the package itself costs two modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import (
        BlockingEnsemble,
        EnsembleSandbox,
        FaultProxy,
        GivenServer,
        Sandbox,
        ThreadedServer,
    )
    from .types import Connection

__all__ = [
    "zookeeper",
    "zookeeper_client",
    "zookeeper_ensemble",
    "zookeeper_ensemble_servers",
    "zookeeper_proxy",
    "zookeeper_server",
]

_VERSION = "the version of ZooKeeper, such as 3.9.3, of the embedded server and the real ensemble"
_URL = "a ZooKeeper to run the tests against, as HOST:PORT,...[/CHROOT]; by default an embedded one"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zookeeper", "ZooKeeper (aiolead)")
    group.addoption("--zookeeper-url", metavar="HOSTS", help=_URL)
    parser.addini("zookeeper_url", _URL, default="")
    group.addoption("--zookeeper-version", metavar="VERSION", help=_VERSION)
    parser.addini("zookeeper_version", _VERSION, default="")


def _given(config: pytest.Config) -> str:
    return config.getoption("--zookeeper-url") or str(config.getini("zookeeper_url"))


def _version(config: pytest.Config) -> str:
    return config.getoption("--zookeeper-version") or str(config.getini("zookeeper_version"))


def pytest_report_header(config: pytest.Config) -> str | None:
    hosts, version = _given(config), _version(config)
    return f"zookeeper: {hosts or version}" if hosts or version else None


@pytest.fixture(scope="session")
def zookeeper_server(pytestconfig: pytest.Config) -> Iterator[ThreadedServer | GivenServer]:
    """The server of the whole run: an embedded one, or what `--zookeeper-url` names.

    Override it for another one: any context manager of `aiolead.testing` that blocks will do.
    """
    from .testing import EmbeddedServer, GivenServer

    hosts = _given(pytestconfig)
    if hosts:
        yield GivenServer(hosts)
    else:
        version, embedded = _version(pytestconfig), EmbeddedServer.in_thread
        with embedded(version=version) if version else embedded() as server:
            yield server


@pytest.fixture
def zookeeper(zookeeper_server: ThreadedServer | GivenServer) -> Iterator[Sandbox]:
    """A server, and an empty chroot in it that no other test uses: see `Sandbox`."""
    from .testing import Sandbox

    with Sandbox(zookeeper_server) as sandbox:
        yield sandbox


@pytest.fixture
def zookeeper_client(zookeeper: Sandbox) -> Callable[..., Connection]:
    """Makes clients: `async with zookeeper_client() as client`; takes what `connect` takes."""
    from functools import partial

    import aiolead

    return partial(aiolead.connect, zookeeper.connect_string)


@pytest.fixture
def zookeeper_proxy(zookeeper: Sandbox) -> FaultProxy:
    """A fault proxy before the server, with the same chroot, for clients that are to have trouble.

    Others connect to `zookeeper` itself. `zookeeper.proxy()` makes more of them.
    """
    return zookeeper.proxy()


@pytest.fixture(scope="session")
def zookeeper_ensemble_servers(pytestconfig: pytest.Config) -> Iterator[BlockingEnsemble]:
    """The real ensemble of the whole run: three servers, which can be partitioned.

    Needs Java and ZooKeeper, of the version that `--zookeeper-version` names; without them it is an
    error that says what to install. Override it for another one.
    """
    from .testing import BlockingEnsemble

    version = _version(pytestconfig) or None
    with BlockingEnsemble(3, partitionable=True, version=version) as ensemble:
        yield ensemble


@pytest.fixture
def zookeeper_ensemble(
    zookeeper_ensemble_servers: BlockingEnsemble,
) -> Iterator[EnsembleSandbox]:
    """A real ensemble, and an empty chroot in it that no other test uses: see `EnsembleSandbox`."""
    from .testing import EnsembleSandbox

    with EnsembleSandbox(zookeeper_ensemble_servers) as sandbox:
        yield sandbox
