"""The client's part of `docs/spec/lease.tla` in Python, and the leader's view of its session.

Each function stands for an action of the same name: it returns the next state, or None where the
action is not enabled. `test_lease_rules.py` compares them with every step that TLC computes. Times
may be integers, as in the specification, or real ones, as in a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

NA = inf
"""The age of a request that there is not, or that has no answer."""


@dataclass(frozen=True, slots=True)
class Client:
    """The variables of the client: see the specification."""

    connected: bool = True
    request: str = "none"
    where: str = "none"
    a_kind: str = "none"
    a_sent: float = NA
    a_answered: float = NA
    w_sent: float = NA
    w_answered: float = NA
    left: float = 0
    body: str = "none"
    spare: float = 0

    @property
    def is_free(self) -> bool:
        return self.connected and self.request == "none"


@dataclass(frozen=True, slots=True)
class Rules:
    """The actions, with the constants of the specification."""

    tau: float
    wait: float
    grace: float
    margin: float

    def tick(self, it: Client, by: float = 1) -> Client | None:
        may_age = {
            "none": True,
            "runs": it.left - by >= self.margin + self.grace,
            "stops": it.spare >= by,
        }
        if not may_age[it.body]:
            return None
        return replace(
            it,
            a_sent=_older(it.a_sent, by, self.tau),
            a_answered=_older(it.a_answered, by, self.wait),
            w_sent=_older(it.w_sent, by, self.tau),
            w_answered=_older(it.w_answered, by, self.wait),
            left=max(0, it.left - by),
            spare=max(0, it.spare - by),
        )

    # --- the connection ------------------------------------------------------------------------

    def disconnect(self, it: Client) -> Client | None:
        if not it.connected:
            return None
        return Client(connected=False, left=it.left, body=it.body, spare=it.spare)

    def connect(self, it: Client) -> Client | None:
        if it.connected:
            return None
        return replace(
            it, connected=True, request="handshake", where="sent", a_kind="handshake", a_sent=0
        )

    # --- requests ------------------------------------------------------------------------------

    def send_a(self, it: Client) -> Client | None:
        if not it.is_free or it.w_sent != NA:
            return None
        return replace(it, request="ping", where="sent", a_kind="request", a_sent=0, a_answered=NA)

    def send_write(self, it: Client) -> Client | None:
        if not it.is_free or it.w_sent != NA or it.a_answered == NA or it.a_sent >= self.tau:
            return None
        if it.a_kind == "request" and it.a_answered < self.wait:
            return None
        return replace(it, request="write", where="sent", w_sent=0)

    def send_second(self, it: Client, request: str) -> Client | None:
        if not it.is_free or it.w_answered == NA:
            return None
        return replace(it, request=request, where="sent")

    def answer(self, it: Client) -> Client | None:
        """A server answers; in the specification one of several actions."""
        return replace(it, where="answered") if it.where in ("sent", "served") else None

    def receive(self, it: Client) -> Client | None:
        if it.where != "answered":
            return None
        free = replace(it, request="none", where="none")
        if it.request in ("handshake", "ping"):
            return replace(free, a_answered=0)
        if it.request == "write":
            if it.a_kind != "handshake":
                return replace(free, w_answered=0)
            return self._next_a(replace(free, left=self._proven(it), w_answered=0))
        is_proof = it.request == "second" or it.left > 0
        return self._next_a(replace(free, left=self._proven(it) if is_proof else it.left))

    def _proven(self, it: Client) -> float:
        return max(it.left, self.tau - min(it.a_sent, self.tau))

    def _next_a(self, it: Client) -> Client:
        return replace(
            it,
            a_kind="request",
            a_sent=it.w_sent,
            a_answered=it.w_answered,
            w_sent=NA,
            w_answered=NA,
        )

    # --- the body ------------------------------------------------------------------------------

    def begin(self, it: Client) -> Client | None:
        if it.body != "none" or it.left <= self.margin + self.grace:
            return None
        return replace(it, body="runs")

    def cancel(self, it: Client) -> Client | None:
        if it.body != "runs" or it.left > self.margin + self.grace:
            return None
        return replace(it, body="stops", spare=self.grace)

    def end_body(self, it: Client) -> Client | None:
        return replace(it, body="none", spare=0) if it.body == "stops" else None

    def steps(self, it: Client) -> Iterator[tuple[str, Client]]:
        """All that the client may do next, but for time."""
        found = [
            ("Disconnect", self.disconnect(it)),
            ("Connect", self.connect(it)),
            ("SendA", self.send_a(it)),
            ("SendWrite", self.send_write(it)),
            ("SendSecond", self.send_second(it, "sync")),
            ("SendSecond", self.send_second(it, "second")),
            ("Receive", self.receive(it)),
            ("Begin", self.begin(it)),
            ("Cancel", self.cancel(it)),
            ("EndBody", self.end_body(it)),
        ]
        yield from ((action, after) for action, after in found if after is not None)

    # --- the leader ----------------------------------------------------------------------------

    def may_decide(self, touch_age: float) -> bool:
        """Whether a leader may end a session that it last learnt of so long ago."""
        return touch_age > self.tau


def _older(age: float, by: float, most: float) -> float:
    return NA if age == NA else min(age + by, most)
