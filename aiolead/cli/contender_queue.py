"""The children of a path as a contender queue, of any recipe of any library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import Client, _parsing
from ..model import Stat
from ..paths import join, sequence_of
from . import render
from .batches import Denied, read_each

LONGEST_NAME = 60
"""Most characters of an identity that are shown."""
MOST_DATA = 4096
"""Most bytes of a contender's data that are kept: each may have a megabyte."""

PERMITS, WAITING = "leases", "locks"
"""The children of a semaphore with its permits, and with its queue."""
MOST_PERMITS = 1 << 31

REVOKED = b"__REVOKE__"
"""The beginning of a znode's data when its owner is asked to release."""


@dataclass(frozen=True, slots=True)
class _NameForm:
    """The meaning of a form of names: election, lock, reader, writer, permit, unknown (`what`).

    `layout` is curator, kazoo, or empty for one that aiolead cannot share a path with. Only
    contenders of the same `family` exclude each other.
    """

    what: str
    layout: str
    family: str


_FORMS: tuple[tuple[str, _NameForm], ...] = (
    (r"__READ__", _NameForm("reader", "curator", "curator read/write lock")),
    (r"__WRIT__", _NameForm("writer", "curator", "curator read/write lock")),
    (r"__rlock__", _NameForm("reader", "kazoo", "kazoo lock")),
    (r"__lock__", _NameForm("lock", "kazoo", "kazoo lock")),
    (r"^lock-[0-9a-f]{32}-", _NameForm("lock", "", "aiozk lock")),
    (r"^(?:read|write)-[0-9a-f]{32}-", _NameForm("lock", "", "aiozk read/write lock")),
    (r"^candidate-[0-9a-f]{32}-", _NameForm("election", "", "aiozk election")),
    (r"latch-", _NameForm("election", "curator", "curator election")),
    (r"lock-", _NameForm("lock", "curator", "curator lock")),
    (r"lease-", _NameForm("permit", "curator", "curator semaphore")),
    (r"^x-(?:-?[0-9]+|[0-9a-f]{16})-", _NameForm("lock", "", "ZooKeeper WriteLock")),
    (r"^n_", _NameForm("election", "", "ZooKeeper LeaderElectionSupport")),
)
_PATTERNS = tuple((re.compile(rf"{marker}-?[0-9]{{9,10}}\Z"), form) for marker, form in _FORMS)
_UNKNOWN = _NameForm("unknown", "", "unknown")


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A place in a contender queue, from 1 up; the servers gave it its `sequence`.

    `what`, `layout` and `family` are as in `_NameForm`. `holds` presumes that all in the queue
    exclude each other.
    """

    number: int
    name: str
    sequence: int
    what: str
    layout: str
    family: str
    holds: bool


@dataclass(frozen=True, slots=True)
class QueuedContender:
    """A contender in a queue; `data` are cut to `MOST_DATA` bytes, and None if unreadable.

    `stat` is None if unreadable: servers with `Feature.EXISTS_NEEDS_READ` give only the name then,
    and servers other than ZooKeeper's list names that no client may request.
    """

    place: QueuePlace
    path: str
    stat: Stat | None
    data: bytes | None

    @property
    def identity(self) -> str | None:
        """None if it may not be read."""
        if self.data is None:
            return None
        return _parsing.lossy_text(self.data.removeprefix(REVOKED))

    @property
    def is_asked_to_go(self) -> bool:
        """Whether it is asked to release."""
        return self.data is not None and self.data.startswith(REVOKED)

    def as_json(self) -> dict[str, Any]:
        """What every command shows of it as JSON."""
        stat = self.stat
        return {
            "place": self.place.number,
            "holds": self.place.holds,
            "identity": self.identity,
            "session": stat and render.session(stat.ephemeral_owner),
            "created": stat and render.moment(stat.ctime),
            "token": stat and stat.czxid,
            "kind": self.place.what,
            "asked_to_go": self.is_asked_to_go,
        }


def places_of(names: Iterable[str], holders: int = 1) -> list[QueuePlace]:
    """The contenders among a path's children, first come first; so many `holders` at once.

    All libraries on a path share one counter: every child with a number is a contender.
    """
    found = sorted(
        (sequence, name) for name in names if (sequence := sequence_of(name)) is not None
    )
    forms = [_form(name) for _, name in found]
    # Readers hold together, up to the first contender that is none.
    readers = next((n for n, form in enumerate(forms) if form.what != "reader"), len(forms))
    holding = readers if readers > 1 else holders
    return [
        QueuePlace(n + 1, name, sequence, form.what, form.layout, form.family, n < holding)
        for n, ((sequence, name), form) in enumerate(zip(found, forms, strict=True))
    ]


def _form(name: str) -> _NameForm:
    return next((form for pattern, form in _PATTERNS if pattern.search(name)), _UNKNOWN)


def semaphore_queue(
    permits: Sequence[QueuedContender], waiting: Sequence[QueuedContender]
) -> list[QueuedContender]:
    """The holders of a semaphore's permits, then the waiters."""
    if waiting and (front := waiting[0]).stat is not None:
        # The front of the queue creates its permits before it holds them.
        owner, mark = front.stat.ephemeral_owner, f"{front.place.sequence:010d}-"
        permits = [
            one
            for one in permits
            if one.stat is None
            or one.stat.ephemeral_owner != owner
            or not one.place.name.startswith(mark)
        ]
    return [
        replace(one, place=replace(one.place, number=n))
        for n, one in enumerate([*permits, *waiting], 1)
    ]


def families_of(contenders: Iterable[QueuedContender], *, is_semaphore: bool) -> list[str]:
    """The families in a queue; contenders of different families do not exclude each other."""
    found = {one.place.family for one in contenders}
    return sorted(found - {"curator semaphore"} if is_semaphore else found)


async def read_queue(
    client: Client, path: str, places: Sequence[QueuePlace]
) -> list[QueuedContender]:
    """Read the contenders at these places, without those that are gone by now."""
    found: list[QueuedContender] = []
    by_path = {join(path, place.name): place for place in places}
    async for where, reply in read_each(list(by_path), client.get):
        if isinstance(reply, tuple):
            data, stat = reply
            found.append(QueuedContender(by_path[where], where, stat, data[:MOST_DATA]))
        elif isinstance(reply, Denied):
            # It still has a place, and on older servers an owner.
            async for _, known in read_each([where], client.exists):
                if known is not None:
                    known_stat = None if isinstance(known, Denied) else known
                    found.append(QueuedContender(by_path[where], where, known_stat, None))
    return found
