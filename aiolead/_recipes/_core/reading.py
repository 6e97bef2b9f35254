"""Reads of a znode that may be missing, and of many children at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ...abc import CoordinationClient, Watch
from ...errors import NoNodeError
from ...model import Stat
from ...paths import join

AT_ONCE = 250
"""How many znodes are read in one go."""

Found: TypeAlias = tuple[bytes, Stat]


async def read_data(
    client: CoordinationClient, path: str, watch: Watch | None = None
) -> tuple[bytes, Stat | None]:
    """A znode's data and `Stat`: None if it is missing, whose creation is then watched."""
    while True:
        with suppress(NoNodeError):
            return await client.get(path, watch=watch)
        if watch is None or await client.exists(path, watch=watch) is None:
            return b"", None


async def read_children(
    client: CoordinationClient,
    path: str,
    names: Sequence[str] | None = None,
    *,
    watch: Callable[[str], Watch] | None = None,
) -> dict[str, Found]:
    """The data and `Stat` of a znode's children by name, without those that have gone meanwhile.

    The parent need not exist. `names` gives the order; it defaults to all children, sorted. `watch`
    makes the watch on a child, by its name.
    """
    if names is None:
        try:
            names = sorted(await client.get_children(path))
        except NoNodeError:
            return {}
    found: dict[str, Found] = {}
    for start in range(0, len(names), AT_ONCE):
        replies = [
            (name, client.get(join(path, name), watch=None if watch is None else watch(name)))
            for name in names[start : start + AT_ONCE]
        ]
        for name, reply in replies:
            with suppress(NoNodeError):
                found[name] = await reply
    return found
