"""Requests and their answers on a scripted connection, and what waits for the next one."""

from __future__ import annotations

from math import inf

import pytest
from session.script import NO_NODE, START, STAT, Script, Watcher, connected, failure_of, outcome_of

from aiolead._session.requests import MAX_XID, Call
from aiolead._wire.codes import XID_AUTH, XID_EVENT, XID_PING, XID_SET_WATCHES, OpCode
from aiolead._wire.jute import Reader, encode_reply, frame
from aiolead._wire.replies import DataReply, ReplyHeader
from aiolead.errors import (
    ConnectionLossError,
    LocalWireError,
    NoNodeError,
    Outcome,
    RemoteWireError,
    UnreadableTextError,
)
from aiolead.model import SessionState

DATA = DataReply(b"", STAT)

# --- answers -----------------------------------------------------------------------------------


def test_answers_find_their_requests_however_they_arrive(script: Script) -> None:
    calls = [script.get(f"/{number}") for number in range(20)]
    stream = b"".join(
        encode_reply(ReplyHeader(p.xid, 1, 0), DataReply(p.body[4:6], STAT)) for p in script.sent()
    )
    for start in range(0, len(stream), 7):
        script.feed(stream[start : start + 7])
    assert [call.result() for call in calls] == [f"/{n}".encode()[:2] for n in range(20)]


def test_abandoned_request_keeps_its_place_in_the_order_of_answers(script: Script) -> None:
    """Cancelling abandons the answer, not the request: the next answer is not mistaken for it."""
    abandoned, kept = script.get("/a"), script.exists("/b")
    packets = script.sent()
    del abandoned
    script.answer(packets[0])
    assert not kept.is_done
    script.answer(packets[1])
    assert kept.result().czxid == 1


def test_missing_znode_is_a_result_of_exists_and_an_error_of_get(script: Script) -> None:
    there, missing = script.exists("/a"), script.get("/a")
    for packet in script.sent():
        script.answer(packet, err=NO_NODE)
    assert there.result() is None
    with pytest.raises(NoNodeError, match="no such znode: /a"):
        missing.result()


@pytest.mark.parametrize("xid", [2, 3, 17, MAX_XID])
def test_answer_that_skips_a_request_loses_the_connection(script: Script, xid: int) -> None:
    """The outcome of everything in flight is unknown, the answered request included."""
    first, written, second = script.write("/skipped"), script.write(), script.get("/b")
    script.sent()
    why = rf"skipped request 1 \(SET_DATA /skipped\): it answered request {xid} instead"
    with pytest.raises(ConnectionLossError, match=why):
        script.reply(xid, DATA, zxid=1 << 60)
    assert not any(call.is_done for call in (first, written, second))
    assert script.machine.last_zxid == 0
    unsent = script.write()
    script.disconnect()
    for lost in (first, written):
        assert failure_of(lost) == (ConnectionLossError, Outcome.UNKNOWN)
    script.connect()
    assert [packet.xid for packet in script.serve()] == [4, 5]
    assert second.result() == b"data"
    assert unsent.result().czxid == 1


def test_answer_while_no_request_is_in_flight_loses_the_connection(script: Script) -> None:
    script.get("/a")  # not sent yet
    with pytest.raises(ConnectionLossError, match="answered request 1, but none was in flight"):
        script.reply(1)


def test_skipped_read_is_sent_again_with_its_watch(script: Script) -> None:
    watcher = Watcher(script)
    skipped, answered = script.get("/a", watcher.slot), script.get("/b")
    packets = script.sent()
    with pytest.raises(ConnectionLossError, match=r"skipped request 1 \(GET_DATA /a\)"):
        script.answer(packets[1])
    script.reconnect()
    assert [packet.op for packet in script.serve()] == [OpCode.GET_DATA, OpCode.GET_DATA]
    assert skipped.result() == answered.result() == b"data"
    assert watcher.is_armed


@pytest.mark.parametrize("step", [OpCode.MULTI, OpCode.SYNC])
def test_skipped_step_of_a_renewal_is_repeated_on_the_next_connection(
    script: Script, step: OpCode
) -> None:
    holder = script.hold(urgent=True)
    script.tick()
    (skipped,) = script.sent()
    if step is OpCode.SYNC:
        script.answer(skipped)
        (skipped,) = script.sent()
    assert skipped.op is step
    behind = script.get("/b")
    (packet,) = script.sent()
    with pytest.raises(ConnectionLossError, match=f"skipped request {skipped.xid} "):
        script.answer(packet)
    script.reconnect()
    script.serve_for(script.machine.timing.session_timeout)
    assert not holder.lost
    assert behind.result() == b"data"


@pytest.mark.parametrize("xid", [0, -3, -5])
def test_xid_that_the_protocol_does_not_have_is_refused(script: Script, xid: int) -> None:
    with pytest.raises(RemoteWireError, match=f"unknown xid {xid}"):
        script.reply(xid)


@pytest.mark.parametrize(
    ("xid", "what"),
    [(XID_PING, "a ping"), (XID_AUTH, "credentials"), (XID_SET_WATCHES, "SetWatches")],
)
def test_answer_without_a_request_loses_the_connection(script: Script, xid: int, what: str) -> None:
    read, written = script.get("/a"), script.write()
    script.sent()
    with pytest.raises(ConnectionLossError, match=f"answered {what}, but none was outstanding"):
        script.reply(xid)
    script.disconnect()
    assert outcome_of(written) is Outcome.UNKNOWN
    script.connect()
    script.serve()
    assert read.result() == b"data"


@pytest.mark.parametrize(
    "malformed",
    [
        frame(b""),
        frame(b"short"),
        (1 << 24).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n",
        encode_reply(ReplyHeader(1, 1 << 60, 0)),
        encode_reply(ReplyHeader(XID_EVENT, -1, 0)),
    ],
    ids=["empty", "short", "too long", "negative", "http", "no body", "empty event"],
)
def test_malformed_answer_loses_the_connection_and_fails_the_oldest_request(
    script: Script, malformed: bytes
) -> None:
    first, second = script.get("/a"), script.get("/b")
    script.sent()
    with pytest.raises(RemoteWireError) as raised:
        script.feed(malformed)
    assert first.error() is raised.value
    assert script.machine.last_zxid == 0
    script.reconnect()
    assert [packet.xid for packet in script.serve()] == [3]
    assert second.result() == b"data"


def test_unreadable_text_fails_only_its_request(script: Script) -> None:
    listing: Call[list[str]] = Call(OpCode.GET_CHILDREN, b"", Reader.texts, path="/a")
    script.submit(listing)
    read = script.get("/b")
    one, other = script.sent()
    header = ReplyHeader(one.xid, 9, 0).encode()
    script.feed(frame(header + bytes.fromhex("00000002000000016100000001ff")))
    assert isinstance(listing.error(), UnreadableTextError)
    assert not read.is_done
    assert script.machine.state is SessionState.CONNECTED
    script.answer(other)
    assert read.result() == b"data"


def test_request_that_is_too_long_is_refused_at_the_call() -> None:
    script = connected(max_request=1024)
    watcher = Watcher(script)
    path = "/" + "x" * (1024 - 8 - 4 - 1 - 1)
    assert script.get(path).is_done is False
    with pytest.raises(LocalWireError, match="1025 bytes, the servers take at most 1024"):
        script.get(path + "x", watcher.slot)
    assert len(script.sent()) == 1
    script.get("/b", watcher.slot)  # it was not left half armed


def test_bytes_of_a_lost_connection_are_ignored(script: Script) -> None:
    call = script.get("/a")
    (packet,) = script.sent()
    script.disconnect()
    script.answer(packet)
    script.feed(b"\xff\xff\xff\xff")
    assert not call.is_done
    assert script.machine.last_contact == START


# --- requests that wait for a connection -------------------------------------------------------


@pytest.mark.parametrize("was_connected", [True, False])
def test_requests_wait_for_a_connection_as_long_as_the_session_timeout(was_connected: bool) -> None:
    script = Script()
    if was_connected:
        script.connect()
        script.disconnect()
    script.now += 1.0
    calls = [script.get("/a"), script.write()]
    script.now += 1.0
    later = script.write()
    script.advance(6.999)
    assert not calls[0].is_done
    script.advance(0.002)
    for call in calls:
        assert failure_of(call) == (ConnectionLossError, Outcome.NOT_APPLIED)
        assert "no server was reached for 8 seconds" in str(call.error())
    assert not later.is_done
    script.advance(1.0)
    assert later.is_done
    assert script.machine.next_deadline() == inf


@pytest.mark.parametrize("start", [0.1, 123456.7, 1e9 / 7])
@pytest.mark.parametrize("timeout", [0.1, 1.1, 3.3])
def test_rounding_of_the_wait_does_not_make_the_timekeeper_spin(
    start: float, timeout: float
) -> None:
    script = Script(session_timeout=timeout)
    script.now = start
    call = script.get("/a")
    script.advance(timeout * 1.01)
    assert call.is_done
