"""An aiozk client that is adapted: whose its session is, and what becomes of its requests."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiozk
import anyio
import anyio.lowlevel
import pytest
from adapters.aiozk_peer import started
from aiozk import exc
from aiozk.states import States
from kit.clients import PATIENCE, eventually
from kit.faults import only_on

import aiolead
from aiolead.adapters.aiozk import adapt
from aiolead.adapters.aiozk._adapted_session import AdaptedSession, patience_of
from aiolead.errors import (
    ConfigurationError,
    ConnectFailed,
    LockLost,
    LossReason,
    UsageError,
)
from aiolead.model import CreateMode, SessionState
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode

pytestmark = only_on("asyncio")

PATH = "/lock"


@dataclass
class Scene:
    """A server, a link to it that can be broken, and an aiozk client on that."""

    server: EmbeddedServer
    proxy: FaultProxy
    zk: Any

    @property
    def session(self) -> Any:
        return self.zk.session


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with EmbeddedServer() as server:
        with FaultProxy("127.0.0.1", server.port) as proxy:
            async with started(proxy.connect_string) as zk:
                yield Scene(server, proxy, zk)


def states_of(session: Any) -> list[str]:
    """The states that an aiozk session goes through from now on."""
    seen: list[str] = []
    transition_to = session.state.transition_to

    def note(state: str) -> None:
        transition_to(state)
        seen.append(state)

    session.state.transition_to = note
    return seen


# --- one session -------------------------------------------------------------------------------


async def test_the_session_is_the_same_before_meanwhile_and_afterwards(scene: Scene) -> None:
    zk, server = scene.zk, scene.server
    await zk.create("/theirs", b"1", ephemeral=True)
    before = scene.session.session_id
    states = states_of(scene.session)
    async with adapt(zk) as client:
        assert client.session_id == before == scene.session.session_id
        assert await zk.get_data("/theirs") == b"1"
        await client.create("/ours", mode=CreateMode.EPHEMERAL)
        async with aiolead.Lock(client, PATH) as held:
            assert held.session_id == before
        assert server.connections == 1
    assert states == [States.SUSPENDED, States.CONNECTED] * 2
    assert await zk.get_data("/theirs") == b"1"
    assert scene.session.session_id == before
    assert set(server.sessions()) == {before}
    assert {"/theirs", "/ours"} < set(server.znodes())
    assert type(scene.session) is aiozk.session.Session


async def test_a_timeout_that_nobody_has_asked_for(scene: Scene) -> None:
    """aiozk takes what it is granted for what it wants, whatever that is."""
    scene.session.timeout = 0x7FFF_FFFF / 1000
    assert patience_of(scene.session) <= 60
    async with adapt(scene.zk) as client:
        assert client.session_timeout <= 10
        await client.exists("/")
    await scene.zk.exists("/")


async def test_a_client_can_be_adapted_again(scene: Scene) -> None:
    for _ in range(2):
        async with adapt(scene.zk) as client, aiolead.Lock(client, PATH):
            assert await scene.zk.exists(PATH)
    assert len(scene.server.sessions()) == 1


async def test_the_chroot_is_the_same(scene: Scene) -> None:
    async with started(scene.proxy.connect_string + "/app/one") as zk:
        await zk.create("/a", b"x")
        async with adapt(zk) as client:
            assert await client.get_children("/") == ["a"]
            await client.create("/b")
            assert sorted(await zk.get_children("/")) == ["a", "b"]
    assert "/app/one/b" in scene.server.znodes()


async def test_what_is_held_at_the_end_is_lost_and_the_session_is_not(scene: Scene) -> None:
    before = scene.session.session_id
    entered = anyio.Event()
    losses: list[LossReason] = []

    async def hold(client: aiolead.Client) -> None:
        try:
            async with aiolead.Lock(client, PATH):
                entered.set()
                await anyio.sleep_forever()
        except LockLost as lost:
            losses.append(lost.reason)

    async with anyio.create_task_group() as tasks:
        async with adapt(scene.zk) as client:
            tasks.start_soon(hold, client)
            await entered.wait()
    assert losses == [LossReason.CLOSED]
    await scene.zk.exists("/")
    assert scene.session.session_id == before
    assert await scene.zk.get_children(PATH) == []


async def test_a_place_in_line_that_is_left_behind_ends_the_session(scene: Scene) -> None:
    """Otherwise aiozk would keep it alive, and nobody behind it would ever have a turn."""
    before = scene.session.session_id
    states = states_of(scene.session)

    async def wait(client: aiolead.Client) -> None:
        with pytest.raises(aiolead.errors.ClientClosedError):
            async with aiolead.Lock(client, PATH):
                raise AssertionError("it is not its turn")

    async with aiolead.connect(scene.server.connect_string) as other:
        async with aiolead.Lock(other, PATH), anyio.create_task_group() as tasks:
            async with adapt(scene.zk) as client:
                tasks.start_soon(wait, client)
                await eventually(lambda: len(scene.server.watches()) == 2, "it waits")
        assert before not in scene.server.sessions()
        async with aiolead.Lock(other, PATH).acquire(timeout=PATIENCE):
            pass
    assert await scene.zk.exists("/")
    assert scene.session.session_id != before
    assert states[2:] == [States.LOST, States.CONNECTED]


async def test_a_create_that_is_unanswered_at_the_end_leaves_no_ghost(scene: Scene) -> None:
    await scene.zk.create(PATH)
    held = scene.proxy.hold_reply(OpCode.CREATE2)
    async with adapt(scene.zk) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    await held.wait()
                    scope.cancel()

                tasks.start_soon(cancel)
                async with aiolead.Lock(client, PATH):
                    raise AssertionError("the answer to its create is held back")
        assert len(scene.server.znodes()) == 2
        held.cut()
    await eventually(lambda: scene.server.znodes() == [PATH], "its znode is gone")
    assert await scene.zk.get_children(PATH) == []


async def test_aiozks_client_can_be_closed_as_soon_as_it_is_left(scene: Scene) -> None:
    async with adapt(scene.zk):
        pass
    with anyio.fail_after(PATIENCE):
        await scene.zk.close()
    assert scene.server.sessions() == {}


# --- aiozk's own requests ----------------------------------------------------------------------


async def conversation(zk: Any) -> list[object]:
    """One of everything that aiozk can ask for, and what came of it."""
    said: list[object] = []

    async def says(asked: Any) -> None:
        try:
            said.append(await asked)
        except exc.ZKError as error:
            said.append(type(error))

    await says(zk.create("/c", b"1"))
    await says(zk.create("/c"))
    await says(zk.create("/c/s-", "text", sequential=True, ephemeral=True))
    await says(zk.create("/no/such"))
    await says(zk.exists("/c"))
    await says(zk.exists("/no"))
    await says(zk.get_data("/c"))
    await says(zk.get("/no"))
    await says(zk.set_data("/c", b"2"))
    await says(zk.set("/c", b"3", 7))
    await says(zk.get_children("/c"))
    said.append([str(acl) for acl in await zk.get_acl("/c")])
    await says(zk.set_acl("/c", [aiozk.ACL.make("world", "anyone", read=True, admin=True)]))
    await says(zk.create("/c/refused"))
    await says(zk.delete("/c", force=True))
    transaction = zk.begin_transaction()
    transaction.create("/t", b"x")
    transaction.check_version("/t", 0)
    transaction.set_data("/t", b"y")
    said.append(vars(await transaction.commit()))
    transaction = zk.begin_transaction()
    transaction.delete("/t")
    transaction.check_version("/t", 9)
    said.append(bool(await transaction.commit()))
    await says(zk.get_data("/t"))
    await says(zk.ensure_path("/x/y/z"))
    await says(zk.deleteall("/x"))
    await says(zk.send(aiozk.protocol.SyncRequest(path="/t")))
    said[-1] = str(said[-1])
    return said


async def test_every_request_is_answered_as_by_aiozk_itself(scene: Scene) -> None:
    alone = await conversation(scene.zk)
    async with EmbeddedServer() as another, started(another.connect_string) as zk:
        async with adapt(zk):
            assert await conversation(zk) == alone
    assert len(alone) == 21


async def test_requests_wait_for_the_next_connection_as_they_do_with_aiozk(scene: Scene) -> None:
    await scene.zk.create("/a", b"x")
    async with adapt(scene.zk):
        scene.proxy.drop_reply(OpCode.GET_DATA, count=2)
        with anyio.fail_after(PATIENCE):
            assert await scene.zk.get_data("/a") == b"x"
            scene.proxy.reset()
            assert await asyncio.gather(*(scene.zk.exists("/a") for _ in range(20))) == [True] * 20


async def test_the_policy_of_the_application_says_how_often_its_writes_are_sent() -> None:
    async with EmbeddedServer() as server:
        with FaultProxy("127.0.0.1", server.port) as proxy:
            for policy, error, sent in [
                (aiozk.RetryPolicy.once(), exc.FailedRetry, 1),
                (aiozk.RetryPolicy.forever(), exc.NodeExists, 2),
            ]:
                async with started(proxy.connect_string, retry_policy=policy) as zk, adapt(zk):
                    before = proxy.requests["CREATE2"]
                    proxy.drop_reply(OpCode.CREATE2)
                    with pytest.raises(error), anyio.fail_after(PATIENCE):
                        await zk.create(f"/{sent}")
                    assert proxy.requests["CREATE2"] - before == sent
                    assert not policy.timings


async def test_requests_under_way_when_it_comes_and_goes_are_answered(scene: Scene) -> None:
    zk = scene.zk
    failures: list[BaseException] = []

    async def ask() -> None:
        while True:
            try:
                assert await zk.exists("/")
            except Exception as error:
                failures.append(error)
                raise
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
        for _ in range(3):
            async with adapt(zk) as client:
                async with aiolead.Lock(client, PATH):
                    await zk.exists(PATH)
            await zk.exists(PATH)
        tasks.cancel_scope.cancel()
    assert not failures
    assert len(scene.server.sessions()) == 1


async def test_requests_about_the_session_are_refused(scene: Scene) -> None:
    async with adapt(scene.zk):
        with pytest.raises(UsageError, match="the adapter handles"):
            await scene.zk.send(aiozk.protocol.PingRequest())


# --- aiozk's own watches -----------------------------------------------------------------------


async def test_watches_are_taken_over_and_outlive_links(scene: Scene) -> None:
    zk, proxy = scene.zk, scene.proxy
    event = aiozk.WatchEvent
    await zk.create("/w")
    await zk.create("/parent")
    fired = [
        zk.wait_for_events([event.DELETED], "/w"),
        zk.wait_for_events([event.CREATED], "/none"),
        zk.wait_for_events([event.CHILDREN_CHANGED], "/parent"),
    ]
    for path in ("/w", "/none"):
        await zk.exists(path, watch=True)
    await zk.get_children("/parent", watch=True)
    async with adapt(zk), aiolead.connect(scene.server.connect_string) as other:
        data = zk.wait_for_events([event.DATA_CHANGED], "/parent")
        await zk.get("/parent", watch=True)
        proxy.refuse()
        proxy.reset()
        await other.delete("/w")
        await other.create("/none")
        assert not any(future.done() for future in fired)
        proxy.heal()
        with anyio.fail_after(PATIENCE):
            await fired[0]
            await fired[1]
            await other.create("/parent/child")
            await fired[2]
            assert not data.done()
            await other.set("/parent", b"new")
            await data


async def test_what_aiozk_watches_is_watched_in_the_next_session(scene: Scene) -> None:
    zk, event = scene.zk, aiozk.WatchEvent
    await zk.create("/w", b"1")
    changed = zk.wait_for_events([event.DATA_CHANGED], "/w")
    await zk.get("/w", watch=True)
    async with adapt(zk) as client, aiolead.connect(scene.server.connect_string) as other:
        before = client.session_id
        scene.server.expire_session(before)
        await eventually(lambda: client.session_id not in (0, before), "there is a new session")
        await zk.exists("/")
        assert not changed.done()
        await other.set("/w", b"2")
        with anyio.fail_after(PATIENCE):
            await changed


async def test_watches_of_requests_that_fail_leave_nothing_behind(scene: Scene) -> None:
    async with adapt(scene.zk) as client:
        bridge = scene.session.bridge
        with pytest.raises(exc.NoNode):
            await scene.zk.get("/none", watch=True)
        assert bridge._watches == {}
        await scene.zk.exists("/none", watch=True)
        assert bridge.watching == 1
        await client.create("/none")
        await eventually(lambda: not bridge._watches, "the watch fires")


# --- the end of a session ----------------------------------------------------------------------


async def test_a_session_that_ends_is_told_to_both(scene: Scene) -> None:
    states = states_of(scene.session)
    async with adapt(scene.zk) as client:
        before = client.session_id
        del states[:]
        scene.server.expire_session(before)
        await eventually(lambda: client.session_id not in (0, before), "there is a new session")
        assert states[-2:] == [States.LOST, States.CONNECTED]
        assert scene.session.session_id == client.session_id
        assert await scene.zk.exists("/")


async def test_a_session_that_is_over_before_it_is_adapted(scene: Scene) -> None:
    before = scene.session.session_id
    states = states_of(scene.session)
    scene.proxy.refuse()
    scene.server.expire_session(before)
    scene.proxy.heal()
    async with adapt(scene.zk) as client:
        assert client.session_id != before
        assert scene.session.session_id == client.session_id
        assert states == [States.SUSPENDED, States.LOST, States.CONNECTED]
        async with aiolead.Lock(client, PATH):
            pass


async def test_closing_aiozks_client_ends_what_is_held(scene: Scene) -> None:
    zk, session_id = scene.zk, scene.session.session_id
    async with adapt(zk) as client:
        with pytest.raises(LockLost) as caught:
            async with aiolead.Lock(client, PATH):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(zk.close)
                    await anyio.sleep_forever()
        assert caught.value.reason is LossReason.CLOSED
        assert client.state is SessionState.CLOSED
        assert session_id not in scene.server.sessions()
        with pytest.raises(exc.SessionLost), anyio.fail_after(PATIENCE):
            await zk.exists("/")
        await zk.close()
        with pytest.raises(exc.SessionLost):
            await zk.start()
    assert scene.session.state == States.LOST
    assert not scene.session.started


async def test_interrupted_close_of_aiozks_client_is_finished_by_the_next(scene: Scene) -> None:
    zk, session_id = scene.zk, scene.session.session_id
    async with adapt(zk):
        answer = scene.proxy.hold_reply(OpCode.CLOSE_SESSION)
        closing = asyncio.create_task(zk.close())
        await answer.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        closing = asyncio.create_task(zk.close())
        done, _ = await asyncio.wait([closing], timeout=0.1)
        assert not done
        answer.release()
        with anyio.fail_after(PATIENCE):
            await closing
        assert session_id not in scene.server.sessions()
        assert scene.session.state == States.LOST
        assert not scene.session.started
        with pytest.raises(exc.SessionLost), anyio.fail_after(PATIENCE):
            await zk.exists("/")


async def test_close_of_aiozks_client_goes_on_if_interrupted_at_once(scene: Scene) -> None:
    zk, session_id = scene.zk, scene.session.session_id
    async with adapt(zk):
        closing = asyncio.create_task(zk.close())
        await asyncio.sleep(0)
        closing.cancel()
        with anyio.fail_after(PATIENCE):
            await zk.close()
        assert session_id not in scene.server.sessions()


async def test_closing_aiozks_client_in_the_body_of_a_hold_ends_the_session(scene: Scene) -> None:
    """The loss of the hold interrupts both calls."""
    zk, session_id = scene.zk, scene.session.session_id
    async with adapt(zk) as client:
        with pytest.raises(LockLost) as caught:
            async with aiolead.Lock(client, PATH):
                await asyncio.gather(zk.close(), zk.close())
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.CLOSED
    assert session_id not in scene.server.sessions()
    assert scene.server.sessions() == {}
    assert scene.session.state == States.LOST


# --- servers that cannot be reached ------------------------------------------------------------


async def test_no_server_leaves_the_client_to_aiozk(scene: Scene) -> None:
    scene.proxy.refuse()
    with pytest.raises(ConnectFailed):
        async with adapt(scene.zk, connect_timeout=0.2):
            raise AssertionError("there is no server")
    assert type(scene.session) is aiozk.session.Session
    scene.proxy.heal()
    with anyio.fail_after(PATIENCE):
        assert await scene.zk.exists("/")


async def test_entering_can_be_cancelled(scene: Scene) -> None:
    before = scene.session.session_id
    held = scene.proxy.hold_reply(OpCode.CREATE_SESSION)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await held.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            async with adapt(scene.zk):
                raise AssertionError("the handshake is held back")
    assert scope.cancelled_caught
    held.release()
    with anyio.fail_after(PATIENCE):
        assert await scene.zk.exists("/")
    assert scene.session.session_id == before


async def test_leaving_can_be_cancelled(scene: Scene) -> None:
    with anyio.CancelScope() as scope:
        async with adapt(scene.zk):
            scope.cancel()
            await anyio.sleep_forever()
    assert type(scene.session) is aiozk.session.Session
    with anyio.fail_after(PATIENCE):
        # aiozk's would wait for a connection, and let none be made.
        await scene.zk.close()
    assert scene.server.sessions() == {}


# --- bad input ---------------------------------------------------------------------------------


async def test_a_client_that_is_not_started_or_closed(scene: Scene) -> None:
    fresh = aiozk.ZKClient(scene.proxy.connect_string)
    with pytest.raises(UsageError, match="was not started"):
        async with adapt(fresh):
            raise AssertionError("it was refused")
    async with started(scene.proxy.connect_string) as zk:
        await zk.close()
        before = scene.server.packets_in
        with pytest.raises(UsageError, match="was closed"):
            async with adapt(zk):
                raise AssertionError("it was refused")
        assert scene.server.packets_in == before


async def test_a_client_that_is_adapted_already(scene: Scene) -> None:
    async with adapt(scene.zk) as client:
        with pytest.raises(UsageError, match="adapted already"):
            async with adapt(scene.zk):
                raise AssertionError("it was refused")
        assert type(scene.session) is AdaptedSession
        await scene.zk.start()  # as it is started, this only waits
        assert await client.exists("/")
    adaptation = adapt(scene.zk)
    async with adaptation:
        pass
    with pytest.raises(UsageError, match="entered already"):
        await adaptation.__aenter__()


async def test_a_client_of_another_event_loop(scene: Scene) -> None:
    before = scene.server.packets_in

    async def elsewhere() -> None:
        async with adapt(scene.zk):
            raise AssertionError("it was refused")

    with pytest.raises(UsageError, match="another event loop"):
        await anyio.to_thread.run_sync(asyncio.run, elsewhere())
    assert scene.server.packets_in == before


async def test_a_session_of_the_applications_own_kind(scene: Scene) -> None:
    class TheirSession(aiozk.session.Session):  # type: ignore[misc]
        pass

    scene.session.__class__ = TheirSession
    with pytest.raises(UsageError, match="its session is a TheirSession"):
        async with adapt(scene.zk):
            raise AssertionError("it was refused")


@pytest.mark.parametrize("version", ["0.31.0", "0.33.0", "1.0", "0.32", "", None])
async def test_an_unknown_version(version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    zk = aiozk.ZKClient("127.0.0.1:1")
    monkeypatch.setattr(aiozk, "__version__", version)
    with pytest.raises(ConfigurationError, match="is not known to the adapter"):
        adapt(zk)


async def test_no_aiozk_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"needs aiolead\[aiozk\]"):
        adapt(object())


@pytest.mark.parametrize("what", [None, "127.0.0.1:2181", object()])
async def test_no_client_of_aiozks(what: object) -> None:
    with pytest.raises(ConfigurationError, match=r"must be an aiozk\.ZKClient"):
        adapt(what)


async def test_times_that_make_no_sense(scene: Scene) -> None:
    before = scene.server.packets_in
    with pytest.raises(ConfigurationError, match="grace_period"):
        async with adapt(scene.zk, grace_period=5):
            raise AssertionError("it was refused")
    assert scene.server.packets_in == before
    assert type(scene.session) is aiozk.session.Session
