"""Readers and writers in one line: by table, and by letting lines live through everything."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._recipes.contention.kernel import QueuePosition, holding, in_order, sharing
from aiolead._recipes.contention.layouts import Layout, Role

GUID = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-"


def line_of(kinds: str) -> list[str]:
    """A line such as "rrw"; numbers follow from the place."""
    markers = {"r": "__READ__", "w": "__WRIT__"}
    return [f"{markers[kind]}{number:010d}" for number, kind in enumerate(kinds)]


def role_of(name: str) -> Role:
    return Role.READ if Layout.CURATOR._is_reader(name) else Role.WRITE


@pytest.mark.parametrize(
    ("kinds", "rank", "watched", "is_next"),
    [
        ("r", 0, [], False),
        ("w", 0, [], False),
        ("rrr", 0, [], False),
        ("wr", 1, [0], True),  # a writer that becomes a reader lets it in, too
        ("rw", 1, [0], True),  # a reader becomes nothing else
        ("ww", 1, [0], False),  # a writer may have become a reader
        ("rrw", 2, [1], False),
        ("rwr", 1, [1], True),
        ("wrwr", 2, [2], False),
        ("wrrr", 1, [0], True),
        ("rwrw", 3, [2], False),
    ],
)
def test_whom_the_last_one_watches(
    kinds: str, rank: int, watched: list[int], is_next: bool
) -> None:
    line = line_of(kinds)
    watch = tuple(line[number] for number in watched)
    place = sharing(line, line[-1], Layout.CURATOR, role_of(line[-1]))
    assert place == QueuePosition(rank, watch, is_next)


def test_who_is_not_in_line_has_no_standing() -> None:
    assert sharing(line_of("rw"), "__READ__0000000007", Layout.CURATOR, Role.READ) is None


@pytest.mark.parametrize(
    ("kinds", "holders"), [("", 0), ("r", 1), ("w", 1), ("rrwr", 2), ("wrr", 1), ("rrr", 3)]
)
def test_how_many_hold(kinds: str, holders: int) -> None:
    assert holding(line_of(kinds), 1, Layout.CURATOR, Role.READ) == holders


def test_curators_line_is_ordered_by_the_numbers() -> None:
    """It creates a reader with the number of the writer that its thread holds."""
    names = [f"{GUID}__READ__0000000003", "__WRIT__0000000004", f"{GUID}__WRIT__0000000003"]
    line = in_order("/rw", names, Layout.CURATOR, Role.WRITE)
    assert line[2] == "__WRIT__0000000004"
    place = sharing(line, line[2], Layout.CURATOR, Role.WRITE)
    assert place is not None
    assert (place.rank, place.is_next) == (2, False)


@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO, Layout.AIOZK])
def test_a_downgraded_writer_keeps_its_place(layout: Layout) -> None:
    writer = layout._prefix(Role.WRITE, 5, 1) + "0000000007"
    reader = layout._downgraded(writer)
    assert layout._is_reader(reader)
    assert not layout._is_reader(writer)
    assert layout._is_like_ours(Role.READ, reader)
    assert reader.endswith("0000000007")


# --- a line that lives -------------------------------------------------------------------------


@dataclass
class Waiter:
    name: str
    watches: set[str] = field(default_factory=set)
    is_next: bool = False
    holds: bool = False


@dataclass
class Scene:
    """Readers and writers come, go and downgrade; each behaves as the contender does."""

    line: list[str] = field(default_factory=list)
    waiters: dict[str, Waiter] = field(default_factory=dict)
    joined: int = 0

    def join(self, kind: str) -> None:
        name = f"{'__READ__' if kind == 'r' else '__WRIT__'}{self.joined:010d}"
        self.joined += 1
        self.line.append(name)
        waiter = self.waiters[name] = Waiter(name)
        self.look(waiter)

    def look(self, waiter: Waiter) -> None:
        place = sharing(self.line, waiter.name, Layout.CURATOR, role_of(waiter.name))
        assert place is not None
        assert len(place.watch) <= 1
        waiter.watches = set(place.watch)
        waiter.is_next = place.is_next
        waiter.holds = not place.watch

    def leave(self, name: str) -> None:
        self.line.remove(name)
        self.waiters.pop(name, None)
        self._gone(name)

    def downgrade(self, name: str) -> None:
        reader = name.replace("__WRIT__", "__READ__")
        self.line[self.line.index(name)] = reader
        self.waiters.pop(name)
        self.waiters[reader] = Waiter(reader, holds=True)
        self._gone(name)

    def _gone(self, name: str) -> None:
        for waiter in self.waiters.values():
            if name in waiter.watches:
                if waiter.is_next:
                    waiter.watches, waiter.holds = set(), True
                else:
                    self.look(waiter)

    def check(self) -> None:
        holders = set(self.line[: holding(self.line, 1, Layout.CURATOR, Role.READ)])
        for name, waiter in self.waiters.items():
            assert waiter.holds == (name in holders), f"{name} of {self.line}"
            assert waiter.watches <= set(self.line), "it waits for what has gone"


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["r", "w"]),
        st.tuples(st.sampled_from(["leave", "downgrade"]), st.integers(0, 1000)),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_wake_up_is_lost_and_no_writer_holds_beside_anybody(
    steps: list[str | tuple[str, int]],
) -> None:
    scene = Scene()
    for step in steps:
        if isinstance(step, str):
            scene.join(step)
        elif scene.line:
            what, number = step
            first = scene.line[0]
            if what == "leave":
                scene.leave(scene.line[number % len(scene.line)])
            elif role_of(first) is Role.WRITE:
                scene.downgrade(first)
        scene.check()
