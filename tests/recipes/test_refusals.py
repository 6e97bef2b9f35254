"""Every recipe meets the errors of servers: see `docs/reference/error-policy.md`.

On virtual time and an embedded server; the same refusals by real servers are at the end.
"""

from __future__ import annotations

import asyncio
import logging

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, catch_up, eventually, owned
from kit.clients import connect as connect_to
from kit.every_recipe import FOLLOWED, HELD, KEPT, Held
from kit.virtual_time import (
    Link,
    connect,
    on_virtual_time,
    passes,
    settled,
    with_virtual_server,
)
from recipes.blocks import Holder, enter

import aiolead
from aiolead import ACL, Client
from aiolead.errors import NoAuthError, ReleaseError
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode

PATH = "/refused/thing"

EVERY = HELD | KEPT

every_recipe = pytest.mark.parametrize("name", EVERY)

# A partitioner has tasks of its own, which are cancelled: nobody leaves its locks by himself.
LEFT = [name for name in EVERY if name != "Partitioner"]

NO_DELETE = [ACL.world(Permission.ALL & ~Permission.DELETE)]
ANYTHING = [ACL.world(Permission.ALL)]

READS = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
THROTTLED = (
    *READS,
    OpCode.CREATE2,
    OpCode.CREATE_CONTAINER,
    OpCode.DELETE,
    OpCode.MULTI,
    OpCode.SET_DATA,
    OpCode.SET_WATCHES,
    OpCode.SYNC,
)


async def prepare(client: Client, scene: Held) -> None:
    if scene.prepare is not None:
        await scene.prepare(client, PATH)


async def ours(client: Client) -> list[str]:
    await catch_up(client)
    return await owned(client)


async def set_acl_around(operator: Client, paths: list[str], acl: list[ACL]) -> None:
    """Sets the ACL of the parents of some znodes: who may delete them."""
    for parent in {path.rpartition("/")[0] for path in paths}:
        await operator.set_acl(parent, acl)


async def refuse_deletes(operator: Client, *paths: str) -> None:
    await set_acl_around(operator, list(paths), NO_DELETE)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The paths of the refused deletes in the log."""
    logged = [r for r in caplog.records if r.name == "aiolead._recipes.errors"]
    assert all(record.levelno == logging.WARNING for record in logged)
    return [record.getMessage().partition(" could not be deleted")[0] for record in logged]


# --- an overloaded server ------------------------------------------------------------------------


@every_recipe
@with_virtual_server
async def test_throttled_request_is_repeated(
    server: EmbeddedServer, a: Client, b: Client, name: str
) -> None:
    """One of each kind, as it enters, as another one joins, and as it leaves.

    Not for longer than that: a renewal of the lease that is refused again and again ends a hold.
    """
    scene, throttled = EVERY[name], server._running.core.throttled
    await prepare(b, scene)
    had_its_turn = anyio.Event()

    async def turn() -> None:
        await scene.turn(b, PATH)
        had_its_turn.set()

    async with anyio.create_task_group() as tasks:
        throttled.update(THROTTLED)
        with anyio.fail_after(PATIENCE):
            async with scene.enter(a, PATH):
                throttled.clear()
                await passes(1.0)
                throttled.update(THROTTLED)
                tasks.start_soon(turn)
                await passes(1.0)
                throttled.clear()
                await passes(3.0)
                throttled.update(THROTTLED)
        with anyio.fail_after(PATIENCE):
            await had_its_turn.wait()
        await passes(2 * PATIENCE)
        throttled.clear()
        assert [*await ours(a), *await ours(b)] == []


@with_virtual_server
async def test_election_goes_on_contending_while_reads_are_throttled(
    server: EmbeddedServer, client: Client
) -> None:
    terms: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def work(term: aiolead.Term) -> None:
            terms.append(term.token)
            server.throttle(OpCode.GET_CHILDREN, 3)
            await passes(0.1)
            if len(terms) == 3:
                tasks.cancel_scope.cancel()

        with anyio.fail_after(PATIENCE):
            await aiolead.Election(client, PATH).run(work)
    assert len(terms) == 3


@with_virtual_server
async def test_throttled_look_at_its_own_znode_is_repeated(
    server: EmbeddedServer, a: Client, b: Client
) -> None:
    """Without its watch, the holder would not be notified of a request to release."""
    async with aiolead.Lock(a, PATH) as held:
        server.throttle(OpCode.GET_DATA)
        await passes(PATIENCE / 4)
        assert await aiolead.Lock(b, PATH).revoke()
        with anyio.fail_after(1.0):
            await held.revocation_requested()


@pytest.mark.parametrize("name", [name for name in FOLLOWED if name not in ("Config", "TreeCache")])
@with_virtual_server
async def test_observers_go_on_while_reads_are_throttled(
    server: EmbeddedServer, a: Client, b: Client, name: str
) -> None:
    scene = FOLLOWED[name]
    async with scene.change(a, PATH) as change, scene.observe(b, PATH) as seen:
        for n in (1, 2):
            await change(n)
            with anyio.fail_after(PATIENCE):
                while seen() != n:
                    await passes(0.1)
            server._running.core.throttled.update(dict.fromkeys(READS, 2))


# --- a refused release ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEFT)
@with_virtual_server
async def test_refused_release_is_raised(
    server: EmbeddedServer, other: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the znode that stays. When the session has ended, the next one has its turn."""
    scene = EVERY[name]
    await prepare(other, scene)
    async with connect(server) as client:
        with pytest.raises(ReleaseError) as refused:
            async with scene.enter(client, PATH):
                await passes(1.0)
                znodes = await ours(client)
                assert znodes
                await refuse_deletes(other, *znodes)
        error = refused.value
        assert error.path in znodes
        assert isinstance(error.cause, NoAuthError)
        assert "allow DELETE on" in str(error)
        assert await ours(client) == znodes
        told = [error.path, *(note.split(" ")[0] for note in getattr(error, "__notes__", []))]
        assert sorted(told + refusals(caplog)) == znodes
        assert name == "MultiLock" or refusals(caplog) == []
    await set_acl_around(other, znodes, ANYTHING)
    with anyio.fail_after(PATIENCE):
        await scene.turn(other, PATH)


@with_virtual_server
async def test_condition_that_cannot_release_its_lock_raises_that(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody gets the lock then, and no contender would notify."""
    with pytest.raises(ReleaseError) as refused:
        async with aiolead.Condition(client, PATH) as held:
            znodes = await ours(client)
            await refuse_deletes(other, *znodes)
            with anyio.fail_after(PATIENCE):
                await held.wait()
    assert [refused.value.path] == znodes == await ours(client)
    assert refusals(caplog) == []


@with_virtual_server
async def test_refused_release_of_a_cancelled_wait_is_logged(
    server: EmbeddedServer,
    link: Link,
    client: Client,
    other: Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The wait that released the lock is cancelled before the refusal: no caller reports it."""
    znodes: list[str] = []

    async def wait() -> None:
        async with aiolead.Condition(client, PATH) as held:
            znodes.extend(await ours(client))
            await refuse_deletes(other, *znodes)
            link.refuse()
            server.drop_request(OpCode.DELETE)
            await held.wait()

    with anyio.move_on_after(1.0):
        await wait()
    assert refusals(caplog) == []
    link.heal()
    await passes(2.0)
    assert refusals(caplog) == znodes


@pytest.mark.exhaustive("all recipes alike", one_in=4)
@every_recipe
@pytest.mark.parametrize("ending", ["raises", "is cancelled"])
@with_virtual_server
async def test_refused_release_is_logged_where_the_body_did_not_end_normally(
    client: Client, other: Client, name: str, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    await prepare(other, EVERY[name])
    znodes: list[str] = []

    async def body() -> None:
        async with EVERY[name].enter(client, PATH):
            await passes(1.0)
            znodes.extend(await ours(client))
            await refuse_deletes(other, *znodes)
            if ending == "raises":
                raise KeyError
            scope.cancel()
            await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        if ending == "raises":
            # The partitioner's scene has a task group of its own.
            with pytest.raises(ExceptionGroup if name == "Partitioner" else KeyError):
                await body()
        else:
            await body()
    await settled()
    assert znodes
    assert await ours(client) == znodes
    assert sorted(refusals(caplog)) == znodes


@with_virtual_server
async def test_leaving_a_campaign_raises_a_refused_release(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for path, error in ((PATH, None), (f"{PATH}2", KeyError)):
        with pytest.raises(error or ReleaseError):
            async with aiolead.Election(client, path).campaign():
                await passes(1.0)
                await refuse_deletes(other, *await ours(client))
                if error is not None:
                    raise error
    await settled()
    assert len(refusals(caplog)) == 1


@with_virtual_server
async def test_election_that_cannot_resign_raises_that(client: Client, other: Client) -> None:
    """It would contend behind its own znode."""

    async def work(term: aiolead.Term) -> None:
        await refuse_deletes(other, term.path)

    with anyio.fail_after(PATIENCE), pytest.raises(ReleaseError):
        await aiolead.Election(client, PATH).run(work)


@with_virtual_server
async def test_refused_release_within_the_body_is_raised_once(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with aiolead.Lock(client, PATH) as held:
        await refuse_deletes(other, held.path)
        with pytest.raises(ReleaseError):
            await held.release()
    assert refusals(caplog) == []


@with_virtual_server
async def test_waiter_that_gives_up_raises_its_own_error(
    client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with aiolead.Lock(other, PATH) as held:
        await refuse_deletes(other, held.path)
        with pytest.raises(aiolead.AcquireTimeout):
            await enter(aiolead.Lock(client, PATH).acquire(timeout=1.0))
        await settled()
        assert refusals(caplog) == await ours(client)
        await set_acl_around(other, [held.path], ANYTHING)


@with_virtual_server
async def test_refused_background_delete_is_logged_once(
    link: Link, client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with aiolead.Lock(client, PATH) as held:
        await passes(1.0)
        link.down()
        await refuse_deletes(other, held.path)
    assert refusals(caplog) == []
    link.heal()
    await passes(2.0)
    assert refusals(caplog) == [held.path] == await ours(client)


@every_recipe
def test_refusal_that_a_natively_cancelled_task_does_not_see_is_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio's own cancellation ends the wait for the servers' answer, which comes later."""

    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client, connect(server) as operator:
            await prepare(operator, EVERY[name])
            znodes: list[str] = []

            async def hold() -> None:
                async with EVERY[name].enter(client, PATH):
                    await passes(1.0)
                    znodes.extend(await ours(client))
                    await refuse_deletes(operator, *znodes)
                    server.pause()

            task = asyncio.create_task(hold())
            await passes(1.5)
            assert not task.done()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or name == "Partitioner"
            assert refusals(caplog) == []
            server.resume()
            await passes(1.0)
            assert sorted(refusals(caplog)) == await ours(client) == znodes != []

    on_virtual_time("asyncio", play)


def test_refusal_that_a_natively_cancelled_campaign_does_not_see_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as client, connect(server) as operator:

            async def lead() -> None:
                async with aiolead.Election(client, PATH).campaign():
                    await passes(1.0)
                    await refuse_deletes(operator, *await ours(client))
                    server.pause()

            task = asyncio.create_task(lead())
            await passes(1.5)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            server.resume()
            await passes(1.0)
            assert refusals(caplog) == await ours(client) != []

    on_virtual_time("asyncio", play)


@with_virtual_server
async def test_refusal_of_one_of_several_znodes_is_logged_if_the_others_are_not_answered(
    link: Link, client: Client, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    semaphore = aiolead.Semaphore(client, PATH, 2)
    async with semaphore.acquire(permits=2):
        await passes(1.0)
        znodes = await ours(client)
        await refuse_deletes(other, *znodes)
        unanswered = link.hold_reply(OpCode.DELETE, after=1)
    assert len(refusals(caplog)) == 1
    unanswered.release()
    await settled()
    assert sorted(refusals(caplog)) == await ours(client) == znodes


# --- real servers --------------------------------------------------------------------------------

SESSION = 6.0
"""A session timeout that a test can wait for, in seconds."""


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
async def test_servers_refuse_every_release(server: ServerUnderTest) -> None:
    """All recipes at the same time: each names what stays, and the next one has its turn."""
    assert len(EVERY) >= 20
    refused: dict[str, ReleaseError] = {}

    async def have(name: str, holder: Holder) -> None:
        try:
            await holder()
        except ReleaseError as error:
            refused[name] = error

    async with connect_to(server, session_timeout=SESSION) as operator:
        for name in LEFT:
            scene = EVERY[name]
            if scene.prepare is not None:
                await scene.prepare(operator, f"/{name}/thing")
        async with connect_to(server, session_timeout=SESSION) as client:
            holders = {name: Holder(EVERY[name].enter(client, f"/{name}/thing")) for name in LEFT}
            async with anyio.create_task_group() as tasks:
                for name, holder in holders.items():
                    tasks.start_soon(have, name, holder)
                await eventually(lambda: all(h.has_entered for h in holders.values()), "all hold")
                await refuse_deletes(operator, *await ours(client))
                for holder in holders.values():
                    holder.may_leave.set()
            znodes = await ours(client)
        await set_acl_around(operator, znodes, ANYTHING)
        assert refused.keys() == set(LEFT)
        assert {error.path for error in refused.values()} <= set(znodes)
        assert all(isinstance(error.cause, NoAuthError) for error in refused.values())
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for name in ("Lock", "Election", "ExclusiveLock", "Group"):
                    tasks.start_soon(EVERY[name].turn, operator, f"/{name}/thing")
