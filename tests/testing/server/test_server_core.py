from __future__ import annotations

import struct

import pytest
from testing.wire_core import Client, World, create

from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.jute import PING, encode_record, encode_request
from aiolead._wire.replies import DataReply, NamesReply, StatReply
from aiolead._wire.requests import (
    AuthPacket,
    CloseSession,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Reconfig,
    SetData,
    SetWatches,
)
from aiolead.errors import NoNodeError, ReconfigDisabledError
from aiolead.model import EventType
from aiolead.testing._server.connection import HIGH_WATER, MAX_UNSENT, Closing
from aiolead.testing._server.protocol import MAX_IDENTITIES

EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL = range(1, 6)
HELLO = encode_record(ConnectRequest(0, 5000, 0, bytes(16)))


# --- the order of things -----------------------------------------------------------------------


def test_event_comes_before_replies_that_show_the_change(world: World) -> None:
    a, b = world.client(), world.client()
    a.create("/x")
    for client in (a, b):
        client.ask(GetData("/x", watch=True))
    a.feed(encode_request(50, OpCode.SET_DATA, SetData("/x", b"new", -1).encode()))
    b.feed(encode_request(51, OpCode.GET_DATA, GetData("/x").encode()))
    for client, xid in ((a, 50), (b, 51)):
        xids = [struct.unpack_from(">i", frame)[0] for frame in client.read()]
        assert xids == [-1, xid]


def test_requests_behind_the_handshake_are_answered() -> None:
    client = World().connect()
    client.feed(HELLO + PING + encode_request(1, OpCode.EXISTS, Exists("/").encode()))
    xids = [struct.unpack_from(">i", frame)[0] for frame in client.read()[1:]]
    assert xids == [XID_PING, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 44])
def test_requests_in_pieces_are_answered(size: int) -> None:
    client = World().connect()
    stream = HELLO + PING + encode_request(1, OpCode.CREATE2, create("/x", b"data").encode())
    for start in range(0, len(stream), size):
        assert client.feed(stream[start : start + size])
    assert len(client.read()) == 3
    assert list(client.world.core.processor.tree.paths()) == ["/x"]


def test_set_watches_reports_changes_after_the_zxid(world: World, client: Client) -> None:
    client.create("/x")
    client.ask(SetData("/x", b"", -1))
    changed = world.core.processor.zxid
    client.create("/x/y")
    filled = world.core.processor.zxid
    told = {
        changed - 1: [(EventType.DATA_CHANGED, "/x"), (EventType.CHILDREN_CHANGED, "/x")],
        changed: [(EventType.CHILDREN_CHANGED, "/x")],
        filled: [],
    }
    for zxid, events in told.items():
        again = world.client()
        again.ask(SetWatches(zxid, data=("/x",), child=("/x",)))
        assert again.heard() == events
        assert len(world.core.processor.watches) == 2 - len(events)
        world.core.lost(again.connection)


def test_children_are_not_sorted(client: Client) -> None:
    for _ in range(3):
        client.create("/n-", flags=SEQUENTIAL)
    _, r = client.ask(GetChildren("/", op=OpCode.GET_CHILDREN))
    names = NamesReply.read(r).names
    assert names != sorted(names)


def test_every_write_takes_a_zxid(world: World, client: Client) -> None:
    start = world.core.processor.zxid
    client.create("/x")
    client.ask(create("/x"))
    client.ask_raw(OpCode.CREATE, b"")
    client.ask(Exists("/x"))
    client.feed(PING)
    client.answers()
    assert world.core.processor.zxid - start == 3


# --- sessions ----------------------------------------------------------------------------------


def test_silent_session_expires_with_its_ephemerals(world: World) -> None:
    a, b = world.client(timeout=1), world.client(timeout=10)
    a.create("/e", flags=EPHEMERAL)
    b.ask(Exists("/e", watch=True))
    world.pass_time(1.0)
    assert b.heard() == []
    world.pass_time(0.5)
    assert b.heard() == [(EventType.DELETED, "/e")]
    assert a.closing is Closing.NOW
    again = world.connect()
    response = again.greet(session=a.session)
    assert response is not None
    assert (response.timeout_ms, response.session_id) == (0, 0)
    assert again.closing is Closing.FLUSH


@pytest.mark.parametrize(
    "packet",
    [
        PING,
        encode_request(1, OpCode.EXISTS, Exists("/").encode()),
        encode_request(1, OpCode.DELETE, Delete("/none", -1).encode()),
        encode_request(1, OpCode.GET_DATA, b"broken"),
    ],
)
def test_every_request_keeps_the_session_alive(packet: bytes, world: World) -> None:
    client = world.client(timeout=1)
    for _ in range(10):
        world.pass_time(0.9)
        client.feed(packet)
    assert world.core.is_attached(client.session_id)


def test_credentials_do_not_keep_the_session_alive() -> None:
    # They are answered before the queue of requests, where real servers look at sessions.
    world = World()
    client = world.client(timeout=1)
    for _ in range(3):
        world.pass_time(0.9)
        client.feed(encode_request(-4, OpCode.AUTH, AuthPacket("digest", b"a:b").encode()))
    assert world.core.sessions.get(client.session_id) is None


def test_lost_connection_drops_watches_and_keeps_the_session(world: World, client: Client) -> None:
    client.create("/e", flags=EPHEMERAL)
    client.ask(GetData("/e", watch=True))
    world.core.lost(client.connection)
    assert len(world.core.processor.watches) == 0
    assert not world.core.is_attached(client.session_id)
    again = world.client(session=client.session)
    assert again.session_id == client.session_id
    assert again.ask(Exists("/e"))[0] == 0


def test_moved_session_outlives_its_old_connection(world: World) -> None:
    old = world.client()
    new = world.client(session=old.session)
    assert old.closing is Closing.NOW
    world.core.lost(old.connection)
    assert world.core.connection_of(new.session_id) is new.connection


@pytest.mark.parametrize("password", [bytes(16), b"", b"guessed"])
def test_wrong_password_does_not_disturb_the_session(password: bytes, world: World) -> None:
    """Ids count up from one another: any client could keep the others from being served."""
    owner = world.client()
    stranger = world.connect()
    answer = stranger.greet(session=(owner.session_id, password))
    assert answer is not None
    assert answer.session_id == 0
    assert stranger.closing is not Closing.NO
    assert owner.closing is Closing.NO
    assert world.core.connection_of(owner.session_id) is owner.connection
    assert owner.ask(Exists("/"))[0] == 0


def test_restart_renews_all_sessions(world: World) -> None:
    client = world.client(timeout=2)
    world.core.lost(client.connection)
    world.now += 100
    world.core.restarted(world.now)
    world.pass_time(2.0)
    assert world.client(session=client.session).session_id == client.session_id


def test_old_clients_get_no_read_only_flag(world: World) -> None:
    client = world.connect()
    client.feed(struct.pack(">i", len(HELLO) - 5) + HELLO[4:-1])
    (old,) = client.read()
    client = world.connect()
    client.feed(HELLO)
    (new,) = client.read()
    assert (len(old), len(new)) == (36, 37)


# --- containers and times to live --------------------------------------------------------------


def test_container_is_reaped_after_its_last_child() -> None:
    world = World(container_interval_ms=1000)
    client = world.client(timeout=10)
    client.create("/c", flags=CONTAINER, op=OpCode.CREATE_CONTAINER)
    client.ask(Exists("/c", watch=True))
    world.pass_time(5)
    client.create("/c/x")
    world.pass_time(2)
    assert client.heard() == []
    client.ask(Delete("/c/x", -1))
    world.pass_time(2)
    assert client.heard() == [(EventType.DELETED, "/c")]
    assert list(world.core.processor.tree.paths()) == []


def test_ttl_counts_from_the_last_change() -> None:
    world = World(container_interval_ms=100)
    client = world.client(timeout=10)
    client.create("/t", flags=TTL, op=OpCode.CREATE_TTL, ttl=1000)
    client.create("/p", flags=TTL, op=OpCode.CREATE_TTL, ttl=1000)
    client.create("/p/child")
    world.pass_time(0.9)
    client.ask(SetData("/t", b"", -1))
    world.pass_time(0.9)
    assert set(world.core.processor.tree.paths()) == {"/t", "/p", "/p/child"}
    world.pass_time(0.3)
    assert set(world.core.processor.tree.paths()) == {"/p", "/p/child"}


def test_idle_server_has_no_deadline(world: World) -> None:
    assert world.core.next_deadline(world.now) is None
    client = world.client()
    assert world.core.next_deadline(world.now) is not None
    client.ask(CloseSession())
    assert world.core.next_deadline(world.now) is None


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
@pytest.mark.parametrize("established", [False, True])
def test_invalid_frame_length_ends_the_connection(length: int, established: bool) -> None:
    world = World(max_frame=1000)
    client = world.client() if established else world.connect()
    client.feed(struct.pack(">i", length))
    assert client.closing is Closing.NOW
    assert client.connection not in world.core.connections
    assert client.connection.reader.buffered <= 4
    world.client()


def test_limit_of_connections() -> None:
    world = World(max_connections=2)
    a = world.connect()
    world.connect()
    assert world.core.connect("127.0.0.1") is None
    world.core.lost(a.connection)
    world.connect()


def test_unread_answers_are_bounded(world: World, client: Client) -> None:
    client.create("/big", bytes(300_000))
    requests = [encode_request(n, 4, GetData("/big").encode()) for n in range(1, 101)]
    is_done = client.feed(b"".join(requests))
    assert not is_done
    answered = 0
    while True:
        assert client.connection.unsent_bytes <= HIGH_WATER + 400_000
        answered += len(client.read())
        if is_done:
            break
        is_done = world.core.resume(client.connection, world.now)
    assert answered == 100


def test_unread_events_end_the_connection() -> None:
    world = World(max_frame=1_000_000)
    deaf, writer = world.client(), world.client()
    name = "/" + "x" * 300_000
    writer.create(name)
    for number in range(2 * MAX_UNSENT // len(name)):
        world.core.processor.watches.add_data(name, deaf.connection)
        writer.ask(SetData(name, b"%d" % number, -1))
        assert deaf.connection.unsent_bytes <= MAX_UNSENT + len(name) + 100
    assert deaf.closing is Closing.NOW
    assert deaf.connection.unsent_bytes == 0


def test_size_of_a_multi_read_is_bounded(client: Client) -> None:
    client.create("/big", bytes(900_000))
    read = struct.pack(">i?ii4s?", 4, False, -1, 4, b"/big", False)
    end = struct.pack(">i?i", -1, True, -1)
    assert client.ask_raw(OpCode.MULTI_READ, read * 10 + end)[0] == 0
    assert client.ask_raw(OpCode.MULTI_READ, read * 10_000 + end)[0] == -5


def test_number_of_identities_is_bounded(client: Client) -> None:
    for number in range(MAX_IDENTITIES + 1):
        auth = AuthPacket("digest", b"user:%d" % number)
        client.feed(encode_request(-4, OpCode.AUTH, auth.encode()))
        last = client.answers()[-1][0]
        # The same again adds nothing.
        client.feed(encode_request(-4, OpCode.AUTH, auth.encode()))
        if client.closing is not Closing.NO:
            break
    assert last.err == -115
    assert len(client.connection.identities) == MAX_IDENTITIES


def test_reconfig_without_an_ensemble_is_refused(client: Client) -> None:
    """As an ensemble with `reconfigEnabled=false` answers."""
    request = Reconfig("server.9=localhost:2888:3888;2181", None, None, -1)
    assert client.ask(request)[0] == ReconfigDisabledError.code


# --- faults ------------------------------------------------------------------------------------


def test_dropped_reply_of_an_applied_request(world: World, client: Client) -> None:
    world.core.dropped_replies[OpCode.CREATE2] += 1
    before = encode_request(1, OpCode.EXISTS, Exists("/").encode())
    after = encode_request(3, OpCode.CREATE2, create("/y").encode())
    client.feed(before + encode_request(2, OpCode.CREATE2, create("/x").encode()) + after)
    assert [header.xid for header, _ in client.answers()] == [1]
    assert client.closing is Closing.FLUSH
    assert list(world.core.processor.tree.paths()) == ["/x"]
    assert world.client().create("/z") == "/z"


def test_dropped_request_is_not_applied(world: World) -> None:
    world.core.dropped_requests[OpCode.CREATE2] += 2
    for _ in range(2):
        client = world.client()
        client.feed(encode_request(1, OpCode.CREATE2, create("/x").encode()))
        assert client.closing is Closing.FLUSH
    assert list(world.core.processor.tree.paths()) == []
    assert world.client().create("/x") == "/x"


def test_dropped_handshake_leaves_an_unknown_session(world: World) -> None:
    world.core.dropped_replies[OpCode.CREATE_SESSION] += 1
    assert world.connect().greet() is None
    assert len(world.core.sessions) == 1
    world.core.dropped_requests[OpCode.CREATE_SESSION] += 1
    assert world.connect().greet() is None
    assert len(world.core.sessions) == 1


def test_set_sequence_of_a_missing_znode() -> None:
    with pytest.raises(NoNodeError):
        World().core.set_sequence("/none", 1)


def test_watch_events_carry_the_zxid_from_3_9_on() -> None:
    for version, event_zxids in (((3, 8, 4), False), ((3, 9, 0), True)):
        world = World(version=version)
        client = world.client()
        client.ask(Exists("/x", watch=True))
        client.feed(encode_request(9, OpCode.CREATE2, create("/x").encode()))
        event, reply = client.read()
        zxids = [struct.unpack_from(">q", frame, 4)[0] for frame in (event, reply)]
        assert zxids[0] == (zxids[1] if event_zxids else -1)


# --- times and words ---------------------------------------------------------------------------


def test_times_are_milliseconds_since_1970() -> None:
    world = World(epoch=1_700_000_000.0)
    client = world.client()
    client.create("/x")
    world.now += 1.5
    client.ask(SetData("/x", b"", -1))
    _, r = client.ask(Exists("/x"))
    stat = StatReply.read(r).stat
    assert (stat.ctime, stat.mtime) == (1_700_001_000_000, 1_700_001_001_500)


def words(world: World, word: str) -> str:
    client = world.connect()
    client.feed(word.encode())
    assert client.closing is Closing.FLUSH
    return client.connection.take().decode()


def test_four_letter_words(world: World, client: Client) -> None:
    client.create("/e", b"data", EPHEMERAL)
    client.ask(GetData("/e", watch=True))
    assert words(world, "ruok") == "imok"
    assert words(world, "isro") == "rw"
    assert "zookeeper.version=3.8.0" in words(world, "envi")
    assert "tickTime=500\n" in words(world, "conf")
    assert words(world, "srvr").startswith("Zookeeper version: 3.8.0")
    assert "Mode: standalone\nNode count: 6\n" in words(world, "srvr")
    assert f",sid={client.session_id:#x},lop=GET_DATA,to=5000)" in words(world, "cons")
    assert words(world, "wchs") == "1 connections watching 1 paths\nTotal watches:1\n"
    assert "Clients:\n /127.0.0.1" in words(world, "stat")
    values = dict(line.split("\t") for line in words(world, "mntr").splitlines())
    assert values["zk_server_state"] == "standalone"
    assert values["zk_ephemerals_count"] == "1"
    assert values["zk_watch_count"] == "1"


def test_word_after_the_handshake_is_refused(client: Client) -> None:
    client.feed(b"ruok")
    assert client.closing is Closing.NOW


def test_word_in_pieces_is_answered() -> None:
    client: Client = World().connect()
    for letter in b"ruok":
        client.feed(bytes([letter]))
    assert client.connection.take() == b"imok"


def test_data_are_kept(client: Client) -> None:
    client.create("/x", b"\0\xff")
    _, r = client.ask(GetData("/x"))
    assert DataReply.read(r).data == b"\0\xff"
