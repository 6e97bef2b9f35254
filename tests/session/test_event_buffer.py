"""The buffer of a stream: in order, merged where that says as much, and bounded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._session.streams import EventBuffer
from aiolead.model import EventType, Missed, MissedReason, WatchEvent

E = EventType
R = MissedReason
DATA, CHILDREN = (E.DATA_CHANGED, "/a"), (E.CHILDREN_CHANGED, "/a")
CREATED, DELETED = (E.CREATED, "/a"), (E.DELETED, "/a")
OTHER = (E.DATA_CHANGED, "/b")
READ = "read"

Step = Any
"""An event as type and path, the reason of a gap, or `READ`."""


def play(buffer: EventBuffer, steps: list[Step]) -> None:
    for step in steps:
        if step == READ:
            buffer.take()
        elif isinstance(step, MissedReason):
            buffer.miss(step)
        else:
            buffer.put(WatchEvent(*step))


def drain(buffer: EventBuffer) -> list[Step]:
    items = [buffer.take() for _ in range(len(buffer))]
    assert len(buffer) == 0
    return [item.reason if isinstance(item, Missed) else (item.type, item.path) for item in items]


def created(count: int) -> list[Step]:
    return [(E.CREATED, f"/{number}") for number in range(count)]


CASES: dict[str, tuple[int, list[Step], list[Step]]] = {
    "events in their order": (
        10, [CREATED, DATA, DELETED, CREATED], [CREATED, DATA, DELETED, CREATED]
    ),
    "unread changes are merged at the first place": (10, [DATA, OTHER, DATA, OTHER], [DATA, OTHER]),
    "data and children are different changes": (10, [DATA, CHILDREN] * 2, [DATA, CHILDREN]),
    "no merge across a creation": (10, [DATA, CREATED, DATA, DATA], [DATA, CREATED, DATA]),
    "no merge across a deletion": (10, [DATA, DELETED, DATA, DATA], [DATA, DELETED, DATA]),
    "no merge into a read change": (10, [DATA, DELETED, DATA, READ, DATA], [DELETED, DATA]),
    "creations and deletions are never merged": (
        10, [CREATED, CREATED, DELETED, DELETED], [CREATED, CREATED, DELETED, DELETED]
    ),
    "no merge across a gap": (9, [DATA, R.RECONNECTED, DATA], [DATA, R.RECONNECTED, DATA]),
    "one too many makes one gap": (3, created(4), [R.OVERFLOW]),
    "events after the gap": (3, created(5), [R.OVERFLOW, (E.CREATED, "/4")]),
    "a merged change needs no room": (2, [DATA, OTHER, *[DATA] * 9], [DATA, OTHER]),
    "a gap without room makes room": (2, [*created(2), R.RECONNECTED], [R.RECONNECTED]),
    "an overflow keeps an expiry": (2, [R.EXPIRED, *created(2)], [R.EXPIRED]),
    "the smallest buffer holds one event": (1, [CREATED], [CREATED]),
    "the smallest buffer overflows": (1, [CREATED, READ, *created(2)], [R.OVERFLOW]),
}  # fmt: skip


@pytest.mark.parametrize(("limit", "steps", "read"), CASES.values(), ids=CASES)
def test_reader_gets_merged_events_in_order(
    limit: int, steps: list[Step], read: list[Step]
) -> None:
    buffer = EventBuffer(limit)
    play(buffer, steps)
    assert drain(buffer) == read


@pytest.mark.parametrize("type_", [E.DATA_CHANGED, E.CHILDREN_CHANGED])
def test_merged_change_has_the_zxid_of_the_last_one(type_: EventType) -> None:
    buffer = EventBuffer(10)
    for zxid, path in enumerate(["/a", "/b", "/a", "/b", "/a"]):
        buffer.put(WatchEvent(type_, path, zxid))
    assert buffer.take() == WatchEvent(type_, "/a", 4)
    assert buffer.take() == WatchEvent(type_, "/b", 3)
    buffer.put(WatchEvent(type_, "/a", 5))
    assert buffer.take() == WatchEvent(type_, "/a", 5)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(R, repeat=2)))
def test_adjacent_gaps_are_one(first: R, second: R) -> None:
    buffer = EventBuffer(9)
    play(buffer, [first, second])
    assert drain(buffer) == [R.EXPIRED if R.EXPIRED in (first, second) else second]


EVENTS = st.tuples(
    st.sampled_from([E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED]),
    st.sampled_from(["/a", "/b", "/c"]),
)
STEPS = st.lists(st.one_of(EVENTS, st.sampled_from(R), st.just(READ)), max_size=60)


@given(limit=st.integers(1, 6), steps=STEPS)
def test_reader_learns_of_every_event_after_it_came(limit: int, steps: list[Step]) -> None:
    """By an equal event, or by a gap; and of every gap by a gap."""
    buffer = EventBuffer(limit)
    unread: list[object] = []

    def read() -> None:
        item = buffer.take()
        if isinstance(item, Missed):
            unread.clear()  # all of this came before what is read now
        else:
            unread[:] = [what for what in unread if what != (item.type, item.path)]

    for step in steps:
        if step != READ:
            play(buffer, [step])
            unread.append(step)
        elif len(buffer):
            read()
        assert len(buffer) <= limit
        assert len(buffer._latest) <= len(buffer)
    while len(buffer):
        read()
    assert unread == []
    assert len(buffer._latest) == 0


def test_million_events_take_the_memory_of_the_limit() -> None:
    buffer = EventBuffer(1000)
    hot = WatchEvent(E.DATA_CHANGED, "/hot")
    news = [WatchEvent(E.CREATED, f"/{n}") for n in range(9999)]
    for n in range(1_000_000):
        buffer.put(hot if n % 2 else news[n % 9999])
        if n % 10_000 == 0:
            assert len(buffer) <= 1000
            assert len(buffer._latest) <= len(buffer)
    assert isinstance(buffer.take(), Missed)
