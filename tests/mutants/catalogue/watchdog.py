"""Bugs of the hard stop, and of clocks that stop while the machine is suspended.

The simulation has no threads and cannot be suspended: tests have to see these.
"""

from __future__ import annotations

from ..model import Change, Mutant

OVERDUE = ("tests/unit/session/test_session_overdue.py",)
GUARD = ("tests/unit/client/test_client_watchdog_thread.py",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        number="81",
        name="too-late-for-the-reserve",
        wrong="The watchdog acts when the role may be given away, not a reserve before.",
        changes=(Change("_session/lease/overdue.py", "if at - reserve <= now:", "if at <= now:"),),
        tests=OVERDUE,
        simulated=False,
    ),
    Mutant(
        number="82",
        name="renewals-do-not-move-the-stop",
        wrong="The watchdog does not hear of renewals: it ends a process in good health.",
        changes=(
            Change(
                "_session/machine.py",
                "if leases.observer is not None:\n    leases.observer.proof_moved()\n",
                "",
            ),
        ),
        tests=OVERDUE,
        simulated=False,
    ),
    Mutant(
        number="83",
        name="lost-holds-follow-the-lease",
        wrong="The time of a hold that was lost moves with the lease of the others.",
        changes=(
            Change(
                "_session/lease/overdue.py",
                "replace(self._holds[held], reason=reason, given_away_at=at)",
                "replace(self._holds[held], reason=reason)",
            ),
        ),
        tests=OVERDUE,
        simulated=False,
    ),
    Mutant(
        number="84",
        name="losses-wake-nobody",
        wrong="A loss that leaves less time than the lease did is slept over.",
        changes=(Change("_session/lease/overdue.py", "self._look_by(at - self.reserve)", "pass"),),
        tests=(*OVERDUE, *GUARD),
        simulated=False,
    ),
    Mutant(
        number="85",
        name="released-holds-are-watched",
        wrong="The watchdog does not hear that a hold was released.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "if self._book.observer is not None:\n    self._book.observer.ended(self)\n",
                "",
            ),
        ),
        tests=OVERDUE,
        simulated=False,
    ),
    Mutant(
        number="86",
        name="watchdog-sleeps-through-a-suspension",
        wrong="The watchdog sleeps by a clock that stops while the machine is suspended.",
        changes=(
            Change("_client/watchdog.py", "else min(seconds, LONGEST_SLEEP)", "else seconds"),
        ),
        tests=GUARD,
        simulated=False,
    ),
    Mutant(
        number="87",
        name="broken-hooks-save-the-process",
        wrong="A hook that raises, or never returns, has the last word.",
        changes=(Change("_client/watchdog.py", "if problem is not None:", "if False:"),),
        tests=GUARD,
        simulated=False,
    ),
    Mutant(
        number="88",
        name="watchdog-ends-with-the-client",
        wrong="The watchdog of a client that was closed does not wait for bodies that go on.",
        changes=(
            Change("_client/watchdog.py", "if due == inf and self._closed:", "if self._closed:"),
        ),
        tests=GUARD,
        simulated=False,
    ),
    Mutant(
        number="89",
        name="ends-in-good-order",
        wrong="The process is ended by an exception in the watchdog's thread.",
        changes=(Change("_client/watchdog.py", "os._exit(EXIT_CODE)", "sys.exit(EXIT_CODE)"),),
        tests=("tests/client/test_watchdog.py", "-k", "nobody_has_to_read"),
        simulated=False,
    ),
    Mutant(
        number="90",
        name="stacks-to-a-full-pipe",
        wrong="The stacks are written to what may be full, while no other thread can run.",
        changes=(Change("_client/watchdog.py", "os.set_blocking(sink, False)", "pass"),),
        tests=("tests/client/test_watchdog.py", "-k", "stacks_of_any_length"),
        simulated=False,
    ),
    Mutant(
        number="91",
        name="late-answers-revive-a-lease",
        wrong="An answer that is found after the end of a lease, but before anybody has looked at "
        "the time, extends it.",
        changes=(
            Change(
                "_session/machine.py",
                "self.leases.expire(now)  # before an answer comes that is too late for a lease",
                "pass",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py", "-k", "revive"),
        note="The session lives, so nobody else has entered: only `is_held` contradicts itself.",
    ),
    Mutant(
        number="92",
        name="holders-sleep-through-a-suspension",
        wrong="A holder is told of the end of its lease by a clock that stops while the machine is "
        "suspended.",
        changes=(
            Change(
                "_client/net/supervisor.py",
                "LONGEST_SLEEP if machine.leases.is_held else inf",
                "inf",
            ),
        ),
        tests=("tests/client/test_suspended.py", "-k", "trio"),
        simulated=False,
    ),
    Mutant(
        number="93",
        name="keepers-sleep-through-a-suspension",
        wrong="So does the keeper of a command.",
        changes=(
            Change(
                "cli/process_keeper.py",
                "int(min(due - clock(), LONGEST_SLEEP) * 1000) + 1",
                "int((due - clock()) * 1000) + 1",
            ),
        ),
        tests=("tests/cli/test_loss.py", "-k", "suspended"),
        simulated=False,
    ),
)
