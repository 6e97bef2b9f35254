"""The events of a run: the vocabulary of histories.

Events are frozen values. Their fields are numbers, strings, booleans and None, and nothing else, so
that each can be written as one line of JSON and read back exactly. All times are seconds on one
clock: that of the simulation's world, or the monotonic clock of one machine.

*Who.* `contender` is the name of a task that wants to hold something. An event of a process or a
client (`Killed`, `Session`) has its name, and applies to all contenders of the same name and of
names that begin with it and a slash: `host1` is all of `host1/a` and `host1/b`.
"""

from __future__ import annotations

from dataclasses import dataclass

Value = str | int | float | bool | None
"""The values that fields may have."""

RESIGNED = "resigned"
"""Why of a `SteppedDown` that its holder wanted: the body goes on, but holds nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        at: when, in seconds.
    """

    at: float


# --- contenders --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OfContender(Event):
    """Something that a contender, a client or a process did, or that befell it.

    Attributes:
        contender: who.
    """

    contender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTurn(OfContender):
    """Something about one contender's turn in one line.

    Attributes:
        line: the contended path or resource.
    """

    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(OfTurn):
    """It wants to hold: the call begins.

    Attributes:
        timeout: for how long at most, in seconds; None for as long as it takes.
    """

    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(OfTurn):
    """Its task was cancelled from outside, whatever it was doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrew(OfTurn):
    """It does not want to hold any more, and never did: the call has ended.

    Attributes:
        why: `timeout`, `cancelled`, `error` or other words.
    """

    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(OfTurn):
    """It holds: the first statement of its body runs.

    Attributes:
        token: the fencing token.
        path: its znode, as the servers call it: with the chroot.
        session_id: the session that it believes to own the znode.
        mode: `read` or `write` where readers share and writers do not; else empty.
        permits: how many of the places it takes.
        stubborn: whether its body is one that goes on although it was cancelled. Then the time of
            the notification counts, not the time of the end.
    """

    token: int
    path: str = ""
    session_id: int = 0
    mode: str = ""
    permits: int = 1
    stubborn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedDown(OfTurn):
    """The loss was signalled to its body, or found by it through the clock.

    Attributes:
        token: of the hold that is lost.
        why: the value of a `LossReason`; `RESIGNED` if its holder gave it up before the body ended.
    """

    token: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(OfTurn):
    """The last statement of its body has run, whether it wanted to leave or had to."""

    token: int
    was_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(OfTurn):
    """It asked the tenure, in this very moment, whether it is held."""

    token: int
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Peeked(OfTurn):
    """Another thread of its process, or a forked child of that, asked whether it holds.

    Attributes:
        token: of the hold.
        where: `thread` or `child`.
        call: the name of the read.
        held: the answer.
        remaining: for how many seconds it says that it surely holds, if the call says so.
        error: the name of an exception that the read raised; empty if it answered.
    """

    token: int
    where: str
    call: str = ""
    held: bool = False
    remaining: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackAdded(OfTurn):
    """It wants a callback to be called if it loses this hold."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackCalled(OfTurn):
    """That callback was called."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted(OfTurn):
    """It did something that only the holder may do.

    Attributes:
        token: the token that it presented to the resource.
        what: in words.
        resource: to what; by default to something that belongs to the line.
        accepted: False if the resource refused, since it had seen a greater token.
    """

    token: int
    what: str = ""
    resource: str = ""
    accepted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(OfTurn):
    """An operator took its hold away, before the time that the servers had promised.

    No holder can know of that in time. So its hold ends here, as one ends with its process.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(OfContender):
    """It read a register, or a znode.

    Attributes:
        key: which.
        value: its content.
        token: the token that it presented to the register; 0 for none.
        zxid: of the transaction that wrote what was read, for znodes; -1 if that is not known.
    """

    key: str
    value: Value
    token: int = 0
    zxid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote(OfContender):
    """It wrote a register, in the instant in which the register took it.

    Attributes:
        accepted: False if the register refused, since it had seen a greater token.
    """

    key: str
    value: Value
    token: int = 0
    accepted: bool = True


# --- clients and processes ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(OfContender):
    """A client told one of its listeners of a state of its session.

    Attributes:
        state: the value of a `SessionState`.
        session_id: which; 0 for none.
    """

    state: str
    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(OfContender):
    """A call began.

    Attributes:
        call: its name; one at a time for each name and contender.
        within: how long it may take at most, in seconds; None for as long as it takes.
    """

    call: str
    within: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(OfContender):
    """The call returned, or raised.

    Attributes:
        error: the name of what it raised; empty if it returned.
    """

    call: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(OfContender):
    """A process has died, of a signal or by itself: reported once that is certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived(OfContender):
    """A thread of a process ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedByGuardian(OfContender):
    """The session guardian of a process has closed the session of that process.

    Attributes:
        session_id: the session.
    """

    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(OfContender):
    """A process does not run from now on, as after SIGSTOP or in a call that blocks its loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued(OfContender):
    """A stopped process runs again."""


# --- faults ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBegan(Event):
    """Something was broken on purpose.

    Attributes:
        kind: the type of the resource, in a word.
        target: where.
        severe: whether it may cost sessions or holds however short it is, such as an operator's
            order, or a fault in a place that the promise of sessions rests on.
    """

    kind: str
    target: str = ""
    severe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnded(Event):
    """... and mended: the last fault of that kind and target."""

    kind: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed(Event):
    """From now on nothing is broken any more: progress is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile(Event):
    """A session belongs to a writer that forges znodes, and deletes znodes of other sessions.

    Its znodes are no contender's, whatever their names are.

    Attributes:
        session_id: which.
    """

    session_id: int


# --- what the servers know ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCreated(Event):
    """The first of the servers applied the transaction that creates a znode.

    Attributes:
        path: with the chroot.
        czxid: the transaction.
        owner: the session that owns it if it is ephemeral; else 0.
    """

    path: str
    czxid: int
    owner: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeleted(Event):
    """The first of the servers applied the transaction that deletes a znode.

    Nobody can learn of the deletion earlier than that.

    Attributes:
        zxid: the transaction.
        owner: the session that owned it; 0 for none.
        by: the session that asked for it, by a delete or by closing itself; 0 if the servers did
            it, since the owner had expired.
        was_changed: whether the owner had changed its data, which is how a client begins to delete
            a znode at a path that others use.
    """

    path: str
    zxid: int
    owner: int = 0
    by: int = 0
    was_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """The servers made a session.

    Attributes:
        timeout: the agreed session timeout, in seconds.
    """

    session_id: int
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOver(Event):
    """The servers ended a session.

    Attributes:
        why: `expired`, `closed` or other words.
    """

    session_id: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged(Event):
    """The ensemble has another leader.

    Attributes:
        leader: which server; empty from when there is none until there is one again.
        epoch: its epoch.
    """

    leader: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified(Event):
    """A watch notified a session that a znode is gone.

    Attributes:
        path: of the watched znode, with the chroot.
        session_id: the notified session.
    """

    path: str
    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested(Event):
    """The servers have counted the requests of a session, for a while.

    Attributes:
        session_id: the session.
        count: how many requests, connections included.
        changes: how often there was something new for it: znodes that were created, changed or
            deleted since the while before, sessions that began or ended, its own connections.
        since: when the while began.
        seconds: how long it was.
    """

    session_id: int
    count: int
    changes: int
    since: float
    seconds: float


# --- the run itself ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover(Event):
    """Something that was still there at the end, when nothing should have been.

    Attributes:
        kind: `tasks`, `znodes`, `watches`, `sessions`, `connections`, or any other word.
        count: how many; 0 says that this was looked at and found to be well.
        what: some of them, in words.
    """

    kind: str
    count: int
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Event):
    """How many of something there are, in a moment in which nothing goes on: it must not grow."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Event):
    """The library, or the event loop, wrote to a log.

    Attributes:
        level: `ERROR` and so on, as `logging` calls it.
    """

    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Event):
    """A rare situation was reached that the other events do not show.

    Attributes:
        what: in words, always the same for the same situation.
    """

    what: str
