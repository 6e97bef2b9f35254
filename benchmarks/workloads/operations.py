"""Plain operations, one after the other and all at once."""

from __future__ import annotations

from .model import (
    ALONE,
    COUNTED,
    EVERY_LOOP,
    ONCE,
    Column,
    Take,
    Values,
    Workload,
    in_loop,
)

_DATA = bytes(100)
_DEPTH = 1000


def sequential(take: Take) -> Values:
    path = take.site.make(data=_DATA)
    with take.driver.clients(take.site.hosts):
        take.driver.call("gets", path=path, count=max(take.size // 10, 1))
        before = take.site.settled()
        answer = take.driver.call("gets", path=path, count=take.size)
        traffic = take.site.settled() - before
    return {
        "per_second": take.size / answer["seconds"],
        "cpu": answer["cpu"] / take.size,
        **traffic.each(take.size),
    }


def pipelined(take: Take) -> Values:
    path = take.site.make()
    depth = min(take.size, _DEPTH)
    batches = take.size // depth
    seconds = dict.fromkeys(("create", "set", "get", "delete"), 0.0)
    cpu = dict(seconds)
    with take.driver.clients(take.site.hosts):
        for _ in range(batches):
            for op in seconds:
                size = {"op": op, "path": path, "count": depth, "size": len(_DATA)}
                answer = take.driver.call("pipeline", **size)
                seconds[op] += answer["seconds"]
                cpu[op] += answer["cpu"]
    count = batches * depth
    return {
        **{f"{op}_per_second": count / took for op, took in seconds.items()},
        **{f"{op}_cpu": used / count for op, used in cpu.items()},
    }


def loop_time(take: Take) -> Values:
    path = take.site.make("lock", data=_DATA)
    with take.driver.clients(take.site.hosts):
        take.driver.call("gets", path=path, count=max(take.size // 10, 1))
        gets = take.driver.call("gets", path=path, count=take.size)
        take.driver.call("cycles", path=f"{path}/lock", count=1)
        cycles = take.driver.call("cycles", path=f"{path}/lock", count=take.size)
    return {
        "get": (gets["seconds"] - gets["idle"]) / take.size,
        "cycle": (cycles["seconds"] - cycles["idle"]) / take.size,
    }


WORKLOADS = (
    Workload(
        "sequential-get",
        "Sequential reads",
        "One client reads a znode of 100 bytes, again and again, each time after the answer.",
        sequential,
        (
            Column("per_second", "reads/s", better="more"),
            Column("cpu", "client CPU, µs each", better="less", scale=1e6),
            *COUNTED,
        ),
        {"full": 3000, "quick": 1000, "tiny": 20},
        settings=("standalone", "standalone+delay", "ensemble", "ensemble+delay"),
        quick_settings=("standalone", "standalone+delay"),
        quick_peers=EVERY_LOOP,
        is_of_loops=True,
        seconds=1.4,
        delayed=5,
    ),
    Workload(
        "pipelined",
        "1,000 requests outstanding",
        "One client creates 1,000 znodes of 100 bytes without waiting for answers, then waits for "
        "all; then sets, reads and deletes them in the same way.",
        pipelined,
        (
            Column("create_per_second", "creates/s", better="more"),
            Column("set_per_second", "sets/s", better="more"),
            Column("get_per_second", "reads/s", better="more"),
            Column("create_cpu", "client CPU, µs per create", 1, "less", 1e6),
            Column("get_cpu", "µs per read", 1, "less", 1e6),
        ),
        {"full": 3000, "quick": 1000, "tiny": 20},
        settings=("standalone", "standalone+fsync", "ensemble"),
        quick_settings=ALONE,
        is_of_loops=True,
        seconds=1.3,
    ),
    Workload(
        "event-loop",
        "Event-loop time",
        "How long the event loop is busy, and can do nothing else, for each read and each cycle of "
        "an uncontended lock: the time that it does not spend waiting for something to do.",
        loop_time,
        (
            Column("get", "µs per read", 1, "less", 1e6),
            Column("cycle", "µs per lock cycle", 1, "less", 1e6),
        ),
        {"full": 1000, "quick": 300, "tiny": 10},
        settings=ALONE,
        peers=in_loop,
        is_of_loops=True,
        is_fresh=True,
        options=("--idle",),
        most_rounds=ONCE,
    ),
)
