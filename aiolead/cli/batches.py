"""Reading many znodes in few round trips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from ..errors import InvalidPathError, NoAuthError, NoNodeError

T = TypeVar("T")

AT_ONCE = 256
"""How many requests are sent in one go."""


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
