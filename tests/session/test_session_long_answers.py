"""Long answers are decoded in steps, and everything behind them waits in its order."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from session.script import STAT, Holder, Packet, Script, get

from aiolead._session import machine as machines
from aiolead._session.requests.call import Call
from aiolead._wire import long_frames
from aiolead._wire.codes import OpCode
from aiolead._wire.framing import encode_reply, frame
from aiolead._wire.jute import Reader, int_bytes, text_bytes
from aiolead._wire.long_frames import LongReader
from aiolead._wire.replies import DataReply, NamesReply, ReplyHeader
from aiolead.errors import AnswerTooLargeError, RemoteWireError, UnreadableTextError
from aiolead.model import SessionState

NAMES = [f"n-{number:010d}" for number in range(100)]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """With small pieces: an answer of 1.6 kB takes ten steps."""
    monkeypatch.setattr(machines, "LONG", 1000)
    monkeypatch.setattr(long_frames, "PIECE", 100)
    monkeypatch.setattr(long_frames, "STEP", 320)
    script = Script()
    script.connect()
    return script


def listing(script: Script, path: str = "/a") -> Call[list[str]]:
    call: Call[list[str]] = Call(OpCode.GET_CHILDREN, b"", Reader.texts, path=path)
    call.steps = LongReader.texts_in_steps
    script.submit(call)
    return call


def answer_to(packet: Packet, names: list[str]) -> bytes:
    return encode_reply(ReplyHeader(packet.xid, 9, 0), NamesReply(names))


def receive(script: Script, data: bytes, size: int = 64) -> None:
    """As it arrives, in small pieces; without the steps that follow."""
    for pos in range(0, len(data), size):
        assert script.machine.decoding is None
        script.machine.receive(data[pos : pos + size], script.now)


def steps(script: Script) -> int:
    count = 0
    while script.machine.decoding is not None:
        script.machine.receive(b"", script.now)
        count += 1
    return count


def test_a_long_answer_takes_many_steps(script: Script) -> None:
    call = listing(script)
    (one,) = script.sent()
    receive(script, answer_to(one, NAMES))
    assert not call.is_done
    assert steps(script) >= 10
    assert call.result() == NAMES
    assert script.machine.last_zxid == 9


def test_a_short_answer_takes_none(script: Script) -> None:
    call = listing(script)
    (one,) = script.sent()
    receive(script, answer_to(one, NAMES[:50]), 10_000)
    assert call.result() == NAMES[:50]


def test_answers_behind_it_wait_and_requests_leave(script: Script) -> None:
    call, read = listing(script), get(script, "/b")
    one, other = script.sent()
    behind = encode_reply(ReplyHeader(other.xid, 10, 0), DataReply(b"data", STAT))
    receive(script, answer_to(one, NAMES) + behind, 900)
    script.machine.receive(b"", script.now)
    assert not call.is_done
    assert not read.is_done
    later = get(script, "/c")
    (third,) = script.sent()
    assert steps(script) > 5
    assert call.result() == NAMES
    assert read.result() == b"data"
    script.answer(third)
    assert later.result() == b"data"


def test_bytes_that_come_before_its_end_are_in_their_order(script: Script) -> None:
    order: list[str] = []
    first, read, second = listing(script, "/a"), get(script, "/b"), listing(script, "/c")
    for call, name in ((first, "first"), (read, "read"), (second, "second")):
        call.add_done_callback(lambda name=name: order.append(name))
    one, two, three = script.sent()
    behind = encode_reply(ReplyHeader(two.xid, 10, 0), DataReply(b"data", STAT))
    more = answer_to(three, NAMES)
    data = answer_to(one, NAMES) + behind + more[:700]
    script.machine.receive(data[:900], script.now)
    script.machine.receive(data[900:], script.now)
    assert order == []
    script.machine.receive(more[700:], script.now)
    assert order == ["first", "read"]
    assert steps(script) > 5
    assert order == ["first", "read", "second"]
    assert second.result() == NAMES


def test_a_lost_connection_ends_it_and_the_read_is_sent_again(script: Script) -> None:
    call = listing(script)
    (one,) = script.sent()
    receive(script, answer_to(one, NAMES))
    script.machine.receive(b"", script.now)
    script.lose_link()
    assert script.machine.decoding is None
    assert not call.is_done
    script.connect()
    (again,) = script.sent()
    receive(script, answer_to(again, NAMES[:3]))
    assert call.result() == NAMES[:3]


def test_nonsense_in_it_ends_the_connection(script: Script) -> None:
    call, read = listing(script), get(script, "/b")
    one, _ = script.sent()
    texts = b"".join(map(text_bytes, NAMES)) + int_bytes(-7)
    receive(script, frame(ReplyHeader(one.xid, 9, 0).encode() + int_bytes(101) + texts))
    with pytest.raises(RemoteWireError):
        steps(script)
    assert isinstance(call.error(), RemoteWireError)
    assert not read.is_done
    assert script.machine.last_zxid == 0


def test_an_unreadable_name_in_it_fails_only_its_request(script: Script) -> None:
    call, read = listing(script), get(script, "/b")
    one, other = script.sent()
    texts = b"".join(map(text_bytes, NAMES)) + int_bytes(1) + b"\xff"
    receive(script, frame(ReplyHeader(one.xid, 9, 0).encode() + int_bytes(101) + texts))
    steps(script)
    assert isinstance(call.error(), UnreadableTextError)
    script.answer(other)
    assert read.result() == b"data"
    assert script.machine.state is SessionState.CONNECTED


def test_too_many_names_fail_only_their_request() -> None:
    script = Script(max_reply=3200)
    script.connect()
    call = listing(script)
    (one,) = script.sent()
    script.feed(answer_to(one, ["a"] * 101))
    assert isinstance(call.error(), AnswerTooLargeError)
    call = listing(script)
    (one,) = script.sent()
    script.feed(answer_to(one, ["a"] * 100))
    assert call.result() == ["a"] * 100


def test_a_hold_ends_by_the_clock_while_it_is_decoded(script: Script) -> None:
    holder = Holder(script)
    script.serve()
    call = listing(script)
    one = script.sent()[-1]
    receive(script, answer_to(one, NAMES))
    script.now += 100
    script.machine.receive(b"", script.now)
    assert holder.reasons
    assert not call.is_done


def test_a_server_counts_as_alive_while_its_answer_is_decoded(script: Script) -> None:
    call = listing(script)
    (one,) = script.sent()
    receive(script, answer_to(one, NAMES))
    # A slow machine: each step takes a second, and the session times out after eight.
    while script.machine.decoding is not None:
        script.advance(1.0, serve=lambda: None)
        script.machine.receive(b"", script.now)
    assert script.cuts == []
    assert call.result() == NAMES


def peak_while_read(size: int, limit: int, content: bytes | list[str]) -> tuple[Call[Any], int]:
    """The request of an answer, and the most memory in bytes while it came."""
    script = Script(max_reply=limit)
    script.connect()
    if isinstance(content, bytes):
        call: Call[Any] = get(script, "/a")
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

PLAIN = "n" * 28
OTHERS = {"accent": "n" * 26 + "é", "wide": "n" * 25 + "€", "refused": "n" * 27 + "\x01"}
"""Names of 28 bytes, which take more memory than plain ones."""


@pytest.mark.parametrize("is_data", [True, False])
def test_memory_is_below_three_times_the_answer(is_data: bool) -> None:
    call, peak = peak_while_read(SIZE, LIMIT, bytes(SIZE) if is_data else [PLAIN] * (SIZE // 32))
    assert call.error() is None
    assert peak < 3 * SIZE


@pytest.mark.parametrize("kind", OTHERS)
def test_names_that_would_take_more_are_refused(kind: str) -> None:
    call, peak = peak_while_read(SIZE, LIMIT, [OTHERS[kind]] * (SIZE // 32))
    assert isinstance(call.error(), AnswerTooLargeError)
    assert peak < 3 * SIZE


@pytest.mark.parametrize("kind", OTHERS)
def test_some_names_that_take_more_are_read(kind: str) -> None:
    names = [PLAIN] * (SIZE // 32)
    names[::100] = [OTHERS[kind]] * len(names[::100])
    call, peak = peak_while_read(SIZE, LIMIT, names)
    assert call.result() == names
    assert peak < 3 * SIZE


def test_names_with_accents_are_read_up_to_half_of_the_limit() -> None:
    names = [OTHERS["accent"]] * (SIZE // 64)
    call, peak = peak_while_read(SIZE // 2, LIMIT, names)
    assert call.result() == names
    assert peak < 3 * SIZE


def test_few_names_are_marked_for_the_garbage_collector(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_frames, "MOST_MARKED", 50)
    for count in (50, 51):
        call, read = listing(script), get(script, "/b")
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
