"""Asking a holder to let go: who is asked, how he hears of it, and who is left alone."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, connect, eventually, in_memory, joined, raw
from kit.virtual_time import Link, on_virtual_time, passes, settled
from kit.virtual_time import connect as connect_virtually

from aiolead import Election, Lock, Phase, ReadWriteLock, ReentrantLock
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
]

PATH = "/line"

on_embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.mark.parametrize("recipe", [Lock, ReentrantLock, Election])
async def test_the_holder_is_asked_and_lets_go(
    server: ServerUnderTest, recipe: type[Lock | ReentrantLock | Election]
) -> None:
    log: list[str] = []

    async with connect(server) as a, connect(server) as b, connect(server) as c:
        mine, theirs = recipe(a, PATH, identity="me"), recipe(b, PATH, identity="you")

        def turn(which: Lock | ReentrantLock | Election):
            return which.leadership() if isinstance(which, Election) else which.acquire()

        async def hold(which: Lock | ReentrantLock | Election, name: str) -> None:
            async with turn(which) as held:
                assert not held.is_revocation_requested
                log.append(f"{name} holds")
                await held.revocation_requested()
                assert held.is_revocation_requested
                held.check()  # nobody is forced
                log.append(f"{name} lets go")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold, mine, "a")
            await joined(c, PATH, 1)
            tasks.start_soon(hold, theirs, "b")
            await joined(c, PATH, 2)
            await eventually(lambda: log == ["a holds"], "a holds")
            asker = recipe(c, PATH)
            (asked,) = await asker.revoke()
            assert (asked.identity, asked.session_id) == ("me", a.session_id)
            await eventually(lambda: log[1:] == ["a lets go", "b holds"], "b holds")
            # Everybody still says who he is.
            await catch_up(c)
            line = await asker.contenders()
            assert [who.identity for who in line] == ["you"]
            await asker.revoke()
        assert log[3:] == ["b lets go"]


@on_embedded
async def test_who_is_asked_is_still_known_and_not_asked_again(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        election = Election(a, PATH, identity="me")
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
async def test_curators_request_is_understood(server: ServerUnderTest) -> None:
    """Its `Revoker` replaces what is in the znode."""
    async with connect(server) as a:
        async with Lock(a, PATH, identity="me") as held:
            with raw(server) as operator:
                operator.set(held.path, b"anything")
                operator.set(held.path, b"__REVOKE__")
            with anyio.fail_after(PATIENCE):
                await held.revocation_requested()
            (who,) = await Lock(a, PATH).holders()
            assert (who.identity, who.is_revocation_requested) == ("", True)


@on_embedded
async def test_other_changes_are_no_request(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        async with Election(a, PATH).leadership() as term:
            with raw(server) as operator:
                operator.set(term.path, b"anything")
            await term.verify()
            await term.verify()
            assert not term.is_revocation_requested


@on_embedded
async def test_curators_holder_is_asked_as_curator_asks(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        name = f"{PATH}/_c_00000000-0000-4000-8000-000000000000-lock-0000000000"
        with raw(server) as operator:
            operator.create(PATH, b"")
            operator.create(name, b"10.0.0.1")
            (asked,) = await Lock(a, PATH).revoke()
            assert asked.path == name
            assert operator.get(name) == b"__REVOKE__"


@on_embedded
async def test_who_is_asked_while_it_waits_hears_of_it_as_it_holds(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
        heard = anyio.Event()

        async def wait() -> None:
            async with Lock(b, PATH) as held:
                assert held.is_revocation_requested
                heard.set()

        async with Lock(a, PATH):
            tasks.start_soon(wait)
            line = await joined(a, PATH, 2)
            await eventually(lambda: len(b._core.machine.watches) == 2, "it watches")
            with raw(server) as operator:
                operator.set(f"{PATH}/{line[1]}", b"__REVOKE__")
        await heard.wait()


@on_embedded
async def test_readers_and_writers_are_asked_apart_or_together(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
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


async def test_waiters_are_not_disturbed() -> None:
    """Who watches the one that was asked looks at that one again, and not at the whole line."""
    async with EmbeddedServer(tick_time=3) as server:
        async with (
            in_memory(server, session_timeout=60) as a,
            in_memory(server, session_timeout=60) as b,
            in_memory(server, session_timeout=60) as c,
            anyio.create_task_group() as tasks,
        ):
            entered: list[int] = []

            async def wait(number: int) -> None:
                async with Lock(b, PATH):
                    entered.append(number)

            async with Lock(a, PATH) as held:
                for number in range(3):
                    tasks.start_soon(wait, number)
                    await joined(c, PATH, number + 2)
                await eventually(lambda: len(server.watches()) == 4, "all watch")
                before = server.requests.copy()
                await Lock(c, PATH).revoke()
                await held.revocation_requested()
                await eventually(
                    lambda: (server.requests - before)["GET_DATA"] >= 6, "they have looked again"
                )
                assert (server.requests - before)["GET_CHILDREN"] == 1, "that of the one who asks"
                assert entered == []
            await eventually(lambda: entered == [0, 1, 2], "each had its turn")


@on_embedded
async def test_a_campaign_hears_of_it(server: ServerUnderTest) -> None:
    async with connect(server) as a, connect(server) as b:
        async with Election(a, PATH).campaign() as states:
            async for state in states:
                if state.phase is Phase.LEADING:
                    break
            assert state.term is not None
            await Election(b, PATH).revoke()
            await state.term.revocation_requested()
            await state.term.resign()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_is_heard_of_after_a_lost_link(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with link.connect() as a, connect_virtually(server) as b, Lock(a, PATH) as held:
            await passes(1.0)
            link.lose()
            await settled()
            await Lock(b, PATH).revoke()
            assert not held.is_revocation_requested
            link.restore()
            await passes(1.0)
            assert held.is_revocation_requested

    on_virtual_time(backend, play)


@on_embedded
async def test_no_identity_looks_like_a_request(server: ServerUnderTest) -> None:
    async with connect(server) as a:
        with pytest.raises(ConfigurationError, match="asks a holder"):
            Lock(a, PATH, identity="__REVOKE__ me")
