"""A queue whose contenders allow different numbers of leaders, as while `leaders=` is changed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._contender_names import leaders_of, leading
from aiolead._recipes.contention.kernel import QueuePosition, holding, standing
from aiolead._recipes.contention.layouts import LAYOUTS, Layout, Role
from aiolead.errors import ConfigurationError

# --- what a name says ----------------------------------------------------------------------------


def name_of(number: int, leaders: int, layout: Layout = Layout.CURATOR) -> str:
    return f"{layout._prefix(Role.ELECTION, 5, number, leaders)}{number:010d}"


def queue_of(*leaders: int) -> list[str]:
    return [name_of(number, each) for number, each in enumerate(leaders)]


ELECTIONS = [
    *(layout for layout in LAYOUTS if layout._has(Role.ELECTION)),
    Layout(election="{id}-job-"),
]


@pytest.mark.parametrize("layout", ELECTIONS, ids=repr)
@pytest.mark.parametrize("leaders", [1, 2, 10, 1000])
def test_name_says_how_many_may_lead_or_layout_refuses_the_number(
    layout: Layout, leaders: int
) -> None:
    if layout == Layout.AIOZK and leaders > 1:
        with pytest.raises(ConfigurationError, match=f"not {leaders}: "):
            layout._require_leaders(leaders)
    else:
        layout._require_leaders(leaders)
        assert leaders_of(name_of(7, leaders, layout)) == leaders


@pytest.mark.parametrize(
    "name",
    [
        "_c_0b1c2d3e-0000-4000-8000-000000000000-latch-0000000001",
        "0123456789abcdef0123456789abcdef__lock__0000000001",
        "1700000000",
        "leaders-0000000001",
        "-0leaders-latch-0000000001",
    ],
)
def test_contender_that_says_no_number_allows_one_leader(name: str) -> None:
    assert leaders_of(name) == 1


# --- who holds, and whom the others watch --------------------------------------------------------


@pytest.mark.parametrize(
    ("leaders", "watched", "extra"),
    [
        # The last one is the contender in question; None: it holds.
        ((1, 2), [0], 1),
        ((2, 1), [0], 0),
        ((2, 2), None, 0),
        ((2, 1, 2), [1, 0], 0),
        ((3, 1, 3), [1], 2),
        ((1, 3, 3), [0], 1),
        ((3, 2, 3), [1, 0], 1),
        ((2, 3, 3), [1, 0], 1),
        ((1, 1, 5, 5), [1], 3),
        ((3, 3, 2, 5), [2, 1], 2),
        ((3, 3, 3, 5), [2, 1, 0], 1),
        ((1, 1, 1, 2), [2, 1], 1),
    ],
)
def test_least_number_of_those_before_it_and_its_own_counts(
    leaders: tuple[int, ...], watched: list[int] | None, extra: int
) -> None:
    queue = queue_of(*leaders)
    rank, places = len(leaders) - 1, leaders[-1]
    is_next = places == 1 and rank == 1
    wanted = tuple(queue[number] for number in watched or ())
    assert standing(queue, queue[-1], places) == QueuePosition(rank, wanted, is_next)
    looking = standing(queue, queue[-1], places, look_ahead=True)
    assert looking is not None
    assert (looking.rank, looking.extra) == (rank, 0 if watched is None else _extra(leaders))
    assert set(wanted) <= set(looking.watch)
    if rank < places:
        assert set(looking.watch) == (set() if watched is None else set(queue[:-1]))


def _extra(leaders: tuple[int, ...]) -> int:
    """By trying: the first ones leave, one by one."""
    rank, places = len(leaders) - 1, leaders[-1]
    left = next(n for n in range(rank + 1) if rank - n < min(leaders[n:]))
    return left - (rank - places + 1)


@pytest.mark.parametrize(
    ("leaders", "count"),
    [((), 0), ((1,), 1), ((1, 2), 1), ((2, 1), 1), ((2, 2, 1), 2), ((3, 3, 2, 3), 2)],
)
def test_holders_are_the_first_ones_as_far_as_all_of_them_allow(
    leaders: tuple[int, ...], count: int
) -> None:
    queue = queue_of(*leaders)
    assert leading(queue) == count
    assert leading(queue, 1) == min(count, 1)
    assert holding(queue, 1000, Layout.CURATOR, Role.ELECTION) == count


# --- a queue that lives --------------------------------------------------------------------------


@dataclass
class Waiter:
    """What one contender knows: it looks when one that it watches leaves, as the recipe does."""

    name: str
    places: int
    watches: set[str] = field(default_factory=set)
    nearest: str = ""
    is_next: bool = False
    holds: bool = False


@dataclass
class Scene:
    queue: list[str] = field(default_factory=list)
    waiters: dict[str, Waiter] = field(default_factory=dict)
    joined: int = 0
    looks_ahead: bool = False

    def join(self, places: int) -> None:
        self.joined += 1
        name = name_of(self.joined, places)
        self.queue.append(name)
        waiter = self.waiters[name] = Waiter(name, places)
        self.look(waiter)

    def look(self, waiter: Waiter) -> None:
        place = standing(self.queue, waiter.name, waiter.places, look_ahead=self.looks_ahead)
        assert place is not None
        assert set(place.watch) <= set(self.queue[: place.rank])
        assert len(place.watch) <= waiter.places + 1
        waiter.watches = set(place.watch)
        waiter.nearest = place.watch[0] if place.watch else ""
        waiter.is_next = place.is_next
        was_holding, waiter.holds = waiter.holds, not place.watch
        assert waiter.holds or not was_holding, "it had a place, and has none"

    def leave(self, *gone: str) -> list[Waiter]:
        """Some go in one moment; each that watched one of them acts on what it knows."""
        for name in gone:
            self.queue.remove(name)
            del self.waiters[name]
        woken = [waiter for waiter in self.waiters.values() if waiter.watches.intersection(gone)]
        for waiter in woken:
            if waiter.is_next and waiter.nearest in gone:
                waiter.watches, waiter.holds = set(), True
            else:
                self.look(waiter)
        return woken

    def check(self) -> None:
        holders = [waiter for waiter in self.waiters.values() if waiter.holds]
        # The promise to each of them, whatever the others were started with.
        assert all(len(holders) <= waiter.places for waiter in holders), self.queue
        may_hold = self.queue[: leading(self.queue)]
        assert [waiter.name for waiter in holders] == may_hold, self.queue
        assert not self.queue or holders, "somebody holds"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("joins"), st.integers(1, 4)),
        st.tuples(st.just("leave"), st.sets(st.integers(0, 30), min_size=1, max_size=4)),
    ),
    max_size=50,
)


@given(steps=STEPS, looks_ahead=st.booleans())
def test_mixed_queue_has_no_more_holders_than_each_allows_and_loses_no_wake_up(
    steps: list[tuple[str, int | set[int]]], looks_ahead: bool
) -> None:
    scene = Scene(looks_ahead=looks_ahead)
    for _, what in steps:
        if isinstance(what, int):
            scene.join(what)
        elif scene.queue:
            scene.leave(*{scene.queue[number % len(scene.queue)] for number in what})
        scene.check()


def test_replacing_processes_one_by_one_ends_with_the_new_number() -> None:
    """From one leader to two, and back: the old processes leave one by one, as new ones join."""
    for old, new in ((1, 2), (2, 1)):
        scene = Scene()
        for _ in range(3):
            scene.join(old)
        for name in list(scene.queue):
            scene.join(new)
            scene.check()
            scene.leave(name)
            scene.check()
        assert sum(waiter.holds for waiter in scene.waiters.values()) == new
