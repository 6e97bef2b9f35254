"""Which connections of browsers a dashboard keeps."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from aiolead.cli.dashboard.connections import (
    BrowserConnection,
    BrowserConnections,
    ConnectionStage,
    _group,
)

ADDRESSES = ("192.0.2.1", "192.0.2.2", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "proxy")


class Kept(RuleBasedStateMachine):
    """There are never too many connections, and none is dropped without a reason."""

    connections = Bundle("connections")

    def __init__(self) -> None:
        super().__init__()
        self.policy = BrowserConnections(most_unauthenticated=4, most_admitted=3)
        self.all: list[BrowserConnection] = []
        self.dropped: list[BrowserConnection] = []

    def opened(self, address: str) -> BrowserConnection:
        def drop() -> None:
            assert connection not in self.dropped
            self.dropped.append(connection)

        connection = self.policy.open(address, drop)
        self.all.append(connection)
        return connection

    def in_state(self, *states: ConnectionStage) -> list[BrowserConnection]:
        return [each for each in self.all if each.state in states]

    @rule(target=connections, address=st.sampled_from(ADDRESSES))
    def open(self, address: str) -> BrowserConnection:
        before = self.in_state(ConnectionStage.UNAUTHENTICATED)
        active = self.in_state(ConnectionStage.ACTIVE, ConnectionStage.IDLE)
        already = len(self.dropped)
        connection = self.opened(address)
        assert connection.state is ConnectionStage.UNAUTHENTICATED
        assert self.in_state(ConnectionStage.ACTIVE, ConnectionStage.IDLE) == active
        gone = self.dropped[already:]
        if len(before) < 4:
            assert gone == []
            return connection
        # It belongs to the address that has the most connections.
        (victim,) = gone
        counts = Counter(each.group for each in [*before, connection])
        assert counts[victim.group] == max(counts.values())
        assert victim is not connection
        return connection

    @rule(connection=connections)
    def admit(self, connection: BrowserConnection) -> None:
        state, active = connection.state, self.in_state(ConnectionStage.ACTIVE)
        others = [each for each in active if each is not connection]
        admitted = self.policy.admit(connection)
        assert admitted == (
            state is not ConnectionStage.CLOSED
            and (state is not ConnectionStage.UNAUTHENTICATED or len(others) < 3)
        )
        assert (connection.state is ConnectionStage.ACTIVE) == admitted
        assert all(each.state is ConnectionStage.ACTIVE for each in others)

    @rule(connection=connections)
    def reject(self, connection: BrowserConnection) -> None:
        is_open = connection.state is not ConnectionStage.CLOSED
        self.policy.reject(connection)
        assert connection.state is (
            ConnectionStage.UNAUTHENTICATED if is_open else ConnectionStage.CLOSED
        )

    @rule(connection=connections)
    def rest(self, connection: BrowserConnection) -> None:
        state = connection.state
        self.policy.rest(connection)
        assert connection.state is (
            ConnectionStage.IDLE if state is ConnectionStage.ACTIVE else state
        )

    @rule(connection=connections)
    def close(self, connection: BrowserConnection) -> None:
        self.policy.close(connection)
        assert connection.state is ConnectionStage.CLOSED

    @invariant()
    def there_are_never_too_many(self) -> None:
        assert len(self.in_state(ConnectionStage.UNAUTHENTICATED)) <= 4
        assert len(self.in_state(ConnectionStage.ACTIVE, ConnectionStage.IDLE)) <= 3
        assert all(each.state is ConnectionStage.CLOSED for each in self.dropped)


TestKept = Kept.TestCase


def opened(policy: BrowserConnections, *addresses: str) -> list[BrowserConnection]:
    return [policy.open(address, lambda: None) for address in addresses]


def test_address_with_most_connections_loses_its_own() -> None:
    policy = BrowserConnections(most_unauthenticated=4)
    first, *flood = opened(policy, "192.0.2.9", *["192.0.2.1"] * 100)
    assert first.state is ConnectionStage.UNAUTHENTICATED
    assert [each.state for each in flood[-3:]] == [ConnectionStage.UNAUTHENTICATED] * 3
    assert {each.state for each in flood[:-3]} == {ConnectionStage.CLOSED}


def test_oldest_connection_of_one_address_is_dropped() -> None:
    policy = BrowserConnections(most_unauthenticated=2)
    first, second, third = opened(policy, *["127.0.0.1"] * 3)
    assert first.state is ConnectionStage.CLOSED
    assert second.state is third.state is ConnectionStage.UNAUTHENTICATED


def test_connection_idle_for_longest_makes_room() -> None:
    policy = BrowserConnections(most_admitted=2)
    first, second, third = opened(policy, *["127.0.0.1"] * 3)
    for each in (first, second):
        assert policy.admit(each)
    assert not policy.admit(third)
    assert third.state is ConnectionStage.UNAUTHENTICATED
    policy.rest(second)
    policy.rest(first)
    assert policy.admit(third)
    assert (first.state, second.state) == (ConnectionStage.IDLE, ConnectionStage.CLOSED)
    assert not policy.admit(second)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_addresses_are_grouped(one: str, other: str, same: bool) -> None:
    assert (_group(one) == _group(other)) == same


@pytest.mark.exhaustive("random data, beside the worst data")
@given(st.text())
def test_any_text_has_a_group(address: str) -> None:
    assert isinstance(_group(address), str)
