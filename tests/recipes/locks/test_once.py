"""`Once`: which client runs a key, when the key is done, and how long that is remembered."""

from __future__ import annotations

from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from kit.clients import PATIENCE, in_memory
from kit.virtual_time import Link, lost_message, passes, settled, with_virtual_server
from recipes.cancelling import Moment, cancel_everywhere, moments
from recipes.crowd import crowd

from aiolead import ACL, AcquireTimeout, Auth, Client, CreateMode, Once
from aiolead.errors import (
    ClaimLost,
    ConnectionLossError,
    LossReason,
    Outcome,
    ReleaseError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Run

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/jobs/nightly"
KEY = "2026-11-21"
ZNODE = f"{PATH}/{KEY}"


async def do(client: Client, key: str = KEY, **options: Any) -> bool:
    """Claim a key, and run it unless it is done; return whether it was run here."""
    async with Once(client, PATH, **options).claim(key) as run:
        return run is not None


async def owner_of(client: Client, path: str = ZNODE) -> int | None:
    """The session that owns a znode, 0 for a persistent one; None if there is none."""
    await client.sync(path)
    stat = await client.exists(path)
    return None if stat is None else stat.ephemeral_owner


# --- what a claim gives --------------------------------------------------------------------------


async def test_key_runs_once(a: Client, b: Client) -> None:
    once = Once(a, PATH, identity="host-1")
    assert not await once.is_done(KEY)
    async with once.claim(KEY) as run:
        assert run is not None
        assert (run.path, run.identity, run.is_held, run.is_done) == (ZNODE, "host-1", True, False)
        assert await owner_of(b) == a.session_id
        assert not await once.is_done(KEY)
        holder = await Once(b, PATH).holder(KEY)
        assert holder is not None
        assert (holder.identity, holder.token) == ("host-1", run.token)
        await run.fenced().create("/written")
        await run.verify()
    assert (run.is_held, run.is_done, run.loss) == (False, True, None)
    await b.sync(ZNODE)
    data, stat = await b.get(ZNODE)
    assert (data, stat.ephemeral_owner) == (b"__DONE__host-1", 0)
    assert await once.holder(KEY) is None
    assert await once.is_done(KEY)
    assert [await do(client) for client in (a, b)] == [False, False]
    async with Once(b, PATH).try_claim(KEY) as again:
        assert again is None
    async with Once(b, PATH).claim(KEY, timeout=0) as again:
        assert again is None
    async with Once(b, PATH).claim(KEY, timeout=PATIENCE) as again:
        assert again is None
    assert await do(b, "2026-11-22")


async def test_body_that_raises_leaves_the_key_for_the_next_claim(a: Client, b: Client) -> None:
    error = ValueError("no invoices")
    with pytest.raises(ValueError) as caught:
        async with Once(a, PATH).claim(KEY) as run:
            raise error
    assert caught.value is error
    assert run is not None
    assert not run.is_done
    assert await owner_of(b) is None
    assert await do(b)


async def test_key_that_another_client_runs_is_waited_for(a: Client, b: Client) -> None:
    async with crowd() as them:
        them.come("a", to=Once(a, PATH).claim(KEY))
        await them.are_inside("a")
        async with Once(b, PATH).try_claim(KEY) as run:
            assert run is None
        for timeout in (0, 0.05):
            with pytest.raises(AcquireTimeout):
                async with Once(b, PATH).claim(KEY, timeout=timeout):
                    raise AssertionError("two run the key")
        them.come("b", to=Once(b, PATH).claim(KEY))
        assert await do(b, "another key")
        them.leave("a")
        await them.are_inside("b")
        assert them.inside["b"] is None
        them.leave("b")


async def test_waiter_runs_the_key_of_a_failed_run(a: Client, b: Client) -> None:
    async with crowd() as them:
        them.come("a", to=Once(a, PATH).claim(KEY))
        await them.are_inside("a")
        them.come("b", to=Once(b, PATH).claim(KEY, timeout=PATIENCE))
        them.cancel("a")
        await them.are_inside("b")
        assert them.inside["b"].is_held
        them.leave("b")
    assert await Once(b, PATH).is_done(KEY)


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["2026-11-21T03:00", ".", "..", "%2E", "a/b", "ä" * 128, "\0\n\x1b", " ", "%", "zookeeper"],
    ids=lambda key: ascii(key)[:20],
)
async def test_every_text_is_a_key(client: Client, key: str) -> None:
    assert await do(client, key)
    assert not await do(client, key)
    (name,) = await client.get_children(PATH)
    assert len(name) <= 3 * 256
    assert name.isascii()
    assert name.isprintable()


async def test_different_keys_have_different_znodes(client: Client) -> None:
    keys = [".", "%2E", "%252E", "a", "A", "a ", "a%20", "a+", "é", "e\u0301"]
    assert [await do(client, key) for key in keys] == [True] * len(keys)
    assert len(await client.get_children(PATH)) == len(keys)


# --- marking it as done --------------------------------------------------------------------------


@lost_message
@pytest.mark.parametrize("op", [OpCode.SET_DATA, OpCode.MULTI])
@with_virtual_server
async def test_lost_message_while_it_is_marked(
    server: EmbeddedServer, a: Client, b: Client, op: OpCode, drop: Any
) -> None:
    async with Once(a, PATH, identity="a").claim(KEY) as run:
        await settled()
        drop(server, op)
    assert run is not None
    assert run.is_done
    assert await b.get(ZNODE) == (b"__DONE__a", await b.exists(ZNODE))
    assert not await do(b)


@pytest.mark.parametrize("cancelled", [False, True], ids=["", "cancelled"])
@with_virtual_server
async def test_mark_that_is_not_confirmed_in_time_is_reported_and_goes_on(
    link: Link, a: Client, b: Client, cancelled: bool
) -> None:
    with anyio.CancelScope() as scope:
        with pytest.raises(ConnectionLossError, match=f"that {ZNODE} is done") as caught:
            async with Once(a, PATH).claim(KEY) as run:
                await passes(1.0)
                link.down()
                if cancelled:
                    scope.cancel()
    assert caught.value.outcome is Outcome.UNKNOWN
    assert run is not None
    assert not run.is_done
    link.heal()
    await passes(1.0)
    assert run.is_done
    assert not await do(b)


@moments
async def test_key_of_a_cancelled_run_is_done_or_free(moment: Moment) -> None:
    """`is_done` of the run says which, wherever it was cancelled."""
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        runs: list[Run | None] = []
        keys = map(str, count())
        key = ""

        async def work() -> None:
            nonlocal key
            key = next(keys)
            runs.append(None)
            async with Once(a, PATH, ttl=None).claim(key) as run:
                runs[-1] = run
                await anyio.lowlevel.checkpoint()

        async def afterwards() -> None:
            async with Once(b, PATH, ttl=None).claim(key, timeout=PATIENCE) as run:
                is_done = run is None
            last = runs[-1]
            assert is_done == (last is not None and last.is_done)

        await cancel_everywhere("scope", moment, a, work, afterwards)


@with_virtual_server
async def test_key_runs_again_if_the_session_ends_before_the_mark(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    with pytest.raises((ClaimLost, ConnectionLossError)):
        async with Once(a, PATH).claim(KEY) as run:
            await passes(1.0)
            link.down()
            server.expire_session(a.session_id)
    assert await do(b)
    link.heal()
    await passes(20.0)
    assert run is not None
    assert not run.is_done
    assert await owner_of(b) == 0


@with_virtual_server
async def test_run_that_begins_together_with_its_session_is_marked(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """A waiter's session expires, and it claims again before its client has the next session."""
    async with crowd() as them:
        them.come("b", to=Once(b, PATH).claim(KEY))
        await them.are_inside("b")
        them.come("a", to=Once(a, PATH).claim(KEY))
        await settled()
        link.down()
        server.expire_session(a.session_id)
        them.cancel("b")
        link.heal()
        await them.are_inside("a")
        run = them.inside["a"]
        them.leave("a")
    assert run.is_done
    assert await owner_of(b) == 0


async def test_run_whose_znode_was_deleted_marks_nothing(a: Client, b: Client) -> None:
    with pytest.raises(ClaimLost) as caught:
        async with Once(a, PATH).claim(KEY) as run:
            assert run is not None
            await run.verify()
            with anyio.CancelScope(shield=True):
                await b.delete(ZNODE)
                await b.create(ZNODE, mode=CreateMode.EPHEMERAL)
    assert caught.value.reason is LossReason.DELETED
    assert str(caught.value).startswith(f"claim of {ZNODE} lost")
    assert await owner_of(b) == b.session_id
    assert not run.is_done


@with_virtual_server
async def test_run_whose_znode_is_deleted_after_a_lost_answer_to_the_mark_is_lost(
    link: Link, a: Client, b: Client
) -> None:
    """The client looks for the mark again, and finds nothing; nobody has claimed the key since."""

    async def delete_it() -> None:
        await settled()
        await b.delete(ZNODE)
        link.down()
        await passes(0.1)
        link.heal()

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ClaimLost) as caught:
            async with Once(a, PATH).claim(KEY) as run:
                await passes(1.0)
                link.stall("to_client")
                tasks.start_soon(delete_it)
    assert caught.value.reason is LossReason.DELETED
    assert run is not None
    assert not run.is_done
    assert await owner_of(b) is None


@with_virtual_server
async def test_mark_is_not_set_for_the_znode_of_another_client(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """It was deleted and created again while the client could not know."""
    with pytest.raises(ClaimLost) as caught:
        async with Once(a, PATH).claim(KEY) as run:
            await passes(1.0)
            link.stall("to_client")
            await b.delete(ZNODE)
            await b.create(ZNODE, b"b", mode=CreateMode.EPHEMERAL)
            link.heal()
    assert caught.value.reason is LossReason.DELETED
    assert run is not None
    assert not run.is_done
    assert await owner_of(b) == b.session_id


@with_virtual_server
async def test_data_that_others_set_does_not_prevent_the_mark(a: Client, b: Client) -> None:
    async with Once(a, PATH, identity="a").claim(KEY):
        await b.set(ZNODE, b"x")
        await settled()
    assert (await b.get(ZNODE))[0] == b"__DONE__a"
    assert await owner_of(b) == 0


async def test_refused_mark_is_reported(a: Client, b: Client) -> None:
    await a.ensure_path(PATH)
    await a.set_acl(PATH, [ACL.world(Permission.ALL & ~Permission.DELETE)])
    with pytest.raises(ReleaseError):
        async with Once(a, PATH).claim(KEY):
            pass
    assert await owner_of(b) == a.session_id
    await a.set_acl(PATH, [ACL.world()])


async def test_lost_run_is_not_marked(a: Client, b: Client) -> None:
    with pytest.raises(ClaimLost):
        async with Once(a, PATH).claim(KEY) as run:
            assert run is not None
            run._lose_holds(LossReason.INTERNAL)
    assert await do(b)


async def test_marks_have_the_acl(client: Client) -> None:
    await client.add_auth(Auth.digest("me", "secret"))
    await do(client, acl=[ACL.auth()])
    assert (await client.get_acl(ZNODE))[0] == [ACL.digest("me", "secret")]
    await client.delete(ZNODE)


# --- how long it is remembered -------------------------------------------------------------------


async def keys_of(client: Client) -> list[str]:
    return sorted(await client.get_children(PATH))


@with_virtual_server
async def test_oldest_keys_are_forgotten_at_a_quarter_more_than_are_kept(
    a: Client, b: Client
) -> None:
    for number in range(10, 15):
        assert await do(a, str(number), keep=4, ttl=None)
        await passes(1.0)
    assert await keys_of(b) == ["10", "11", "12", "13", "14"]
    async with Once(a, PATH, keep=4, ttl=None).claim("15"), Once(b, PATH).claim("00"):
        await passes(1.0)
        # The two that run are not counted among those that are kept.
        assert await keys_of(b) == ["00", "11", "12", "13", "14", "15"]
    assert await do(a, "10", keep=4)


@with_virtual_server
async def test_old_keys_are_forgotten_after_their_time(a: Client, b: Client) -> None:
    once = Once(a, PATH, ttl=100.0)

    async def run(key: str, client_once: Once = once) -> None:
        async with client_once.claim(key) as run:
            assert run is not None
            await passes(1.0)

    await run("one")
    await passes(50.0)
    await run("two")
    assert await keys_of(b) == ["one", "two"]
    await passes(51.0)
    await run("three", Once(b, PATH, ttl=None))
    assert await keys_of(b) == ["one", "three", "two"]
    await run("four")
    assert await keys_of(b) == ["four", "three", "two"]


@with_virtual_server
async def test_old_keys_are_looked_for_once_an_hour_by_all_objects_of_a_client(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    def looks() -> int:
        return server.requests["GET_CHILDREN"]

    before = looks()
    for key in range(5):
        assert await do(a, str(key))
        await passes(1.0)
    assert looks() - before == 1
    assert await do(b, "another client")
    assert looks() - before == 2


@with_virtual_server
async def test_record_that_took_the_place_of_an_old_one_is_kept(
    link: Link, a: Client, b: Client
) -> None:
    """Another client has trimmed the key, and it has run again, since this one looked."""
    assert await do(b, "old")
    await passes(20.0)
    # The first look is that at the path.
    link.hold_reply(OpCode.EXISTS, after=1)
    async with Once(a, PATH, ttl=10.0).claim("another"):
        await settled()
        await b.delete(f"{PATH}/old")
        assert await do(b, "old")
        link.heal()
        await passes(1.0)
    assert await keys_of(b) == ["another", "old"]


@with_virtual_server
async def test_running_keys_and_those_with_znodes_below_are_kept(
    a: Client, b: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert await do(a, "below")
    await b.create(f"{PATH}/below/foreign")
    async with Once(a, PATH).claim("running"):
        await passes(100.0)
        async with Once(b, PATH, ttl=10.0).claim("another"):
            await passes(1.0)
    assert await keys_of(b) == ["another", "below", "running"]
    assert "Until then the key is remembered as done" in caplog.text
