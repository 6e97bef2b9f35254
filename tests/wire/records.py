"""Records: one of each shape, as bytes, and strategies for their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from aiolead._wire import handshake, replies, requests
from aiolead._wire.codes import AddWatchMode, OpCode, WatcherType
from aiolead._wire.jute import Reader, Writer
from aiolead.model import ACL, CreateMode, EventType, Permission, Stat

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
BOOL = st.booleans()
TEXT = st.text(max_size=12)
DATA = st.binary(max_size=30)
STATS = st.tuples(*map({"q": I64, "i": I32}.__getitem__, "qqqqiiiqiiq")).map(lambda t: Stat(*t))
ACLS = st.lists(st.builds(ACL, st.integers(0, 31).map(Permission), TEXT, TEXT), max_size=4).map(
    tuple
)


def encode(record: Any) -> bytes:
    w = Writer()
    record.write(w)
    return bytes(w.buffer)


def reader_of(record: Any) -> Callable[[Reader], Any]:
    """The `read` of the record's type. Some need the operation."""
    cls = type(record)
    if "op" in inspect.signature(cls.read).parameters:
        return lambda r: cls.read(r, record.op)
    return cls.read


def decode(record: Any, data: bytes) -> Any:
    """Reads a record of the same type, to the last byte."""
    r = Reader(data)
    found = reader_of(record)(r)
    assert r.remaining == 0
    return found


# --- samples of ZooKeeper's own: see tests/assurance/golden/GoldenZooKeeper.java ---------------

# No two fields are alike, so that none can take another's place unseen.
STAT = Stat(0x101, 0x202, 1303, 1404, 5, 6, 7, 0x1000000000000808, 9, 10, 0xB0B)
BYTES = b"\x01\x02\x03"
PASSWORD = b"\x07" * 16
ACL_PAIR = (ACL.world(), ACL(Permission.READ | Permission.DELETE, "auth", ""))
NAMES = ("x", "ä-0000000001", "")
TTL = OpCode.CREATE_TTL

GOLDEN_RECORDS: dict[str, Any] = {
    "RequestHeader": requests.RequestHeader(7, OpCode.GET_DATA),
    "Create": requests.Create("/a", BYTES, ACL_PAIR, CreateMode.EPHEMERAL_SEQUENTIAL),
    "CreateTTL": requests.Create(
        "/a", BYTES, ACL_PAIR, CreateMode.PERSISTENT_WITH_TTL, 60_000, TTL
    ),
    "Delete": requests.Delete("/a", -1),
    "Exists": requests.Exists("/a", True),
    "GetData": requests.GetData("/a", False),
    "SetData": requests.SetData("/a", BYTES, 4),
    "GetACL": requests.GetACL("/a"),
    "SetACL": requests.SetACL("/a", ACL_PAIR, 2),
    "GetChildren": requests.GetChildren("/a", True, OpCode.GET_CHILDREN),
    "GetChildren2": requests.GetChildren("/a", False),
    "Sync": requests.Sync("/a"),
    "Check": requests.Check("/a", 3),
    "AddWatch": requests.AddWatch("/a", AddWatchMode.RECURSIVE),
    "RemoveWatches": requests.RemoveWatches("/a", WatcherType.ANY),
    "SetWatches": requests.SetWatches(0x77, NAMES, (), ("/c",)),
    "SetWatches2": requests.SetWatches(
        0x77, NAMES, (), ("/c",), ("/p",), ("/r", "/s"), OpCode.SET_WATCHES2
    ),
    "AuthPacket": requests.AuthPacket("digest", b"u:p"),
    "GetEphemerals": requests.GetEphemerals("/a"),
    "Multi": requests.Multi((
        requests.Check("/a", 3),
        requests.Create("/b", BYTES, ACL_PAIR, CreateMode.EPHEMERAL_SEQUENTIAL, op=OpCode.CREATE),
        requests.Create("/t", BYTES, ACL_PAIR, CreateMode.PERSISTENT_WITH_TTL, 60_000, TTL),
        requests.SetData("/c", BYTES, -1),
        requests.Delete("/d", 0),
    )),
    "ReplyHeader": replies.ReplyHeader(7, 0x99, -101),
    "WatcherEvent": replies.WatcherEvent(EventType.CHILDREN_CHANGED, "/a"),
    "CreateReply": replies.PathReply("/a0000000001"),
    "Create2Reply": replies.CreateReply("/a0000000001", STAT),
    "StatReply": replies.StatReply(STAT),
    "DataReply": replies.DataReply(BYTES, STAT),
    "null DataReply": replies.DataReply(None, STAT),
    "ACLReply": replies.ACLReply(ACL_PAIR, STAT),
    "NamesReply": replies.NamesReply(list(NAMES)),
    "ChildrenReply": replies.ChildrenReply(list(NAMES), STAT),
    "MultiReply": replies.MultiReply((
        (OpCode.CHECK, replies.DoneResult(OpCode.CHECK)),
        (OpCode.CREATE, replies.PathReply("/b0000000001")),
        (OpCode.CREATE2, replies.CreateReply("/t", STAT)),
        (OpCode.SET_DATA, replies.StatReply(STAT)),
        (OpCode.DELETE, replies.DoneResult(OpCode.DELETE)),
    )),
    "MultiReply failed": replies.MultiReply(
        tuple((OpCode.ERROR, replies.ErrorResult(code)) for code in (0, -103, -2))
    ),
}  # fmt: skip

# The flag at the end is written apart from the record before 3.10.
HANDSHAKE = {
    "ConnectRequest": handshake.ConnectRequest(0x55, 10_000, 0x1234, PASSWORD, True),
    "ConnectResponse": handshake.ConnectResponse(8000, 0x1234, PASSWORD, False),
}

# --- other samples, with nothing empty ---------------------------------------------------------

SAMPLES: list[Any] = [
    *HANDSHAKE.values(),
    *GOLDEN_RECORDS.values(),
    handshake.ConnectResponse(10_000, 2**50, b"p" * 16, True),
    requests.Reconfig("server.1=a:1:2;3", None, None, -1),
    requests.SetWatches(2**33, ("/a",), ("/b", "/c"), ("/d",)),
    requests.SetWatches(2**33, *[(f"/{name}",) for name in "abcde"], OpCode.SET_WATCHES2),
    requests.Sasl(b"token"),
    requests.GetAllChildrenNumber("/a"),
    requests.MultiRead((
        requests.GetData("/a", True), requests.GetChildren("/b", op=OpCode.GET_CHILDREN)
    )),
    replies.TokenReply(b"token"),
    replies.NumberReply(7),
    replies.WhoAmIReply([("ip", "127.0.0.1"), ("digest", "u")]),
    replies.MultiReadReply((
        replies.DataReply(b"data", STAT), replies.ErrorResult(-101), replies.NamesReply(["a", "b"])
    )),
]  # fmt: skip
