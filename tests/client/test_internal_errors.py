"""An unexpected exception ends its owner with a documented error, and nothing else.

One inner function is made to raise, in the place of a defect; or a function of the program does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
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
from aiolead._recipes import config, group, service_registry, task_board, values
from aiolead._recipes import election as campaign
from aiolead._recipes import election as observer
from aiolead._recipes import view as znode_views
from aiolead._recipes.errors import in_background
from aiolead._recipes.naming import Sequential
from aiolead._recipes.persistent_node import ZnodeKeeper
from aiolead._recipes.tree_reader import TreeReader
from aiolead._recipes.view import View
from aiolead._recipes.znode import Znode
from aiolead._session.machine import SessionMachine
from aiolead.errors import ClientClosedError, InternalError, LossReason, ReleaseError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, Hooks, OpCode
from aiolead.types import Codec

Records = list[logging.LogRecord]
Opens = Callable[[Client], AbstractAsyncContextManager[Any]]
Changes = Callable[[Client], Awaitable[object]]


class Defect(Exception):
    """An unexpected error."""


def defect(*_: object, **__: object) -> NoReturn:
    raise Defect("a defect")


async def defective(*_: object, **__: object) -> NoReturn:
    raise Defect("a defect")


@asynccontextmanager
async def bystander(records: Records) -> AsyncIterator[tuple[Client, Client, EmbeddedServer]]:
    """Two clients and their server. The first client holds a lock, and still does at the end."""
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


# --- views, and other owners of jobs -------------------------------------------------------------


async def read_on(values: Any) -> None:
    async for _ in values:
        pass


async def no_children(client: Client, path: str) -> bool:
    return await client.get_children(path) == []


@asynccontextmanager
async def cached(client: Client) -> AsyncIterator[Any]:
    async with TreeCache(client, "/a") as cache:
        try:
            yield cache.events()
        finally:
            assert not cache.is_live


def new_data(client: Client) -> Awaitable[object]:
    return client.set("/a", bytes(4))


def new_child(client: Client) -> Awaitable[object]:
    return client.create("/a/n")


OBSERVERS: dict[str, tuple[Opens, Changes]] = {
    "data": (lambda c: c.observe_data("/a"), new_data),
    "children": (lambda c: c.observe_children("/a"), new_child),
    "value": (lambda c: SharedValue(c, "/a", 0, codec=Codec.int32()).observe(), new_data),
    "config": (
        lambda c: Config(c, "/config").observe(),
        lambda c: Config(c, "/config").publish({"a": b"2"}),
    ),
    "group": (lambda c: Group(c, "/a").observe(), new_child),
    "service": (
        lambda c: ServiceRegistry(c, "/a").observe("web"),
        lambda c: c.ensure_path("/a/web/n"),
    ),
    "board": (lambda c: TaskBoard(c, "/a").observe(), lambda c: TaskBoard(c, "/a").submit(b"")),
    "leader": (lambda c: Election(c, "/a").observe(), new_child),
    "tree": (cached, new_child),
}
DEFECTS: list[tuple[str, Any, str, Any]] = [
    ("data", View, "_publish", defect),
    ("data", znode_views, "read_data", defective),
    ("children", View, "_publish", defect),
    ("value", View, "_publish", defect),
    ("value", values, "read_data", defective),
    ("config", config, "ValidObservation", defect),
    ("group", group, "plain", defect),
    ("service", service_registry, "_parsed", defect),
    ("board", task_board, "plain", defect),
    ("leader", observer._LeaderReading, "_read_leaders", defective),
    ("tree", TreeReader, "catch_up", defective),
    ("tree", TreeReader, "note_event", defect),
]


@pytest.mark.parametrize(
    ("kind", "owner", "name", "raising"),
    DEFECTS,
    ids=[f"{kind}-{name}" for kind, _, name, _ in DEFECTS],
)
@virtually
async def test_defect_of_an_observer_ends_its_iteration(
    kind: str,
    owner: Any,
    name: str,
    raising: Any,
    monkeypatch: pytest.MonkeyPatch,
    internal_errors: Records,
) -> None:
    observe, change = OBSERVERS[kind]
    async with bystander(internal_errors) as (client, helper, _):
        await helper.create("/a", b"\0\0\0\1")
        with documented(monkeypatch):
            async with observe(client) as values:
                monkeypatch.setattr(owner, name, raising)
                await change(helper)
                await read_on(values)


@contextmanager
def documented(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks that the block ends with the documented error; the defect is mended afterwards."""
    with pytest.raises(InternalError) as caught:
        yield
    monkeypatch.undo()
    assert isinstance(caught.value.__cause__, Defect)
    assert not isinstance(caught.value, ClientClosedError)


@pytest.mark.parametrize(("name", "raising"), [("_follow", defective), ("_move", defect)])
@virtually
async def test_defect_of_a_campaign_ends_it_and_its_term(
    name: str, raising: Any, monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        with documented(monkeypatch):
            async with Election(client, "/a").campaign() as states:
                async for state in states:
                    if state.phase is aiolead.Phase.LEADING:
                        break
                monkeypatch.setattr(campaign.Campaign, name, raising)
                (child,) = await helper.get_children("/a")
                await helper.delete(f"/a/{child}")
                try:
                    await read_on(states)
                finally:
                    await eventually(lambda: no_children(helper, "/a"), "the term is resigned")


INSTANCE = ServiceInstance(name="web", id="n", address="h", port=1)

KEPT: dict[str, Opens] = {
    "/a": lambda c: PersistentNode(c, "/a", b"1"),
    "/a/n": lambda c: Group(c, "/a").join(identity="n"),
    "/a/web/n": lambda c: ServiceRegistry(c, "/a").register(INSTANCE),
}


@pytest.mark.parametrize("path", KEPT)
@virtually
async def test_defect_of_the_keeper_of_a_znode_ends_its_block(
    path: str, monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        with documented(monkeypatch):
            async with KEPT[path](client):
                monkeypatch.setattr(ZnodeKeeper, "_bring_about", defective)
                await helper.delete(path)
                await anyio.sleep_forever()
        assert await helper.exists(path) is None


# --- holds ---------------------------------------------------------------------------------------

HELD: dict[str, Opens] = {
    "lock": lambda c: Lock(c, "/a"),
    "exclusive lock": lambda c: aiolead.ExclusiveLock(c, "/a"),
    "claim": lambda c: Queue(c, "/a").get(),
}


async def settled(client: Client) -> None:
    """Waits until the watches on all held znodes have been set."""
    leases = client._core.machine.leases
    await eventually(lambda: not leases.fresh, "the holds have settled")
    await client.sync()


@pytest.mark.parametrize("name", ["_seen", "_on_event", "watch"])
@pytest.mark.parametrize("kind", HELD)
@virtually
async def test_hold_that_cannot_be_watched_any_more_is_lost(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        if kind == "claim":
            await Queue(helper, "/a").put(b"item")
        # The bystander's own watch is of the same kind, but nothing happens to its znode.
        await settled(client)
        monkeypatch.setattr(Znode, name, defect)
        with pytest.raises(aiolead.TenureLost) as caught:
            async with HELD[kind](client) as held:
                await settled(client)
                await helper.set(held.path, b"other")
                await anyio.sleep_forever()
        monkeypatch.undo()
        assert caught.value.reason is LossReason.INTERNAL
        assert caught.value.blame is aiolead.errors.Blame.CALLER


@virtually
async def test_watch_that_cannot_be_set_again_later_ends_its_hold(
    monkeypatch: pytest.MonkeyPatch, internal_errors: Records
) -> None:
    """The servers are overloaded for a moment, and a job is to set the watch again."""
    async with bystander(internal_errors) as (client, helper, server):
        with pytest.raises(LockLost) as caught:
            async with Lock(client, "/a") as held:
                await settled(client)
                monkeypatch.setattr(Znode, "_watch_later", defective)
                server.throttle(OpCode.GET_DATA)
                await helper.set(held.path, b"other")
                await anyio.sleep_forever()
        assert caught.value.reason is LossReason.INTERNAL
        await eventually(lambda: no_children(helper, "/a"), "the lock is released")


@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "left"])
@virtually
async def test_failed_pending_delete_is_reported(
    is_awaited: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    internal_errors: Records,
) -> None:
    async with bystander(internal_errors) as (client, _, server):
        monkeypatch.setattr(Sequential, "delete_if_ours", defective)
        with pytest.raises(ReleaseError if is_awaited else ZeroDivisionError) as caught:
            async with Lock(client, "/a"):
                server.throttle(OpCode.DELETE)
                if not is_awaited:
                    raise ZeroDivisionError
        if isinstance(caught.value, ReleaseError):
            assert isinstance(caught.value.cause, InternalError)
        else:
            assert "could not be deleted" in caplog.text


async def test_defect_of_a_job_that_nobody_awaits_is_logged(internal_errors: Records) -> None:
    """A claim's search for a create whose answer was lost, say."""
    async with bystander(internal_errors) as (client, _, _):
        client.backend.spawn(partial(in_background, "/a", defective))
        await eventually(lambda: len(internal_errors) == 1, "it is logged")
        assert "'/a' was not deleted" in logging.Formatter().format(internal_errors[0])


# --- functions of the program----------------------------------------------------------------------


async def test_error_of_a_done_callback_is_contained(internal_errors: Records) -> None:
    seen: list[str] = []
    async with bystander(internal_errors) as (client, _, _):
        reply = client.get("/")
        reply.add_done_callback(defect)
        reply.add_done_callback(lambda: seen.append("called"))
        await reply
    assert seen == ["called"]


async def test_error_of_a_watch_is_contained(internal_errors: Records) -> None:
    seen: list[object] = []
    async with bystander(internal_errors) as (client, helper, _):
        await client.exists("/a", watch=client.backend.make_watch(defect))
        await client.exists("/a", watch=client.backend.make_watch(seen.append))
        await helper.create("/a")
        await eventually(lambda: len(seen) == 1, "the other watch has fired")
        assert client.statistics().suspensions == 0


async def test_error_of_a_subscriber_is_contained(internal_errors: Records) -> None:
    seen: list[SessionState] = []

    def failing(state: SessionState, _session_id: int) -> None:
        if state is SessionState.SUSPENDED:
            raise Defect

    async with bystander(internal_errors) as (client, _, server):
        client.backend.subscribe(failing)
        client.backend.subscribe(lambda state, _: seen.append(state))
        server.disconnect(client.session_id)
        await eventually(lambda: SessionState.CONNECTED in seen, "it is connected again")
    assert seen[:2] == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_error_of_a_lost_callback_is_contained(internal_errors: Records) -> None:
    seen: list[str] = []
    async with bystander(internal_errors) as (client, helper, _):
        with pytest.raises(LockLost):
            async with Lock(client, "/a") as held:
                await settled(client)
                held.add_lost_callback(defect)
                held.add_lost_callback(lambda: seen.append("called"))
                await helper.delete(held.path)
                await anyio.sleep_forever()
    assert seen == ["called"]


async def test_error_of_on_invalid_is_contained(internal_errors: Records) -> None:
    async with bystander(internal_errors) as (client, helper, _):
        value = SharedValue(client, "/a", 7, codec=Codec.int32(), on_invalid=defect)
        async with value.observe() as view:
            await helper.create("/a", b"nonsense")
            await eventually(lambda: len(internal_errors) == 1, "it was seen")
            await helper.set("/a", bytes(4))
            await eventually(lambda: view.value == 0, "the view goes on")


async def test_error_of_select_ends_the_cache(internal_errors: Records) -> None:
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


async def test_defect_of_a_reader_fails_its_request_alone(
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


async def test_defect_of_the_sender_costs_one_connection(
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
async def test_error_of_dial_is_the_reason(raised: type[Exception]) -> None:
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
async def test_defect_of_the_client_itself_closes_it(
    owner: type, name: str, raising: Any, monkeypatch: pytest.MonkeyPatch, internal_errors: Records
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


# --- jobs of a client that is closed before they have begun --------------------------------------


@asynccontextmanager
async def closing_as_a_job_is_made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client that is closed right behind its next `spawn`, in the same step of the same task."""
    async with EmbeddedServer() as server, connect(server) as client:
        core = client._core
        spawn = core.spawn

        def spawn_and_close(job: Any, on_end: Any) -> None:
            spawn(job, on_end)
            monkeypatch.undo()
            core.end_jobs()  # as leaving `connect` does in one step
            core.machine.closed()

        await client.create("/a")
        monkeypatch.setattr(core, "spawn", spawn_and_close)
        yield client


OWNERS: dict[str, Opens] = {
    "campaign": lambda c: Election(c, "/e").campaign(),
    "observer": lambda c: Election(c, "/e").observe(),
    "value": lambda c: SharedValue(c, "/a").observe(),
    "tree": cached,
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
async def test_job_owner_ends_at_the_close(owner: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    async with closing_as_a_job_is_made(monkeypatch) as client:
        with anyio.fail_after(PATIENCE), pytest.raises(ClientClosedError):
            async with owner(client) as values:
                await read_on(values)
        assert client._core.spawned == 0


async def test_campaign_ends_if_its_client_is_closed_at_once() -> None:
    """Without a server, leaving `connect` takes not one turn of the event loop."""
    with anyio.fail_after(PATIENCE):
        async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
            entered = Election(client, "/e").campaign()
            states = await entered.__aenter__()
        with pytest.raises(ClientClosedError):
            await read_on(states)
        assert entered._job.ended.is_set()  # so leaving it waits for nothing
        await entered.__aexit__(None, None, None)


async def test_campaign_ends_if_its_client_is_closed_while_it_is_entered(client: Client) -> None:
    entering: list[BaseException] = []

    async def enter() -> None:
        try:
            async with Election(client, "/e").campaign() as states:
                await read_on(states)
        except ClientClosedError as error:
            entering.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)
            await anyio.lowlevel.checkpoint()
            client._core.end_jobs()
            client._core.machine.closed()
    assert len(entering) == 1


@pytest.mark.parametrize("is_begun", [True, False])
async def test_job_is_run_to_its_first_await_at_least(is_begun: bool) -> None:
    ran: list[str] = []

    async def job() -> None:
        ran.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            ran.append("ended")

    async with aiolead.connect("127.0.0.1:1", connect_timeout=0) as client:
        client.backend.spawn(job)
        if is_begun:
            await anyio.wait_all_tasks_blocked()
    assert ran == ["begun", "ended"]
    assert client._core.spawned == 0
    client.backend.spawn(job)  # without effect
    await anyio.wait_all_tasks_blocked()
    assert ran == ["begun", "ended"]
