"""The naming schemes of contenders: the public value `Layout`, and what follows from it. Pure.

All libraries on a path share the parent's sequence counter: the number says who came first, and
whatever has a number is waited for. They differ in whom they *see* (see `contender_names`): two
libraries that do not see each other both believe to be first. So names follow a layout, and a
neighbour that does not fit it is refused.
"""

from __future__ import annotations

import enum
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, final

from .._util.contender_names import (
    LAST_SEQUENCE,
    RULES_PART,
    KnownName,
    known_name,
    matcher,
)
from .._util.contender_names import Role as Role
from .._util.escaping import escaped
from ..errors import ConfigurationError
from ..model import CreateMode
from ..paths import sequence_of, validate

__types__ = ["Layout", "SequenceWarning"]

PLACE = "{id}"
"""It stands for the identity in a pattern: the session and the count, which make a name unique."""


class Identity(enum.Enum):
    """How an identity is written.

    Attributes:
        pattern: a pattern of it.
        session: the format of the session; 0 is the unsigned number, 1 is it as Java prints a long.
        count: the format specification of the count.
    """

    HEX = "[0-9a-f]{32}", "{0:016x}", "016x"
    DASHED = "[0-9a-f]{16}-[0-9a-f]+", "{0:016x}-", "x"
    DECIMAL = "-?[0-9]+-[0-9]+", "{1}-", "d"

    def __init__(self, pattern: str, session: str, count: str) -> None:
        self.pattern = pattern
        self.session = session
        self.count = count


@functools.lru_cache(256)
def _session(form: str, session_id: int) -> str:
    unsigned = session_id & (1 << 64) - 1
    return form.format(unsigned, unsigned - (unsigned >> 63 << 64))


@final
class Names:
    """The names of the contenders of one role in one layout.

    To `head`, the identity and `tail` the server appends the number.
    """

    def __init__(self, scheme: Scheme, role: Role, pattern: str, identity: Identity) -> None:
        self.scheme = scheme
        self.role = role
        head, _, tail = pattern.partition(PLACE)
        self.head: str = head
        self.tail: str = tail
        self._identity = identity

    # Patterns are compiled at the first use: most are never used.

    @functools.cached_property
    def own_pattern(self) -> re.Pattern[str]:
        head, tail = re.escape(self.head), re.escape(self.tail)
        identity = f"({self._identity.pattern}){RULES_PART}"
        return re.compile(f"{head}{identity}{tail}([0-9]{{10}})", re.ASCII)

    @functools.cached_property
    def any_pattern(self) -> re.Pattern[str]:
        return matcher(f"{re.escape(self.head)}.*{re.escape(self.tail)}")

    @property
    def ours(self) -> Callable[[str], re.Match[str] | None]:
        """Matches names that we could have given; the groups are the identity and the number."""
        return self.own_pattern.fullmatch

    def have(self, name: str) -> bool:
        """Whether a name is of this form, given by any library."""
        return self.any_pattern.fullmatch(name) is not None

    def prefix(self, session_id: int, count: int, rules: str = "") -> str:
        """The name to which the server appends the number; `rules` is `ElectionRules.part`.

        `count` is given once by the client (`Backend.serial`), so no two znodes ever have the same
        name. Numbers start again when a path is deleted and created again; a held-back request of
        ours (a fenced write, a delete) must not hit somebody else's znode then.
        """
        session = _session(self._identity.session, session_id)
        return f"{self.head}{session}{count:{self._identity.count}}{rules}{self.tail}"

    def count_in(self, session_id: int, name: str) -> int | None:
        """The count in a name that a client of that session could have given; None if none could.

        See `prefix`.
        """
        match, session = self.ours(name), _session(self._identity.session, session_id)
        if match is None or not match[1].startswith(session):
            return None
        return int(match[1][len(session) :], 10 if self._identity is Identity.DECIMAL else 16)

    def as_reader(self, name: str) -> str:
        """The name of the reader that a writer becomes in its place; others are unchanged."""
        match, reader = self.ours(name), self.scheme.names[Role.READ]
        return name if match is None else f"{reader.head}{match[1]}{reader.tail}{match[2]}"

    def is_reader(self, name: str) -> bool:
        """Whether a name is that of a reader, which shares with other readers."""
        if self.scheme.fitting is not None:
            return known_name(name) in _READERS
        reader = self.scheme.names.get(Role.READ)
        return reader is not None and reader.have(name)

    def fit(self, name: str) -> bool:
        """Whether contenders of that name and those with these names wait for each other."""
        if self.ours(name):
            return True
        kind, names = known_name(name), self.scheme.names
        if self.scheme.fitting is not None:
            return kind is None or kind in self.scheme.fitting[self.role]
        recipe = (Role.READ, Role.WRITE) if self.role.shares else (self.role,)
        if any(names[role].have(name) for role in recipe):
            return True
        return kind is None and not any(each.have(name) for each in names.values())

    def misfit(self, name: str) -> str | None:
        """Why a contender of that name and we would not exclude each other; None if we would."""
        if self.fit(name):
            return None
        kind = known_name(name)
        if kind is None:
            return (
                "contends for something else on the same path: give each recipe a path of its own"
            )
        others = [each.names[self.role] for each in LIBRARIES if self.role in each.names]
        fitting = [names for names in others if names.fit(name)]
        if not fitting:
            return (
                f"contends for {kind.what} on the same path (in the layout of {kind.library}): "
                "give each recipe a path of its own"
            )
        best = next((names for names in fitting if names.have(name)), fitting[0])
        return (
            f"belongs to {kind.library}, whose contenders and those of {self.scheme.label} do not "
            f"exclude each other: use layout={best.scheme.label} on this path, in every program"
        )


@final
class Scheme:
    """All names of one layout.

    Args:
        label: the layout as users write it.
        patterns: the name before its number, for each role.
        fitting: the known names that fit, for each role; None for a layout of a user's own.
        identity: the form of what `PLACE` stands for.
        parents: the mode of a missing path. Servers delete an empty container, and not all
            contenders can cope with that.
    """

    def __init__(
        self,
        label: str,
        patterns: Mapping[Role, str],
        fitting: Mapping[Role, frozenset[KnownName]] | None = None,
        identity: Identity = Identity.HEX,
        parents: CreateMode = CreateMode.PERSISTENT,
    ) -> None:
        self.label = label
        self.patterns = patterns
        self.fitting = fitting
        self.parents = parents
        self.names: dict[Role, Names] = {
            role: Names(self, role, each, identity) for role, each in patterns.items()
        }


# --- the libraries -------------------------------------------------------------------------------

_READERS = frozenset({KnownName.CURATOR_READER, KnownName.KAZOO_READER, KnownName.AIOZK_READER})


def _library(
    label: str,
    rows: Mapping[Role, tuple[str, Iterable[KnownName]]],
    identity: Identity = Identity.HEX,
    parents: CreateMode = CreateMode.CONTAINER,
) -> Scheme:
    """The names of a library. `rows` have each role's pattern, and the known names that fit."""
    patterns = {role: pattern for role, (pattern, _) in rows.items()}
    fitting = {role: frozenset(known) for role, (_, known) in rows.items()}
    return Scheme(label, patterns, fitting, identity, parents)


_CURATORS = (KnownName.CURATOR_READER, KnownName.CURATOR_WRITER)
_KAZOOS = (KnownName.KAZOO_READER, KnownName.KAZOO)
_AIOZKS = (KnownName.AIOZK_READER, KnownName.AIOZK_WRITER)
# Both go by the number at the end, whatever the other one writes before it.
_BY_NUMBER = (KnownName.AIOZK_LOCK, KnownName.WRITE_LOCK)

CURATOR = _library(
    "Layout.CURATOR",
    {
        Role.LOCK: ("{id}-lock-", [KnownName.MUTEX]),
        Role.ELECTION: ("{id}-latch-", [KnownName.LATCH]),
        Role.READ: ("{id}-__READ__", _CURATORS),
        Role.WRITE: ("{id}-__WRIT__", _CURATORS),
        Role.WAIT: ("{id}-wait-", ()),
    },
    Identity.DASHED,
)
KAZOO = _library(
    "Layout.KAZOO",
    {
        Role.LOCK: ("{id}__lock__", [KnownName.KAZOO]),
        Role.ELECTION: ("{id}__lock__", [KnownName.KAZOO]),
        Role.READ: ("{id}__rlock__", _KAZOOS),
        Role.WRITE: ("{id}__lock__", _KAZOOS),
    },
    parents=CreateMode.PERSISTENT,  # kazoo looks for a path only once
)
GO = _library("Layout.GO", {Role.LOCK: ("_c_{id}-lock-", [KnownName.MUTEX])})
AIOZK = _library(
    "Layout.AIOZK",
    {
        Role.LOCK: ("lock-{id}-", _BY_NUMBER),
        Role.ELECTION: ("candidate-{id}-", [KnownName.AIOZK_CANDIDATE]),
        Role.READ: ("read-{id}-", _AIOZKS),
        Role.WRITE: ("write-{id}-", _AIOZKS),
    },
)
WRITE_LOCK = _library("Layout.WRITE_LOCK", {Role.LOCK: ("x-{id}-", _BY_NUMBER)}, Identity.DECIMAL)

LIBRARIES = (CURATOR, KAZOO, GO, AIOZK, WRITE_LOCK)


# --- the end of the sequence numbers -------------------------------------------------------------

WARN_FROM = LAST_SEQUENCE // 2 + 1
"""The number from which to warn, half of them: at a thousand a second, twelve days are left."""

_STEP = 5


class SequenceWarning(UserWarning):
    """A path has used up half of its sequence numbers, or more; at the end nobody can contend.

    Each process warns once for each path, and again with every further 5 %. This is a Python
    warning: `logging.captureWarnings(True)` logs it. `SequenceExhaustedError` says what to do.

    Attributes:
        path: the path.
        sequence: the number that the contender was given.
        left: how many numbers there are after it.
    """

    def __init__(self, path: str, sequence: int) -> None:
        used = _percent(sequence) // _STEP * _STEP
        # The same text for the same path and 5 %: Python filters warnings by it.
        super().__init__(
            f"{escaped(path)} has used up {used} % of its sequence numbers: before they end, let "
            "all contenders stop, delete the path and start again, or use a new path"
        )
        self.path = path
        self.sequence = sequence
        self.left: int = LAST_SEQUENCE - 1 - sequence

    def __reduce__(self) -> tuple[type[SequenceWarning], tuple[str, int]]:
        return type(self), (self.path, self.sequence)


def warn_of_the_end(path: str, sequence: int) -> None:
    """Warn of a number from `WARN_FROM` on."""
    warnings.warn(SequenceWarning(path, sequence), stacklevel=2)


def _percent(sequence: int) -> int:
    return 100 * sequence // LAST_SEQUENCE


_FIELDS = {Role.LOCK: "lock", Role.ELECTION: "election", Role.READ: "read", Role.WRITE: "write"}


@final
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Layout:
    """The naming scheme of the contenders on a path, and so with which libraries it is shared.

    Use one of the attributes below, or your own for programs with other names, such as a subclass
    of kazoo's `Lock`:

        Layout(lock="{id}-job-")

    Each pattern is what comes before the number; `{id}` stands for 32 hexadecimal digits that are
    unique: the session and a count. Other programs may have anything there. All contenders on a
    path must have the same layout. They wait for whatever has a number; a neighbour with a name of
    another library or recipe is refused (`MixedLayoutError`). A recipe whose pattern is missing
    refuses the layout.

    Args:
        lock: the pattern for `Lock` and `ReentrantLock`.
        election: the pattern for `Election`.
        read: the pattern for readers of a `ReadWriteLock`.
        write: the pattern for its writers; both or none. No name may match both.

    Raises:
        ConfigurationError: a pattern is malformed, or there is none.
    """

    CURATOR: ClassVar[Layout]
    """Curator's names, and the default.

    `<session>-<count>-`, then `lock-`, `latch-`, `__READ__` or `__WRIT__`. Only the part from that
    marker on counts, also for other libraries that understand it; Curator has a random id before
    it."""

    KAZOO: ClassVar[Layout]
    """kazoo's: `{id}__lock__` for locks, elections and writers, `{id}__rlock__` for readers."""

    GO: ClassVar[Layout]
    """go-zookeeper's: `_c_{id}-lock-`, for locks alone; Curator sees them, too."""

    AIOZK: ClassVar[Layout]
    """aiozk's: `lock-{id}-`, `candidate-{id}-`, `read-{id}-`, `write-{id}-`."""

    WRITE_LOCK: ClassVar[Layout]
    """That of ZooKeeper's own `WriteLock`: `x-<session>-<count>-`, for locks alone."""

    lock: str | None = None
    election: str | None = None
    read: str | None = None
    write: str | None = None
    _library: str = field(init=False, default="")
    _scheme: Scheme = field(init=False, compare=False)

    def __post_init__(self) -> None:
        patterns = {
            role: _checked(name, pattern)
            for role, name in _FIELDS.items()
            if (pattern := getattr(self, name)) is not None
        }
        if not patterns:
            raise ConfigurationError(
                'a layout needs a pattern at least, such as lock="{id}-lock-", or use one of '
                f"{_listed(LIBRARIES)}"
            )
        scheme = Scheme(repr(self), patterns)
        _check_sharing(scheme.names)
        object.__setattr__(self, "_scheme", scheme)

    def __repr__(self) -> str:
        if self._library:
            return self._library
        fields = {name: getattr(self, name) for name in _FIELDS.values()}
        given = ", ".join(f"{name}={pattern!r}" for name, pattern in fields.items() if pattern)
        return f"Layout({given})"


def _of_library(scheme: Scheme) -> Layout:
    given = {_FIELDS[role]: each for role, each in scheme.patterns.items() if role in _FIELDS}
    layout = Layout(**given)
    object.__setattr__(layout, "_library", scheme.label)
    object.__setattr__(layout, "_scheme", scheme)
    return layout


def _checked(argument: str, pattern: str) -> str:
    """Return a user's pattern; raise `ConfigurationError` if it is malformed."""
    if not isinstance(pattern, str) or pattern.count(PLACE) != 1 or "/" in pattern:
        raise ConfigurationError(
            f"{argument}: must be a str without a slash, with {PLACE} once in it, not {pattern!r}"
        )
    prefix = pattern.replace(PLACE, "0" * 32)
    if "{" in prefix or "}" in prefix:
        raise ConfigurationError(f"{argument}: has braces beside those of {PLACE}: {pattern!r}")
    validate(f"/{prefix}", name=argument)
    # Some ends make a sign of a dash, or lengthen the number.
    numbers = ("0000000007", "1234567890", "2147483647")
    is_read = all(sequence_of(prefix + number) == int(number) for number in numbers)
    if pattern.endswith(PLACE) or prefix[-1].isdigit() or not is_read:
        raise ConfigurationError(
            f"{argument}: must end so that the number after it can be recognized, as in a dash "
            f"after a letter, not {pattern!r}"
        )
    return pattern


def _check_sharing(names: Mapping[Role, Names]) -> None:
    """Require patterns for readers and writers or none, and that no name matches both."""
    read, write = names.get(Role.READ), names.get(Role.WRITE)
    if read is None and write is None:
        return
    if read is None or write is None:
        raise ConfigurationError("read, write: give both patterns, or none")
    # Reversed. A negative number brings its own dash, which may be the other tail's last.
    ends = [(tail[::-1], f"-{tail[::-1]}") for tail in (read.tail, write.tail)]
    if _one_begins_the_other(read.head, write.head) and any(
        _one_begins_the_other(*pair) for pair in product(*ends)
    ):
        raise ConfigurationError("read, write: must not match the same names")


def _one_begins_the_other(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


LAYOUTS = tuple(map(_of_library, LIBRARIES))
Layout.CURATOR, Layout.KAZOO, Layout.GO, Layout.AIOZK, Layout.WRITE_LOCK = LAYOUTS


def names_of(layout: Layout, role: Role) -> Names:
    """The names of contenders of that role; the layout must have some."""
    return layout._scheme.names[role]


def checked_names(recipe: str, layout: Layout, *roles: Role) -> Names:
    """Return the names of the first role; raise `ConfigurationError` if one has none."""
    if not isinstance(layout, Layout):
        raise ConfigurationError(f"layout: must be a Layout, not {layout!r}")
    wanted, names = set(roles), layout._scheme.names
    if not names.keys() >= wanted:
        others = [scheme for scheme in LIBRARIES if scheme.names.keys() >= wanted]
        raise ConfigurationError(
            f"layout: {layout!r} has no names for a {recipe}: use {_listed(others)}, or a Layout "
            "of your own"
        )
    return names[roles[0]]


def check_leaders(names: Names, leaders: int) -> None:
    """Raise `ConfigurationError` if names cannot say that so many may lead.

    A contender whose name does not say it counts as one that lets one lead.
    """
    # To aiozk, only 32 digits between two dashes are an id.
    if leaders > 1 and names.scheme.label == AIOZK.label:
        raise ConfigurationError(
            f"leaders: must be 1 with layout={AIOZK.label}, whose names cannot say how many may "
            f"lead, not {leaders}: use another layout"
        )


def check_priority(names: Names) -> None:
    """Raise `ConfigurationError` if names cannot say a priority."""
    if names.scheme.label == AIOZK.label:
        raise ConfigurationError(
            f"priority: must be None with layout={AIOZK.label}, whose names cannot say it: use "
            "another layout"
        )


def _listed(schemes: Sequence[Scheme]) -> str:
    *most, last = (scheme.label for scheme in schemes)
    return f"{', '.join(most)} or {last}" if most else last
