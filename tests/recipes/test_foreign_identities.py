"""Identities of other clients' contenders may have any length, and are cut where they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from kit.clients import connect

from aiolead import (
    Client,
    Election,
    ExclusiveLock,
    Lock,
    Semaphore,
)
from aiolead._recipes._core.participants import MARK, MAX_IDENTITY
from aiolead.model import Participant
from aiolead.testing import EmbeddedServer

LONG = 1_000_000


async def leaders(client: Client) -> list[Participant]:
    async with Election(client, "/there").observe() as view:
        return list(view.value.leaders)


LISTINGS: dict[str, Callable[[Client], Awaitable[list[Participant]]]] = {
    "Election.contenders": lambda client: Election(client, "/there").contenders(),
    "Election.observe": leaders,
    "Lock.contenders": lambda client: Lock(client, "/there").contenders(),
}


@pytest.mark.parametrize("mark", [b"", MARK], ids=["", "asked to release"])
@pytest.mark.parametrize("name", LISTINGS)
async def test_a_long_identity_is_cut(name: str, mark: bytes) -> None:
    kind = "latch" if name.startswith("Election") else "lock"
    async with EmbeddedServer() as server, connect(server) as client:
        server.create("/there")
        contender = f"/there/{client.session_id:016x}-1-{kind}-0000000000"
        server.create(contender, mark + b"x" * LONG)
        found = await LISTINGS[name](client)
    assert [len(one.identity) for one in found] == [MAX_IDENTITY]
    assert [one.is_revocation_requested for one in found] == [bool(mark)]


async def test_a_long_identity_of_a_fixed_znode_is_cut() -> None:
    async with EmbeddedServer() as server, connect(server) as client:
        server.create("/one", b"x" * LONG)
        one = await ExclusiveLock(client, "/one").holders()
    assert [len(each.identity) for each in one] == [MAX_IDENTITY]


async def test_an_own_identity_of_the_greatest_length_is_whole() -> None:
    identity = "é" * (MAX_IDENTITY // 2)
    async with EmbeddedServer() as server, connect(server) as client:
        lock = Lock(client, "/lock", identity=identity)
        async with lock:
            await lock.revoke()
            (found,) = await lock.contenders()
        semaphore = Semaphore(client, "/semaphore", 1, identity=identity)
        async with semaphore:
            (holder,) = await semaphore.holders()
    assert found.identity == identity
    assert found.is_revocation_requested
    assert holder.identity == identity
