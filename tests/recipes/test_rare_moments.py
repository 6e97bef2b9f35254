"""Moments that hardly ever come, made to come: on virtual time, one after the other, exactly.

Each of these tests is about one rule that another rule hides most of the time. What hides it is
kept out of the scene.
"""

from __future__ import annotations

import anyio
import pytest
from kit.clients import contenders_left, has_looked
from kit.virtual_time import SESSION, Link, connect, on_virtual_time, passes, settled

from aiolead import AcquireTimeout, Client, CreateMode, Election, Fenced, Lock, LockLost
from aiolead.errors import LossReason
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/line"
FIRST = "-lock-0000000000"
"""How the name of the first znode ends, in a line that was just made."""


def is_first(line: list[str]) -> bool:
    """Whether there is one znode in a line, the first that it has ever had."""
    return len(line) == 1 and line[0].endswith(FIRST)


class Somebody:
    """Takes a lock in a task of its own.

    Args:
        client: whose session it is.
        span: for how long the body goes on, in seconds.

    Attributes:
        entered: when the body began, and with which znode.
        left: when it ended.
    """

    def __init__(self, client: Client, span: float = 0.0) -> None:
        self.scope = anyio.CancelScope()
        self.entered: tuple[float, str] | None = None
        self.left: float | None = None
        self._lock = Lock(client, PATH, identity="somebody")
        self._span = span

    async def __call__(self) -> None:
        with self.scope:
            async with self._lock as held:
                self.entered = anyio.current_time(), held.path
                try:
                    await passes(self._span)
                finally:
                    self.left = anyio.current_time()


async def lost(link: Link, client: Client) -> None:
    """The link is lost, and the client knows."""
    link.lose()
    await settled()
    assert client.state is SessionState.SUSPENDED


# --- taking over ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1], ids=["theirs first", "ours first"])
def test_our_znode_and_the_one_before_us_are_deleted_in_one_go(
    backend: Backend, first: int
) -> None:
    """The news that the one before us is gone would make us the holder."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
            waiter = Somebody(b, span=1.0)
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
            assert waiter.entered is not None
            assert waiter.entered[1] not in line
            assert contenders_left(server, PATH) == [waiter.entered[1]]

    on_virtual_time(backend, play)


def test_the_session_ends_as_a_contender_in_front_proves_its_lease(backend: Backend) -> None:
    """It finds itself on a new session, so the first thing that it asks for is another znode."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with (
            link.connect() as a,
            connect(server) as operator,
            anyio.create_task_group() as tasks,
        ):
            await operator.create(PATH, mode=CreateMode.CONTAINER)
            await passes(3 * SESSION)  # nothing is proven any more
            first = Somebody(a)
            server.drop_request(OpCode.MULTI)
            link.room = 0
            tasks.start_soon(first)
            await settled()
            assert is_first(contenders_left(server, PATH))
            assert a.state is SessionState.SUSPENDED
            server.expire_session(a.session_id)
            before = server.requests.copy()
            link.restore()
            while server.requests == before:
                await settled()
            asked = server.requests - before
            assert asked["CREATE2"] == 1
            assert asked["GET_CHILDREN"] == 1  # with the create: nobody looks for the old znode
            assert asked["GET_DATA"] == 0
            await passes(10.0)
            assert first.entered is not None

    on_virtual_time(backend, play)


# --- names ---------------------------------------------------------------------------------------


def test_a_line_that_is_made_anew_has_no_namesakes(backend: Backend) -> None:
    """Its numbers begin anew. A fenced write of the holder before may have been held back so long.

    Then it must not take the znode of the new holder for the one that guards it.
    """

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b:
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

    on_virtual_time(backend, play)


def test_who_is_about_to_look_for_its_znode_has_one(backend: Backend) -> None:
    """The answer to its create was lost. Another one of its client comes before it has looked."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, anyio.create_task_group() as tasks:
            await a.create(PATH)
            first, second = Somebody(a, span=1.0), Somebody(a)
            server.drop_reply(OpCode.CREATE2)
            server.throttle(OpCode.EXISTS)  # so that it looks again, after a pause
            tasks.start_soon(first)
            await settled()
            await a.ready()
            assert is_first(contenders_left(server, PATH))
            assert first.entered is None
            tasks.start_soon(second)
            await passes(10.0)
            assert first.entered is not None
            assert first.entered[1].endswith(FIRST)

    on_virtual_time(backend, play)


def test_who_looks_for_its_znode_does_not_find_that_of_another_one_of_its_client(
    backend: Backend,
) -> None:
    """Its create was lost. Before it has looked, another one of its client is in front."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, anyio.create_task_group() as tasks:
            await a.create(PATH)
            first, second = Somebody(a), Somebody(a, span=5.0)
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
            assert second.left is not None
            assert first.entered is not None
            assert first.entered[0] >= second.left

    on_virtual_time(backend, play)


def test_the_holder_of_an_old_line_was_not_the_first_of_the_new_one(backend: Backend) -> None:
    """Its body still ends as another one of its client comes right after its number."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
            with pytest.raises(LockLost):
                async with Lock(a, PATH) as old:
                    assert is_first([old.path])
                    with anyio.CancelScope(shield=True):
                        await b.delete(old.path)
                        await b.delete(PATH)
                        holder, waiter = Somebody(b, span=5.0), Somebody(a)
                        tasks.start_soon(holder)
                        await passes(0.5)
                        assert is_first(contenders_left(server, PATH))
                        tasks.start_soon(waiter)
                        await passes(1.0)
                        assert holder.left is None
                        assert waiter.entered is None
            await passes(10.0)
            assert holder.left is not None
            assert waiter.entered is not None
            assert waiter.entered[0] >= holder.left

    on_virtual_time(backend, play)


def test_a_znode_of_our_name_is_not_ours(backend: Backend) -> None:
    """An operator deletes ours, and restores it, while we are disconnected: it is nobody's lock."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect(server) as operator:
            with pytest.raises(LockLost) as caught:
                async with Lock(a, PATH) as held:
                    await settled()
                    await lost(link, a)
                    data, _ = await operator.get(held.path)
                    restored = operator.transaction().delete(held.path).create(held.path, data)
                    await restored.commit()
                    link.restore()
                    await passes(10 * SESSION)
            assert caught.value.reason is LossReason.DELETED
            assert await operator.exists(held.path) is not None  # only ours is ours to delete

    on_virtual_time(backend, play)


# --- pending deletes -----------------------------------------------------------------------------


def test_a_debt_is_not_paid_with_the_znode_of_another(backend: Backend) -> None:
    """The delete was done, and its answer lost. Then the path was made anew: its numbers, too."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect(server) as b:
            server.drop_reply(OpCode.DELETE)
            async with Lock(a, PATH) as held:
                assert held.path.endswith(FIRST)
                link.room = 0
            assert contenders_left(server, PATH) == []
            await b.delete(PATH)
            async with Lock(b, PATH) as other:
                assert other.path.endswith(FIRST)
                link.restore()
                await a.ready()
                await passes(1.0)
                await other.verify()

    on_virtual_time(backend, play)


@pytest.mark.parametrize("cancelled", [False, True], ids=["wanted", "cancelled"])
def test_a_create_is_lost_in_the_session_that_came_while_it_waited_for_a_link(
    backend: Backend, cancelled: bool
) -> None:
    """It is looked for in that session, and found: to be used or deleted, and not sent again."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, anyio.create_task_group() as tasks:
            await a.create(PATH)
            before = server.requests["CREATE2"]
            await lost(link, a)
            server.expire_session(a.session_id)
            somebody = Somebody(a, span=5.0)
            tasks.start_soon(somebody)
            await settled()
            server.drop_reply(OpCode.CREATE2)
            link.room = 2  # the first one says that the session is over
            await passes(1.0)
            assert is_first(contenders_left(server, PATH))
            if cancelled:
                somebody.scope.cancel()
            link.restore()
            await a.ready()
            await passes(1.0)
            left = contenders_left(server, PATH)
            assert left == [] if cancelled else is_first(left)
            assert (somebody.entered is None) == cancelled
            assert server.requests["CREATE2"] - before == 1

    on_virtual_time(backend, play)


def test_a_create_is_applied_after_it_was_looked_for_in_vain(backend: Backend) -> None:
    """It was on its way for so long. There is one more look, when the session timeout has passed:
    whoever comes after the ghost would wait for it until the session ends.
    """

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a:
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

    on_virtual_time(backend, play)


@pytest.mark.parametrize("when", ["before", "after"])
def test_cancelled_before_or_after_the_link_of_its_create_is_lost(
    backend: Backend, when: str
) -> None:
    """Cancelled while nobody can say whether there is a znode. There is one; it goes."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, anyio.create_task_group() as tasks:
            await a.create(PATH)
            await has_looked(a, PATH)
            somebody = Somebody(a)
            link.hold()
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
            link.restore()
            await a.ready()
            await settled()
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["before it joins", "as it joins", "while it waits"])
def test_the_limit_of_a_wait_counts_while_there_is_no_link(backend: Backend, how: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)

        async def restored_later() -> None:
            await passes(5.0)
            link.restore()

        async with link.connect() as a, connect(server) as b, Lock(b, PATH):
            if how == "before it joins":
                await lost(link, a)
            elif how == "as it joins":
                server.drop_request(OpCode.CREATE2)
                link.room = 0
            else:
                server.drop_request(OpCode.SET_WATCHES)
                link.room = 0
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(restored_later)
                began = anyio.current_time()
                with pytest.raises(AcquireTimeout):
                    async with Lock(a, PATH).acquire(timeout=3.0):
                        pytest.fail("somebody else holds it")
                assert anyio.current_time() - began == pytest.approx(3.0, abs=0.01)
                tasks.cancel_scope.cancel()
            assert a.state is SessionState.SUSPENDED
            link.restore()

    on_virtual_time(backend, play)


def test_releasing_takes_a_third_of_the_timeout_at_most(backend: Backend) -> None:
    """It does not wait until the link is given up: the delete is the client's business by then."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a:
            began = anyio.current_time()
            async with Lock(a, PATH):
                server.pause()
            assert anyio.current_time() - began == pytest.approx(SESSION / 3, abs=0.01)
            server.resume()
            await settled()
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


# --- watches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["limit", "cancelled"])
def test_who_leaves_the_line_takes_its_watches_back(backend: Backend, why: str) -> None:
    """Also those on znodes that stay: an odd one with every attempt would be one too many."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, Lock(a, PATH) as held:
            if why == "limit":
                with pytest.raises(AcquireTimeout):
                    async with Lock(b, PATH).acquire(timeout=1.0):
                        pytest.fail("somebody else holds it")
            else:
                with anyio.move_on_after(1.0):
                    async with Lock(b, PATH):
                        pytest.fail("somebody else holds it")
            await settled()
            assert server.watches() == {held.path: {a.session_id}}
            assert len(b._core.machine.watches) == 0

    on_virtual_time(backend, play)


@pytest.mark.parametrize("why", ["nobody is there", "its session ends"])
def test_an_observer_outlives_a_look_that_fails(backend: Backend, why: str) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect(server) as b:
            async with Election(b, PATH, identity="b").leadership():
                if why == "nobody is there":
                    await lost(link, a)
                else:
                    server.drop_request(OpCode.GET_CHILDREN)
                    link.room = 0

                async def heal() -> None:
                    if why == "nobody is there":
                        await passes(SESSION + 1.0)  # requests are not kept for longer
                    else:
                        await settled()
                        server.expire_session(a.session_id)
                    link.restore()

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(heal)
                    async with Election(a, PATH).observe() as view:
                        leader = view.value.leader
                        assert leader is not None
                        assert leader.identity == "b"

    on_virtual_time(backend, play)
