"""The wire against ZooKeeper: numbers and records of its Java code, frames of real servers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from kit.checks import check_each
from wire.golden import FOLDER, REPLIES, REQUESTS, Frame, encoded, frames
from wire.golden import NAMES as CONVERSATIONS
from wire.records import GOLDEN_RECORDS, HANDSHAKE, decode, encode

from aiolead._wire import codes, replies, requests
from aiolead._wire.codes import OpCode, WatcherType
from aiolead._wire.jute import FrameReader

# Written by ZooKeeper 3.8.0; tests/assurance/golden/GoldenZooKeeper.java has the values.
GOLDEN = json.loads((FOLDER / "zookeeper-3.8.0.json").read_text())

# Null in Java is read as empty, except for data.
NULLS: dict[str, Any] = {
    "null Create": requests.Create("/a", None, (), 0),
    "null NamesReply": replies.NamesReply([]),
    "null AuthPacket": requests.AuthPacket("", b""),
}


def test_every_golden_record_is_compared() -> None:
    assert GOLDEN["records"].keys() == GOLDEN_RECORDS.keys() | HANDSHAKE.keys() | NULLS.keys()


@check_each("name, record", GOLDEN_RECORDS.items())
def test_records_are_byte_for_byte_those_of_zookeeper(name: str, record: Any) -> None:
    data = bytes.fromhex(GOLDEN["records"][name])
    assert encode(record).hex() == data.hex()
    assert decode(record, data) == record


@pytest.mark.parametrize(("name", "record"), HANDSHAKE.items())
def test_handshake_is_byte_for_byte_that_of_zookeeper(name: str, record: Any) -> None:
    data = bytes.fromhex(GOLDEN["records"][name]) + bytes([record.read_only])
    assert encode(record).hex() == data.hex()
    assert decode(record, data) == record


@pytest.mark.parametrize(("name", "record"), NULLS.items())
def test_null_is_read_as_empty(name: str, record: Any) -> None:
    assert decode(record, bytes.fromhex(GOLDEN["records"][name])) == record


def constant(java_name: str) -> str:
    """`getACL` is `GET_ACL`; a digit ends a word in both."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", java_name).upper()


def test_operations_are_those_of_zookeeper() -> None:
    theirs = {constant(name): number for name, number in GOLDEN["operations"].items()}
    assert theirs.pop("WHO_AM_I") == OpCode.WHO_AM_I
    assert {op.name: op.value for op in OpCode if op is not OpCode.WHO_AM_I} == theirs


def test_watcher_types_are_those_of_zookeeper() -> None:
    theirs = {name.upper(): number for name, number in GOLDEN["watcher_types"].items()}
    later = {WatcherType.PERSISTENT, WatcherType.RECURSIVE}  # in 3.9
    assert {type_.name: type_.value for type_ in WatcherType if type_ not in later} == theirs


def test_reserved_xids() -> None:
    """Private constants of ZooKeeper's ClientCnxn, so they are not in the golden file."""
    xids = (codes.XID_EVENT, codes.XID_PING, codes.XID_AUTH, codes.XID_SET_WATCHES)
    assert xids == (-1, -2, -4, -8)
    assert codes.PROTOCOL_VERSION == 0


# --- recorded conversations of other clients with a real server --------------------------------

FRAMES = [frame for name in CONVERSATIONS for frame in frames(name)]

# No client sends these.
NOT_SENT = {
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
def test_headers_are_those_of_the_recording(frame: Frame) -> None:
    header = frame.decoded()[0]
    match header:
        case requests.RequestHeader(xid, op):
            assert (xid, OpCode(op).name) == (frame.xid, frame.op)
        case replies.ReplyHeader(xid, _, _):
            assert xid == frame.xid
        case _:
            assert frame.op == "CONNECT"


def test_every_operation_was_recorded() -> None:
    said = {frame.op for frame in FRAMES if frame.to_server and frame.op != "CONNECT"}
    assert said | {"PING"} == {op.name for op in OpCode if op not in NOT_SENT}
    assert said >= REQUESTS.keys()
    worked = {frame.op for frame in FRAMES if not frame.to_server and len(frame.data) > 20}
    assert worked >= REPLIES.keys()


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation_is_split_into_the_same_frames(name: str) -> None:
    for to_server in (True, False):
        said = [frame.data for frame in frames(name) if frame.to_server == to_server]
        assert list(FrameReader(1 << 20).feed(b"".join(said))) == [data[4:] for data in said]
