"""Locks that nobody else wants."""

from __future__ import annotations

from .model import ALONE, COUNTED, Column, Take, Values, Workload

_LOCKS = 50


def cycles(take: Take) -> Values:
    path = take.site.make()
    with take.driver.clients(take.site.hosts):
        take.driver.call("cycles", path=path, count=max(take.size // 10, 1))
        before = take.site.settled()
        answer = take.driver.call("cycles", path=path, count=take.size)
        traffic = take.site.settled() - before
    return {
        "per_second": take.size / answer["seconds"],
        "cpu": answer["cpu"] / take.size,
        **traffic.each(take.size),
    }


def together(take: Take) -> Values:
    path = take.site.make(*map(str, range(_LOCKS)))
    with take.driver.clients(take.site.hosts):
        take.driver.call("together", path=path, locks=_LOCKS, each=1)
        before = take.site.settled()
        answer = take.driver.call("together", path=path, locks=_LOCKS, each=take.size)
        traffic = take.site.settled() - before
    count = _LOCKS * take.size
    return {
        "per_second": count / answer["seconds"],
        "cpu": answer["cpu"] / count,
        **traffic.each(count),
    }


_COLUMNS = (
    Column("per_second", "cycles/s", better="more"),
    Column("cpu", "client CPU, µs each", better="less", scale=1e6),
    *COUNTED,
)

WORKLOADS = (
    Workload(
        "lock-cycles",
        "Cycles of an uncontended lock",
        "One client acquires a lock and releases it, again and again.",
        cycles,
        _COLUMNS,
        {"full": 500, "quick": 200, "tiny": 10},
        quick_settings=("standalone", "standalone+delay"),
        is_of_loops=True,
        seconds=0.9,
        delayed=2,
    ),
    Workload(
        "locks-at-once",
        f"{_LOCKS} locks at once",
        f"One client has {_LOCKS} tasks (or threads), each of which acquires and releases a lock "
        "of its own, again and again.",
        together,
        _COLUMNS,
        {"full": 40, "quick": 10, "tiny": 2},
        quick_settings=ALONE,
        is_of_loops=True,
        seconds=0.9,
    ),
)
