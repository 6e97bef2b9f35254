"""How a contender's znode is named, and which neighbours do not fit.

All libraries on a path share the parent's sequence counter: the number says who came first, and
whatever has a number is waited for. They differ in whom they *see* (see `contender_names`): two
libraries that do not see each other both believe to be first. So names follow a layout, and a
neighbour that does not fit it is refused.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, final

from .._util.contender_names import LEADERS_PART, KnownName, known_name, leaders_part, matcher
from .._util.contender_names import Role as Role
from ..errors import ConfigurationError
from ..model import CreateMode
from ..paths import sequence_of, validate

_PLACE = "{id}"

_FIELDS = {Role.LOCK: "lock", Role.ELECTION: "election", Role.READ: "read", Role.WRITE: "write"}


class _Identity(enum.Enum):
    """How the session and the count, which make a name unique, stand in it.

    Attributes:
        pattern: a pattern of both.
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


@dataclass(frozen=True)
class _Form:
    """The name to which the server appends the number: head, identity, tail."""

    head: str
    tail: str
    identity: _Identity

    # Compiled at the first use: most forms are never used.

    @functools.cached_property
    def ours(self) -> re.Pattern[str]:
        """Names that we could have given: first group the identity, second the number."""
        head, tail = re.escape(self.head), re.escape(self.tail)
        identity = f"({self.identity.pattern}){LEADERS_PART}"
        return re.compile(f"{head}{identity}{tail}([0-9]{{10}})", re.ASCII)

    @functools.cached_property
    def theirs(self) -> re.Pattern[str]:
        """Names of this form that anybody could have given."""
        return matcher(f"{re.escape(self.head)}.*{re.escape(self.tail)}")

    @classmethod
    def of(cls, pattern: str, identity: _Identity = _Identity.HEX) -> _Form:
        head, _, tail = pattern.partition(_PLACE)
        return cls(head, tail, identity)

    def prefix(self, session_id: int, count: int, leaders: int = 1) -> str:
        several = leaders_part(leaders) if leaders > 1 else ""
        session = _session(self.identity.session, session_id)
        return f"{self.head}{session}{count:{self.identity.count}}{several}{self.tail}"

    def count_in(self, session_id: int, name: str) -> int | None:
        """The count in a name that a client of that session has given; None if none has."""
        match, session = self.ours.fullmatch(name), _session(self.identity.session, session_id)
        if match is None or not match[1].startswith(session):
            return None
        return int(match[1][len(session) :], 10 if self.identity is _Identity.DECIMAL else 16)


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
    _forms: Mapping[Role, _Form] = field(init=False, compare=False)
    _kinds: Mapping[Role, frozenset[KnownName]] = field(
        init=False, default_factory=dict, hash=False
    )
    _name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        forms = {
            role: _parsed(name, pattern)
            for role, name in _FIELDS.items()
            if (pattern := getattr(self, name)) is not None
        }
        if not forms:
            raise ConfigurationError(
                'a layout needs a pattern at least, such as lock="{id}-lock-", or use one of '
                f"{_listed(LAYOUTS)}"
            )
        _check_sharing(forms)
        object.__setattr__(self, "_forms", forms)

    @classmethod
    def _of_library(
        cls,
        name: str,
        identity: _Identity,
        forms: Mapping[Role, str],
        kinds: Mapping[Role, frozenset[KnownName]],
    ) -> Layout:
        """The layout of a library, with the known names that fit it."""
        layout = cls(**{name: forms[role] for role, name in _FIELDS.items() if role in forms})
        own = {role: _Form.of(pattern, identity) for role, pattern in forms.items()}
        object.__setattr__(layout, "_forms", own)
        object.__setattr__(layout, "_kinds", kinds)
        object.__setattr__(layout, "_name", name)
        return layout

    def __repr__(self) -> str:
        if self._name:
            return f"Layout.{self._name}"
        fields = {name: getattr(self, name) for name in _FIELDS.values()}
        given = ", ".join(f"{name}={pattern!r}" for name, pattern in fields.items() if pattern)
        return f"Layout({given})"

    # --- what is written -----------------------------------------------------------------------

    def _require(self, recipe: str, *roles: Role) -> None:
        """Raise `ConfigurationError` if the layout has no names for a recipe."""
        if not self._has(*roles):
            others = [layout for layout in LAYOUTS if layout._has(*roles)]
            raise ConfigurationError(
                f"layout: {self!r} has no names for a {recipe}: use {_listed(others)}, or a Layout "
                "of your own"
            )

    def _require_leaders(self, leaders: int) -> None:
        """Raise `ConfigurationError` if names cannot say that so many may lead.

        A contender whose name does not say it counts as one that lets one lead.
        """
        # To aiozk, only 32 digits between two dashes are an id.
        if leaders > 1 and self == Layout.AIOZK:
            raise ConfigurationError(
                f"leaders: must be 1 with layout={self!r}, whose names cannot say how many may "
                f"lead, not {leaders}: use another layout"
            )

    def _has(self, *roles: Role) -> bool:
        return all(role in self._forms for role in roles)

    @property
    def _parents(self) -> CreateMode:
        """The mode of a missing path: a container, if all contenders can cope with its deletion.

        Servers delete an empty container. kazoo looks for a path only once; for custom layouts it
        is not known who contends.
        """
        careful = self == Layout.KAZOO or not self._name
        return CreateMode.PERSISTENT if careful else CreateMode.CONTAINER

    def _prefix(self, role: Role, session_id: int, count: int, leaders: int = 1) -> str:
        """The name to which the server appends the number; it says how many may lead, if several.

        `count` is given once by the client (`Backend.serial`), so no two znodes ever have the same
        name. Numbers start again when a path is deleted and created again; a held-back request of
        ours (a fenced write, a delete) must not hit somebody else's znode then.
        """
        return self._forms[role].prefix(session_id, count, leaders)

    def _ours(self, role: Role) -> Callable[[str], re.Match[str] | None]:
        """Matches a name that we could have given; the second group is the number."""
        return self._forms[role].ours.fullmatch

    def _is_like_ours(self, role: Role, name: str) -> bool:
        return self._ours(role)(name) is not None

    def _count_in(self, role: Role, session_id: int, name: str) -> int | None:
        """The count in a name that a client of that session could have given; None if it is none.

        See `_prefix`.
        """
        return self._forms[role].count_in(session_id, name)

    def _downgraded(self, name: str) -> str:
        """The name of the reader that a writer becomes in its place; a reader's is its own."""
        match = self._forms[Role.WRITE].ours.fullmatch(name)
        if match is None:
            return name
        reader = self._forms[Role.READ]
        return f"{reader.head}{match[1]}{reader.tail}{match[2]}"

    # --- what is read --------------------------------------------------------------------------

    def _is_reader(self, name: str) -> bool:
        """Whether a name is that of a reader, which shares with other readers."""
        if self._name:
            return known_name(name) in _READERS
        return Role.READ in self._forms and self._is_own(Role.READ, name)

    def _is_own(self, role: Role, name: str) -> bool:
        return self._forms[role].theirs.fullmatch(name) is not None

    def _fits(self, role: Role, name: str) -> bool:
        """Whether contenders of that name and of this layout wait for each other."""
        if not self._has(role):
            return False
        if self._forms[role].ours.fullmatch(name):
            return True
        kind = known_name(name)
        if self._name:
            return kind is None or kind in self._kinds.get(role, ())
        if role.shares:
            mine = self._is_own(Role.READ, name) or self._is_own(Role.WRITE, name)
        else:
            mine = self._is_own(role, name)
        if mine:
            return True
        return kind is None and not any(self._is_own(other, name) for other in self._forms)

    def _misfit(self, role: Role, name: str) -> str | None:
        """Why a contender of that name and we would not exclude each other; None if we would."""
        if self._fits(role, name):
            return None
        kind = known_name(name)
        if kind is None:
            return (
                "contends for something else on the same path: give each recipe a path of its own"
            )
        fitting = [layout for layout in LAYOUTS if layout._fits(role, name)]
        if not fitting:
            return (
                f"contends for {kind.what} on the same path ({kind.library}): give each recipe a "
                "path of its own"
            )
        best = next((layout for layout in fitting if layout._is_own(role, name)), fitting[0])
        return (
            f"belongs to {kind.library}, whose contenders and those of {self!r} do not exclude "
            f"each other: use layout={best!r} on this path, in every program"
        )


def _parsed(name: str, pattern: str) -> _Form:
    """Parse a user's pattern; raise `ConfigurationError` if it is malformed."""
    if not isinstance(pattern, str) or pattern.count(_PLACE) != 1 or "/" in pattern:
        raise ConfigurationError(
            f"{name}: must be a str without a slash, with {_PLACE} once in it, not {pattern!r}"
        )
    form = _Form.of(pattern)
    if "{" in form.head + form.tail or "}" in form.head + form.tail:
        raise ConfigurationError(f"{name}: has braces beside those of {_PLACE}: {pattern!r}")
    prefix = form.prefix(1, 1)
    validate(f"/{prefix}", name=name)
    # Some ends make a sign of a dash, or lengthen the number.
    last = form.tail[-1:]
    if not last or last.isdigit() or any(sequence_of(prefix + n) != int(n) for n in _NUMBERS):
        raise ConfigurationError(
            f"{name}: must end so that the number after it can be recognized, as in a dash "
            f"after a letter, not {pattern!r}"
        )
    return form


_NUMBERS = ("0000000007", "1234567890", "2147483647")


def _check_sharing(forms: Mapping[Role, _Form]) -> None:
    """Require both patterns or none, and that no name matches both."""
    read, write = forms.get(Role.READ), forms.get(Role.WRITE)
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


def _listed(layouts: Sequence[Layout]) -> str:
    *most, last = map(repr, layouts)
    return f"{', '.join(most)} or {last}" if most else last


_READERS = frozenset({KnownName.CURATOR_READER, KnownName.KAZOO_READER, KnownName.AIOZK_READER})

# Both go by the number at the end, whatever the other one writes before it.
_BY_NUMBER = {Role.LOCK: frozenset({KnownName.AIOZK_LOCK, KnownName.WRITE_LOCK})}


def _shared(*names: KnownName) -> dict[Role, frozenset[KnownName]]:
    return dict.fromkeys((Role.READ, Role.WRITE), frozenset(names))


Layout.CURATOR = Layout._of_library(
    "CURATOR",
    _Identity.DASHED,
    {
        Role.LOCK: "{id}-lock-",
        Role.ELECTION: "{id}-latch-",
        Role.READ: "{id}-__READ__",
        Role.WRITE: "{id}-__WRIT__",
        Role.WAIT: "{id}-wait-",
    },
    {
        Role.LOCK: frozenset({KnownName.MUTEX}),
        Role.ELECTION: frozenset({KnownName.LATCH}),
        **_shared(KnownName.CURATOR_READER, KnownName.CURATOR_WRITER),
    },
)
Layout.KAZOO = Layout._of_library(
    "KAZOO",
    _Identity.HEX,
    {
        Role.LOCK: "{id}__lock__",
        Role.ELECTION: "{id}__lock__",
        Role.READ: "{id}__rlock__",
        Role.WRITE: "{id}__lock__",
    },
    {
        **dict.fromkeys((Role.LOCK, Role.ELECTION), frozenset({KnownName.KAZOO})),
        **_shared(KnownName.KAZOO_READER, KnownName.KAZOO),
    },
)
Layout.GO = Layout._of_library(
    "GO",
    _Identity.HEX,
    {Role.LOCK: "_c_{id}-lock-"},
    {Role.LOCK: frozenset({KnownName.MUTEX})},
)
Layout.AIOZK = Layout._of_library(
    "AIOZK",
    _Identity.HEX,
    {
        Role.LOCK: "lock-{id}-",
        Role.ELECTION: "candidate-{id}-",
        Role.READ: "read-{id}-",
        Role.WRITE: "write-{id}-",
    },
    {
        **_BY_NUMBER,
        Role.ELECTION: frozenset({KnownName.AIOZK_CANDIDATE}),
        **_shared(KnownName.AIOZK_READER, KnownName.AIOZK_WRITER),
    },
)
Layout.WRITE_LOCK = Layout._of_library(
    "WRITE_LOCK", _Identity.DECIMAL, {Role.LOCK: "x-{id}-"}, _BY_NUMBER
)

LAYOUTS = (Layout.CURATOR, Layout.KAZOO, Layout.GO, Layout.AIOZK, Layout.WRITE_LOCK)
