"""Reading many znodes in few round trips."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..errors import InvalidPathError, NoAuthError, NoNodeError

T = TypeVar("T")

AT_ONCE = 256
"""How many requests are sent in one go."""


class Denied:
    """Stands for a znode that may not be read, or whose listed name no client may ask for."""


async def read_each(
    paths: Sequence[str], read: Callable[[str], Awaitable[T]]
) -> list[tuple[str, T | Denied | None]]:
    """Read each of some znodes; None for one that has gone."""
    found: list[tuple[str, T | Denied | None]] = []
    for begin in range(0, len(paths), AT_ONCE):
        asked: list[tuple[str, Awaitable[T] | None]] = []
        for path in paths[begin : begin + AT_ONCE]:
            try:
                asked.append((path, read(path)))
            except InvalidPathError:
                asked.append((path, None))
        for path, reply in asked:
            try:
                found.append((path, Denied() if reply is None else await reply))
            except NoAuthError:
                found.append((path, Denied()))
            except NoNodeError:
                found.append((path, None))
    return found
