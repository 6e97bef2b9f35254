"""What every recipe does about the errors of servers: see `docs/reference/error-policy.md`.

On virtual time and an embedded server; the same refusals by real servers are at the end.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, eventually
from kit.clients import connect as connect_to
from kit.every_recipe import FOLLOWED, HELD, KEPT, Held
from kit.virtual_time import Link, connect, on_virtual_time, passes, settled

import aiolead
from aiolead import ACL, Client
from aiolead.errors import NoAuthError, ReleaseError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing.simulation import Backend

both_loops = pytest.mark.parametrize("backend", ["asyncio", "trio"])

PATH = "/refused/thing"

EVERY = HELD | KEPT

every_recipe = pytest.mark.parametrize("name", EVERY)

# A partitioner has tasks of its own, which are cancelled: nobody leaves its locks by himself.
LEFT = [name for name in EVERY if name != "Partitioner"]

NO_DELETE = [ACL.world(Permission.ALL & ~Permission.DELETE)]

THROTTLED = (
    OpCode.CREATE2,
    OpCode.CREATE_CONTAINER,
    OpCode.DELETE,
    OpCode.EXISTS,
    OpCode.GET_DATA,
    OpCode.GET_CHILDREN,
    OpCode.GET_CHILDREN2,
    OpCode.MULTI,
    OpCode.SET_DATA,
    OpCode.SET_WATCHES,
    OpCode.SYNC,
)


READS = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)


async def prepare(client: Client, scene: Held) -> None:
    if scene.prepare is not None:
        await scene.prepare(client, PATH)


async def ours(client: Client) -> list[str]:
    await catch_up(client)
    return sorted(await client.get_ephemerals())


async def refuse_deletes(operator: Client, paths: list[str]) -> None:
    for parent in {path.rpartition("/")[0] for path in paths}:
        await operator.set_acl(parent, NO_DELETE)


async def allow_deletes(operator: Client, paths: list[str]) -> None:
    for parent in {path.rpartition("/")[0] for path in paths}:
        await operator.set_acl(parent, [ACL.world(Permission.ALL)])


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has of them, one line each."""
    logged = [r for r in caplog.records if r.name == "aiolead._recipes._core.error_policy"]
    assert all(record.levelno == logging.WARNING for record in logged)
    return [record.getMessage().partition(" could not be deleted")[0] for record in logged]


# --- an overloaded server ------------------------------------------------------------------------


@both_loops
@every_recipe
def test_a_throttled_request_is_asked_again(backend: Backend, name: str) -> None:
    """One of each kind, as it enters, as another one joins, and as it leaves.

    Not for longer than that: a renewal of the lease that is refused again and again ends a hold.
    """
    scene = EVERY[name]

    async def play(server: EmbeddedServer) -> None:
        throttled = server._running.core.throttled

        def throttle() -> None:
            throttled.update(THROTTLED)

        async with (
            connect(server) as a,
            connect(server) as b,
            anyio.create_task_group() as tasks,
        ):
            await prepare(b, scene)
            had_its_turn = anyio.Event()

            async def turn() -> None:
                await scene.turn(b, PATH)
                had_its_turn.set()

            throttle()
            with anyio.fail_after(PATIENCE):
                async with scene.enter(a, PATH):
                    throttled.clear()
                    await passes(1.0)
                    throttle()
                    tasks.start_soon(turn)
                    await passes(1.0)
                    throttled.clear()
                    await passes(3.0)
                    throttle()
            with anyio.fail_after(PATIENCE):
                await had_its_turn.wait()
            await passes(2 * PATIENCE)
            throttled.clear()
            assert [*await ours(a), *await ours(b)] == []

    on_virtual_time(backend, play)


@both_loops
def test_an_election_goes_on_contending_while_reads_are_throttled(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client, anyio.create_task_group() as tasks:
            terms: list[int] = []

            async def work(term: aiolead.Term) -> None:
                terms.append(term.token)
                server.throttle(OpCode.GET_CHILDREN, 3)
                await passes(0.1)
                if len(terms) == 3:
                    tasks.cancel_scope.cancel()

            with anyio.fail_after(PATIENCE):
                tasks.start_soon(aiolead.Election(client, PATH).run, work)
                await anyio.sleep_forever()
        assert len(terms) == 3

    on_virtual_time(backend, play)


@both_loops
def test_a_throttled_look_at_our_own_znode_is_made_again(backend: Backend) -> None:
    """Without its watch, nobody would tell the holder that it is asked to let go."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b:
            async with aiolead.Lock(a, PATH) as held:
                server.throttle(OpCode.GET_DATA)
                await passes(PATIENCE / 4)
                assert await aiolead.Lock(b, PATH).revoke()
                with anyio.fail_after(1.0):
                    await held.revocation_requested()

    on_virtual_time(backend, play)


@both_loops
@pytest.mark.parametrize("name", [name for name in FOLLOWED if name not in ("Config", "TreeCache")])
def test_what_is_followed_goes_on_while_reads_are_throttled(backend: Backend, name: str) -> None:
    scene = FOLLOWED[name]

    async def play(server: EmbeddedServer) -> None:
        async with (
            connect(server) as a,
            connect(server) as b,
            scene.change(a, PATH) as change,
            scene.observe(b, PATH) as seen,
        ):
            for n in (1, 2):
                await change(n)
                with anyio.fail_after(PATIENCE):
                    while seen() != n:
                        await passes(0.1)
                server._running.core.throttled.update(dict.fromkeys(READS, 2))

    on_virtual_time(backend, play)


@both_loops
def test_an_item_is_acknowledged_although_that_is_throttled(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client:
            queue = aiolead.Queue(client, PATH)
            await queue.put(b"x")
            async with queue.get() as item:
                server.throttle(OpCode.MULTI)
                await item.ack()
            assert await queue.size() == 0

    on_virtual_time(backend, play)


# --- a refused release ---------------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("name", LEFT)
def test_a_refused_release_is_raised(
    backend: Backend, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the znode that stays. When the session has ended, the next one has its turn."""
    scene = EVERY[name]

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator:
            await prepare(operator, scene)
            async with connect(server) as client:
                with pytest.raises(ReleaseError) as refused:
                    async with scene.enter(client, PATH):
                        await passes(1.0)
                        znodes = await ours(client)
                        assert znodes
                        await refuse_deletes(operator, znodes)
                error = refused.value
                assert error.path in znodes
                assert isinstance(error.cause, NoAuthError)
                assert "allow DELETE on" in str(error)
                assert await ours(client) == znodes
                told = [error.path, *(note.split(" ")[0] for note in _notes(error))]
                assert sorted(told + refusals(caplog)) == znodes
                if name != "MultiLock":
                    assert refusals(caplog) == []
            await allow_deletes(operator, znodes)
            with anyio.fail_after(PATIENCE):
                await scene.turn(operator, PATH)

    on_virtual_time(backend, play)


@both_loops
def test_a_wait_that_cannot_let_go_of_its_lock_raises_that(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody gets the lock then: not who would notify, nor who waits for itself to be gone."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:
            with pytest.raises(ReleaseError) as refused:
                async with aiolead.Condition(client, PATH) as held:
                    znodes = await ours(client)
                    await refuse_deletes(operator, znodes)
                    with anyio.fail_after(PATIENCE):
                        await held.wait()
            assert [refused.value.path] == znodes == await ours(client)
            assert refusals(caplog) == []

    on_virtual_time(backend, play)


@both_loops
def test_refused_release_of_a_cancelled_wait_is_logged(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait that released the lock is cancelled before the refusal: no caller reports it."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with connect(server) as operator, link.connect() as client:
            znodes: list[str] = []

            async def wait() -> None:
                async with aiolead.Condition(client, PATH) as held:
                    znodes.extend(await ours(client))
                    await refuse_deletes(operator, znodes)
                    link.room = 0
                    server.drop_request(OpCode.DELETE)
                    await held.wait()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await passes(1.0)
                tasks.cancel_scope.cancel()
            assert refusals(caplog) == []
            link.restore()
            await passes(2.0)
            assert refusals(caplog) == znodes

    on_virtual_time(backend, play)


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@pytest.mark.exhaustive("all recipes alike", one_in=4)
@both_loops
@every_recipe
@pytest.mark.parametrize("ending", ["raises", "is cancelled"])
def test_a_refused_release_is_logged_where_the_body_did_not_end_normally(
    backend: Backend, name: str, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What the body raised leaves bare; the log has one line for each znode that stays."""
    scene = EVERY[name]

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:
            await prepare(operator, scene)
            znodes: list[str] = []

            async def body() -> None:
                async with scene.enter(client, PATH):
                    await passes(1.0)
                    znodes.extend(await ours(client))
                    await refuse_deletes(operator, znodes)
                    if ending == "raises":
                        raise KeyError
                    scope.cancel()
                    await anyio.sleep_forever()

            with anyio.CancelScope() as scope:
                if ending == "raises" and name != "Partitioner":
                    with pytest.raises(KeyError):
                        await body()
                elif ending == "raises":
                    with pytest.raises(ExceptionGroup):  # of the scene's own task group
                        await body()
                else:
                    await body()
            await settled()
            assert znodes
            assert await ours(client) == znodes
            assert sorted(refusals(caplog)) == znodes

    on_virtual_time(backend, play)


@both_loops
def test_a_campaign_that_is_left_raises_a_refused_release(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:
            with pytest.raises(ReleaseError):
                async with aiolead.Election(client, PATH).campaign():
                    await passes(1.0)
                    await refuse_deletes(operator, await ours(client))
            with pytest.raises(KeyError):
                async with aiolead.Election(client, f"{PATH}2").campaign():
                    await passes(1.0)
                    await refuse_deletes(operator, await ours(client))
                    raise KeyError
            await settled()
            assert len(refusals(caplog)) == 1

    on_virtual_time(backend, play)


@both_loops
def test_an_election_that_cannot_resign_says_so(backend: Backend) -> None:
    """It would contend behind its own znode."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:

            async def work(term: aiolead.Term) -> None:
                await refuse_deletes(operator, [term.path])

            with anyio.fail_after(PATIENCE), pytest.raises(ReleaseError):
                await aiolead.Election(client, PATH).run(work)

    on_virtual_time(backend, play)


@both_loops
def test_what_resigns_is_told(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """And not again as the body ends."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:
            async with aiolead.Lock(client, PATH) as held:
                await refuse_deletes(operator, [held.path])
                with pytest.raises(ReleaseError):
                    await held.release()
            assert refusals(caplog) == []

    on_virtual_time(backend, play)


@both_loops
def test_who_gives_up_waiting_gets_its_own_error(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as operator, connect(server) as client:
            async with aiolead.Lock(operator, PATH) as held:
                await refuse_deletes(operator, [held.path])
                with pytest.raises(aiolead.AcquireTimeout):
                    async with aiolead.Lock(client, PATH).acquire(timeout=1.0):
                        pytest.fail("it is held")
                await settled()
                assert refusals(caplog) == await ours(client)
                await allow_deletes(operator, [held.path])

    on_virtual_time(backend, play)


@both_loops
def test_a_delete_that_is_repeated_in_the_background_is_refused(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for it any more: the log says so, once."""

    async def play(server: EmbeddedServer) -> None:
        link = Link(server)
        async with connect(server) as operator, link.connect() as client:
            async with aiolead.Lock(client, PATH) as held:
                await passes(1.0)
                link.lose()
                await refuse_deletes(operator, [held.path])
            assert refusals(caplog) == []
            link.restore()
            await passes(2.0)
            assert refusals(caplog) == [held.path] == await ours(client)

    on_virtual_time(backend, play)


# --- real servers --------------------------------------------------------------------------------

SESSION = 6.0
"""A session timeout that a test can wait for, in seconds."""


@asynccontextmanager
async def clients(server: ServerUnderTest) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        connect_to(server, session_timeout=SESSION) as operator,
        connect_to(server, session_timeout=SESSION) as client,
    ):
        yield operator, client


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
async def test_servers_refuse_every_release(server: ServerUnderTest) -> None:
    """All recipes at the same time: each names what stays, and the next one has its turn."""
    refused: dict[str, ReleaseError] = {}
    entered: set[str] = set()
    leave = anyio.Event()

    async def have(client: Client, name: str) -> None:
        try:
            async with EVERY[name].enter(client, f"/{name}/thing"):
                entered.add(name)
                await leave.wait()
        except ReleaseError as error:
            refused[name] = error

    async with connect_to(server, session_timeout=SESSION) as operator:
        for name in LEFT:
            scene = EVERY[name]
            if scene.prepare is not None:
                await scene.prepare(operator, f"/{name}/thing")
        async with connect_to(server, session_timeout=SESSION) as client:
            async with anyio.create_task_group() as tasks:
                for name in LEFT:
                    tasks.start_soon(have, client, name)
                await eventually(lambda: entered == set(LEFT), f"all have theirs: {entered}")
                await refuse_deletes(operator, await ours(client))
                leave.set()
            znodes = await ours(client)
        await allow_deletes(operator, znodes)
        assert refused.keys() == set(LEFT)
        assert {error.path for error in refused.values()} <= set(znodes)
        assert all(isinstance(error.cause, NoAuthError) for error in refused.values())
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for name in ("Lock", "Election", "ExclusiveLock", "Group"):
                    tasks.start_soon(EVERY[name].turn, operator, f"/{name}/thing")


def test_the_scenes_are_of_all_recipes() -> None:
    assert len(EVERY) >= 20
