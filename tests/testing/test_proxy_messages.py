"""The fault proxy's knowledge of ZooKeeper's messages: losing and holding a certain one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from kit.checks import PATIENCE, until
from kit.raw_client import RawClient

from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.requests import Create, Exists, GetData
from aiolead.errors import NoNodeError
from aiolead.model import OPEN_ACL_UNSAFE
from aiolead.testing.launch import wait_until
from aiolead.testing.proxy import FaultProxy


@pytest.fixture
def proxy(embedded: str) -> Iterator[FaultProxy]:
    host, _, port = embedded.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[RawClient]:
    with RawClient(proxy.connect_string) as client:
        yield client


def _exists(connect_string: str, path: str) -> bool:
    with RawClient(connect_string) as client:
        try:
            client.exists(path)
        except NoNodeError:
            return False
        return True


def test_requests_are_counted_by_name(proxy: FaultProxy, chroot: str) -> None:
    with RawClient(proxy.connect_string) as client:
        client.create(chroot)
        client.get(chroot)
        client.get(chroot)
    expected = {"CREATE_SESSION": 1, "CREATE": 1, "GET_DATA": 2, "CLOSE_SESSION": 1}
    assert proxy.requests == expected


def test_dropped_request_is_not_applied(proxy: FaultProxy, embedded: str, chroot: str) -> None:
    with RawClient(proxy.connect_string) as client:
        proxy.drop_request(OpCode.CREATE)
        with pytest.raises(ConnectionResetError):
            client.create(chroot)
    assert not _exists(embedded, chroot)
    with RawClient(proxy.connect_string) as client:
        client.create(chroot)
    assert proxy.requests["CREATE"] == 2


@pytest.mark.parametrize("how", ["reset", "fin", "silence"])
def test_request_of_a_dropped_reply_is_applied(
    client: RawClient, proxy: FaultProxy, embedded: str, chroot: str, how: str
) -> None:
    if how == "silence":
        client.wait(0.3)
    proxy.drop_reply(OpCode.CREATE, how=how)
    lost = {"reset": ConnectionResetError, "fin": EOFError, "silence": TimeoutError}[how]
    with pytest.raises(lost):
        client.create(chroot)
    client.drop()
    # Nobody has said when it was done, where the link fell silent.
    until(lambda: _exists(embedded, chroot), "the request is done")


def test_replies_before_a_dropped_one_arrive(client: RawClient, proxy: FaultProxy) -> None:
    proxy.drop_reply(OpCode.GET_DATA)
    first, second = client.send(Exists("/")), client.send(GetData("/"))
    header, _ = client.receive()
    assert header.xid == first
    with pytest.raises(ConnectionResetError):
        client.receive()
    assert second == first + 1


def test_rule_for_several_operations_and_a_count(proxy: FaultProxy, chroot: str) -> None:
    proxy.drop_reply({OpCode.CREATE, OpCode.CREATE2}, count=2)
    for name in ("-1", "-2"):
        with (
            RawClient(proxy.connect_string) as client,
            pytest.raises(ConnectionResetError),
        ):
            client.create(chroot + name)
    with RawClient(proxy.connect_string) as client:
        client.create(chroot + "-3")


def test_skipped_request_is_not_applied(
    client: RawClient, proxy: FaultProxy, embedded: str, chroot: str
) -> None:
    proxy.drop_request(OpCode.CREATE, how="skip")
    with pytest.raises(TimeoutError):
        client.wait(0.2)
        client.create(chroot)
    client.wait(PATIENCE)
    client.socket.sendall(_PING)
    assert client.receive()[0].xid == XID_PING
    later = client.send(GetData("/"))
    assert client.receive()[0].xid == later
    assert not _exists(embedded, chroot)
    assert (proxy.requests["CREATE"], proxy.connections) == (1, 1)


def test_request_of_a_skipped_reply_is_applied(
    client: RawClient, proxy: FaultProxy, embedded: str, chroot: str
) -> None:
    proxy.drop_reply(OpCode.EXISTS, how="skip", after=1)
    xids = [client.send(Exists("/")) for _ in range(3)]
    assert [client.receive()[0].xid for _ in range(2)] == [xids[0], xids[2]]
    proxy.drop_reply(OpCode.CREATE, how="skip")
    created = Create(chroot, b"", OPEN_ACL_UNSAFE, 0, op=OpCode.CREATE)
    client.send(created)
    later = client.send(GetData("/"))
    assert client.receive()[0].xid == later
    assert _exists(embedded, chroot)


def test_dropped_handshake_leaves_an_unknown_session(proxy: FaultProxy) -> None:
    proxy.drop_reply(OpCode.CREATE_SESSION)
    with pytest.raises(ConnectionResetError):
        RawClient(proxy.connect_string)
    assert proxy.requests["CREATE_SESSION"] == 1


def test_dropped_event(client: RawClient, proxy: FaultProxy, embedded: str, chroot: str) -> None:
    proxy.drop_reply(OpCode.NOTIFICATION)
    client.send(Exists(chroot, watch=True))
    assert client.receive()[0].err == NoNodeError.code
    with RawClient(embedded) as other:
        other.create(chroot)
    with pytest.raises(ConnectionResetError):
        client.receive()
    assert client.events == []


async def test_held_reply_delays_all_that_follow(
    client: RawClient, proxy: FaultProxy, embedded: str, chroot: str
) -> None:
    client.wait(0.2)
    held = proxy.hold_reply(OpCode.CREATE)
    assert not held.is_held
    with pytest.raises(TimeoutError):
        client.create(chroot)
    await held.wait()
    assert held.is_held
    assert _exists(embedded, chroot)
    later = client.send(GetData("/"))
    with pytest.raises(TimeoutError):
        client.receive()
    held.release()
    client.wait(PATIENCE)
    assert [client.receive()[0].xid for _ in range(2)] == [later - 1, later]
    assert not held.is_held


async def test_held_reply_can_be_cut(client: RawClient, proxy: FaultProxy, chroot: str) -> None:
    client.wait(0.2)
    held = proxy.hold_reply(OpCode.CREATE)
    with pytest.raises(TimeoutError):
        client.create(chroot)
    await held.wait()
    held.cut()
    client.wait(PATIENCE)
    with pytest.raises(ConnectionResetError):
        client.receive()


async def test_heal_releases_held_replies_and_drops_rules(
    client: RawClient, proxy: FaultProxy, chroot: str
) -> None:
    client.wait(0.2)
    held = proxy.hold_reply(OpCode.CREATE)
    proxy.drop_request(OpCode.GET_DATA)
    with pytest.raises(TimeoutError):
        client.create(chroot)
    await held.wait()
    proxy.heal()
    client.wait(PATIENCE)
    assert client.receive()[0].err == 0
    assert client.get(chroot) == b""


async def test_wait_for_a_request(client: RawClient, proxy: FaultProxy, chroot: str) -> None:
    with pytest.raises(TimeoutError, match=r"1 x CREATE or CREATE2, saw .*CREATE_SESSION"):
        await proxy.wait_for_request({OpCode.CREATE, OpCode.CREATE2}, timeout=0.05)
    client.create(chroot)
    await proxy.wait_for_request(OpCode.CREATE)
    with pytest.raises(TimeoutError):
        await proxy.wait_for_request(OpCode.CREATE, count=2, timeout=0.05)


async def test_wait_for_a_reply_that_never_comes(proxy: FaultProxy) -> None:
    held = proxy.hold_reply(OpCode.CREATE)
    with pytest.raises(TimeoutError, match="the reply that is to be held"):
        await held.wait(0.05)


_PING = b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b"


def test_message_in_pieces_is_recognised(client: RawClient, proxy: FaultProxy) -> None:
    for byte in _PING:
        client.socket.sendall(bytes([byte]))
    assert client.receive()[0].xid == XID_PING
    assert proxy.requests["PING"] == 1


def test_each_ping_is_recognised(client: RawClient, proxy: FaultProxy) -> None:
    for _ in range(3):
        client.socket.sendall(_PING)
        assert client.receive()[0].xid == XID_PING
    proxy.drop_reply(OpCode.PING)
    client.socket.sendall(_PING)
    with pytest.raises(ConnectionResetError):
        client.receive()


@pytest.mark.real
def test_four_letter_words_pass(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("real_server")
    with FaultProxy("127.0.0.1", server.port) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as link:
            link.sendall(b"ruok")
            assert link.recv(16) == b"imok"
            assert link.recv(16) == b""
        assert proxy.requests == {}
        assert wait_until(lambda: proxy.open_connections == 0, PATIENCE)
