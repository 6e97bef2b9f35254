"""What contenders, top and the dashboard show of names that others have written.

A foreign server may also list names that ZooKeeper allows nobody to create.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from cli.serving import EPHEMERAL_SEQUENTIAL
from hypothesis import example, given
from hypothesis import strategies as st
from kit.cli import WITHIN, Run, objects
from kit.raw_client import RawClient

import aiolead
from aiolead.cli import render, scene_text
from aiolead.cli.contender_queue import QueuedContender, places_of
from aiolead.cli.contenders import _row
from aiolead.cli.dashboard.state import EnsembleHealth
from aiolead.cli.dashboard.state_stream import StateStream
from aiolead.cli.scene import Scene
from aiolead.cli.scene_feed import Feed
from aiolead.cli.server_inquiry import ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers
from aiolead.cli.top_picture import Picture
from aiolead.model import SessionState, Stat
from aiolead.testing import EmbeddedServer
from aiolead.testing._server.transaction import Transaction
from aiolead.types import TreeEvent, TreeEventType, TreeNode

pytestmark = pytest.mark.exhaustive("an edge of the command")

BAD = "\x1b[2J\x1b]0;x\x07\r\n\u2028\u2029\x85\u202e\u2066\x00\x9b31m<img src=x>"
TEXTS = st.text(max_size=300) | st.text(
    st.sampled_from("a/<&\x00\n\r\t\x1b\x7f\x85\x9b\u200b\u2028\u2029\u202e\u2066\ud800\\"),
    max_size=300,
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


def texts(value: Any) -> Iterator[str]:
    """All that a value for JSON has of text, keys as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def hostile_scene(name: str, data: bytes, number: int) -> Scene:
    """An election, one who waits, and a znode that may not be read, all called like that."""
    scene = Scene([f"/jobs/{name}"])
    scene.set_session(SessionState.CONNECTED, 1, 0.0)
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
def test_all_that_is_shown_is_printable(name: str, data: bytes, number: int) -> None:
    scene = hostile_scene(name, data, number)
    server = ServerAddress(name, 2181)
    answers = ServerAnswers(server, problem=name * 100, mode=name, version=name * 100)
    stream = StateStream(scene, lambda: 3.0)
    stream.health = EnsembleHealth(1.0, [answers], Quorum(1, 1, 1, True, "hosts", True))
    keys = [queue["key"] for queue in json.loads(stream.snapshot())["queues"]]
    sent = [stream.snapshot(), *(stream.queue(key) or b"" for key in keys)]
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


# --- names that ZooKeeper does not allow ---------------------------------------------------------

FOREIGN = "\x1b[2J\x7f_c_x-latch-"


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded server takes any name."""
    monkeypatch.setattr(Transaction, "_validate", lambda *_: None)


@pytest.mark.usefixtures("foreign")
def test_contenders_with_names_that_only_a_server_may_use(run: Run) -> None:
    with (
        EmbeddedServer.in_thread() as server,
        RawClient(hosts := server.connect_string) as raw,
    ):
        raw.create("/foreign")
        raw.create(f"/foreign/{FOREIGN}", b"mallory", flags=EPHEMERAL_SEQUENTIAL)
        raw.create("/foreign/_c_x-latch-", b"anna", flags=EPHEMERAL_SEQUENTIAL)
        code, out, err = run("contenders", "/foreign", hosts=hosts)
        assert (code, err) == (0, [])
        assert all(line.isprintable() for line in out)
        assert out[1].split()[:3] == ["1", "holds", "mallory"]
        assert out[1].endswith(r"\x1b[2J\x7f_c_x-latch-0000000000")
        assert out[2].split()[:3] == ["2", "waits", "anna"]
        code, out, _ = run("contenders", "/foreign", "--json", hosts=hosts)
        first, second = objects(out)
        assert (code, first["identity"], second["identity"]) == (0, "mallory", "anna")
        assert first["path"] == f"/foreign/{FOREIGN}0000000000"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_feed_with_a_name_that_cannot_be_asked_for(backend: str) -> None:
    async def story() -> None:
        async with (
            EmbeddedServer() as server,
            aiolead.connect(server.connect_string) as client,
        ):
            feed = Feed(client, ["/"])
            stat = Stat(**{**dict.fromkeys(Stat._fields, 0), "ephemeral_owner": 7})
            node = TreeNode(f"/foreign/{FOREIGN}0000000000", b"", stat)
            feed._note(TreeEvent(TreeEventType.CREATED, node.path, None, node))
            await feed._read()
            feed.scene.settle(1.0)
            (line,) = feed.scene.queues
            assert [(term.identity, term.node) for term in line.terms] == [(None, node.path)]

    anyio.run(story, backend=backend)


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_feed_over_a_server_with_names_that_nobody_could_create(backend: str) -> None:
    """From the server to the scene that `top` and the dashboard show."""

    async def story(hosts: str) -> None:
        async with aiolead.connect(hosts) as client:
            await client.create("/foreign", b"")
            async with anyio.create_task_group() as tasks:
                feed = Feed(client, ["/"])
                tasks.start_soon(feed.run)
                with RawClient(hosts) as raw, anyio.fail_after(WITHIN):
                    for name in (FOREIGN, "_c_x-latch-"):
                        path, data = f"/foreign/{name}", b"mallory"
                        await anyio.to_thread.run_sync(
                            lambda path=path, data=data: raw.create(
                                path, data, flags=EPHEMERAL_SEQUENTIAL
                            )
                        )
                    revision = -1
                    while not (feed.scene.is_current and len(waiting(feed)) == 2):
                        revision = await feed.changed(revision)
                tasks.cancel_scope.cancel()
            assert waiting(feed) == ["mallory", "mallory"]
            state = json.loads(StateStream(feed.scene, lambda: 1.0).snapshot())
            assert all(text.isprintable() for text in texts(state))

    with EmbeddedServer.in_thread() as server:
        anyio.run(story, server.connect_string, backend=backend)


def waiting(feed: Feed) -> list[str | None]:
    """The identities of all who lead or wait."""
    return [one.identity for line in feed.scene.queues for one in (*line.terms, *line.waiting)]
