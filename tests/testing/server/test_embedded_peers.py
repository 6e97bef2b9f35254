"""kazoo works against the embedded server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError as KazooBadVersionError
from kazoo.exceptions import NoAuthError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import KazooState
from kazoo.security import make_digest_acl
from kit.checks import PATIENCE, until

from aiolead.testing import EmbeddedServer, ThreadedServer


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread(tick_time=0.2) as server:
        yield server


@pytest.fixture
def connect(server: ThreadedServer) -> Iterator[Any]:
    clients: list[KazooClient] = []

    def connect(timeout: float = 4.0) -> KazooClient:
        client = KazooClient(server.connect_string, timeout=timeout)
        clients.append(client)
        client.start(timeout=PATIENCE)
        return client

    yield connect
    for client in clients:
        client.stop()
        client.close()


def test_kazoo_basics(connect: Any) -> None:
    client = connect()
    assert client.server_version() == (3, 8, 0)
    assert client.create("/a/b/c", b"data", makepath=True) == "/a/b/c"
    data, stat = client.get("/a/b/c")
    assert (data, stat.version, stat.data_length) == (b"data", 0, 4)
    assert client.set("/a/b/c", b"more").version == 1
    path, stat = client.create("/a/n-", ephemeral=True, sequence=True, include_data=True)
    assert (path, stat.owner_session_id) == ("/a/n-0000000001", client.client_id[0])
    assert sorted(client.get_children("/a")) == ["b", "n-0000000001"]
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None
    assert client.sync("/") == "/"


def test_kazoo_transactions(connect: Any) -> None:
    client = connect()
    client.create("/a")
    with_check = client.transaction()
    with_check.check("/a", 0)
    with_check.create("/a/b", b"x")
    with_check.set_data("/a", b"y")
    with_check.delete("/a/b")
    done, created, stat, deleted = with_check.commit()
    assert (done, created, stat.version, deleted) == (True, "/a/b", 1, True)
    failing = client.transaction()
    failing.create("/b")
    failing.check("/a", 77)
    failing.create("/c")
    kinds = [type(result) for result in failing.commit()]
    assert kinds == [RolledBackError, KazooBadVersionError, RuntimeInconsistency]


def test_kazoo_watches(connect: Any) -> None:
    client, other = connect(), connect()
    seen: list[Any] = []

    def hear(event: Any) -> None:
        seen.append((event.type, event.path))

    for number, (read, write) in enumerate(
        (
            (lambda: client.exists("/x", watch=hear), lambda: other.create("/x")),
            (lambda: client.get("/x", watch=hear), lambda: other.set("/x", b"new")),
            (lambda: client.get_children("/x", watch=hear), lambda: other.create("/x/y")),
            (lambda: client.get("/x/y", watch=hear), lambda: other.delete("/x/y")),
        ),
        1,
    ):
        read()
        write()
        until(lambda number=number: len(seen) == number, "the event arrives")  # type: ignore[misc]
    assert seen == [("CREATED", "/x"), ("CHANGED", "/x"), ("CHILD", "/x"), ("DELETED", "/x/y")]


def test_kazoo_recipes(connect: Any, server: ThreadedServer) -> None:
    clients = [connect() for _ in range(3)]
    inside: list[str] = []
    order: list[str] = []

    def work(client: KazooClient, name: str) -> None:
        with client.Lock("/lock", name):
            inside.append(name)
            assert len(inside) == 1
            order.append(name)
            inside.remove(name)
        client.Election("/election", name).run(lambda: order.append(name))

    threads = [
        threading.Thread(target=work, args=(client, str(number)))
        for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(order) == ["0", "0", "1", "1", "2", "2"]
    assert server.znodes() == ["/election", "/lock"]


def test_kazoo_authentication(connect: Any) -> None:
    owner, stranger = connect(), connect()
    owner.add_auth("digest", "ann:secret")
    owner.create("/hers", acl=[make_digest_acl("ann", "secret", all=True)])
    with pytest.raises(NoAuthError):
        stranger.get("/hers")
    stranger.add_auth("digest", "ann:secret")
    assert stranger.get("/hers")[0] == b""
    acls, _ = owner.get_acls("/hers")
    assert [acl.id.id.partition(":")[0] for acl in acls] == ["ann"]


@pytest.mark.parametrize("fault", ["disconnect", "reset", "restart", "expire"])
def test_kazoo_reconnects(fault: str, connect: Any, server: ThreadedServer) -> None:
    client = connect()
    session = client.client_id
    client.create("/e", ephemeral=True)
    states: list[str] = []
    client.add_listener(states.append)
    match fault:
        case "restart":
            server.stop()
            server.start()
        case "expire":
            server.expire_session(session[0])
        case _:
            server.disconnect(session[0], reset=fault == "reset")
    until(lambda: KazooState.CONNECTED in states, "kazoo has reconnected")
    assert (KazooState.LOST in states) is (fault == "expire")
    assert (client.client_id == session) is (fault != "expire")
    assert (client.exists("/e") is None) is (fault == "expire")
