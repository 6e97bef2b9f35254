"""The invariants of every history: pure functions of the events.

    wrong = violations(history.events, Bounds(session_timeout=4.0))
    assert wrong == []

Each invariant has a name and a function `(events, bounds) -> list[Violation]`. They know nothing of
the library: only what its users were promised. An invariant is only checked if the history has its
events: I4, I6, I10 and the margins of I2 need the servers' (`NodeCreated`, `NodeDeleted`), I5 and
I7 the clients' (`Session`), I13 the faults.

| name | what | function |
|---|---|---|
| I1 | one holder (or as many as there are places; no writer with anybody) | `one_holder` |
| I2 | every body has ended before the servers delete its znode | `stop_before_expiry`, `margins` |
| I3 | fencing tokens rise; a resource that goes by them refuses the right ones | `fencing` |
| I4 | a contender that enters was in front, with a znode of its own session | `truthful_return` |
| I5 | nothing of an old session counts as held | `no_zombie` |
| I6 | no znode outlives its turn, none is made twice | `exactly_once` |
| I7 | another session only after the old one was said to have expired | `session_continuity` |
| I8 | nobody reads an older state after a newer one | `monotonic_reads` |
| I9 | no free place while somebody waits, and all are served | `progress` |
| I10 | first come, first served | `first_come_first_served` |
| I11 | calls with a limit end within it | `bounded_calls` |
| I12 | a cancelled call ends soon and leaves nothing behind | `leaves_nothing` |
| I13 | nothing is lost while no fault lasts | `no_false_alarm` |
| I14 | a departure wakes few | `no_herd` |
| I15 | nothing is left at the end | `nothing_left` |
| I16 | nothing grows | `no_growth` |
| I18 | nothing is logged as an error | `no_errors_logged` |
| I19 | a loss is signalled once, and before the next hold | `told_once` |
| I21 | the znode of a contender that has left goes while its session lives | `released_in_time` |
| I22 | a guardian closes the session of a process after its last thread | `closed_after_death` |
| I23 | a body whose lease runs out has time to stop, however many are cancelled | `told_in_time` |
| I24 | other threads never see a hold that is over, forked children none | `truthful_elsewhere` |
| I25 | a hold that anybody knows to be lost ends, and calls back | `ends_when_lost` |
| I26 | a held znode is the session's own, and only that session deletes it | `own_znodes` |
| I27 | no session repeats requests while nothing changes | `paced` |
| lock-set | no update under a lock is lost | `lock_set` |

I17 (no processor time while waiting) is no matter of histories: `tests/client/test_leases.py`.
I20 (the same seed gives the same trace) compares the `History.digest()` of two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from ..history.events import Event
from .bounds import REQUESTS as REQUESTS
from .bounds import REQUESTS_PER_CHANGE as REQUESTS_PER_CHANGE
from .bounds import Bounds as Bounds
from .bounds import Margin as Margin
from .bounds import Violation as Violation
from .holding import fencing as fencing
from .holding import lock_set as lock_set
from .holding import margins as margins
from .holding import one_holder as one_holder
from .holding import stop_before_expiry as stop_before_expiry
from .holding import told_in_time as told_in_time
from .holding import truthful_return as truthful_return
from .intruding import ends_when_lost as ends_when_lost
from .intruding import own_znodes as own_znodes
from .intruding import truthful_elsewhere as truthful_elsewhere
from .liveness import bounded_calls as bounded_calls
from .liveness import first_come_first_served as first_come_first_served
from .liveness import no_false_alarm as no_false_alarm
from .liveness import no_herd as no_herd
from .liveness import progress as progress
from .reading import Node as Node
from .reading import Reading as Reading
from .reading import Turn as Turn
from .resources import no_errors_logged as no_errors_logged
from .resources import no_growth as no_growth
from .resources import nothing_left as nothing_left
from .resources import paced as paced
from .resources import told_once as told_once
from .sessions import closed_after_death as closed_after_death
from .sessions import exactly_once as exactly_once
from .sessions import leaves_nothing as leaves_nothing
from .sessions import monotonic_reads as monotonic_reads
from .sessions import no_zombie as no_zombie
from .sessions import released_in_time as released_in_time
from .sessions import session_continuity as session_continuity
from .situations import REPORTED as REPORTED
from .situations import SITUATIONS as SITUATIONS
from .situations import sometimes as sometimes

Check = Callable[[Iterable[Event] | Reading, Bounds], list[Violation]]

INVARIANTS: Mapping[str, Check] = MappingProxyType(
    {
        "I1": one_holder,
        "I2": stop_before_expiry,
        "I3": fencing,
        "I4": truthful_return,
        "I5": no_zombie,
        "I6": exactly_once,
        "I7": session_continuity,
        "I8": monotonic_reads,
        "I9": progress,
        "I10": first_come_first_served,
        "I11": bounded_calls,
        "I12": leaves_nothing,
        "I13": no_false_alarm,
        "I14": no_herd,
        "I15": nothing_left,
        "I16": no_growth,
        "I18": no_errors_logged,
        "I19": told_once,
        "I21": released_in_time,
        "I22": closed_after_death,
        "I23": told_in_time,
        "I24": truthful_elsewhere,
        "I25": ends_when_lost,
        "I26": own_znodes,
        "I27": paced,
        "lock-set": lock_set,
    }
)
"""All checks, by the names of what they check."""


def violations(
    events: Iterable[Event] | Reading,
    bounds: Bounds | None = None,
    *,
    skip: Collection[str] = (),
) -> list[Violation]:
    """Everything that is wrong with a history, in the order of time.

    Args:
        events: in the order in which they happened. A `Reading` of them, where other questions are
            asked about them too: it saves reading them again.
        bounds: how long things may take; the defaults are those of a session timeout of 10 s.
        skip: the names of invariants that are not asked for.
    """
    reading = Reading.of(events)
    limits = bounds or Bounds()
    wrong = [
        violation
        for name, check in INVARIANTS.items()
        if name not in skip
        for violation in check(reading, limits)
    ]
    return sorted(wrong, key=lambda violation: violation.at)
