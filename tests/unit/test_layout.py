"""How contenders are named, and who fits whom."""

from __future__ import annotations

import pytest

from aiolead._recipes.layout import Layout, Role
from aiolead.paths import sequence_of

N = "0000000007"
OURS = "0123456789abcdef-1f-"
GUID = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-"
HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("session_id", [1, 0x1000_0000_0000_0001, -1, -(2**63)])
@pytest.mark.parametrize("layout", Layout)
def test_no_name_is_given_twice(layout: Layout, session_id: int, role: Role) -> None:
    prefixes = {layout.prefix(role, session_id, count) for count in (1, 2, 0x11, 2**40)}
    assert len(prefixes) == 4
    for prefix in prefixes:
        assert not any(other != prefix and other.startswith(prefix) for other in prefixes)
        assert prefix.startswith(f"{session_id & 2**64 - 1:016x}")
        assert layout.is_like_ours(role, prefix + N)
        assert sequence_of(prefix + N) == 7


def test_how_names_end() -> None:
    ends = {role: Layout.CURATOR.prefix(role, 5, 26) for role in Role}
    assert ends[Role.LOCK] == "0000000000000005-1a-lock-"
    assert {role: end[20:] for role, end in ends.items()} == {role: role.value for role in Role}
    assert Layout.KAZOO.prefix(Role.LOCK, 5, 26) == "0000000000000005000000000000001a__lock__"


def test_prefixes_of_different_sessions_differ() -> None:
    assert Layout.KAZOO.prefix(Role.LOCK, 1, 1) != Layout.KAZOO.prefix(Role.LOCK, -1, 1)


@pytest.mark.parametrize(
    ("layout", "role", "name", "ours"),
    [
        (Layout.CURATOR, Role.LOCK, f"{OURS}lock-{N}", True),
        (Layout.CURATOR, Role.LOCK, f"{OURS}latch-{N}", False),
        (Layout.CURATOR, Role.LOCK, f"lock-{N}", False),
        (Layout.CURATOR, Role.ELECTION, f"{OURS}latch-{N}", True),
        (Layout.CURATOR, Role.LOCK, f"{GUID}lock-{N}", False),
        (Layout.CURATOR, Role.LOCK, f"{OURS}lock-7", False),
        (Layout.CURATOR, Role.LOCK, f"{OURS}lock--000000007", False),
        (Layout.CURATOR, Role.LOCK, f"{OURS}lock-٠٠٠٠٠٠٠٠٠٧", False),
        (Layout.KAZOO, Role.LOCK, f"{HEX}__lock__{N}", True),
        (Layout.KAZOO, Role.LOCK, f"{HEX}__rlock__{N}", False),
        (Layout.KAZOO, Role.LOCK, f"{HEX[1:]}__lock__{N}", False),
        (Layout.KAZOO, Role.LOCK, f"lock-{N}", False),
        (Layout.CURATOR, Role.READ, f"{OURS}__READ__{N}", True),
        (Layout.CURATOR, Role.READ, f"{GUID}__READ__{N}", False),
        (Layout.CURATOR, Role.READ, f"{OURS}__WRIT__{N}", False),
        (Layout.CURATOR, Role.WRITE, f"{OURS}__WRIT__{N}", True),
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
