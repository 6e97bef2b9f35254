"""The contention kernel: by table, and by letting lines of contenders live through everything."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._contender_names import leaders_part
from aiolead._recipes.contention.kernel import QueuePosition, in_order, standing
from aiolead._recipes.contention.layouts import Layout, Role
from aiolead.errors import MixedLayoutError


def line_of(*numbers: int, places: int = 1) -> list[str]:
    return [f"{leaders_part(places)}lock-{number:010d}" for number in numbers]


@pytest.mark.parametrize(
    ("rank", "places", "watched", "is_next"),
    [
        (0, 1, [], False),
        (1, 1, [0], True),
        (2, 1, [1, 0], False),
        (5, 1, [4, 3], False),
        (0, 3, [], False),
        (2, 3, [], False),
        (3, 3, [2, 1, 0], False),
        (4, 3, [3, 2, 1], False),
        (7, 2, [6, 5], False),
    ],
)
def test_whom_to_watch(rank: int, places: int, watched: list[int], is_next: bool) -> None:
    line = line_of(*range(8), places=places)
    assert standing(line, line[rank], places) == QueuePosition(
        rank, tuple(line[number] for number in watched), is_next
    )


def test_who_wants_to_know_its_rank_watches_one_more() -> None:
    line = line_of(*range(8), places=2)
    assert standing(line, line[5], 2, look_ahead=True) == QueuePosition(
        5, (line[4], line[3], line[2]), is_next=False
    )
    assert standing(line, line[5], 1, look_ahead=True) == standing(line, line[5], 1)


def test_who_is_not_in_line_has_no_standing() -> None:
    assert standing(line_of(0, 1), "lock-0000000002", 1) is None
    assert standing([], "lock-0000000000", 1) is None


@pytest.mark.parametrize(
    ("names", "order"),
    [
        pytest.param(
            ["lock-0000000010", "lock-0000000009"],
            ["lock-0000000009", "lock-0000000010"],
            id="by number",
        ),
        pytest.param(
            ["_c_aaa-lock-0000000002", "lock-0000000001", "_c_bbb-lock-0000000000"],
            ["_c_bbb-lock-0000000000", "lock-0000000001", "_c_aaa-lock-0000000002"],
            id="not by name",
        ),
        pytest.param(
            ["lock-2147483646", "lock-99999999", "config", "lock-0000000001"],
            ["lock-0000000001", "lock-2147483646"],
            id="who has no number is no contender",
        ),
        pytest.param(
            ["lock--2147483648", "lock-2147483646"],
            ["lock--2147483648", "lock-2147483646"],
            id="beyond the end the numbers are negative",
        ),
    ],
)
def test_the_order_of_a_line(names: list[str], order: list[str]) -> None:
    assert in_order("/lock", names, Layout.CURATOR, Role.LOCK) == order


def test_a_neighbour_that_does_not_fit_is_named() -> None:
    names = ["lock-0000000001", "0123456789abcdef0123456789abcdef__lock__0000000002"]
    with pytest.raises(MixedLayoutError, match="kazoo") as caught:
        in_order("/app/lock", names, Layout.CURATOR, Role.LOCK)
    assert caught.value.neighbour == f"/app/lock/{names[1]}"


@given(st.lists(st.integers(0, 2**31 - 2), unique=True), st.randoms(use_true_random=False))
def test_the_order_is_that_of_the_numbers(numbers: list[int], random: object) -> None:
    names = line_of(*numbers)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert in_order("/", names, Layout.CURATOR, Role.LOCK) == line_of(*sorted(numbers))


# --- a line that lives -------------------------------------------------------------------------


@dataclass
class Waiter:
    """What one contender knows; it learns by a look, or by the departure of one that it watches."""

    name: str
    watches: set[str] = field(default_factory=set)
    nearest: str = ""
    is_next: bool = False
    holds: bool = False


@dataclass
class Scene:
    """A line whose contenders come and go; each behaves as the contender of the recipes does."""

    places: int
    line: list[str] = field(default_factory=list)
    waiters: dict[str, Waiter] = field(default_factory=dict)
    looks: int = 0
    joined: int = 0

    def join(self) -> None:
        self.joined += 1
        (name,) = line_of(self.joined, places=self.places)
        self.line.append(name)
        waiter = self.waiters[name] = Waiter(name)
        self.look(waiter)

    def look(self, waiter: Waiter) -> None:
        self.looks += 1
        place = standing(self.line, waiter.name, self.places)
        assert place is not None
        assert set(place.watch) <= set(self.line)
        waiter.watches = set(place.watch)
        waiter.nearest = place.watch[0] if place.watch else ""
        waiter.is_next = place.is_next
        waiter.holds = not place.watch

    def leave(self, index: int) -> list[Waiter]:
        """One goes; whoever watched it acts on what it knows, and is returned."""
        name = self.line.pop(index)
        del self.waiters[name]
        woken = [waiter for waiter in self.waiters.values() if name in waiter.watches]
        for waiter in woken:
            if waiter.is_next and name == waiter.nearest:
                waiter.watches, waiter.holds = set(), True  # without another look
            else:
                self.look(waiter)
        return woken

    def check(self) -> None:
        may_hold = set(self.line[: self.places])
        for name, waiter in self.waiters.items():
            assert waiter.holds == (name in may_hold), f"{name} of {self.line}"
            if not waiter.holds:
                assert waiter.watches <= set(self.line), "it waits for what has gone"


STEPS = st.lists(st.one_of(st.none(), st.integers(0, 1000)), max_size=60)
"""None joins; a number makes one of the line leave."""


@given(places=st.integers(1, 5), steps=STEPS)
def test_no_wake_up_is_lost_and_nobody_holds_too_early(
    places: int, steps: list[int | None]
) -> None:
    scene = Scene(places)
    for step in steps:
        if step is None or not scene.line:
            scene.join()
        else:
            woken = scene.leave(step % len(scene.line))
            # One that holds nothing back for others is woken: bounded, however long the line.
            assert len(woken) <= (2 if places == 1 else places)
        scene.check()


@given(places=st.integers(1, 5), length=st.integers(1, 60))
def test_in_the_order_of_arrival_each_departure_lets_one_in(places: int, length: int) -> None:
    scene = Scene(places)
    for _ in range(length):
        scene.join()
    while scene.line:
        looks = scene.looks
        before = {name for name, waiter in scene.waiters.items() if waiter.holds}
        woken = scene.leave(0)
        let_in = {name for name, waiter in scene.waiters.items() if waiter.holds} - before
        assert len(let_in) == (1 if len(scene.line) >= places else 0)
        if places == 1:
            # The next one comes in without a look; the one behind it looks meanwhile.
            assert scene.looks - looks <= 1
            assert len(woken) == min(2, len(scene.line))
        else:
            assert len(woken) <= places
        scene.check()


@given(
    places=st.integers(1, 4),
    rank=st.integers(0, 12),
    gone=st.sets(st.integers(0, 11)),
)
def test_whichever_go_who_may_hold_misses_one_that_it_watches(
    places: int, rank: int, gone: set[int]
) -> None:
    """Departures that come in one go, so that nobody has looked in between."""
    line = line_of(*range(13), places=places)
    place = standing(line, line[rank], places)
    assert place is not None
    left = [name for number, name in enumerate(line) if number not in gone or number >= rank]
    may_hold = left.index(line[rank]) < places
    missed = [name for name in place.watch if name not in left]
    if may_hold and rank >= places:
        assert missed
    if place.is_next and place.watch[0] in missed:
        assert may_hold
