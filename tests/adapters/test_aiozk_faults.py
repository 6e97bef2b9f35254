"""The faults that aiozk's own recipes do not survive, on theirs and on ours over the adapter.

docs/how-to/aiozk-client.md says in short what is asserted here, for aiozk 0.32.0, on the embedded
server and a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiozk
import anyio
import pytest
from adapters.aiozk_peer import started
from aiozk.states import States
from kit.clients import PATIENCE, eventually
from kit.faults import end_session_of, only_on
from kit.raw_client import RawClient

import aiolead
from aiolead.adapters.aiozk import adapt
from aiolead.errors import LossReason, TenureLost
from aiolead.model import SessionState
from aiolead.paths import parse_connect_string
from aiolead.testing import BlockingServer, EmbeddedServer, FaultProxy, OpCode

pytestmark = [
    only_on("asyncio"),
    pytest.mark.exhaustive("the recipes' promises over a client that is not ours"),
]

PATH = "/path"
NEVER = 0.5
"""How long something is waited for that does not come, in seconds. It takes 5 ms where it does."""


@dataclass(frozen=True)
class Place:
    """A server, as it is seen from behind the links.

    Attributes:
        connect_string: with a chroot, where others are on that server.
        watched: the paths that are watched below that.
        is_linked: whether a session has a connection.
    """

    connect_string: str
    watched: Callable[[], set[str]]
    is_linked: Callable[[int], bool]

    def line(self) -> list[str]:
        """The contenders, in their order."""
        with RawClient(self.connect_string) as raw:
            names = raw.children(PATH)
        return [f"{PATH}/{name}" for name in sorted(names, key=lambda name: name[-10:])]

    async def end_session(self, zk: Any) -> None:
        """As an operator does who knows the password of aiozk's client."""
        session = (zk.session.session_id, zk.session.password)
        await end_session_of(self.connect_string, session, repr(zk))


@pytest.fixture(params=["embedded", "standalone"])
def place(request: pytest.FixtureRequest, chroot: str) -> Iterator[Place]:
    if request.param == "embedded":
        with EmbeddedServer.in_thread() as server:
            yield Place(
                server.connect_string,
                lambda: set(server.watches()),
                lambda _session_id: server.connections > 0,
            )
    else:
        yield behind(request.getfixturevalue("real_server"), chroot)


def behind(server: BlockingServer, chroot: str) -> Place:
    with RawClient(server.connect_string) as raw:
        raw.create(chroot)

    def watched() -> set[str]:
        lines = server.four_letter("wchp").splitlines()
        return {line.removeprefix(chroot) for line in lines if line.startswith(f"{chroot}/")}

    def is_linked(session_id: int) -> bool:
        return f"sid=0x{session_id & (1 << 64) - 1:x}," in server.four_letter("cons")

    return Place(server.connect_string + chroot, watched, is_linked)


@asynccontextmanager
async def linked(place: Place, session_timeout: float = 8.0) -> AsyncIterator[Any]:
    """An aiozk client and the link that it goes through."""
    target = parse_connect_string(place.connect_string)
    with FaultProxy(*target.hosts[0]) as proxy:
        hosts = proxy.connect_string + target.chroot
        async with started(hosts, session_timeout=session_timeout) as zk:
            yield zk, proxy


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """A task of aiozk's, which is ended afterwards."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


async def wins(kind: str, zk: Any) -> Any:
    """Acquire with aiozk's own recipe. Return the recipe."""
    if kind == "lock":
        lock = zk.recipes.Lock(PATH)
        await lock.acquire()
        return lock
    election = zk.recipes.LeaderElection(PATH)
    await election.volunteer()
    try:
        await election.wait_for_leadership()
    finally:
        if election.watch_loop_task is not None:
            election.watch_loop_task.cancel()
    return election


def tenure_of(kind: str, client: aiolead.Client) -> Any:
    """Our way, over the adapter."""
    if kind == "lock":
        return aiolead.Lock(client, PATH).acquire()
    return aiolead.Election(client, PATH).leadership()


KINDS = pytest.mark.parametrize("kind", ["lock", "election"])

# --- the answer to the create is lost ----------------------------------------------------------


@KINDS
async def test_aiozk_creates_a_second_znode_after_a_lost_create(kind: str, place: Place) -> None:
    async with linked(place) as (zk, proxy):
        await zk.ensure_path(PATH)
        proxy.drop_reply(OpCode.CREATE2)
        async with running(wins(kind, zk)) as task:
            await eventually(lambda: place.watched(), "it waits")
            # ... for itself: nobody else is there.
            assert len(place.line()) == 2
            assert place.watched() == set(place.line()[:1])
            assert not task.done()


@KINDS
async def test_lost_create_is_found_again(kind: str, place: Place) -> None:
    async with linked(place) as (zk, proxy), adapt(zk) as client:
        await zk.ensure_path(PATH)
        proxy.drop_reply(OpCode.CREATE2)
        with anyio.fail_after(PATIENCE):
            async with tenure_of(kind, client) as held:
                assert place.line() == [held.path]


# --- the connection is reset during a wait -------------------------------------------------------


@KINDS
async def test_aiozk_waits_forever_after_a_reset(kind: str, place: Place) -> None:
    async with started(place.connect_string) as other, linked(place) as (zk, proxy):
        first = await wins(kind, other)
        async with running(wins(kind, zk)) as task:
            await eventually(lambda: place.watched(), "it waits")
            await zk.exists("/")  # answered behind the request that has set its watch
            before = zk.session.session_id
            proxy.reset()
            await zk.exists("/")  # over the next connection
            assert zk.session.session_id == before
            await eventually(lambda: not place.watched(), "its watch is gone with its link")
            await (first.release() if kind == "lock" else first.resign())
            await asyncio.wait([task], timeout=NEVER)
            assert not task.done()
            assert len(place.line()) == 1


@KINDS
async def test_lock_is_acquired_after_a_reset(kind: str, place: Place) -> None:
    entered = anyio.Event()

    async def wait(client: aiolead.Client) -> None:
        async with tenure_of(kind, client):
            entered.set()

    async with (
        aiolead.connect(place.connect_string) as other,
        linked(place) as (zk, proxy),
        adapt(zk) as client,
        anyio.create_task_group() as tasks,
    ):
        async with tenure_of(kind, other):
            tasks.start_soon(wait, client)
            await eventually(lambda: len(place.watched()) == 2, "it waits")
            proxy.reset()
            await zk.exists("/")
        with anyio.fail_after(PATIENCE):
            await entered.wait()


# --- an idle connection is closed --------------------------------------------------------------


async def test_aiozk_does_not_notice_a_closed_connection(place: Place) -> None:
    async with linked(place) as (zk, proxy):
        proxy.refuse()
        proxy.fin()
        session_id = zk.session.session_id
        await eventually(lambda: not place.is_linked(session_id), "the server has closed the link")
        await anyio.sleep(NEVER)
        assert zk.session.state == States.CONNECTED
        proxy.heal()


async def test_closed_connection_is_noticed_and_the_lock_is_kept(
    place: Place,
) -> None:
    async with linked(place) as (zk, proxy), adapt(zk) as client:
        async with aiolead.Lock(client, PATH) as held:
            proxy.refuse()
            proxy.fin()
            await eventually(lambda: client.state is SessionState.SUSPENDED, "it is noticed")
            assert zk.session.state == States.SUSPENDED
            proxy.heal()
            await client.ready()
            assert held.is_held


# --- the session is replaced by another one ----------------------------------------------------


@pytest.mark.keeps_time(1.0)
async def test_aiozk_takes_another_session_for_its_own(place: Place) -> None:
    async with linked(place, session_timeout=1.0) as (zk, proxy):
        lock = await wins("lock", zk)
        before = zk.session.session_id
        states: list[str] = []
        transition_to = zk.session.state.transition_to
        zk.session.state.transition_to = lambda state: (transition_to(state), states.append(state))
        # A server that takes the connection and says nothing, as long as the session lives.
        proxy.drop_reply(OpCode.CREATE_SESSION, how="silence")
        proxy.reset()
        with anyio.fail_after(PATIENCE):
            await zk.exists("/")
        assert zk.session.session_id != before
        assert States.LOST not in states
        assert lock.is_locked
        await eventually(lambda: not place.line(), "its znode is gone with its session")
        async with aiolead.connect(place.connect_string) as other:
            async with aiolead.Lock(other, PATH, layout=aiolead.types.Layout.CURATOR):
                assert lock.is_locked


async def test_silent_handshake_keeps_the_session(place: Place) -> None:
    async with linked(place, session_timeout=4.0) as (zk, proxy), adapt(zk) as client:
        async with aiolead.Lock(client, PATH) as held:
            before = client.session_id
            proxy.drop_reply(OpCode.CREATE_SESSION, how="silence")
            proxy.reset()
            with anyio.fail_after(PATIENCE):
                await zk.exists("/")
            assert client.session_id == before == zk.session.session_id
            assert held.is_held


@KINDS
async def test_aiozk_goes_on_holding_in_the_next_session(kind: str, place: Place) -> None:
    async with linked(place, session_timeout=1.0) as (zk, _):
        held = await wins(kind, zk)
        before = zk.session.session_id
        await place.end_session(zk)
        with anyio.fail_after(PATIENCE):
            while zk.session.session_id == before:
                with suppress(aiozk.exc.TimeoutError):
                    await zk.exists("/")
        async with aiolead.connect(place.connect_string) as other:
            async with tenure_of(kind, other):
                assert held.is_locked if kind == "lock" else held.has_leadership


@KINDS
async def test_hold_is_lost_with_its_session(kind: str, place: Place) -> None:
    async with linked(place) as (zk, _), adapt(zk) as client:
        before = client.session_id
        with pytest.raises(TenureLost) as caught:
            async with tenure_of(kind, client):
                await place.end_session(zk)
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.EXPIRED
        await client.ready()
        assert zk.session.session_id == client.session_id != before


# --- disconnected before watches are set again -----------------------------------------------


async def test_client_with_a_failed_repair_is_served_again(place: Place) -> None:
    """aiozk never recovers if it is disconnected before it sets its watches again."""
    async with linked(place) as (zk, proxy):
        event = zk.wait_for_events([aiozk.WatchEvent.CREATED], "/x")
        await zk.exists("/x", watch=True)
        proxy.drop_reply(OpCode.SET_WATCHES, count=1, how="reset")
        proxy.reset()
        with pytest.raises(TimeoutError), anyio.fail_after(NEVER):
            await zk.exists("/")
        async with adapt(zk) as client:
            with anyio.fail_after(PATIENCE):
                assert await zk.exists("/")
                await client.create("/x")
                await event


async def test_version_of_aiozk_is_the_one_of_the_table() -> None:
    assert aiozk.__version__ == "0.32.0"
