"""Long answers are decoded in steps, and later answers wait for their turn."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from session.script import STAT, Packet, Script, connected

from aiolead._session import machine as machines
from aiolead._session.requests import Call
from aiolead._wire import long_frames
from aiolead._wire.codes import OpCode
from aiolead._wire.jute import Reader, encode_reply, frame, int_bytes, text_bytes
from aiolead._wire.long_frames import LongReader
from aiolead._wire.replies import DataReply, NamesReply, ReplyHeader
from aiolead.errors import AnswerTooLargeError, RemoteWireError, UnreadableTextError
from aiolead.model import SessionState

NAMES = [f"n-{number:010d}" for number in range(100)]
DATA = DataReply(b"data", STAT)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """With small pieces: an answer of 1.6 kB takes ten steps."""
    monkeypatch.setattr(machines, "LONG", 1000)
    monkeypatch.setattr(long_frames, "PIECE", 100)
    monkeypatch.setattr(long_frames, "STEP", 320)
    return connected()


def listing(script: Script, path: str = "/a") -> Call[list[str]]:
    call: Call[list[str]] = Call(OpCode.GET_CHILDREN, b"", Reader.texts, path=path)
    call.steps = LongReader.texts_in_steps
    return script.submit(call)


def begun(script: Script) -> tuple[Call[list[str]], Packet]:
    """A listing, of whose long answer every byte has arrived and no step was taken."""
    call = listing(script)
    packet = script.sent()[-1]
    receive(script, answer_to(packet, NAMES))
    return call, packet


def answer_to(packet: Packet, names: list[str]) -> bytes:
    return encode_reply(ReplyHeader(packet.xid, 9, 0), NamesReply(names))


def receive(script: Script, data: bytes, size: int = 64) -> None:
    """Receives data in small pieces, without the steps that follow."""
    for pos in range(0, len(data), size):
        assert script.machine.decoding is None
        script.machine.receive(data[pos : pos + size], script.now)


def step(script: Script) -> None:
    script.machine.receive(b"", script.now)


def steps(script: Script) -> int:
    """Takes all steps that are left, and returns how many there were."""
    count = 0
    while script.machine.decoding is not None:
        step(script)
        count += 1
    return count


def test_long_answer_takes_many_steps(script: Script) -> None:
    call, _ = begun(script)
    assert not call.is_done
    assert steps(script) >= 10
    assert call.result() == NAMES
    assert script.machine.last_zxid == 9


def test_short_answer_takes_no_steps(script: Script) -> None:
    call = listing(script)
    (one,) = script.sent()
    receive(script, answer_to(one, NAMES[:50]), 10_000)
    assert call.result() == NAMES[:50]


def test_later_answers_wait_and_requests_leave_meanwhile(script: Script) -> None:
    call, read = listing(script), script.get("/b")
    one, other = script.sent()
    behind = encode_reply(ReplyHeader(other.xid, 10, 0), DATA)
    receive(script, answer_to(one, NAMES) + behind, 900)
    step(script)
    assert not call.is_done
    assert not read.is_done
    later = script.get("/c")
    (third,) = script.sent()
    assert steps(script) > 5
    assert call.result() == NAMES
    assert read.result() == b"data"
    script.answer(third)
    assert later.result() == b"data"


def test_bytes_that_arrive_meanwhile_keep_their_order(script: Script) -> None:
    order: list[str] = []
    first, read, second = listing(script, "/a"), script.get("/b"), listing(script, "/c")
    for call, name in ((first, "first"), (read, "read"), (second, "second")):
        call.add_done_callback(lambda name=name: order.append(name))
    one, two, three = script.sent()
    behind, more = encode_reply(ReplyHeader(two.xid, 10, 0), DATA), answer_to(three, NAMES)
    data = answer_to(one, NAMES) + behind + more[:700]
    script.machine.receive(data[:900], script.now)
    script.machine.receive(data[900:], script.now)
    assert order == []
    script.machine.receive(more[700:], script.now)
    assert order == ["first", "read"]
    assert steps(script) > 5
    assert order == ["first", "read", "second"]
    assert second.result() == NAMES


def test_lost_connection_ends_the_decoding_and_repeats_the_read(script: Script) -> None:
    call, _ = begun(script)
    step(script)
    script.disconnect()
    assert script.machine.decoding is None
    assert not call.is_done
    script.connect()
    (again,) = script.sent()
    receive(script, answer_to(again, NAMES[:3]))
    assert call.result() == NAMES[:3]


def long_answer_ending_in(script: Script, end: bytes) -> tuple[Call[list[str]], Call[Any], Packet]:
    """A listing with a long answer, and a read behind it."""
    call, read = listing(script), script.get("/b")
    one, other = script.sent()
    texts = b"".join(map(text_bytes, NAMES)) + end
    receive(script, frame(ReplyHeader(one.xid, 9, 0).encode() + int_bytes(101) + texts))
    return call, read, other


def test_malformed_end_of_a_long_answer_loses_the_connection(script: Script) -> None:
    call, read, _ = long_answer_ending_in(script, int_bytes(-7))
    with pytest.raises(RemoteWireError):
        steps(script)
    assert isinstance(call.error(), RemoteWireError)
    assert not read.is_done
    assert script.machine.last_zxid == 0


def test_unreadable_name_fails_only_its_request(script: Script) -> None:
    call, read, other = long_answer_ending_in(script, int_bytes(1) + b"\xff")
    steps(script)
    assert isinstance(call.error(), UnreadableTextError)
    script.answer(other)
    assert read.result() == b"data"
    assert script.machine.state is SessionState.CONNECTED


def test_too_many_names_fail_only_their_request() -> None:
    script = connected(max_reply=3200)
    for count in (101, 100):
        call = listing(script)
        (one,) = script.sent()
        script.feed(answer_to(one, ["a"] * count))
        if count == 100:
            assert call.result() == ["a"] * 100
        else:
            assert isinstance(call.error(), AnswerTooLargeError)


def test_hold_ends_by_the_clock_during_the_decoding(script: Script) -> None:
    holder = script.hold()
    script.serve()
    call, _ = begun(script)
    script.now += 100
    step(script)
    assert holder.reasons
    assert not call.is_done


def test_server_is_alive_during_the_decoding_of_its_answer(script: Script) -> None:
    call, _ = begun(script)
    # A slow machine: each step takes a second, and the session times out after eight.
    while script.machine.decoding is not None:
        script.advance(1.0, serve=lambda: None)
        step(script)
    assert script.cuts == []
    assert call.result() == NAMES


# --- memory ------------------------------------------------------------------------------------


def peak_while_read(size: int, limit: int, content: bytes | list[str]) -> tuple[Call[Any], int]:
    """The request of an answer, and the most memory in bytes while the answer arrived."""
    script = connected(max_reply=limit)
    if isinstance(content, bytes):
        call: Call[Any] = script.get("/a")
        call.steps = LongReader.blob_and_stat_in_steps
    else:
        call = listing(script)
    (one,) = script.sent()
    body = DataReply(content, STAT) if isinstance(content, bytes) else NamesReply(content)
    data = encode_reply(ReplyHeader(one.xid, 9, 0), body)
    assert size <= len(data) <= limit
    del content, body
    tracemalloc.start()
    try:
        for pos in range(0, len(data), 1 << 16):
            script.machine.receive(data[pos : pos + (1 << 16)], script.now)
        steps(script)
        return call, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SIZE = 4 << 20
LIMIT = SIZE + 1024
COUNT = SIZE // 32

PLAIN = "n" * 28
OTHERS = {"accent": "n" * 26 + "é", "wide": "n" * 25 + "€", "refused": "n" * 27 + "\x01"}
"""Names of 28 bytes, which take more memory than plain ones."""


def test_memory_for_data_is_below_three_times_the_answer() -> None:
    call, peak = peak_while_read(SIZE, LIMIT, bytes(SIZE))
    assert call.error() is None
    assert peak < 3 * SIZE


@pytest.mark.parametrize(
    ("size", "names"),
    [
        pytest.param(SIZE, [PLAIN], id="plain"),
        *[pytest.param(SIZE, [other] + [PLAIN] * 99, id=kind) for kind, other in OTHERS.items()],
        pytest.param(SIZE // 2, [OTHERS["accent"]], id="only accents, half of the limit"),
    ],
)
def test_memory_for_names_is_below_three_times_the_answer(size: int, names: list[str]) -> None:
    content = names * -(-size // 32 // len(names))
    call, peak = peak_while_read(size, LIMIT, content)
    assert call.result() == content
    assert peak < 3 * SIZE


@pytest.mark.parametrize("kind", OTHERS)
def test_names_that_would_take_more_memory_are_refused(kind: str) -> None:
    call, peak = peak_while_read(SIZE, LIMIT, [OTHERS[kind]] * COUNT)
    assert isinstance(call.error(), AnswerTooLargeError)
    assert peak < 3 * SIZE


@pytest.mark.parametrize("count", [50, 51])
def test_number_of_names_that_are_marked_is_bounded(
    script: Script, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Each of them is an object for the garbage collector."""
    monkeypatch.setattr(long_frames, "MOST_MARKED", 50)
    call, read = listing(script), script.get("/b")
    one, other = script.sent()
    names = [*NAMES, *["\x01"] * count]
    receive(script, answer_to(one, names))
    taken = steps(script)
    if count == 50:
        assert call.result() == names
    else:
        assert isinstance(call.error(), AnswerTooLargeError)
        assert taken > 2 * len(NAMES) // 10, "they are freed in steps as they are read in steps"
    script.answer(other)
    assert read.result() == b"data"
