"""An election by itself: which server would lead, how long that takes, and what it costs.

    outcome = rehearse({1: (4, 0x400000009), 2: (4, 0x400000011), 3: (4, 0x400000009)})
    assert outcome.leader == 2

All servers look for a leader from the same moment on, over links that lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf

from .election import Election, Letter, Role

__all__ = ["Rehearsal", "rehearse"]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How an election went.

    Attributes:
        leader: the server that all agree on; None if nobody leads, for want of a majority.
        seconds: when the last server had decided.
        notifications: how many were sent from one server to another.
        course: what happened, in order: when, in seconds, and a sentence.
    """

    leader: int | None
    seconds: float
    notifications: int
    course: tuple[tuple[float, str], ...]


def rehearse(
    logs: Mapping[int, tuple[int, int]],
    *,
    voters: Iterable[int] | None = None,
    delay: float = 0.001,
    patience: float = 10.0,
) -> Rehearsal:
    """Lets servers elect a leader.

    Args:
        logs: the servers that are up: of each its epoch and the last zxid in its log.
        voters: all servers that vote, up or not. By default those that are up.
        delay: how long a notification is on its way, in seconds.
        patience: when to give up, in seconds. Where there is a majority, it decides long before.

    Returns:
        How it went.
    """
    stage = _Stage(logs, logs if voters is None else voters, delay)
    for server, (epoch, zxid) in sorted(logs.items()):
        stage.act(server, stage.elections[server].look(0.0, epoch=epoch, zxid=zxid))
    while stage.due <= patience:
        stage.step()
    leaders = {election.leader for election in stage.elections.values()}
    return Rehearsal(
        leader=leaders.pop() if len(leaders) == 1 else None,
        seconds=stage.now,
        notifications=stage.sent,
        course=tuple(stage.course),
    )


class _Stage:
    """The servers of a rehearsal, and what is on its way between them."""

    def __init__(self, servers: Iterable[int], voters: Iterable[int], delay: float) -> None:
        members = frozenset(voters)
        self.elections = {server: Election(server, members) for server in sorted(servers)}
        self.course: list[tuple[float, str]] = []
        self.now = 0.0
        self.sent = 0
        self._delay = delay
        self._letters: list[tuple[float, int, int, Letter]] = []
        self._order = count()
        self._said: dict[int, str] = {}

    @property
    def due(self) -> float:
        """When something happens next; infinity once everything is over."""
        arrival = self._letters[0][0] if self._letters else inf
        return min(arrival, self._deadline()[0])

    def step(self) -> None:
        deadline, server = self._deadline()
        if self._letters and self._letters[0][0] <= deadline:
            self.now, _, sender, letter = heappop(self._letters)
            election = self.elections[letter.to]
            self.act(letter.to, election.receive(self.now, sender, letter.notification))
        else:
            self.now = deadline
            self.act(server, self.elections[server].time_passed(self.now))

    def act(self, server: int, letters: Iterable[Letter]) -> None:
        """Sends a server's letters and notes what it thinks now."""
        for letter in letters:
            self.sent += 1
            if letter.to in self.elections:
                entry = (self.now + self._delay, next(self._order), server, letter)
                heappush(self._letters, entry)
        said = _describe(self.elections[server])
        if self._said.get(server) != said:
            self._said[server] = said
            self.course.append((self.now, said))

    def _deadline(self) -> tuple[float, int]:
        waiting = [
            (election.deadline, server)
            for server, election in self.elections.items()
            if election.deadline is not None
        ]
        return min(waiting, default=(inf, 0))


def _describe(election: Election) -> str:
    match election.role:
        case Role.LOOKING:
            return f"server {election.server} is for {election.vote.leader}"
        case Role.LEADING:
            return f"server {election.server} leads"
        case Role.FOLLOWING:
            return f"server {election.server} follows {election.leader}"
        case Role.OBSERVING:
            return f"server {election.server} observes {election.leader}"
