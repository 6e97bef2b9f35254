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
ADMITTED = (ConnectionStage.ACTIVE, ConnectionStage.STREAMING, ConnectionStage.IDLE)


class Kept(RuleBasedStateMachine):
    """There are never too many connections, and none is dropped without a reason."""

    connections = Bundle("connections")

    def __init__(self) -> None:
        super().__init__()
        self.policy = BrowserConnections(most_unauthenticated=4, most_admitted=3, most_streams=2)
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
        active = self.in_state(*ADMITTED)
        already = len(self.dropped)
        connection = self.opened(address)
        assert connection.state is ConnectionStage.UNAUTHENTICATED
        assert self.in_state(*ADMITTED) == active
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
        # A stream is dropped for a request, and a request that is being answered never is.
        assert admitted == (
            state is not ConnectionStage.CLOSED
            and (state is not ConnectionStage.UNAUTHENTICATED or len(others) < 3)
        )
        assert (connection.state is ConnectionStage.ACTIVE) == admitted
        assert all(each.state is ConnectionStage.ACTIVE for each in others)

    @rule(connection=connections, user=st.sampled_from(["", "token"]))
    def stream(self, connection: BrowserConnection, user: str) -> None:
        others = [each for each in self.all if each is not connection and each.is_admitted]
        own = [
            each
            for each in others
            if each.state is ConnectionStage.STREAMING
            and (each.group, each.user) == (connection.group, user)
        ]
        was_active = connection.state is ConnectionStage.ACTIVE
        is_last = self.policy.stream(connection, user)
        assert is_last == (was_active and len(own) >= 1)
        gone = [each for each in others if each.state is ConnectionStage.CLOSED]
        assert len(gone) == (was_active and len(own) == 2)
        assert all(each in own for each in gone)

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
            ConnectionStage.IDLE
            if state in (ConnectionStage.ACTIVE, ConnectionStage.STREAMING)
            else state
        )

    @rule(connection=connections)
    def close(self, connection: BrowserConnection) -> None:
        self.policy.close(connection)
        assert connection.state is ConnectionStage.CLOSED

    @invariant()
    def there_are_never_too_many(self) -> None:
        assert len(self.in_state(ConnectionStage.UNAUTHENTICATED)) <= 4
        assert len(self.in_state(*ADMITTED)) <= 3
        streams = Counter((e.group, e.user) for e in self.in_state(ConnectionStage.STREAMING))
        assert max(streams.values(), default=0) <= 2
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


def test_streams_of_one_user_keep_out_nobody() -> None:
    policy = BrowserConnections(most_admitted=6, most_streams=3)
    many = opened(policy, *["127.0.0.1"] * 6)
    for each in many[:4]:
        assert policy.admit(each)
        policy.stream(each, "browser 1")
    assert [each.state for each in many[:2]] == [
        ConnectionStage.CLOSED,
        ConnectionStage.STREAMING,
    ]
    # Another browser of the same machine, or behind the same proxy, has streams of its own.
    assert policy.admit(many[4])
    assert not policy.stream(many[4], "browser 2")
    (elsewhere,) = opened(policy, "192.0.2.1")
    assert policy.admit(elsewhere)
    assert not policy.stream(elsewhere, "token")
    for _ in range(4):
        (last,) = opened(policy, "192.0.2.2")
        assert policy.admit(last)
        policy.stream(last, "token")
    # The oldest of the address that has the most streams made room.
    assert many[1].state is ConnectionStage.CLOSED
    assert elsewhere.state is ConnectionStage.STREAMING


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
