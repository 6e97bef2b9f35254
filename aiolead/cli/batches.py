"""Reading many znodes in few round trips."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

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
            yield path, await _answer(reply)


async def _answer(reply: Awaitable[T] | Denied) -> T | Denied | None:
    try:
        return reply if isinstance(reply, Denied) else await reply
    except NoAuthError:
        return Denied()
    except NoNodeError:
        return None


async def walk(
    client: Client,
    top: str,
    limit: int,
    read: Callable[[str], Sequence[Awaitable[Any]]] | None = None,
) -> AsyncIterator[tuple[str, Stat | None, Sequence[Any]]]:
    """A znode and all below it, each before its children: its path, its stat, and what was read.

    `read` sends the requests for one znode. The answer to the first is a pair of its data, or the
    names of its children, and its stat; those names and the stat are read by default. The stat is
    None for a znode that may not be read. The walk shows all writes that were done before. Raises
    `NoNodeError` if `top` does not exist, and `CommandError` if there are more znodes than the
    limit. Others may change the tree meanwhile.

    Up to `AT_ONCE` znodes are under way, so that neither the servers nor this client wait. Where
    data are read, a znode is listed only if its stat says that it has children. The order depends
    on the tree alone.
    """
    sync_before(client, top)
    left, known = [top], 1
    asked: deque[tuple[str, Sequence[Awaitable[Any] | Denied | list[str]]]] = deque()
    while left or asked:
        while left and len(asked) < AT_ONCE:
            path = left.pop()
            try:
                replies = read(path) if read else [client.get_children_and_stat(path)]
            except InvalidPathError:
                asked.append((path, [Denied()]))
            else:
                asked.append((path, replies))
        path, under_way = asked.popleft()
        found = [each if isinstance(each, list) else await _answer(each) for each in under_way]
        names: list[str] = []
        match found:
            case [list(names)]:  # of a znode that was shown before
                pass
            case [None, *_] if path == top:
                raise NoNodeError(top)
            case [Denied(), *_]:
                yield path, None, found
            case [(content, Stat() as stat), *_]:
                yield path, stat, found
                if isinstance(content, list) and read is None:
                    names = content
                elif isinstance(content, list):  # as late as those of a znode whose data are read
                    asked.append((path, [content]))
                elif stat.num_children:
                    asked.append((path, [client.get_children(path)]))
        left += [join(path, name) for name in sorted(names, reverse=True)]
        known += len(names)
        if known > limit:
            raise CommandError(f"more than {limit:,} znodes (--limit)", FAILED)
