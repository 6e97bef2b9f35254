"""Those before us are watched without being read: what becomes of a wait where that says nothing.

On virtual time.
"""

from __future__ import annotations

import anyio
import pytest
from kit.clients import contenders_left, has_looked
from kit.virtual_time import SESSION, Link, connect, on_virtual_time, passes, settled

from aiolead import ACL, CreateMode, Lock
from aiolead.errors import NoAuthError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/line"
PATIENCE = SESSION / 4
"""After which a waiter asks for those before it, in seconds."""

UNREADABLE = [ACL.world(Permission.ALL & ~Permission.READ)]


def keep_to_itself(server: EmbeddedServer, path: str) -> None:
    """What becomes of a znode is not told, as servers do it whose watchers may not read it."""
    watches = server._running.core.processor.watches
    for watcher in watches.by_path()[path]:
        watches._data.discard(path, watcher)


def test_who_is_not_told_of_a_departure_finds_out(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
            entered: list[float] = []

            async def wait_in_line() -> None:
                async with Lock(b, PATH):
                    entered.append(anyio.current_time())

            async with Lock(a, PATH) as held:
                tasks.start_soon(wait_in_line)
                await settled()
                began = anyio.current_time()
                keep_to_itself(server, held.path)
                await passes(PATIENCE / 2)
            before = server.requests.copy()
            await passes(PATIENCE)
            assert entered == [pytest.approx(began + PATIENCE, abs=0.1)]
            asked = server.requests - before
            assert asked["GET_DATA"] == 1

    on_virtual_time(backend, play)


def test_who_had_left_before_it_was_watched_is_not_waited_for(backend: Backend) -> None:
    """The listing has shown it still; that it is gone is told before the watches are set."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with connect(server) as a, link.connect() as b, anyio.create_task_group() as tasks:
            entered: list[float] = []

            async def wait_in_line() -> None:
                async with Lock(b, PATH):
                    entered.append(anyio.current_time())

            async with Lock(a, PATH):
                await has_looked(b, PATH)
                link.hold()
                tasks.start_soon(wait_in_line)
                await settled()
                assert len(contenders_left(server, PATH)) == 2
            await settled()
            before = server.requests.copy()
            link.release()
            await settled()
            assert len(entered) == 1
            asked = server.requests - before
            assert asked["SET_WATCHES"] == 1
            assert asked["GET_CHILDREN"] == 0

    on_virtual_time(backend, play)


def test_who_waits_for_long_reads_once_those_before_it(backend: Backend) -> None:
    """In the place of a ping."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:

            async def wait_in_line() -> None:
                async with Lock(b, PATH):
                    pass

            async with Lock(a, PATH):
                await passes(1.0)  # so that the holder has looked at its own znode
                tasks.start_soon(wait_in_line)
                await settled()
                before = server.requests.copy()
                await passes(5 * PATIENCE)
                assert (server.requests - before)["GET_DATA"] == 1
            await settled()
            assert contenders_left(server, PATH) == []

    on_virtual_time(backend, play)


def test_a_neighbour_that_may_not_be_read_is_refused(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b:
            await a.create(PATH)
            other = f"{PATH}/_c_other-lock-"
            await a.create(other, mode=CreateMode.EPHEMERAL_SEQUENTIAL, acl=UNREADABLE)
            began = anyio.current_time()
            with pytest.raises(NoAuthError):
                async with Lock(b, PATH):
                    pytest.fail("it holds beside the other")
            assert anyio.current_time() - began == pytest.approx(PATIENCE, abs=0.1)
            await settled()
            assert len(contenders_left(server, PATH)) == 1

    on_virtual_time(backend, play)


def test_who_may_not_read_its_own_znode_learns_it_at_once(backend: Backend) -> None:
    """Nobody would tell it that others have deleted that."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, Lock(a, PATH):
            began = anyio.current_time()
            with pytest.raises(NoAuthError):
                async with Lock(b, PATH, acl=UNREADABLE):
                    pytest.fail("it holds beside the other")
            assert anyio.current_time() - began < 0.1

    on_virtual_time(backend, play)
