from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.wire_core import Client, World, create

from aiolead._wire.codes import OpCode
from aiolead._wire.replies import MultiReply
from aiolead._wire.requests import Check, Delete, Multi, SetData
from aiolead.errors import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ServerError,
)
from aiolead.model import EventType
from aiolead.testing._server.transaction import Transaction
from aiolead.testing._server.tree import Lifetime, Tree

PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL = range(4)
MAX = 0x7FFF_FFFF
SESSION = 77


def begin(tree: Tree, zxid: int = 100) -> Transaction:
    return Transaction(tree, zxid, 5000, session_id=SESSION)


def snapshot(tree: Tree) -> dict[str, Any]:
    """All that clients can see, but for the order of children."""
    seen = {}
    for path in ("/", *tree.paths()):
        node = tree.get(path)
        assert node is not None
        seen[path] = (node.stat(), node.data, set(node.children), node.lifetime, node.creates)
    return seen


def assert_sound(tree: Tree, session_id: int = SESSION) -> None:
    """The indices agree with the znodes."""
    paths = list(tree.paths())
    for path in paths:
        parent = tree.get(path.rpartition("/")[0])
        assert parent is not None
        assert path.rpartition("/")[2] in parent.children
    own = sum(len(node.children) for path in ("/", *paths) if (node := tree.get(path)))
    assert own == len(paths) + 1  # /zookeeper
    lifetimes = {path: node.lifetime for path in paths if (node := tree.get(path))}
    ephemerals = {path for path, life in lifetimes.items() if life is Lifetime.EPHEMERAL}
    assert set(tree.ephemerals(session_id)) == ephemerals
    assert tree.ephemeral_count == len(ephemerals)
    mortals = {Lifetime.CONTAINER, Lifetime.TTL}.intersection(lifetimes.values())
    assert tree.has_mortals == bool(mortals)


@pytest.fixture
def tree() -> Tree:
    tree = Tree()
    first = begin(tree, 10)
    first.create(create("/a", b"data"))
    first.create(create("/a/b"))
    first.create(create("/e", flags=EPHEMERAL))
    return tree


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda t: t.create(create("/a")), NodeExistsError),
        (lambda t: t.create(create("/none/b")), NoNodeError),
        (lambda t: t.create(create("/e/b")), NoChildrenForEphemeralsError),
        (lambda t: t.create(create("/a/../b", flags=SEQUENTIAL)), NoNodeError),
        (lambda t: t.create(create("/a/.")), BadArgumentsError),
        (lambda t: t.create(create("/x", flags=7)), BadArgumentsError),
        (lambda t: t.create(create("/x", flags=5)), BadArgumentsError),
        (lambda t: t.create(create("/x", op=OpCode.CREATE_TTL, ttl=5)), BadArgumentsError),
        (lambda t: t.delete(Delete("/a", -1)), NotEmptyError),
        (lambda t: t.delete(Delete("/a/b", 1)), BadVersionError),
        (lambda t: t.delete(Delete("/none", -1)), NoNodeError),
        (lambda t: t.delete(Delete("/", -1)), BadArgumentsError),
        (lambda t: t.set_data(SetData("/a", b"", 3)), BadVersionError),
        (lambda t: t.set_data(SetData("/none", b"", -1)), NoNodeError),
        (lambda t: t.set_data(SetData("a", b"", -1)), BadArgumentsError),
        (lambda t: t.check(Check("/a", 3)), BadVersionError),
        (lambda t: t.check(Check("/none", -1)), NoNodeError),
    ],
)
def test_refused_write_changes_nothing(tree: Tree, write: Any, error: type[ServerError]) -> None:
    before = snapshot(tree)
    transaction = begin(tree)
    with pytest.raises(error):
        write(transaction)
    assert snapshot(tree) == before
    assert transaction.events == []


def test_events_come_in_the_order_of_the_changes(tree: Tree) -> None:
    transaction = begin(tree)
    transaction.create(create("/a/c"))
    transaction.set_data(SetData("/a", b"", -1))
    transaction.delete(Delete("/a/c", -1))
    assert [change[:2] for change in transaction.events] == [
        (EventType.CREATED, "/a/c"),
        (EventType.CHILDREN_CHANGED, "/a"),
        (EventType.DATA_CHANGED, "/a"),
        (EventType.DELETED, "/a/c"),
        (EventType.CHILDREN_CHANGED, "/a"),
    ]


def test_end_of_a_session_deletes_its_ephemerals(tree: Tree) -> None:
    begin(tree).create(create("/a/e-", flags=EPHEMERAL_SEQUENTIAL))
    begin(tree, 200).end_session()
    assert sorted(tree.paths()) == ["/a", "/a/b"]
    assert_sound(tree)
    assert tree._ephemerals == {}


PATHS = ("/a", "/a/b", "/a/c", "/a/c/d", "/e", "/n", "/n/n")
OPERATIONS = st.one_of(
    st.builds(create, st.sampled_from(PATHS), st.binary(max_size=3), st.integers(0, 4)),
    st.builds(Delete, st.sampled_from(PATHS), st.integers(-1, 1)),
    st.builds(SetData, st.sampled_from(PATHS), st.binary(max_size=3), st.integers(-1, 1)),
    st.builds(Check, st.sampled_from(PATHS), st.integers(-1, 1)),
)


@given(st.lists(st.lists(OPERATIONS, max_size=6), max_size=6))
def test_transaction_is_all_or_nothing(transactions: list[list[Any]]) -> None:
    """Each is tried with an end that fails, then without: only the second may leave a trace."""
    world = World()
    client = world.client()
    tree = world.core.processor.tree
    for operations in transactions:
        before = snapshot(tree)
        err, r = client.ask(Multi((*operations, Check("/zookeeper/none", 1))))
        codes = [result.code for _, result in MultiReply.read(r).results]  # type: ignore[union-attr]
        assert err == 0
        assert len(codes) == len(operations) + 1
        # Undone, then the culprit, then not tried.
        index = next(i for i, code in enumerate(codes) if code)
        assert codes[:index] == [0] * index
        assert codes[index] < -100 or codes[index] == -8
        assert codes[index + 1 :] == [-2] * (len(operations) - index)
        assert snapshot(tree) == before
        client.ask(Multi(tuple(operations)))
        assert_sound(tree, client.session_id)
    world.core.expire(client.session_id, world.now)
    assert tree.ephemeral_count == 0


# --- the end of the sequence numbers -----------------------------------------------------------


def test_sequence_counter_stops_at_its_maximum(world: World, client: Client) -> None:
    client.create("/p")
    world.core.set_sequence("/p", MAX - 1)
    first = client.create("/p/n-", flags=SEQUENTIAL)
    node = world.core.processor.tree.get("/p")
    assert node is not None
    pzxid = node.pzxid
    rest = [client.create(f"/p/{name}-", flags=SEQUENTIAL) for name in ("a", "b")]
    assert first == "/p/n-2147483646"
    assert rest == ["/p/a-2147483647", "/p/b-2147483647"]
    err, _ = client.ask(create("/p/a-", flags=SEQUENTIAL))
    assert err == NodeExistsError.code
    # The fields that show the change to others stick, too (ZOOKEEPER-3249).
    assert (node.creates, node.pzxid) == (MAX, pzxid)
    assert node.stat().cversion == -2 - 3


def test_sequence_counter_overflows_within_a_transaction(world: World, client: Client) -> None:
    client.create("/p")
    world.core.set_sequence("/p", MAX)
    ops = tuple(create("/p/n-", flags=SEQUENTIAL) for _ in range(3))
    _, r = client.ask(Multi(ops))
    names = [result.path for _, result in MultiReply.read(r).results]  # type: ignore[union-attr]
    assert names == ["/p/n-2147483647", "/p/n--2147483648", "/p/n--2147483647"]


def test_recreated_parent_counts_from_zero(client: Client) -> None:
    client.create("/p")
    client.create("/p/n-", flags=EPHEMERAL_SEQUENTIAL)
    ops = (
        create("/p/n-", flags=SEQUENTIAL),
        Delete("/p/n-0000000001", -1),
        Delete("/p/n-0000000000", -1),
        Delete("/p", -1),
        create("/p"),
        create("/p/n-", flags=SEQUENTIAL),
    )
    _, r = client.ask(Multi(ops))
    assert MultiReply.read(r).results[-1][1].path == "/p/n-0000000000"  # type: ignore[union-attr]
