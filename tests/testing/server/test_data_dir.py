"""The embedded server's data on disk: what the next server in the same directory goes on with."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from testing.stream_client import dial
from testing.wire_core import Client, World, create

from aiolead._wire.codes import OpCode
from aiolead._wire.requests import (
    Delete,
    Exists,
    GetData,
    GetEphemerals,
    Multi,
    SetACL,
    SetData,
)
from aiolead.errors import ConfigurationError, NodeExistsError, NoNodeError
from aiolead.model import ACL, Auth, Permission
from aiolead.testing import EmbeddedServer
from aiolead.testing._server.store import FILE, Store
from aiolead.testing._server.tree import Tree, Znode

EPHEMERAL, SEQUENTIAL, CONTAINER, TTL = 1, 2, 4, 5

CONFIG = "server.1=a:1:2:participant;3\nserver.2=b:1:2:participant;3"

pytestmark = pytest.mark.timeout(60)


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[World]:
    """A server that goes on with the data of a folder."""
    with closing(Store(folder)) as store:
        world = World(store, **settings)
        world.core.restarted(world.now)
        yield world


def picture(tree: Tree) -> dict[str, Any]:
    """Everything that a tree knows of each znode."""
    return {path: state(tree, path) for path in tree.all_paths()}


def state(tree: Tree, path: str) -> dict[str, Any]:
    node = tree.get(path)
    assert node is not None
    values = {name: getattr(node, name) for name in Znode.__slots__}
    return values | {"children": list(node.children), "owned": tree.ephemerals(node.owner)}


def summary(tree: Tree) -> tuple[Any, ...]:
    return tree.approximate_bytes, tree.ephemeral_count, tree.quotas, tree.has_mortals, len(tree)


def some_write(client: Client, chance: random.Random) -> None:
    """Any write, of which some are refused."""
    path = "/" + "/".join(chance.choices("abc", k=chance.randint(1, 3)))
    data = chance.randbytes(chance.randint(0, 5))
    match chance.randrange(10):
        case 0 | 1:
            client.ask(create(path, data, chance.choice([0, EPHEMERAL, SEQUENTIAL])))
        case 2:
            client.ask(create(path, data, CONTAINER, op=OpCode.CREATE_CONTAINER))
        case 3:
            client.ask(create(path, data, TTL, op=OpCode.CREATE_TTL, ttl=2000))
        case 4 | 5:
            client.ask(Delete(path, -1))
        case 6:
            client.ask(SetData(path, data, chance.choice([-1, 0, 1])))
        case 7:
            client.ask(SetACL(path, (ACL.world(), ACL(Permission.READ, "ip", "127.0.0.1")), -1))
        case 8:
            second = create(path + "/z", data, SEQUENTIAL)
            client.ask(Multi((create(path, None), second, Delete(path, chance.choice([-1, 7])))))
        case 9:
            client.world.pass_time(chance.choice([0.5, 70]))


@pytest.mark.parametrize("seed", range(10))
def test_next_server_has_the_same_state(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    before: dict[str, Any] = {}
    sessions: dict[int, int] = {}
    zxid = 0
    totals: tuple[Any, ...] = ()
    for _ in range(4):
        with serving(tmp_path, enforces_quotas=True) as world:
            core = world.core
            if before:
                assert picture(core.processor.tree) == before
                assert summary(core.processor.tree) == totals
                assert {s.id: s.timeout_ms for s in core.sessions.all()} == sessions
                assert core.processor.zxid == zxid
            clients = [world.client(timeout=10) for _ in range(3)]
            root = "/zookeeper/quota"
            for path in (f"{root}/a", f"{root}/a/zookeeper_limits", f"{root}/a/zookeeper_stats"):
                clients[0].ask(create(path, b"count=-1,bytes=-1"))
            for _ in range(60):
                client = chance.choice(clients)
                if client.connection in core.connections:
                    some_write(client, chance)
            before, totals = picture(core.processor.tree), summary(core.processor.tree)
            sessions = {session.id: session.timeout_ms for session in core.sessions.all()}
            zxid = core.processor.zxid
    assert len(before) > 5


def test_session_goes_on_and_keeps_its_ephemeral_znodes(tmp_path: Path) -> None:
    with serving(tmp_path) as world:
        client = world.client()
        client.create("/mine", flags=EPHEMERAL)
        client.create("/n-", flags=SEQUENTIAL)
        seen, session = world.core.processor.zxid, client.session
    with serving(tmp_path) as world:
        thief = world.connect()
        thief.greet(session=(session[0], bytes(16)))
        assert thief.session_id == 0
        client = world.connect()
        # A server without the last change would refuse a client that has seen it.
        client.greet(session=session, seen=seen)
        assert client.session == session
        assert client.create("/n-", flags=SEQUENTIAL) == "/n-0000000002"
        assert client.ask(GetEphemerals("/"))[1].i32() == 1
        other = world.client()
        assert other.session_id != client.session_id
        world.pass_time(20)
        assert other.session_id not in [session.id for session in world.core.sessions.all()]
        assert world.client().ask(Exists("/mine"))[0] == NoNodeError.code


def test_ended_session_stays_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as world:
        closed, expired = world.client(), world.client()
        closed.ask_raw(OpCode.CLOSE_SESSION)
        world.core.expire(expired.session_id, world.now)
    with serving(tmp_path) as world:
        for client in (closed, expired):
            late = world.connect()
            late.greet(session=client.session)
            assert late.session_id == 0
        # No id is given out twice.
        assert world.client().session_id > max(closed.session_id, expired.session_id)


def test_zxid_of_refused_write_is_kept(tmp_path: Path) -> None:
    """The client has seen it in the answer."""
    with serving(tmp_path) as world:
        client = world.client()
        assert client.ask(create("/zookeeper"))[0] == NodeExistsError.code
        seen, session = world.core.processor.zxid, client.session
    with serving(tmp_path) as world:
        again = world.connect()
        again.greet(session=session, seen=seen)
        assert again.session_id == client.session_id


def test_unusual_paths_data_and_acls_are_kept(tmp_path: Path) -> None:
    acl = (Auth.digest("ann", "\N{SNOWMAN}").acl(), ACL.world(Permission.READ))
    with serving(tmp_path) as world:
        client = world.client()
        client.create("/\N{SNOWMAN}", bytes(range(256)), acl=acl)
        client.ask(create("/null", None))
        client.ask(create("/empty", b""))
        world.core.set_sequence("/empty", 41)
        before = picture(world.core.processor.tree)
    with serving(tmp_path) as world:
        assert picture(world.core.processor.tree) == before
        client = world.client()
        assert client.create("/empty/n-", flags=SEQUENTIAL) == "/empty/n-0000000041"


def test_changed_ensemble_configuration_is_kept(tmp_path: Path) -> None:
    config = CONFIG.encode()
    with serving(tmp_path, config=config) as world:
        first = picture(world.core.processor.tree)
    with serving(tmp_path, config=config.replace(b"a:1", b"c:1")) as world:
        assert picture(world.core.processor.tree) == first


def test_data_dir_is_used_by_one_server_at_a_time(tmp_path: Path) -> None:
    with closing(Store(tmp_path)), pytest.raises(ConfigurationError, match="another server uses"):
        Store(tmp_path)
    Store(tmp_path).close()


def test_files_of_other_programs_and_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"notes " * 1000)
    with pytest.raises(ConfigurationError, match="not of this server"):
        Store(tmp_path)
    with pytest.raises(ConfigurationError, match=r"data_dir: .*: File exists"):
        Store(tmp_path / FILE)
    (tmp_path / FILE).unlink()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigurationError, match="its format is 99, not 1"):
        Store(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE znodes SET lifetime = 'LONG' WHERE path = x'2f61'",
        "UPDATE znodes SET acl = '[' WHERE path = x'2f61'",
        "UPDATE znodes SET acl = '[[1]]' WHERE path = x'2f61'",
        "DELETE FROM znodes WHERE path = x'2f61'",
        "DROP TABLE sessions",
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    with serving(tmp_path) as world:
        client = world.client()
        client.create("/a")
        client.create("/a/b")
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute(damage)
    with pytest.raises(ConfigurationError, match="data_dir: "), serving(tmp_path):
        pass


def test_nothing_is_stored_after_a_failed_write(tmp_path: Path) -> None:
    """A later change might be of a znode whose parent is not in the file."""
    with closing(Store(tmp_path)) as store:
        world = World(store)
        client = world.client()
        client.create("/a")
        kept = world.core.processor.zxid
        store._db.execute("PRAGMA query_only = ON")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            client.create("/b")
        store._db.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            client.create("/b/c")
    with serving(tmp_path) as world:
        assert "/a" in world.core.processor.tree.all_paths()
        assert world.core.processor.zxid == kept


def test_acls_are_kept_as_text(tmp_path: Path) -> None:
    with serving(tmp_path) as world:
        world.client().create("/a")
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        (acl,) = db.execute("SELECT acl FROM znodes WHERE path = x'2f61'").fetchone()
    assert json.loads(acl) == [[31, "world", "anyone"]]


async def test_entered_servers_share_a_data_dir_one_after_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    session = 0, bytes(16)
    for number in range(3):
        async with EmbeddedServer(data_dir=folder) as server:
            client = await (await dial(server, "memory")).greet(session=session)
            assert session[0] in (0, client.session_id)
            session = client.session
            assert folder.stat().st_mode & 0o77 == 0
            await client.create(f"/x{number}", EPHEMERAL)
            assert server.znodes() == [f"/x{n}" for n in range(number + 1)]
            with pytest.raises(ConfigurationError, match="another server uses it"):
                async with EmbeddedServer(data_dir=folder):
                    pass
            await server.stop()
            await server.start()
            client = await (await dial(server, "memory")).greet(session=session)
            await client.ask(GetData(f"/x{number}"))
