"""Asking a holder to release: which holder is asked, and how it learns of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, in_memory, joined, raw
from kit.selection import on_embedded
from kit.virtual_time import Link, passes, settled, with_virtual_server
from recipes.crowd import crowd

from aiolead import Client, Election, Lock, ReadWriteLock, ReentrantLock
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/line"


@pytest.mark.parametrize("recipe", [Lock, ReentrantLock, Election])
async def test_holder_that_is_asked_releases_when_it_wants(
    server: ServerUnderTest, a: Client, b: Client, recipe: Any
) -> None:
    def hold(client: Client, identity: str) -> Any:
        if recipe is Election:
            return Election(client, PATH, identity=identity, on_revocation="ignore").leadership()
        return recipe(client, PATH, identity=identity).acquire()

    async with connect(server) as c, crowd() as them:
        them.come("a", to=hold(a, "me"))
        await joined(c, PATH, 1)
        them.come("b", to=hold(b, "you"))
        await joined(c, PATH, 2)
        await them.are_inside("a")
        held = them.inside["a"]
        assert not held.is_revocation_requested
        (asked,) = await recipe(c, PATH).revoke()
        assert (asked.identity, asked.session_id) == ("me", a.session_id)
        with anyio.fail_after(PATIENCE):
            await held.revocation_requested()
        assert held.is_revocation_requested
        held.check()  # nobody is forced
        them.leave("a")
        await them.are_inside("b")
        # All contenders still have their identities.
        await catch_up(c)
        assert [each.identity for each in await recipe(c, PATH).contenders()] == ["you"]
        await recipe(c, PATH).revoke()
        with anyio.fail_after(PATIENCE):
            await them.inside["b"].revocation_requested()


@on_embedded
async def test_asked_holder_is_still_known_and_is_not_asked_again(a: Client, b: Client) -> None:
    election = Election(a, PATH, identity="me", on_revocation="ignore")
    async with election.leadership() as term, Election(b, PATH).observe() as states:
        (asked,) = await Election(b, PATH).revoke()
        assert not asked.is_revocation_requested, "when it was asked"
        await term.revocation_requested()
        assert await Election(b, PATH).revoke() == []
        leader = await election.leader()
        assert leader is not None
        assert (leader.identity, leader.is_revocation_requested) == ("me", True)
        async for state in states:
            assert state.leader is not None
            assert state.leader.identity == "me"
            if state.leader.is_revocation_requested:
                break
    assert await election.revoke() == []


@on_embedded
async def test_only_curators_request_is_one(server: ServerUnderTest, a: Client) -> None:
    """Its `Revoker` replaces the data of the znode."""
    async with Lock(a, PATH, identity="me") as held:
        with raw(server) as operator:
            operator.set(held.path, b"anything")
            await held.verify()
            await held.verify()
            assert not held.is_revocation_requested
            operator.set(held.path, b"__REVOKE__")
        with anyio.fail_after(PATIENCE):
            await held.revocation_requested()
        (who,) = await Lock(a, PATH).holders()
        assert (who.identity, who.is_revocation_requested) == ("", True)


@on_embedded
async def test_curators_holder_is_asked_as_curator_asks(server: ServerUnderTest, a: Client) -> None:
    name = f"{PATH}/_c_00000000-0000-4000-8000-000000000000-lock-0000000000"
    with raw(server) as operator:
        operator.create(PATH, b"")
        operator.create(name, b"10.0.0.1")
        (asked,) = await Lock(a, PATH).revoke()
        assert asked.path == name
        assert operator.get(name) == b"__REVOKE__"


@on_embedded
async def test_waiter_that_is_asked_knows_it_as_it_holds(
    server: ServerUnderTest, a: Client, b: Client
) -> None:
    async with crowd() as them:
        async with Lock(a, PATH):
            them.come("b", to=Lock(b, PATH))
            line = await joined(a, PATH, 2)
            await eventually(lambda: len(b._core.machine.watches) == 2, "it watches")
            with raw(server) as operator:
                operator.set(f"{PATH}/{line[1]}", b"__REVOKE__")
        await them.are_inside("b")
        assert them.inside["b"].is_revocation_requested


@on_embedded
async def test_readers_and_writers_are_asked_apart_or_together(a: Client, b: Client) -> None:
    lock, other = ReadWriteLock(a, PATH), ReadWriteLock(b, PATH)
    async with lock.read as held:
        assert await other.write.revoke() == []
        (asked,) = await other.read.revoke()
        assert asked.path == held.path
        await held.revocation_requested()
    async with lock.write as held:
        assert await other.read.revoke() == []
        (asked,) = await other.revoke()
        assert asked.path == held.path
        await held.revocation_requested()
        await held.downgrade()
        assert held.is_revocation_requested
        await held.verify()


async def test_waiters_look_at_the_asked_holder_and_not_at_the_queue() -> None:
    async with EmbeddedServer(tick_time=3) as server:
        async with (
            in_memory(server, session_timeout=60) as a,
            in_memory(server, session_timeout=60) as b,
            in_memory(server, session_timeout=60) as c,
            crowd() as them,
        ):
            async with Lock(a, PATH) as held:
                for number in range(3):
                    them.come(str(number), to=Lock(b, PATH))
                    await joined(c, PATH, number + 2)
                await eventually(lambda: len(server.watches()) == 4, "all watch")
                before = server.requests.copy()
                await Lock(c, PATH).revoke()
                await held.revocation_requested()
                await eventually(
                    lambda: (server.requests - before)["GET_DATA"] >= 6, "they have looked again"
                )
                assert (server.requests - before)["GET_CHILDREN"] == 1, "that of the one who asks"
                assert them.log == []
            them.leave()
        assert them.log == ["0", "1", "2"]


@with_virtual_server
async def test_request_is_known_after_a_lost_connection(link: Link, a: Client, b: Client) -> None:
    async with Lock(a, PATH) as held:
        await passes(1.0)
        link.down()
        await settled()
        await Lock(b, PATH).revoke()
        assert not held.is_revocation_requested
        link.heal()
        await passes(1.0)
        assert held.is_revocation_requested


@on_embedded
async def test_identity_that_looks_like_a_request_is_refused(a: Client) -> None:
    with pytest.raises(ConfigurationError, match="asks a holder"):
        Lock(a, PATH, identity="__REVOKE__ me")
