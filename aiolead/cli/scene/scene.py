"""What is going on under some paths: the state that a live view shows. Pure.

Told is which znodes there are (`put`, `remove`), what the servers say of sessions (`hear`), and how
our own link stands (`set_link`); `settle` draws the conclusions. What comes of it are the `lines`,
the terms of each (`terms_of`), and what has happened (`since`). Times are seconds since 1970, by a
clock that never jumps; they are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import final

from ...model import SessionState, Stat
from ...paths import basename, join, parent, sequence_of
from ..recognize import ContenderLine, Place, in_line
from .values import Happening, Line, Link, Term, What

__all__ = ["Scene"]

MOST_HAPPENINGS = 1000
MOST_TERMS = 200
"""How much of the past is kept: of all lines, and of each one."""
MOST_LINES = 10_000
"""How many lines are kept; those that have been vacant for longest are forgotten first."""

PERMITS, WAITING = "leases", "locks"
"""What a semaphore has its permits, and its line, below."""


@final
class Scene:
    """What is going on under some paths, as far as it was told.

    Args:
        paths: those that are shown although nobody has ever contended there.
        leaders: how many may lead at once, at an election or a lock.

    Attributes:
        revision: rises whenever anything changes that could be shown.
        link: the state of our own session.
        session_id: of our own session.
        is_current: whether all that the servers know is here, as far as we can know.
        knows_sessions: whether the servers tell which sessions are connected.
    """

    def __init__(self, paths: Iterable[str] = (), *, leaders: int = 1) -> None:
        self.revision: int = 0
        self.link: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.is_current: bool = False
        self.knows_sessions: bool = False
        self._leaders = leaders
        self._lines = {path: Line(path, "") for path in paths}
        self._kept = frozenset(self._lines)
        self._terms: dict[str, deque[Term]] = {}
        self._happenings: deque[Happening] = deque(maxlen=MOST_HAPPENINGS)
        self._count = 0
        self._children: dict[str, dict[str, tuple[Stat, bytes | None]]] = {}
        self._semaphores: set[str] = set()
        self._touched: dict[str, None] = {}
        self._unreadable: set[str] = set()
        self._absent: dict[int, float] = {}
        self._silent: set[int] = set()
        self._seen_at: float | None = None
        self._is_first = True

    # --- what there is -------------------------------------------------------------------------

    @property
    def lines(self) -> list[Line]:
        """All lines, by their paths.

        A path that was only given to be looked under is left out, once there is a line.
        """
        paths = sorted(self._lines)
        return [
            self._lines[path]
            for path in paths
            if self._lines[path].kind or not any(_is_below(other, path) for other in paths)
        ]

    @property
    def unreadable(self) -> list[str]:
        """The znodes that we may not read, by their paths: lines below them are not known."""
        return sorted(self._unreadable)

    def line(self, path: str) -> Line | None:
        """The line at a path."""
        return self._lines.get(path)

    def terms_of(self, path: str) -> Sequence[Term]:
        """The terms of a line that have ended, the oldest first, then those that go on."""
        line = self._lines.get(path)
        return [*self._terms.get(path, ()), *(line.terms if line else ())]

    def since(self, number: int) -> list[Happening]:
        """What has happened after a happening of that number, as far as it is still known."""
        new = max(0, min(self._count - number, len(self._happenings)))
        return list(islice(self._happenings, len(self._happenings) - new, None))

    def link_of(self, contender: ContenderLine) -> Link:
        """What is known of a contender's session."""
        owner = contender.stat.ephemeral_owner
        if not owner:
            return Link.NONE
        if not self.knows_sessions:
            return Link.UNKNOWN
        return Link.SILENT if owner in self._silent else Link.CONNECTED

    # --- what is told --------------------------------------------------------------------------

    def put(self, path: str, stat: Stat, data: bytes | None) -> None:
        """A znode is there, or is there as it is now.

        Args:
            path: where.
            stat: what the servers know about it.
            data: None if they may not be read, or are of no interest.
        """
        if path == "/":
            return
        above, name = parent(path), basename(path)
        if name == PERMITS and above not in self._semaphores:
            self._semaphores.add(above)
            # What looked like a lock was the line of those who wait for permits.
            self._forget(join(above, WAITING))
            self._touch(join(above, WAITING))
        if sequence_of(name) is not None:
            self._children.setdefault(above, {})[name] = (stat, data)
            self._touch(above)

    def remove(self, path: str) -> None:
        """A znode is not there any more."""
        if path == "/":
            return
        above, name = parent(path), basename(path)
        if name == PERMITS:
            self._semaphores.discard(above)
            self._touch(join(above, WAITING))
        children = self._children.get(above)
        if children is not None and children.pop(name, None) is not None:
            self._touch(above)
            if not children:
                del self._children[above]

    def may_read(self, path: str, is_allowed: bool) -> None:
        """Whether we may read a znode, and list its children."""
        if (path in self._unreadable) is is_allowed:
            (self._unreadable.discard if is_allowed else self._unreadable.add)(path)
            self.revision += 1

    def hear(self, connected: Mapping[int, str] | None, now: float) -> None:
        """What the servers say of the sessions that have a connection.

        A session that is missing once may just have been moving from one server to another.

        Args:
            connected: the sessions, with the addresses of their clients; None if not all servers
                tell.
            now: when they were asked.
        """
        before = self.knows_sessions, frozenset(self._silent)
        self.knows_sessions = connected is not None
        owners = {
            stat.ephemeral_owner for each in self._children.values() for stat, _ in each.values()
        }
        missing = owners.difference(connected if connected is not None else owners)
        self._silent = {owner for owner in missing if owner in self._absent}
        self._absent = {owner: self._absent.get(owner, now) for owner in missing}
        if before == (self.knows_sessions, frozenset(self._silent)):
            return
        for line in list(self._lines.values()):
            self._hear_of(line, now)
        self.revision += 1

    def _hear_of(self, line: Line, now: float) -> None:
        terms = tuple(self._with_silence(term) for term in line.terms)
        if terms == line.terms:
            return
        self._lines[line.path] = replace(line, terms=terms)
        for old, new in zip(line.terms, terms, strict=True):
            if new.silent_since is not None and old.silent_since is None:
                self._tell(What.SILENT, now, line.path, new)
            elif new.silent_since is None and old.silent_since is not None and self.knows_sessions:
                self._tell(What.BACK, now, line.path, new)

    def _with_silence(self, term: Term) -> Term:
        since = self._absent[term.session_id] if term.session_id in self._silent else None
        return term if term.silent_since == since else replace(term, silent_since=since)

    def set_link(self, state: SessionState, session_id: int, now: float) -> None:
        """How our own link stands. Once it is lost, nothing is current until `settle` says so."""
        if (state, session_id) != (self.link, self.session_id):
            self.link, self.session_id = state, session_id
            if self.is_current and state is not SessionState.CONNECTED:
                self.is_current, self._seen_at = False, now
            self.revision += 1

    def settle(self, now: float, *, is_current: bool = True) -> None:
        """Draws the conclusions from what was put and removed.

        Args:
            now: when that was seen.
            is_current: whether it is all that the servers know now.
        """
        was_blind = not self.is_current and not self._is_first
        touched, self._touched = self._touched, {}
        for path in dict.fromkeys(map(self._line_of, touched)):
            self._look_at(path, now, was_blind)
        if is_current:
            # Whoever was there before anything was seen is told as what is, not as what happens.
            self._is_first = False
            self._seen_at = now
        if touched or is_current != self.is_current:
            self.revision += 1
        self.is_current = is_current
        if len(self._lines) > MOST_LINES:
            self._forget_some()

    # --- the conclusions -----------------------------------------------------------------------

    def _touch(self, above: str) -> None:
        self._touched[above] = None

    def _line_of(self, above: str) -> str:
        """The line that the children of a path belong to."""
        name = basename(above)
        if name == PERMITS or (name == WAITING and parent(above) in self._semaphores):
            return parent(above)
        return above

    def _contenders(self, path: str) -> tuple[str, list[ContenderLine]]:
        """The kind of a line, and who is in it."""
        if path in self._semaphores:
            permits = self._at(join(path, PERMITS), holders=1 << 31)
            waiting = self._at(join(path, WAITING), holders=0)
            if waiting:
                # Whoever is at the front makes its permits before there is room for them.
                front = waiting[0]
                mark = f"{front.place.sequence:010d}-"
                permits = [
                    one
                    for one in permits
                    if one.stat.ephemeral_owner != front.stat.ephemeral_owner
                    or not one.place.name.startswith(mark)
                ]
            everybody = [
                replace(one, place=replace(one.place, number=n + 1))
                for n, one in enumerate(permits + waiting)
            ]
            return "semaphore", everybody
        found = self._at(path, holders=self._leaders)
        kinds = {one.place.what for one in found}
        if kinds & {"reader", "writer"}:
            return "read/write lock", found
        return next(iter(sorted(kinds - {"unknown"})), "unknown"), found

    def _at(self, path: str, *, holders: int) -> list[ContenderLine]:
        children = self._children.get(path, {})
        places: list[Place] = in_line(children, holders)
        return [
            ContenderLine(place, join(path, place.name), *children[place.name]) for place in places
        ]

    def _look_at(self, path: str, now: float, was_blind: bool) -> None:
        """Compares a line with what it was before."""
        kind, contenders = self._contenders(path)
        old = self._lines.get(path)
        if old is None:
            if not contenders or (kind == "unknown" and path not in self._kept):
                return  # items of a queue, say
            old = Line(path, kind)
        if not contenders or (kind == "unknown" and old.kind):
            kind = old.kind
        line = replace(old, kind=kind, contenders=tuple(contenders))
        line = self._with_terms(old, line, now, was_blind)
        self._lines[path] = line
        if self._is_first:
            return
        was = {(one.path, one.stat.czxid): one for one in old.contenders}
        is_now = {(one.path, one.stat.czxid): one for one in line.contenders}
        exact = not was_blind
        for key, one in was.items():
            if key not in is_now and not one.place.holds:
                self._add(What.LEFT, now, path, one.identity, one.stat.czxid, is_exact=exact)
        for key, one in is_now.items():
            if key not in was and not one.place.holds:
                self._add(What.JOINED, now, path, one.identity, one.stat.czxid, is_exact=exact)
            if one.is_asked_to_go and not (key in was and was[key].is_asked_to_go):
                self._add(What.ASKED, now, path, one.identity, one.stat.czxid, is_exact=exact)

    def _with_terms(self, old: Line, line: Line, now: float, was_blind: bool) -> Line:
        """The terms of a line, by those who hold; tells which have begun and ended."""
        path, going_on = line.path, {term.key: term for term in old.terms}
        holders = [one for one in line.contenders if one.place.holds]
        keys = {(one.path, one.stat.czxid) for one in holders}
        ended = [replace(term, ended=now) for key, term in going_on.items() if key not in keys]
        last = ended[-1] if ended else old.last
        stay = any(key in keys for key in going_on)
        terms: list[Term] = []
        begun: list[Term] = []
        for one in holders:
            term = going_on.get((one.path, one.stat.czxid))
            if term is None:
                gap = None
                if last is not None and last.ended is not None and not stay and not was_blind:
                    gap = now - last.ended
                term = self._new_term(path, one, now, was_blind, gap)
                begun.append(term)
            else:
                term = replace(term, identity=one.identity)
            terms.append(term)
        if ended:
            self._terms.setdefault(path, deque(maxlen=MOST_TERMS)).extend(ended)
        # The last one is told of with what follows it: somebody else, or nobody.
        for term in ended if stay else ended[:-1]:
            self._tell(What.ENDED, now, path, term, is_exact=not was_blind)
        if ended and not holders:
            self._tell(What.VACANT, now, path, ended[-1], is_exact=not was_blind)
        for term in begun:
            self._tell(
                What.BEGAN, now, path, term, before=None if stay else last, is_exact=not was_blind
            )
        vacant = old.vacant_since
        if holders or not line.kind:
            vacant = None
        elif old.terms or vacant is None:
            vacant = now
        return replace(line, terms=tuple(terms), last=last, vacant_since=vacant)

    def _new_term(
        self, path: str, one: ContenderLine, now: float, was_blind: bool, gap: float | None
    ) -> Term:
        not_before = now
        if self._is_first or was_blind:
            not_before = one.stat.ctime / 1000
            if self._seen_at is not None:
                not_before = max(not_before, self._seen_at)
        return self._with_silence(
            Term(
                path=path,
                node=one.path,
                identity=one.identity,
                token=one.stat.czxid,
                session_id=one.stat.ephemeral_owner,
                began=now,
                not_before=min(not_before, now),
                gap=gap,
            )
        )

    def _tell(
        self,
        what: What,
        now: float,
        path: str,
        term: Term,
        *,
        before: Term | None = None,
        is_exact: bool = True,
    ) -> None:
        if not self._is_first:
            self._add(what, now, path, term.identity, term.token, term, before, is_exact=is_exact)

    def _add(
        self,
        what: What,
        now: float,
        path: str,
        identity: str | None,
        token: int,
        term: Term | None = None,
        before: Term | None = None,
        *,
        is_exact: bool,
    ) -> None:
        self._count += 1
        self._happenings.append(
            Happening(self._count, now, what, path, identity, token, term, before, is_exact)
        )

    def _forget(self, path: str) -> None:
        self._lines.pop(path, None)
        self._terms.pop(path, None)

    def _forget_some(self) -> None:
        vacant = [
            (line.vacant_since, path)
            for path, line in self._lines.items()
            if line.vacant_since is not None and not line.contenders and path not in self._kept
        ]
        for _, path in sorted(vacant)[: len(self._lines) - MOST_LINES]:
            self._forget(path)


def _is_below(path: str, above: str) -> bool:
    return path.startswith(f"{above.rstrip('/')}/") and path != above
