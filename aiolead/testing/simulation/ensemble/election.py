"""Fast leader election: how the servers of an ensemble agree on one of them.

A kernel without I/O and without a clock. One `Election` belongs to one server; its owner passes in
events and carries out the results:

    election = Election(server=2, voters={1, 2, 3})
    letters = election.look(now, epoch=4, zxid=0x400000007)    # the server has no leader
    letters = election.receive(now, sender=3, notification)    # one came in from server 3
    letters = election.time_passed(now)                        # `election.deadline` is reached

* After every call: send each `Letter` of the list to the server `letter.to`, in this order. It may
  be lost or delivered twice. One that overtakes another costs time, never safety.
* After every call: have `time_passed` called when `election.deadline` comes, if it is not None.
  Calling it too early does nothing, calling it late does no harm.
* The election is over when a call leaves `election.role` other than LOOKING. Then the server leads
  (LEADING) or joins `election.leader` (FOLLOWING, or OBSERVING where it has no vote). The election
  goes on answering servers that look for a leader: keep passing notifications on.
* When the leader of the new epoch and this server agree on that epoch, say so: `established`.
* When the server has lost its leader, or the leader its majority, call `look` again, with the epoch
  and the zxid that the server has by then. It may be called at any time.
* A server that is killed loses its election: make a new one, with the same arguments.
* When a connection to a server is made again, send `election.last_sent(server)`, if there is one:
  this is how ZooKeeper replaces the letters that the old connection lost. Without it, the server
  gets the next repeated notification, up to a minute later.

The rules are those of ZooKeeper's `FastLeaderElection`. A vote names a server and how much it
knows: (epoch, zxid, server id), of which the greatest wins. Servers send each other their votes,
and adopt a better one when they receive it. A vote counts in its round only. A server that sees a
majority for its own vote waits for a moment, in case a better vote is under way, and acts on it.

That two servers never *believe* at the same time that they lead is not among the promises: a vote
that comes too late leaves one server with another leader than the rest. The promise is that a
leader knows at least as much as each of a majority did when it voted. That only one can lead is
decided after the election, when a majority accepts the new epoch from it and from nobody else.

Not modelled: weights and groups of servers, and members that change while the ensemble runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

__all__ = ["Election", "Letter", "Notification", "Role", "Vote", "quorum_size"]

FINALIZE_WAIT = 0.2
"""How long a server that sees a majority waits for a better vote, in seconds."""

FIRST_REPEAT = 0.2
"""After how much silence a server repeats its notification for the first time, in seconds."""

LAST_REPEAT = 60.0
"""The wait before a repetition doubles each time, up to this, in seconds."""


class Role(Enum):
    """The state of a server: it seeks a leader, or has one."""

    LOOKING = "looking"
    FOLLOWING = "following"
    LEADING = "leading"
    OBSERVING = "observing"


@dataclass(frozen=True, slots=True, order=True)
class Vote:
    """A server that is proposed as the leader, and what speaks for it.

    Votes are ordered: the greater one is better.

    Attributes:
        epoch: the last epoch in which that server was led or led.
        zxid: the last transaction in its log.
        leader: its id.
    """

    epoch: int
    zxid: int
    leader: int


NO_VOTE = Vote(-1, -1, -1)
"""The vote of a server that has none. It loses against every other."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A message of one server to another.

    Attributes:
        vote: its vote; of a server that is not LOOKING, the one that was decided.
        round: the round to which the vote belongs.
        role: the role of the sender.
    """

    vote: Vote
    round: int
    role: Role


@dataclass(frozen=True, slots=True)
class Letter:
    """A notification and the server that it is for."""

    to: int
    notification: Notification


def quorum_size(voters: int) -> int:
    """How many of so many voters are a majority."""
    return voters // 2 + 1


class Election:
    """One server's part in electing a leader. How to drive it is said at the top of the module.

    Args:
        server: this server's id.
        voters: the ids of all servers that vote. A server that is not among them observes.
        finalize_wait: see `FINALIZE_WAIT`, in seconds.
        first_repeat: see `FIRST_REPEAT`, in seconds.
        last_repeat: see `LAST_REPEAT`, in seconds.

    Attributes:
        server: this server's id.
        role: the role of this server. LOOKING from the start, but nothing happens before `look`.
        round: the logical clock. It counts elections since the server started.
        vote: while LOOKING the leader that is proposed, afterwards the one that was decided.
        deadline: when to call `time_passed`; None while nothing is waited for.
    """

    def __init__(
        self,
        server: int,
        voters: Iterable[int],
        *,
        finalize_wait: float = FINALIZE_WAIT,
        first_repeat: float = FIRST_REPEAT,
        last_repeat: float = LAST_REPEAT,
    ) -> None:
        self.server = server
        self.role: Role = Role.LOOKING
        self.round: int = 0
        self.vote: Vote = NO_VOTE
        self.deadline: float | None = None
        self._voters = frozenset(voters)
        self._peers = tuple(sorted(self._voters - {server}))
        self._quorum = quorum_size(len(self._voters))
        self._finalize_wait = finalize_wait
        self._first_repeat = first_repeat
        self._last_repeat = last_repeat
        self._own = NO_VOTE
        self._decided: Vote | None = None
        self._repeat = first_repeat
        self._is_finalizing = False
        # The votes of this round, and those of servers that have a leader, of any round.
        self._cast: dict[int, Notification] = {}
        self._settled: dict[int, Notification] = {}
        self._last_sent: dict[int, Notification] = {}

    @property
    def leader(self) -> int | None:
        """The server that was elected; None while this one is LOOKING."""
        return None if self.role is Role.LOOKING else self.vote.leader

    @property
    def votes(self) -> int:
        """How many servers this one knows to have its vote, itself included if it votes."""
        ours = Notification(self.vote, self.round, Role.LOOKING)
        cast = sum(_agree(ours, other) for other in self._cast.values())
        settled = sum(other.vote.leader == self.vote.leader for other in self._settled.values())
        return max(cast, settled)

    def look(self, now: float, *, epoch: int, zxid: int) -> list[Letter]:
        """Starts an election, and gives up one that is going on.

        Args:
            now: in seconds.
            epoch: the last epoch that this server took part in (ZooKeeper's `currentEpoch`).
            zxid: the last transaction in its log.

        Returns:
            What to send.
        """
        is_voter = self.server in self._voters
        self.role = Role.LOOKING
        self.round += 1
        self._own = Vote(epoch, zxid, self.server) if is_voter else NO_VOTE
        self._cast.clear()
        self._settled.clear()
        self._repeat = self._first_repeat
        letters = self._propose(self._own)
        self._count(now)
        return letters

    def receive(self, now: float, sender: int, notification: Notification) -> list[Letter]:
        """Takes a notification that came in.

        Args:
            now: in seconds.
            sender: the server that it is from.
            notification: its content.

        Returns:
            What to send.
        """
        if sender not in self._voters:
            return self._answer_observer(sender, notification)
        if self.role is not Role.LOOKING:
            return [self._letter(sender)] if notification.role is Role.LOOKING else []
        if self.round == 0:
            return []  # It has not begun to look; then it will ask for itself.
        letters = []
        if (
            notification.role is Role.LOOKING
            and notification.round < self.round
            and self.server in self._voters  # Nobody counts an observer's vote.
        ):
            letters.append(self._letter(sender))
        if self._is_finalizing and notification.vote <= self.vote:
            self.deadline = now + self._finalize_wait
            return letters
        self._wait(now)
        if notification.vote.leader in self._voters:
            if notification.role is Role.LOOKING:
                letters += self._hear_candidate(now, sender, notification)
            elif notification.role is not Role.OBSERVING:
                self._hear_settled(sender, notification)
        return letters

    def time_passed(self, now: float) -> list[Letter]:
        """Does what is due.

        Args:
            now: in seconds.

        Returns:
            What to send.
        """
        if self.deadline is None or now < self.deadline:
            return []
        if self._is_finalizing:
            self._decide(self.vote)
            return []
        self._repeat = min(self._repeat * 2, self._last_repeat)
        self._count(now)
        return self._to_all()

    def established(self, epoch: int) -> None:
        """Notes the epoch that the leader and a majority agreed on after the election.

        From then on this server names it when it is asked for the leader. Servers that come late
        count only those together that name the same epoch.

        Args:
            epoch: the leader's new epoch.
        """
        if self.role is not Role.LOOKING:
            self.vote = replace(self.vote, epoch=epoch)
            self._decided = self.vote

    def last_sent(self, to: int) -> Notification | None:
        """The newest notification for a server, to be repeated on a new connection.

        None if there was none yet.
        """
        return self._last_sent.get(to)

    # Input ----------------------------------------------------------------------------------------

    def _answer_observer(self, sender: int, notification: Notification) -> list[Letter]:
        """Send a server without a vote the last result, even while a new leader is sought."""
        if notification.role is not Role.LOOKING or self.server not in self._voters:
            return []
        vote = self._own if self._decided is None else self._decided
        return [self._letter(sender, vote)] if self.round else []

    def _hear_candidate(self, now: float, sender: int, notification: Notification) -> list[Letter]:
        letters: list[Letter] = []
        if notification.round < self.round:
            return letters
        if notification.round > self.round:
            self.round = notification.round
            self._cast.clear()
            letters = self._propose(max(notification.vote, self._own))
        elif notification.vote > self.vote:
            letters = self._propose(notification.vote)
        self._cast[sender] = notification
        self._count(now)
        return letters

    def _hear_settled(self, sender: int, notification: Notification) -> None:
        """Joins the leader that others have, if a majority has it and it says so itself."""
        if notification.round == self.round:
            self._cast[sender] = notification
            if self._is_backed(notification, self._cast):
                self._decide(notification.vote)
                return
        self._settled[sender] = notification
        if self._is_backed(notification, self._settled):
            self.round = notification.round
            self._decide(notification.vote)

    def _is_backed(self, claim: Notification, heard: Mapping[int, Notification]) -> bool:
        leader = claim.vote.leader
        if leader == self.server:
            # Only a server of that very round may learn from others that it leads.
            if claim.round != self.round:
                return False
        elif leader not in heard or heard[leader].role is not Role.LEADING:
            # The others may not know yet that it is gone, and would be believed again and again.
            return False
        return sum(_agree(claim, other) for other in heard.values()) >= self._quorum

    # Output ---------------------------------------------------------------------------------------

    def _propose(self, vote: Vote) -> list[Letter]:
        self.vote = vote
        if self.server in self._voters:
            self._cast[self.server] = Notification(vote, self.round, Role.LOOKING)
        return self._to_all()

    def _count(self, now: float) -> None:
        """Starts the last wait if a majority is for our vote; else waits for notifications."""
        ours = Notification(self.vote, self.round, Role.LOOKING)
        votes = sum(_agree(ours, other) for other in self._cast.values())
        self._wait(now, is_finalizing=votes >= self._quorum)

    def _wait(self, now: float, *, is_finalizing: bool = False) -> None:
        self._is_finalizing = is_finalizing
        self.deadline = now + (self._finalize_wait if is_finalizing else self._repeat)

    def _decide(self, vote: Vote) -> None:
        self.vote = self._decided = vote
        if vote.leader == self.server:
            self.role = Role.LEADING
        else:
            self.role = Role.FOLLOWING if self.server in self._voters else Role.OBSERVING
        self._is_finalizing = False
        self.deadline = None

    def _to_all(self) -> list[Letter]:
        return [self._letter(peer) for peer in self._peers]

    def _letter(self, to: int, vote: Vote | None = None) -> Letter:
        letter = Letter(to, Notification(vote or self.vote, self.round, self.role))
        self._last_sent[to] = letter.notification
        return letter


def _agree(one: Notification, other: Notification) -> bool:
    """Whether two notifications are for the same leader.

    Servers that have a leader may have elected it in different rounds, and may remember another
    zxid of it; but each epoch has one leader only.
    """
    if one.role is Role.LOOKING or other.role is Role.LOOKING:
        return one.vote == other.vote and one.round == other.round
    return (one.vote.leader, one.vote.epoch) == (other.vote.leader, other.vote.epoch)
