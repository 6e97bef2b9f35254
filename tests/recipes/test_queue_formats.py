"""Items as Curator writes them: their bytes, and their names."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._recipes.queue_items import DelayNames, ItemNames, PriorityNames, decode, encode
from aiolead.errors import ConfigurationError

# --- bytes -------------------------------------------------------------------------------------

GOLDEN = [
    ((b"hello",), "00010001 01 00000005 68656c6c6f 02"),
    ((b"",), "00010001 01 00000000 02"),
    ((b"a", b"bc"), "00010001 01 00000001 61 01 00000002 6263 02"),
    ((), "00010001 02"),
]
"""As `ItemSerializer` of Curator 5.4.0 writes them."""


@pytest.mark.parametrize(("parts", "body"), GOLDEN)
def test_items_have_the_bytes_of_curator(parts: tuple[bytes, ...], body: str) -> None:
    assert encode(parts) == bytes.fromhex(body)
    assert decode(bytes.fromhex(body)).parts == parts


@given(st.lists(st.binary(max_size=20)))
def test_any_item_is_read_as_written(parts: list[bytes]) -> None:
    assert decode(encode(parts)).parts == tuple(parts)


@given(st.lists(st.binary(max_size=5), min_size=1), st.data())
def test_truncated_item_is_refused(parts: list[bytes], data: st.DataObject) -> None:
    body = encode(parts)
    with pytest.raises(ValueError, match=r"\w"):
        decode(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.binary(max_size=60))
def test_anything_is_an_item_or_a_value_error(body: bytes) -> None:
    try:
        parts = decode(body).parts
    except ValueError:
        return
    assert body.startswith(encode(parts))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("0001", "too few"),
        ("00010002 02", "version"),
        ("00010001 03", "kind 3, at byte 4"),
        ("00010001 01 ffffffff 02", "length -1"),
        ("00010001 01 7fffffff 02", "length 2147483647"),
    ],
)
def test_invalid_item_says_why(body: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(bytes.fromhex(body))


def test_bytes_after_the_end_are_ignored() -> None:
    content = decode(encode([b"x"]) + b"whatever")
    assert (content.parts, content.rest) == ((b"x",), b"whatever")


# --- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("queue-0000000007", (0, 7)),
        ("queue--2147483648", (0, -2147483648)),
        ("queue-1000000050000000007", None),
        ("queue-|18C0FFEE123|0000000007", None),
        ("entry-0000000007", None),
        ("queue-", None),
        ("queue-0000000007x", None),
    ],
)
def test_names_of_a_queue(name: str, key: tuple[int, int] | None) -> None:
    assert ItemNames().key(name) == key


@pytest.mark.parametrize(
    ("priority", "prefix"),
    [
        (0, "queue-100000000"),
        (5, "queue-100000005"),
        (255, "queue-1000000FF"),
        (2**31 - 1, "queue-17FFFFFFF"),
        (-1, "queue-0FFFFFFFF"),
        (-(2**31), "queue-080000000"),
    ],
)
def test_names_of_a_priority_queue(priority: int, prefix: str) -> None:
    naming = PriorityNames()
    assert naming.prefix(priority) == prefix
    assert naming.key(prefix + "0000000003") == (int(prefix[6:], 16), 3)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=2))
def test_priorities_sort_as_numbers_and_as_curators_texts(both: list[int]) -> None:
    naming = PriorityNames()
    low, high = (f"{naming.prefix(priority)}0000000000" for priority in sorted(both))
    one, other = naming.key(low), naming.key(high)
    assert one is not None
    assert other is not None
    assert (one <= other) is (low <= high) is True


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 1.5, True, "5"])
def test_invalid_priority_is_refused(priority: int) -> None:
    with pytest.raises(ConfigurationError, match="priority"):
        PriorityNames().prefix(priority)


def test_names_of_a_delay_queue() -> None:
    naming = DelayNames()
    assert naming.prefix(1_700_000_000.123) == "queue-|18BCFE5687B|"
    key = naming.key("queue-|18BCFE5687B|0000000009")
    assert key == (1_700_000_000_123, 9)
    assert naming.due(key) == 1_700_000_000.123
    assert naming.prefix(0.001) == "queue-|00000001|"
    for other in ("queue-0000000009", "queue-||0000000009", "queue-|18BCFE5687B|", "queue-|X|1"):
        assert naming.key(other) is None


@pytest.mark.parametrize("at", [0, -1.0, 2.0**40, float("nan"), float("inf"), True, "now"])
def test_invalid_time_is_refused(at: float) -> None:
    with pytest.raises(ConfigurationError, match="at:"):
        DelayNames().prefix(at)


def test_fields_are_big_endian() -> None:
    assert encode([b"x" * 300])[:9] == struct.pack(">IBi", 0x00010001, 1, 300)
