"""Choosing an instance of a service: strategies, errors, and the split of work. Pure."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from aiolead import ServiceInstance
from aiolead._recipes.group import Split, score
from aiolead.errors import ConfigurationError, UsageError
from aiolead.types import (
    ConsistentHash,
    DownPolicy,
    LeastLoaded,
    Picker,
    RoundRobin,
    Strategy,
    WeightedRandom,
)


def instances(count: int, **options: float) -> list[ServiceInstance]:
    return [ServiceInstance(name="s", id=f"i{n}", registered_at=0, **options) for n in range(count)]


HUGE = b'{"name": "s", "id": "%d", "weight": 1e100, "load": 1e100}'


@pytest.mark.parametrize(
    "strategy",
    [
        RoundRobin(),
        WeightedRandom(random.Random(1)),
        LeastLoaded(random.Random(1)),
        ConsistentHash(),
    ],
)
def test_extreme_weights_and_loads_can_be_summed(strategy: Strategy) -> None:
    """The greatest weights and loads that `from_json` takes, and the least."""
    every = [
        replace(ServiceInstance.from_json(HUGE % number), id=f"i{number}") for number in range(100)
    ]
    every += instances(3, weight=5e-324, load=1e100)
    for number in range(20):
        assert strategy.choose(every, f"key {number}") in every
    with pytest.raises(ValueError, match="weight"):
        ServiceInstance.from_json(HUGE.replace(b"e100", b"e300") % 1)


class Fixed:
    """A view whose value a test sets."""

    def __init__(self, every: list[ServiceInstance]) -> None:
        self.every = every

    @property
    def value(self) -> dict[str, ServiceInstance]:
        return {each.id: each for each in self.every}


# --- strategies --------------------------------------------------------------------------------


def test_round_robin_takes_turns_by_weight() -> None:
    a, b, c = instances(3)
    strategy = RoundRobin()
    assert [strategy.choose([a, b, c], None).id for _ in range(6)] == ["i0", "i1", "i2"] * 2
    heavy = replace(a, weight=2.0)
    chosen = [strategy.choose([heavy, b], None).id for _ in range(6)]
    assert Counter(chosen) == {"i0": 4, "i1": 2}
    assert "i1i1" not in "".join(chosen)
    # A late one gets its share, and no more.
    assert Counter(strategy.choose([a, b, c], None).id for _ in range(30)) == {
        "i0": 10,
        "i1": 10,
        "i2": 10,
    }


def test_random_choice_goes_by_weight() -> None:
    a, b = instances(2)
    strategy = WeightedRandom(random.Random(1))
    chosen = Counter(strategy.choose([replace(a, weight=3.0), b], None).id for _ in range(4000))
    assert 2850 < chosen["i0"] < 3150
    assert WeightedRandom().choose([a], None) is a


def test_least_loaded_instance_is_chosen() -> None:
    a, b, c = (replace(each, load=load) for each, load in zip(instances(3), (5, 2, 4), strict=True))
    strategy = LeastLoaded(random.Random(1))
    assert strategy.choose([a, b, c], None) is b
    assert strategy.choose([replace(a, weight=5.0), b, c], None).id == "i0"
    # One without a load counts as the others do on average: neither flooded nor starved.
    silent = replace(a, load=None)
    assert strategy.choose([silent, b, c], None) is b
    assert strategy.choose([silent, replace(b, load=9), c], None) is c
    assert {strategy.choose(instances(3), None).id for _ in range(50)} == {"i0", "i1", "i2"}


def test_sample_of_two_does_not_always_choose_the_least_loaded() -> None:
    every = [replace(each, load=float(n)) for n, each in enumerate(instances(4))]
    strategy = LeastLoaded(random.Random(1), sample=2)
    chosen = Counter(strategy.choose(every, None).id for _ in range(600))
    assert chosen["i0"] > chosen["i1"] > chosen["i2"] > chosen["i3"] == 0
    with pytest.raises(ConfigurationError, match=r"^sample"):
        LeastLoaded(sample=0)


def test_keys_keep_their_instance_and_few_keys_move() -> None:
    strategy = ConsistentHash()
    every = instances(5)
    keys = [f"key-{n}" for n in range(2000)]
    before = {key: strategy.choose(every, key).id for key in keys}
    assert all(300 < count < 500 for count in Counter(before.values()).values())
    gone = every[2].id
    after = {key: strategy.choose([e for e in every if e.id != gone], key).id for key in keys}
    assert {key for key in keys if before[key] != after[key]} == {
        key for key in keys if before[key] == gone
    }
    heavier = [replace(every[0], weight=2.0), *every[1:]]
    moved = {key for key in keys if strategy.choose(heavier, key).id != before[key]}
    assert all(strategy.choose(heavier, key).id == "i0" for key in moved)
    assert 200 < len(moved) < 400
    with pytest.raises(UsageError):
        strategy.choose(every, None)


def test_hash_never_changes() -> None:
    """Other processes, machines and versions have to agree: to change it breaks the protocol."""
    assert score("key", "name") == 0.635000139201556
    assert score("ke", "yname") != score("key", "name")
    assert 0 < min(score(str(n), "x") for n in range(1000)) < 0.01
    assert 0.99 < max(score(str(n), "x") for n in range(1000)) < 1


# --- picking -----------------------------------------------------------------------------------


def test_disabled_and_weightless_instances_are_left_out() -> None:
    a, b, c = instances(3)
    view = Fixed([replace(a, enabled=False), replace(b, weight=0.0), c])
    picker = Picker(view, RoundRobin())
    assert [picker.pick() for _ in range(3)] == [c] * 3
    view.every = view.every[:2]
    assert picker.pick() is None


def test_failing_instance_is_left_out_for_a_while() -> None:
    a, b = instances(2)
    now = 100.0
    picker = Picker(Fixed([a, b]), RoundRobin(), clock=lambda: now)
    picker.report_error(a)
    assert not picker.is_down(a)
    now += 20
    picker.report_error(a)
    assert picker.is_down(a)
    assert {each.id for _ in range(4) if (each := picker.pick())} == {"i1"}
    picker.report_error(b)
    picker.report_error(b)
    assert picker.pick() is None
    # From the first error on, as Curator counts.
    now += 10.1
    assert not picker.is_down(a)
    assert picker.pick() == a
    picker.report_error(a)
    assert picker.pick() == a


def test_restarted_instance_begins_without_errors() -> None:
    (a,) = instances(1)
    view = Fixed([a])
    policy = DownPolicy(timeout=1000, threshold=1)
    picker = Picker(view, RoundRobin(), down=policy, clock=lambda: 100.0)
    picker.report_error(a)
    # Other data of the same one changes nothing.
    view.every = [replace(a, load=1.0)]
    assert picker.pick() is None
    view.every = [replace(a, registered_at=1.0)]
    assert picker.pick() == view.every[0]


@pytest.mark.parametrize("options", [{"timeout": -1}, {"threshold": 0}])
def test_invalid_down_policy_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(options))}"):
        DownPolicy(**options)


# --- splitting ---------------------------------------------------------------------------------


def owners(items: list[str], members: list[str], split: Split | None = None) -> dict[str, str]:
    shares = (split or Split()).shares(items, members)
    return {item: member for member, share in shares.items() for item in share}


@pytest.mark.parametrize(("items", "members"), [(1, 3), (7, 3), (12, 4), (100, 7), (3, 3), (0, 2)])
def test_split_gives_each_item_to_one_member_evenly(items: int, members: int) -> None:
    names, who = [f"item-{n}" for n in range(items)], [f"m{n}" for n in range(members)]
    shares = Split().shares(names, who)
    assert sorted(item for share in shares.values() for item in share) == sorted(names)
    sizes = {len(share) for share in shares.values()}
    assert max(sizes) - min(sizes) <= 1
    # In whatever order they are given, and whatever was split before.
    assert owners(names[::-1], who[::-1]) == owners(names, who)
    assert Split().shares(names, []) == {}


@pytest.mark.parametrize(("items", "members"), [(100, 4), (300, 10), (200, 20)])
def test_changed_membership_moves_little_more_than_a_share(items: int, members: int) -> None:
    names, who = [f"item-{n}" for n in range(items)], [f"m{n}" for n in range(members)]
    split = Split()
    before = owners(names, who, split)
    joined = owners(names, [*who, "new"], split)
    moved = sum(before[item] != joined[item] for item in names)
    assert moved <= 2.5 * items / (members + 1) + 1
    left = owners(names, who[1:], split)
    assert left == owners(names, who[1:]), "an earlier split makes no difference"
    assert sum(before[item] != left[item] for item in names) <= 2.5 * items / members + 1
    fewer = owners(names[5:], who, split)
    assert fewer == owners(names[5:], who)
