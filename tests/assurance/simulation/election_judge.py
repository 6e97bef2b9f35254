"""Elections under faults, judged by somebody who sees everything.

Servers with the election kernel, and no more of ZooKeeper around it than is needed to make use of
what was elected: a leader that finds no majority of followers in time looks again, and so does a
follower whose leader does not lead; a leader and its majority agree on a new epoch, which is kept
on disk; the leader writes, and a majority of its followers has it. Notifications are delayed,
overtake one another, are lost and doubled; servers are killed and started again.

`ElectionJudge.complaints` holds what went wrong: the judge compares each decision with what servers
have really said.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

from aiolead.testing.simulation.ensemble.election import (
    Election,
    Letter,
    Notification,
    Role,
    Vote,
    quorum_size,
)

COUNTER_BITS = 32


@dataclass(frozen=True)
class Weather:
    """Faults of notifications and servers, until the calm comes.

    Attributes:
        loss: the share of the notifications that are lost.
        doubled: the share that comes twice.
        delay: how long one is under way at most, in seconds.
        crashes: how often a server is killed, per second, all servers together.
        until: when the calm comes, in seconds.
    """

    loss: float = 0.0
    doubled: float = 0.0
    delay: float = 0.01
    crashes: float = 0.0
    until: float = 0.0


@dataclass
class Server:
    """The disk of a server, and its election while it is up."""

    name: int
    epoch: int = 0
    zxid: int = 0
    accepted: int = 0
    election: Election | None = None
    decided_at: float = 0.0
    is_established: bool = False
    looks: int = 0
    last_vote: tuple[int, int, Vote] | None = field(default=None, repr=False)

    @property
    def role(self) -> Role | None:
        return None if self.election is None else self.election.role

    @property
    def leader(self) -> int | None:
        return None if self.election is None else self.election.leader


class ElectionJudge:
    """Servers that elect, under faults.

    Args:
        rng: decides everything.
        voters: how many servers vote; they are called 1, 2 and so on.
        observers: how many do not; their names follow on.
        weather: the faults.
    """

    GRACE = 3.0
    """How long servers give each other to come together after an election, in seconds."""

    WATCH = 0.5
    """How often a server looks whether its leader, or its majority, is still there, in seconds."""

    def __init__(
        self, rng: random.Random, voters: int, observers: int = 0, weather: Weather | None = None
    ) -> None:
        self.rng = rng
        self.weather = weather or Weather()
        self.voters = frozenset(range(1, voters + 1))
        self.servers = {name: Server(name) for name in range(1, voters + observers + 1)}
        self.quorum = quorum_size(voters)
        self.now = 0.0
        self.complaints: list[str] = []
        self.established: dict[int, int] = {}
        self._committed = (0, 0)
        self._cast: defaultdict[tuple[Vote, int], set[int]] = defaultdict(set)
        self._told_observers: defaultdict[tuple[Vote, int], set[int]] = defaultdict(set)
        self._settled: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self._led: set[int] = set()
        self._order = count()
        self._letters: list[tuple[float, int, int, Letter]] = []
        self._watch_due = self.WATCH
        self._crash_due = self._next_crash()

    # Starting and killing servers -----------------------------------------------------------------

    def start(self, *names: int) -> None:
        """Starts servers and has them look for a leader."""
        for name in names:
            server = self.servers[name]
            server.election = Election(name, self.voters)
            self._look(server)

    def kill(self, *names: int) -> None:
        for name in names:
            self.servers[name].election = None
            self.servers[name].is_established = False

    def run(self, until: float) -> None:
        while self.now < until:
            self._step(until)

    @property
    def up(self) -> list[Server]:
        return [server for server in self.servers.values() if server.election is not None]

    def agreed(self) -> int | None:
        """The leader that all servers that are up have, if they all have the same one."""
        leaders = {server.leader for server in self.up}
        leader = leaders.pop() if len(leaders) == 1 else None
        if leader is None:
            return None
        for server in self.up:
            want = Role.FOLLOWING if server.name in self.voters else Role.OBSERVING
            if server.role is not (Role.LEADING if server.name == leader else want):
                return None
        return leader

    # Time -----------------------------------------------------------------------------------------

    def _step(self, until: float) -> None:
        arrival = self._letters[0][0] if self._letters else inf
        deadline, name = min(
            (
                (server.election.deadline, server.name)
                for server in self.up
                if server.election is not None and server.election.deadline is not None
            ),
            default=(inf, 0),
        )
        due = min(arrival, deadline, self._watch_due, self._crash_due)
        if due > until:
            self.now = until
            return
        self.now = due
        if due == arrival:
            _, _, sender, letter = heappop(self._letters)
            server = self.servers[letter.to]
            if server.election is not None:
                was = server.election.role
                said = server.election.receive(self.now, sender, letter.notification)
                self._acted(server, was, said)
        elif due == deadline:
            server = self.servers[name]
            assert server.election is not None
            was = server.election.role
            self._acted(server, was, server.election.time_passed(self.now))
        elif due == self._watch_due:
            self._watch()
        else:
            self._crash()

    @property
    def _is_calm(self) -> bool:
        return self.now >= self.weather.until

    def _next_crash(self) -> float:
        rate = self.weather.crashes
        due = self.now + self.rng.expovariate(rate) if rate else inf
        return due if due < self.weather.until else inf

    def _crash(self) -> None:
        """Kills a server, or starts one again."""
        server = self.rng.choice(list(self.servers.values()))
        if server.election is None:
            self.start(server.name)
        else:
            self.kill(server.name)
        self._crash_due = self._next_crash()

    # The network ----------------------------------------------------------------------------------

    def _post(self, sender: int, letter: Letter) -> None:
        rng, weather = self.rng, self.weather
        copies = 1
        if not self._is_calm:
            copies = 0 if rng.random() < weather.loss else 1 + (rng.random() < weather.doubled)
        for _ in range(copies):
            delay = rng.uniform(0.0001, 0.01 if self._is_calm else weather.delay)
            entry = (self.now + delay, next(self._order), sender, letter)
            heappush(self._letters, entry)

    # The servers ----------------------------------------------------------------------------------

    def _look(self, server: Server) -> None:
        assert server.election is not None
        server.looks += 1
        server.is_established = False
        letters = server.election.look(self.now, epoch=server.epoch, zxid=server.zxid)
        self._acted(server, Role.LOOKING, letters)

    def _acted(self, server: Server, was: Role, letters: list[Letter]) -> None:
        election = server.election
        assert election is not None
        if was is Role.LOOKING and election.role is not Role.LOOKING:
            server.decided_at = self.now
            self._judge_decision(server, election)
        self._witness(server, election)
        for letter in letters:
            if server.name in self.voters and letter.to not in self.voters:
                # That may be whom they elected last: no vote that they would stand for.
                said = letter.notification
                self._told_observers[said.vote, said.round].add(server.name)
            self._post(server.name, letter)

    def _watch(self) -> None:
        """Each server sees whether what it was elected for holds; leaders write."""
        self._watch_due = self.now + self.WATCH
        for server in self.up:
            patience = server.decided_at + self.GRACE
            if server.role is Role.LEADING:
                self._lead(server, patience)
            elif server.role is not Role.LOOKING:
                assert server.leader is not None
                leader = self.servers[server.leader]
                is_over = server.is_established or self.now > patience
                if leader.role is not Role.LEADING and is_over:
                    self._look(server)

    def _lead(self, leader: Server, patience: float) -> None:
        followers = [
            server
            for server in self.up
            if server.role is Role.FOLLOWING and server.leader == leader.name
        ]
        if len(followers) + 1 < self.quorum:
            if self.now > patience or leader.is_established:
                self._look(leader)
            return
        if not leader.is_established and not self._establish(leader, followers):
            return
        for server in [*followers, *self._observers_of(leader)]:
            if not server.is_established and server.accepted <= leader.epoch:
                self._join(server, leader)
        self._write(leader, [server for server in followers if server.is_established])

    def _observers_of(self, leader: Server) -> list[Server]:
        return [
            server
            for server in self.up
            if server.role is Role.OBSERVING and server.leader == leader.name
        ]

    def _establish(self, leader: Server, followers: list[Server]) -> bool:
        """The leader and a majority accept a new epoch, if the leader is not behind anybody."""
        quorum = [leader, *self.rng.sample(followers, self.quorum - 1)]
        if any((s.epoch, s.zxid) > (leader.epoch, leader.zxid) for s in quorum):
            self._look(leader)
            return False
        epoch = max(server.accepted for server in quorum) + 1
        if epoch in self.established:
            self.complaints.append(f"epoch {epoch}: {self.established[epoch]} and {leader.name}")
        self.established[epoch] = leader.name
        if (leader.epoch, leader.zxid) < self._committed:
            self.complaints.append(f"{leader} leads without {self._committed}")
        leader.epoch = leader.accepted = epoch
        leader.is_established = True
        assert leader.election is not None
        leader.election.established(epoch)
        for server in quorum[1:]:
            self._join(server, leader)
        return True

    def _join(self, server: Server, leader: Server) -> None:
        assert server.election is not None
        server.epoch = server.accepted = leader.epoch
        server.zxid = leader.zxid
        server.is_established = True
        server.election.established(leader.epoch)
        self._witness(server, server.election)

    def _write(self, leader: Server, followers: list[Server]) -> None:
        if len(followers) + 1 < self.quorum:
            return
        zxid = max(leader.zxid, leader.epoch << COUNTER_BITS) + 1
        leader.zxid = zxid
        reached = self.rng.randint(self.quorum - 1, len(followers))
        for server in self.rng.sample(followers, reached):
            server.zxid = zxid
        self._committed = (leader.epoch, zxid)

    # The judge ------------------------------------------------------------------------------------

    def _witness(self, server: Server, election: Election) -> None:
        """Remembers what a server stands for, and that it does not go back on it."""
        if server.name not in self.voters:
            return
        if election.role is not Role.LOOKING:
            self._settled[election.vote.leader, election.vote.epoch].add(server.name)
            if election.role is Role.LEADING:
                self._led.add(server.name)
            return
        self._cast[election.vote, election.round].add(server.name)
        if election.vote < Vote(server.epoch, server.zxid, server.name):
            self.complaints.append(f"{server} is for {election.vote}, which knows less")
        mark = (server.looks, election.round, election.vote)
        if server.last_vote is not None and mark < server.last_vote:
            self.complaints.append(f"{server} goes back from {server.last_vote} to {mark}")
        server.last_vote = mark

    def _judge_decision(self, server: Server, election: Election) -> None:
        """A decision needs the real votes of a majority, and the leader's own."""
        vote = election.vote
        settled = self._settled[vote.leader, vote.epoch]
        cast = self._cast[vote, election.round]
        if server.name not in self.voters:
            cast = cast | self._told_observers[vote, election.round]
        backers = cast | settled
        if len(backers) < self.quorum:
            self.complaints.append(f"{server} decides for {vote} with {sorted(backers)} behind it")
        joins = len(cast) < self.quorum
        if joins and vote.leader not in {server.name, *self._led}:
            self.complaints.append(f"{server} joins {vote.leader}, which never led")
        if election.role is Role.LEADING and vote.leader != server.name:
            self.complaints.append(f"{server} leads for {vote}")


def notification(
    epoch: int, zxid: int, leader: int, in_round: int = 1, role: Role = Role.LOOKING
) -> Notification:
    """For tables."""
    return Notification(Vote(epoch, zxid, leader), in_round, role)
