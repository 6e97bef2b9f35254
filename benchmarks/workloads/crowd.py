"""Many contenders: joining the queue, and being served."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..driver import Driver, PeerFailedError
from ..peers.interface import Kind
from ..peers.registry import PeerKind
from ..site import Site
from .model import ALONE, ONCE, Column, Take, Values, Workload, lean, warm

PATIENCE = 600.0
"""How long all of them may take to join the queue, or to be served, in seconds."""

_CALM = 0.25
"""All have joined once there is no packet for so long, in seconds; that is not counted."""

_GLANCES = 0.004
"""How often a server is asked, in seconds: the resolution of the time to join."""


def crowd(kind: Kind = "lock", most_sessions: int = 1) -> Callable[[Take], Values]:
    """Contenders dealt out to so many sessions at most."""

    def measure(take: Take) -> Values:
        driver, site, count = take.driver, take.site, take.size
        path = site.make()
        sessions = min(count, most_sessions)
        with driver.clients(site.hosts, sessions):
            at_first = driver.resident
            nodes = site.glance().nodes
            before = site.settled()
            began = begin(driver, kind, path, count, hold=True)
            queued_at = wait_until_queued(site, nodes + 1 + count)
            queued = site.settled()
            in_line = driver.resident
            answer = driver.call("drain", PATIENCE)
            drained = site.settled()
        joining, leaving = queued - before, drained - queued
        return {
            "queue": (queued_at - began) / 1e9,
            "drain": answer["seconds"],
            "bytes_out": joining.bytes_out + leaving.bytes_out,
            "joining_bytes_out": joining.bytes_out / count,
            "leaving_bytes_out": leaving.bytes_out / count,
            "joining_requests": joining.requests / count,
            "leaving_requests": leaving.requests / count,
            "memory": (in_line - at_first) / count,
        }

    return measure


def begin(driver: Driver, kind: Kind, path: str, contenders: int, *, hold: bool) -> int:
    """Let contenders join; return when they began, in nanoseconds of the monotonic clock."""
    words = {"kind": kind, "path": path, "contenders": contenders, "hold": int(hold)}
    return int(driver.call("queue", PATIENCE, **words)["began"])


def wait_until_queued(site: Site, nodes: int) -> int:
    """Waits until there are so many znodes and nothing moves; when the last thing moved.

    Raises:
        PeerFailedError: they are not there in time.
    """
    changed = start = time.monotonic_ns()
    seen = None
    while True:
        glance, now = site.glance(), time.monotonic_ns()
        if glance != seen:
            seen, changed = glance, now
        elif glance.nodes >= nodes and not glance.outstanding and now - changed > _CALM * 1e9:
            return changed
        if now - start > PATIENCE * 1e9:
            raise PeerFailedError(f"queue: {nodes - glance.nodes} missing after {PATIENCE:g} s")
        time.sleep(_GLANCES)


_LOCKS = crowd()
_COLUMNS = (
    Column("queue", "to queue, s", 2, "less"),
    Column("drain", "to drain, s", 2, "less"),
    Column("bytes_out", "from the server, MB", 2, "less", 1e-6),
    Column("joining_bytes_out", "bytes per joining contender", better="less"),
    Column("memory", "kB per waiter", 1, "less", 1e-3),
    Column("joining_requests", "requests to queue, each", 2),
    Column("leaving_requests", "to drain, each", 2),
)

_HOW = (
    "One contender holds; then all others join at once, on one client, in a task of their "
    "own each (or a thread, where the library has no other way). When they all wait, the holder "
    "leaves, and so does everybody as soon as it is their turn."
)

_SAME = "The same with more."

_WITHOUT_CURATOR = (
    f"{_SAME} From here on Curator does not take part: a departure wakes all its threads, and each "
    "lists the queue. With 1,000 it took 117 s and 7.3 GB on 22 November 2026."
)


_MOST_SESSIONS = 3000
_SHARED_SESSIONS = 100


def without_curator(kind: PeerKind) -> bool:
    """Peers that do not need minutes for 1,000."""
    return warm(kind) and kind.library != "curator"


def _without_the_quadratic(kind: PeerKind) -> bool:
    """Peers other than kazoo and aiozk, whose elections do the work of their locks."""
    return warm(kind) and kind.library not in ("kazoo", "aiozk")


def _workload(
    count: int,
    *,
    name: str = "crowd",
    title: str = "{} contenders on one session",
    about: str = _SAME,
    measure: Callable[[Take], Values] = _LOCKS,
    quick: tuple[str, ...] = (),
    peers: Callable[[PeerKind], bool] = warm,
    is_of_loops: bool = False,
    seconds: float = 1.5,
    slow: Mapping[str, float] | None = None,
    most_rounds: int = ONCE,
) -> Workload:
    return Workload(
        f"{name}-{count}",
        title.format(f"{count:,}"),
        about,
        measure,
        _COLUMNS,
        {"full": count, "quick": count, "tiny": min(count, 5)},
        settings=ALONE,
        quick_settings=ALONE if quick else (),
        peers=peers,
        quick_peers=quick,
        is_fresh=True,
        is_of_loops=is_of_loops,
        seconds=seconds,
        slow=slow or {},
        most_rounds=most_rounds,
        is_curve=count != 3000 or name in ("sessions", "shared"),
    )


def _of_sessions(
    count: int, peers: Callable[[PeerKind], bool] = warm, seconds: float = 1.5
) -> Workload:
    return _workload(
        count,
        name="sessions",
        title="{} sessions on one path" if count > 1 else "A session on one path",
        about="The same, with a session for each contender, all in one process.",
        measure=crowd(most_sessions=_MOST_SESSIONS),
        peers=peers,
        seconds=seconds,
    )


WORKLOADS = (
    _workload(1, title="A contender on one session", about=_HOW),
    _workload(10),
    _workload(100),
    _workload(
        1000,
        about=_WITHOUT_CURATOR,
        peers=without_curator,
        slow={"kazoo": 4.5, "aiozk": 4.5},
    ),
    _workload(
        3000,
        quick=("limit", "aiolead"),
        peers=without_curator,
        is_of_loops=True,
        seconds=2.3,
        slow={"kazoo": 25.0, "aiozk": 32.0, "go": 15.0},
        most_rounds=99,
    ),
    _workload(
        3000,
        name="election-crowd",
        title="{} candidates on one session",
        about="The same with 3,000 and elections; Curator by its `LeaderLatch`, without threads.",
        measure=crowd("election"),
        peers=_without_the_quadratic,
        seconds=2.3,
        slow={"curator": 16.0},
    ),
    _workload(
        10_000,
        about=f"{_SAME} Only of those whose cost does not grow with the square of their number.",
        peers=lean,
        seconds=5.5,
    ),
    _of_sessions(1),
    _of_sessions(10),
    _of_sessions(100),
    _of_sessions(1000, seconds=8.0),
    _of_sessions(3000, lean, seconds=25.0),
    *(
        _workload(
            count,
            name="shared",
            title="{} contenders in 100 sessions",
            about="The same, dealt out to 100 sessions in one process. Each listing has all "
            "names: 10,000 contenders take minutes, and more than a GiB of the server's memory.",
            measure=crowd(most_sessions=_SHARED_SESSIONS),
            peers=lean,
            seconds=1.0 + count / 300,
        )
        for count in (100, 1000, 3000)
    ),
)
