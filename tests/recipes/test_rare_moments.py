"""Moments that hardly ever come, made to come: on virtual time, one after the other, exactly.

Each of these tests is about one rule that another rule hides most of the time. The
other rule is kept out of the scene.
"""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest
from kit.clients import contenders_left, has_looked
from kit.virtual_time import SESSION, Link, passes, settled, with_virtual_server
from recipes.blocks import Holder, enter

from aiolead import AcquireTimeout, Client, CreateMode, Election, Fenced, Lock, LockLost
from aiolead._recipes.layouts import Role, names_of
from aiolead._recipes.naming import OwnNames, Sequential
from aiolead._recipes.znode import Znode, ZnodeState
from aiolead.errors import LossReason
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Layout

PATH = "/line"
FIRST = "-lock-0000000000"
"""How the name of the first znode ends, in a line that was just made."""


def is_first(line: list[str]) -> bool:
    """Whether there is one znode in a line, the first that it has ever had."""
    return len(line) == 1 and line[0].endswith(FIRST)


def contender(client: Client, span: float = 0.0) -> Holder:
    return Holder(Lock(client, PATH, identity="somebody"), span)


async def lost(link: Link, client: Client) -> None:
    """The connection is lost, and the client knows."""
    link.down()
    await settled()
    assert client.state is SessionState.SUSPENDED


# --- taking over ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1], ids=["theirs first", "ours first"])
@with_virtual_server
async def test_contender_deleted_together_with_its_predecessor_joins_again(
    server: EmbeddedServer, a: Client, b: Client, first: int
) -> None:
    """The news that the one before us is gone would make us the holder."""
    async with anyio.create_task_group() as tasks:
        waiter = contender(b, span=1.0)
        line: list[str] = []
        with pytest.raises(LockLost):
            async with Lock(a, PATH):
                tasks.start_soon(waiter)
                await settled()
                line += contenders_left(server, PATH)
                both = a.transaction().delete(line[first]).delete(line[1 - first])
                await both.commit()
                await passes(1.0)
        await settled()
        assert waiter.has_entered
        assert waiter.held.path not in line
        assert contenders_left(server, PATH) == [waiter.held.path]


@with_virtual_server
async def test_first_contender_joins_again_if_the_session_ends_as_it_proves_its_lease(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """It finds itself on a new session, so the first thing that it asks for is another znode."""
    async with anyio.create_task_group() as tasks:
        await b.create(PATH, mode=CreateMode.CONTAINER)
        await passes(3 * SESSION)  # nothing is proven any more
        first = contender(a)
        server.drop_request(OpCode.MULTI)
        link.refuse()
        tasks.start_soon(first)
        await settled()
        assert is_first(contenders_left(server, PATH))
        assert a.state is SessionState.SUSPENDED
        server.expire_session(a.session_id)
        before = server.requests.copy()
        link.heal()
        while server.requests == before:
            await settled()
        asked = server.requests - before
        assert asked["CREATE2"] == 1
        assert asked["GET_CHILDREN"] == 1  # with the create: nobody looks for the old znode
        assert asked["GET_DATA"] == 0
        await passes(10.0)
        assert first.has_entered


# --- names ---------------------------------------------------------------------------------------


@with_virtual_server
async def test_recreated_queue_repeats_no_name(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """Its numbers begin again. A fenced write of the holder before may have been held back so long.

    Then it must not take the znode of the new holder for the one that guards it.
    """
    await b.create("/written", b"")
    with pytest.raises(LockLost):
        async with Lock(a, PATH) as held:
            await b.delete(held.path)
            await b.delete(PATH)
            async with Lock(b, PATH) as other:
                assert other.path != held.path
                assert is_first([other.path])
                with pytest.raises(Fenced):  # not by what we know of it: by the server
                    await a.fenced(held.path).set("/written", b"late")
                await other.fenced().set("/written", b"in time")


@with_virtual_server
async def test_contender_finds_its_znode_after_a_lost_answer(
    server: EmbeddedServer, a: Client
) -> None:
    """The answer to its create was lost. Another one of its client comes before it has looked."""
    async with anyio.create_task_group() as tasks:
        await a.create(PATH)
        first, second = contender(a, span=1.0), contender(a)
        server.drop_reply(OpCode.CREATE2)
        server.throttle(OpCode.EXISTS)  # so that it looks again, after a pause
        tasks.start_soon(first)
        await settled()
        await a.ready()
        assert is_first(contenders_left(server, PATH))
        assert not first.has_entered
        tasks.start_soon(second)
        await passes(10.0)
        assert first.has_entered
        assert first.held.path.endswith(FIRST)


@with_virtual_server
async def test_contender_does_not_find_the_znode_of_its_sibling(
    server: EmbeddedServer, a: Client
) -> None:
    """Its create was lost. Before it has looked, another one of its client is in front."""
    async with anyio.create_task_group() as tasks:
        await a.create(PATH)
        first, second = contender(a), contender(a, span=5.0)
        server.drop_request(OpCode.CREATE2)
        server.throttle(OpCode.MULTI)  # so that it looks again, after a pause
        tasks.start_soon(first)
        await settled()
        await a.ready()
        assert contenders_left(server, PATH) == []
        tasks.start_soon(second)
        await settled()
        assert is_first(contenders_left(server, PATH))
        await passes(10.0)
        assert first.entered_at >= second.left_at


@with_virtual_server
async def test_holder_of_an_old_queue_is_not_the_first_of_the_new_one(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """Its body still ends as another one of its client comes right after its number."""
    async with anyio.create_task_group() as tasks:
        with pytest.raises(LockLost):
            async with Lock(a, PATH) as old:
                assert is_first([old.path])
                with anyio.CancelScope(shield=True):
                    await b.delete(old.path)
                    await b.delete(PATH)
                    holder, waiter = contender(b, span=5.0), contender(a)
                    tasks.start_soon(holder)
                    await passes(0.5)
                    assert is_first(contenders_left(server, PATH))
                    tasks.start_soon(waiter)
                    await passes(1.0)
                    assert not holder.has_left
                    assert not waiter.has_entered
        await passes(10.0)
        assert waiter.entered_at >= holder.left_at


@with_virtual_server
async def test_restored_znode_of_the_same_name_is_no_hold(link: Link, a: Client, b: Client) -> None:
    """An operator deletes and restores it during a lost connection: it is nobody's lock."""
    with pytest.raises(LockLost) as caught:
        async with Lock(a, PATH) as held:
            await settled()
            await lost(link, a)
            data, _ = await b.get(held.path)
            await b.transaction().delete(held.path).create(held.path, data)
            link.heal()
            await passes(10 * SESSION)
    assert caught.value.reason is LossReason.DELETED
    assert await b.exists(held.path) is not None  # it is not the client's to delete


# --- pending deletes -----------------------------------------------------------------------------


@with_virtual_server
async def test_pending_delete_does_not_delete_the_znode_of_another(
    server: EmbeddedServer, link: Link, a: Client, b: Client
) -> None:
    """The answer to the delete was lost. The path was created again, with the same numbers."""
    server.drop_reply(OpCode.DELETE)
    async with Lock(a, PATH) as held:
        assert held.path.endswith(FIRST)
        link.refuse()
    assert contenders_left(server, PATH) == []
    await b.delete(PATH)
    async with Lock(b, PATH) as other:
        assert other.path.endswith(FIRST)
        link.heal()
        await a.ready()
        await passes(1.0)
        await other.verify()


@pytest.mark.parametrize("cancelled", [False, True], ids=["wanted", "cancelled"])
@with_virtual_server
async def test_create_lost_in_the_next_session_is_looked_for_there(
    server: EmbeddedServer, link: Link, a: Client, cancelled: bool
) -> None:
    """It is looked for in that session, and found: to be used or deleted, and not sent again."""
    async with anyio.create_task_group() as tasks:
        await a.create(PATH)
        before = server.requests["CREATE2"]
        await lost(link, a)
        server.expire_session(a.session_id)
        somebody = contender(a, span=5.0)
        tasks.start_soon(somebody)
        await settled()
        server.drop_reply(OpCode.CREATE2)
        link.refuse(after=2)  # the first one says that the session is over
        await passes(1.0)
        assert is_first(contenders_left(server, PATH))
        if cancelled:
            somebody.scope.cancel()
        link.heal()
        await a.ready()
        await passes(1.0)
        left = contenders_left(server, PATH)
        assert left == [] if cancelled else is_first(left)
        assert somebody.has_entered != cancelled
        assert server.requests["CREATE2"] - before == 1


@with_virtual_server
async def test_create_applied_after_the_search_is_deleted(
    server: EmbeddedServer, a: Client
) -> None:
    """It was on its way for so long. There is one more look, when the session timeout has passed.
    Otherwise later contenders would wait for the ghost until the session ends.
    """
    await a.create(PATH)
    server.drop_request(OpCode.CREATE2)
    async with Lock(a, PATH, identity="a") as held:
        assert server.requests["CREATE2"] == 3
        began = anyio.current_time()
        lost = held.path[: -len("2-lock-0000000000")] + "1-lock-"
        ghost = await a.create(lost, b"a", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
        await anyio.sleep_until(began + SESSION - 0.1)
        assert set(contenders_left(server, PATH)) == {held.path, ghost.path}
        await anyio.sleep_until(began + SESSION + 0.1)
        assert contenders_left(server, PATH) == [held.path]


@pytest.mark.parametrize("when", ["before", "after"])
@with_virtual_server
async def test_create_is_deleted_if_cancelled_around_a_lost_link(
    server: EmbeddedServer, link: Link, a: Client, when: str
) -> None:
    """Cancelled while nobody can say whether there is a znode. There is one; it goes."""
    async with anyio.create_task_group() as tasks:
        await a.create(PATH)
        await has_looked(a, PATH)
        somebody = contender(a)
        link.stall("to_client")
        tasks.start_soon(somebody)
        await settled()
        assert is_first(contenders_left(server, PATH))
        if when == "before":
            somebody.scope.cancel()
            await settled()
        await lost(link, a)
        somebody.scope.cancel()
        await settled()
        assert is_first(contenders_left(server, PATH))
        link.heal()
        await a.ready()
        await settled()
        assert contenders_left(server, PATH) == []


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dropped",
    [None, OpCode.CREATE2, OpCode.GET_DATA],
    ids=["lost before it joins", "as it joins", "while it waits"],
)
@with_virtual_server
async def test_timeout_counts_while_there_is_no_link(
    server: EmbeddedServer, link: Link, a: Client, b: Client, dropped: OpCode | None
) -> None:
    async with Lock(b, PATH), anyio.create_task_group() as tasks:
        if dropped is None:
            await lost(link, a)
        else:
            server.drop_request(dropped)
            link.refuse()

        async def restored_later() -> None:
            await passes(5.0)
            link.heal()

        tasks.start_soon(restored_later)
        began = anyio.current_time()
        with pytest.raises(AcquireTimeout):
            await enter(Lock(a, PATH).acquire(timeout=3.0))
        assert anyio.current_time() - began == pytest.approx(3.0, abs=0.01)
        assert a.state is SessionState.SUSPENDED


# --- watches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [1.0, None], ids=["timeout", "cancelled"])
@with_virtual_server
async def test_leaving_the_queue_removes_the_watches(
    server: EmbeddedServer, a: Client, b: Client, timeout: float | None
) -> None:
    """Also those on znodes that stay: one more with every attempt would be one too many."""
    async with Lock(a, PATH) as held:
        with anyio.move_on_after(2.0), suppress(AcquireTimeout):
            await enter(Lock(b, PATH).acquire(timeout=timeout))
            pytest.fail("another client holds it")
        await settled()
        assert server.watches() == {held.path: {a.session_id}}
        assert len(b._core.machine.watches) == 0


@pytest.mark.parametrize("why", ["no server answers", "the session ends"])
@with_virtual_server
async def test_observer_goes_on_after_a_failed_read(
    server: EmbeddedServer, link: Link, a: Client, b: Client, why: str
) -> None:
    async def heal() -> None:
        if why == "no server answers":
            await passes(SESSION + 1.0)  # requests are not kept for longer
        else:
            await settled()
            server.expire_session(a.session_id)
        link.heal()

    async with Election(b, PATH, identity="b").leadership(), anyio.create_task_group() as tasks:
        if why == "no server answers":
            await lost(link, a)
        else:
            server.drop_request(OpCode.GET_CHILDREN)
            link.refuse()
        tasks.start_soon(heal)
        async with Election(a, PATH).observe() as view:
            leader = view.value.leader
            assert leader is not None
            assert leader.identity == "b"


# --- two znodes, one after the other -------------------------------------------------------------


@with_virtual_server
async def test_event_of_a_withdrawn_znode_does_not_concern_the_next_one(client: Client) -> None:
    """The deletion is reported before the delete is answered, and so is the next create."""
    await client.ensure_path(PATH)
    names = names_of(Layout.CURATOR, Role.LOCK)
    naming = Sequential(client, OwnNames(), PATH, names.prefix)
    znode = Znode(client, naming, b"", None, None)
    await znode.create()
    znode.watch()
    await settled()
    znode.withdraw()
    await znode.create()
    await settled()
    znode.check()
    assert znode.state is ZnodeState.PRESENT
