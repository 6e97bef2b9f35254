"""Reading many znodes in few round trips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from .. import Client
from ..errors import InvalidPathError, NoAuthError, NoNodeError
from ..model import Stat
from ..paths import join
from .exits import FAILED, CommandError

T = TypeVar("T")

MOST = 1_000_000
"""The default limit of a walk: how many znodes there may be below a path."""
AT_ONCE = 256
"""How many requests are sent in one go."""


def sync_before(client: Client, path: str) -> None:
    """Make the reads that follow show all writes that were done before."""
    reply = client.sync(path)
    # Those reads fail as well: one report of it is enough.
    reply.add_done_callback(reply.error)


class Denied:
    """Stands for a znode that may not be read, or whose listed name no client may ask for."""


async def read_each(
    paths: Sequence[str], read: Callable[[str], Awaitable[T]]
) -> AsyncIterator[tuple[str, T | Denied | None]]:
    """Read znodes in batches; None for one that is gone."""
    for begin in range(0, len(paths), AT_ONCE):
        asked: list[tuple[str, Awaitable[T] | Denied]] = []
        for path in paths[begin : begin + AT_ONCE]:
            try:
                asked.append((path, read(path)))
            except InvalidPathError:
                asked.append((path, Denied()))
        for path, reply in asked:
            found: T | Denied | None = None
            try:
                found = reply if isinstance(reply, Denied) else await reply
            except NoAuthError:
                found = Denied()
            except NoNodeError:
                pass
            yield path, found


async def walk(client: Client, top: str, limit: int) -> AsyncIterator[tuple[str, Stat | None]]:
    """A znode and all below it, each before its children; None for one that may not be listed.

    It shows all writes that were done before. Raises `NoNodeError` if `top` does not exist, and
    `CommandError` if there are more znodes than the limit. Others may change the tree meanwhile.
    """
    sync_before(client, top)
    left, known = [top], 1
    while left:
        batch, left = left[:AT_ONCE], left[AT_ONCE:]
        below: list[str] = []
        async for path, found in read_each(batch, client.get_children_and_stat):
            if found is None and path == top:
                raise NoNodeError(top)
            if isinstance(found, Denied):
                yield path, None
            elif found is not None:
                names, stat = found
                yield path, stat
                below += [join(path, name) for name in sorted(names)]
                known += len(names)
                if known > limit:
                    raise CommandError(f"more than {limit:,} znodes (--limit)", FAILED)
        left = below + left
