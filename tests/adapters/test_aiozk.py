"""An aiozk client that is adapted: one session for both, and the requests of aiozk."""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiozk
import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from adapters.aiozk_peer import started
from aiozk import exc
from aiozk.states import States
from kit.clients import PATIENCE, JumpingClock, eventually
from kit.elsewhere import in_child
from kit.faults import only_on

import aiolead
from aiolead import Client, Lock
from aiolead.adapters.aiozk import adapt
from aiolead.adapters.aiozk._session import AdaptedSession, patience_of
from aiolead.errors import (
    AioleadError,
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


def states_of(session: Any) -> list[str]:
    """The states that an aiozk session goes through from now on."""
    seen: list[str] = []
    transition_to = session.state.transition_to

    def note(state: str) -> None:
        transition_to(state)
        seen.append(state)

    session.state.transition_to = note
    return seen


@asynccontextmanager
async def cancelled_when(wait: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Cancel the block as soon as `wait` returns."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await wait()
                scope.cancel()

            tasks.start_soon(cancel)
            yield
    assert scope.cancelled_caught


# --- one session -------------------------------------------------------------------------------


async def test_session_is_kept(zk: Any, own: EmbeddedServer) -> None:
    await zk.create("/theirs", b"1", ephemeral=True)
    before = zk.session.session_id
    states = states_of(zk.session)
    async with adapt(zk) as client:
        assert client.session_id == before == zk.session.session_id
        assert await zk.get_data("/theirs") == b"1"
        await client.create("/ours", mode=CreateMode.EPHEMERAL)
        async with Lock(client, PATH) as held:
            assert held.session_id == before
        assert own.connections == 1
    assert states == [States.SUSPENDED, States.CONNECTED] * 2
    assert await zk.get_data("/theirs") == b"1"
    assert zk.session.session_id == before
    assert set(own.sessions()) == {before}
    assert {"/theirs", "/ours"} < set(own.znodes())
    assert type(zk.session) is aiozk.session.Session


async def test_default_acl_of_aiozk_is_that_of_the_recipes(own: EmbeddedServer) -> None:
    readable = aiozk.ACL.make("world", "anyone", read=True, create=True, delete=True)
    async with started(own.connect_string, default_acl=[readable]) as zk:
        async with adapt(zk) as client, Lock(client, PATH) as held:
            for path in (PATH, held.path):
                (entry,) = (await client.get_acl(path))[0]
                assert (entry.permissions, entry.id) == (readable.perms, "anyone")


async def test_unlimited_timeout_is_bounded(zk: Any) -> None:
    """aiozk takes what it is granted for what it wants, whatever that is."""
    zk.session.timeout = 0x7FFF_FFFF / 1000
    assert patience_of(zk.session) <= 60
    async with adapt(zk) as client:
        assert client.session_timeout <= 10
        await client.exists("/")
    await zk.exists("/")


async def test_chroot_is_kept(zk: Any, own: EmbeddedServer, proxy: FaultProxy) -> None:
    async with started(proxy.connect_string + "/app/one") as zk:
        await zk.create("/a", b"x")
        async with adapt(zk) as client:
            assert await client.get_children("/") == ["a"]
            await client.create("/b")
            assert sorted(await zk.get_children("/")) == ["a", "b"]
    assert "/app/one/b" in own.znodes()


async def test_end_of_the_adapter_loses_holds_and_keeps_the_session(zk: Any) -> None:
    before = zk.session.session_id
    entered = anyio.Event()
    losses: list[LossReason] = []

    async def hold(client: Client) -> None:
        try:
            async with Lock(client, PATH):
                entered.set()
                await anyio.sleep_forever()
        except LockLost as lost:
            losses.append(lost.reason)

    async with anyio.create_task_group() as tasks:
        async with adapt(zk) as client:
            tasks.start_soon(hold, client)
            await entered.wait()
    assert losses == [LossReason.CLOSED]
    await zk.exists("/")
    assert zk.session.session_id == before
    assert await zk.get_children(PATH) == []


async def test_abandoned_waiter_ends_the_session(zk: Any, own: EmbeddedServer) -> None:
    """Otherwise aiozk would keep it alive, and nobody behind it would ever have a turn."""
    before = zk.session.session_id
    states = states_of(zk.session)

    async def wait(client: Client) -> None:
        with pytest.raises(aiolead.errors.ClientClosedError):
            async with Lock(client, PATH):
                raise AssertionError("it is not its turn")

    async with aiolead.connect(own.connect_string) as other:
        async with Lock(other, PATH), anyio.create_task_group() as tasks:
            async with adapt(zk) as client:
                tasks.start_soon(wait, client)
                await eventually(lambda: len(own.watches()) == 2, "it waits")
        assert before not in own.sessions()
        async with Lock(other, PATH).acquire(timeout=PATIENCE):
            pass
    assert await zk.exists("/")
    assert zk.session.session_id != before
    assert states[2:] == [States.LOST, States.CONNECTED]


async def test_unanswered_create_is_cleaned_up(
    zk: Any, own: EmbeddedServer, proxy: FaultProxy
) -> None:
    await zk.create(PATH)
    held = proxy.hold_reply(OpCode.CREATE2)
    async with adapt(zk) as client:
        async with cancelled_when(held.wait):
            async with Lock(client, PATH):
                raise AssertionError("the answer to its create is held back")
        assert len(own.znodes()) == 2
        held.cut()
    await eventually(lambda: own.znodes() == [PATH], "its znode is gone")
    assert await zk.get_children(PATH) == []


async def test_aiozk_can_be_closed_after_the_adapter(zk: Any, own: EmbeddedServer) -> None:
    async with adapt(zk):
        pass
    with anyio.fail_after(PATIENCE):
        await zk.close()
    assert own.sessions() == {}


# --- aiozk's own requests ----------------------------------------------------------------------


async def conversation(zk: Any) -> list[object]:
    """Everything that aiozk can ask for, and its answers."""
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


async def test_requests_are_answered_as_by_aiozk(zk: Any) -> None:
    alone = await conversation(zk)
    async with EmbeddedServer() as another, started(another.connect_string) as zk:
        async with adapt(zk):
            assert await conversation(zk) == alone
    assert len(alone) == 21


async def test_requests_wait_for_the_next_connection(zk: Any, proxy: FaultProxy) -> None:
    await zk.create("/a", b"x")
    async with adapt(zk):
        proxy.drop_reply(OpCode.GET_DATA, count=2)
        with anyio.fail_after(PATIENCE):
            assert await zk.get_data("/a") == b"x"
            proxy.reset()
            assert await asyncio.gather(*(zk.exists("/a") for _ in range(20))) == [True] * 20


async def test_retry_policy_of_aiozk_is_kept() -> None:
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


async def test_requests_in_flight_are_answered(zk: Any, own: EmbeddedServer) -> None:
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
                async with Lock(client, PATH):
                    await zk.exists(PATH)
            await zk.exists(PATH)
        tasks.cancel_scope.cancel()
    assert not failures
    assert len(own.sessions()) == 1


async def test_cancelled_request_is_forgotten(
    zk: Any, proxy: FaultProxy, internal_errors: list[logging.LogRecord]
) -> None:
    async with adapt(zk):
        held = proxy.hold_reply(OpCode.GET_DATA)
        async with cancelled_when(held.wait):
            await zk.get_data("/")
        held.release()
        assert await zk.exists("/")
    assert internal_errors == []


async def test_request_is_repeated_if_aiozk_cannot_read_its_answer(
    zk: Any, own: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreadable:
        @staticmethod
        def deserialize(_data: bytes) -> object:
            monkeypatch.undo()
            raise ValueError("unreadable")

    async with adapt(zk):
        monkeypatch.setitem(aiozk.protocol.response_xref, OpCode.GET_DATA, Unreadable)
        with anyio.fail_after(PATIENCE):
            assert await zk.get_data("/") == b""
        assert own.requests["GET_DATA"] == 2


async def test_requests_about_the_session_are_refused(zk: Any) -> None:
    async with adapt(zk):
        with pytest.raises(UsageError, match="the adapter handles"):
            await zk.send(aiozk.protocol.PingRequest())


# --- aiozk's own watches -----------------------------------------------------------------------


async def test_watches_outlive_connections(zk: Any, own: EmbeddedServer, proxy: FaultProxy) -> None:
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
    async with adapt(zk), aiolead.connect(own.connect_string) as other:
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


async def test_watches_outlive_the_session(zk: Any, own: EmbeddedServer) -> None:
    event = aiozk.WatchEvent
    await zk.create("/w", b"1")
    changed = zk.wait_for_events([event.DATA_CHANGED], "/w")
    await zk.get("/w", watch=True)
    async with adapt(zk) as client, aiolead.connect(own.connect_string) as other:
        before = client.session_id
        own.expire_session(before)
        await eventually(lambda: client.session_id not in (0, before), "there is a new session")
        await zk.exists("/")
        assert not changed.done()
        await other.set("/w", b"2")
        with anyio.fail_after(PATIENCE):
            await changed


async def test_watch_of_a_failed_request_is_removed(zk: Any) -> None:
    async with adapt(zk) as client:
        bridge = zk.session.bridge
        with pytest.raises(exc.NoNode):
            await zk.get("/none", watch=True)
        assert bridge._watches == {}
        await zk.exists("/none", watch=True)
        assert bridge.watching == 1
        await client.create("/none")
        await eventually(lambda: not bridge._watches, "the watch fires")


# --- the end of a session ----------------------------------------------------------------------


async def test_expiry_is_reported_to_both(zk: Any, own: EmbeddedServer) -> None:
    states = states_of(zk.session)
    async with adapt(zk) as client:
        before = client.session_id
        del states[:]
        own.expire_session(before)
        await eventually(lambda: client.session_id not in (0, before), "there is a new session")
        assert states[-2:] == [States.LOST, States.CONNECTED]
        assert zk.session.session_id == client.session_id
        assert await zk.exists("/")


async def test_session_that_expired_before(zk: Any, own: EmbeddedServer, proxy: FaultProxy) -> None:
    before = zk.session.session_id
    states = states_of(zk.session)
    proxy.refuse()
    own.expire_session(before)
    proxy.heal()
    async with adapt(zk) as client:
        assert client.session_id != before
        assert zk.session.session_id == client.session_id
        assert states == [States.SUSPENDED, States.LOST, States.CONNECTED]
        async with Lock(client, PATH):
            pass


async def test_closing_aiozk_ends_holds(zk: Any, own: EmbeddedServer) -> None:
    session_id = zk.session.session_id
    async with adapt(zk) as client:
        with pytest.raises(LockLost) as caught:
            async with Lock(client, PATH):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(zk.close)
                    await anyio.sleep_forever()
        assert caught.value.reason is LossReason.CLOSED
        assert client.state is SessionState.CLOSED
        assert session_id not in own.sessions()
        with pytest.raises(exc.SessionLost), anyio.fail_after(PATIENCE):
            await zk.exists("/")
        await zk.close()
        with pytest.raises(exc.SessionLost):
            await zk.start()
    assert zk.session.state == States.LOST
    assert not zk.session.started


async def test_next_close_finishes_a_cancelled_one(
    zk: Any, own: EmbeddedServer, proxy: FaultProxy
) -> None:
    session_id = zk.session.session_id
    async with adapt(zk):
        answer = proxy.hold_reply(OpCode.CLOSE_SESSION)
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
        assert session_id not in own.sessions()
        assert zk.session.state == States.LOST
        assert not zk.session.started
        with pytest.raises(exc.SessionLost), anyio.fail_after(PATIENCE):
            await zk.exists("/")


async def test_close_goes_on_if_cancelled_at_once(zk: Any, own: EmbeddedServer) -> None:
    session_id = zk.session.session_id
    async with adapt(zk):
        closing = asyncio.create_task(zk.close())
        await asyncio.sleep(0)
        closing.cancel()
        with anyio.fail_after(PATIENCE):
            await zk.close()
        assert session_id not in own.sessions()


async def test_closing_aiozk_in_the_body_of_a_hold(zk: Any, own: EmbeddedServer) -> None:
    """The loss of the hold interrupts both calls."""
    session_id = zk.session.session_id
    async with adapt(zk) as client:
        with pytest.raises(LockLost) as caught:
            async with Lock(client, PATH):
                await asyncio.gather(zk.close(), zk.close())
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.CLOSED
    assert session_id not in own.sessions()
    assert own.sessions() == {}
    assert zk.session.state == States.LOST


# --- servers that cannot be reached ------------------------------------------------------------


async def test_unreachable_server_leaves_aiozk_usable(zk: Any, proxy: FaultProxy) -> None:
    held = proxy.hold_reply(OpCode.GET_DATA)
    asked = asyncio.create_task(zk.get_data("/"))
    await held.wait()
    proxy.refuse()
    with pytest.raises(ConnectFailed):
        async with adapt(zk, connect_timeout=0.2):
            raise AssertionError("there is no server")
    assert type(zk.session) is aiozk.session.Session
    proxy.heal()
    with anyio.fail_after(PATIENCE):
        assert await zk.exists("/")
        assert await asked == b"", "it was asked again"


async def test_entering_can_be_cancelled(zk: Any, proxy: FaultProxy) -> None:
    before = zk.session.session_id
    held = proxy.hold_reply(OpCode.CREATE_SESSION)
    async with cancelled_when(held.wait):
        async with adapt(zk):
            raise AssertionError("the handshake is held back")
    held.release()
    with anyio.fail_after(PATIENCE):
        assert await zk.exists("/")
    assert zk.session.session_id == before


async def test_leaving_can_be_cancelled(zk: Any, own: EmbeddedServer) -> None:
    with anyio.CancelScope() as scope:
        async with adapt(zk):
            scope.cancel()
            await anyio.sleep_forever()
    assert type(zk.session) is aiozk.session.Session
    with anyio.fail_after(PATIENCE):
        # aiozk's would wait for a connection, and let none be made.
        await zk.close()
    assert own.sessions() == {}


# --- threads and forked children ---------------------------------------------------------------


async def test_thread_that_sees_a_loss_first_leaves_the_end_to_the_loop(client: Client) -> None:
    clock, told = JumpingClock(), threading.Event()
    seen: list[BaseException] = []
    client._core.clock = clock

    def look(held: Any) -> None:
        try:
            held.check()
        except LockLost as lost:
            seen.append(lost)

    with pytest.raises(LockLost), anyio.fail_after(PATIENCE):
        async with Lock(client, PATH) as held:
            held.add_lost_callback(told.set)
            clock.jump(100.0)
            thread = threading.Thread(target=look, args=(held,))
            thread.start()
            thread.join()
            assert len(seen) == 1
            assert not told.is_set()
            await anyio.sleep_forever()
    assert told.is_set()


async def test_forked_child_holds_nothing(client: Client) -> None:
    async with Lock(client, PATH) as held:

        def look() -> tuple[bool, float, bool, str]:
            refused = ""
            try:
                held.check()
            except UsageError as error:
                refused = str(error)
            return held.is_held, held.remaining(), client.healthy(), refused

        *values, refused = in_child(look)
        assert values == [False, 0.0, False]
        assert "was forked" in refused
        await held.verify()


async def test_adapter_cannot_be_left_in_another_thread(zk: Any) -> None:
    adaptation = adapt(zk)
    async with adaptation as client, Lock(client, PATH) as held:

        async def leave() -> None:
            await adaptation.__aexit__(None, None, None)

        with pytest.raises(UsageError, match="another thread"):
            await anyio.to_thread.run_sync(lambda: anyio.run(leave))
        await held.verify()
        await zk.exists("/")


# --- bad input ---------------------------------------------------------------------------------


async def refused(zk: Any, error: type[AioleadError], match: str, **options: Any) -> None:
    """Check that a client is not adapted."""
    with pytest.raises(error, match=match):
        async with adapt(zk, **options):
            raise AssertionError("it was adapted")


async def test_client_that_is_not_started_or_closed(zk: Any, own: EmbeddedServer) -> None:
    fresh = aiozk.ZKClient("127.0.0.1:1")
    await refused(fresh, UsageError, "was not started")
    await zk.close()
    before = own.packets_in
    await refused(zk, UsageError, "was closed")
    assert own.packets_in == before


async def test_client_that_is_adapted_already(zk: Any) -> None:
    async with adapt(zk) as client:
        await refused(zk, UsageError, "adapted already")
        assert type(zk.session) is AdaptedSession
        await zk.start()  # as it is started, this only waits
        assert await client.exists("/")
    adaptation = adapt(zk)
    async with adaptation:
        pass
    with pytest.raises(UsageError, match="entered already"):
        await adaptation.__aenter__()


async def test_client_of_another_event_loop(zk: Any, own: EmbeddedServer) -> None:
    before = own.packets_in
    elsewhere = refused(zk, UsageError, "another event loop")
    await anyio.to_thread.run_sync(asyncio.run, elsewhere)
    assert own.packets_in == before


def test_client_in_a_trio_program(anyio_backend: Any) -> None:
    zk = aiozk.ZKClient("127.0.0.1:1")
    anyio.run(refused, zk, UsageError, "aiozk lives on asyncio", backend="trio")


async def test_session_of_a_subclass(zk: Any) -> None:
    class TheirSession(aiozk.session.Session):  # type: ignore[misc]
        pass

    zk.session.__class__ = TheirSession
    await refused(zk, UsageError, "its session is a TheirSession")


@pytest.mark.parametrize("version", ["0.31.0", "0.33.0", "1.0", "0.32", "", None])
async def test_unknown_version(version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    zk = aiozk.ZKClient("127.0.0.1:1")
    monkeypatch.setattr(aiozk, "__version__", version)
    with pytest.raises(ConfigurationError, match="is not known to the adapter"):
        adapt(zk)


async def test_without_aiozk(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"needs aiolead\[aiozk\]"):
        adapt(object())


@pytest.mark.parametrize("what", [None, "127.0.0.1:2181", object()])
async def test_no_aiozk_client(what: object) -> None:
    with pytest.raises(ConfigurationError, match=r"must be an aiozk\.ZKClient"):
        adapt(what)


async def test_invalid_times_are_refused(zk: Any, own: EmbeddedServer) -> None:
    before = own.packets_in
    await refused(zk, ConfigurationError, "grace_period", grace_period=5)
    await refused(zk, ConfigurationError, "connect_timeout", connect_timeout=0)
    assert own.packets_in == before
    assert type(zk.session) is aiozk.session.Session
