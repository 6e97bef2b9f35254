"""Every record, both ways: there and back, cut short, garbled, and with values that do not fit."""

from __future__ import annotations

import dataclasses
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.checks import check_each
from wire.records import ACLS, BOOL, DATA, I32, I64, STATS, TEXT, encode, reader_of

from aiolead._wire import handshake, replies, requests
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.framing import (
    PING,
    FrameReader,
    encode_body,
    encode_record,
    encode_reply,
    encode_request,
    frame,
)
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead._wire.replies import (
    ACLReply,
    ChildrenReply,
    CreateReply,
    DataReply,
    DoneResult,
    ErrorResult,
    MultiReadReply,
    MultiReply,
    NamesReply,
    NumberReply,
    PathReply,
    ReplyHeader,
    StatReply,
    TokenReply,
    WatcherEvent,
    WhoAmIReply,
)
from aiolead._wire.requests import (
    AddWatch,
    AuthPacket,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetACL,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Ping,
    Reconfig,
    RemoveWatches,
    RequestHeader,
    Sasl,
    SetACL,
    SetData,
    SetWatches,
    Sync,
)
from aiolead.errors import LocalWireError, RemoteWireError
from aiolead.model import ACL, Permission, Stat

NULLABLE = st.none() | DATA
TEXTS = st.lists(TEXT, max_size=4).map(tuple)

PLAIN_CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER)
LISTINGS = (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
CREATES = st.one_of(
    st.builds(Create, TEXT, NULLABLE, ACLS, I32, op=st.sampled_from(PLAIN_CREATES)),
    st.builds(Create, TEXT, NULLABLE, ACLS, I32, I64, st.just(OpCode.CREATE_TTL)),
)
CHANGES = CREATES | st.builds(Delete, TEXT, I32) | st.builds(SetData, TEXT, NULLABLE, I32)
RESULTS = st.one_of(
    st.tuples(st.just(OpCode.ERROR), st.builds(ErrorResult, I32)),
    st.tuples(st.just(OpCode.CREATE), st.builds(PathReply, TEXT)),
    st.tuples(
        st.sampled_from([OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL]),
        st.builds(CreateReply, TEXT, STATS),
    ),
    st.tuples(st.just(OpCode.SET_DATA), st.builds(StatReply, STATS)),
    st.sampled_from([OpCode.CHECK, OpCode.DELETE]).map(lambda op: (op, DoneResult(op))),
)
READ_RESULTS = st.one_of(
    st.builds(ErrorResult, I32),
    st.builds(DataReply, NULLABLE, STATS),
    st.builds(NamesReply, TEXTS.map(list)),
)
READS = st.builds(GetData, TEXT, BOOL) | st.builds(
    GetChildren, TEXT, BOOL, st.just(OpCode.GET_CHILDREN)
)


def several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=4).map(tuple)


FIELDS: list[tuple[Any, ...]] = [
    (ConnectRequest, I64, I32, I64, DATA, BOOL, I32),
    (ConnectResponse, I32, I64, DATA, BOOL, I32),
    (RequestHeader, I32, I32),
    (Delete, TEXT, I32),
    (Exists, TEXT, BOOL),
    (GetData, TEXT, BOOL),
    (SetData, TEXT, NULLABLE, I32),
    (GetACL, TEXT),
    (SetACL, TEXT, ACLS, I32),
    (GetChildren, TEXT, BOOL, st.sampled_from(LISTINGS)),
    (Sync, TEXT),
    (Reconfig, *[st.none() | TEXT.filter(bool)] * 3, st.integers(-1, 2**63 - 1)),
    (Check, TEXT, I32),
    (AddWatch, TEXT, I32),
    (RemoveWatches, TEXT, I32),
    (AuthPacket, TEXT, DATA),
    (Sasl, DATA),
    (TokenReply, DATA),
    (GetEphemerals, TEXT),
    (Multi, several(CHANGES | st.builds(Check, TEXT, I32))),
    (ReplyHeader, I32, I64, I32),
    (WatcherEvent, I32, TEXT, I32),
    (PathReply, TEXT),
    (CreateReply, TEXT, STATS),
    (StatReply, STATS),
    (DataReply, NULLABLE, STATS),
    (ACLReply, ACLS, STATS),
    (NamesReply, TEXTS.map(list)),
    (ChildrenReply, TEXTS.map(list), STATS),
    (GetAllChildrenNumber, TEXT),
    (MultiRead, several(READS)),
    (NumberReply, I32),
    (WhoAmIReply, st.lists(st.tuples(TEXT, TEXT), max_size=4)),
    (MultiReadReply, several(READ_RESULTS)),
    (MultiReply, several(RESULTS)),
]
RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "Create": CREATES,
    "SetWatches": st.one_of(
        st.builds(SetWatches, I64, TEXTS, TEXTS, TEXTS),
        st.builds(SetWatches, I64, *[TEXTS] * 5, st.just(OpCode.SET_WATCHES2)),
    ),
    **{cls.__name__: st.builds(cls, *fields) for cls, *fields in FIELDS},
}

STAT = Stat(2**40, 2, 3, 4, 5, 6, 7, 2**60, 9, 10, 11)
ACL_PAIR = (ACL(Permission.ALL, "world", "anyone"), ACL(Permission.READ, "auth", ""))

# One of each shape, with nothing empty: for the tests that go through every byte and every field.
SAMPLES: list[Any] = [
    ConnectRequest(2**33, 10_000, 2**50, b"p" * 16, True),
    ConnectResponse(10_000, 2**50, b"p" * 16, True),
    RequestHeader(7, OpCode.CREATE),
    Create("/a", b"data", ACL_PAIR, 3),
    Create("/a", b"data", ACL_PAIR, 5, 60_000, OpCode.CREATE_TTL),
    Delete("/a", 7),
    Exists("/a", True),
    GetData("/a", True),
    SetData("/a", b"data", 7),
    GetACL("/a"),
    SetACL("/a", ACL_PAIR, 7),
    GetChildren("/a", True),
    Sync("/a"),
    Reconfig("server.1=a:1:2;3", None, None, -1),
    Check("/a", 7),
    AddWatch("/a", 1),
    RemoveWatches("/a", 3),
    SetWatches(2**33, ("/a",), ("/b", "/c"), ("/d",)),
    SetWatches(2**33, ("/a",), ("/b",), ("/c",), ("/d",), ("/e",), OpCode.SET_WATCHES2),
    AuthPacket("digest", b"u:p"),
    Sasl(b"token"),
    TokenReply(b"token"),
    GetEphemerals("/a"),
    GetAllChildrenNumber("/a"),
    MultiRead((GetData("/a", True), GetChildren("/b", op=OpCode.GET_CHILDREN))),
    NumberReply(7),
    WhoAmIReply([("ip", "127.0.0.1"), ("digest", "u")]),
    MultiReadReply((DataReply(b"data", STAT), ErrorResult(-101), NamesReply(["a", "b"]))),
    Multi((
        Check("/a", 7), Create("/b", b"data", ACL_PAIR, 3), Delete("/c", 1), SetData("/d", b"x", 2)
    )),
    ReplyHeader(7, 2**33, -101),
    WatcherEvent(2, "/a"),
    PathReply("/a"),
    CreateReply("/a", STAT),
    StatReply(STAT),
    DataReply(b"data", STAT),
    ACLReply(ACL_PAIR, STAT),
    NamesReply(["a", "b"]),
    ChildrenReply(["a", "b"], STAT),
    MultiReply((
        (OpCode.CHECK, DoneResult(OpCode.CHECK)),
        (OpCode.CREATE2, CreateReply("/b", STAT)),
        (OpCode.CREATE, PathReply("/b")),
        (OpCode.SET_DATA, StatReply(STAT)),
        (OpCode.DELETE, DoneResult(OpCode.DELETE)),
    )),
    MultiReply(((OpCode.ERROR, ErrorResult(-103)), (OpCode.ERROR, ErrorResult(-2)))),
]  # fmt: skip


def named(record: object) -> str:
    return type(record).__name__


# --- completeness ------------------------------------------------------------------------------


def test_every_record_of_the_package_is_tested() -> None:
    found = {
        name
        for module in (handshake, requests, replies)
        for name, value in vars(module).items()
        if dataclasses.is_dataclass(value)
        if name[0] != "_" and (getattr(value, "layout", ()) or "read" in vars(value))
    }
    found.remove("ErrorResult")  # a part of others
    assert found == RECORDS.keys() - {"ACL", "Stat"}
    assert found == {named(sample) for sample in SAMPLES}


# --- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_record_is_read_as_it_was_written(name: str, data: st.DataObject) -> None:
    record = data.draw(RECORDS[name])
    assert named(record) == name
    r = Reader(encode(record) + b"!")
    assert reader_of(record)(r) == record
    assert r.remaining == 1


@pytest.mark.parametrize("record", [Ping(), CloseSession()], ids=named)
def test_request_without_a_body_is_empty(record: Ping | CloseSession) -> None:
    assert encode_body(record) == b""


# --- what is wrong -----------------------------------------------------------------------------


@check_each("sample", SAMPLES, ids=named)
def test_record_cut_after_any_byte_is_refused(sample: Any) -> None:
    data, read = encode(sample), reader_of(sample)
    # The flag that clients before 3.4 did not send ends the handshake.
    optional = 1 if isinstance(sample, ConnectRequest | ConnectResponse) else 0
    for size in range(len(data) - optional):
        with pytest.raises(RemoteWireError):
            read(Reader(data[:size]))
    assert read(Reader(data)) == sample


@pytest.mark.parametrize("sample", SAMPLES[:2], ids=named)
def test_handshake_of_old_peers_has_no_flag(sample: ConnectRequest | ConnectResponse) -> None:
    read = reader_of(sample)
    assert read(Reader(encode(sample)[:-1])) == dataclasses.replace(sample, read_only=False)


def survives(read: Callable[[Reader], Any], data: bytes) -> None:
    """It is refused, or it is a record like any other."""
    try:
        record = read(Reader(data))
    except RemoteWireError:
        return
    assert reader_of(record)(Reader(encode(record))) == record


@pytest.mark.exhaustive("random data, beside the worst data")
@pytest.mark.parametrize("sample", SAMPLES, ids=named)
@given(data=st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_random_bytes_are_a_record_or_refused(sample: Any, data: bytes) -> None:
    survives(reader_of(sample), data)


@pytest.mark.exhaustive("random data, beside the worst data")
@pytest.mark.parametrize("sample", SAMPLES, ids=named)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_garbled_record_is_a_record_or_refused(sample: Any, data: st.DataObject) -> None:
    """It is closer to a record than random bytes, so that it gets further."""
    garbled = bytearray(encode(sample))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(garbled) - 1))
        garbled[position] = data.draw(st.integers(0, 255))
    survives(reader_of(sample), bytes(garbled))


@check_each("sample", SAMPLES, ids=named)
@pytest.mark.parametrize("number", [2**31 - 1, 2**24, -2, -(2**31)])
def test_number_at_any_place_of_a_record_takes_no_memory(sample: Any, number: int) -> None:
    """In the place of any four bytes, each length and count of the record among them."""
    data, read = encode(sample), reader_of(sample)
    garbled = [
        data[:start] + struct.pack(">i", number) + data[start + 4 :]
        for start in range(len(data) - 3)
    ]
    taken = 0
    tracemalloc.start()
    try:
        for item in garbled:
            # Each on its own, since errors leave memory to the garbage collector.
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            survives(read, item)
            taken = max(taken, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert taken < 100_000


@pytest.mark.parametrize("read", [Multi.read, MultiReply.read], ids=["Multi", "MultiReply"])
@pytest.mark.parametrize("op", [0, 3, 4, 8, 14, 99, -2, 2**31 - 1])
def test_operation_that_no_transaction_has_is_refused(
    read: Callable[[Reader], Any], op: int
) -> None:
    with pytest.raises(RemoteWireError, match=f"operation {op} in a transaction"):
        read(Reader(struct.pack(">ibi", op, 0, -1) + bytes(100)))


def test_transaction_without_an_end_is_refused() -> None:
    deletes = encode(Multi((Delete("", 0),) * 1000))[:-9]
    with pytest.raises(RemoteWireError):
        Multi.read(Reader(deletes))
    results = encode(MultiReply(((OpCode.DELETE, DoneResult(OpCode.DELETE)),) * 1000))[:-9]
    with pytest.raises(RemoteWireError):
        MultiReply.read(Reader(results))


# --- what does not fit -------------------------------------------------------------------------


def unfit() -> list[Any]:
    """Each sample with one of its values made too large, or impossible to encode."""
    found = []
    for sample in SAMPLES:
        for field in dataclasses.fields(sample):
            match getattr(sample, field.name):
                case OpCode() | bool() | bytes():
                    continue
                case int():
                    values: list[Any] = [2**63, -(2**63) - 1]
                case str():
                    values = ["\ud800"]
                case [str(), *_]:
                    values = [("a", "\ud800")]
                case [ACL(), *_]:
                    values = [(ACL(Permission(2**31), "a", "b"),)]
                case Stat():
                    values = [STAT._replace(pzxid=2**63)]
                case _:
                    continue
            found += [dataclasses.replace(sample, **{field.name: value}) for value in values]
    return found


@check_each("record", unfit(), ids=named)
def test_value_that_does_not_fit_is_refused(record: Any) -> None:
    with pytest.raises(LocalWireError):
        encode(record)


def test_value_that_does_not_fit_in_a_transaction_is_refused() -> None:
    with pytest.raises(LocalWireError):
        encode(Multi((Check("/a", 2**31),)))
    with pytest.raises(LocalWireError):
        encode(MultiReply(((OpCode.ERROR, ErrorResult(2**31)),)))


@pytest.mark.parametrize("kind", ["persistent", "recursive"])
def test_persistent_watches_need_their_own_request(kind: str) -> None:
    record = SetWatches(0, **{kind: ("/a",)})
    with pytest.raises(LocalWireError, match="SET_WATCHES2"):
        encode(record)


# --- packets -----------------------------------------------------------------------------------


def test_request_is_framed_with_its_header() -> None:
    body = encode_body(GetData("/a", True))
    packet = encode_request(7, OpCode.GET_DATA, body)
    assert packet == frame(encode(RequestHeader(7, OpCode.GET_DATA)) + encode(GetData("/a", True)))
    (payload,) = FrameReader(100).feed(packet)
    r = Reader(payload)
    assert RequestHeader.read(r) == RequestHeader(7, OpCode.GET_DATA)
    assert GetData.read(r) == GetData("/a", True)


@pytest.mark.parametrize(("xid", "op"), [(2**31, 1), (-(2**31) - 1, 1), (1, 2**31)])
def test_header_that_does_not_fit_is_refused(xid: int, op: int) -> None:
    with pytest.raises(LocalWireError):
        encode_request(xid, op, b"")


def test_reply_is_framed_with_its_header() -> None:
    header = ReplyHeader(7, 2**33, 0)
    packet = encode_reply(header, PathReply("/a"))
    assert packet == frame(encode(header) + encode(PathReply("/a")))
    assert encode_reply(header) == frame(encode(header))
    assert type(packet) is bytes


def test_handshake_is_framed_without_a_header() -> None:
    request = SAMPLES[0]
    assert encode_record(request) == frame(encode(request))


def test_ping_is_only_a_header() -> None:
    assert bytes.fromhex("00000008 fffffffe 0000000b") == PING
    assert XID_PING == -2
