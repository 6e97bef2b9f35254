"""The primitives of the wire: what they accept, and that no length is believed unchecked."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.records import ACLS, I32, I64, STATS

from aiolead._wire.codes import OpCode
from aiolead._wire.jute import Reader, Writer, int_bytes, java_text_bytes, text_bytes
from aiolead._wire.replies import MultiReply
from aiolead.errors import AnswerTooLargeError, LocalWireError, RemoteWireError, UnreadableTextError
from aiolead.model import ACL, Permission, Stat

READS: dict[str, Callable[[Reader], object]] = {
    "i32": Reader.i32,
    "i64": Reader.i64,
    "flag": Reader.flag,
    "blob": Reader.blob,
    "nullable_blob": Reader.nullable_blob,
    "text": Reader.text,
    "texts": Reader.texts,
    "acls": Reader.acls,
    "stat": Reader.stat,
}


def written(method: str, value: object) -> bytes:
    w = Writer()
    getattr(w, method)(value)
    return bytes(w.buffer)


# --- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "value", "data"),
    [
        ("i32", 0, "00000000"),
        ("i32", 2**31 - 1, "7fffffff"),
        ("i32", -(2**31), "80000000"),
        ("i32", -1, "ffffffff"),
        ("i64", 2**63 - 1, "7fffffffffffffff"),
        ("i64", -(2**63), "8000000000000000"),
        ("flag", True, "01"),
        ("flag", False, "00"),
        ("blob", b"", "00000000"),
        ("blob", b"\x00\xff", "0000000200ff"),
        ("text", "", "00000000"),
        ("text", "aé", "0000000361c3a9"),
        ("text", "\x00", "0000000100"),
        ("text", "😀", "00000004f09f9880"),
        ("texts", (), "00000000"),
        ("texts", ["", "a"], "00000002000000000000000161"),
        ("texts", iter(["a"]), "000000010000000161"),
        ("acls", (), "00000000"),
        ("acls", [ACL(Permission.READ, "s", "")], "0000000100000001000000017300000000"),
    ],
)
def test_layout_of_a_value(method: str, value: object, data: str) -> None:
    assert written(method, value).hex() == data


def test_layout_of_stat() -> None:
    values = (2**40, -2, 3, 4, -5, 6, 7, -(2**60), 9, 10, 11)
    assert written("stat", Stat(*values)) == struct.pack(">qqqqiiiqiiq", *values)
    assert len(written("stat", Stat(*values))) == 68


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("i32", 2**31),
        ("i32", -(2**31) - 1),
        ("i32", 2**200),
        ("i32", "1"),
        ("i32", None),
        ("i32", 1.5),
        ("i64", 2**63),
        ("i64", -(2**63) - 1),
        ("text", "a\ud800"),
        ("texts", ["a", "\udfff"]),
        ("acls", [ACL(Permission(2**40), "world", "anyone")]),
        ("acls", [ACL(Permission.ALL, "\ud800", "anyone")]),
        ("acls", [ACL(Permission.ALL, "world", "\ud800")]),
    ],
    ids=ascii,
)
def test_value_that_does_not_fit_is_refused(method: str, value: object) -> None:
    with pytest.raises(LocalWireError):
        written(method, value)


@pytest.mark.parametrize("position", range(11))
def test_field_of_stat_that_does_not_fit_is_refused(position: int) -> None:
    values = [0] * 11
    values[position] = 2**63
    with pytest.raises(LocalWireError, match=f"{2**63}"):
        written("stat", Stat(*values))


# --- reading -----------------------------------------------------------------------------------


def test_values_are_read_in_order() -> None:
    data = b"\x00\x00\x00\x07" + b"\x01" + b"\x00\x00\x00\x01a" + b"\xff" * 8 + b"rest"
    r = Reader(data)
    assert (r.i32(), r.flag(), r.text(), r.i64()) == (7, True, "a", -1)
    assert r.remaining == 4


def test_reading_starts_at_the_given_position() -> None:
    r = Reader(b"\xff\xff\x00\x00\x00\x07", 2)
    assert r.i32() == 7
    assert r.remaining == 0


@pytest.mark.parametrize(("byte", "flag"), [(0, False), (1, True), (2, True), (255, True)])
def test_any_byte_except_zero_is_true(byte: int, flag: bool) -> None:
    assert Reader(bytes([byte])).flag() is flag


@pytest.mark.parametrize(
    ("method", "empty"), [("blob", b""), ("text", ""), ("texts", []), ("acls", ())]
)
def test_null_is_read_as_empty(method: str, empty: object) -> None:
    r = Reader(b"\xff\xff\xff\xff\x00")
    assert READS[method](r) == empty
    assert r.remaining == 1


@pytest.mark.parametrize("value", [None, b"", b"data", b"\xff\xff\xff\xff"])
def test_nullable_blob_distinguishes_null_and_empty(value: bytes | None) -> None:
    w = Writer()
    w.blob(value)
    r = Reader(bytes(w.buffer) + b"\x00")
    assert r.nullable_blob() == value
    assert r.remaining == 1


def test_unknown_permissions_are_left_out() -> None:
    """A later version may have more of them."""
    data = b"\x00\x00\x00\x01" + b"\x7f\xff\xff\xe1" + b"\x00\x00\x00\x00" * 2
    assert Reader(data).acls() == (ACL(Permission.READ, "", ""),)
    everything = b"\x00\x00\x00\x01" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00" * 2
    assert Reader(everything).acls() == (ACL(Permission.ALL, "", ""),)


@pytest.mark.parametrize(
    ("method", "data", "said"),
    [
        ("i32", "000000", "a value of 4 bytes where 3 are left (at byte 0)"),
        ("i64", "", "a value of 8 bytes where 0 are left (at byte 0)"),
        ("flag", "", "a value of 1 bytes where 0 are left (at byte 0)"),
        ("blob", "00000003aabb", "a value of 3 bytes where 2 are left (at byte 4)"),
        ("blob", "7fffffff", "a value of 2147483647 bytes where 0 are left (at byte 4)"),
        ("blob", "fffffffe", "the negative length -2 (at byte 0)"),
        ("text", "80000000", "the negative length -2147483648 (at byte 0)"),
        ("text", "00000001ff", "a string that is not UTF-8: invalid start byte (at byte 0)"),
        ("text", "00000003eda080", "a string that is not UTF-8: invalid continuation byte"),
        ("text", "00000002c080", "a string that is not UTF-8: invalid start byte"),
        ("text", "00000001c3", "a string that is not UTF-8: unexpected end of data"),
        ("texts", "7fffffff00000000", "a list of 2147483647 elements in a frame too short"),
        ("texts", "0000000200000000", "a list of 2 elements in a frame too short (at byte 0)"),
        ("texts", "fffffffe", "the negative length -2 (at byte 0)"),
        ("texts", "000000010000000561", "a value of 5 bytes where 1 are left (at byte 8)"),
        ("acls", "2aaaaaab" + "00" * 24, "a list of 715827883 elements in a frame too short"),
        ("acls", "00000001" + "00" * 11, "a list of 1 elements in a frame too short"),
        ("stat", "00" * 67, "a value of 68 bytes where 67 are left (at byte 0)"),
    ],
)
def test_malformed_value_is_refused_with_its_position(method: str, data: str, said: str) -> None:
    with pytest.raises(RemoteWireError) as caught:
        READS[method](Reader(bytes.fromhex(data)))
    assert said in str(caught.value)
    assert caught.value.offset is not None


@pytest.mark.parametrize("text", ["plain", "é€", "u\U0001f600", "\U00010000a\U0010ffff", "\0"])
def test_text_is_read_as_clients_and_as_servers_write_it(text: str) -> None:
    for write in (text_bytes, java_text_bytes):
        for method, data in (
            ("text", write(text)),
            ("nullable_text", write(text)),
            ("texts", int_bytes(2) + write("a") + write(text)),
        ):
            r = Reader(data)
            read = getattr(r, method)()
            assert (read[1] if method == "texts" else read) == text
            assert not r.remaining


def test_servers_write_each_half_of_a_surrogate_pair() -> None:
    # As org.apache.jute.BinaryOutputArchive does.
    assert java_text_bytes("a\U0001f600\0é") == bytes.fromhex("0000000a61eda0bdedb88000c3a9")
    w = Writer(java_text_bytes)
    w.acls([ACL(Permission.ALL, "digest", "\U0001f600")])
    assert w.buffer.endswith(java_text_bytes("\U0001f600"))


def test_unreadable_text_has_an_error_of_its_own() -> None:
    for data in ("00000001ff", "00000003eda080", "00000006edb880eda0bd"):
        with pytest.raises(UnreadableTextError, match="not UTF-8"):
            Reader(bytes.fromhex(data)).text()


@pytest.mark.parametrize("method", ["blob", "text", "texts", "acls"])
@pytest.mark.parametrize("size", [1000, 2**24, 2**31 - 1, -2, -(2**31)])
def test_length_alone_allocates_nothing(method: str, size: int) -> None:
    data = struct.pack(">i", size) + bytes(100)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteWireError):
            READS[method](Reader(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000


@pytest.mark.parametrize(("method", "least"), [("texts", 4), ("acls", 12)])
def test_memory_is_bounded_by_the_size_of_the_frame(method: str, least: int) -> None:
    """The worst case: a frame of only the smallest elements."""
    count = 10_000
    data = struct.pack(">i", count) + bytes(count * least)
    tracemalloc.start()
    try:
        value = READS[method](Reader(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(value, list | tuple)
    assert len(value) == count
    assert peak < 12 * len(data)


@pytest.mark.parametrize("method", ["texts", "acls"])
def test_list_of_too_many_elements_is_refused_immediately(method: str) -> None:
    count = 10_001
    data = int_bytes(count) + bytes(count * 12)
    r = Reader(data, most_elements=10_000)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLargeError, match="a list of 10001 elements, where 10000"):
            READS[method](r)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()
    assert len(Reader(data, most_elements=count).texts()) == count


def test_results_beyond_the_operations_are_not_read() -> None:
    w = Writer()
    for _ in range(10_000):
        w.multi_header(OpCode.DELETE, 0)
    w.multi_end()
    r = Reader(bytes(w.buffer))
    assert len(MultiReply.read(r, 3).results) == 4
    assert len(MultiReply.read(Reader(bytes(w.buffer))).results) == 10_000


def test_error_consumes_no_bytes() -> None:
    r = Reader(b"\x00\x01\x02")
    with pytest.raises(RemoteWireError):
        r.i32()
    assert r.remaining == 3


# --- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("i32", I32),
        ("i64", I64),
        ("flag", st.booleans()),
        ("blob", st.binary(max_size=50)),
        ("text", st.text(max_size=20)),
        ("texts", st.lists(st.text(max_size=9), max_size=5)),
        ("acls", ACLS),
        ("stat", STATS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_value_is_read_as_it_was_written(
    method: str, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    value = data.draw(values)
    r = Reader(written(method, value) + b"!")
    assert READS[method](r) == value
    assert r.remaining == 1


@given(st.sampled_from(sorted(READS)), st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_a_value_or_refused(method: str, data: bytes) -> None:
    r = Reader(data)
    try:
        READS[method](r)
    except RemoteWireError:
        assert 0 <= r.remaining <= len(data)


LENGTHS = st.sampled_from([-2, -1, 0, 1, 2, 3, 7, 2**31 - 1])


def outcome(data: bytes, read: Callable[[Reader], object]) -> tuple[object, int]:
    """The value or the error, and the number of bytes that are left."""
    r = Reader(data)
    try:
        return read(r), r.remaining
    except RemoteWireError as error:
        return str(error), r.remaining


@given(
    LENGTHS, st.lists(st.tuples(LENGTHS, st.binary(max_size=4)), max_size=4), st.binary(max_size=4)
)
@settings(max_examples=300, deadline=None)
def test_texts_are_read_as_one_by_one(
    count: int, strings: list[tuple[int, bytes]], rest: bytes
) -> None:
    """They are read in one go, with the values or the error that `text` gives one by one."""
    data = struct.pack(">i", count) + rest
    for length, text in reversed(strings):
        data = data[:4] + struct.pack(">i", length) + text + data[4:]

    assert outcome(data, Reader.texts) == outcome(data, lambda r: r.vector(4, Reader.text))


@pytest.mark.parametrize("rest", [b"", b"!"])
@pytest.mark.parametrize("length", [-(2**31), -2, -1, 0, 11, 12, 13, 80, 81, 2**31 - 1])
def test_data_and_stat_are_read_as_one_by_one(length: int, rest: bytes) -> None:
    """They are read in one go, and a length that contradicts the frame is not believed."""
    stat = Stat(1, 2, 3, 4, 5, 6, 7, 8, 12, 0, 9)
    data = struct.pack(">i", length) + b"twelve bytes" + written("stat", stat) + rest
    found = outcome(data, Reader.blob_and_stat)
    assert found == outcome(data, lambda r: (r.blob(), r.stat()))
    assert (found[0] == (b"twelve bytes", stat)) == (length == 12)
    if length > 12 + len(rest):
        with pytest.raises(RemoteWireError):
            Reader(data).blob_and_stat()
