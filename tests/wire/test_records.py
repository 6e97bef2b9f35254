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
from wire.records import ACLS, BOOL, DATA, I32, I64, SAMPLES, STAT, STATS, TEXT, encode, reader_of

from aiolead._wire import handshake, replies, requests
from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import (
    PING,
    FrameReader,
    Reader,
    encode_record,
    encode_reply,
    encode_request,
    frame,
)
from aiolead.errors import LocalWireError, RemoteWireError
from aiolead.model import ACL, Permission, Stat

NULLABLE = st.none() | DATA
TEXTS = st.lists(TEXT, max_size=4).map(tuple)

PLAIN_CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER)
LISTINGS = (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
CREATES = st.one_of(
    st.builds(requests.Create, TEXT, NULLABLE, ACLS, I32, op=st.sampled_from(PLAIN_CREATES)),
    st.builds(requests.Create, TEXT, NULLABLE, ACLS, I32, I64, st.just(OpCode.CREATE_TTL)),
)
CHANGES = (
    CREATES
    | st.builds(requests.Delete, TEXT, I32)
    | st.builds(requests.SetData, TEXT, NULLABLE, I32)
)
RESULTS = st.one_of(
    st.tuples(st.just(OpCode.ERROR), st.builds(replies.ErrorResult, I32)),
    st.tuples(st.just(OpCode.CREATE), st.builds(replies.PathReply, TEXT)),
    st.tuples(
        st.sampled_from([OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL]),
        st.builds(replies.CreateReply, TEXT, STATS),
    ),
    st.tuples(st.just(OpCode.SET_DATA), st.builds(replies.StatReply, STATS)),
    st.sampled_from([OpCode.CHECK, OpCode.DELETE]).map(lambda op: (op, replies.DoneResult(op))),
)
READ_RESULTS = st.one_of(
    st.builds(replies.ErrorResult, I32),
    st.builds(replies.DataReply, NULLABLE, STATS),
    st.builds(replies.NamesReply, TEXTS.map(list)),
)
READS = st.builds(requests.GetData, TEXT, BOOL) | st.builds(
    requests.GetChildren, TEXT, BOOL, st.just(OpCode.GET_CHILDREN)
)


def several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=4).map(tuple)


FIELDS: list[tuple[Any, ...]] = [
    (ConnectRequest, I64, I32, I64, DATA, BOOL, I32),
    (ConnectResponse, I32, I64, DATA, BOOL, I32),
    (requests.RequestHeader, I32, I32),
    (requests.Delete, TEXT, I32),
    (requests.Exists, TEXT, BOOL),
    (requests.GetData, TEXT, BOOL),
    (requests.SetData, TEXT, NULLABLE, I32),
    (requests.GetACL, TEXT),
    (requests.SetACL, TEXT, ACLS, I32),
    (requests.GetChildren, TEXT, BOOL, st.sampled_from(LISTINGS)),
    (requests.Sync, TEXT),
    (requests.Reconfig, *[st.none() | TEXT.filter(bool)] * 3, st.integers(-1, 2**63 - 1)),
    (requests.Check, TEXT, I32),
    (requests.AddWatch, TEXT, I32),
    (requests.RemoveWatches, TEXT, I32),
    (requests.AuthPacket, TEXT, DATA),
    (requests.Sasl, DATA),
    (replies.TokenReply, DATA),
    (requests.GetEphemerals, TEXT),
    (requests.Multi, several(CHANGES | st.builds(requests.Check, TEXT, I32))),
    (replies.ReplyHeader, I32, I64, I32),
    (replies.WatcherEvent, I32, TEXT, I32),
    (replies.PathReply, TEXT),
    (replies.CreateReply, TEXT, STATS),
    (replies.StatReply, STATS),
    (replies.DataReply, NULLABLE, STATS),
    (replies.ACLReply, ACLS, STATS),
    (replies.NamesReply, TEXTS.map(list)),
    (replies.ChildrenReply, TEXTS.map(list), STATS),
    (requests.GetAllChildrenNumber, TEXT),
    (requests.MultiRead, several(READS)),
    (replies.NumberReply, I32),
    (replies.WhoAmIReply, st.lists(st.tuples(TEXT, TEXT), max_size=4)),
    (replies.MultiReadReply, several(READ_RESULTS)),
    (replies.MultiReply, several(RESULTS)),
]
RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "Create": CREATES,
    "SetWatches": st.one_of(
        st.builds(requests.SetWatches, I64, TEXTS, TEXTS, TEXTS),
        st.builds(requests.SetWatches, I64, *[TEXTS] * 5, st.just(OpCode.SET_WATCHES2)),
    ),
    **{cls.__name__: st.builds(cls, *fields) for cls, *fields in FIELDS},
}


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
    assert record.encode() == encode(record)  # some records do not go through the writer
    r = Reader(encode(record) + b"!")
    assert reader_of(record)(r) == record
    assert r.remaining == 1


@pytest.mark.parametrize("record", [requests.Ping(), requests.CloseSession()], ids=named)
def test_request_without_a_body_is_empty(record: requests.Ping | requests.CloseSession) -> None:
    assert record.encode() == b""


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


@pytest.mark.parametrize("sample", [s for s in SAMPLES if hasattr(s, "read_only")], ids=named)
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
    survives(read, garbled[0])  # imports and patterns of a first error stay
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


@pytest.mark.parametrize(
    "read", [requests.Multi.read, replies.MultiReply.read], ids=["Multi", "MultiReply"]
)
@pytest.mark.parametrize("op", [0, 3, 4, 8, 14, 99, -2, 2**31 - 1])
def test_operation_that_no_transaction_has_is_refused(
    read: Callable[[Reader], Any], op: int
) -> None:
    with pytest.raises(RemoteWireError, match=f"operation {op} in a transaction"):
        read(Reader(struct.pack(">ibi", op, 0, -1) + bytes(100)))


def test_transaction_without_an_end_is_refused() -> None:
    deletes = encode(requests.Multi((requests.Delete("", 0),) * 1000))[:-9]
    with pytest.raises(RemoteWireError):
        requests.Multi.read(Reader(deletes))
    results = encode(
        replies.MultiReply(((OpCode.DELETE, replies.DoneResult(OpCode.DELETE)),) * 1000)
    )[:-9]
    with pytest.raises(RemoteWireError):
        replies.MultiReply.read(Reader(results))


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
        encode(requests.Multi((requests.Check("/a", 2**31),)))
    with pytest.raises(LocalWireError):
        encode(replies.MultiReply(((OpCode.ERROR, replies.ErrorResult(2**31)),)))


@pytest.mark.parametrize("kind", ["persistent", "recursive"])
def test_persistent_watches_need_their_own_request(kind: str) -> None:
    record = requests.SetWatches(0, **{kind: ("/a",)})
    with pytest.raises(LocalWireError, match="SET_WATCHES2"):
        encode(record)


# --- packets -----------------------------------------------------------------------------------


def test_request_is_framed_with_its_header() -> None:
    body = requests.GetData("/a", True).encode()
    packet = encode_request(7, OpCode.GET_DATA, body)
    assert packet == frame(
        encode(requests.RequestHeader(7, OpCode.GET_DATA)) + encode(requests.GetData("/a", True))
    )
    (payload,) = FrameReader(100).feed(packet)
    r = Reader(payload)
    assert requests.RequestHeader.read(r) == requests.RequestHeader(7, OpCode.GET_DATA)
    assert requests.GetData.read(r) == requests.GetData("/a", True)


@pytest.mark.parametrize(("xid", "op"), [(2**31, 1), (-(2**31) - 1, 1), (1, 2**31)])
def test_header_that_does_not_fit_is_refused(xid: int, op: int) -> None:
    with pytest.raises(LocalWireError):
        encode_request(xid, op, b"")


def test_reply_is_framed_with_its_header() -> None:
    header = replies.ReplyHeader(7, 2**33, 0)
    packet = encode_reply(header, replies.PathReply("/a"))
    assert packet == frame(encode(header) + encode(replies.PathReply("/a")))
    assert encode_reply(header) == frame(encode(header))
    assert type(packet) is bytes


def test_handshake_is_framed_without_a_header() -> None:
    request = SAMPLES[0]
    assert encode_record(request) == frame(encode(request))


def test_ping_is_only_a_header() -> None:
    assert bytes.fromhex("00000008 fffffffe 0000000b") == PING
    assert XID_PING == -2
