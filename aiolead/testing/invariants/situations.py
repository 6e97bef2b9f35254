"""How often rare situations were reached: proof that a run was worth something ("sometimes").

A suite that never stops a holder, or never lets a session expire in the queue, proves nothing about
that. So each situation has a name, and over many runs none of them may stay at zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import LossReason
from ..history.events import (
    RESIGNED,
    Acted,
    Cancelled,
    Entered,
    Event,
    FaultBegan,
    FaultEnded,
    Healed,
    Joined,
    Killed,
    LeaderChanged,
    Left,
    NodeCreated,
    NodeDeleted,
    Reached,
    Session,
    SteppedDown,
    Stopped,
    Withdrew,
    Wrote,
)
from .reading import wholes

_STEPPED = {
    LossReason.UNCONFIRMED.value: "stepped down by the clock",
    LossReason.EXPIRED.value: "stepped down as the session expired",
    LossReason.DISCONNECTED.value: "stepped down as the connection was lost",
    LossReason.REFUSED.value: "stepped down as the servers refused to confirm the znode",
    LossReason.DELETED.value: "stepped down as the znode was deleted",
    LossReason.CLOSED.value: "stepped down as the client was closed",
    RESIGNED: "resigned",
}

ACQUIRING, WAITING, HOLDING, RELEASING = "acquiring", "waiting", "holding", "releasing"

SITUATIONS = (
    *_STEPPED.values(),
    *(
        f"{blow} while {phase}"
        for blow in (
            "link lost",
            "reconnected in the session",
            "session expired",
            "cancelled",
            "killed",
            "stopped",
        )
        for phase in (ACQUIRING, WAITING, HOLDING, RELEASING)
    ),
    "line moved while a waiter had no link",
    "handed over after a loss",
    "handed over while there was no leader",
    "handed over while something was broken",
    "joined while something was broken",
    "timed out in the queue",
    "deposed holder refused",
    "leader changed while somebody held",
)
"""The situations that a history shows by itself."""

REPORTED = (
    "create applied, its answer lost",
    "create lost before it was applied",
    "delete applied, its answer lost",
    "watch event lost with the link",
    "the connection broke while watches were re-armed",
    "link lost between the handshake and the first request",
    "handshake applied, its answer lost",
    "lagging server refused a client",
    "renewal answered, then its server died",
    "more watches than fit into one request",
    "write applied, and skipped",
    "write skipped before it was applied",
    "read skipped",
    "write applied, and swallowed",
    "write swallowed before it was applied",
    "read swallowed",
    "sync answered by a leader that had not applied all",
)
"""Those that a world has to report (`Reached`): histories do not show who knew what when."""


class _Tour:
    """Goes through the events and notes what phase every contender is in."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._phase: dict[tuple[str, str], str] = {}
        self._lines: dict[str, set[tuple[str, str]]] = {}
        self._session: dict[str, int] = {}
        self._clients: dict[int, str] = {}
        self._suspended: set[str] = set()
        self._parents: dict[tuple[str, str], str] = {}
        self._lost: set[str] = set()
        self._faults = 0
        self._leaderless = False

    def _set(self, event: Joined | Entered | Left, phase: str) -> None:
        key = (event.line, event.contender)
        if key not in self._phase:
            for name in wholes(event.contender):
                self._lines.setdefault(name, set()).add(key)
        self._phase[key] = phase

    def _count(self, what: str, whole: str) -> None:
        """Counts what befell all contenders of a client or a process, by what they were doing."""
        for key in self._lines.get(whole, ()):
            if phase := self._phase.get(key):
                self.seen[f"{what} while {phase}"] += 1

    # --- contenders ----------------------------------------------------------------------------

    def joined(self, event: Joined) -> None:
        self._set(event, ACQUIRING)
        if self._faults:
            self.seen["joined while something was broken"] += 1

    def entered(self, event: Entered) -> None:
        self._set(event, HOLDING)
        if event.line in self._lost:
            self._lost.discard(event.line)
            self.seen["handed over after a loss"] += 1
        if self._leaderless:
            self.seen["handed over while there was no leader"] += 1
        if self._faults:
            self.seen["handed over while something was broken"] += 1

    def stepped_down(self, event: SteppedDown) -> None:
        if name := _STEPPED.get(event.why):
            self.seen[name] += 1
        if event.why != RESIGNED:
            self._lost.add(event.line)

    def left(self, event: Left) -> None:
        self._set(event, RELEASING)
        if event.was_lost:
            self._lost.add(event.line)

    def withdrew(self, event: Withdrew) -> None:
        self._phase.pop((event.line, event.contender), None)
        if event.why == "timeout":
            self.seen["timed out in the queue"] += 1

    def cancelled(self, event: Cancelled) -> None:
        if phase := self._phase.get((event.line, event.contender)):
            self.seen[f"cancelled while {phase}"] += 1

    def killed(self, event: Killed) -> None:
        self._count("killed", event.contender)
        for key in self._lines.get(event.contender, ()):
            self._phase.pop(key, None)

    def stopped(self, event: Stopped) -> None:
        self._count("stopped", event.contender)

    def refusable(self, event: Acted | Wrote) -> None:
        if not event.accepted:
            self.seen["deposed holder refused"] += 1

    # --- sessions and servers ------------------------------------------------------------------

    def session(self, event: Session) -> None:
        client, session_id = event.contender, event.session_id
        if event.state == "suspended":
            self._count("link lost", client)
            self._suspended.add(client)
        elif event.state == "connected":
            if client in self._suspended and self._session.get(client) == session_id:
                self._count("reconnected in the session", client)
            self._suspended.discard(client)
            self._session[client] = session_id
            self._clients[session_id] = client
        elif event.state == "expired":
            self._count("session expired", client)
            for key in self._lines.get(client, ()):
                if self._phase.get(key) == WAITING:
                    self._phase[key] = ACQUIRING  # It joins again, over the next session.

    def created(self, event: NodeCreated) -> None:
        parent = event.path.rpartition("/")[0]
        for key in self._lines.get(self._clients.get(event.owner, ""), ()):
            if self._phase.get(key) == ACQUIRING:
                self._phase[key] = WAITING
                self._parents[key] = parent

    def deleted(self, event: NodeDeleted) -> None:
        parent = event.path.rpartition("/")[0]
        for key in self._lines.get(self._clients.get(event.owner, ""), ()):
            if self._phase.get(key) == RELEASING and self._parents.get(key) == parent:
                del self._phase[key]
        if any(
            self._phase.get(key) == WAITING and self._parents.get(key) == parent
            for client in self._suspended
            for key in self._lines.get(client, ())
        ):
            self.seen["line moved while a waiter had no link"] += 1

    def leader_changed(self, event: LeaderChanged) -> None:
        self._leaderless = not event.leader
        if event.leader and HOLDING in self._phase.values():
            self.seen["leader changed while somebody held"] += 1

    # --- faults --------------------------------------------------------------------------------

    def fault_began(self, _event: FaultBegan) -> None:
        self._faults += 1

    def fault_ended(self, _event: FaultEnded) -> None:
        self._faults = max(0, self._faults - 1)

    def healed(self, _event: Healed) -> None:
        self._faults = 0

    def reached(self, event: Reached) -> None:
        self.seen[event.what] += 1


_STEPS: dict[type[Event], Callable[[_Tour, Any], None]] = {
    Joined: _Tour.joined,
    Entered: _Tour.entered,
    SteppedDown: _Tour.stepped_down,
    Left: _Tour.left,
    Withdrew: _Tour.withdrew,
    Cancelled: _Tour.cancelled,
    Killed: _Tour.killed,
    Stopped: _Tour.stopped,
    Acted: _Tour.refusable,
    Wrote: _Tour.refusable,
    Session: _Tour.session,
    NodeCreated: _Tour.created,
    NodeDeleted: _Tour.deleted,
    LeaderChanged: _Tour.leader_changed,
    FaultBegan: _Tour.fault_began,
    FaultEnded: _Tour.fault_ended,
    Healed: _Tour.healed,
    Reached: _Tour.reached,
}


def sometimes(events: Iterable[Event]) -> Counter[str]:
    """How often each situation was reached: those of `SITUATIONS`, and what was `Reached`.

    A contender is *acquiring* until its znode is there, *releasing* from the end of its body until
    the znode is gone; both need events of the servers and of its client (`NodeCreated`,
    `NodeDeleted`, `Session`), or else it never comes to wait.
    """
    tour = _Tour()
    for event in events:
        step = _STEPS.get(type(event))
        if step is not None:
            step(tour, event)
    return tour.seen
