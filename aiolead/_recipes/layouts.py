"""The public value that says how contenders are named; `names` has what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, final

from .._util.contender_names import Role as Role
from ..errors import ConfigurationError
from ..paths import sequence_of, validate
from .names import AIOZK, LIBRARIES, PLACE, Names, Scheme

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
    if not layout._scheme.has(*roles):
        others = [scheme for scheme in LIBRARIES if scheme.has(*roles)]
        raise ConfigurationError(
            f"layout: {layout!r} has no names for a {recipe}: use {_listed(others)}, or a Layout "
            "of your own"
        )
    return names_of(layout, roles[0])


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
