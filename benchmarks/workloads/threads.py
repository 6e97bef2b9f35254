"""One client for many threads."""

from __future__ import annotations

from collections.abc import Callable

from ..peers.registry import PeerKind
from .model import ALONE, ONCE, Column, Take, Values, Workload

COUNTS = (1, 2, 4, 8, 16, 32)


def _in_threads(op: str, count: int) -> Callable[[Take], Values]:
    def measure(take: Take) -> Values:
        path = take.site.make(*map(str, range(count)))
        each = max(take.size // count, 1)
        with take.driver.clients(take.site.hosts):
            words = {"op": op, "path": path, "threads": count}
            take.driver.call("threads", each=max(each // 10, 1), **words)
            answer = take.driver.call("threads", each=each, **words)
        done = count * each
        return {"per_second": done / answer["seconds"], "cpu": answer["cpu"] / done}

    return measure


def _has_threads(kind: PeerKind) -> bool:
    return kind.loop == "threads" and kind.library in ("aiolead", "kazoo")


def _workload(op: str, count: int, size: int) -> Workload:
    what = "Reads" if op == "gets" else "Cycles of an uncontended lock"
    return Workload(
        f"threads-{op}-{count}",
        f"{what} in {count} threads" if count > 1 else f"{what} in a thread",
        f"One client, and {count} threads that use it: `aiolead.blocking` beside kazoo.",
        _in_threads(op, count),
        (
            Column("per_second", "per second", better="more"),
            Column("cpu", "client CPU, µs each", better="less", scale=1e6),
        ),
        {"full": size, "quick": size // 4, "tiny": 2 * count},
        settings=ALONE,
        peers=_has_threads,
        is_of_threads=True,
        most_rounds=ONCE,
        seconds=1.3,
        is_curve=True,
    )


WORKLOADS = tuple(
    _workload(op, count, size) for op, size in (("gets", 3200), ("locks", 640)) for count in COUNTS
)
