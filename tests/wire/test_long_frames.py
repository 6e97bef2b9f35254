"""Long frames: kept in pieces, and decoded piece by piece to what the plain reader gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._wire import long_frames, replies
from aiolead._wire.codes import OpCode
from aiolead._wire.jute import FrameReader, Reader, Writer, frame, int_bytes
from aiolead._wire.long_frames import LongFrame, LongReader, Steps
from aiolead.errors import AnswerTooLargeError, RemoteWireError
from aiolead.model import Stat
from aiolead.paths import ListedPath

STAT = Stat(*range(1, 12))
CUTS = st.lists(st.integers(1, 40), max_size=20)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        if len(data) <= size:
            break
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def in_pieces(data: bytes, sizes: list[int]) -> LongFrame:
    found = LongFrame(b"")
    found.pieces = deque(cut(data, sizes))
    found.size = len(data)
    return found


def run(steps: Steps[Any]) -> tuple[Any, int]:
    """The value, and in how many steps it came."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


# --- the frames ----------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=60), max_size=6), CUTS)
def test_frames_are_whole_however_they_arrive(said: list[bytes], sizes: list[int]) -> None:
    reader = FrameReader(100, long=20)
    found: list[bytes | LongFrame] = []
    sent = 0
    for data in cut(b"".join(map(frame, said)), sizes):
        found += reader.frames(data)
        sent += len(data)
        whole = sum(4 + (each.size if isinstance(each, LongFrame) else len(each)) for each in found)
        assert reader.buffered == sent - whole
    assert [each.joined() if isinstance(each, LongFrame) else each for each in found] == said


def test_long_frame_keeps_pieces_and_its_first_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_frames, "PIECE", 10)
    payload = bytes(range(50))
    reader = FrameReader(100, long=20)
    data = frame(payload) + frame(b"next")
    found: list[bytes | LongFrame] = []
    for pos in range(0, len(data), 4):
        if pos == 40:
            assert reader.begun == payload[:4]
        found += reader.frames(data[pos : pos + 4])
    long, short = found
    assert isinstance(long, LongFrame)
    assert all(len(piece) >= 10 for piece in list(long.pieces)[:-1])
    assert (long.joined(), short) == (payload, b"next")


def test_length_alone_allocates_nothing() -> None:
    reader = FrameReader(1 << 30, long=20)
    assert not list(reader.frames(int_bytes(1 << 30) + b"begin"))
    assert reader.buffered == 9
    with pytest.raises(RemoteWireError, match="a frame of"):
        list(FrameReader(100, long=20).frames(int_bytes(101)))


# --- decoding ------------------------------------------------------------------------------------

NAMES = st.lists(st.sampled_from(["a", "", "n-0000000001", "é€", "\x01", "u\U0001f600", "x" * 50]))


def body(write: Callable[[Writer], object]) -> bytes:
    w = Writer()
    write(w)
    return bytes(w.buffer)


@given(NAMES, CUTS)
def test_names_are_those_of_the_plain_reader(names: list[str], sizes: list[int]) -> None:
    data = body(lambda w: (w.texts(names), w.stat(STAT)))
    reader = LongReader(in_pieces(data, sizes), 0, 1000)
    (found, stat), _ = run(reader.texts_and_stat_in_steps())
    assert (found, stat) == (names, STAT)
    assert [isinstance(name, ListedPath) for name in found] == [
        name in ("\x01", "u\U0001f600") for name in found
    ]


@given(st.binary(max_size=300), CUTS)
def test_data_are_those_of_the_plain_reader(content: bytes, sizes: list[int]) -> None:
    data = body(lambda w: (w.blob(content), w.stat(STAT)))
    found, _ = run(LongReader(in_pieces(data, sizes), 0, 1000).blob_and_stat_in_steps())
    assert found == (content, STAT) == Reader(data).blob_and_stat()


RESULTS = st.lists(
    st.one_of(
        st.builds(replies.DataReply, st.binary(max_size=40), st.just(STAT)),
        st.builds(replies.NamesReply, NAMES),
        st.builds(replies.ErrorResult, st.integers(-200, 0)),
    ),
    max_size=6,
)


@given(RESULTS, CUTS)
def test_several_reads_are_those_of_the_plain_reader(results: list[Any], sizes: list[int]) -> None:
    data = body(replies.MultiReadReply(results).write)
    found, _ = run(LongReader(in_pieces(data, sizes), 0, 1000).reads_in_steps(len(results)))
    assert found == list(replies.MultiReadReply.read(Reader(data)).results) == results


@given(st.binary(max_size=200), CUTS)
def test_random_bytes_have_the_outcome_of_the_plain_reader(data: bytes, sizes: list[int]) -> None:
    def outcome(read: Callable[[], Any]) -> object:
        try:
            return read()
        except RemoteWireError as error:
            return type(error)

    def long() -> LongReader:
        return LongReader(in_pieces(data, sizes), 0, 1000)

    plain = outcome(Reader(data, most_elements=1000).texts)
    assert outcome(lambda: run(long().texts_in_steps())[0]) == plain
    assert outcome(lambda: run(long().blob_and_stat_in_steps())[0]) == outcome(
        Reader(data).blob_and_stat
    )
    found = outcome(lambda: run(long().reads_in_steps(50))[0])
    several = outcome(lambda: list(replies.MultiReadReply.read(Reader(data), 50).results))
    assert found == several


def test_piece_is_freed_as_it_is_decoded() -> None:
    data = body(lambda w: w.texts(["x" * 28] * 100))
    pieces = in_pieces(data, [320] * 9)
    steps = LongReader(pieces, 0, 1000).texts_in_steps()
    left = [9, *(len(pieces.pieces) for _ in steps)]
    assert left[-1] == 0
    assert all(before - after <= 1 for before, after in pairwise(left))


def test_step_decodes_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_frames, "STEP", 320)
    data = body(lambda w: w.texts(["x"] * 100))
    found, count = run(LongReader(in_pieces(data, []), 0, 1000).texts_in_steps())
    assert (len(found), count) == (100, 11)
    data = body(lambda w: (w.blob(bytes(3200)), w.stat(STAT)))
    assert run(LongReader(in_pieces(data, []), 0, 1000).blob_and_stat_in_steps())[1] == 10


def test_too_many_names_are_refused_immediately() -> None:
    data = body(lambda w: w.texts(["x"] * 100))
    with pytest.raises(AnswerTooLargeError, match="a list of 100 elements, where 99"):
        run(LongReader(in_pieces(data, [5]), 0, 99).texts_in_steps())


def test_lists_of_one_answer_share_a_limit() -> None:
    data = body(
        replies.MultiReadReply(
            [replies.NamesReply(["x"] * 50), replies.NamesReply(["x"] * 51)]
        ).write
    )
    run(LongReader(in_pieces(data, []), 0, 101).reads_in_steps(2))
    with pytest.raises(AnswerTooLargeError, match="a list of 51 elements, where 50"):
        run(LongReader(in_pieces(data, []), 0, 100).reads_in_steps(2))


def test_refused_names_are_freed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_frames, "STEP", 320)
    monkeypatch.setattr(long_frames, "MOST_MARKED", 50)
    data = body(lambda w: w.texts(["\x01"] * 100))
    pieces = in_pieces(data, [5] * 50)
    with pytest.raises(AnswerTooLargeError, match="more than 50 names that ZooKeeper would refuse"):
        run(LongReader(pieces, 0, 1000).texts_in_steps())
    assert not pieces.pieces


def test_more_results_than_reads_are_not_read() -> None:
    results = [replies.ErrorResult(-101)] * 100
    data = body(replies.MultiReadReply(results).write)
    found, _ = run(LongReader(in_pieces(data, []), 0, 99).reads_in_steps(3))
    assert len(found) == 4
    assert OpCode.ERROR == -1
