"""The buffer of a stream: in order, merged where that says as much, and bounded."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._session.watches.persistent import EventBuffer
from aiolead.model import EventType, Missed, MissedReason, WatchEvent

E = EventType
R = MissedReason


def drain(buffer: EventBuffer) -> list[WatchEvent | Missed]:
    return [buffer.take() for _ in range(len(buffer))]


def put(buffer: EventBuffer, *events: tuple[EventType, str]) -> None:
    for type_, path in events:
        buffer.put(WatchEvent(type_, path))


def told(buffer: EventBuffer) -> list[tuple[EventType, str] | MissedReason]:
    return [
        item.reason if isinstance(item, Missed) else (item.type, item.path)
        for item in drain(buffer)
    ]


def test_events_are_read_in_the_order_in_which_they_came() -> None:
    buffer = EventBuffer(10)
    events = [(E.CREATED, "/a"), (E.DATA_CHANGED, "/a"), (E.DELETED, "/a"), (E.CREATED, "/a")]
    put(buffer, *events)
    assert told(buffer) == events
    assert len(buffer) == 0


@pytest.mark.parametrize("type_", [E.DATA_CHANGED, E.CHILDREN_CHANGED])
def test_a_change_is_merged_into_an_unread_one_that_says_the_same(type_: EventType) -> None:
    buffer = EventBuffer(10)
    for zxid, path in enumerate(["/a", "/b", "/a", "/b", "/a"]):
        buffer.put(WatchEvent(type_, path, zxid))
    # Each at its first place, with what is known of the last of them.
    assert drain(buffer) == [WatchEvent(type_, "/a", 4), WatchEvent(type_, "/b", 3)]
    buffer.put(WatchEvent(type_, "/a", 5))
    assert drain(buffer) == [WatchEvent(type_, "/a", 5)]


def test_changes_of_data_and_of_children_are_two_things() -> None:
    buffer = EventBuffer(10)
    changes = [(E.DATA_CHANGED, "/a"), (E.CHILDREN_CHANGED, "/a")]
    put(buffer, *changes, *changes)
    assert told(buffer) == changes


@pytest.mark.parametrize("type_", [E.CREATED, E.DELETED])
def test_nothing_is_merged_across_a_creation_or_deletion(type_: EventType) -> None:
    buffer = EventBuffer(10)
    events = [(E.DATA_CHANGED, "/a"), (type_, "/a"), (E.DATA_CHANGED, "/a")]
    put(buffer, *events, (E.DATA_CHANGED, "/a"))
    assert told(buffer) == events


def test_what_is_read_is_not_merged_into() -> None:
    buffer = EventBuffer(10)
    put(buffer, (E.DATA_CHANGED, "/a"), (E.DELETED, "/a"), (E.DATA_CHANGED, "/a"))
    buffer.take()
    put(buffer, (E.DATA_CHANGED, "/a"))
    assert told(buffer) == [(E.DELETED, "/a"), (E.DATA_CHANGED, "/a")]


def test_creations_and_deletions_are_never_merged() -> None:
    buffer = EventBuffer(10)
    events = [(E.CREATED, "/a"), (E.CREATED, "/a"), (E.DELETED, "/a"), (E.DELETED, "/a")]
    put(buffer, *events)
    assert told(buffer) == events


def test_one_too_many_makes_all_of_them_one_gap() -> None:
    buffer = EventBuffer(3)
    put(buffer, *((E.CREATED, f"/{n}") for n in range(3)))
    put(buffer, (E.CREATED, "/3"))
    assert told(buffer) == [R.OVERFLOW]


def test_after_a_gap_it_goes_on() -> None:
    buffer = EventBuffer(3)
    put(buffer, *((E.CREATED, f"/{n}") for n in range(5)))
    assert told(buffer) == [R.OVERFLOW, (E.CREATED, "/4")]


def test_a_change_that_is_merged_needs_no_room() -> None:
    buffer = EventBuffer(2)
    put(buffer, (E.DATA_CHANGED, "/a"), (E.DATA_CHANGED, "/b"), *[(E.DATA_CHANGED, "/a")] * 9)
    assert told(buffer) == [(E.DATA_CHANGED, "/a"), (E.DATA_CHANGED, "/b")]


def test_nothing_is_merged_across_a_gap() -> None:
    buffer = EventBuffer(9)
    put(buffer, (E.DATA_CHANGED, "/a"))
    buffer.miss(R.RECONNECTED)
    put(buffer, (E.DATA_CHANGED, "/a"))
    assert told(buffer) == [(E.DATA_CHANGED, "/a"), R.RECONNECTED, (E.DATA_CHANGED, "/a")]


def test_gaps_with_nothing_between_them_are_one() -> None:
    for first, second in itertools.product(R, repeat=2):
        buffer = EventBuffer(9)
        buffer.miss(first)
        buffer.miss(second)
        assert told(buffer) == [R.EXPIRED if R.EXPIRED in (first, second) else second]


def test_a_gap_that_finds_no_room_makes_some() -> None:
    buffer = EventBuffer(2)
    put(buffer, (E.CREATED, "/a"), (E.CREATED, "/b"))
    buffer.miss(R.RECONNECTED)
    assert told(buffer) == [R.RECONNECTED]


def test_that_a_session_was_over_is_not_lost_in_an_overflow() -> None:
    buffer = EventBuffer(2)
    buffer.miss(R.EXPIRED)
    put(buffer, (E.CREATED, "/a"), (E.CREATED, "/b"))
    assert told(buffer) == [R.EXPIRED]


def test_the_smallest_buffer_holds_one() -> None:
    buffer = EventBuffer(1)
    put(buffer, (E.CREATED, "/a"))
    assert told(buffer) == [(E.CREATED, "/a")]
    put(buffer, (E.CREATED, "/a"), (E.CREATED, "/b"))
    assert told(buffer) == [R.OVERFLOW]


EVENTS = st.tuples(
    st.sampled_from([E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED]),
    st.sampled_from(["/a", "/b", "/c"]),
)
STEPS = st.lists(st.one_of(EVENTS, st.sampled_from(R), st.just("read")), max_size=60)


@given(limit=st.integers(1, 6), steps=STEPS)
def test_of_every_event_the_reader_learns_after_it_came(limit: int, steps: list[object]) -> None:
    """By one that says the same, or by a gap; and of every gap by a gap."""
    buffer = EventBuffer(limit)
    owed: list[object] = []

    def read() -> None:
        item = buffer.take()
        if isinstance(item, Missed):
            owed.clear()  # all of this came before what is read now
        else:
            owed[:] = [what for what in owed if what != (item.type, item.path)]

    for step in steps:
        if step == "read":
            if len(buffer):
                read()
        elif isinstance(step, MissedReason):
            buffer.miss(step)
            owed.append(step)
        else:
            put(buffer, step)  # type: ignore[arg-type]
            owed.append(step)
        assert len(buffer) <= limit
        assert len(buffer._latest) <= len(buffer)
    while len(buffer):
        read()
    assert owed == []
    assert len(buffer._latest) == 0


def test_a_million_events_cost_what_the_limit_costs() -> None:
    buffer = EventBuffer(1000)
    hot, news = (
        WatchEvent(E.DATA_CHANGED, "/hot"),
        [WatchEvent(E.CREATED, f"/{n}") for n in range(9999)],
    )
    for n in range(1_000_000):
        buffer.put(hot if n % 2 else news[n % 9999])
        if n % 10_000 == 0:
            assert len(buffer) <= 1000
            assert len(buffer._latest) <= len(buffer)
    assert isinstance(buffer.take(), Missed)
