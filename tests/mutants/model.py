"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in the source.

    Where neither text has more than one line, `old` is any part of a line. Otherwise both are
    blocks of whole lines, written without the indentation that they have in the file.

    Attributes:
        file: which one, from the package's root.
        old: what stands there; exactly once.
        new: what stands there instead.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Aim:
    """What has to go wrong for a bug to show. See `aim.aimed`.

    Attributes:
        faults: one of each of these kinds, which begin at about the same time. None at all for
            schedules as the seeds mean them.
        least: how long they last at least, in session timeouts.
        spread: within how much time they begin, in session timeouts.
        groups: how many times that is done.
        target: to whom, `holder` or `waiter`, or to its server; to somebody unless given.
        waits: whether they may wait for somebody to enter or to leave.
        tick: the servers' tick time, in session timeouts; as the seed means unless given.
        sync_limit: the servers', in ticks; likewise.
        grace_period: how long bodies may take to stop, in session timeouts; likewise.
    """

    faults: tuple[tuple[str, ...], ...] = ()
    least: float = 0.0
    spread: float = 0.03
    groups: int = 2
    target: str = ""
    waits: bool = True
    tick: float = 0.0
    sync_limit: int = 0
    grace_period: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        number: of the failure that it stands for; variants of one have letters.
        name: what the command calls it.
        wrong: what is wrong, in a sentence.
        seen_in: where that was found, if it is known.
        changes: how it is planted.
        aim: which faults bring it out.
        tests: those that see it, as arguments of pytest, where a simulation does not.
        note: what is to be said about the result, above all if the simulation does not see it.
        simulated: whether the simulation can see it; it has neither threads nor a real clock, and
            cannot be the judge of its own servers.
    """

    number: str
    name: str
    wrong: str
    seen_in: str = ""
    changes: tuple[Change, ...]
    aim: Aim = Aim()
    tests: tuple[str, ...] = ()
    note: str = ""
    simulated: bool = True


@dataclass(frozen=True, slots=True)
class Absent:
    """A failure of the list that our architecture has no place for.

    Attributes:
        number: of the failure.
        failure: what it is.
        why: why it cannot be planted.
    """

    number: str
    failure: str
    why: str
