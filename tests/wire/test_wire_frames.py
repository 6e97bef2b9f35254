"""What others said to a real server, and it to them, reads and is written again byte for byte."""

from __future__ import annotations

import pytest
from kit.checks import check_each
from wire.golden import NAMES, REPLIES, REQUESTS, Frame, encoded, frames

from aiolead._wire.codes import OpCode
from aiolead._wire.framing import FrameReader
from aiolead._wire.replies import ReplyHeader
from aiolead._wire.requests import RequestHeader

FRAMES = [frame for name in NAMES for frame in frames(name)]

# What no client asks for.
NOT_SAID = {
    OpCode.NOTIFICATION,
    OpCode.CREATE_SESSION,
    OpCode.DELETE_CONTAINER,
    OpCode.ERROR,
    OpCode.CHECK,  # only within a transaction
}


@check_each("frame", FRAMES, ids=str)
def test_frames_are_read_and_written_byte_for_byte(frame: Frame) -> None:
    assert encoded(frame.decoded()).hex() == frame.data.hex()


@check_each("frame", FRAMES, ids=str)
def test_headers_are_what_the_recording_says(frame: Frame) -> None:
    header = frame.decoded()[0]
    match header:
        case RequestHeader(xid, op):
            assert (xid, OpCode(op).name) == (frame.xid, frame.op)
        case ReplyHeader(xid, _, _):
            assert xid == frame.xid
        case _:
            assert frame.op == "CONNECT"


def test_every_operation_was_recorded() -> None:
    said = {frame.op for frame in FRAMES if frame.to_server and frame.op != "CONNECT"}
    assert said | {"PING"} == {op.name for op in OpCode if op not in NOT_SAID}
    assert said >= REQUESTS.keys()
    worked = {frame.op for frame in FRAMES if not frame.to_server and len(frame.data) > 20}
    assert worked >= REPLIES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_conversation_is_cut_into_the_same_frames(name: str) -> None:
    for to_server in (True, False):
        said = [frame.data for frame in frames(name) if frame.to_server == to_server]
        assert list(FrameReader(1 << 20).feed(b"".join(said))) == [data[4:] for data in said]
