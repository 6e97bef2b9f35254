"""Doing nothing: processor time, requests, memory."""

from __future__ import annotations

import time

from aiolead.testing import FaultProxy

from .crowd import PATIENCE, begin, wait_until_queued, without_curator
from .model import ALONE, Column, Take, Values, Workload, warm

_SESSION_TIMEOUT = 10.0
_WAITERS = 1000
_CLIENTS = 100
_WATCHES = 1000


def idle_client(take: Take) -> Values:
    """One client; `size` is for how long, in seconds."""
    return _idle(take, waiters=0)


def idle_waiters(take: Take) -> Values:
    """Many waiters on one client, behind a holder in another process."""
    return _idle(take, waiters=_WAITERS if take.size > 1 else 5)


def _idle(take: Take, waiters: int) -> Values:
    driver, site = take.driver, take.site
    port = site.servers[0].port
    # This proxy knows what is a ping.
    with FaultProxy("127.0.0.1", port) as proxy:
        if waiters:
            path = site.make()
            holder = take.another()
            holder.call("open", hosts=site.direct, sessions=1, timeout=_SESSION_TIMEOUT)
            begin(holder, "lock", path, 0, hold=True)
            nodes = site.glance().nodes
        driver.call("open", hosts=proxy.connect_string, sessions=1, timeout=_SESSION_TIMEOUT)
        if waiters:
            begin(driver, "lock", path, waiters, hold=False)
            wait_until_queued(site, nodes + waiters)
        requests, size, first = proxy.requests, proxy.bytes.total(), driver.call("cpu")
        time.sleep(take.size)
        said, last = proxy.requests - requests, driver.call("cpu")
        passed = proxy.bytes.total() - size
        seconds = (last["at"] - first["at"]) / 1e9
        if waiters:
            holder.call("drain", PATIENCE)
            driver.call("drain", PATIENCE)
            holder.call("close")
        driver.call("close")
    pings = said.pop("PING", 0)
    return {
        "cpu": (last["cpu"] - first["cpu"]) / seconds,
        "requests": said.total() / seconds,
        "pings": pings / seconds,
        "bytes": passed / seconds,
    }


def memory(take: Take) -> Values:
    """The memory of the imported library with one client, and of each further object."""
    driver, hosts = take.driver, take.site.hosts
    path = take.site.make()
    driver.call("open", hosts=hosts, sessions=1, timeout=_SESSION_TIMEOUT)
    first = driver.call("memory")["resident"] - driver.base
    watches, clients = (_WATCHES, _CLIENTS) if take.size > 1 else (5, 2)
    before = driver.resident
    driver.call("watch", path=path, count=watches)
    watched = driver.resident
    driver.call("open", hosts=hosts, sessions=clients, timeout=_SESSION_TIMEOUT)
    connected = driver.resident
    driver.call("close")
    return {
        "first": first,
        "client": (connected - watched) / clients,
        "watch": (watched - before) / watches,
    }


_IDLE = (
    Column("cpu", "client CPU, % of a core", 2, "less", 100),
    Column("requests", "requests/s, without pings", 2, "less"),
    Column("pings", "pings/s", 2),
    Column("bytes", "bytes/s, both ways", 1),
)

WORKLOADS = (
    Workload(
        "idle-client",
        "A client that does nothing",
        f"One client, connected; its session timeout is {_SESSION_TIMEOUT:g} s.",
        idle_client,
        _IDLE,
        {"full": 6, "quick": 5, "tiny": 1},
        settings=ALONE,
        peers=warm,
        is_fresh=True,
        most_rounds=1,
        seconds=6.0,
    ),
    Workload(
        "idle-waiters",
        f"{_WAITERS:,} idle waiters",
        f"{_WAITERS:,} contenders on one client wait for a lock that is held by another process. "
        "A proxy that knows the protocol counts the requests of the client meanwhile.",
        idle_waiters,
        _IDLE,
        {"full": 12, "quick": 5, "tiny": 1},
        settings=ALONE,
        peers=without_curator,
        is_fresh=True,
        most_rounds=1,
        seconds=15.0,
    ),
    Workload(
        "memory",
        "Memory",
        "Of the process: the memory that importing the library and connecting one client add to an "
        "interpreter with an event loop and anyio; then that of each of "
        f"{_CLIENTS} more clients and of each of {_WATCHES:,} watches. Of Java: of the "
        "process at first, and then of the heap, after a collection. A waiter's is in the crowds.",
        memory,
        (
            Column("first", "library and a client, MB", 2, "less", 1e-6),
            Column("client", "kB per client", 1, "less", 1e-3),
            Column("watch", "bytes per watch", 0, "less"),
        ),
        {"full": 2, "quick": 2, "tiny": 1},
        settings=ALONE,
        quick_settings=ALONE,
        peers=warm,
        is_fresh=True,
        most_rounds=1,
        is_of_loops=True,
        seconds=2.0,
    ),
)
