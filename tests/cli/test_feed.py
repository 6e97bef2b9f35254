"""`Feed`, which keeps a scene up to date, and the views of a scene with names of other clients.

A foreign server may also list names that ZooKeeper does not allow.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from cli.scenes import NOTHING, StagedScene, names, running, until
from cli.serving import EPHEMERAL_SEQUENTIAL
from hypothesis import example, given
from hypothesis import strategies as st
from kit.cli import WITHIN, Command, Run, report
from kit.raw_client import SESSION, RawClient

import aiolead
from aiolead import Election, Semaphore, Term
from aiolead.cli import render, scene_text
from aiolead.cli.contender_queue import QueuedContender, places_of
from aiolead.cli.contenders import _row
from aiolead.cli.dashboard.state_stream import StateStream
from aiolead.cli.scene import Scene
from aiolead.cli.scene_feed import Feed, PartOfTree, SceneOptions
from aiolead.cli.scene_values import (
    EnsembleHealth,
    OwnerConnection,
    QueueState,
    SceneEventType,
)
from aiolead.cli.server_inquiry import Inquirer, ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers
from aiolead.cli.top_picture import Picture
from aiolead.model import Stat
from aiolead.testing import EmbeddedServer
from aiolead.testing._server.transaction import Transaction
from aiolead.types import TreeEvent, TreeEventType, TreeNode

pytestmark = pytest.mark.exhaustive("an edge of the command")

FOREIGN = "\x1b[2J\x7f_c_x-latch-"
"""A name that ZooKeeper does not allow."""


@pytest.fixture
def any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded server takes any name."""
    monkeypatch.setattr(Transaction, "_validate", lambda *_: None)


def asking(client: aiolead.Client, path: str, hosts: str, *, interval: float) -> Feed:
    """A feed that asks the server for the sessions that are connected."""
    host, _, port = hosts.partition("/")[0].partition(":")
    return Feed(
        *(client, [path]),
        inquirer=Inquirer(None, WITHIN, 0),
        servers=[ServerAddress(host, int(port))],
        interval=interval,
    )


def test_contenders_of_recipes_are_followed(hosts: str, embedded: str) -> None:
    async def idle(_: Term) -> None:
        await anyio.sleep_forever()

    async def story() -> None:
        async with aiolead.connect(hosts) as client, aiolead.connect(hosts) as other:
            feed = Feed(client, ["/jobs", "/s", "/s/leases", "/nobody"])
            async with running(feed), anyio.create_task_group() as tasks:
                await until(feed, lambda: True)
                assert [line.path for line in feed.scene.queues] == ["/jobs", "/nobody", "/s"]
                first = Election(client, "/jobs/one", identity="first")
                second = Election(other, "/jobs/one", identity="second")
                async with first.leadership() as term:
                    tasks.start_soon(second.run, idle)
                    await until(
                        feed, lambda: names(feed.scene, "/jobs/one") == (["first"], ["second"])
                    )
                await until(feed, lambda: names(feed.scene, "/jobs/one") == (["second"], []))
                async with Semaphore(client, "/s", 2, identity="holder").acquire():
                    await until(feed, lambda: names(feed.scene, "/s") == (["holder"], []))
                seen = [one for one in feed.scene.since(0) if one.path == "/jobs/one"]
                assert [(one.what, one.identity) for one in seen] == [
                    (SceneEventType.BEGAN, "first"),
                    (SceneEventType.JOINED, "second"),
                    (SceneEventType.BEGAN, "second"),
                ]
                assert seen[0].token == term.token
                assert feed.scene.session_id == client.session_id
                tasks.cancel_scope.cancel()

    # The event loop and the kind of server are independent.
    anyio.run(story, backend="trio" if hosts.startswith(embedded) else "asyncio")


def test_feed_survives_the_loss_of_its_session() -> None:
    """It finds the contenders that came in the meantime."""

    async def story(server: str, expire: Callable[[int], None]) -> None:
        async with aiolead.connect(server) as client:
            feed = asking(client, "/", server, interval=0.02)
            async with running(feed):
                with RawClient(server) as dead:
                    dead.create("/a")
                    dead.create("/a/_c_x-latch-", b"dead", flags=3)
                    await until(
                        feed, lambda: feed.scene.knows_sessions and names(feed.scene, "/a")[0]
                    )
                    (queue,) = feed.scene.queues
                    (one,) = queue.contenders
                    connection = partial(feed.scene.connection_of, one)
                    assert connection() is OwnerConnection.CONNECTED
                    dead.drop()
                    await until(feed, lambda: connection() is OwnerConnection.SILENT)
                    assert feed.scene.since(0)[-1].what is SceneEventType.SILENT
                    with RawClient(server) as operator:
                        session = feed.scene.session_id
                        # The feed sees the session and its znode end together.
                        expire(session)
                        operator.create("/a/_c_y-latch-", b"next", flags=3)
                        await until(feed, lambda: feed.scene.session_id not in (0, session))
                        await until(feed, lambda: names(feed.scene, "/a") == (["dead"], ["next"]))

    with EmbeddedServer.in_thread(max_session_timeout=SESSION) as server:
        anyio.run(story, server.connect_string, server.expire_session)


HOLDER = """
import sys, anyio, aiolead
async def main():
    async with aiolead.connect(sys.argv[1], session_timeout=4) as client:
        async with aiolead.Lock(client, "/l", identity="holder").acquire():
            await anyio.sleep_forever()
anyio.run(main)
"""


def test_stopped_holder_is_paused_until_its_session_ends(hosts: str) -> None:
    async def story() -> None:
        async with aiolead.connect(hosts) as client:
            feed = asking(client, "/l", hosts, interval=0.1)

            def state() -> QueueState:
                return feed.scene.queues[0].state

            async with running(feed):
                # The first look makes no events, so the holder starts after it.
                await until(feed, lambda: True)
                with Command(hosts, code=HOLDER) as holder:
                    await until(feed, lambda: names(feed.scene, "/l") == (["holder"], []))
                    await until(feed, lambda: feed.scene.knows_sessions)
                    assert state() is QueueState.HELD
                    holder.signal(signal.SIGSTOP)
                    await until(feed, lambda: state() is QueueState.PAUSED)
                    await until(feed, lambda: state() is QueueState.FREE)
        told = [one.what for one in feed.scene.since(0) if one.path == "/l"]
        assert told[:2] == [SceneEventType.BEGAN, SceneEventType.SILENT]
        assert SceneEventType.BACK not in told
        assert told[-1] is SceneEventType.VACANT

    anyio.run(story)


def test_unreadable_znodes_are_reported_until_they_can_be_read(somewhere: str) -> None:
    async def story() -> None:
        async with aiolead.connect(somewhere) as client:
            await client.ensure_path("/l/below")
            closed = [aiolead.ACL(aiolead.model.Permission.ADMIN, "world", "anyone")]
            mode = aiolead.CreateMode.PERSISTENT_SEQUENTIAL
            ghost = await client.create("/l/_c_x-lock-", b"secret", acl=closed, mode=mode)
            feed = Feed(client, ["/l"])
            async with running(feed):
                # Persistent znodes may have children, which are unknown.
                await until(feed, lambda: feed.scene.unreadable == [ghost.path])
                # A persistent znode alone makes no lock. In a lock, it counts as a contender.
                assert feed.scene.queues[0].kind == ""
                ephemeral = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
                await client.create("/l/_c_y-lock-", acl=closed, mode=ephemeral)
                await client.create("/l/below/closed", acl=closed)
                await until(feed, lambda: "/l/below/closed" in feed.scene.unreadable)
                await until(feed, lambda: names(feed.scene, "/l") == ([None], [None]))
                assert len(feed.scene.unreadable) == 2
                await client.set_acl("/l/below/closed", aiolead.model.OPEN_ACL_UNSAFE)
                # A change of an ACL alone triggers no watch.
                await client.set("/l/below/closed", b"")
                await until(feed, lambda: "/l/below/closed" not in feed.scene.unreadable)

    anyio.run(story)


@pytest.mark.parametrize("may_read", [True, False])
def test_claims_beside_a_queue_are_counted(somewhere: str, may_read: bool) -> None:
    """They are in `/q-claims`, which is not below `/q`; they may be closed to this client."""

    async def story() -> None:
        async with aiolead.connect(somewhere) as client:
            queue = aiolead.Queue(client, "/q", identity="me")
            await queue.put_many([b"one", b"two"])
            feed = Feed(client, ["/q"])
            async with queue.get():
                if not may_read:
                    but_read = aiolead.model.Permission.ALL & ~aiolead.model.Permission.READ
                    await client.set_acl("/q-claims", [aiolead.ACL(but_read, "world", "anyone")])
                async with running(feed):
                    await feed.caught_up()
                    (found,) = feed.scene.others
                    assert found.counts == (("items", 2), ("claimed", int(may_read)))
                    claimants = [one.identity for one in found.claims]
                    assert claimants == (["me"] if may_read else [])
                    shown = "2 items, 1 claimed: me" if may_read else "2 items, 0 claimed"
                    assert scene_text.use_as_text(found) == shown
                    # The queue is not shown a second time, as a path where nobody contends.
                    assert feed.scene.queues == []
                    await queue.put(b"three")
                    await until(feed, lambda: feed.scene.others[0].counts[0] == ("items", 3))

    anyio.run(story)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_part_of_a_large_tree_is_shown(backend: str) -> None:
    async def story() -> None:
        async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
            server.create("/l")
            for number in range(10):
                server.create(f"/l/{number}")
            async with aiolead.Lock(client, "/l/0", identity="one"):
                feed = Feed(client, ["/l"], SceneOptions(max_znodes=4))

                async def look() -> None:
                    await feed.caught_up()
                    cache = feed._parts[0].cache
                    assert list(cache) == ["/l", "/l/0", "/l/1", "/l/2"]
                    assert feed.scene.incomplete == ["/l"]
                    # A deleted znode makes room for another one.
                    await client.delete("/l/1")
                    await until(feed, lambda: "/l/1" not in feed._parts[0]._chosen)
                    await client.create("/l/new")
                    await until(feed, lambda: "/l/new" in cache)
                    await client.create("/l/more")
                    await client.delete("/l/2")
                    await until(feed, lambda: "/l/2" not in cache)
                    assert list(cache) == ["/l", "/l/0", "/l/new"]

                await feed.during(look)
            whole = Feed(client, ["/l"], SceneOptions(max_znodes=12))
            async with running(whole):
                await until(whole, lambda: len(whole._parts[0].cache) == 11)
                assert whole.scene.incomplete == []

    anyio.run(story, backend=backend)


async def test_names_of_deleted_znodes_do_not_count_against_the_limit() -> None:
    """Other clients may create and delete znodes faster than they are read."""
    async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
        left_out: list[None] = []
        part = PartOfTree(client, "/", 1000, lambda: left_out.append(None))
        assert all(part._is_chosen(f"/{number}") for number in range(5_000))
        assert left_out == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_invalid_name_from_a_server_is_not_read(backend: str) -> None:
    async def story() -> None:
        async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
            feed = Feed(client, ["/"])
            node = TreeNode(
                f"/foreign/{FOREIGN}0000000000", b"", NOTHING._replace(ephemeral_owner=7)
            )
            feed._note(TreeEvent(TreeEventType.CREATED, node.path, None, node))
            await feed._read()
            feed.scene.settle(1.0)
            (queue,) = feed.scene.queues
            assert [(term.identity, term.node) for term in queue.terms] == [(None, node.path)]

    anyio.run(story, backend=backend)


@pytest.mark.usefixtures("any_name")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_contenders_with_invalid_names_are_shown_escaped(backend: str) -> None:
    """From the server to the scene that `top` and the dashboard show."""

    async def story(hosts: str) -> None:
        async with aiolead.connect(hosts) as client:
            await client.create("/foreign", b"")
            feed = Feed(client, ["/"])
            async with running(feed):
                with RawClient(hosts) as raw:
                    for name in (FOREIGN, "_c_x-latch-"):
                        raw.create(f"/foreign/{name}", b"mallory", flags=EPHEMERAL_SEQUENTIAL)
                    mallories = (["mallory"], ["mallory"])
                    await until(feed, lambda: names(feed.scene, "/foreign") == mallories)
            state = json.loads(StateStream(feed.scene, lambda: 1.0).snapshot())
            assert all(text.isprintable() for text in texts(state))

    with EmbeddedServer.in_thread() as server:
        anyio.run(story, server.connect_string, backend=backend)


@pytest.mark.usefixtures("any_name")
def test_contenders_with_invalid_names_are_listed_escaped(run: Run) -> None:
    with EmbeddedServer.in_thread() as server, RawClient(server.connect_string) as raw:
        raw.create("/foreign")
        raw.create(f"/foreign/{FOREIGN}", b"mallory", flags=EPHEMERAL_SEQUENTIAL)
        raw.create("/foreign/_c_x-latch-", b"anna", flags=EPHEMERAL_SEQUENTIAL)
        code, out, err = run("contenders /foreign", hosts=server.connect_string)
        first, second = report(run, "contenders", "/foreign", hosts=server.connect_string)
    assert (code, err) == (0, [])
    assert all(line.isprintable() for line in out)
    assert out[1].split()[:3] == ["1", "holds", "mallory"]
    assert out[1].endswith(r"\x1b[2J\x7f_c_x-latch-0000000000")
    assert out[2].split()[:3] == ["2", "waits", "anna"]
    assert (first["identity"], second["identity"]) == ("mallory", "anna")
    assert first["path"] == f"/foreign/{FOREIGN}0000000000"


# --- any text and any number ---------------------------------------------------------------------

BAD = "\x1b[2J\x1b]0;x\x07\r\n\u2028\u2029\x85\u202e\u2066\x00\x9b31m<img src=x>"
TEXTS = st.text(max_size=300) | st.text(
    st.sampled_from("a/<&\x00\n\r\t\x1b\x7f\x85\x9b\u200b\u2028\u2029\u202e\u2066\ud800\\"),
    max_size=300,
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


def texts(value: Any) -> Iterator[str]:
    """The texts in a value for JSON, keys included."""
    match value:
        case str():
            yield value
        case dict():
            yield from texts([*value.keys(), *value.values()])
        case list():
            for each in value:
                yield from texts(each)


def hostile_scene(name: str, data: bytes, number: int) -> Scene:
    """An election, a contender that waits, and an unreadable znode, with the same name and data."""
    scene = StagedScene(f"/jobs/{name}")
    stat = Stat(**dict.fromkeys(Stat._fields, number))._replace(ephemeral_owner=number or 1)
    for n in (1, 2):
        scene.put(f"/jobs/{name}/{name}_c_x-latch-{n:010d}", stat, data)
    scene.may_read(f"/closed/{name}", False)
    scene.settle(1.0)
    scene.remove(f"/jobs/{name}/{name}_c_x-latch-0000000001")
    scene.settle(2.0)
    return scene


@given(name=TEXTS, data=TEXTS.map(lambda text: text.encode(errors="replace")), number=NUMBERS)
@example(name=BAD, data=BAD.encode() * 1000, number=(1 << 63) - 1)
@example(name=BAD, data=b"__REVOKE__\xff" + BAD.encode(), number=-(1 << 63))
def test_views_show_printable_text(name: str, data: bytes, number: int) -> None:
    scene = hostile_scene(name, data, number)
    server = ServerAddress(name, 2181)
    answers = ServerAnswers(server, problem=name * 100, mode=name, version=name * 100)
    stream = StateStream(scene, lambda: 3.0)
    well = ServerAnswers(server, mode="leader")
    for each in ([answers], [well], [answers]):
        scene.set_health(EnsembleHealth(1.0, each, Quorum(1, 1, 1, True, "hosts", True)))
    keys = [queue["key"] for queue in json.loads(stream.snapshot())["queues"]]
    sent = [stream.snapshot(), *(anyio.run(stream.queue, key) or b"" for key in keys)]
    assert len(sent) > 1
    for each in sent:
        assert b"\n" not in each  # which would end an event
        for text in texts(json.loads(each.decode("ascii"))):
            assert text.isprintable()
            assert len(text) < 3000

    for width in (20, 80, 400):
        for row in Picture(scene=scene, title=name).draw(3.0, width, 40):
            assert row.plain.isprintable()
    for one in scene.since(0):
        assert scene_text.event_as_text(one, "").isprintable()
        assert render.as_json(scene_text.event_as_json(one)).isprintable()
    assert scene_text.unreadable(scene.unreadable, 3).isprintable()
    assert render.as_json(scene_text.scene_as_json(scene, 3.0)).isascii()

    stat = Stat(**dict.fromkeys(Stat._fields, number))
    for place in places_of([f"{name}-latch-0000000001", name]):
        path = f"/{place.name}"
        for one in (
            QueuedContender(place, path, stat, data),
            QueuedContender(place, path, None, None),
        ):
            assert all(cell.isprintable() for cell in _row(one))
