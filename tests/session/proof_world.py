"""A client, its servers, and the leader that ends its session, in virtual time.

`World` does not know the rule by which a proof counts. Its leader collects from the servers which
sessions they have been in contact with, so that a test can compare when the session really ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from aiolead._session.lease import LeaseProof
from aiolead._session.timing import Timing

TIMEOUT = 8.0
HALF = TIMEOUT / 4
TIMING = replace(Timing.derive(TIMEOUT, tick_time=None, grace_period=None), half_tick=HALF)
assert HALF == 2.0


class DirectProof(LeaseProof):
    """Knows from the handshake on that one round is enough, as on ordinary servers."""

    __slots__ = ()

    def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
        super().opened(timing, sent, created=created)
        self.direct()


Holds = tuple[tuple[float, float], ...]
"""From when until when a link holds things back; until `inf`, they never arrive."""

Direction = tuple[float, Holds]
"""A link's delay, and when it holds things back."""

Links = tuple[Direction, Direction, Direction, Direction]
"""From the client to its server, and back; from the server to the leader, and back."""

OPEN: Direction = (0.0, ())
CALM: Links = (OPEN, OPEN, OPEN, OPEN)


@dataclass
class Link:
    """One direction of a connection: it keeps order, and holds things back at times."""

    delay: float = 0.0
    holds: Holds = ()
    busy: float = -inf

    def arrival(self, sent: float) -> float:
        at = max(sent + self.delay, self.busy)
        for start, end in sorted(self.holds):
            if start <= at < end:
                at = end
        self.busy = at
        return at


@dataclass
class Request:
    what: str
    sent: float
    is_ready: bool = False
    """Whether it may be answered, in its turn."""


class Server:
    """A follower. It answers pings itself, and learns the end of the session from the leader."""

    def __init__(self, asks: Link, answers: Link, up: Link, down: Link) -> None:
        self.asks, self.answers, self.up, self.down = asks, answers, up, down
        self.is_touched = self.is_closed = self.is_open = False
        self.waiting: deque[Request] = deque()


@dataclass(frozen=True)
class Stay:
    """One connection of the session: the links, and the requests with their times.

    A `renewal` is a write, and a sync as soon as that is answered.
    """

    links: Links
    asked: tuple[tuple[str, float], ...]
    """Each request, and how long after the one before it leaves."""


class World:
    """A client, the servers to which it goes in turn, and the leader that ends the session.

    Args:
        lease_proof: gets everything that the client sees.
        stays: the client's connections.
        timing: the client's intervals.
        tick: how often the leader asks the servers which sessions they had contact with.
        phase: how long after the creation of the session it first does so.
        on_event: called when the client gets the event of another client's change.
        end_first: whether the leader reports the end of the session before it answers a sync.

    Attributes:
        promised: the latest end of the session that the client took for proven.
        ends: when the leader has ended the session.
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
        if what == "event":  # of another client's change
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


LONGEST = 200.0
"""When every run ends. A session that never began has no end."""


class FedWorld(World):
    """Every server of the session is an observer, fed by one follower.

    The follower's timer is not synchronised with the leader's.

    Args:
        to_follower: the observer's link to its follower.
        from_follower: the other direction.
        fed_from: when the follower first pings the observer.
    """

    def __init__(
        self,
        lease_proof: LeaseProof,
        stays: list[Stay],
        *,
        to_follower: Direction = OPEN,
        from_follower: Direction = OPEN,
        fed_from: float = 1.0,
        timing: Timing = TIMING,
        tick: float = HALF,
        phase: float = 1.0,
    ) -> None:
        self._hops: dict[Server, tuple[Link, Link]] = {}
        self._with_follower: set[Server] = set()  # touched, and not yet reported
        self._links = to_follower, from_follower
        self._fed_from = fed_from % tick
        super().__init__(lease_proof, stays, timing=timing, tick=tick, phase=phase)

    def _hop(self, server: Server) -> tuple[Link, Link]:
        if server not in self._hops:
            asked, fed = (Link(delay, holds) for delay, holds in self._links)
            self._hops[server] = asked, fed
            late = -(-(self.now - self._fed_from) // self.tick)
            self._at(self._fed_from + max(0.0, late) * self.tick, partial(self._feed, server))
        return self._hops[server]

    def _up(self, server: Server, action: Callable[[], object]) -> None:
        asked, _ = self._hop(server)
        self._at(asked.arrival(self.now), lambda: World._up(self, server, action))

    def _down(
        self, server: Server, action: Callable[[], object], sent: float | None = None
    ) -> None:
        _, fed = self._hop(server)
        World._down(self, server, lambda: self._at(fed.arrival(self.now), action), sent)

    def _feed(self, server: Server) -> None:
        """The follower pings the observer."""
        asked, fed = self._hop(server)

        def tell() -> None:
            if server.is_touched:
                server.is_touched = False
                self._at(asked.arrival(self.now), lambda: self._with_follower.add(server))

        self._at(fed.arrival(self.now), tell)
        if not self.is_over and self.now < LONGEST:
            self._at(self.now + self.tick, partial(self._feed, server))

    def _collect(self) -> None:
        """The leader pings the followers. They report the touches that have arrived by then."""
        self._end_if_due()
        for server in self._servers:
            World._down(self, server, partial(self._report_touch, server))
        if not self.is_over:
            self._at(self.now + self.tick, self._collect)

    def _report_touch(self, server: Server) -> None:
        if server in self._with_follower:
            self._with_follower.remove(server)
            World._up(self, server, self._touch)
