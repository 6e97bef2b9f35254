"""The wire against ZooKeeper: numbers and records of its Java code, frames of real servers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from kit.checks import check_each
from wire.golden import FOLDER, REPLIES, REQUESTS, Frame, encoded, frames
from wire.golden import NAMES as CONVERSATIONS
from wire.records import decode, encode

from aiolead._wire import codes
from aiolead._wire.codes import AddWatchMode, OpCode, WatcherType
from aiolead._wire.framing import FrameReader
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.replies import (
    ACLReply,
    ChildrenReply,
    CreateReply,
    DataReply,
    DoneResult,
    ErrorResult,
    MultiReply,
    NamesReply,
    PathReply,
    ReplyHeader,
    StatReply,
    WatcherEvent,
)
from aiolead._wire.requests import (
    AddWatch,
    AuthPacket,
    Check,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    RemoveWatches,
    RequestHeader,
    SetACL,
    SetData,
    SetWatches,
    Sync,
)
from aiolead.model import ACL, CreateMode, EventType, Permission, Stat

# Written by ZooKeeper 3.8.0; tests/assurance/golden/GoldenZooKeeper.java has the values.
GOLDEN = json.loads((FOLDER / "zookeeper-3.8.0.json").read_text())

# No two fields are alike, so that none can take another's place unseen.
STAT = Stat(0x101, 0x202, 1303, 1404, 5, 6, 7, 0x1000000000000808, 9, 10, 0xB0B)
DATA = b"\x01\x02\x03"
PASSWORD = b"\x07" * 16
ACLS = (ACL.world(), ACL(Permission.READ | Permission.DELETE, "auth", ""))
NAMES = ("x", "ä-0000000001", "")
TTL = OpCode.CREATE_TTL

RECORDS: dict[str, Any] = {
    "RequestHeader": RequestHeader(7, OpCode.GET_DATA),
    "Create": Create("/a", DATA, ACLS, CreateMode.EPHEMERAL_SEQUENTIAL),
    "CreateTTL": Create("/a", DATA, ACLS, CreateMode.PERSISTENT_WITH_TTL, 60_000, TTL),
    "Delete": Delete("/a", -1),
    "Exists": Exists("/a", True),
    "GetData": GetData("/a", False),
    "SetData": SetData("/a", DATA, 4),
    "GetACL": GetACL("/a"),
    "SetACL": SetACL("/a", ACLS, 2),
    "GetChildren": GetChildren("/a", True, OpCode.GET_CHILDREN),
    "GetChildren2": GetChildren("/a", False),
    "Sync": Sync("/a"),
    "Check": Check("/a", 3),
    "AddWatch": AddWatch("/a", AddWatchMode.RECURSIVE),
    "RemoveWatches": RemoveWatches("/a", WatcherType.ANY),
    "SetWatches": SetWatches(0x77, NAMES, (), ("/c",)),
    "SetWatches2": SetWatches(0x77, NAMES, (), ("/c",), ("/p",), ("/r", "/s"), OpCode.SET_WATCHES2),
    "AuthPacket": AuthPacket("digest", b"u:p"),
    "GetEphemerals": GetEphemerals("/a"),
    "Multi": Multi((
        Check("/a", 3),
        Create("/b", DATA, ACLS, CreateMode.EPHEMERAL_SEQUENTIAL, op=OpCode.CREATE),
        Create("/t", DATA, ACLS, CreateMode.PERSISTENT_WITH_TTL, 60_000, TTL),
        SetData("/c", DATA, -1),
        Delete("/d", 0),
    )),
    "ReplyHeader": ReplyHeader(7, 0x99, -101),
    "WatcherEvent": WatcherEvent(EventType.CHILDREN_CHANGED, "/a"),
    "CreateReply": PathReply("/a0000000001"),
    "Create2Reply": CreateReply("/a0000000001", STAT),
    "StatReply": StatReply(STAT),
    "DataReply": DataReply(DATA, STAT),
    "null DataReply": DataReply(None, STAT),
    "ACLReply": ACLReply(ACLS, STAT),
    "NamesReply": NamesReply(list(NAMES)),
    "ChildrenReply": ChildrenReply(list(NAMES), STAT),
    "MultiReply": MultiReply((
        (OpCode.CHECK, DoneResult(OpCode.CHECK)),
        (OpCode.CREATE, PathReply("/b0000000001")),
        (OpCode.CREATE2, CreateReply("/t", STAT)),
        (OpCode.SET_DATA, StatReply(STAT)),
        (OpCode.DELETE, DoneResult(OpCode.DELETE)),
    )),
    "MultiReply failed": MultiReply(
        tuple((OpCode.ERROR, ErrorResult(code)) for code in (0, -103, -2))
    ),
}  # fmt: skip

# The flag at the end is written apart from the record before 3.10.
HANDSHAKE = {
    "ConnectRequest": ConnectRequest(0x55, 10_000, 0x1234, PASSWORD, True),
    "ConnectResponse": ConnectResponse(8000, 0x1234, PASSWORD, False),
}

# Null in Java is read as empty, except for data.
NULLS: dict[str, Any] = {
    "null Create": Create("/a", None, (), 0),
    "null NamesReply": NamesReply([]),
    "null AuthPacket": AuthPacket("", b""),
}


def test_every_golden_record_is_compared() -> None:
    assert GOLDEN["records"].keys() == RECORDS.keys() | HANDSHAKE.keys() | NULLS.keys()


@check_each("name, record", RECORDS.items())
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
        case RequestHeader(xid, op):
            assert (xid, OpCode(op).name) == (frame.xid, frame.op)
        case ReplyHeader(xid, _, _):
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
