"""The parts of a planted bug."""

from __future__ import annotations

from dataclasses import dataclass


class StaleMutantError(Exception):
    """A bug cannot be planted any more: the code that it changes is another one."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in a named function. See `edit` for how the code is found.

    Attributes:
        where: `module:qualified.name`, the module without the package's name. The name may also be
            that of a class, or of a constant of a module or class. If the module does not define
            it, the only module that does is meant: it has moved.
        old: the code: an expression, statements that follow each other, or the head of an `if`,
            a loop or a `with` (with its colon). It is there exactly once.
        new: the code that replaces it. Empty for statements that are taken out.
    """

    where: str
    old: str
    new: str

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    @property
    def qualname(self) -> str:
        return self.where.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Aim:
    """The faults that a bug needs to show. See `aim.aimed`.

    Attributes:
        faults: one of each of these kinds, which begin at about the same time. None at all for
            schedules as the seeds mean them.
        least: how long they last at least, in session timeouts.
        spread: within how much time they begin, in session timeouts.
        groups: how many times that is done.
        target: to whom, `holder` or `waiter`, or to its server; by default to anybody.
        waits: whether they may wait for a contender to enter or to leave.
        tick: the servers' tick time, in session timeouts; by default as the seed means.
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

    Why it is kept: the promise at the top of its file in the catalogue, and `seen_in`.

    Attributes:
        name: its name in the command.
        wrong: the bug, in a sentence.
        seen_in: the library that had this bug, if it is known.
        changes: how it is planted.
        tests: files with tests that see it, the quickest first.
        simulated: whether the simulation sees it, too.
        aim: which faults bring it out there.
        note: a remark about the result.
    """

    name: str
    wrong: str
    seen_in: str = ""
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    simulated: bool = False
    aim: Aim = Aim()
    note: str = ""
