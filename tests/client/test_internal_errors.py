"""What raises something unexpected ends with a documented error, and nothing else ends with it.

One inner function is made to raise, in the place of a defect; or a function of the user's does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn

import anyio
import pytest
from kit.clients import PATIENCE, connect, eventually, in_memory
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import (
    Client,
    Config,
    Election,
    Group,
    Lock,
    LockLost,
    PersistentNode,
    Queue,
    ServiceInstance,
    ServiceRegistry,
    SharedValue,
    TaskBoard,
    TreeCache,
)
from aiolead._client.net.supervisor import Supervisor
from aiolead._recipes._core.ephemeral import EphemeralNode
from aiolead._recipes._core.error_policy import in_background
from aiolead._recipes._core.observe import View
from aiolead._recipes.discovery import service_registry
from aiolead._recipes.election import campaign, observer
from aiolead._recipes.membership import group
from aiolead._recipes.membership import znode_keeper as keeper
from aiolead._recipes.tasks.board import BoardView
from aiolead._recipes.tree.tree_reader import TreeReader
from aiolead._recipes.values import znode_views
from aiolead._recipes.values.config_snapshot import ConfigView
from aiolead._recipes.values.shared_value import SharedValueView
from aiolead._session.machine import SessionMachine
from aiolead.errors import ClientClosedError, InternalError, LossReason, ReleaseError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, Hooks, OpCode
from aiolead.types import Codec

Records = list[logging.LogRecord]
Use = Callable[[Client, Client, Callable[[], None]], Awaitable[object]]
"""Uses something on the first client; the second one changes it; the function plants the defect."""


class Defect(Exception):
    """What nobody expects."""


def defect(*_: object, **__: object) -> NoReturn:
    raise Defect("a defect")


async def defective(*_: object, **__: object) -> NoReturn:
    raise Defect("a defect")


@asynccontextmanager
async def bystander(records: Records) -> AsyncIterator[tuple[Client, Client, EmbeddedServer]]:
    """Two clients; the first one holds a lock, which it has at the end, too."""
    async with embedded() as server, in_memory(server) as helper, in_memory(server) as client:
        session_id = client.session_id
        async with Lock(client, "/bystander") as held:
            with anyio.fail_after(PATIENCE):
                yield client, helper, server
            await held.verify()
            assert (client.state, client.session_id) == (SessionState.CONNECTED, session_id)
    assert len(records) == 1, [record.getMessage() for record in records]
    exc_info = records[0].exc_info
    assert exc_info is not None
    assert isinstance(exc_info[1], Defect)


# --- views, and whatever else is followed --------------------------------------------------------


async def read_on(values: Any) -> None:
    async for _ in values:
        pass


async def watching_data(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    await helper.create("/a", b"1")
    async with client.observe_data("/a") as view:
        plant()
        await helper.set("/a", b"2")
        await read_on(view)


async def watching_children(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    await helper.create("/a", b"1")
    async with client.observe_children("/a") as view:
        plant()
        await helper.create("/a/b")
        await read_on(view)


async def following_a_value(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    value = SharedValue(helper, "/a", 0, codec=Codec.int32())
    await value.set(1)
    async with SharedValue(client, "/a", 0, codec=Codec.int32()).observe() as view:
        plant()
        await value.set(2)
        await read_on(view)


async def following_a_config(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    config = Config(helper, "/a")
    await config.publish({"a": b"1"})
    async with Config(client, "/a").observe() as view:
        plant()
        await config.publish({"a": b"2"})
        await read_on(view)


async def following_a_group(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    async with Group(client, "/a").observe() as view:
        plant()
        async with Group(helper, "/a").join():
            await read_on(view)


async def following_a_service(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    async with ServiceRegistry(client, "/a").observe("web") as view:
        plant()
        instance = ServiceInstance(name="web", id="i", address="h", port=1)
        async with ServiceRegistry(helper, "/a").register(instance):
            await read_on(view)


async def following_a_board(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    board = TaskBoard(helper, "/a")
    await board.submit(b"")
    async with TaskBoard(client, "/a").observe() as view:
        plant()
        await board.submit(b"")
        await read_on(view)


async def observing(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    async with Election(client, "/a").observe() as states:
        plant()
        async with Election(helper, "/a").leadership():
            await read_on(states)


async def campaigning(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    async with Election(client, "/a").campaign() as states:
        async for state in states:
            if state.phase is aiolead.Phase.LEADING:
                break
        plant()
        (name,) = await helper.get_children("/a")
        await helper.delete(f"/a/{name}")
        try:
            await read_on(states)
        finally:
            await eventually(lambda: no_children(helper, "/a"), "what it held was given up")


async def no_children(client: Client, path: str) -> bool:
    return await client.get_children(path) == []


async def caching(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    await helper.create("/a")
    async with TreeCache(client, "/a") as cache:
        events = cache.events()
        plant()
        await helper.create("/a/b")
        try:
            await read_on(events)
        finally:
            assert not cache.is_live


async def keeping(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    try:
        async with PersistentNode(client, "/a", b"1"):
            plant()
            await helper.delete("/a")
            await anyio.sleep_forever()
    finally:
        assert await helper.exists("/a") is None


async def joining(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    async with Group(client, "/a").join(identity="m"):
        plant()
        await helper.delete("/a/m")
        await anyio.sleep_forever()


async def registering(client: Client, helper: Client, plant: Callable[[], None]) -> None:
    instance = ServiceInstance(name="web", id="i", address="h", port=1)
    async with ServiceRegistry(client, "/a").register(instance):
        plant()
        await helper.delete("/a/web/i")
        await anyio.sleep_forever()


OWNERS: list[tuple[Use, type, str, Any]] = [
    (watching_data, View, "_publish", defect),
    (watching_data, znode_views.DataView, "_read", defective),
    (watching_children, View, "_publish", defect),
    (following_a_value, SharedValueView, "_read", defective),
    (following_a_value, View, "_publish", defect),
    (following_a_config, ConfigView, "_read", defective),
    (following_a_group, group._MembersReading, "_read", defective),
    (following_a_service, service_registry._ServiceReading, "_read", defective),
    (following_a_board, BoardView, "_read", defective),
    (observing, observer._LeaderReading, "_read", defective),
    (campaigning, campaign.Campaign, "_follow", defective),
    (campaigning, campaign.Campaign, "_move", defect),
    (caching, TreeReader, "catch_up", defective),
    (caching, TreeReader, "note_event", defect),
    (keeping, keeper.ZnodeKeeper, "_bring_about", defective),
    (joining, keeper.ZnodeKeeper, "_bring_about", defective),
    (registering, keeper.ZnodeKeeper, "_bring_about", defective),
]


@pytest.mark.parametrize(
    ("use", "owner", "name", "raising"),
    OWNERS,
    ids=[f"{use.__name__}-{name}" for use, _, name, _ in OWNERS],
)
@virtually
async def test_an_owner_ends_with_the_documented_error(
    use: Use,
    owner: type,
    name: str,
    raising: Any,
    monkeypatch: pytest.MonkeyPatch,
    internal_errors: Records,
) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        with pytest.raises(InternalError) as caught:
            await use(client, helper, lambda: monkeypatch.setattr(owner, name, raising))
        monkeypatch.undo()
        assert isinstance(caught.value.__cause__, Defect)
        assert not isinstance(caught.value, ClientClosedError)


# --- what is held --------------------------------------------------------------------------------


async def of_a_lock(client: Client, helper: Client) -> None:
    async with Lock(client, "/a"):
        await settled(client)
        (name,) = await helper.get_children("/a")
        await helper.set(f"/a/{name}", b"other")
        await anyio.sleep_forever()


async def of_an_exclusive_lock(client: Client, helper: Client) -> None:
    async with aiolead.ExclusiveLock(client, "/a"):
        await settled(client)
        await helper.set("/a", b"other")
        await anyio.sleep_forever()


async def of_a_claim(client: Client, helper: Client) -> None:
    queue = Queue(client, "/a")
    await queue.put(b"item")
    async with queue.get() as item:
        await settled(client)
        await helper.set(item.path, b"other")
        await anyio.sleep_forever()


async def settled(client: Client) -> None:
    """Waits until the watch on what is held has been set."""
    leases = client._core.machine.leases
    await eventually(lambda: not leases.fresh, "what is held has settled")
    await client.sync()


HOLDS: list[tuple[Any, type, str]] = [
    (use, EphemeralNode, name)
    for use in (of_a_lock, of_an_exclusive_lock, of_a_claim)
    for name in ("_seen", "_on_event", "watch")
]


@pytest.mark.parametrize(
    ("use", "owner", "name"), HOLDS, ids=[f"{use.__name__}-{name}" for use, _, name in HOLDS]
)
@virtually
async def test_what_cannot_be_watched_any_more_is_given_up(
    use: Any, owner: type, name: str, monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        # The bystander's own watch is of the same kind, but nothing happens to its znode.
        await settled(client)
        monkeypatch.setattr(owner, name, defect)
        with pytest.raises(aiolead.TenureLost) as caught:
            await use(client, helper)
        monkeypatch.undo()
        assert caught.value.reason is LossReason.INTERNAL
        assert caught.value.blame is aiolead.errors.Blame.CALLER


@virtually
async def test_a_watch_that_cannot_be_set_again_later(
    monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    """The servers are overloaded for a moment, and a job is to set the watch again."""
    async with bystander(internal_errors) as (client, helper, server):
        with pytest.raises(LockLost) as caught:
            async with Lock(client, "/a"):
                await settled(client)
                monkeypatch.setattr(EphemeralNode, "_watch_later", defective)
                server.throttle(OpCode.GET_DATA)
                (name,) = await helper.get_children("/a")
                await helper.set(f"/a/{name}", b"other")
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.INTERNAL
        await eventually(lambda: no_children(helper, "/a"), "the lock was given up")


@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "left"])
@virtually
async def test_a_pending_delete_is_reported(
    is_awaited: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    internal_errors: Records,
) -> None:
    async with bystander(internal_errors) as (client, _, server):
        monkeypatch.setattr(EphemeralNode, "_delete_until_gone", defective)
        lock = Lock(client, "/a")
        if is_awaited:
            with pytest.raises(ReleaseError) as caught:
                async with lock:
                    server.throttle(OpCode.DELETE)
            assert isinstance(caught.value.cause, InternalError)
        else:
            with pytest.raises(ZeroDivisionError):
                async with lock:
                    server.throttle(OpCode.DELETE)
                    raise ZeroDivisionError
            assert "could not be deleted" in caplog.text


async def test_a_job_that_nobody_waits_for(internal_errors: Records) -> None:
    """A claim's search for a create whose answer was lost, say."""
    async with bystander(internal_errors) as (client, _, _):
        client.backend.spawn(partial(in_background, "/a", defective))
        await eventually(lambda: len(internal_errors) == 1, "it is logged")
        assert "'/a' was not deleted" in logging.Formatter().format(internal_errors[0])


# --- functions of the user -----------------------------------------------------------------------


async def test_what_a_done_callback_raises(internal_errors: Records) -> None:
    told: list[str] = []
    async with bystander(internal_errors) as (client, _, _):
        reply = client.get("/")
        reply.add_done_callback(defect)
        reply.add_done_callback(lambda: told.append("told"))
        await reply
    assert told == ["told"]


async def test_what_a_watch_raises(internal_errors: Records) -> None:
    told: list[object] = []
    async with bystander(internal_errors) as (client, helper, _):
        await client.exists("/a", watch=client.backend.make_watch(defect))
        await client.exists("/a", watch=client.backend.make_watch(told.append))
        await helper.create("/a")
        await eventually(lambda: len(told) == 1, "the other watch has fired")


async def test_what_a_subscriber_raises(internal_errors: Records) -> None:
    told: list[SessionState] = []

    def failing(state: SessionState, _session_id: int) -> None:
        if state is SessionState.SUSPENDED:
            raise Defect

    async with bystander(internal_errors) as (client, _, server):
        client.backend.subscribe(failing)
        client.backend.subscribe(lambda state, _: told.append(state))
        server.disconnect(client.session_id)
        await eventually(lambda: SessionState.CONNECTED in told, "it is connected again")
    assert told[:2] == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_what_a_lost_callback_raises(internal_errors: Records) -> None:
    told: list[str] = []
    async with bystander(internal_errors) as (client, helper, _):
        with pytest.raises(LockLost):
            async with Lock(client, "/a") as held:
                await settled(client)
                held.add_lost_callback(defect)
                held.add_lost_callback(lambda: told.append("told"))
                await helper.delete(held.path)
                await anyio.sleep_forever()
    assert told == ["told"]


async def test_what_on_invalid_raises(internal_errors: Records) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        value = SharedValue(client, "/a", 7, codec=Codec.int32(), on_invalid=defect)
        async with value.observe() as view:
            await helper.create("/a", b"nonsense")
            await eventually(lambda: len(internal_errors) == 1, "it was told")
            await helper.set("/a", bytes(4))
            await eventually(lambda: view.value == 0, "the view goes on")


async def test_what_select_raises(internal_errors: Records) -> None:
    """The filter of a tree cache ends the cache, which cannot be right any more."""

    def select(path: str) -> bool:
        if path != "/a":
            raise Defect
        return True

    async with bystander(internal_errors) as (client, helper, _):
        await helper.create("/a")
        with pytest.raises(InternalError):
            async with TreeCache(client, "/a", select=select) as cache:
                events = cache.events()
                await helper.create("/a/b")
                await read_on(events)


# --- the connection, and the client itself -------------------------------------------------------


async def test_what_is_raised_while_an_answer_is_read(
    monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    """As for bytes that cannot be decoded: the request fails, and the connection is given up."""
    async with bystander(internal_errors) as (client, _, _):
        states: list[SessionState] = []
        client.backend.subscribe(lambda state, _: states.append(state))
        reply = client.get("/")
        reply.parse = defect
        with pytest.raises(InternalError) as caught:
            await reply
        assert isinstance(caught.value.__cause__, Defect)
        await client.ready()
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_what_is_raised_while_requests_are_sent(
    monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    real = SessionMachine.data_to_send
    left = 1

    def failing(machine: SessionMachine, now: float) -> bytes:
        nonlocal left
        if left and machine is client._core.machine:
            left -= 1
            raise Defect
        return real(machine, now)

    async with bystander(internal_errors) as (client, _, _):
        monkeypatch.setattr(SessionMachine, "data_to_send", failing)
        await client.get("/")


@pytest.mark.parametrize("raised", [Defect, OSError, ValueError])
@virtually
async def test_what_dial_raises(raised: type[Exception]) -> None:
    async def dial(*_: object) -> NoReturn:
        raise raised("no")

    with pytest.raises(aiolead.errors.ConnectFailed, match="no"):
        async with aiolead.connect("127.0.0.1:1", hooks=Hooks(dial=dial), connect_timeout=0.2):
            pass


@pytest.mark.parametrize(
    ("owner", "name", "raising"),
    [(SessionMachine, "tick", defect), (Supervisor, "_try_host", defective)],
    ids=["tick", "try_host"],
)
async def test_a_client_that_cannot_go_on(
    owner: type,
    name: str,
    raising: Any,
    monkeypatch: pytest.MonkeyPatch,
    internal_errors: Records,
) -> None:
    """It is closed, with the documented error; its user is not cancelled."""
    with anyio.fail_after(PATIENCE):
        async with EmbeddedServer() as server, connect(server) as client:
            with pytest.raises(LockLost) as lost:
                async with Lock(client, "/a"), client.observe_data("/a") as view:
                    monkeypatch.setattr(owner, name, raising)
                    server.disconnect(client.session_id)
                    with pytest.raises(ClientClosedError):
                        await read_on(view)
                    await anyio.sleep_forever()
            assert lost.value.reason is LossReason.CLOSED
            with pytest.raises(ClientClosedError) as closed:
                await client.get("/")
            assert isinstance(closed.value.__cause__, InternalError)
            assert isinstance(closed.value.__cause__.__cause__, Defect)
            assert client.state is SessionState.CLOSED
            monkeypatch.undo()
    assert len(internal_errors) == 1
