"""The table holds on the embedded server, on a real one, and on a real ensemble."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up
from kit.raw_client import RawClient, features_of

from aiolead import Client, connect
from aiolead.testing import EmbeddedServer
from aiolead.types import Feature

from .steps import run
from .table import ANN, CASES, SMILING

pytestmark = pytest.mark.prefers_real_servers

CREDENTIALS = {"one": (), "other": (), "later": (), "ann": (ANN,), "smiling": (SMILING,)}

# What is no operation on the servers' tree, and has tests of its own.
ELSEWHERE = {
    "aclose",
    "backend",
    "chroot",
    "credentials",
    "detach",
    "healthy",
    "observe",
    "pipelined",
    "ready",
    "statistics",
    "update_hosts",
}


@cache
def features(hosts: str) -> frozenset[Feature]:
    """Those of a server, asked once."""
    return features_of(hosts)


@pytest.mark.parametrize("case", CASES)
async def test_every_server_answers_alike(case: str, server: ServerUnderTest) -> None:
    await told(case, server, features(server.hosts))


@pytest.fixture(scope="module")
def newest() -> Iterator[str]:
    """Where an embedded server is that has every feature."""
    version = max(release for feature in Feature for release in feature.releases)
    with EmbeddedServer.in_thread(version=".".join(map(str, version))) as server:
        yield server.connect_string


@pytest.mark.parametrize("case", CASES)
async def test_a_server_with_every_feature_answers_alike(
    case: str, newest: str, chroot: str
) -> None:
    with RawClient(newest) as client:
        client.create(chroot)
    found = features(newest)
    assert found == set(Feature)
    await told(case, ServerUnderTest("embedded", newest, chroot), found)


async def told(case: str, server: ServerUnderTest, features: frozenset[Feature]) -> None:
    clients: dict[str, Client] = {}
    last = ""
    with anyio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            for step in CASES[case]:
                if step.who not in clients:
                    connection = connect(server.connect_string, auth=CREDENTIALS[step.who])
                    clients[step.who] = await stack.enter_async_context(connection)
                client = clients[step.who]
                if step.who != last:
                    # Clients of different servers see each other's writes after this.
                    await catch_up(client)
                    last = step.who
                try:
                    await run(step.on(server.kind, features), client)
                except AssertionError as wrong:
                    raise AssertionError(f"{step.what}:{wrong}") from None


def test_every_operation_is_in_the_table() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_")
    }
    text = Path(__file__).with_name("table.py").read_text()
    text += Path(__file__).with_name("steps.py").read_text()
    used = {name for name in methods if re.search(rf'"{name}"|\.{name}\(', text)}
    assert methods - used - ELSEWHERE == set()
