"""The way to a session, and back to it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ..driver import SESSION_TIMEOUT
from ..forwarder import Forwarder
from .model import ALONE, Column, Take, Values, Workload, warm

_SESSION_TIMEOUT = 6.0
"""For what is cut: some notice it only after that."""

_PATIENCE = 20.0


def connect(take: Take) -> Values:
    where = {"hosts": take.site.hosts, "timeout": SESSION_TIMEOUT}
    samples = take.driver.call("connects", count=take.size, **where)["samples"]
    return {"connect": statistics.median(samples), "worst": max(samples)}


def recover(how: str) -> Callable[[Take], Values]:
    def measure(take: Take) -> Values:
        samples, attempts = [], 0
        with (
            Forwarder(take.site.direct) as forwarder,
            take.driver.clients(forwarder.hosts, timeout=_SESSION_TIMEOUT),
        ):
            for _ in range(take.size):
                time.sleep(0.2)
                cut = forwarder.tell(how)
                answer = take.driver.call("recover", _PATIENCE + 10, within=_PATIENCE)
                samples.append((answer["usable"] - cut) / 1e9)
                attempts += answer["attempts"]
        return {
            "usable": statistics.median(samples),
            "worst": max(samples),
            "attempts": attempts / take.size,
        }

    return measure


_COLUMNS = (
    Column("usable", "median, ms", 1, "less", 1000),
    Column("worst", "worst, ms", 1, "less", 1000),
    Column("attempts", "attempts", 1),
)

_HOW = (
    "The connection of a client that does nothing is ended by {}; from then on it tries to read, "
    "again and again, until there is an answer. It connects to one server, through a forwarder."
)

WORKLOADS = (
    Workload(
        "connect",
        "Connect and first operation",
        "From nothing to the answer to `exists`; the session is closed each time, which does not "
        "count. Of `curator-cold`, it is the first one of the process.",
        connect,
        (
            Column("connect", "median, ms", 2, "less", 1000),
            Column("worst", "worst, ms", 2, "less", 1000),
        ),
        {"full": 30, "quick": 10, "tiny": 2},
        settings=("standalone", "standalone+delay", "ensemble", "ensemble+delay"),
        quick_settings=("standalone+delay",),
        is_of_loops=True,
        seconds=0.6,
    ),
    *(
        Workload(
            f"recover-{how}",
            f"Usable again after {word}",
            _HOW.format(what),
            recover(how),
            _COLUMNS,
            {"full": 3, "quick": 1, "tiny": 1},
            settings=ALONE,
            quick_settings=ALONE,
            peers=warm,
            is_of_loops=True,
            is_warmed=False,
            seconds=1.2,
            slow={"aiozk": 18.0, "curator": 6.5, "go": 4.0},
        )
        for how, word, what in (
            ("reset", "RST", "a reset (RST)"),
            ("fin", "FIN", "a close in good order (FIN)"),
        )
    ),
)
