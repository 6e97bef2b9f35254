"""The children of a path as a contender queue, of any recipe of any library."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .. import Client
from .._util import parsing
from .._util.contender_names import (
    REVOKED,
    UNREADY,
    KnownName,
    known_name,
    leaders_in,
    leading,
    rules_of,
)
from ..model import Stat
from ..paths import join, sequence_of
from . import render
from .batches import Denied, read_each

LONGEST_NAME = 60
"""Most characters of an identity that are shown."""
MOST_DATA = 4096
"""Most bytes of a contender's data that are kept: each may have a megabyte."""

PERMITS, WAITING, LIMIT = "leases", "locks", "limit"
"""The children of a semaphore with its permits, its queue, and their published number."""


class _Form(NamedTuple):
    """The form of a name, as `QueuePlace` has it."""

    what: str
    layout: str
    family: str
    leaders: int | None


_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A place in a contender queue, from 1 up; the servers gave it its `sequence`.

    `what`, `layout` (empty if unknown) and `family` are those of the form of its name, or those of
    a permit of a semaphore. `leaders` is how many may lead at once by its name; None if that does
    not say it. `holds` presumes that all in the queue exclude each other.
    """

    number: int
    name: str
    sequence: int
    what: str
    layout: str
    family: str
    leaders: int | None
    holds: bool

    @property
    def priority(self) -> int | None:
        """By its name; None if that says none: then the order of arrival decides."""
        return rules_of(self.name).priority


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
        return parsing.lossy_text(self.data.removeprefix(REVOKED).removeprefix(UNREADY))

    @property
    def is_asked_to_go(self) -> bool:
        return self.data is not None and self.data.startswith(REVOKED)

    @property
    def is_ready(self) -> bool:
        """Whether it can lead; False while it warms up."""
        return self.data is None or not self.data.removeprefix(REVOKED).startswith(UNREADY)

    @property
    def notes(self) -> list[str]:
        """Its priority, and whether it is ready, or asked to go, in words."""
        priority, asked = self.place.priority, "release"
        if self.place.what == "election":
            asked = "resign" if self.place.holds else "step behind"
        return [
            *([] if priority is None else [f"priority {priority}"]),
            *([] if self.is_ready else ["not ready"]),
            *([f"asked to {asked}"] if self.is_asked_to_go else []),
        ]

    def as_json(self) -> dict[str, Any]:
        """The queue as JSON, the same for every command."""
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
            "priority": self.place.priority,
            "is_ready": self.is_ready,
        }


def created_below(stat: Stat) -> int:
    """How many children a znode has had: of an item, how often it was claimed."""
    return ((stat.cversion + stat.num_children) & 0xFFFF_FFFF) // 2


def is_contended(children: Iterable[tuple[str, Stat | None]], *, asked_for: bool = False) -> bool:
    """Whether some children of a path are contenders, and so the path a contender queue.

    That takes an ephemeral child whose name a library gives to contenders, or aiolead by a layout
    of the application's own. If the path was asked for, any ephemeral child with a number will do.
    """
    return any(_contends(name, stat, asked_for) for name, stat in children)


def _contends(name: str, stat: Stat | None, asked_for: bool) -> bool:
    if sequence_of(name) is None or (stat is not None and not stat.ephemeral_owner):
        return False
    if asked_for or _form(name).what != _UNKNOWN:
        return True
    # With `Layout(lock="{id}-job-")` a name has the session and a count, of 16 digits each.
    _, is_there, rest = name.partition(f"{stat.ephemeral_owner & _UNSIGNED:016x}" if stat else "-")
    return bool(is_there) and stat is not None and _is_count(rest[:16])


_UNSIGNED = (1 << 64) - 1


def _is_count(text: str) -> bool:
    return len(text) == 16 and set(text) <= set("0123456789abcdef")


def places_of(names: Iterable[str], leaders: int | None = None) -> list[QueuePlace]:
    """The contenders among the children of a contended path, first come first.

    All libraries on a path share one counter: every child with a number is waited for. As many
    hold at once as `leaders`, or, if that is None, as their names allow.
    """
    found = sorted(
        (sequence, name) for name in names if (sequence := sequence_of(name)) is not None
    )
    forms = [_form(name) for _, name in found]
    # Readers hold together, up to the first contender that is none.
    shared = next((n for n, form in enumerate(forms) if form.what != "reader"), len(forms))
    holding = shared if shared > 1 else (leaders or leading([name for _, name in found]))
    return [
        QueuePlace(n, name, sequence, *form, holds=n <= holding)
        for n, ((sequence, name), form) in enumerate(zip(found, forms, strict=True), 1)
    ]


def permits_of(names: Iterable[str], layout: str = "curator") -> list[QueuePlace]:
    """The permits among the children of a path of a semaphore of that layout, all of them held.

    Those of kazoo's have no number.
    """
    is_permit = _KAZOOS_PERMIT.fullmatch if layout == KAZOO else sequence_of
    found = sorted((sequence_of(name) or 0, name) for name in names if is_permit(name) is not None)
    form = _Form("permit", layout, f"{layout} semaphore", None)
    return [
        QueuePlace(n, name, sequence, *form, holds=True)
        for n, (sequence, name) in enumerate(found, 1)
    ]


KAZOO = "kazoo"
KAZOOS_QUEUE = "-__lock__"
"""The queue of a semaphore of kazoo's is at the path with this behind it."""
_KAZOOS_PERMIT = re.compile("(?:[0-9]{10}-)?[0-9a-f]{32}", re.ASCII)


@functools.lru_cache(maxsize=1 << 14)
def _form(name: str) -> _Form:
    known = known_name(name)
    if known is KnownName.AIOZK_LOCK and not name.startswith("lock-"):
        known = None  # with another label, it is a member of a party of aiozk's
    if known is None:
        return _Form(_UNKNOWN, "", _UNKNOWN, leaders_in(name))
    return _Form(known.kind, known.layout, known.family, leaders_in(name))


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
    # A semaphore has a queue and permits.
    return sorted(one for one in found if not (is_semaphore and one.endswith(" semaphore")))


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
