"""Who shares a path with whom, by what each library's source does with names.

Each function here is what one library does to find out whether somebody is before it in the line:
Curator 5.4 (`LockInternals.getSortedChildren`), kazoo 2.11 (`Lock._get_predecessor`), aiozk 0.32
(`SequentialRecipe`, `BaseLock.wait_in_line`), go-zookeeper 1.0.4 (`parseSeq`), and `ZNodeName` of
ZooKeeper's recipes. The layouts say that two fit exactly where both sides see each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest

from aiolead._recipes.contention.layouts import Role
from aiolead.types import Layout

BEFORE, OWN, BEHIND = "0000000007", "0000000008", "0000000009"
HEX = "8f2a1c0e5a0b4b0e9c550123456789ab"
UUID = "8f2a1c0e-5a0b-4b0e-9c55-0123456789ab"

IsBefore = Callable[[str], bool]
"""Whether a peer whose number is `OWN` takes a child for somebody before it; or raises."""


def curator(marker: str) -> IsBefore:
    def key(name: str) -> str:
        index = name.rfind(marker)
        return name if index < 0 else name[index + len(marker) :]

    return lambda name: key(name) < key(f"_c_{UUID}-{marker}{OWN}")


def curators_shared(name: str) -> bool:
    """As a writer sees it."""
    for marker in ("__READ__", "__WRIT__"):
        if marker in name:
            return curator(marker)(name)
    return name < OWN


def kazoo(*names: str) -> IsBefore:
    contender = re.compile(rf"(?:{'|'.join(names)})(-?\d{{10}})$")

    def is_before(name: str) -> bool:
        match = contender.search(name)
        return match is not None and match[1] < OWN

    return is_before


def aiozk(*labels: str) -> IsBefore:
    def is_before(name: str) -> bool:
        if not re.match(r".*[0-9]{10}$", name) or int(name[-10:]) >= int(OWN):
            return False
        return not labels or name.rsplit("-", 2)[0] in labels

    return is_before


def go(name: str) -> bool:
    parts = name.split("lock-")
    if len(parts) == 1:
        parts = name.split("__")
    return int(parts[-1]) < int(OWN)


def write_lock(name: str) -> bool:
    path = f"/dir/{name}"
    index = path.rfind("-")
    if index < 0:
        return False
    if index > 0 and path[index - 1] == "-":
        index -= 1
    try:
        return int(path[index + 1 :]) < int(OWN)
    except ValueError:
        return False


PEERS: dict[tuple[Layout, Role], tuple[IsBefore, str]] = {
    (Layout.CURATOR, Role.LOCK): (curator("lock-"), f"_c_{UUID}-lock-"),
    (Layout.CURATOR, Role.ELECTION): (curator("latch-"), f"_c_{UUID}-latch-"),
    (Layout.CURATOR, Role.WRITE): (curators_shared, f"_c_{UUID}-__WRIT__"),
    (Layout.KAZOO, Role.LOCK): (kazoo("__lock__"), f"{HEX}__lock__"),
    (Layout.KAZOO, Role.WRITE): (kazoo("__lock__", "__rlock__"), f"{HEX}__lock__"),
    (Layout.GO, Role.LOCK): (go, f"_c_{HEX}-lock-"),
    (Layout.AIOZK, Role.LOCK): (aiozk(), f"lock-{HEX}-"),
    (Layout.AIOZK, Role.ELECTION): (aiozk(), f"candidate-{HEX}-"),
    (Layout.AIOZK, Role.WRITE): (aiozk(), f"write-{HEX}-"),
    (Layout.WRITE_LOCK, Role.LOCK): (write_lock, "x-72057594037927936-"),
}
"""How the peers of a layout see others, and how they are called themselves."""

SESSIONS = (1, 0x0100_0190_0000_0000, 0x02AE_A540_0001, -5)


def sees(is_before: IsBefore, prefix: str) -> bool:
    """Whether a peer waits for those before it, and for nobody behind it."""
    try:
        return is_before(prefix + BEFORE) and not is_before(prefix + BEHIND)
    except ValueError:
        return False  # it fails, as go-zookeeper does


@pytest.mark.parametrize("form", PEERS, ids=lambda form: f"{form[0]!r}-{form[1].name}")
@pytest.mark.parametrize("session_id", SESSIONS)
def test_peers_see_us_and_each_other(form: tuple[Layout, Role], session_id: int) -> None:
    layout, role = form
    is_before, own = PEERS[form]
    assert sees(is_before, own)
    assert sees(is_before, layout._prefix(role, session_id, 0x1F))
    assert layout._fits(role, own + BEFORE)


LOCKS = [layout for layout, role in PEERS if role is Role.LOCK]


@pytest.mark.parametrize(("one", "other"), [*product(LOCKS, LOCKS)])
def test_locks_fit_where_both_see_each_other(one: Layout, other: Layout) -> None:
    (first, its), (second, others) = PEERS[one, Role.LOCK], PEERS[other, Role.LOCK]
    both_ways = sees(first, others) and sees(second, its)
    assert one._fits(Role.LOCK, others + BEFORE) == both_ways
    assert one._fits(Role.LOCK, other._prefix(Role.LOCK, 5, 1) + BEFORE) == both_ways


def test_nobody_fails_that_sees_the_default() -> None:
    """So it may look after it has written. The others may not."""
    for session_id, (is_before, _) in product(SESSIONS, PEERS.values()):
        for role in (Role.LOCK, Role.READ, Role.WRITE):
            is_before(Layout.CURATOR._prefix(role, session_id, 1) + BEHIND)
    for layout, role in (
        (Layout.AIOZK, Role.LOCK),
        (Layout.WRITE_LOCK, Role.LOCK),
        (Layout.CURATOR, Role.ELECTION),
    ):
        with pytest.raises(ValueError, match="invalid literal"):
            go(layout._prefix(role, 1, 1) + BEHIND)


def test_readers_wait_for_writers_alone() -> None:
    reads = {
        Layout.KAZOO: kazoo("__lock__"),
        Layout.AIOZK: aiozk("write"),
        Layout.CURATOR: lambda name: "__WRIT__" in name and curators_shared(name),
    }
    for layout, is_before in reads.items():
        assert sees(is_before, layout._prefix(Role.WRITE, 5, 1))
        assert not is_before(layout._prefix(Role.READ, 5, 1) + BEFORE)
