"""How contenders are named, and who fits whom."""

from __future__ import annotations

import re

import pytest

from aiolead._recipes.layout import Layout, Role
from aiolead.paths import sequence_of

N = "0000000007"
GUID = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-"
HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("role", [role for role in Role if not role.shares])
def test_curators_layout_names_by_the_number_alone(role: Role) -> None:
    prefix = Layout.CURATOR.prefix(role, 5, 1)
    assert prefix == {Role.LOCK: "lock-", Role.ELECTION: "latch-", Role.WAIT: "wait-"}[role]
    assert Layout.CURATOR.neighbour(role, 7) == prefix + N
    assert Layout.CURATOR.neighbour(role, 2**31 - 1) == prefix + "2147483647"
    assert sequence_of(prefix + N) == 7


@pytest.mark.parametrize("session_id", [1, 0x1000_0000_0000_0001, -1, -(2**63)])
def test_kazoos_layout_makes_every_name_unique(session_id: int) -> None:
    names = {Layout.KAZOO.prefix(Role.LOCK, session_id, count) for count in (1, 2, 2**40)}
    assert len(names) == 3
    for name in names:
        assert re.fullmatch("[0-9a-f]{32}__lock__", name)
        assert Layout.KAZOO.is_like_ours(Role.LOCK, name + N)
        assert Layout.KAZOO.is_like_ours(Role.ELECTION, name + N)
    assert Layout.KAZOO.neighbour(Role.LOCK, 7) is None


def test_prefixes_of_different_sessions_differ() -> None:
    assert Layout.KAZOO.prefix(Role.LOCK, 1, 1) != Layout.KAZOO.prefix(Role.LOCK, -1, 1)


@pytest.mark.parametrize(
    ("layout", "role", "name", "ours"),
    [
        (Layout.CURATOR, Role.LOCK, f"lock-{N}", True),
        (Layout.CURATOR, Role.LOCK, f"latch-{N}", False),
        (Layout.CURATOR, Role.ELECTION, f"latch-{N}", True),
        (Layout.CURATOR, Role.LOCK, f"{GUID}lock-{N}", False),
        (Layout.CURATOR, Role.LOCK, "lock-7", False),
        (Layout.CURATOR, Role.LOCK, "lock--000000007", False),
        (Layout.CURATOR, Role.LOCK, "lock-٠٠٠٠٠٠٠٠٠٧", False),
        (Layout.KAZOO, Role.LOCK, f"{HEX}__lock__{N}", True),
        (Layout.KAZOO, Role.LOCK, f"{HEX}__rlock__{N}", False),
        (Layout.KAZOO, Role.LOCK, f"{HEX[1:]}__lock__{N}", False),
        (Layout.KAZOO, Role.LOCK, f"lock-{N}", False),
        (Layout.CURATOR, Role.READ, f"__READ__{N}", True),
        (Layout.CURATOR, Role.READ, f"{GUID}__READ__{N}", False),
        (Layout.CURATOR, Role.READ, f"__WRIT__{N}", False),
        (Layout.CURATOR, Role.WRITE, f"__WRIT__{N}", True),
        (Layout.KAZOO, Role.READ, f"{HEX}__rlock__{N}", True),
        (Layout.KAZOO, Role.READ, f"{HEX}__lock__{N}", False),
        (Layout.KAZOO, Role.WRITE, f"{HEX}__lock__{N}", True),
    ],
)
def test_which_names_we_could_have_given(layout: Layout, role: Role, name: str, ours: bool) -> None:
    assert layout.is_like_ours(role, name) is ours


FITS = None
NOT_OUR_RECIPE = "give each recipe a path of its own"
USE_KAZOO = "use layout=Layout.KAZOO"
USE_CURATOR = "use layout=Layout.CURATOR"


@pytest.mark.parametrize(
    ("name", "lock", "election", "kazoo", "readers"),
    [
        (f"lock-{N}", FITS, NOT_OUR_RECIPE, USE_CURATOR, NOT_OUR_RECIPE),
        (f"{GUID}lock-{N}", FITS, NOT_OUR_RECIPE, USE_CURATOR, NOT_OUR_RECIPE),
        (f"latch-{N}", NOT_OUR_RECIPE, FITS, USE_CURATOR, NOT_OUR_RECIPE),
        (f"{GUID}latch-{N}", NOT_OUR_RECIPE, FITS, USE_CURATOR, NOT_OUR_RECIPE),
        (f"{HEX}__lock__{N}", USE_KAZOO, USE_KAZOO, FITS, USE_KAZOO),
        (f"{HEX}__rlock__{N}", USE_KAZOO, USE_KAZOO, FITS, USE_KAZOO),
        (f"{GUID}__READ__{N}", NOT_OUR_RECIPE, NOT_OUR_RECIPE, NOT_OUR_RECIPE, FITS),
        (f"{GUID}__WRIT__{N}", NOT_OUR_RECIPE, NOT_OUR_RECIPE, NOT_OUR_RECIPE, FITS),
        # Whatever else has a number: it waits its turn like everybody, and so do we for it.
        (f"n-{N}", FITS, FITS, FITS, FITS),
        (N, FITS, FITS, FITS, FITS),
        # Negative numbers do not hide what a znode is.
        ("lock--147483648", FITS, NOT_OUR_RECIPE, USE_CURATOR, NOT_OUR_RECIPE),
        (f"{HEX}__lock__-147483648", USE_KAZOO, USE_KAZOO, FITS, USE_KAZOO),
    ],
)
def test_who_fits_whom(
    name: str, lock: str | None, election: str | None, kazoo: str | None, readers: str | None
) -> None:
    for layout, role, expected in (
        (Layout.CURATOR, Role.LOCK, lock),
        (Layout.CURATOR, Role.ELECTION, election),
        (Layout.CURATOR, Role.READ, readers),
        (Layout.CURATOR, Role.WRITE, readers),
        (Layout.KAZOO, Role.LOCK, kazoo),
        (Layout.KAZOO, Role.READ, kazoo),
        (Layout.KAZOO, Role.WRITE, kazoo),
        (Layout.KAZOO, Role.ELECTION, kazoo),
    ):
        why = layout.misfit(role, name)
        assert (why is None) == (expected is FITS), f"{layout} {role}: {why}"
        assert expected is FITS or (why is not None and expected in why)
