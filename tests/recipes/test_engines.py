"""Every recipe on the engines that speak ZooKeeper's protocol beside ZooKeeper itself.

The embedded server imitates them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from kit.clients import SESSION, Link, eventually
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import Client, Election, Lock, LockLost, Queue, TreeCache, admin
from aiolead.errors import SessionExpiredError, TenureLost, UnsupportedError
from aiolead.model import CreateMode, SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.testing._server import core, fourletter

KEEPERS = {"keeper-old": "24.8", "keeper-middle": "26.3", "keeper-new": "26.9"}
"""The generations of ClickHouse Keeper: each knows more operations than the one before."""

ENGINES: dict[str, dict[str, str]] = {
    **{name: {"engine": "clickhouse-keeper", "version": v} for name, v in KEEPERS.items()},
    "raftkeeper": {"engine": "raftkeeper", "version": "2.3"},
}

on_every_engine = pytest.mark.parametrize("engine", ENGINES)
on_every_keeper = pytest.mark.parametrize("engine", KEEPERS)

SILENT = b"srvr is not executed because it is not in the whitelist."


@asynccontextmanager
async def serving(engine: str) -> AsyncIterator[tuple[EmbeddedServer, Link]]:
    async with embedded(**ENGINES[engine]) as server:
        yield server, Link(server)


def unanswered(server: EmbeddedServer) -> int:
    """How many requests the server did not know."""
    return sum(
        count for op, count in server.requests.items() if op == "UNKNOWN" or not _knows(server, op)
    )


def _knows(server: EmbeddedServer, op: str) -> bool:
    return server._settings.takes(OpCode[op])


# --- every recipe --------------------------------------------------------------------------------


async def hold_and_hand_over_all(a: Client, b: Client) -> None:
    for name, scene in (HELD | KEPT).items():
        path = f"/{name}"
        if scene.prepare is not None:
            await scene.prepare(a, path)
        async with scene.enter(a, path) as mine:
            await mine.verify()
        if scene.prepare is not None:
            await scene.prepare(a, path)
        await scene.turn(b, path)


@on_every_engine
@virtually
async def test_every_recipe_is_held_and_handed_over(engine: str) -> None:
    async with serving(engine) as (server, link), link.connect() as a, link.connect() as b:
        await hold_and_hand_over_all(a, b)
        assert unanswered(server) == 0
        assert (a.session_id, b.session_id) == (first_session(a), first_session(b))


def first_session(client: Client) -> int:
    """The session of a client that has never lost its connection."""
    assert client.statistics().connections == 1
    return client.session_id


async def follow(a: Client, b: Client, scene: str, after: Callable[[], object] = int) -> None:
    """Change something three times, and see each change; `after` is called after each of them."""
    followed = FOLLOWED[scene]
    async with followed.change(a, "/x") as change, followed.observe(b, "/x") as seen:
        for number in range(1, 4):
            await change(number)
            await eventually(partial(_is, seen, number), f"{number} is seen: {seen()}")
            after()


@on_every_engine
@pytest.mark.parametrize("scene", FOLLOWED)
@virtually
async def test_every_view_follows(engine: str, scene: str) -> None:
    async with serving(engine) as (server, link), link.connect() as a, link.connect() as b:
        await follow(a, b, scene)
        assert await b.exists("/") is not None
        assert b.statistics().connections == 1  # ending the view has cost nothing
        assert unanswered(server) == 0


def _is(seen: Any, number: int) -> bool:
    return seen() == number


@on_every_engine
@virtually
async def test_everything_is_done_once(engine: str) -> None:
    async with serving(engine) as (server, link), link.connect() as client:
        for name, done in DONE.items():
            before = await done.count(client, f"/{name}")
            await done.do(client, f"/{name}")
            await done.do(client, f"/{name}")
            assert await done.count(client, f"/{name}") >= before + 2
        assert unanswered(server) == 0


# --- what a request does -------------------------------------------------------------------------


async def create_and_hold(client: Client) -> None:
    """The `Stat` of a create, and the token of a lock, are those of the znode."""
    for mode in (CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL):
        for data in (b"", b"data"):
            created = await client.create(f"/a-{len(data)}-", data, mode=mode)
            stat = await client.exists(created.path)
            assert stat is not None
            assert created.stat in (stat, stat._replace(ctime=0, mtime=0))
    async with Lock(client, "/lock") as held:
        stat = await client.exists(held.path)
        assert stat is not None
        assert held.token == stat.czxid
        await held.fenced().create("/written", b"behind the lock")


@on_every_engine
@virtually
async def test_created_stat_and_token_are_those_of_the_znode(engine: str) -> None:
    async with serving(engine) as (_, link), link.connect() as client:
        await create_and_hold(client)


@on_every_engine
@virtually
async def test_missing_parents_are_made(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with serving(engine) as (server, link), link.connect() as client:
        await client.ensure_path("/one/two", mode=CreateMode.CONTAINER)
        await client.ensure_path("/three", mode=CreateMode.CONTAINER)
        assert await client.get_children("/one") == ["two"]
        said = [record for record in caplog.records if "no containers" in record.getMessage()]
        assert len(said) == (0 if engine == "keeper-new" else 1)
        has_containers = server.requests["CREATE_CONTAINER"] > 0
        assert has_containers is (engine == "keeper-new")


@on_every_engine
@virtually
async def test_operations_that_no_engine_has_are_refused(engine: str) -> None:
    async with serving(engine) as (server, link), link.connect() as client:
        for operation in (admin.whoami, admin.get_ephemerals, Client.get_all_children_number):
            with pytest.raises(UnsupportedError, match="Keeper"):
                await operation(client)
        with pytest.raises(UnsupportedError, match="a recursive watch"):
            async with client.watch("/", recursive=True):
                pass
        assert client.state is SessionState.CONNECTED
        assert unanswered(server) == 0


@on_every_keeper
@virtually
async def test_container_that_a_user_creates_is_refused_or_made(engine: str) -> None:
    async with serving(engine) as (_, link), link.connect(**settled(engine)) as client:
        if engine == "keeper-new":
            await client.create("/c", mode=CreateMode.CONTAINER)
            await client.transaction().create("/d", mode=CreateMode.CONTAINER)
            return
        with pytest.raises(UnsupportedError, match=r"has it from 26\.7 on"):
            await client.create("/c", mode=CreateMode.CONTAINER)
        with pytest.raises(UnsupportedError, match="a container znode"):
            await client.transaction().create("/c", mode=CreateMode.CONTAINER)
        assert await client.exists("/c") is None


def settled(engine: str) -> dict[str, str]:
    """The arguments of `connect` that say which server it is."""
    given = ENGINES[engine]
    return {"engine": given["engine"], "server_version": given["version"]}


# --- sessions ------------------------------------------------------------------------------------


@on_every_keeper
@virtually
async def test_client_hangs_up_only_after_the_grace_period_of_its_bodies(engine: str) -> None:
    """The server ends the session as it sees the end of the connection."""
    grace = SESSION / 8
    async with serving(engine) as (server, link), link.connect(grace_period=grace) as client:
        was_held = False
        with pytest.raises(LockLost):
            async with Lock(client, "/lock") as held:
                link.stall("to_client")
                try:
                    await anyio.sleep(10 * SESSION)
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(0.9 * grace)
                    was_held = held.path in server.znodes()
        link.heal()
        assert was_held
        async with Lock(client, "/lock"):
            assert client.statistics().connections == 2


@virtually
async def test_hold_outlives_a_connection_to_raftkeeper() -> None:
    async with serving("raftkeeper") as (server, link), link.connect() as client:
        async with Lock(client, "/lock") as held:
            await anyio.sleep(0.1)  # the answer to srvr
            session = client.session_id
            server.disconnect(session)
            await anyio.sleep(0.5)
            await client.ready()
            await held.verify()
            assert client.session_id == session


async def lead_again(client: Client, cut: Callable[[], object]) -> None:
    """Lead three times, with a connection each."""
    tokens: list[int] = []
    for _ in range(3):
        try:
            async with Election(client, "/election").leadership() as term:
                tokens.append(term.token)
                cut()
                await anyio.sleep(100)
        except aiolead.LeadershipLost:
            pass
    assert tokens == sorted(set(tokens))


@on_every_keeper
@virtually
async def test_leadership_is_won_again_after_each_lost_connection(engine: str) -> None:
    async with serving(engine) as (server, link), link.connect() as client:
        await lead_again(client, lambda: server.disconnect(client.session_id))
        # A lock takes two requests; nothing was tried again and again.
        assert server.requests.total() < 150


@on_every_engine
@pytest.mark.parametrize("scene", FOLLOWED)
@virtually
async def test_every_view_goes_on_in_the_next_session(engine: str, scene: str) -> None:
    async with serving(engine) as (server, link), link.connect() as a, link.connect() as b:
        await follow(a, b, scene, lambda: server.disconnect(b.session_id))
        assert unanswered(server) == 0


@on_every_keeper
@pytest.mark.parametrize("name", [*HELD, *KEPT])
@virtually
async def test_whatever_is_held_is_lost_at_once_and_handed_over(engine: str, name: str) -> None:
    """The session has ended with the connection, so a waiter may hold at once."""
    scene, lost_at = (HELD | KEPT)[name], 0.0
    async with serving(engine) as (server, link), link.connect() as a, link.connect() as b:
        if scene.prepare is not None:
            await scene.prepare(b, "/x")
        try:
            async with scene.enter(a, "/x") as mine:
                await mine.verify()
                session = a.session_id
                server.disconnect(session)
                if name in HELD:
                    try:
                        await anyio.sleep(100)
                    finally:
                        lost_at = anyio.current_time()
                await eventually(lambda: a.session_id not in (0, session), "it is back")
        except* TenureLost:
            assert name in HELD
        assert lost_at < 1.0
        assert anyio.current_time() < 60
        with anyio.fail_after(60):
            await scene.turn(b, "/x")
        assert unanswered(server) == 0


@on_every_keeper
@virtually
async def test_reads_in_flight_fail_with_the_session(engine: str) -> None:
    async with serving(engine) as (server, link), link.connect() as client:
        server.pause()
        read = client.get("/")
        with anyio.move_on_after(0.1):
            await read
        server.disconnect(client.session_id)
        server.resume()
        with pytest.raises(SessionExpiredError):
            await read
        await client.ready()
        assert await client.get_children("/")


# --- TreeCache -----------------------------------------------------------------------------------


@on_every_engine
@pytest.mark.parametrize("given", ["nothing", "a ZooKeeper version", "the engine"])
@virtually
async def test_tree_cache_is_never_wrong(engine: str, given: str) -> None:
    """ClickHouse issue 115475: recursive watches report the watched path."""
    options: dict[str, str] = {}
    if given == "a ZooKeeper version":
        options = {"server_version": "3.9"}
    elif given == "the engine":
        options = settled(engine)
    async with serving(engine) as (_, link), link.connect() as a, link.connect(**options) as b:
        await copy_tree(a, b)


async def copy_tree(a: Client, b: Client) -> None:
    await a.ensure_path("/tree/a/b")
    await a.set("/tree/a/b", b"1")
    async with TreeCache(b, "/tree") as cache:
        for number in range(2, 6):
            await a.set("/tree/a/b", b"%d" % number)
            await a.create(f"/tree/a/{number}")
            await eventually(partial(_has, cache, number), f"{number} is in the copy")
        await a.delete("/tree/a/5")
        await eventually(lambda: cache.get("/tree/a/5") is None, "it is gone")
        # Between the report of a change and the next one-shot watch, it is not.
        await eventually(lambda: cache.is_live, "its watches are set again")


def _has(cache: TreeCache, number: int) -> bool:
    node = cache.get("/tree/a/b")
    is_new = node is not None and node.data == b"%d" % number
    return is_new and cache.get(f"/tree/a/{number}") is not None


# --- servers that do not say what they are -------------------------------------------------------


@on_every_engine
@virtually
async def test_engine_that_does_not_say_what_it_is_works(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fourletter.WORDS, "srvr", lambda _: SILENT.decode())
    async with serving(engine) as (server, link), link.connect() as client:
        async with Lock(client, "/deep/lock") as held:
            await held.verify()
        with pytest.raises(UnsupportedError, match=r'engine="\.\.\."'):
            async with client.watch("/"):
                pass
        await Queue(client, "/deep/queue").put(b"item")
        async with Queue(client, "/deep/queue").get() as item:
            assert item.data == b"item"
        assert unanswered(server) == 0


@on_every_keeper
@virtually
async def test_engine_behind_a_disguise_is_known_by_experience(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions have passwords, as those of ZooKeeper: each operation costs two connections."""
    monkeypatch.setitem(fourletter.WORDS, "srvr", lambda _: SILENT.decode())
    monkeypatch.setattr(core, "NO_PASSWORD", b"sixteen bytes :)")
    async with serving(engine) as (server, link), link.connect() as client:
        for number in range(5):
            async with Lock(client, f"/deep/lock-{number}") as held:
                stat = await client.exists(held.path)
                assert stat is not None
                assert held.token == stat.czxid
        assert unanswered(server) <= 2 * 3  # creates, containers, the removal of watches
        assert server.requests.total() < 150
