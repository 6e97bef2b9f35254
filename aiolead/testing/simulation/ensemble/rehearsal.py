"""An election by itself: which server would lead, how long that takes, and what it costs.

    outcome = rehearse({1: (4, 0x400000009), 2: (4, 0x400000011), 3: (4, 0x400000009)})
    assert outcome.leader == 2

Servers look for a leader from the same moment on unless told otherwise, over links that lose
nothing. Each vote and each change of mind is a `Step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf

from .election import Election, Letter, Role, Vote
from .sync import shown_zxid

__all__ = ["Rehearsal", "Step", "rehearse"]


@dataclass(frozen=True, slots=True)
class Step:
    """A server has voted, changed its mind, joined another round, or decided.

    Attributes:
        at: when, in seconds.
        server: which server.
        round: the round of its vote.
        role: its role now.
        vote: its vote now.
        before: its vote in this round before; None if it had none.
        sender: the server whose notification made it do so; None if time did.
        votes: how many servers it knows to have that vote, itself included.
    """

    at: float
    server: int
    round: int
    role: Role
    vote: Vote
    before: Vote | None
    sender: int | None
    votes: int

    @property
    def why(self) -> str:
        """The step and its reason, in words."""
        vote, before = self.vote, self.before
        log = shown_zxid(vote.zxid)
        match self.role:
            case Role.FOLLOWING:
                return f"follows {vote.leader}"
            case Role.OBSERVING:
                return f"observes {vote.leader}"
            case Role.LEADING:
                return f"leads: {self.votes} vote{'' if self.votes == 1 else 's'}"
        if vote.leader < 0:
            return "observes: it has no vote"
        if before is None:
            who = "itself" if vote.leader == self.server else str(vote.leader)
            joined = f", in the round of {self.sender}" if self.sender is not None else ""
            return f"votes for {who}: its last zxid is {log}{joined}"
        if before.leader < 0:
            return f"is informed about {vote.leader} by {self.sender}"
        if vote.epoch != before.epoch:
            why = f"epoch {vote.epoch} is newer than {before.epoch}"
        elif vote.zxid != before.zxid:
            why = f"its log is longer ({log} after {shown_zxid(before.zxid)})"
        else:
            why = f"the logs are the same, and {vote.leader} is greater than {before.leader}"
        return f"changes from {before.leader} to {vote.leader}, proposed by {self.sender}: {why}"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How an election went.

    Attributes:
        leader: the server that all agree on; None if nobody leads, for want of a majority.
        seconds: when the last server had decided.
        notifications: how many were sent from one server to another.
        steps: the events, in order.
        roles: the role of each server at the end, and its leader.
    """

    leader: int | None
    seconds: float
    notifications: int
    steps: tuple[Step, ...]
    roles: Mapping[int, tuple[Role, int | None]]


def rehearse(
    logs: Mapping[int, tuple[int, int]],
    *,
    voters: Iterable[int] | None = None,
    delay: float = 0.001,
    patience: float = 10.0,
    starts: Mapping[int, float] | None = None,
    parts: Iterable[Iterable[int]] | None = None,
) -> Rehearsal:
    """Lets servers elect a leader.

    Args:
        logs: the servers that are up: of each its epoch and the last zxid in its log.
        voters: all servers that vote, up or not. By default those that are up.
        delay: how long a notification is on its way, in seconds.
        patience: when to give up, in seconds. Where there is a majority, it decides long before.
        starts: when servers start, in seconds; those that are left out start at once.
        parts: the parts of a network that is partitioned, each as its servers; by default it is
            whole. A server that is in no part reaches nobody.

    Returns:
        How it went.
    """
    stage = _Stage(logs, logs if voters is None else voters, delay, starts or {}, parts)
    while stage.due <= patience:
        stage.step()
    leaders = {election.leader for election in stage.elections.values()}
    return Rehearsal(
        leader=leaders.pop() if len(leaders) == 1 else None,
        seconds=stage.now,
        notifications=stage.sent,
        steps=tuple(stage.steps),
        roles={each.server: (each.role, each.leader) for each in stage.elections.values()},
    )


class _Stage:
    """The servers of a rehearsal, and what is on its way between them."""

    def __init__(
        self,
        logs: Mapping[int, tuple[int, int]],
        voters: Iterable[int],
        delay: float,
        starts: Mapping[int, float],
        parts: Iterable[Iterable[int]] | None,
    ) -> None:
        members = frozenset(voters)
        self.elections = {server: Election(server, members) for server in sorted(logs)}
        self.steps: list[Step] = []
        self._logs = logs
        self._waiting = sorted((starts.get(server, 0.0), server) for server in logs)
        self._up = {server for at, server in self._waiting if at == 0.0}
        part_of = {} if parts is None else {each: n for n, one in enumerate(parts) for each in one}
        # A server of no part has one of its own.
        self._part_of = {
            each: 0 if parts is None else part_of.get(each, -each - 1) for each in logs
        }
        self._votes: dict[int, tuple[int, Role, Vote]] = {}
        self.now = 0.0
        self.sent = 0
        self._delay = delay
        self._letters: list[tuple[float, int, int, Letter]] = []
        self._order = count()

    @property
    def due(self) -> float:
        """When something happens next; infinity once everything is over."""
        arrival = self._letters[0][0] if self._letters else inf
        start = self._waiting[0][0] if self._waiting else inf
        return min(arrival, self._deadline()[0], start)

    def step(self) -> None:
        deadline, server = self._deadline()
        if self._waiting and self._waiting[0][0] <= self.due:
            self._start(*self._waiting.pop(0))
        elif self._letters and self._letters[0][0] <= deadline:
            self.now, _, sender, letter = heappop(self._letters)
            election = self.elections[letter.to]
            self.act(letter.to, election.receive(self.now, sender, letter.notification), sender)
        else:
            self.now = deadline
            self.act(server, self.elections[server].time_passed(self.now))

    def _start(self, at: float, server: int) -> None:
        """Starts a server, which connects to the others; they repeat what they said last."""
        self.now = at
        self._up.add(server)
        epoch, zxid = self._logs[server]
        self.act(server, self.elections[server].look(at, epoch=epoch, zxid=zxid))
        for peer in sorted(self._up - {server}):
            said = self.elections[peer].last_sent(server)
            if said is not None and at > 0:
                self._post(peer, Letter(server, said))

    def _post(self, server: int, letter: Letter) -> None:
        if letter.to in self._up and self._part_of[server] == self._part_of[letter.to]:
            entry = (self.now + self._delay, next(self._order), server, letter)
            heappush(self._letters, entry)

    def act(self, server: int, letters: Iterable[Letter], sender: int | None = None) -> None:
        """Sends a server's letters and notes what it thinks now."""
        self._note(self.elections[server], sender)
        for letter in letters:
            self.sent += 1
            self._post(server, letter)

    def _note(self, election: Election, sender: int | None) -> None:
        server, now = election.server, (election.round, election.role, election.vote)
        before = self._votes.get(server)
        if before == now:
            return
        self._votes[server] = now
        same_round = before is not None and before[0] == election.round
        self.steps.append(
            Step(
                *(self.now, server, election.round, election.role, election.vote),
                before=before[2] if before is not None and same_round else None,
                sender=sender,
                votes=election.votes,
            )
        )

    def _deadline(self) -> tuple[float, int]:
        waiting = [
            (election.deadline, server)
            for server, election in self.elections.items()
            if election.deadline is not None and server in self._up
        ]
        return min(waiting, default=(inf, 0))
