"""One Java process with the real Curator, for all tests of interoperation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from chaos.curator import CuratorNotFoundError
from support.curator import Curator, CuratorProcess
from support.raw import RawClient
from support.recipes import SESSION

import aiolead
from aiolead.testing import ZooKeeperServer

REQUIRED = "AIOLEAD_REQUIRE_CURATOR"


@pytest.fixture(scope="session", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Two event loops are enough: what is tested is what is on the servers."""
    return request.param, {}


@pytest.fixture(scope="session")
def curator_process(zookeeper_installed: None) -> Iterator[CuratorProcess]:
    try:
        process = CuratorProcess()
    except CuratorNotFoundError as missing:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but: {missing}", pytrace=False)
        pytest.skip(f"needs the real Curator: {missing}")
    with process:
        yield process


@pytest.fixture
def hosts(zookeeper: ZooKeeperServer, chroot: str) -> str:
    """A connect string with a chroot that exists, and that no other test uses."""
    with RawClient(zookeeper.connect_string) as client:
        client.create(chroot)
    return zookeeper.connect_string + chroot


@pytest.fixture
def curator(curator_process: CuratorProcess, hosts: str) -> Callable[[], Curator]:
    """Makes one more client of the real Curator, to be entered."""
    return partial(Curator, curator_process, hosts)


@pytest.fixture
def connect(hosts: str) -> Callable[[], aiolead.Connection]:
    """Makes one more client of ours, to be entered."""
    return lambda: aiolead.connect(hosts, session_timeout=SESSION)
