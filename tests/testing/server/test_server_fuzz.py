"""Any input of a client: nothing raises, nothing hangs, and other clients are served."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from testing.wire_core import Client, World, create

from aiolead._wire.codes import OpCode
from aiolead._wire.handshake import ConnectRequest
from aiolead._wire.jute import PING, encode_record, encode_request, frame
from aiolead._wire.requests import (
    AuthPacket,
    Check,
    CloseSession,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    SetWatches,
)
from aiolead.testing._server.connection import Closing

HELLO = encode_record(ConnectRequest(0, 5000, 0, bytes(16)))
REQUESTS = (
    create("/a", b"data"),
    GetData("/a", watch=True),
    GetChildren("/", watch=True),
    Exists("/b", watch=True),
    Multi((SetData("/a", b"x", -1), create("/a/n-", flags=3), Check("/a", 1))),
    SetWatches(0, ("/a",), ("/b",), ("/",)),
    AuthPacket("digest", b"a:b"),
    CloseSession(),
)
STREAM = HELLO + PING + b"".join(
    encode_request(xid, request.op, request.encode()) for xid, request in enumerate(REQUESTS)
)  # fmt: skip


def pour(client: Client, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        if client.closing is not Closing.NO:
            return
        while not client.feed(data[start : start + size]):
            client.connection.take()
        client.connection.take()


def assert_serves(world: World) -> None:
    client = world.client()
    assert client.create("/fine-", flags=3).startswith("/fine-")
    assert client.ask(Exists("/"))[0] == 0
    world.pass_time(60)
    assert len(world.core.sessions) == 0
    assert world.core.processor.tree.ephemeral_count == 0


@given(st.integers(0, len(STREAM)), st.integers(1, 100))
def test_stream_truncated_anywhere(cut: int, size: int) -> None:
    world = World()
    client = world.connect()
    pour(client, STREAM[:cut], size)
    world.core.lost(client.connection)
    assert world.core.connections == {}
    assert len(world.core.processor.watches) == 0
    assert_serves(world)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_noise(data: bytes, size: int) -> None:
    world = World()
    pour(world.connect(), data, size)
    pour(world.client(), data, size)
    assert_serves(world)


@given(st.lists(st.tuples(st.sampled_from(list(OpCode)), st.binary(max_size=60)), max_size=8))
def test_random_bodies(requests: list[tuple[OpCode, bytes]]) -> None:
    world = World()
    data = b"".join(encode_request(xid, op, body) for xid, (op, body) in enumerate(requests))
    pour(world.client(), data, 1000)
    assert_serves(world)


@given(st.data())
def test_stream_with_changed_bytes(data: st.DataObject) -> None:
    stream = bytearray(STREAM)
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(stream) - 1))
        stream[position] = data.draw(st.integers(0, 255))
    world = World()
    pour(world.connect(), bytes(stream), data.draw(st.integers(1, 500)))
    assert_serves(world)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=4),
            st.sampled_from([b"/a", b"/", b"", b"/a/b", b"digest", b"a:b"]).map(
                lambda text: struct.pack(">i", len(text)) + text
            ),
            st.integers(-2, 40).map(lambda number: struct.pack(">i", number)),
            st.booleans().map(lambda value: struct.pack("?", value)),
        ),
        max_size=12,
    ),
    st.sampled_from(list(OpCode)),
)
def test_bodies_that_are_nearly_valid(parts: list[bytes], op: OpCode) -> None:
    world = World()
    client = world.client()
    client.create("/a")
    client.feed(frame(struct.pack(">ii", 1, op) + b"".join(parts)))
    assert_serves(world)
