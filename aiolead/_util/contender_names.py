"""Names of contenders' znodes: the recipe and the library of their creators. Pure.

Each library has names of its own, and sees some of the others' or none. How each reads a name
decides which of them can share a path:

* Curator sorts all children of a path by the text after the last of its markers (`lock-`, `latch-`,
  `__READ__`, `__WRIT__`), or by the whole name if there is none. So it ignores what it does not
  understand, or waits for it forever.
* go-zookeeper uses the number after the last `lock-`, else after the last `__`. A child that has
  none makes its `Lock()` fail.
* kazoo looks only at names that end in `__lock__` (`__rlock__`) and the number.
* aiozk takes every child that ends in ten digits. Its readers wait for those whose label, before
  the last two dashes, is `write`.
* ZooKeeper's own `WriteLock` uses the number after the last dash. A name without one comes last.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, final


class Role(enum.Enum):
    ELECTION = "a leader election"
    LOCK = "a lock"
    READ = "a read/write lock, to read"
    WRITE = "a read/write lock, to write"
    WAIT = "a condition"
    """Waiting for one: a queue in which nobody holds."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # that of enumerations takes calls of Python functions

    @functools.cached_property
    def shares(self) -> bool:
        """Whether it contends in a queue of readers and writers, where readers share."""
        return self in (Role.READ, Role.WRITE)


NUMBER = "-?[0-9]{9,10}"
"""The number that servers append: ten digits, or, beyond the range, a sign and nine or ten."""

GUID = "[0-9a-f]{32}"


@final
class KnownName(enum.Enum):
    """The recipe and library of a name, by what comes before the number; the first match counts.

    Attributes:
        what: the recipe, for messages.
        library: the libraries with such names, for messages.
        kind: the contender in one word: reader, writer, election, lock or lease.
        layout: the layout of aiolead's with such names, curator or kazoo; else empty.
    """

    CURATOR_READER = ".*__READ__", "a read/write lock", "Curator", "reader", "curator"
    CURATOR_WRITER = ".*__WRIT__", "a read/write lock", "Curator", "writer", "curator"
    LATCH = ".*latch-", "a leader election", "Curator", "election", "curator"
    MUTEX = ".*lock-", "a lock", "Curator, or go-zookeeper", "lock", "curator"
    KAZOO_READER = ".*__rlock__", "a read/write lock", "kazoo", "reader", "kazoo"
    KAZOO = ".*__lock__", "a lock, or a leader election", "kazoo", "lock", "kazoo"
    AIOZK_READER = f"read-{GUID}-", "a read/write lock", "aiozk", "reader"
    AIOZK_WRITER = f"write-{GUID}-", "a read/write lock", "aiozk", "writer"
    AIOZK_CANDIDATE = f"candidate-{GUID}-", "a leader election", "aiozk", "election"
    AIOZK_LEASE = f"lease-{GUID}-", "a lease", "aiozk", "lease"
    AIOZK_LOCK = f".+-{GUID}-", "a lock", "aiozk", "lock"
    WRITE_LOCK = (
        "x-(?:-?[0-9]+|[0-9a-f]{16})-(?:[0-9]+-)?",
        "a lock",
        "ZooKeeper's WriteLock",
        "lock",
    )
    OFFER = "n_", "a leader election", "ZooKeeper's LeaderElectionSupport", "election"

    pattern: str
    what: str
    library: str
    kind: str
    layout: str

    def __init__(self, pattern: str, what: str, library: str, kind: str, layout: str = "") -> None:
        self.pattern = pattern
        self.what = what
        self.library = library
        self.kind = kind
        self.layout = layout

    @property
    def family(self) -> str:
        """Only contenders of one family exclude each other."""
        named = self.layout or self.library.replace("'s", "")
        if named.startswith("ZooKeeper"):
            return named
        recipe = self.kind
        if recipe in ("reader", "writer"):
            # kazoo's recipes all wait for each other.
            recipe = "lock" if named == "kazoo" else "read/write lock"
        return f"{named} {recipe}"


def matcher(*patterns: str) -> re.Pattern[str]:
    """A pattern for `fullmatch`: one of the given beginnings, then a number."""
    return re.compile(f"(?:{'|'.join(patterns)}){NUMBER}", re.ASCII)


@functools.cache
def _matchers() -> tuple[tuple[KnownName, re.Pattern[str]], ...]:
    # Compiled for the first name that is not ours: few programs ever see one.
    return tuple((kind, matcher(kind.pattern)) for kind in KnownName)


def known_name(name: str) -> KnownName | None:
    return next((kind for kind, names in _matchers() if names.fullmatch(name)), None)


LAST_SEQUENCE = 0x7FFF_FFFF
"""The number that servers hand out more than once. A contender that gets it holds nothing."""

_COUNT = "[1-9][0-9]{0,3}"
_PRIORITY = "-?[0-9]{1,4}"
_ARRIVAL = "[0-9]{1,10}"
_RULES = (
    f"-({_COUNT})leaders(?:-from({_COUNT}))?|-priority({_PRIORITY})(?:at({_ARRIVAL}))?(?![0-9])"
)

RULES_PART = f"(?:-{_COUNT}leaders(?:-from{_COUNT})?|-priority{_PRIORITY}(?:at{_ARRIVAL})?)?"
"""A pattern for the part of a name that is made by `ElectionRules.part`."""


@final
class ElectionRules(NamedTuple):
    """The rules of an election as one of its contenders knows them, and says them in its name.

    Attributes:
        leaders: how many may lead at once.
        leaders_before: the number of other contenders that is accepted while it is changed.
        priority: its own, if those present with the highest priority lead; None if they lead in the
            order of arrival. With one leader only.
        arrival: the number with which a contender with a priority first came, if it has stepped
            back since, and so has another number by now.
    """

    leaders: int = 1
    leaders_before: int | None = None
    priority: int | None = None
    arrival: int | None = None

    @property
    def part(self) -> str:
        """The part of the name, behind the id; empty for one leader, as other libraries have it.

        Other libraries ignore it, as they ignore the id.
        """
        if self.priority is not None:
            arrival = "" if self.arrival is None else f"at{self.arrival}"
            return f"-priority{self.priority}{arrival}"
        if self.leaders_before is not None:
            return f"-{self.leaders}leaders-from{self.leaders_before}"
        return f"-{self.leaders}leaders" if self.leaders > 1 else ""

    def fit(self, other: ElectionRules) -> bool:
        """Whether contenders with these rules share a path; the smaller number of leaders counts.

        It is the same from both sides, so that the order of arrival makes no difference.
        """
        if (self.priority is None) is not (other.priority is None):
            return False
        return (
            self.leaders in (other.leaders, other.leaders_before)
            or self.leaders_before == other.leaders
        )


_ONE_LEADER = ElectionRules()


def rules_of(name: str) -> ElectionRules:
    """The rules that a contender's name says: one leader if it says nothing.

    That of a contender of another library says nothing.
    """
    has_some = "leaders" in name or "priority" in name
    match = re.search(_RULES, name) if has_some else None
    if match is None:
        return _ONE_LEADER
    leaders, *more = (None if part is None else int(part) for part in match.groups())
    return ElectionRules(leaders or 1, *more)


def leaders_of(name: str) -> int:
    """How many may lead at once by a contender's name; 1 if it does not say it."""
    return rules_of(name).leaders


def leaders_in(name: str) -> int | None:
    """How many may lead at once, as far as a contender's name says it."""
    rules = rules_of(name)
    return None if rules is _ONE_LEADER or rules.priority is not None else rules.leaders


REVOKED = b"__REVOKE__"
"""The beginning of a znode's data when its owner is asked to release. Curator has it, too."""

UNREADY = b"__UNREADY__"
"""Precedes the identity of a contender that warms up and cannot lead yet; behind `REVOKED`."""

DONE = b"__DONE__"
"""Precedes, in the znode of a done key of a `Once`, the identity of the client that ran it.

`aiolead dashboard` and others see by it that these znodes are keys.
"""

MOST_LEADERS = 1000
"""The most that `Election` accepts."""

MOST_PRIORITY = 1000
"""The highest priority that `Election` accepts; the lowest is its negative."""


def leading(queue: Sequence[str], most: int = MOST_LEADERS) -> int:
    """How many contenders of a queue hold, the first ones, where readers do not share.

    A contender holds if fewer are before it than its own name allows, and that of each before it,
    and `most`. Once a contender does not hold, none behind it does.
    """
    for rank, name in enumerate(queue):
        most = min(most, leaders_of(name))
        if rank >= most:
            return rank
    return len(queue)
