"""How time and memory grow: with holds, watches, znodes, observers, items."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import anyio

import aiolead

from ..driver import SESSION_TIMEOUT
from ..peers.interface import batched
from ..peers.registry import PeerKind
from ..site import Site
from .model import ALONE, ONCE, Column, Take, Values, Workload

_PATIENCE = 180.0
_BATCH = 10_000
_WIDTH = 100
"""How many znodes are below one in a tree."""

SIZES = {
    "holds": (1, 10, 100, 1000, 5000, 20_000),
    "watches": (1, 10, 100, 1000, 10_000, 100_000),
    "tree": (10, 100, 1000, 10_000, 100_000),
    "observers": (1, 10, 100, 1000),
    "items": (10, 100, 1000, 5000, 20_000),
}


def holds(take: Take) -> Values:
    driver = take.driver
    path = take.site.make(*map(str, range(take.size)))
    with driver.clients(take.site.hosts):
        before = driver.resident
        acquired = driver.call("hold", _PATIENCE, path=path, count=take.size)
        memory = driver.resident - before
        released = driver.call("let_go", _PATIENCE)
    return {
        "acquire": acquired["seconds"],
        "release": released["seconds"],
        "cpu": acquired["cpu"] / take.size,
        "memory": memory / take.size,
    }


def watches(take: Take) -> Values:
    driver, path = take.driver, take.site.make()
    with driver.clients(take.site.hosts):
        before = driver.resident
        answer = driver.call("watch", _PATIENCE, path=path, count=take.size)
        memory = driver.resident - before
    return {
        "set": answer["seconds"],
        "cpu": answer["cpu"] / take.size,
        "memory": memory / take.size,
    }


def tree(take: Take) -> Values:
    path = _planted(take.site, take.size)
    with take.driver.clients(take.site.hosts):
        answer = take.driver.call("tree", _PATIENCE, path=path, count=take.size)
    return {"copy": answer["seconds"], "cpu": answer["cpu"] / take.size}


def _planted(site: Site, count: int) -> str:
    """A tree of so many znodes below its top, in branches; there is one for all peers."""
    if count not in site.trees:
        path = site.make()
        # So many names, of which each is below the first of its hundred.
        names = [
            f"{path}/{i // _WIDTH}" + (f"/{i % _WIDTH}" if i % _WIDTH else "") for i in range(count)
        ]

        async def plant() -> None:
            async with aiolead.connect(site.direct, session_timeout=SESSION_TIMEOUT) as client:
                for batch in batched(range(count), _BATCH):
                    for reply in [client.create(names[i], b"data") for i in batch]:
                        await reply

        anyio.run(plant)
        site.trees[count] = path
    return site.trees[count]


def observers(take: Take) -> Values:
    path = take.site.make()
    with take.driver.clients(take.site.hosts):
        answer = take.driver.call("observers", _PATIENCE, path=path, count=take.size)
    return {"first": answer["first"], "next": answer["next"]}


def items(take: Take) -> Values:
    path = take.site.make()
    with take.driver.clients(take.site.hosts):
        answer = take.driver.call("items", _PATIENCE, path=path, count=take.size)
    return {"put": answer["put"], "take": answer["take"]}


def _recipes(kind: PeerKind) -> bool:
    return kind.name in ("aiolead", "kazoo")


def _and_the_limit(kind: PeerKind) -> bool:
    return kind.name in ("limit", "aiolead", "kazoo")


def _curve(
    name: str,
    what: str,
    about: str,
    measure: Callable[[Take], Values],
    columns: tuple[Column, ...],
    *,
    peers: Callable[[PeerKind], bool] = _recipes,
    each: float,
) -> list[Workload]:
    """A workload for each number of it; `each`: what one of it takes, about, in milliseconds."""
    first = Workload(
        "",
        "",
        about,
        measure,
        columns,
        {"full": 1, "quick": 1, "tiny": 1},
        settings=ALONE,
        peers=peers,
        is_fresh=True,
        most_rounds=ONCE,
        is_curve=True,
    )
    return [
        dataclasses.replace(
            first,
            name=f"{name}-{size}",
            title=what.format(f"{size:,}"),
            about=about if size == SIZES[name][0] else "The same with more.",
            sizes={"full": size, "quick": size, "tiny": min(size, 20)},
            seconds=0.6 + size * each / 1000,
        )
        for size in SIZES[name]
    ]


def _seconds(key: str, title: str) -> Column:
    return Column(key, f"{title}, s", 3, "less")


_CPU = Column("cpu", "client CPU, µs each", better="less", scale=1e6)
_MEMORY = Column("memory", "kB each", 2, "less", 1e-3)

WORKLOADS = (
    *_curve(
        "holds",
        "{} locks held by one client",
        "One client acquires so many locks at once, holds all, and releases all. kazoo does it in "
        "32 threads.",
        holds,
        (_seconds("acquire", "to acquire"), _seconds("release", "to release"), _CPU, _MEMORY),
        each=0.9,
    ),
    *_curve(
        "watches",
        "{} watches of one client",
        "One client sets a watch on each of so many znodes that do not exist.",
        watches,
        (_seconds("set", "to set"), _CPU, _MEMORY),
        peers=_and_the_limit,
        each=0.08,
    ),
    *_curve(
        "tree",
        "A copy of a tree of {} znodes",
        "`TreeCache` of aiolead and of kazoo: from its start until the copy is complete.",
        tree,
        (_seconds("copy", "to copy"), _CPU),
        each=0.25,
    ),
    *_curve(
        "observers",
        "{} observers of an election on one client",
        "Until all of them know the first leader, and from its resignation until all know the next "
        "one. kazoo has no observer: a `ChildrenWatch` and a read of the first child each.",
        observers,
        (_seconds("first", "first leader"), _seconds("next", "next leader")),
        each=1.5,
    ),
    *_curve(
        "items",
        "{} items of a queue",
        "One client puts so many items, and takes all. aiolead: `put_many()` by a hundred, "
        "`consume()` with `ack()`, at least once. kazoo: `Queue`, which puts one at a time and "
        "loses an item that its taker does not finish.",
        items,
        (_seconds("put", "to put"), _seconds("take", "to take")),
        each=0.9,
    ),
)
