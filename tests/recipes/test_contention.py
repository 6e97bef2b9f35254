"""The contention kernel: by table, and by queues whose contenders come and go in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._recipes.kernel import QueuePosition, holding, in_order, sharing, standing
from aiolead._recipes.layouts import LAYOUTS, Layout, Role, check_leaders, names_of
from aiolead._util.contender_names import ElectionRules, leaders_of, leading, rules_of
from aiolead.errors import ConfigurationError, MixedLayoutError

GUID = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-"
MARKERS = {"r": "__READ__", "w": "__WRIT__"}


def queue_of(*numbers: int, places: int = 1) -> list[str]:
    return [f"{ElectionRules(places).part}lock-{number:010d}" for number in numbers]


def candidate(number: int, leaders: int, layout: Layout = Layout.CURATOR) -> str:
    rules = ElectionRules(leaders).part
    return f"{names_of(layout, Role.ELECTION).prefix(5, number, rules)}{number:010d}"


def candidates(*leaders: int) -> list[str]:
    """Contenders that allow so many leaders each."""
    return [candidate(number, each) for number, each in enumerate(leaders)]


def readers_and_writers(kinds: str) -> list[str]:
    """A queue such as "rrw"."""
    return [f"{MARKERS[kind]}{number:010d}" for number, kind in enumerate(kinds)]


def share(queue: list[str], name: str) -> QueuePosition | None:
    role = Role.READ if names_of(Layout.CURATOR, Role.READ).is_reader(name) else Role.WRITE
    return sharing(queue, name, names_of(Layout.CURATOR, role))


# --- the order of a queue ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["lock-0000000010", "lock-0000000009"], ["lock-0000000009", "lock-0000000010"]),
        (
            ["_c_aaa-lock-0000000002", "lock-0000000001", "_c_bbb-lock-0000000000"],
            ["_c_bbb-lock-0000000000", "lock-0000000001", "_c_aaa-lock-0000000002"],
        ),
        (
            ["lock-2147483646", "lock-99999999", "config", "lock-0000000001"],
            ["lock-0000000001", "lock-2147483646"],
        ),
        (["lock--2147483648", "lock-2147483646"], ["lock--2147483648", "lock-2147483646"]),
    ],
    ids=["by number", "not by name", "children without a number", "negative after the last"],
)
def test_queue_is_ordered_by_number(names: list[str], order: list[str]) -> None:
    assert in_order("/lock", names, names_of(Layout.CURATOR, Role.LOCK)) == order


@given(st.lists(st.integers(0, 2**31 - 2), unique=True), st.randoms(use_true_random=False))
def test_any_queue_is_ordered_by_number(numbers: list[int], random: object) -> None:
    names = queue_of(*numbers)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert in_order("/", names, names_of(Layout.CURATOR, Role.LOCK)) == queue_of(*sorted(numbers))


def test_contender_of_another_layout_is_named() -> None:
    names = ["lock-0000000001", "0123456789abcdef0123456789abcdef__lock__0000000002"]
    with pytest.raises(MixedLayoutError, match="kazoo") as caught:
        in_order("/app/lock", names, names_of(Layout.CURATOR, Role.LOCK))
    assert caught.value.neighbour == f"/app/lock/{names[1]}"


def test_curators_readers_and_writers_are_ordered_by_number() -> None:
    """It creates a reader with the number of the writer that its thread holds."""
    names = [f"{GUID}__READ__0000000003", "__WRIT__0000000004", f"{GUID}__WRIT__0000000003"]
    queue = in_order("/rw", names, names_of(Layout.CURATOR, Role.WRITE))
    assert queue[2] == "__WRIT__0000000004"
    place = share(queue, queue[2])
    assert place is not None
    assert (place.rank, place.is_next) == (2, False)


# --- whom a contender watches --------------------------------------------------------------------


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
def test_contender_watches_those_before(
    rank: int, places: int, watched: list[int], is_next: bool
) -> None:
    queue = queue_of(*range(8), places=places)
    assert standing(queue, queue[rank], places) == QueuePosition(
        rank, tuple(queue[number] for number in watched), is_next
    )


def test_contender_that_looks_ahead_watches_one_more() -> None:
    queue = queue_of(*range(8), places=2)
    assert standing(queue, queue[5], 2, look_ahead=True) == QueuePosition(
        5, (queue[4], queue[3], queue[2]), is_next=False
    )
    assert standing(queue, queue[5], 1, look_ahead=True) == standing(queue, queue[5], 1)


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
def test_last_of_readers_and_writers(
    kinds: str, rank: int, watched: list[int], is_next: bool
) -> None:
    queue = readers_and_writers(kinds)
    watch = tuple(queue[number] for number in watched)
    assert share(queue, queue[-1]) == QueuePosition(rank, watch, is_next)


def test_name_that_is_not_in_the_queue_has_no_position() -> None:
    assert standing(queue_of(0, 1), "lock-0000000002", 1) is None
    assert standing([], "lock-0000000000", 1) is None
    assert share(readers_and_writers("rw"), "__READ__0000000007") is None


@pytest.mark.parametrize(
    ("kinds", "holders"), [("", 0), ("r", 1), ("w", 1), ("rrwr", 2), ("wrr", 1), ("rrr", 3)]
)
def test_first_readers_or_the_first_writer_hold(kinds: str, holders: int) -> None:
    assert holding(readers_and_writers(kinds), 1, names_of(Layout.CURATOR, Role.READ)) == holders


@pytest.mark.parametrize("layout", [Layout.CURATOR, Layout.KAZOO, Layout.AIOZK])
def test_downgraded_writer_keeps_its_place(layout: Layout) -> None:
    writer = names_of(layout, Role.WRITE).prefix(5, 1) + "0000000007"
    reader = names_of(layout, Role.WRITE).as_reader(writer)
    assert names_of(layout, Role.READ).is_reader(reader)
    assert not names_of(layout, Role.READ).is_reader(writer)
    assert names_of(layout, Role.READ).ours(reader)
    assert reader.endswith("0000000007")


# --- contenders that allow different numbers of leaders ------------------------------------------

ELECTIONS = [
    *(layout for layout in LAYOUTS if layout.election),
    Layout(election="{id}-job-"),
]


@pytest.mark.parametrize("layout", ELECTIONS, ids=repr)
@pytest.mark.parametrize("leaders", [1, 2, 10, 1000])
def test_name_says_how_many_may_lead_or_is_refused(layout: Layout, leaders: int) -> None:
    if layout == Layout.AIOZK and leaders > 1:
        with pytest.raises(ConfigurationError, match=f"not {leaders}: "):
            check_leaders(names_of(layout, Role.ELECTION), leaders)
    else:
        check_leaders(names_of(layout, Role.ELECTION), leaders)
        assert leaders_of(candidate(7, leaders, layout)) == leaders


@pytest.mark.parametrize("layout", ELECTIONS, ids=repr)
@pytest.mark.parametrize("rules", [ElectionRules(2, 1), ElectionRules(1, 1000)], ids=str)
def test_name_says_from_which_number_leaders_are_changed(
    layout: Layout, rules: ElectionRules
) -> None:
    names = names_of(layout, Role.ELECTION)
    name = f"{names.prefix(5, 26, rules.part)}0000000007"
    assert rules_of(name) == rules
    if layout != Layout.AIOZK:
        assert names.fit(name)
        assert names.count_in(5, name) == 26


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        ((1, None), (1, None), True),
        ((1, None), (2, None), False),
        ((1, None), (2, 1), True),
        ((2, None), (2, 1), True),
        ((2, 1), (1, 2), True),
        ((3, 1), (2, 1), False),
        ((3, None), (2, 1), False),
    ],
)
def test_rules_fit_if_one_accepts_the_number_of_the_other(
    one: tuple[int, int | None], other: tuple[int, int | None], fit: bool
) -> None:
    assert ElectionRules(*one).fit(ElectionRules(*other)) is fit
    assert ElectionRules(*other).fit(ElectionRules(*one)) is fit


def test_copied_layout_refuses_leaders_as_the_original_does() -> None:
    layout = deepcopy(Layout.AIOZK)
    assert layout == Layout.AIOZK
    with pytest.raises(ConfigurationError, match="leaders"):
        check_leaders(names_of(layout, Role.ELECTION), 2)


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


@pytest.mark.parametrize(
    ("leaders", "watched"),
    [
        # The last one is the contender in question; None: it holds.
        ((1, 2), [0]),
        ((2, 1), [0]),
        ((2, 2), None),
        ((2, 1, 2), [1, 0]),
        ((3, 1, 3), [1]),
        ((1, 3, 3), [0]),
        ((3, 2, 3), [1, 0]),
        ((2, 3, 3), [1, 0]),
        ((1, 1, 5, 5), [1]),
        ((3, 3, 2, 5), [2, 1]),
        ((3, 3, 3, 5), [2, 1, 0]),
        ((1, 1, 1, 2), [2, 1]),
    ],
)
def test_least_number_of_those_before_it_and_its_own_counts(
    leaders: tuple[int, ...], watched: list[int] | None
) -> None:
    queue = candidates(*leaders)
    rank, places = len(leaders) - 1, leaders[-1]
    wanted = tuple(queue[number] for number in watched or ())
    is_next = places == 1 and rank == 1
    assert standing(queue, queue[-1], places) == QueuePosition(rank, wanted, is_next)
    looking = standing(queue, queue[-1], places, look_ahead=True)
    assert looking is not None
    # By trying: the first ones leave, one by one.
    left = next(n for n in range(rank + 1) if rank - n < min(leaders[n:]))
    extra = 0 if watched is None else left - (rank - places + 1)
    assert (looking.rank, looking.extra) == (rank, extra)
    assert set(wanted) <= set(looking.watch)
    if rank < places:
        assert set(looking.watch) == (set() if watched is None else set(queue[:-1]))


@pytest.mark.parametrize(
    ("leaders", "count"),
    [((), 0), ((1,), 1), ((1, 2), 1), ((2, 1), 1), ((2, 2, 1), 2), ((3, 3, 2, 3), 2)],
)
def test_first_ones_lead_as_far_as_all_of_them_allow(leaders: tuple[int, ...], count: int) -> None:
    queue = candidates(*leaders)
    assert leading(queue) == count
    assert leading(queue, 1) == min(count, 1)
    assert holding(queue, 1000, names_of(Layout.CURATOR, Role.ELECTION)) == count


# --- a queue whose contenders come and go --------------------------------------------------------


@dataclass(frozen=True)
class Waiter:
    """The knowledge of one contender: from a look, or from the departure of one that it watches."""

    watches: tuple[str, ...] = ()
    is_next: bool = False
    holds: bool = False


class LivingQueue:
    """Each contender behaves as that of the recipes does.

    Args:
        look: where a contender stands.
        count_holders: how many of the queue hold.
    """

    def __init__(
        self,
        look: Callable[[list[str], str], QueuePosition | None],
        count_holders: Callable[[list[str]], int],
    ) -> None:
        self.names: list[str] = []
        self.waiters: dict[str, Waiter] = {}
        self.looks = self.joined = 0
        self._look = look
        self._count_holders = count_holders

    def join(self, prefix: str) -> None:
        name = f"{prefix}{self.joined:010d}"
        self.joined += 1
        self.names.append(name)
        self.waiters[name] = Waiter()
        self._look_again(name)

    def leave(self, *gone: str) -> list[str]:
        """Some go in one moment; each that watched one of them acts on what it knows."""
        for name in gone:
            self.names.remove(name)
            del self.waiters[name]
        return self._notify(gone)

    def downgrade(self, writer: str) -> None:
        reader = writer.replace(MARKERS["w"], MARKERS["r"])
        self.names[self.names.index(writer)] = reader
        self.waiters[reader] = self.waiters.pop(writer)
        self._notify([writer])

    def holders(self) -> list[str]:
        return [name for name in self.names if self.waiters[name].holds]

    def check(self) -> None:
        assert self.holders() == self.names[: self._count_holders(self.names)], self.names
        assert self.holders() or not self.names, "somebody holds"
        for waiter in self.waiters.values():
            assert set(waiter.watches) <= set(self.names), "it waits for one that has left"

    def _notify(self, gone: Sequence[str]) -> list[str]:
        woken = [name for name, each in self.waiters.items() if {*each.watches}.intersection(gone)]
        for name in woken:
            waiter = self.waiters[name]
            if waiter.is_next and waiter.watches[0] in gone:
                self.waiters[name] = Waiter(holds=True)  # without another look
            else:
                self._look_again(name)
        return woken

    def _look_again(self, name: str) -> None:
        self.looks += 1
        place = self._look(self.names, name)
        assert place is not None
        assert set(place.watch) <= set(self.names[: self.names.index(name)])
        assert not (place.watch and self.waiters[name].holds), "it had a place, and has none"
        self.waiters[name] = Waiter(place.watch, place.is_next, not place.watch)


def queue_with(places: int) -> LivingQueue:
    return LivingQueue(
        lambda names, name: standing(names, name, places), lambda names: min(places, len(names))
    )


@given(
    places=st.integers(1, 5),
    steps=st.lists(st.one_of(st.none(), st.integers(0, 1000)), max_size=60),
)
def test_no_notification_is_lost(places: int, steps: list[int | None]) -> None:
    """None joins; a number makes one of the queue leave."""
    queue = queue_with(places)
    for step in steps:
        if step is None or not queue.names:
            queue.join(f"{ElectionRules(places).part}lock-")
        else:
            woken = queue.leave(queue.names[step % len(queue.names)])
            # Bounded, however long the queue is.
            assert len(woken) <= (2 if places == 1 else places)
        queue.check()


@given(places=st.integers(1, 5), length=st.integers(1, 60))
def test_each_departure_of_the_first_lets_one_in(places: int, length: int) -> None:
    queue = queue_with(places)
    for _ in range(length):
        queue.join(f"{ElectionRules(places).part}lock-")
    while queue.names:
        looks, before = queue.looks, set(queue.holders())
        woken = queue.leave(queue.names[0])
        let_in = set(queue.holders()) - before
        assert len(let_in) == (1 if len(queue.names) >= places else 0)
        if places == 1:
            # The next one comes in without a look; the one behind it looks meanwhile.
            assert queue.looks - looks <= 1
            assert len(woken) == min(2, len(queue.names))
        else:
            assert len(woken) <= places
        queue.check()


@given(places=st.integers(1, 4), rank=st.integers(0, 12), gone=st.sets(st.integers(0, 11)))
def test_contender_that_may_hold_misses_a_watched_one(
    places: int, rank: int, gone: set[int]
) -> None:
    """The departures come in one go, so that nobody has looked in between."""
    queue = queue_of(*range(13), places=places)
    place = standing(queue, queue[rank], places)
    assert place is not None
    left = [name for number, name in enumerate(queue) if number not in gone or number >= rank]
    may_hold = left.index(queue[rank]) < places
    missed = [name for name in place.watch if name not in left]
    if may_hold and rank >= places:
        assert missed
    if place.is_next and place.watch[0] in missed:
        assert may_hold


def queue_of_candidates(*, look_ahead: bool = False) -> LivingQueue:
    """Each allows as many leaders as its name says."""

    def look(names: list[str], name: str) -> QueuePosition | None:
        place = standing(names, name, leaders_of(name), look_ahead=look_ahead)
        assert place is None or len(place.watch) <= leaders_of(name) + 1
        return place

    return LivingQueue(look, leading)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("joins"), st.integers(1, 4)),
            st.tuples(st.just("leave"), st.sets(st.integers(0, 30), min_size=1, max_size=4)),
        ),
        max_size=50,
    ),
    look_ahead=st.booleans(),
)
def test_mixed_queue_has_no_more_leaders_than_each_allows_and_loses_no_notification(
    steps: list[tuple[str, int | set[int]]], look_ahead: bool
) -> None:
    queue = queue_of_candidates(look_ahead=look_ahead)
    for _, what in steps:
        if isinstance(what, int):
            queue.join(candidate(queue.joined, what)[:-10])
        elif queue.names:
            queue.leave(*{queue.names[number % len(queue.names)] for number in what})
        queue.check()
        # The promise to each of them, whatever the others were started with.
        assert all(len(queue.holders()) <= leaders_of(name) for name in queue.holders())


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1)])
def test_replacing_processes_one_by_one_ends_with_the_new_number(old: int, new: int) -> None:
    queue = queue_of_candidates()
    for number in range(3):
        queue.join(candidate(number, old)[:-10])
    for name in list(queue.names):
        queue.join(candidate(queue.joined, new)[:-10])
        queue.check()
        queue.leave(name)
        queue.check()
    assert len(queue.holders()) == new


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["r", "w"]),
            st.tuples(st.sampled_from(["leave", "downgrade"]), st.integers(0, 1000)),
        ),
        max_size=60,
    )
)
def test_no_writer_holds_beside_another_contender(steps: list[str | tuple[str, int]]) -> None:
    count = partial(holding, places=1, names=names_of(Layout.CURATOR, Role.READ))
    queue = LivingQueue(share, count)
    for step in steps:
        if isinstance(step, str):
            queue.join(MARKERS[step])
        elif queue.names:
            what, number = step
            if what == "leave":
                queue.leave(queue.names[number % len(queue.names)])
            elif not names_of(Layout.CURATOR, Role.READ).is_reader(queue.names[0]):
                queue.downgrade(queue.names[0])
        queue.check()
        assert all(len(each.watches) <= 1 for each in queue.waiters.values())
