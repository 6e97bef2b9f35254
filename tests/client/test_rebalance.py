"""Who moves when the list of servers changes: load stays even, and no more clients move than must.

What "even" means is counted over many clients, each of which decides alone.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiolead._client.net.host_list import HostList, Server, moves
from aiolead._client.net.known_addresses import KnownAddresses


def servers(first: int, count: int) -> list[Server]:
    return [(f"zk{n}", 2181) for n in range(first, first + count)]


class Strata(random.Random):
    """Its first draw is the middle of the k-th of n strata: over all k, chance is counted out."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__(k)
        self._first: float | None = (k + 0.5) / n

    def random(self) -> float:
        first, self._first = self._first, None
        return super().random() if first is None else first

    def shuffle(self, x: Any) -> None:
        """In place, without a draw: which server of a group it is does not matter here."""


CLIENTS = 200


@settings(deadline=None)
@given(stay=st.integers(0, 6), gone=st.integers(0, 6), came=st.integers(0, 6))
def test_each_group_gets_its_share(stay: int, gone: int, came: int) -> None:
    """Exactly, but for the rounding: one client per server that clients leave."""
    before, now = servers(0, stay + gone), servers(gone, stay + came)
    if not before or not now:
        return
    load: Counter[str] = Counter()
    for server in before:
        for k in range(CLIENTS):
            order = moves(before, now, server, Strata(k, CLIENTS))
            where = order[0] if order else server
            load["old" if where in before else "new"] += 1
    even = CLIENTS * len(before) / len(now)
    assert load["old"] == pytest.approx(stay * even, abs=len(before))
    assert load["new"] == pytest.approx(came * even, abs=len(before))


@settings(deadline=None)
@given(
    stay=st.integers(0, 6), gone=st.integers(0, 6), came=st.integers(0, 6), seed=st.integers(0, 999)
)
def test_who_must_move_does_and_who_moves_can_go_anywhere(
    stay: int, gone: int, came: int, seed: int
) -> None:
    before, now = servers(0, stay + gone), servers(gone, stay + came)
    if not before or not now:
        return
    for server in before:
        order = moves(before, now, server, random.Random(seed))
        assert sorted(order) == sorted(now) or (order == [] and server in now)
        if server not in now:
            assert order
        if len(now) <= len(before) and server in now:
            assert order == []  # its server lacks load: nobody leaves it
        if order and len(now) > len(before):
            assert order[0] not in before  # the old ones have too much


CHANGES = [
    pytest.param(servers(0, 3), servers(0, 5), id="two added"),
    pytest.param(servers(0, 5), servers(0, 3), id="two removed"),
    pytest.param(servers(0, 3), servers(2, 3), id="two replaced"),
    pytest.param(servers(0, 4), servers(3, 3), id="three removed, two added"),
    pytest.param(servers(0, 3), servers(1, 5), id="one removed, three added"),
    pytest.param(servers(0, 3), servers(3, 3), id="all replaced"),
]


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_load_is_even_on_each_server(before: list[Server], now: list[Server]) -> None:
    rng = random.Random(20)
    each = 6000
    load: Counter[Server] = Counter()
    for server in before:
        for _ in range(each):
            order = moves(before, now, server, rng)
            load[order[0] if order else server] += 1
    even = each * len(before) / len(now)
    # Binomial: five standard deviations, of which one in a million draws is beyond.
    assert set(load) == set(now)
    assert all(abs(count - even) < 5 * even**0.5 for count in load.values()), load


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_nobody_moves_without_need(before: list[Server], now: list[Server]) -> None:
    """As many as have to come to the new servers, or have to leave the old ones, and no more."""
    rng = random.Random(21)
    each = 6000
    moved = sum(bool(moves(before, now, server, rng)) for server in before for _ in range(each)) / (
        each * len(before)
    )
    gone = sum(server not in now for server in before) / len(before)
    came = sum(server not in before for server in now) / len(now)
    assert moved == pytest.approx(max(gone, came), abs=0.02)


def test_the_next_ones_are_drawn_like_the_first_one() -> None:
    """A server that does not take us is passed over, and the draw is repeated while it can be."""
    before, now = servers(0, 4), servers(3, 3)  # one stays, two come: an old one for 1 of 9
    seconds: Counter[bool] = Counter()
    rng = random.Random(22)
    for _ in range(9000):
        first, second, _third = moves(before, now, ("zk0", 2181), rng)
        if first not in before:
            seconds[second in before] += 1
    assert seconds[True] / seconds.total() == pytest.approx(1 / 9, abs=0.02)


# --- the list that clients keep ----------------------------------------------------------------


def listed(hosts: list[Server], rng: random.Random) -> HostList:
    return HostList(hosts, rng, KnownAddresses(lambda _job: None))


def at(hosts: HostList, server: Server) -> HostList:
    assert hosts.opened(server)
    return hosts


def test_the_server_that_was_lost_comes_last() -> None:
    for seed in range(20):
        hosts = at(listed(servers(0, 3), random.Random(seed)), ("zk1", 2181))
        assert hosts.round()[-1] == ("zk1", 2181)


def test_the_same_servers_in_another_order_are_no_change() -> None:
    hosts = at(listed(servers(0, 3), random.Random(1)), ("zk1", 2181))
    assert not hosts.update([*reversed(servers(0, 3)), ("zk0", 2181)])
    assert not hosts.has_changed


def test_a_server_that_is_gone_is_left_for_one_round_by_plan() -> None:
    hosts = at(listed(servers(0, 3), random.Random(1)), ("zk0", 2181))
    assert hosts.update(servers(1, 4))  # more than before: new ones first
    assert hosts.has_changed
    planned = hosts.round()
    assert set(planned[:2]) == {("zk3", 2181), ("zk4", 2181)}
    assert sorted(planned) == servers(1, 4)
    assert not hosts.has_changed
    assert {hosts.round()[0] for _ in range(50)} == set(servers(1, 4))


def test_who_is_not_connected_anywhere_just_takes_the_list() -> None:
    hosts = listed(servers(0, 3), random.Random(1))
    assert not hosts.update(servers(5, 2))
    assert hosts.has_changed
    assert sorted(hosts.round()) == servers(5, 2)


def test_a_server_that_was_taken_off_the_list_while_it_answered() -> None:
    hosts = listed(servers(0, 3), random.Random(1))
    hosts.update(servers(1, 2))
    assert not hosts.opened(("zk0", 2181))
    assert hosts.opened(("zk1", 2181))


def test_two_changes_in_a_row_are_as_even_as_one() -> None:
    """Who is on the way counts for the server that it is on the way to."""
    load: Counter[Server] = Counter()
    rng = random.Random(23)
    each = 3000
    for server in servers(0, 3):
        for _ in range(each):
            hosts = at(listed(servers(0, 3), rng), server)
            one = hosts.update(servers(0, 5))
            two = hosts.update(servers(2, 6))
            load[hosts.round()[0] if one or two else server] += 1
    even = each * 3 / 6
    assert set(load) == set(servers(2, 6))
    assert all(abs(count - even) < 5 * even**0.5 for count in load.values()), load
