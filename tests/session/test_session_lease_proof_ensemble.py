"""Whether what is proven is true, when links between the servers hold things back.

`World` does not know the rule by which a proof counts. It is a client, its servers, and a leader
that collects from them who was heard of: so one can look when the session really ends. Ledgers with
another rule promise too much in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from hypothesis import event, example, given
from hypothesis import strategies as st
from session.direct_proof import DirectProof

from aiolead._session.lease.proof import LeaseProof
from aiolead._session.lease.timing import Timing

TIMEOUT = 8.0
HALF = TIMEOUT / 4
TIMING = replace(Timing.derive(TIMEOUT, tick_time=None, grace_period=None), half_tick=HALF)
assert HALF == 2.0


@dataclass
class Link:
    """One direction of a connection: it keeps order, and holds things back at times."""

    delay: float = 0.0
    holds: tuple[tuple[float, float], ...] = ()
    """From when until when; what is held back until `inf` never arrives."""
    busy: float = -inf

    def arrival(self, sent: float) -> float:
        at = max(sent + self.delay, self.busy)
        for start, end in sorted(self.holds):
            if start <= at < end:
                at = end
        self.busy = at
        return at


Links = tuple[tuple[float, tuple[tuple[float, float], ...]], ...]


@dataclass
class Request:
    what: str
    sent: float
    is_ready: bool = False
    """Whether it may be answered, in its turn."""


class Server:
    """A follower. It answers pings itself, and knows no more of the session than it is told."""

    def __init__(self, asks: Link, answers: Link, up: Link, down: Link) -> None:
        self.asks, self.answers, self.up, self.down = asks, answers, up, down
        self.is_touched = self.is_closed = self.is_open = False
        self.waiting: deque[Request] = deque()


@dataclass(frozen=True)
class Stay:
    """One connection of the session: how its links are, and what is asked when.

    A `renewal` is a write, and a sync as soon as that is answered.
    """

    links: Links
    """To the server, from it; the server's to the leader, and from it: `delay` and `holds`."""
    asked: tuple[tuple[str, float], ...]
    """What, and how long after what was asked before."""


class World:
    """A client, the servers to which it goes in turn, and the leader that ends the session.

    Args:
        lease_proof: what is told all that the client sees.
        stays: the client's connections.
        timing: what the client counts with.
        tick: how often the leader asks the servers for their touches.
        phase: how long after the creation of the session it first does so.
        on_event: called when the client gets the event of somebody else's change.
        end_first: whether the leader tells of the end of the session before it answers a sync.
    """

    def __init__(
        self,
        lease_proof: LeaseProof,
        stays: list[Stay],
        *,
        timing: Timing = TIMING,
        tick: float = HALF,
        phase: float = 1.0,
        on_event: Callable[[], object] = lambda: None,
        end_first: bool = True,
    ) -> None:
        self.lease_proof = lease_proof
        self.on_event = on_event
        self.timing = timing
        self.tick, self.phase = tick, phase % tick
        self.end_first = end_first
        self.now = 0.0
        self.ends = inf
        self.is_over = False
        self.promised = -inf
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self._servers: list[Server] = []
        at = 0.0
        for number, stay in enumerate(stays):
            server = Server(*(Link(delay, holds) for delay, holds in stay.links))
            self._at(at, partial(self._open, server, created=number == 0))
            for what, gap in stay.asked:
                at += gap
                self._at(at, partial(self._ask, server, what))
            at += 1 / 16
        while self._due:
            self.now, _, action = heappop(self._due)
            action()
        assert self.is_over or self.ends == inf  # it never began

    def _at(self, when: float, action: Callable[[], object]) -> None:
        if when < inf:
            heappush(self._due, (when, next(self._order), action))

    # --- between the servers -------------------------------------------------------------------

    def _up(self, server: Server, action: Callable[[], object]) -> None:
        self._at(server.up.arrival(self.now), action)

    def _down(
        self, server: Server, action: Callable[[], object], sent: float | None = None
    ) -> None:
        self._at(server.down.arrival(self.now if sent is None else sent), action)

    # --- the client ----------------------------------------------------------------------------

    def _is_here(self, server: Server) -> bool:
        return server is self._servers[-1]

    def _open(self, server: Server, *, created: bool) -> None:
        self.lease_proof.closed()
        self._servers.append(server)
        sent = self.now

        def greeted() -> None:
            self._end_if_due()
            if self.is_over:
                return
            if self.ends == inf:
                self._at(self.now + self.phase, self._collect)
            self.ends = self.now + TIMEOUT
            self._down(server, answered)

        def answered() -> None:
            self._at(server.answers.arrival(self.now), established)

        def established() -> None:
            if self._is_here(server):
                server.is_open = True
                self.lease_proof.opened(self.timing, sent, created=created)
                self._look()

        self._at(server.asks.arrival(sent), lambda: self._up(server, greeted))

    def _look(self) -> None:
        self.promised = max(self.promised, self.lease_proof.proven_until)

    def _ask(self, server: Server, what: str) -> None:
        if what == "event":  # somebody else's doing
            self._end_if_due()
            self._down(server, lambda: self._report(server))
        elif server.is_open and self._is_here(server):
            request = Request(what, self.now)
            self._at(server.asks.arrival(self.now), lambda: self._take(server, request))

    def _answered(self, server: Server, request: Request) -> None:
        if self._is_here(server):
            is_write = request.what in ("write", "renewal")
            self.lease_proof.answered(
                request.sent, self.now, proof=is_write, led=is_write or request.what == "sync"
            )
            self._look()
            if request.what == "renewal":
                self._ask(server, "sync")

    def _told(self, server: Server) -> None:
        if self._is_here(server) and server.is_open:
            self.on_event()
            self._look()

    # --- its server ----------------------------------------------------------------------------

    def _take(self, server: Server, request: Request) -> None:
        server.is_touched = True
        server.waiting.append(request)
        if request.what == "ping":
            self._ready(server, request)
        else:
            self._up(server, lambda: self._lead(server, request))

    def _ready(self, server: Server, request: Request) -> None:
        request.is_ready = True
        while server.waiting and server.waiting[0].is_ready and not server.is_closed:
            first = server.waiting.popleft()
            self._at(server.answers.arrival(self.now), partial(self._answered, server, first))

    def _report(self, server: Server) -> None:
        if not server.is_closed:
            self._at(server.answers.arrival(self.now), lambda: self._told(server))

    def _tell(self, server: Server) -> None:
        """It answers the leader's ping."""
        if server.is_touched:
            server.is_touched = False
            self._up(server, self._touch)

    def _close(self, server: Server) -> None:
        server.is_closed = True

    # --- the leader ----------------------------------------------------------------------------

    def _end_if_due(self) -> None:
        if self.now >= self.ends and not self.is_over:
            self.is_over = True
            for server in self._servers if self.end_first else ():
                self._down(server, partial(self._close, server), self.ends)

    def _collect(self) -> None:
        self._end_if_due()
        for server in self._servers:
            self._down(server, partial(self._tell, server))
        if not self.is_over:
            self._at(self.now + self.tick, self._collect)

    def _touch(self) -> None:
        self._end_if_due()
        if not self.is_over:
            self.ends = self.now + TIMEOUT

    def _lead(self, server: Server, request: Request) -> None:
        self._end_if_due()
        if not self.is_over or request.what == "sync":
            # A sync is answered whatever has become of the session.
            self._down(server, lambda: self._ready(server, request))


def sixteenths(most: float) -> st.SearchStrategy[float]:
    return st.integers(0, int(most * 16)).map(lambda n: n / 16)


# Most links to the client are well, or else there is hardly ever anything to prove.
SPAN = st.tuples(sixteenths(10.0), sixteenths(12.0) | st.just(inf)).map(lambda s: (s[0], sum(s)))
DELAY = st.just(0.0) | sixteenths(0.5)
OUTER = st.tuples(DELAY, st.just(()) | st.just(()) | st.just(()) | st.tuples(SPAN))
INNER = st.tuples(DELAY, st.just(()) | st.tuples(SPAN) | st.tuples(SPAN, SPAN))
ASKED = st.sampled_from(["ping", "ping", "write", "sync", "renewal", "renewal", "event"])
STAY = st.builds(
    Stay,
    st.tuples(OUTER, OUTER, INNER, INNER),
    st.lists(st.tuples(ASKED, sixteenths(2.5)), min_size=1, max_size=12).map(tuple),
)
STAYS = st.lists(STAY, min_size=1, max_size=3)

CALM: Links = ((0.0, ()),) * 4
"""Links that hold nothing back."""


APART = (0.0, ((1.5, 14.0),))
"""A direction between the servers that is cut for longer than the session timeout, and heals."""

HEALED = [Stay(((0.0, ()), (0.0, ()), APART, APART), (("event", 5.0), *[("ping", 0.5)] * 18))]
"""Cut off from the leader for longer than the session timeout; an old commit comes through."""

LOST = [
    Stay(
        ((0.0, ()), (0.0, ()), (0.0, ((4.5, inf),)), (0.0, ((2.0, 5.0),))),
        (("ping", 1.5), ("renewal", 2.5)),
    )
]
"""The leader's ping comes with the commit, and the answer to the ping is lost."""

LATE = [
    Stay(
        ((0.0, ()), (0.0, ()), (0.0, ((4.5, 9.0),)), (0.0, ((2.0, 5.0),))),
        (("ping", 1.5), ("renewal", 2.5)),
    )
]
"""The same, but the answer to the ping comes when the session is over, and so does the sync."""


@given(STAYS, st.sampled_from([HALF, HALF / 2, HALF / 4]), sixteenths(HALF))
@example(HEALED, HALF, 1.0)
@example(LOST, HALF, 1.0)
@example(LATE, HALF, 1.0)
def test_no_session_ends_before_its_promise(stays: list[Stay], tick: float, phase: float) -> None:
    world = World(DirectProof(TIMING), stays, tick=tick, phase=phase)
    event(f"promise extended: {world.promised > TIMEOUT}")
    assert world.promised <= world.ends


def test_calm_renewals_are_promised_what_the_one_before_has_earned() -> None:
    asked = (("renewal", 2.0),) * 6
    world = World(DirectProof(TIMING), [Stay(CALM, asked)])
    assert world.promised == 10.0 + TIMEOUT
    # The ping at 13 tells of the last one.
    assert world.ends == 13.0 + TIMEOUT


class WriteAlone(DirectProof):
    """Takes a write for a proof that the leader has collected everything before."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=led)
        if proof:
            self._collected = max(self._collected, sent)
            self._settle(now)


class SyncAtAnyTime(DirectProof):
    """Takes a sync for the second step, although the proof has ended."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        if led:
            self._confirm(sent)
            self._settle(now)
        super().answered(sent, now, proof=proof, led=led)


class AnythingConfirms(DirectProof):
    """Takes the answer to any request for the second step."""

    __slots__ = ()

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=True)


class Events(DirectProof):
    """Takes an event for a proof of contact when the newest answered request was sent."""

    __slots__ = ("newest",)

    def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
        super().answered(sent, now, proof=proof, led=led)
        self.newest = sent

    def event(self) -> None:
        self._collected = max(self._collected, self.newest)
        self._settle(self.newest)


def test_to_count_a_write_alone_promises_too_much() -> None:
    assert World(DirectProof(TIMING), LOST).promised == TIMEOUT
    world = World(WriteAlone(TIMING), LOST)
    assert world.ends == TIMEOUT
    assert world.promised == 1.5 + TIMEOUT


def test_to_count_events_promises_too_much() -> None:
    assert World(DirectProof(TIMING), HEALED).promised == TIMEOUT
    lease_proof = Events(TIMING)
    world = World(lease_proof, HEALED, on_event=lease_proof.event)
    assert world.ends == TIMEOUT
    assert world.promised > TIMEOUT + 2.0


def test_to_let_any_answer_confirm_a_write_promises_too_much() -> None:
    asked = (*LOST[0].asked, ("ping", 2.0))
    stays = [Stay(LOST[0].links, asked)]
    assert World(DirectProof(TIMING), stays).promised == TIMEOUT
    world = World(AnythingConfirms(TIMING), stays)
    # Even so, the ping has to wait for the sync before it: without one it is answered.
    assert world.promised == TIMEOUT
    stays = [Stay(LOST[0].links, (("ping", 1.5), ("write", 2.5), ("ping", 2.0)))]
    world = World(AnythingConfirms(TIMING), stays)
    assert world.ends == TIMEOUT
    assert world.promised == 1.5 + TIMEOUT


def test_a_sync_counts_only_behind_the_end_of_the_session() -> None:
    """A leader that answered syncs of sessions that it has ended would deceive a lease_proof."""
    for end_first in (True, False):
        assert World(DirectProof(TIMING), LATE, end_first=end_first).promised == TIMEOUT
    assert World(SyncAtAnyTime(TIMING), LATE).promised == TIMEOUT
    world = World(SyncAtAnyTime(TIMING), LATE, end_first=False)
    assert world.ends == TIMEOUT
    assert world.promised == 1.5 + TIMEOUT


def test_a_leader_that_pings_more_rarely_than_we_think_breaks_the_promise() -> None:
    links = ((0.0, ()), (0.0, ()), (0.0, ((4.0, inf),)), (0.0, ()))
    stays = [Stay(links, (("ping", 1.5), ("renewal", 2.0), ("ping", 0.25)))]
    assert World(DirectProof(TIMING), stays).ends == 3.0 + TIMEOUT
    world = World(DirectProof(TIMING), stays, tick=2 * HALF, phase=1.0)
    assert world.ends == TIMEOUT
    assert world.promised == 1.5 + TIMEOUT
