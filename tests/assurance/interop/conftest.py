"""One process for each library that shares a path with us, for all tests of interoperation."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest
from assurance.chaos.curator import CuratorNotFoundError
from assurance.interop.peers import Peer, PeerProcess, peer_command
from kit.clients import SESSION
from kit.raw_client import RawClient

import aiolead
from aiolead.testing import ZooKeeperServer

REQUIRED = "AIOLEAD_REQUIRE_CURATOR"


@pytest.fixture(scope="session", params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """One event loop is enough: what is tested is what is on the servers. The matrix has trio."""
    return request.param, {}


@pytest.fixture(scope="session")
def curator_process(zookeeper_installed: None) -> Iterator[PeerProcess]:
    try:
        command = peer_command("curator")
    except CuratorNotFoundError as missing:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but: {missing}", pytrace=False)
        pytest.skip(f"needs the real Curator: {missing}")
    with PeerProcess(command) as process:
        yield process


@pytest.fixture(scope="session")
def kazoo_process(zookeeper_installed: None) -> Iterator[PeerProcess]:
    with PeerProcess(peer_command("kazoo")) as process:
        yield process


@pytest.fixture(scope="session")
def aiozk_process(zookeeper_installed: None) -> Iterator[PeerProcess]:
    with PeerProcess(peer_command("aiozk")) as process:
        yield process


@pytest.fixture
def hosts(zookeeper: ZooKeeperServer, chroot: str) -> str:
    """A connect string with a chroot that exists, and that no other test uses."""
    with RawClient(zookeeper.connect_string) as client:
        client.create(chroot)
    return zookeeper.connect_string + chroot


@pytest.fixture
def curator(curator_process: PeerProcess, hosts: str) -> Callable[[], Peer]:
    """Makes one more client of the real Curator, to be entered."""
    return partial(Peer, curator_process, hosts)


@pytest.fixture
async def java(curator: Callable[[], Peer]) -> AsyncIterator[Peer]:
    """A client of the real Curator."""
    async with curator() as peer:
        yield peer


@pytest.fixture
def connect(hosts: str) -> Callable[[], aiolead.types.Connection]:
    """Makes one more client of aiolead, to be entered."""
    return lambda: aiolead.connect(hosts, session_timeout=SESSION)


@pytest.fixture
async def client(connect: Callable[[], aiolead.types.Connection]) -> AsyncIterator[aiolead.Client]:
    """A client of aiolead."""
    async with connect() as one:
        yield one
