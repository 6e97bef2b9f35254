"""The lock that is one znode: its holder, the next one, and the owner of the znode."""

from __future__ import annotations

from contextlib import nullcontext

import anyio
import pytest
from kit.clients import PATIENCE, in_memory
from kit.virtual_time import Link, passes, settled, with_virtual_server
from recipes.crowd import crowd

from aiolead import AcquireTimeout, Client, CreateMode, ExclusiveLock, Held, LockLost
from aiolead.errors import ConfigurationError, LossReason
from aiolead.testing import EmbeddedServer, OpCode

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PARENT = "/locks"
PATH = "/locks/nightly"


async def test_holder_is_listed_and_hold_describes_itself(a: Client, b: Client) -> None:
    lock = ExclusiveLock(a, PATH, identity="mé")
    assert await lock.holders() == []
    async with lock as held:
        (holder,) = await lock.holders()
        assert (holder.identity, holder.path, holder.token) == ("mé", PATH, held.token)
        assert (holder.session_id, holder.is_holder) == (a.session_id, True)
        assert (held.path, held.identity, held.session_id) == (PATH, "mé", a.session_id)
        await held.fenced().create("/written")
    assert await lock.holders() == []
    async with ExclusiveLock(b, PATH).try_acquire() as other:
        assert isinstance(other, Held)
        assert other.token > held.token


# --- whose znode it is ---------------------------------------------------------------------------


async def test_former_holder_leaves_the_znode_of_the_next_one(a: Client, b: Client) -> None:
    """An operator deletes the znode, and another client has created its own by the release."""
    async with crowd() as them:
        with pytest.raises(LockLost) as caught:
            async with ExclusiveLock(a, PATH) as held:
                await held.verify()
                with anyio.move_on_after(PATIENCE, shield=True):  # the body is cancelled meanwhile
                    await b.delete(PATH)
                    them.come("b", to=ExclusiveLock(b, PATH))
                    await them.are_inside("b")
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.DELETED
        await a.sync(PATH)
        assert them.inside["b"].token > held.token
        await them.inside["b"].verify()


async def test_waiter_whose_own_znode_was_deleted_leaves_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check before it holds shows that its znode is gone; then another client creates one."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await b.create(PARENT)
        proofs = iter([False])
        is_enough, check = a.backend.lease.is_enough, a.check

        async def deleted_before_it(path: str) -> None:
            await b.delete(path)
            try:
                await check(path)
            finally:
                await b.create(path, mode=CreateMode.EPHEMERAL)

        monkeypatch.setattr(type(a.backend.lease), "is_enough", lambda _: next(proofs, is_enough()))
        monkeypatch.setattr(type(a), "check", lambda _, path: deleted_before_it(path))
        with pytest.raises(AcquireTimeout):
            async with ExclusiveLock(a, PATH).acquire(timeout=0):
                raise AssertionError("two hold the lock")
        await a.sync(PATH)
        stat = await b.exists(PATH)
        assert stat is not None
        assert stat.ephemeral_owner == b.session_id


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "wanted"])
@with_virtual_server
async def test_create_without_an_answer_is_looked_for(
    server: EmbeddedServer, link: Link, a: Client, b: Client, applied: bool, cancelled: bool
) -> None:
    """The znode is used or deleted; it is created again only if the create was not applied."""
    await b.create(PARENT)
    async with crowd() as them:
        before = server.requests["CREATE2"]
        (server.drop_reply if applied else server.drop_request)(OpCode.CREATE2)
        link.refuse()
        them.come("a", to=ExclusiveLock(a, PATH))
        await settled()
        assert (PATH in server.znodes()) == applied
        if cancelled:
            them.cancel("a")
        link.heal()
        await passes(20.0)
        assert them.log == ([] if cancelled else ["a"])
    wanted = 1 if applied or cancelled else 2
    assert server.requests["CREATE2"] - before == wanted
    await passes(1.0)
    assert PATH not in server.znodes()


@with_virtual_server
async def test_create_that_is_applied_very_late_is_taken_over(
    server: EmbeddedServer, link: Link, a: Client
) -> None:
    """It is applied after it was looked for twice, and its client does not wait for itself."""
    await a.create(PARENT)
    async with crowd() as them:
        server.drop_request(OpCode.CREATE2)
        link.refuse()
        them.come("a", to=ExclusiveLock(a, PATH, identity="me"))
        await settled()
        them.cancel("a")
    link.heal()
    await passes(30.0)
    assert them.log == []
    assert PATH not in server.znodes()
    # As if the lost create was applied only now.
    ghost = a.create(PATH, b"me", mode=CreateMode.EPHEMERAL)
    await ghost
    async with ExclusiveLock(a, PATH, identity="me").acquire(timeout=1.0) as held:
        assert held.token == (await ghost).stat.czxid


@with_virtual_server
async def test_release_without_a_connection_leaves_the_next_holder(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """The session is over by the time there is a connection again."""
    async with ExclusiveLock(a, PATH):
        await passes(1.0)
        link.down()
        await settled()
    server.expire_session(a.session_id)
    async with ExclusiveLock(b, PATH) as other:
        link.heal()
        await a.ready()
        await passes(5.0)
        await other.verify()


@with_virtual_server
async def test_body_that_outlives_its_session_deletes_nothing(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """The client has a new session by the time the body ends, and another client holds."""
    async with crowd() as them:
        with pytest.raises(LockLost) as caught:
            async with ExclusiveLock(a, PATH) as held:
                await passes(1.0)
                them.come("b", to=ExclusiveLock(b, PATH))
                server.expire_session(a.session_id)
                with anyio.CancelScope(shield=True):
                    await passes(5.0)
        assert caught.value.reason is LossReason.EXPIRED
        assert a.session_id != held.session_id
        await passes(1.0)
        await them.inside["b"].verify()


@pytest.mark.parametrize("whose", ["the waiter's", "the holder's"])
@with_virtual_server
async def test_waiter_enters_after_a_session_ended(
    server: EmbeddedServer, a: Client, b: Client, whose: str
) -> None:
    is_lost = whose == "the holder's"
    async with crowd() as them:
        with pytest.raises(LockLost) if is_lost else nullcontext():
            async with ExclusiveLock(a, PATH):
                them.come("b", to=ExclusiveLock(b, PATH))
                await settled()
                server.expire_session((a if is_lost else b).session_id)
                await passes(1.0)
                assert them.log == []
                assert not is_lost
        await them.are_inside("b")
        assert them.inside["b"].session_id == b.session_id


# --- what it costs -------------------------------------------------------------------------------


def test_missing_client_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        ExclusiveLock(None, PATH)  # type: ignore[arg-type]
