"""Views over sessions that end: `async for` gets what was written meanwhile, at whatever moment.

A test repeats a scene for every n: the client hears n more segments of the server, and then its
session ends. It stops at the first n that the client does not need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest
from kit.virtual_time import Link, embedded, passes, settled, virtually
from kit.virtual_time import connect as connect_virtually

import aiolead
from aiolead import Client, Config, Election, Group, ServiceRegistry, SharedValue, TaskBoard
from aiolead.errors import InvalidDataError
from aiolead.model import CreateMode, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec, View

pytestmark = pytest.mark.timeout(120)

MOST_SEGMENTS = 40
"""More than any view needs to hear of a change."""


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
        lambda client: Config(client, "/config").observe(),
        lambda client, number: Config(client, "/config").publish({"n": b"%d" % number}),
        lambda keys: int(keys.get("n", b"0")),
    ),
    "shared value": Subject(
        lambda client: SharedValue(client, "/value").observe(),
        lambda client, number: SharedValue(client, "/value").set(b"%d" % number),
        lambda data: int(data or b"0"),
    ),
    "data": Subject(
        lambda client: client.observe_data("/data"),
        _set,
        lambda found: int(found[0] or b"0") if found else 0,
    ),
    "children": Subject(
        lambda client: client.observe_children("/children"),
        _add_child,
        lambda names: max(map(int, names), default=0) if names else 0,
    ),
    "group": Subject(
        lambda client: Group(client, "/group").observe(),
        _join,
        lambda members: max(map(int, members), default=0),
    ),
    "services": Subject(
        lambda client: ServiceRegistry(client, "/services").observe("web"),
        _register,
        lambda instances: max(map(int, instances), default=0),
    ),
    "election": Subject(
        lambda client: Election(client, "/election").observe(),
        _lead,
        _leader,
    ),
    "board": Subject(
        lambda client: TaskBoard(client, "/board").observe(), _submit, lambda states: len(states)
    ),
}

all_views = pytest.mark.parametrize("name", list(SUBJECTS))


class Scene:
    """A client that observes, over a link that the test controls, and another one that writes."""

    def __init__(self, server: EmbeddedServer, link: Link, a: Client, b: Client) -> None:
        self.server = server
        self.link = link
        self.a = a
        self.b = b

    async def end_session(self, *, by_loss: bool) -> None:
        """End the session of the observing client, which then begins another one."""
        sessions = [each for each in self.server.sessions() if each != self.b.session_id]
        if by_loss:
            self.link.lose()
        for each in sessions:
            self.server.expire_session(each)
        self.link.release()
        self.link.restore()
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


async def _reports_the_last_change(
    name: str, happens: Callable[[Scene, Callable[[int], Awaitable[object]], int], Awaitable[bool]]
) -> None:
    """Check a view for every n; `happens` changes the value to 2, and returns whether to go on."""
    subject = SUBJECTS[name]
    for heard in range(MOST_SEGMENTS):
        seen: list[int] = []

        async def read(view: View[Any], seen: list[int] = seen) -> None:
            async for value in view:
                seen.append(subject.seen(value))  # noqa: PERF401 - as it comes

        async with scene() as stage:
            await subject.change(stage.b, 1)
            async with subject.observe(stage.a) as view, anyio.create_task_group() as tasks:
                tasks.start_soon(read, view)
                await settled()
                goes_on = await happens(
                    stage, lambda number, b=stage.b: subject.change(b, number), heard
                )
                await passes(1.0)
                assert view.is_live
                assert subject.seen(view.value) == 2, f"after {heard} segments"
                assert seen[-1] == 2, f"after {heard} segments, `async for` got {seen}"
                tasks.cancel_scope.cancel()
        if not goes_on:
            assert heard > 0
            return
    raise AssertionError(f"it needs more than {MOST_SEGMENTS} segments")


@pytest.mark.parametrize("by_loss", [False, True], ids=["expired", "lost and expired"])
@all_views
@virtually
async def test_view_reports_change_whose_reading_meets_an_end_of_session(
    name: str, by_loss: bool
) -> None:
    async def happens(stage: Scene, change: Callable[[int], Awaitable[object]], heard: int) -> bool:
        stage.link.hold(after=heard)
        await change(2)
        await settled()
        goes_on = stage.link.left == 0
        await stage.end_session(by_loss=by_loss)
        return goes_on

    await _reports_the_last_change(name, happens)


@all_views
@virtually
async def test_view_reports_change_of_an_outage_although_the_next_session_ends_too(
    name: str,
) -> None:
    async def happens(stage: Scene, change: Callable[[int], Awaitable[object]], heard: int) -> bool:
        before = stage.a.session_id
        stage.link.lose()
        await change(2)
        stage.server.expire_session(before)
        stage.link.hold(after=heard)
        stage.link.restore()
        await passes(4.0)
        goes_on = stage.link.left == 0
        await stage.end_session(by_loss=True)
        return goes_on

    await _reports_the_last_change(name, happens)


@virtually
async def test_view_of_a_config_shows_the_version_of_its_value_at_every_moment() -> None:
    for heard in range(MOST_SEGMENTS):
        async with scene() as stage:
            config = Config(stage.b, "/config")
            await config.publish({"n": b"1"})
            async with Config(stage.a, "/config").observe() as view:
                stage.link.hold(after=heard)
                await config.publish({"n": b"2"})
                await settled()
                goes_on = stage.link.left == 0
                assert (view.value["n"], view.version) in ((b"1", 1), (b"2", 2))
                stage.server.expire_session(stage.a.session_id)
                stage.link.release()
                for _ in range(100):
                    await passes(0.0005)
                    now = view.published
                    assert view.version == now.version == int(now.value["n"])
        if not goes_on:
            return


@pytest.mark.parametrize("of_config", [True, False], ids=["config", "shared value"])
@virtually
async def test_invalid_write_is_reported_once_over_sessions_that_end(of_config: bool) -> None:
    for heard in range(MOST_SEGMENTS):
        reported: list[InvalidDataError] = []
        path = "/subject"
        async with scene() as stage:
            observed: View[Any]
            if of_config:
                await Config(stage.b, path).publish({"n": b"1"})
                observed = Config(
                    stage.a, path, parse=lambda keys: int(keys["n"]), on_invalid=reported.append
                ).observe()
            else:
                await SharedValue(stage.b, path).set(b"1")
                observed = SharedValue(
                    stage.a,
                    path,
                    0,
                    codec=Codec.decimal(),
                    on_invalid=reported.append,
                ).observe()
            async with observed as view:
                stage.link.hold(after=heard)
                if of_config:
                    await Config(stage.b, path).publish({"n": b"x"})
                else:
                    await SharedValue(stage.b, path).set(b"x")
                await settled()
                goes_on = stage.link.left == 0
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
    async with scene() as stage:
        value = SharedValue(stage.a, "/value", 7, codec=Codec.decimal(), on_invalid=reported.append)
        async with value.observe() as view:
            for count in (1, 2):
                await stage.b.create("/value", b"x")
                await settled()
                assert [len(reported), view.value] == [count, 7]
                await stage.b.delete("/value")
                await settled()
