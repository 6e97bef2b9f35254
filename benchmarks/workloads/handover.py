"""From one holder to the next."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiolead.testing.launch import wait_until

from ..driver import PATIENCE, PeerFailedError
from ..peers.interface import Kind
from ..peers.registry import PeerKind
from ..site import Traffic
from .model import (
    ALONE,
    COUNTED,
    ON_THE_PAGE,
    WITHOUT_FSYNC,
    Column,
    Take,
    Values,
    Workload,
    everybody,
    warm,
)

_HOLD = 0.01
"""How long everybody holds it, in seconds: longer than a round trip, as most work is."""

_DELAYED = ("standalone+delay",)
_PATIENCE = 60.0
"""How long it may take until all have joined the queue, in seconds."""

_RENEWED = 0.1
"""Holds of aiolead are renewed once they have lasted so long, in seconds."""

_SETTLES = 1.5 * _RENEWED
"""How long the first one holds it at least, in seconds, so that its renewal is never counted."""

_MOST_KEPT = 500
"""How many latencies of a sample are kept, for the distribution."""


def hand_over(
    contenders: int, kind: Kind = "lock", processes: int = 1, hold: float = _HOLD
) -> Callable[[Take], Values]:
    def measure(take: Take) -> Values:
        path = take.site.make()
        each = max(take.size // contenders, 3)
        drivers = [take.driver, *(take.another() for _ in range(processes - 1))]
        with ExitStack() as stack, ThreadPoolExecutor(processes) as threads:
            for driver in drivers:
                stack.enter_context(driver.clients(take.site.hosts, contenders // processes))

            gate = Path(stack.enter_context(TemporaryDirectory(prefix="benchmarks-"))) / "gate"

            def turns_of(each: int) -> tuple[list[Any], Traffic]:
                words = {"kind": kind, "path": path, "each": each, "hold": hold, "gate": gate}
                nodes = take.site.glance().nodes
                # On a busy machine, others may still be joining when the first one leaves, and ask
                # for more, or less, than in a full line: so it does not leave before they have.
                gate.touch()
                try:
                    told = [
                        threads.submit(driver.call, "turns", PATIENCE, **words)
                        for driver in drivers
                    ]
                    if not wait_until(
                        lambda: (
                            take.site.glance().nodes >= nodes + contenders
                            or any(future.done() for future in told)  # it has failed
                        ),
                        _PATIENCE,
                    ):
                        raise PeerFailedError(f"turns: not in the queue within {_PATIENCE:g} s")
                    time.sleep(_SETTLES)
                    before = take.site.settled()
                finally:
                    gate.unlink()
                return [future.result() for future in told], take.site.settled() - before

            # Counted from when all have joined: the last turns of each, for which nobody joins any
            # more, are counted by themselves and taken off. The rest are turns in a full queue.
            finale, last = turns_of(1)
            answers, traffic = turns_of(each)
        turns = sorted(tuple(turn) for answer in answers for turn in answer["turns"])
        if len(turns) != each * contenders:
            raise PeerFailedError(f"turns: {len(turns)} of {each * contenders}")
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(turns)]
        if min(gaps) < 0:
            raise PeerFailedError(f"turns: two holders at once, for {-min(gaps) / 1e6:.3f} ms")
        # Only while the queue is full: not the first turn of each, and not the last one.
        latencies = sorted(gap / 1e9 for gap in gaps[contenders:-contenders])
        quantiles = statistics.quantiles(latencies, n=100, method="inclusive")
        return {
            "latency": statistics.median(latencies),
            "p90": quantiles[89],
            "p99": quantiles[98],
            "latencies": latencies[:: len(latencies) // _MOST_KEPT + 1],
            # On a machine that is too busy: holds that were renewed, which is counted, too.
            "overlong": sum(
                left - had > _RENEWED * 1e9
                for answer in (*answers, *finale)
                for had, left in answer["turns"]
            )
            - 2,  # but for those at the gate
            "cpu": sum(answer["cpu"] for answer in answers) / len(turns),
            **(traffic - last).each(len(turns) - contenders),
        }

    return measure


_COLUMNS = (
    Column("latency", "median, ms", 2, "less", 1000),
    Column("p90", "p90, ms", 2, "less", 1000),
    Column("p99", "p99, ms", 2, "less", 1000),
    Column("cpu", "client CPU, ms per turn", 2, "less", 1000),
    *COUNTED,
)

_HOW = (
    "Clients with a session each, in one process, contend for the same thing; a holder holds "
    f"it for {_HOLD * 1000:g} ms, and joins again. The time is that from the holder's "
    "beginning to give it back until the next one has it; the counts are those of a whole turn: "
    "joining the queue, waiting, holding, giving back, while all others are in the queue."
)


def _workload(
    name: str,
    title: str,
    measure: Callable[[Take], Values],
    *,
    about: str = _HOW,
    settings: tuple[str, ...] = WITHOUT_FSYNC,
    quick: tuple[str, ...] = (),
    turns: int = 100,
    peers: Callable[[PeerKind], bool] = everybody,
    is_of_loops: bool = False,
    most_rounds: int = 99,
) -> Workload:
    return Workload(
        name,
        title,
        about,
        measure,
        _COLUMNS,
        {"full": turns, "quick": 100, "tiny": 12},
        settings,
        quick_settings=quick,
        peers=peers,
        is_of_loops=is_of_loops,
        seconds=turns * 0.014,
        most_rounds=most_rounds,
    )


WORKLOADS = (
    _workload(
        "handover-2",
        "Hand-over, 2 contenders",
        hand_over(2),
        settings=ON_THE_PAGE,
        most_rounds=1,
    ),
    _workload(
        "handover-10",
        "Hand-over, 10 contenders",
        hand_over(10),
        about="The same with ten.",
        quick=_DELAYED,
        is_of_loops=True,
    ),
    _workload(
        "handover-50",
        "Hand-over, 50 contenders",
        hand_over(50),
        about="The same with fifty.",
        settings=ON_THE_PAGE,
        turns=200,
        most_rounds=1,
    ),
    _workload(
        "handover-10-in-2",
        "Hand-over, 10 contenders in 2 processes",
        hand_over(10, processes=2),
        about="The same with ten in two processes, five in each.",
        settings=ON_THE_PAGE,
        peers=warm,
        most_rounds=1,
    ),
    _workload(
        "handover-10-back-to-back",
        "Hand-over, 10 contenders that hold it for no time",
        hand_over(10, hold=0.0),
        about="The same with ten, but a holder gives it back at once: nothing can be "
        "prepared while the holder before holds.",
        settings=ON_THE_PAGE,
        peers=warm,
        most_rounds=1,
    ),
    _workload(
        "election-3",
        "Hand-over of an election, 3 contenders",
        hand_over(3, kind="election"),
        about="The same with three and elections; Curator by its `LeaderSelector`.",
        settings=ON_THE_PAGE,
        most_rounds=1,
    ),
    _workload(
        "election-3-latch",
        "Hand-over of Curator's other election",
        hand_over(3, kind="latch"),
        about="Curator by its `LeaderLatch`, one for each turn.",
        settings=ALONE,
        peers=lambda kind: kind.library == "curator" and not kind.is_cold,
    ),
)
