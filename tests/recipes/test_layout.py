"""The names of contenders, and which of them exclude each other, of all libraries."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiolead._recipes.kernel import holding, in_order, sharing
from aiolead._recipes.layouts import LAYOUTS, Layout, Role, checked_names, names_of
from aiolead._util.contender_names import KnownName, known_name
from aiolead.errors import ConfigurationError
from aiolead.paths import sequence_of
from aiolead.types import UnrecognizedChild, unrecognized_children

N = "0000000007"
OURS = "0123456789abcdef-1f-"
GUID = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-"
HEX = "0123456789abcdef0123456789abcdef"

JOBS = Layout(lock="{id}-job-", read="r-{id}-job-", write="w-{id}-job-")

SIGNS = "0129-_ !lockxREAD.é"

FORMS = [
    (layout, role)
    for layout, roles in (
        (Layout.CURATOR, (Role.LOCK, Role.ELECTION, Role.READ, Role.WRITE, Role.WAIT)),
        (Layout.KAZOO, (Role.LOCK, Role.ELECTION, Role.READ, Role.WRITE)),
        (Layout.GO, (Role.LOCK,)),
        (Layout.AIOZK, (Role.LOCK, Role.ELECTION, Role.READ, Role.WRITE)),
        (Layout.WRITE_LOCK, (Role.LOCK,)),
        (JOBS, (Role.LOCK, Role.READ, Role.WRITE)),
    )
    for role in roles
]
"""The roles that each layout has names for."""

ANY_SESSION = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(1, 2**40)
NUMBERS = st.integers(0, 2**31 - 2)


# --- what is written ---------------------------------------------------------------------------


@given(st.sampled_from(FORMS), ANY_SESSION, COUNTS, NUMBERS)
def test_name_is_recognized_with_its_role_and_number(
    form: tuple[Layout, Role], session_id: int, count: int, number: int
) -> None:
    layout, role = form
    name = f"{names_of(layout, role).prefix(session_id, count)}{number:010d}"
    assert sequence_of(name) == number
    assert names_of(layout, role).ours(name)
    match = names_of(layout, role).ours(name)
    assert match is not None
    assert int(match[2]) == number
    assert names_of(layout, role).fit(name)
    assert names_of(layout, role).is_reader(name) == (role is Role.READ)


@given(st.sampled_from(FORMS), st.lists(st.tuples(ANY_SESSION, COUNTS), min_size=2, unique=True))
def test_no_name_is_given_twice(
    form: tuple[Layout, Role], contenders: list[tuple[int, int]]
) -> None:
    """Nor does any begin as another one does: a lost create is found by how its name begins."""
    layout, role = form
    prefixes = {
        names_of(layout, role).prefix(session_id, count) for session_id, count in contenders
    }
    assert len(prefixes) == len(contenders)
    assert not any(a != b and a.startswith(b) for a in prefixes for b in prefixes)


def test_names_begin_as_those_of_the_libraries() -> None:
    """As the libraries' own do, and with what they go by."""
    begin = {(layout, role): names_of(layout, role).prefix(-5, 26) for layout, role in FORMS}
    ours, id_ = "fffffffffffffffb-1a-", "fffffffffffffffb000000000000001a"
    assert begin == {
        (Layout.CURATOR, Role.LOCK): f"{ours}lock-",
        (Layout.CURATOR, Role.ELECTION): f"{ours}latch-",
        (Layout.CURATOR, Role.READ): f"{ours}__READ__",
        (Layout.CURATOR, Role.WRITE): f"{ours}__WRIT__",
        (Layout.CURATOR, Role.WAIT): f"{ours}wait-",
        (Layout.KAZOO, Role.LOCK): f"{id_}__lock__",
        (Layout.KAZOO, Role.ELECTION): f"{id_}__lock__",
        (Layout.KAZOO, Role.READ): f"{id_}__rlock__",
        (Layout.KAZOO, Role.WRITE): f"{id_}__lock__",
        (Layout.GO, Role.LOCK): f"_c_{id_}-lock-",
        (Layout.AIOZK, Role.LOCK): f"lock-{id_}-",
        (Layout.AIOZK, Role.ELECTION): f"candidate-{id_}-",
        (Layout.AIOZK, Role.READ): f"read-{id_}-",
        (Layout.AIOZK, Role.WRITE): f"write-{id_}-",
        (Layout.WRITE_LOCK, Role.LOCK): "x--5-26-",
        (JOBS, Role.LOCK): f"{id_}-job-",
        (JOBS, Role.READ): f"r-{id_}-job-",
        (JOBS, Role.WRITE): f"w-{id_}-job-",
    }


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
        (Layout.WRITE_LOCK, Role.LOCK, f"x-5-1-{N}", True),
        (Layout.WRITE_LOCK, Role.LOCK, f"x-5-{N}", False),
    ],
)
def test_own_names_are_recognized(layout: Layout, role: Role, name: str, ours: bool) -> None:
    assert (names_of(layout, role).ours(name) is not None) is ours


# --- what is read ------------------------------------------------------------------------------

GOLDEN = {
    # As each library's source has them.
    f"{GUID}lock-{N}": KnownName.MUTEX,
    f"{GUID}latch-{N}": KnownName.LATCH,
    f"{GUID}__READ__{N}": KnownName.CURATOR_READER,
    f"{GUID}__WRIT__{N}": KnownName.CURATOR_WRITER,
    f"_c_{HEX}-lock-{N}": KnownName.MUTEX,  # go-zookeeper
    "_c_8c6ddd1f6bea1eea8d3a6f7b1a4b02ee-lock--2147483648": KnownName.MUTEX,
    "da5719988c244fc793f49ec3aa29b566__lock__0000000003": KnownName.KAZOO,
    f"{HEX}__rlock__{N}": KnownName.KAZOO_READER,
    f"lock-{HEX}-{N}": KnownName.AIOZK_LOCK,
    f"my-own-{HEX}-{N}": KnownName.AIOZK_LOCK,
    f"read-{HEX}-{N}": KnownName.AIOZK_READER,
    f"write-{HEX}-{N}": KnownName.AIOZK_WRITER,
    f"candidate-{HEX}-{N}": KnownName.AIOZK_CANDIDATE,
    f"lease-{HEX}-{N}": KnownName.AIOZK_LEASE,
    f"x-72057594037927936-{N}": KnownName.WRITE_LOCK,
    f"x--5-{N}": KnownName.WRITE_LOCK,
    f"x-0123456789abcdef-{N}": KnownName.WRITE_LOCK,  # in C
    f"n_{N}": KnownName.OFFER,
    # Negative numbers do not hide what a znode is.
    "lock--147483648": KnownName.MUTEX,
    f"{HEX}__lock__-147483648": KnownName.KAZOO,
}

UNKNOWN = [f"n-{N}", N, "config", "lock-7", f"{HEX}__lock__", f"lock-{N}x", f"lock-{HEX}", ""]


@pytest.mark.parametrize("name", GOLDEN)
def test_names_of_each_library_are_known(name: str) -> None:
    assert known_name(name) is GOLDEN[name]


@pytest.mark.parametrize("name", UNKNOWN)
def test_names_of_no_library_are_unknown(name: str) -> None:
    assert known_name(name) is None


def test_every_kind_of_name_is_tried() -> None:
    assert set(GOLDEN.values()) == set(KnownName)


FITTING = {
    (Layout.CURATOR, Role.LOCK): {KnownName.MUTEX},
    (Layout.CURATOR, Role.ELECTION): {KnownName.LATCH},
    (Layout.CURATOR, Role.READ): {KnownName.CURATOR_READER, KnownName.CURATOR_WRITER},
    (Layout.CURATOR, Role.WRITE): {KnownName.CURATOR_READER, KnownName.CURATOR_WRITER},
    (Layout.CURATOR, Role.WAIT): set[KnownName](),
    # kazoo's plain lock does not wait for readers.
    (Layout.KAZOO, Role.LOCK): {KnownName.KAZOO},
    (Layout.KAZOO, Role.ELECTION): {KnownName.KAZOO},
    (Layout.KAZOO, Role.READ): {KnownName.KAZOO, KnownName.KAZOO_READER},
    (Layout.KAZOO, Role.WRITE): {KnownName.KAZOO, KnownName.KAZOO_READER},
    (Layout.GO, Role.LOCK): {KnownName.MUTEX},
    (Layout.AIOZK, Role.LOCK): {KnownName.AIOZK_LOCK, KnownName.WRITE_LOCK},
    (Layout.AIOZK, Role.ELECTION): {KnownName.AIOZK_CANDIDATE},
    (Layout.AIOZK, Role.READ): {KnownName.AIOZK_READER, KnownName.AIOZK_WRITER},
    (Layout.AIOZK, Role.WRITE): {KnownName.AIOZK_READER, KnownName.AIOZK_WRITER},
    (Layout.WRITE_LOCK, Role.LOCK): {KnownName.AIOZK_LOCK, KnownName.WRITE_LOCK},
}


@pytest.mark.parametrize("form", FITTING, ids=lambda form: f"{form[0]!r}-{form[1].name}")
def test_layouts_fit_the_names_that_exclude_each_other(form: tuple[Layout, Role]) -> None:
    layout, role = form
    for name, kind in GOLDEN.items():
        assert names_of(layout, role).fit(name) == (kind in FITTING[form]), name
        assert (names_of(layout, role).misfit(name) is None) == names_of(layout, role).fit(name)
    # Any other name with a number is a contender like all others.
    assert names_of(layout, role).misfit(f"n-{N}") is names_of(layout, role).misfit(N) is None


def test_fitting_is_mutual() -> None:
    """Two of us either both take the other one, or both refuse it, where names say who it is."""
    names = {form: f"{names_of(form[0], form[1]).prefix(5, 1)}{N}" for form in FITTING}
    one_sided = {
        (a, b)
        for a in FITTING
        for b in FITTING
        if names_of(a[0], a[1]).fit(names[b]) and not names_of(b[0], b[1]).fit(names[a])
    }
    # kazoo's writers are called what its locks are.
    kazoos = {
        ((Layout.KAZOO, Role.READ), (Layout.KAZOO, role)) for role in (Role.LOCK, Role.ELECTION)
    }
    # Only aiolead has conditions, whose waiters are on a path of their own.
    waits = {pair for pair in one_sided if pair[1] == (Layout.CURATOR, Role.WAIT)}
    assert one_sided - waits == kazoos


@pytest.mark.parametrize(
    ("layout", "role", "name", "says"),
    [
        (Layout.CURATOR, Role.LOCK, f"{HEX}__lock__{N}", "belongs to kazoo,"),
        (Layout.CURATOR, Role.LOCK, f"{HEX}__lock__{N}", "use layout=Layout.KAZOO"),
        (Layout.CURATOR, Role.READ, f"{HEX}__rlock__{N}", "use layout=Layout.KAZOO"),
        (Layout.CURATOR, Role.LOCK, f"lock-{HEX}-{N}", "use layout=Layout.AIOZK"),
        (Layout.CURATOR, Role.LOCK, f"mine-{HEX}-{N}", "use layout=Layout.AIOZK"),
        (Layout.CURATOR, Role.LOCK, f"x-5-{N}", "use layout=Layout.WRITE_LOCK"),
        (Layout.CURATOR, Role.ELECTION, f"x-5-{N}", "give each recipe a path of its own"),
        (
            Layout.CURATOR,
            Role.LOCK,
            f"latch-{N}",
            "a leader election on the same path (in the layout of Curator)",
        ),
        (Layout.CURATOR, Role.ELECTION, f"lock-{N}", "give each recipe a path of its own"),
        (Layout.CURATOR, Role.LOCK, f"{GUID}__READ__{N}", "contends for a read/write lock"),
        (Layout.KAZOO, Role.LOCK, f"{GUID}lock-{N}", "use layout=Layout.CURATOR"),
        (Layout.KAZOO, Role.LOCK, f"{HEX}__rlock__{N}", "contends for a read/write lock"),
        (Layout.AIOZK, Role.LOCK, f"read-{HEX}-{N}", "contends for a read/write lock"),
        (
            Layout.CURATOR,
            Role.ELECTION,
            f"n_{N}",
            "(in the layout of ZooKeeper's LeaderElectionSupport)",
        ),
        (JOBS, Role.LOCK, f"{HEX}__lock__{N}", f"those of {JOBS!r} do not exclude each other"),
        (JOBS, Role.LOCK, f"w-x-{N}", None),
        (JOBS, Role.READ, f"anything-job-{N}", "contends for something else"),
    ],
)
def test_misfit_is_explained(layout: Layout, role: Role, name: str, says: str | None) -> None:
    why = names_of(layout, role).misfit(name)
    if says is None:
        assert why is None
    else:
        assert why is not None
        assert says in why


@given(
    st.sampled_from(FORMS),
    st.lists(st.one_of(st.sampled_from(UNKNOWN), st.text(SIGNS, max_size=20)), max_size=8),
    st.lists(st.tuples(st.integers(1, 9), NUMBERS), min_size=1, unique_by=lambda entry: entry[1]),
    st.randoms(use_true_random=False),
)
def test_children_without_a_number_neither_block_nor_break(
    form: tuple[Layout, Role],
    others: list[str],
    contenders: list[tuple[int, int]],
    random: st.DataObject,
) -> None:
    layout, role = form
    line = [
        f"{names_of(layout, role).prefix(session, 1)}{n:010d}" for session, n in sorted(contenders)
    ]
    line.sort(key=lambda name: name[-10:])
    names = [*line, *(other for other in others if sequence_of(other) is None)]
    random.shuffle(names)  # type: ignore[attr-defined]
    assert in_order("/line", names, names_of(layout, role)) == line
    if role.shares:
        place = sharing(line, line[-1], names_of(layout, role))
        assert place is not None
        assert bool(place.watch) == (role is Role.WRITE and len(line) > 1)
        assert holding(line, 1, names_of(layout, role)) == (len(line) if role is Role.READ else 1)


# --- the value ---------------------------------------------------------------------------------


def test_layout_is_a_value() -> None:
    assert [repr(layout) for layout in LAYOUTS] == [
        "Layout.CURATOR",
        "Layout.KAZOO",
        "Layout.GO",
        "Layout.AIOZK",
        "Layout.WRITE_LOCK",
    ]
    assert len({*LAYOUTS, *LAYOUTS}) == 5
    assert Layout(read="r-{id}-job-", write="w-{id}-job-", lock="{id}-job-") == JOBS
    assert hash(JOBS) == hash(Layout(lock=JOBS.lock, read=JOBS.read, write=JOBS.write))
    assert repr(JOBS) == "Layout(lock='{id}-job-', read='r-{id}-job-', write='w-{id}-job-')"
    assert eval(repr(JOBS)) == JOBS
    assert Layout(lock="{id}__lock__") != Layout.KAZOO
    assert Layout.KAZOO.lock == "{id}__lock__"
    with pytest.raises(AttributeError):
        JOBS.lock = "{id}-other-"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        ({}, "a layout needs a pattern at least"),
        ({"lock": "-job-"}, "lock: must be a str without a slash, with {id} once in it"),
        ({"lock": "{id}{id}-job-"}, "lock: must be a str without a slash, with {id} once in it"),
        ({"lock": "a/{id}-job-"}, "lock: must be a str without a slash, with {id} once in it"),
        ({"election": b"{id}-job-"}, "election: must be a str without a slash"),
        ({"lock": "{id}-{job}-"}, "lock: has braces"),
        ({"lock": "{id}\0-"}, "lock: the character"),
        ({"lock": "job-{id}"}, "lock: must end so that the number after it can be recognized"),
        ({"lock": "{id}-job-7"}, "lock: must end so that the number after it can be recognized"),
        ({"lock": "{id}--"}, "lock: must end so that the number after it can be recognized"),
        ({"lock": "{id}__-"}, "lock: must end so that the number after it can be recognized"),
        ({"read": "{id}-r-"}, "read, write: give both patterns, or none"),
        ({"write": "{id}-w-"}, "read, write: give both patterns, or none"),
        ({"read": "{id}-r-", "write": "{id}-r-"}, "read, write: must not match the same names"),
        ({"read": "{id}-r-", "write": "w{id}-r-"}, "read, write: must not match the same names"),
        ({"read": "{id}-r-", "write": "{id}r-"}, "read, write: must not match the same names"),
    ],
)
def test_invalid_layout_is_refused(patterns: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Layout(**patterns)
    assert str(caught.value).startswith(says)


PATTERNS = st.tuples(st.text("ab-_9.", max_size=4), st.text("ab-_9.", max_size=4))


@given(PATTERNS, PATTERNS)
@example(("", "_"), ("", "-"))  # `_-0000000007`: a writer's, or a reader's with a negative number
def test_readers_and_writers_can_be_told_apart(
    read: tuple[str, str], write: tuple[str, str]
) -> None:
    """Wherever a layout of one's own is taken, whatever others put in the place of `{id}`."""
    try:
        layout = Layout(read="{id}".join(read), write="{id}".join(write))
    except ConfigurationError:
        return
    for inner in ("", "0", "a", "b", "-", "_", "9", "ab-_9.", HEX):
        reader, writer = (f"{head}{inner}{tail}{N}" for head, tail in (read, write))
        assert names_of(layout, Role.READ).is_reader(reader)
        assert not names_of(layout, Role.READ).is_reader(writer)
        assert names_of(layout, Role.READ).fit(writer)
        assert sequence_of(reader) == sequence_of(writer) == 7


@pytest.mark.parametrize(
    ("layout", "roles", "says"),
    [
        (Layout.GO, (Role.READ, Role.WRITE), "Layout.CURATOR, Layout.KAZOO or Layout.AIOZK"),
        (Layout.WRITE_LOCK, (Role.ELECTION,), "Layout.CURATOR, Layout.KAZOO or Layout.AIOZK"),
        (JOBS, (Role.ELECTION,), f"layout: {JOBS!r} has no names for a Recipe"),
    ],
)
def test_recipe_refuses_other_layouts(layout: Layout, roles: tuple[Role, ...], says: str) -> None:
    checked_names("Recipe", layout, Role.LOCK)
    with pytest.raises(ConfigurationError) as caught:
        checked_names("Recipe", layout, *roles)
    assert says in str(caught.value)


# --- who shares a path with whom, by what each library does with names ----------------------------
#
# Each function here is what one library does to find out whether a contender is before it in the
# queue: Curator 5.4 (`LockInternals.getSortedChildren`), kazoo 2.11 (`Lock._get_predecessor`),
# aiozk 0.32 (`SequentialRecipe`, `BaseLock.wait_in_line`), go-zookeeper 1.0.4 (`parseSeq`), and
# `ZNodeName` of ZooKeeper's recipes. Two layouts fit exactly where both sides see each other.

BEFORE, OWN, BEHIND = "0000000007", "0000000008", "0000000009"
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
def test_peers_see_names_of_a_layout(form: tuple[Layout, Role], session_id: int) -> None:
    layout, role = form
    is_before, own = PEERS[form]
    assert sees(is_before, own)
    assert sees(is_before, names_of(layout, role).prefix(session_id, 0x1F))
    assert names_of(layout, role).fit(own + BEFORE)


LOCKS = [layout for layout, role in PEERS if role is Role.LOCK]


@pytest.mark.parametrize(("one", "other"), [*product(LOCKS, LOCKS)])
def test_locks_fit_where_both_see_each_other(one: Layout, other: Layout) -> None:
    (first, its), (second, others) = PEERS[one, Role.LOCK], PEERS[other, Role.LOCK]
    both_ways = sees(first, others) and sees(second, its)
    assert names_of(one, Role.LOCK).fit(others + BEFORE) == both_ways
    assert (
        names_of(one, Role.LOCK).fit(names_of(other, Role.LOCK).prefix(5, 1) + BEFORE) == both_ways
    )


def test_other_libraries_do_not_fail_at_default_names() -> None:
    """So it may look after it has written. The others may not."""
    for session_id, (is_before, _) in product(SESSIONS, PEERS.values()):
        for role in (Role.LOCK, Role.READ, Role.WRITE):
            is_before(names_of(Layout.CURATOR, role).prefix(session_id, 1) + BEHIND)
    for layout, role in (
        (Layout.AIOZK, Role.LOCK),
        (Layout.WRITE_LOCK, Role.LOCK),
        (Layout.CURATOR, Role.ELECTION),
    ):
        with pytest.raises(ValueError, match="invalid literal"):
            go(names_of(layout, role).prefix(1, 1) + BEHIND)


def test_readers_wait_for_writers_alone() -> None:
    reads = {
        Layout.KAZOO: kazoo("__lock__"),
        Layout.AIOZK: aiozk("write"),
        Layout.CURATOR: lambda name: "__WRIT__" in name and curators_shared(name),
    }
    for layout, is_before in reads.items():
        assert sees(is_before, names_of(layout, Role.WRITE).prefix(5, 1))
        assert not is_before(names_of(layout, Role.READ).prefix(5, 1) + BEFORE)


# --- children of a queue that are nobody's: whom they block, and whom they break ------------------

MUTEX = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-lock-0000000007"
GO, C, JAVA = "go-zookeeper", "ZooKeeper's lock in C", "ZooKeeper's WriteLock"


@pytest.mark.parametrize(
    ("name", "blocks", "breaks"),
    [
        # Sorted by the whole name, as Curator does, it is behind the numbers.
        ("config", (), (GO, C)),
        # And these are before them.
        ("-note", ("Curator",), (GO,)),
        ("!", ("Curator",), (GO, C)),
        ("lock-", ("Curator", C), (GO,)),
        ("old-lock-", ("Curator", C), (GO,)),
        # Numbers, but of no create.
        ("backup-1", (JAVA,), (GO,)),
        ("backup--1", (JAVA,), (GO,)),
        ("7", (GO,), (C,)),
        ("lock-5", (GO, JAVA), ()),
        ("a__5", (GO,), (C,)),
        # A contender to aiolead, as to all that go by the digits at the end.
        ("n-0000000003", ("aiolead", "aiozk", JAVA, C), (GO,)),
        ("0000000003", ("aiolead", "aiozk", "Curator", GO), (C,)),
        # Behind everybody who is there.
        ("n-0000000009", (), (GO,)),
    ],
)
def test_unrecognized_child_blocks_or_breaks_some_libraries(
    name: str, blocks: tuple[str, ...], breaks: tuple[str, ...]
) -> None:
    (found,) = unrecognized_children([MUTEX, name])
    assert found == UnrecognizedChild(name, blocks, breaks)
    assert not found.is_harmless


def test_contenders_are_recognized() -> None:
    assert (
        unrecognized_children([MUTEX, "0123456789abcdef0123456789abcdef__lock__0000000002"]) == ()
    )
    assert unrecognized_children([]) == ()


def test_harmless_children_are_marked() -> None:
    found = unrecognized_children(["n-0000000009", "lock-99", MUTEX])
    assert [(each.name, each.is_harmless) for each in found] == [
        ("lock-99", True),
        ("n-0000000009", False),
    ]


@given(st.lists(st.text("0129-_ !lockxREAD.é", max_size=30), max_size=10))
def test_any_names_are_reported_in_order(names: list[str]) -> None:
    found = unrecognized_children([*names, MUTEX])
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert {each.name for each in found} <= set(names)
