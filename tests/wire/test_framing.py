"""Frames: any split of the stream gives the same ones, and no length buffers too much."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiolead._wire.jute import DEFAULT_MAX_FRAME, FrameReader, frame
from aiolead.errors import RemoteWireError

PAYLOADS = st.lists(st.binary(max_size=40), max_size=8)


def length(size: int) -> bytes:
    return struct.pack(">i", size)


def test_frame_is_its_length_and_its_payload() -> None:
    assert frame(b"") == b"\x00\x00\x00\x00"
    assert frame(b"abc") == b"\x00\x00\x00\x03abc"
    assert frame(bytearray(300))[:4] == b"\x00\x00\x01\x2c"


def test_default_limit_is_that_of_a_server() -> None:
    assert DEFAULT_MAX_FRAME == 1024 * 1024 - 1


@given(PAYLOADS, st.data())
@settings(max_examples=200, deadline=None)
def test_any_chunking_gives_the_same_frames(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, payloads))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    chunks = [stream[a:b] for a, b in pairwise(sorted([0, *cuts, len(stream)]))]
    reader = FrameReader(40)
    assert [payload for chunk in chunks for payload in reader.feed(chunk)] == payloads
    assert reader.buffered == 0


@pytest.mark.parametrize("size", range(1, 12))
def test_chunks_of_one_size_give_the_same_frames(size: int) -> None:
    payloads = [b"", b"a", b"", b"bcd" * 5, bytes(40), b"e"]
    stream = b"".join(map(frame, payloads))
    reader, found = FrameReader(40), []
    for start in range(0, len(stream), size):
        found += list(reader.feed(stream[start : start + size]))
    assert found == payloads
    assert reader.buffered == 0


@given(PAYLOADS, st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_incomplete_frame_is_kept_and_counted(payloads: list[bytes], cut: int) -> None:
    stream = b"".join(map(frame, payloads))
    cut = min(cut, len(stream))
    reader = FrameReader(40)
    found = list(reader.feed(stream[:cut]))
    assert found == payloads[: len(found)]
    assert reader.buffered == cut - sum(4 + len(payload) for payload in found)
    assert found + list(reader.feed(stream[cut:])) == payloads


def test_frames_are_bytes_however_they_arrived() -> None:
    reader = FrameReader(9)
    found = [*reader.feed(frame(b"a") + b"\x00"), *reader.feed(frame(b"bc")[1:])]
    assert found == [b"a", b"bc"]
    assert {type(payload) for payload in found} == {bytes}


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(1, 6), st.integers(0, 80))
@example([b"a", b"b", b"c"], 1, 7)
@settings(max_examples=100, deadline=None)
def test_consumer_that_stops_early_gets_the_rest_later(
    payloads: list[bytes], taken: int, cut: int
) -> None:
    stream = b"".join(map(frame, payloads))
    first = stream[:cut]
    reader, found = FrameReader(9), []
    for payload in reader.feed(first):
        found.append(payload)
        if len(found) == taken:
            break
    assert reader.buffered == len(first) - sum(4 + len(payload) for payload in found)
    found += reader.feed(b"")
    found += reader.feed(stream[cut:])
    assert found == payloads


def test_consumer_that_raises_gets_no_frame_twice() -> None:
    reader, found = FrameReader(9), []

    def consume(data: bytes) -> None:
        for payload in reader.feed(data):
            found.append(payload)
            if payload == b"b":
                raise KeyError

    with pytest.raises(KeyError):
        consume(b"".join(map(frame, [b"a", b"b", b"c"])) + b"\x00\x00")
    assert reader.buffered == 5 + 2
    consume(b"\x00\x01d")
    assert found == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("limit", [0, 1, 5, DEFAULT_MAX_FRAME])
def test_frame_above_the_limit_is_refused(limit: int) -> None:
    assert list(FrameReader(limit).feed(frame(bytes(limit)))) == [bytes(limit)]
    with pytest.raises(RemoteWireError, match=f"a frame of {limit + 1} bytes, where 0 to {limit}"):
        list(FrameReader(limit).feed(frame(bytes(limit + 1))))


@pytest.mark.parametrize("size", [-1, -2, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("split", range(4))
def test_impossible_length_is_refused_before_anything_is_buffered(size: int, split: int) -> None:
    """It is refused with its last byte, before the first byte of the frame."""
    reader = FrameReader(100)
    assert list(reader.feed(length(size)[:split])) == []
    with pytest.raises(RemoteWireError, match=f"a frame of {size} bytes"):
        list(reader.feed(length(size)[split:]))
    assert reader.buffered == 4


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nServer: x",
            "an answer of an HTTP server, beginning with 'HTTP/1.1 400 Bad Request'",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "greeting of an SSH server, beginning with 'SSH-2.0-OpenSSH"),
        (b"-ERR unknown command", "a text, beginning with '-ERR unknown command'"),
        (b"220 " + b"x" * 100, "'220 " + "x" * 36 + "...'"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it is TLS: a port for TLS, spoken to in plain text?"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it is TLS"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "it is TLS"),
    ],
)
def test_stream_of_another_protocol_is_named_in_the_error(begin: bytes, said: str) -> None:
    for cut in range(len(begin)):
        reader = FrameReader(64 * 2**20)
        with pytest.raises(RemoteWireError, match="not ZooKeeper's protocol") as caught:
            [*reader.feed(begin[:cut]), *reader.feed(begin[cut:])]
        assert cut > 3 or said in str(caught.value)
    # After a frame, the stream has the right protocol.
    with pytest.raises(RemoteWireError, match=r"a frame of \d+ bytes"):
        list(FrameReader(64 * 2**20).feed(frame(b"a") + begin))


def test_frames_before_an_impossible_length_are_delivered() -> None:
    frames = FrameReader(100).feed(frame(b"a") + frame(b"b") + length(-1) + frame(b"c"))
    assert [next(frames), next(frames)] == [b"a", b"b"]
    with pytest.raises(RemoteWireError, match="-1"):
        next(frames)


def test_error_of_a_stream_is_permanent() -> None:
    reader = FrameReader(100)
    for data in (length(-1), frame(b"a"), b""):
        with pytest.raises(RemoteWireError, match="-1"):
            list(reader.feed(data))


def test_long_frame_in_small_pieces_is_not_copied_for_each_piece() -> None:
    """Copying it each time would take the square of its length, in time, on the event loop."""
    size, pieces = 1_000_000, 200
    reader = FrameReader(size)
    assert list(reader.feed(length(size) + bytes(size - pieces))) == []
    copies = 0
    tracemalloc.start()
    try:
        for _ in range(pieces - 1):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            assert list(reader.feed(b"x")) == []
            copies += tracemalloc.get_traced_memory()[1] - before > size // 2
    finally:
        tracemalloc.stop()
    assert copies <= 2  # the buffer may have to move when it grows
    assert [len(payload) for payload in reader.feed(b"x")] == [size]
