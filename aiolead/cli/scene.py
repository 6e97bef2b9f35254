"""The recipes in use under some paths, as `top` and the dashboard show them. Pure.

Inputs are the znodes (`put`, `remove`), the sessions that servers know (`set_connected`), and our
own session (`set_session`). `settle` updates the outputs: `queues` (elections, locks, semaphores),
their terms (`terms_of`), events (`since`), and `others` (all other recipes). Times are arguments:
seconds since 1970, by a clock that never jumps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, final

from .._util.token_bucket import Write
from ..model import SessionState, Stat
from ..paths import basename, join, parent
from . import render
from .contender_queue import (
    KAZOO,
    KAZOOS_QUEUE,
    PERMITS,
    WAITING,
    QueuedContender,
    QueuePlace,
    is_contended,
    permits_of,
    places_of,
    semaphore_queue,
)
from .recipe_layouts import (
    OtherRecipe,
    RecipeItem,
    RecipeMember,
    ZnodeTree,
    is_part,
    items_of,
    limit_in,
    may_use,
    needs_data,
    possible_parts,
    recipe_at,
    semaphore_layout,
)
from .scene_values import (
    ContenderQueue,
    EnsembleHealth,
    ObservedTerm,
    OwnerConnection,
    SceneEvent,
    SceneEventType,
)
from .server_inquiry import LONGEST_REASON, ClientConnection

MOST_EVENTS = 1000
MOST_TERMS = 200
"""For each queue."""
SERIES_STEP, MOST_STEPS = 10.0, 360
"""Counts are kept for each so many seconds with a change, and for so many of these."""
MOST_LOOKS = 1250
"""How many children of a znode are read to see from their data whether they are keys."""
MOST_QUEUES = 10_000
"""The queues that have been vacant for longest are forgotten first."""


@final
class Scene:
    """The live state of the queues under some paths.

    `paths` are shown even if nobody has ever contended there. So many `leaders` may lead at once,
    at an election or a lock; if that is None, as many as the names of its contenders say, or one.

    Attributes:
        revision: increases whenever anything changes that could be shown.
        is_current: whether all that the servers know is here, as far as we can know.
        knows_sessions: whether the servers say which sessions are connected.
        health: the last answers of the servers; None if they were not asked.
    """

    def __init__(self, paths: Iterable[str] = (), *, leaders: int | None = None) -> None:
        self.revision: int = 0
        self.session_state: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.is_current: bool = False
        self.knows_sessions: bool = False
        self.health: EnsembleHealth | None = None
        self._leaders = leaders
        self._queues = {path: ContenderQueue(path, "") for path in paths}
        self._kept = frozenset(self._queues)
        self._terms: dict[str, deque[ObservedTerm]] = {}
        self._events: deque[SceneEvent] = deque(maxlen=MOST_EVENTS)
        self._count = 0
        self._tree = ZnodeTree()
        self._others: dict[str, OtherRecipe] = {}
        self._touched: dict[str, None] = {}
        self._looks: dict[str, int] = {}
        self._unreadable: set[str] = set()
        self._incomplete: set[str] = set()
        self._series: dict[str, deque[tuple[float, int, int]]] = {}
        self._addresses: dict[int, str] = {}
        self._absent: dict[int, float] = {}
        self._heard: dict[int, tuple[int, float]] = {}
        self._silent: dict[int, tuple[OwnerConnection, float]] = {}
        self._seen_at: float | None = None
        self._is_first = True

    # --- outputs -------------------------------------------------------------------------------

    @property
    def queues(self) -> list[ContenderQueue]:
        """All queues by path; one to look under is left out if a recipe is there, or below it."""
        paths = sorted({*self._queues, *self._others})

        def is_empty(path: str) -> bool:
            return path not in self._others and not any(_is_within(each, path) for each in paths)

        return [
            self._queues[path]
            for path in paths
            if path in self._queues and (self._queues[path].kind or is_empty(path))
        ]

    @property
    def others(self) -> list[OtherRecipe]:
        return [self._others[path] for path in sorted(self._others)]

    @property
    def unreadable(self) -> list[str]:
        """The znodes that we may not read, sorted: queues below them are unknown."""
        return sorted(self._unreadable)

    @property
    def incomplete(self) -> list[str]:
        """The paths to look under that have more znodes than are read, sorted."""
        return sorted(self._incomplete)

    def queue(self, path: str) -> ContenderQueue | None:
        return self._queues.get(path)

    def terms_of(self, path: str) -> Sequence[ObservedTerm]:
        """The terms of a queue that have ended, oldest first, then the current ones."""
        queue = self._queues.get(path)
        return [*self._terms.get(path, ()), *(queue.terms if queue else ())]

    def series_of(self, path: str) -> Sequence[tuple[float, int, int]]:
        """How many wait in a queue, or what another recipe counts first, over time.

        Each entry has a time, the greatest count in the `SERIES_STEP` that begins then, and the
        last one, which stays until the next entry.
        """
        return [*self._series.get(path, ())]

    def limit_of(self, other: OtherRecipe) -> tuple[Write, Stat] | None:
        """The last write of a rate limit, with its `Stat`; None if it is none."""
        stat, data = self._tree.get(other.path) or (None, None)
        limit = limit_in(other.path, stat, data)
        return None if limit is None or stat is None else (limit, stat)

    def items_of(self, other: OtherRecipe) -> list[RecipeItem]:
        return items_of(self._tree, other)

    def address_of(self, owner: int) -> str:
        """From where a session is connected, as its server says it; empty if none does."""
        return self._addresses.get(owner, "")

    def since(self, number: int) -> list[SceneEvent]:
        """The events after that number that are still kept."""
        new = max(0, min(self._count - number, len(self._events)))
        return list(islice(self._events, len(self._events) - new, None))

    @property
    def seen_at(self) -> float | None:
        """When the servers were last known to know no more than what is here."""
        return self._seen_at

    @property
    def silent_sessions(self) -> frozenset[int]:
        """The owners of contenders whose sessions have no connection."""
        return frozenset(self._silent)

    def connection_of(self, one: QueuedContender | RecipeMember) -> OwnerConnection:
        if one.stat is None:
            return OwnerConnection.UNKNOWN
        return self.connection_of_session(one.stat.ephemeral_owner)

    def connection_of_session(self, owner: int) -> OwnerConnection:
        if not owner:
            return OwnerConnection.NONE
        if not self.knows_sessions:
            return OwnerConnection.UNKNOWN
        return self._silent[owner][0] if owner in self._silent else OwnerConnection.CONNECTED

    # --- inputs --------------------------------------------------------------------------------

    def needs_data(self, path: str, stat: Stat) -> bool:
        """Whether a znode's data have to be read before `put`: else they may be empty there."""
        above = parent(path)
        queue, other = self._queues.get(above), self._others.get(above)
        if queue is not None and queue.kind:
            return True
        if not needs_data(basename(path), stat):
            return False
        known = self._tree.get(path)
        if stat.ephemeral_owner or (known and known[1]) or (other and other.kind == "once"):
            return True
        # Of many children, the first ones show whether they are the keys of a `Once`.
        self._looks[above] = self._looks.get(above, 0) + 1
        return self._looks[above] <= MOST_LOOKS

    def put(self, path: str, stat: Stat, data: bytes | None) -> None:
        """A znode exists, or has changed; no data if they are unreadable."""
        if path != "/":
            self._tree.put(path, stat, data)
            self._touch(path)

    def remove(self, path: str) -> None:
        if path != "/":
            self._tree.remove(path)
            self._looks.pop(path, None)
            self._touch(path)

    def _touch(self, path: str) -> None:
        self._touched[path] = None
        self._touched[parent(path)] = None

    def may_read(self, path: str, is_allowed: bool) -> None:
        """Whether we may read a znode, and list its children."""
        if (path in self._unreadable) is is_allowed:
            (self._unreadable.discard if is_allowed else self._unreadable.add)(path)
            if (queue := self._queues.get(path)) is not None:
                self._queues[path] = replace(queue, is_readable=is_allowed)
            self.revision += 1

    def leave_out(self, path: str) -> None:
        """Record that there are more znodes under a path than are read."""
        if path not in self._incomplete:
            self._incomplete.add(path)
            self.revision += 1

    def set_connected(self, connected: Mapping[int, ClientConnection] | None, now: float) -> None:
        """The connected sessions, with their connections; None if not all servers say.

        A session that is missing once may just be moving from one server to another. One over whose
        connection nothing came for half of its timeout is not renewed: every client library sends
        something, if only a ping, each third of it. The process may be stopped.
        """
        before = self.knows_sessions, dict(self._silent)
        self.knows_sessions = connected is not None
        owners = {
            one.stat.ephemeral_owner
            for queue in self._queues.values()
            for one in queue.contenders
            if one.stat is not None
        }
        for other in self._others.values():
            owners.update(one.stat.ephemeral_owner for one in (*other.members, *other.claims))
        owners.discard(0)
        there = connected if connected is not None else {}
        missing = owners.difference(there if connected is not None else owners)
        # At first, one that is missing stays as it was: silent, if it was paused before.
        silent = {owner: self._silent[owner] for owner in missing if owner in self._silent}
        silent |= {
            owner: (OwnerConnection.SILENT, self._absent[owner])
            for owner in missing
            if owner in self._absent
        }
        self._absent = {owner: self._absent.get(owner, now) for owner in missing}
        heard: dict[int, tuple[int, float]] = {}
        for owner in owners.intersection(there):
            count, at = self._heard.get(owner, (-1, now))
            connection = there[owner]
            at = at if count == connection.received else now
            heard[owner] = connection.received, at
            if connection.timeout and now - at > connection.timeout / 2:
                silent[owner] = OwnerConnection.PAUSED, at
        self._heard, self._silent = heard, silent
        self._addresses = {owner: there[owner].address for owner in owners.intersection(there)}
        if before == (self.knows_sessions, silent):
            return
        for queue in list(self._queues.values()):
            self._update_silence(queue, now)
        self.revision += 1

    def _update_silence(self, queue: ContenderQueue, now: float) -> None:
        terms = tuple(self._with_silence(term) for term in queue.terms)
        if terms == queue.terms:
            return
        self._queues[queue.path] = replace(queue, terms=terms)
        for old, new in zip(queue.terms, terms, strict=True):
            if new.silent_since is not None and (
                old.silent_since is None or old.is_paused is not new.is_paused
            ):
                self._add_of_term(SceneEventType.SILENT, now, new)
            elif new.silent_since is None and old.silent_since is not None and self.knows_sessions:
                self._add_of_term(SceneEventType.BACK, now, new)

    def _with_silence(self, term: ObservedTerm) -> ObservedTerm:
        state, since = self._silent.get(term.session_id, (None, None))
        return replace(term, silent_since=since, is_paused=state is OwnerConnection.PAUSED)

    def set_health(self, health: EnsembleHealth) -> None:
        """Take what the servers say of themselves; changes since the last time are events."""
        before, self.health = self.health, health
        self.revision += 1
        if before is None:
            return
        known = {each.server: each for each in before.answers}
        for each in health.answers:
            old = known.get(each.server)
            if old is None:
                continue
            server, what = render.escaped(str(each.server)), each.state
            if what.is_problem and what is not old.state:
                why = render.shortened(each.problem, LONGEST_REASON) or what.value
                self._add(SceneEventType.DOWN, health.asked, text=f"{server}: {why}")
            elif old.state.is_problem and not what.is_problem:
                text = f"{server} is up again ({render.escaped(each.mode) or 'role unknown'})"
                self._add(SceneEventType.UP, health.asked, text=text)
            elif each.mode == "leader" and each.mode != old.mode:
                text = f"{server} leads the servers now"
                self._add(SceneEventType.UP, health.asked, text=text)
        quorum = health.quorum
        if quorum.is_met is not before.quorum.is_met:
            up = f"{quorum.up} of {render.plural(quorum.voters, 'server')} up"
            if quorum.is_met:
                text = f"there is a quorum again: {up}"
                self._add(SceneEventType.UP, health.asked, text=text)
            else:
                text = f"no quorum: {up}, nothing can change"
                self._add(SceneEventType.DOWN, health.asked, text=text)

    def set_session(self, state: SessionState, session_id: int, now: float) -> None:
        """The state of our own session. Once disconnected, nothing is current until `settle`."""
        if (state, session_id) != (self.session_state, self.session_id):
            self.session_state, self.session_id = state, session_id
            if self.is_current and state is not SessionState.CONNECTED:
                self.is_current, self._seen_at = False, now
            self.revision += 1

    def settle(self, now: float, *, is_current: bool = True) -> None:
        """Update the outputs. `is_current`: whether the servers know no more than this `now`."""
        was_blind = not self.is_current and not self._is_first
        touched, self._touched = self._touched, {}
        for path in dict.fromkeys(one for each in touched for one in may_use(each)):
            self._look_at(path, now, was_blind)
        if is_current:
            # Contenders of the first look are state, not events.
            self._is_first = False
            self._seen_at = now
        if touched or is_current != self.is_current:
            self.revision += 1
        self.is_current = is_current
        if len(self._queues) > MOST_QUEUES:
            self._forget_some()

    # --- conclusions ---------------------------------------------------------------------------

    def _contenders(self, path: str) -> tuple[str, list[QueuedContender]]:
        """The type of the contender queue at a path, and its contenders; an empty type if none."""
        children = self._tree.children(path)
        if layout := semaphore_layout(self._tree, path):
            is_kazoos = layout == KAZOO
            permits = path if is_kazoos else join(path, PERMITS)
            waiting = f"{path}{KAZOOS_QUEUE}" if is_kazoos else join(path, WAITING)
            held = self._at(permits, permits_of(self._tree.children(permits), layout))
            places = places_of(self._tree.children(waiting), 1)
            places = [replace(place, holds=False) for place in places]
            return "semaphore", semaphore_queue(held, self._at(waiting, places))
        asked_for = path in self._kept and path != "/"
        stats = ((name, stat) for name, (stat, _) in children.items())
        if is_part(self._tree, path) or not is_contended(stats, asked_for=asked_for):
            return "", []
        found = self._at(path, places_of(children, self._leaders))
        kinds = {one.place.what for one in found}
        if kinds & {"reader", "writer"}:
            return "read/write lock", found
        return next(iter(sorted(kinds - {"unknown"})), "unknown"), found

    def _at(self, path: str, places: Iterable[QueuePlace]) -> list[QueuedContender]:
        children = self._tree.children(path)
        return [
            QueuedContender(place, join(path, place.name), *children[place.name])
            for place in places
        ]

    def _look_at(self, path: str, now: float, was_blind: bool) -> None:
        """Compare what is at a path with its previous state."""
        if is_part(self._tree, path):
            self._forget(path)
            return
        for part in possible_parts(path):
            # It looked like a lock until the rest of a semaphore was there.
            if (part in self._queues or part in self._others) and is_part(self._tree, part):
                self._forget(part)
        kind, contenders = self._contenders(path)
        other = None if kind else self._other_at(path)
        if other is not None:
            self._others[path] = other
            self._count_at(path, next((count for _, count in other.counts), 0), now)
        else:
            self._others.pop(path, None)
        old = self._queues.get(path)
        if old is None:
            if not kind:
                return
            old = ContenderQueue(path, kind, is_readable=path not in self._unreadable)
        if not kind and other is None and old.kind:
            # Queues that were left behind are still waited for.
            contenders = self._at(path, places_of(self._tree.children(path), self._leaders))
        if not contenders or (kind == "unknown" and old.kind):
            kind = old.kind
        old = replace(old, **self._leaders_of(contenders))
        queue = replace(old, kind=kind, contenders=tuple(contenders))
        queue = self._with_terms(old, queue, now, was_blind)
        self._queues[path] = queue
        if kind:
            self._count_at(path, len(queue.waiting), now)
        if self._is_first:
            return
        was = {_key(one): one for one in old.contenders}
        is_now = {_key(one): one for one in queue.contenders}
        gone = [
            one
            for key, one in was.items()
            if key not in is_now and not one.place.holds and not _has_permit(one, queue)
        ]
        found = [(SceneEventType.LEFT, one) for one in gone]
        for key, one in is_now.items():
            if key not in was and not one.place.holds:
                found.append((SceneEventType.JOINED, one))
            if one.is_asked_to_go and not (key in was and was[key].is_asked_to_go):
                found.append((SceneEventType.ASKED, one))
        for what, one in found:
            self._add(what, now, path, one.identity, _key(one)[1], is_exact=not was_blind)

    def _count_at(self, path: str, count: int, now: float) -> None:
        series = self._series.setdefault(path, deque(maxlen=MOST_STEPS))
        step = now // SERIES_STEP * SERIES_STEP
        if series and series[-1][0] == step:
            series[-1] = step, max(series[-1][1], count), count
        elif not series or series[-1][2] != count:
            series.append((step, count, count))

    def _other_at(self, path: str) -> OtherRecipe | None:
        found, old = recipe_at(self._tree, path), self._others.get(path)
        was_queue = old is not None and old.kind.endswith("queue")
        if found is None and old is not None and was_queue and self._tree.get(path) is not None:
            # All items are done: it is an empty queue.
            return replace(old, counts=tuple((what, 0) for what, _ in old.counts))
        return found

    def _leaders_of(self, contenders: Sequence[QueuedContender]) -> dict[str, Any]:
        said = sorted({one.place.leaders or 1 for one in contenders if one.place.what != "permit"})
        if self._leaders is not None:
            return {"leaders": self._leaders, "leaders_by": "option", "leaders_said": tuple(said)}
        by = "names" if any(one.place.leaders for one in contenders) else ""
        return {"leaders": max(said, default=1), "leaders_by": by, "leaders_said": tuple(said)}

    def _with_terms(
        self, old: ContenderQueue, queue: ContenderQueue, now: float, was_blind: bool
    ) -> ContenderQueue:
        """The queue with the terms of its holders; adds events of those that began or ended."""
        path, going_on, is_exact = queue.path, {term.key: term for term in old.terms}, not was_blind
        holders = {_key(one): one for one in queue.contenders if one.place.holds}
        ended = [replace(term, ended=now) for key, term in going_on.items() if key not in holders]
        last = ended[-1] if ended else old.last
        stay = any(key in holders for key in going_on)
        gap = None
        if last is not None and last.ended is not None and not stay and is_exact:
            gap = now - last.ended
        begun = {
            key: self._new_term(path, one, now, was_blind, gap)
            for key, one in holders.items()
            if key not in going_on
        }
        terms = tuple(
            begun[key] if key in begun else replace(going_on[key], identity=one.identity)
            for key, one in holders.items()
        )
        if ended:
            self._terms.setdefault(path, deque(maxlen=MOST_TERMS)).extend(ended)
        # The event of the next term, or of a vacancy, includes the last end. At a
        # semaphore, a permit that is taken is one that was returned.
        is_passed_on = stay and queue.kind == "semaphore"
        passed_on = len(begun) if is_passed_on else 0 if stay else 1
        for term in ended[: max(0, len(ended) - passed_on)]:
            self._add_of_term(SceneEventType.ENDED, now, term, is_exact=is_exact)
        if ended and not holders:
            self._add_of_term(SceneEventType.VACANT, now, ended[-1], is_exact=is_exact)
        before = [*ended] if is_passed_on else [] if stay else [last] * len(begun)
        for term in begun.values():
            after = before.pop() if before else None
            self._add_of_term(SceneEventType.BEGAN, now, term, after, is_exact=is_exact)
        vacant = old.vacant_since
        if holders or not queue.kind:
            vacant = None
        elif old.terms or vacant is None:
            vacant = now
        return replace(queue, terms=terms, last=last, vacant_since=vacant)

    def _new_term(
        self, path: str, one: QueuedContender, now: float, was_blind: bool, gap: float | None
    ) -> ObservedTerm:
        assert one.stat is not None
        not_before = now
        if self._is_first or was_blind:
            not_before = one.stat.ctime / 1000
            if self._seen_at is not None:
                not_before = max(not_before, self._seen_at)
        return self._with_silence(
            ObservedTerm(
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

    def _add_of_term(
        self,
        what: SceneEventType,
        now: float,
        term: ObservedTerm,
        before: ObservedTerm | None = None,
        *,
        is_exact: bool = True,
    ) -> None:
        if not self._is_first:
            of = term.path, term.identity, term.token
            self._add(what, now, *of, term=term, before=before, is_exact=is_exact)

    def _add(
        self,
        what: SceneEventType,
        now: float,
        path: str = "",
        identity: str | None = None,
        token: int = 0,
        **details: Any,
    ) -> None:
        self._count += 1
        event = SceneEvent(self._count, now, what, path, identity, token, **details)
        self._events.append(event)

    def _forget(self, path: str) -> None:
        self._queues.pop(path, None)
        self._others.pop(path, None)
        self._terms.pop(path, None)
        self._series.pop(path, None)

    def _forget_some(self) -> None:
        vacant = [
            (queue.vacant_since, path)
            for path, queue in self._queues.items()
            if queue.vacant_since is not None and not queue.contenders and path not in self._kept
        ]
        for _, path in sorted(vacant)[: len(self._queues) - MOST_QUEUES]:
            self._forget(path)


def _key(one: QueuedContender) -> tuple[str, int]:
    """Unique among the contenders of a queue, even for a name that comes again."""
    return one.path, one.stat.czxid if one.stat else 0


def _has_permit(waiter: QueuedContender, queue: ContenderQueue) -> bool:
    """Whether a contender left a semaphore's queue because it got the permit that it waited for."""
    if queue.kind != "semaphore" or waiter.stat is None:
        return False
    owner, place = waiter.stat.ephemeral_owner, waiter.stat.czxid
    return any(term.session_id == owner and term.token > place for term in queue.terms)


def _is_within(path: str, above: str) -> bool:
    return path.startswith(f"{above.rstrip('/')}/") and path != above
