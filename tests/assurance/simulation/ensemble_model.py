"""The model of an ensemble on a driven timeline, and clients of it that are bare connections."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kit.raw_client import Request
from testing.wire_core import NEW_SESSION, Talk

from aiolead._wire.codes import XID_PING, OpCode
from aiolead._wire.jute import Reader, encode_request
from aiolead._wire.replies import ReplyHeader
from aiolead._wire.requests import Check, Create, Multi
from aiolead.model import OPEN_ACL_UNSAFE
from aiolead.testing.simulation.connection import Wire
from aiolead.testing.simulation.ensemble import Ensemble, EnsembleSettings, Server
from aiolead.testing.simulation.network import Network
from aiolead.testing.simulation.timeline import Timeline

STEP = 0.001
"""How long a packet takes, in seconds, unless a test says otherwise: the same for all."""


class Stage:
    """An ensemble, the time that it lives in, and what has become known of it.

    Every packet takes `STEP` seconds, so that a test can say when what happens.

    Attributes:
        leader: the one that was elected first.
        follower: one of the others, at first.
        other: another one.
    """

    def __init__(self, seed: int = 1, *, step: float | None = STEP, **settings: Any) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, seed)
        self.facts: list[dict[str, Any]] = []
        settings.setdefault("phases", (0.0,))
        settings.setdefault("tick", 0.5)
        self.ensemble = Ensemble(
            self.timeline,
            self.network,
            random.Random(seed),
            EnsembleSettings(**settings),
            on_fact=lambda kind, **details: self.facts.append({"kind": kind, **details}),
        )
        self.step = step
        self.leader: Server
        self.follower: Server
        self.other: Server
        self._clients = 0

    @property
    def now(self) -> float:
        return self.timeline.now

    def start(self) -> Server:
        """Starts all servers; returns the leader once they serve."""
        self.even_out()
        self.ensemble.start()
        self.leader = self.settle()
        # Without followers, the leader stands for them.
        self.follower, self.other, *_ = [*self.followers(), self.leader, self.leader]
        return self.leader

    def even_out(self) -> None:
        """Makes all paths alike."""
        if self.step is not None:
            hosts = [server.host for server in self.ensemble.servers]
            hosts += ["127.0.0.1", *(f"10.0.1.{number}" for number in range(1, 30))]
            for one in hosts:
                for other in hosts:
                    path = self.network.path(one, other)
                    path.range = (self.step, self.step)
                    path.cuts = 0.0

    def run(self, seconds: float) -> None:
        """Lets time pass."""
        self.run_to(self.now + seconds)

    def run_to(self, when: float) -> None:
        while self.timeline.now < when:
            self._advance(when)

    def until(self, condition: Callable[[], object], limit: float = 30.0) -> None:
        """Lets time pass until something is so."""
        end = self.now + limit
        while not condition():
            if self.now >= end:
                raise AssertionError(f"not within {limit} s: {self.ensemble_states()}")
            self._advance(end)

    def _advance(self, deadline: float) -> None:
        self.timeline.advance(deadline)
        if self.timeline.failure is not None:
            raise self.timeline.failure

    def settle(self, limit: float = 30.0) -> Server:
        self.until(lambda: self.ensemble.is_settled, limit)
        leader = self.ensemble.leader()
        assert leader is not None
        return leader

    def ensemble_states(self) -> list[str]:
        return [f"{s.id} {s.state} 0x{s.zxid:x}" for s in self.ensemble.servers]

    def followers(self) -> list[Server]:
        return [s for s in self.ensemble.servers if s.state == "following"]

    def client(self, server: Server, **greeting: Any) -> Client:
        """A client with a session."""
        client = self.knock(server)
        client.greet(**greeting)
        self.until(lambda: client.session_id or client.is_refused or client.is_closed)
        return client

    def knock(self, server: Server) -> Client:
        """A client that has said nothing yet."""
        self._clients += 1
        client = Client(self, f"10.0.1.{self._clients}", server)
        self.until(lambda: client.wire is not None)
        return client

    def cut(self, one: Server, *others: Server) -> None:
        """Silences the paths between a server and others, both ways."""
        for other in others or [s for s in self.ensemble.servers if s is not one]:
            self.network.path(one.host, other.host).silence()
            self.network.path(other.host, one.host).silence()

    def heal(self) -> None:
        for path in self.network.paths():
            path.heal()

    def told(self, kind: str, **details: Any) -> list[dict[str, Any]]:
        """The facts of a kind that agree with these details."""
        return [
            fact
            for fact in self.facts
            if fact["kind"] == kind and all(fact[name] == value for name, value in details.items())
        ]


def started(**settings: Any) -> Stage:
    """An ensemble that serves."""
    stage = Stage(**settings)
    stage.start()
    return stage


class Client(Talk):
    """A connection to a server of the model, with all that has come back.

    Attributes:
        heard: the numbers of the requests that were answered, and the events, in order.
        heard_at: when the events came.
    """

    def __init__(self, stage: Stage, host: str, server: Server) -> None:
        super().__init__()
        self.stage = stage
        self.host = host
        self.wire: Wire | None = None
        self.is_refused = False
        self.is_closed = False
        self.replies: dict[int, tuple[ReplyHeader, Reader]] = {}
        self.acked: dict[int, float] = {}
        self.heard: list[Any] = []
        self.heard_at: list[float] = []
        self.pings: list[tuple[float, float]] = []
        self.zxid = 0
        self.seen = 0
        self.has_greeted = False
        self._pinged: list[float] = []
        stage.network.connect(host, server.address, self, self._opened)

    # --- what comes in

    def _opened(self, wire: Wire | None) -> None:
        self.wire = wire
        self.is_closed = wire is None

    def received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._take(frame)

    def ended(self) -> None:
        self.is_closed = True
        assert self.wire is not None
        self.wire.close()

    def broken(self) -> None:
        self.is_closed = True

    def _take(self, frame: bytes) -> None:
        if not self.session_id:
            self.is_refused = not self.welcomed(frame).session_id
            return
        reply = self.reply(frame)
        if reply is None:
            self.heard.append(self.events[-1])
            self.heard_at.append(self.stage.now)
            return
        header, _ = reply
        self.zxid = max(self.zxid, header.zxid)
        if header.xid == XID_PING:
            self.pings.append((self._pinged.pop(0), self.stage.now))
            return
        self.replies[header.xid] = reply
        self.acked[header.xid] = self.stage.now
        self.heard.append(header.xid)

    # --- what goes out

    def greet(
        self, timeout: float = 2.0, session: tuple[int, bytes] = NEW_SESSION, seen: int = 0
    ) -> None:
        self.has_greeted = True
        self.say(self.hello(timeout, session, seen))

    def say(self, data: bytes) -> None:
        assert self.wire is not None
        self.wire.send(data)

    def send(self, request: Request) -> int:
        """Sends a request; returns its number."""
        return self.send_raw(request.op, request.encode())

    def send_raw(self, op: int, body: bytes = b"") -> int:
        self.say(self.request(op, body))
        return self._xid

    def ping(self) -> None:
        self._pinged.append(self.stage.now)
        self.say(encode_request(XID_PING, OpCode.PING))

    def ask(self, request: Request, limit: float = 30.0) -> ReplyHeader:
        """A request and its answer."""
        xid = self.send(request)
        self.stage.until(lambda: xid in self.replies or self.is_closed, limit)
        if xid not in self.replies:
            raise AssertionError("closed instead of answered")
        return self.replies[xid][0]

    def create(self, path: str, flags: int = 0, data: bytes = b"") -> ReplyHeader:
        return self.ask(create(path, flags, data))

    def keep_pinging(self, gap: float) -> None:
        """Pings for as long as the connection stands."""

        def again() -> None:
            if not self.is_closed:
                self.ping()
                self.stage.timeline.after(gap, again)

        again()

    def reset(self) -> None:
        assert self.wire is not None
        self.wire.reset()
        self.is_closed = True


def create(path: str, flags: int = 0, data: bytes = b"") -> Create:
    return Create(path, data, OPEN_ACL_UNSAFE, flags)


def check(path: str, version: int = -1) -> Multi:
    """The request that renews the lease of a holder."""
    return Multi((Check(path, version),))
