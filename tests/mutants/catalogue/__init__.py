"""All planted bugs, by what they break. The numbers are those of docs/reports/planted-bugs.md."""

from __future__ import annotations

from ..model import Absent, Mutant
from . import (
    command,
    containment,
    guardian,
    lease,
    limits,
    liveness,
    locks,
    membership,
    ownership,
    pending_deletes,
    queues,
    recipes,
    resources,
    secrets,
    session,
    shared,
    simulator,
    threads,
    values,
    watchdog,
    watches,
)

MUTANTS: tuple[Mutant, ...] = (
    *lease.MUTANTS,
    *session.MUTANTS,
    *recipes.MUTANTS,
    *pending_deletes.MUTANTS,
    *ownership.MUTANTS,
    *watches.MUTANTS,
    *liveness.MUTANTS,
    *resources.MUTANTS,
    *limits.MUTANTS,
    *watchdog.MUTANTS,
    *shared.MUTANTS,
    *locks.MUTANTS,
    *simulator.MUTANTS,
    *values.MUTANTS,
    *queues.MUTANTS,
    *membership.MUTANTS,
    *threads.MUTANTS,
    *secrets.MUTANTS,
    *command.MUTANTS,
    *containment.MUTANTS,
    *guardian.MUTANTS,
)

ABSENT: tuple[Absent, ...] = (
    Absent(
        "27",
        "The step-down callback runs before the hold counts as over",
        "Users have no such callback: losing cancels a scope, and no code of theirs runs before "
        "the loss is recorded. What is left of it is `loss-not-recorded`.",
    ),
    Absent(
        "56",
        "The table of pending requests grows with each cancelled one",
        "There is no table: requests are answered in order, and a cancelled one keeps its place "
        "until its answer comes. What can leak are its callbacks and watches: `arming-never-ends`.",
    ),
)


def by_name(name: str) -> Mutant:
    """The mutant of a name.

    Raises:
        KeyError: there is none.
    """
    return {mutant.name: mutant for mutant in MUTANTS}[name]
