"""Views and reads over sessions that end: nothing that was written meanwhile is missed.

A test repeats a scene for every n: the client receives n more segments of the server, and then its
session ends. It stops at the first n that the client does not need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
import pytest
from kit.clients import EVERY_REPLY, PATIENCE
from kit.every_recipe import DONE
from kit.virtual_time import Link, embedded, passes, settled, virtually
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import (
    Barrier,
    Client,
    Condition,
    Config,
    Counter,
    DoubleBarrier,
    Election,
    ExclusiveLock,
    Group,
    Lock,
    Once,
    Queue,
    ReadWriteLock,
    Semaphore,
    ServiceRegistry,
    SharedValue,
    TaskBoard,
    UniqueNames,
)
from aiolead.errors import InvalidDataError, SessionExpiredError
from aiolead.model import CreateMode, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec, View

pytestmark = pytest.mark.timeout(120)

MOST_SEGMENTS = 40
"""More than any view needs for a change, and any read for its answer."""


class Subject(NamedTuple):
    """A view, how another client changes its value, and what readers then see."""

    observe: Callable[[Client], View[Any]]
    change: Callable[[Client, int], Awaitable[object]]
    seen: Callable[[Any], int]


async def _submit(client: Client, number: int) -> None:
    board = TaskBoard(client, "/board")
    await board.submit(b"%d" % number)


async def _join(client: Client, number: int) -> None:
    await client.ensure_path("/group")
    await client.create(f"/group/{number}", b"", mode=CreateMode.EPHEMERAL)


async def _register(client: Client, number: int) -> None:
    instance = aiolead.ServiceInstance(name="web", id=str(number), address="h", port=1)
    await client.ensure_path("/services/web")
    await client.create(f"/services/web/{number}", instance.to_json())


async def _lead(client: Client, number: int) -> None:
    await client.ensure_path("/election")
    for name in await client.get_children("/election"):
        await client.delete(f"/election/{name}")
    name = f"/election/_c_{number:032x}-latch-"
    await client.create(name, b"%d" % number, mode=CreateMode.EPHEMERAL_SEQUENTIAL)


async def _set(client: Client, number: int) -> None:
    await SharedValue(client, "/data").set(b"%d" % number)


async def _add_child(client: Client, number: int) -> None:
    await client.ensure_path(f"/children/{number}")


def _leader(state: Any) -> int:
    return int(state.leader.identity) if state.leader else 0


SUBJECTS = {
    "config": Subject(
        lambda c: Config(c, "/config").observe(),
        lambda c, n: Config(c, "/config").publish({"n": b"%d" % n}),
        lambda keys: int(keys.get("n", b"0")),
    ),
    "shared value": Subject(
        lambda c: SharedValue(c, "/value").observe(),
        lambda c, n: SharedValue(c, "/value").set(b"%d" % n),
        lambda data: int(data or b"0"),
    ),
    "data": Subject(
        lambda c: c.observe_data("/data"), _set, lambda found: int(found[0] or b"0") if found else 0
    ),
    "children": Subject(
        lambda c: c.observe_children("/children"),
        _add_child,
        lambda names: max(map(int, names), default=0) if names else 0,
    ),
    "group": Subject(
        lambda c: Group(c, "/group").observe(),
        _join,
        lambda members: max(map(int, members), default=0),
    ),
    "services": Subject(
        lambda c: ServiceRegistry(c, "/services").observe("web"),
        _register,
        lambda instances: max(map(int, instances), default=0),
    ),
    "election": Subject(lambda c: Election(c, "/election").observe(), _lead, _leader),
    "board": Subject(
        lambda c: TaskBoard(c, "/board").observe(), _submit, lambda states: len(states)
    ),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A client that observes, over a link that the test controls, and another one that writes."""

    server: EmbeddedServer
    link: Link
    a: Client
    b: Client

    async def end_session(self, *, by_loss: bool) -> None:
        """End the session of the observing client, which then begins another one."""
        sessions = [each for each in self.server.sessions() if each != self.b.session_id]
        if by_loss:
            self.link.down()
        for each in sessions:
            self.server.expire_session(each)
        self.link.heal()
        self.link.heal()
        await passes(20.0)
        await self.a.ready()
        assert self.a.session_id not in sessions
        assert self.a.state is SessionState.CONNECTED


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with embedded() as server, connect_virtually(server) as b:
        link = Link(server)
        async with link.connect() as a:
            yield Scene(server, link, a, b)


@pytest.mark.parametrize("how", ["expired", "lost and expired", "next session ends too"])
@pytest.mark.parametrize("name", list(SUBJECTS))
@virtually
async def test_view_reports_a_change_over_sessions_that_end(name: str, how: str) -> None:
    """The change comes before the session ends, or during an outage that ends the session."""
    subject = SUBJECTS[name]
    for heard in range(MOST_SEGMENTS):
        seen: list[int] = []

        async def read(view: View[Any], seen: list[int] = seen) -> None:
            async for value in view:
                seen.append(subject.seen(value))  # noqa: PERF401 - one by one

        async with scene() as stage:
            await subject.change(stage.b, 1)
            async with subject.observe(stage.a) as view, anyio.create_task_group() as tasks:
                tasks.start_soon(read, view)
                await settled()
                if how == "next session ends too":
                    before = stage.a.session_id
                    stage.link.down()
                    await subject.change(stage.b, 2)
                    stage.server.expire_session(before)
                    stage.link.heal()
                    held = stage.link.hold_reply(EVERY_REPLY, after=heard)
                    await passes(4.0)
                else:
                    held = stage.link.hold_reply(EVERY_REPLY, after=heard)
                    await subject.change(stage.b, 2)
                    await settled()
                goes_on = held.is_held
                await stage.end_session(by_loss=how != "expired")
                await passes(1.0)
                assert view.is_live
                assert subject.seen(view.value) == 2, f"after {heard} segments"
                assert seen[-1] == 2, f"after {heard} segments, `async for` got {seen}"
                tasks.cancel_scope.cancel()
        if not goes_on:
            assert heard > 0
            return
    raise AssertionError(f"it needs more than {MOST_SEGMENTS} segments")


@virtually
async def test_view_of_a_config_shows_the_version_of_its_value_at_every_moment() -> None:
    for heard in range(MOST_SEGMENTS):
        async with scene() as stage:
            config = Config(stage.b, "/config")
            await config.publish({"n": b"1"})
            async with Config(stage.a, "/config").observe() as view:
                held = stage.link.hold_reply(EVERY_REPLY, after=heard)
                await config.publish({"n": b"2"})
                await settled()
                goes_on = held.is_held
                assert (view.value["n"], view.version) in ((b"1", 1), (b"2", 2))
                stage.server.expire_session(stage.a.session_id)
                stage.link.heal()
                for _ in range(100):
                    await passes(0.0005)
                    now = view.published
                    assert view.version == now.version == int(now.value["n"])
        if not goes_on:
            return


def numbers_in_config(client: Client, on_invalid: Any) -> Config[int]:
    return Config(client, "/config", parse=lambda keys: int(keys["n"]), on_invalid=on_invalid)


def number_in_value(client: Client, on_invalid: Any) -> SharedValue[int]:
    return SharedValue(client, "/value", 0, codec=Codec.decimal(), on_invalid=on_invalid)


NUMBERS: dict[str, tuple[Callable[[Client, Any], Any], Callable[[Client, bytes], Any]]] = {
    "config": (numbers_in_config, lambda c, data: Config(c, "/config").publish({"n": data})),
    "shared value": (number_in_value, lambda c, data: SharedValue(c, "/value").set(data)),
}


@pytest.mark.parametrize("name", NUMBERS)
@virtually
async def test_invalid_write_is_reported_once_over_sessions_that_end(name: str) -> None:
    make, write = NUMBERS[name]
    for heard in range(MOST_SEGMENTS):
        reported: list[InvalidDataError] = []
        async with scene() as stage:
            await write(stage.b, b"1")
            async with make(stage.a, reported.append).observe() as view:
                held = stage.link.hold_reply(EVERY_REPLY, after=heard)
                await write(stage.b, b"x")
                await settled()
                goes_on = held.is_held
                for by_loss in (False, True):
                    await stage.end_session(by_loss=by_loss)
                assert view.value == 1
                assert len(reported) == 1, f"after {heard} segments"
        if not goes_on:
            return


@virtually
async def test_each_of_two_invalid_writes_of_one_version_is_reported() -> None:
    """Versions repeat when a znode is deleted and created again."""
    reported: list[InvalidDataError] = []
    async with scene() as stage, number_in_value(stage.a, reported.append).observe() as view:
        for count in (1, 2):
            await stage.b.create("/value", b"x")
            await settled()
            assert [len(reported), view.value] == [count, 0]
            await stage.b.delete("/value")
            await settled()


# --- single reads: they go on in the next session -------------------------------------------------

READS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "Barrier.is_set": lambda c: Barrier(c, "/barrier").is_set(),
    "Condition.waiters": lambda c: Condition(c, "/condition").waiters(),
    "Config.get": lambda c: Config(c, "/config").get(),
    "Config.history": lambda c: Config(c, "/config").history(),
    "Counter.get": lambda c: Counter(c, "/counter").get(),
    "DoubleBarrier.members": lambda c: DoubleBarrier(c, "/double", 2).members(),
    "Election.contenders": lambda c: Election(c, "/election").contenders(),
    "Election.leader": lambda c: Election(c, "/election").leader(),
    "ExclusiveLock.holders": lambda c: ExclusiveLock(c, "/exclusive").holders(),
    "Group.members": lambda c: Group(c, "/group").members(),
    "Lock.contenders": lambda c: Lock(c, "/lock").contenders(),
    "Lock.holders": lambda c: Lock(c, "/lock").holders(),
    "Once.holder": lambda c: Once(c, "/once").holder("running"),
    "Once.is_done": lambda c: Once(c, "/once").is_done("key"),
    "Queue.size": lambda c: Queue(c, "/queue").size(),
    "ReadWriteLock.contenders": lambda c: ReadWriteLock(c, "/shared").contenders(),
    "ReadWriteLock.holders": lambda c: ReadWriteLock(c, "/shared").holders(),
    "Semaphore.available": lambda c: Semaphore(c, "/permits", 3).available(),
    "Semaphore.contenders": lambda c: Semaphore(c, "/permits", 3).contenders(),
    "Semaphore.holders": lambda c: Semaphore(c, "/permits", 3).holders(),
    "Semaphore.limit": lambda c: Semaphore(c, "/permits", 3).limit(),
    "ServiceRegistry.instances": lambda c: ServiceRegistry(c, "/services").instances("web"),
    "ServiceRegistry.services": lambda c: ServiceRegistry(c, "/services").services(),
    "SharedValue.get": lambda c: SharedValue(c, "/value").get(),
    "TaskBoard.result": lambda c: TaskBoard(c, "/board").result("task-0000000000"),
    "UniqueNames.holders": lambda c: UniqueNames(c, "/names").holders(),
}


async def _fill(client: Client) -> None:
    """Write something for each read to find."""
    await Barrier(client, "/barrier").set()
    await Config(client, "/config").publish({"n": b"1"})
    await Counter(client, "/counter").add(3)
    await client.ensure_path("/once/key")
    await Queue(client, "/queue").put(b"item")
    await Semaphore(client, "/permits", 3).set_limit(2)
    await SharedValue(client, "/value").set(b"1")
    board = TaskBoard(client, "/board")
    await board.submit(b"work")
    async with board.claim() as task:
        await task.finish(b"done")
    for path in (
        "/double/00000000-0000-0000-0000-000000000001",
        "/exclusive",
        "/group/me",
        "/names/worker-0",
        "/once/running",
    ):
        await client.ensure_path(path.rpartition("/")[0] or "/")
        await client.create(path, b"me", mode=CreateMode.EPHEMERAL)
    for path in (
        "/condition/waiters/0123456789abcdef-1-wait-",
        "/election/a-latch-",
        "/lock/a-lock-",
        "/permits/leases/a-lease-",
        "/permits/locks/a-lock-",
        "/shared/a-__READ__",
    ):
        await client.ensure_path(path.rpartition("/")[0])
        await client.create(path, b"me", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    web = aiolead.ServiceInstance(name="web", id="i", address="h", port=1)
    await client.ensure_path("/services/web")
    await client.create("/services/web/i", web.to_json())


@pytest.mark.parametrize("by_loss", [False, True], ids=["expired", "lost and expired"])
@pytest.mark.parametrize("name", list(READS))
@virtually
async def test_single_read_goes_on_in_the_next_session(name: str, by_loss: bool) -> None:
    for heard in range(MOST_SEGMENTS):
        found: list[Any] = []

        async def look(client: Client, found: list[Any] = found) -> None:
            found.append(await READS[name](client))

        async with embedded() as server, connect_virtually(server) as b:
            await _fill(b)
            expected = await READS[name](b)
            link = Link(server)
            async with link.connect() as a, anyio.create_task_group() as tasks:
                before = a.session_id
                link.hold_reply(EVERY_REPLY, after=heard)
                tasks.start_soon(look, a)
                await settled()
                is_needed = not found
                if by_loss:
                    link.down()
                server.expire_session(before)
                link.heal()
                await passes(20.0)
                assert found == [expected], f"after {heard} segments"
                assert a.session_id != before
        assert expected
        if not is_needed:
            assert heard > 0
            return
    raise AssertionError(f"it needs more than {MOST_SEGMENTS} segments")


@virtually
async def test_plain_read_of_a_client_still_raises_the_expiry() -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
            link.stall("to_client")
            reply = client.exists("/")
            await settled()
            server.expire_session(client.session_id)
            link.down()
            link.heal()
            with pytest.raises(SessionExpiredError), anyio.fail_after(PATIENCE):
                await reply


# --- what is done again and again ----------------------------------------------------------------


@pytest.mark.parametrize("name", DONE)
@virtually
async def test_everything_is_done_over_sessions_that_end(name: str) -> None:
    """Each session ends while nothing is in flight, so nothing is lost and nothing unknown."""
    what, path = DONE[name], f"/{name}"
    async with embedded() as server, connect_virtually(server) as client:
        for _ in range(3):
            await what.do(client, path)
            before = client.session_id
            server.expire_session(before)
            await what.do(client, path)
            assert client.session_id != before
        count = await what.count(client, path)
        assert count == 6 or (what.may_lose and count > 6)
