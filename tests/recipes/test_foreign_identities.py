"""Identities of other clients' contenders may have any length, and are cut where they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from aiolead import Client, Election, ExclusiveLock, Lock, Semaphore
from aiolead.model import Participant
from aiolead.testing import EmbeddedServer

MAX_IDENTITY = 4096
"""The longest identity, in bytes, that a recipe takes: see test_first_mistakes.py."""


async def leaders(client: Client) -> list[Participant]:
    async with Election(client, "/there").observe() as view:
        return list(view.value.leaders)


LISTINGS: dict[str, Callable[[Client], Awaitable[list[Participant]]]] = {
    "Election.contenders": lambda client: Election(client, "/there").contenders(),
    "Election.observe": leaders,
    "ExclusiveLock.holders": lambda client: ExclusiveLock(client, "/one").holders(),
    "Lock.contenders": lambda client: Lock(client, "/there").contenders(),
}


@pytest.mark.parametrize(
    "mark",
    [b"", b"__REVOKE__", b"__UNREADY__", b"__REVOKE____UNREADY__"],
    ids=["", "asked to release", "not ready", "both"],
)
@pytest.mark.parametrize("name", LISTINGS)
async def test_long_identity_is_cut(
    embedded_server: EmbeddedServer, local: Client, name: str, mark: bytes
) -> None:
    kind = "latch" if name.startswith("Election") else "lock"
    embedded_server.create("/there")
    for path in (f"/there/{local.session_id:016x}-1-{kind}-0000000000", "/one"):
        embedded_server.create(path, mark + b"x" * 1_000_000)
    (found,) = await LISTINGS[name](local)
    assert len(found.identity) == MAX_IDENTITY
    assert found.is_revocation_requested == (b"__REVOKE__" in mark)
    assert found.is_ready == (b"__UNREADY__" not in mark)


async def test_own_identity_of_the_greatest_length_is_whole(local: Client) -> None:
    identity = "é" * (MAX_IDENTITY // 2)
    lock = Lock(local, "/lock", identity=identity)
    async with lock:
        await lock.revoke()
        (found,) = await lock.contenders()
    semaphore = Semaphore(local, "/semaphore", 1, identity=identity)
    async with semaphore:
        (holder,) = await semaphore.holders()
    assert found.identity == holder.identity == identity
    assert found.is_revocation_requested
