"""Requests whose parent may be missing, or be deleted again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import ACL, CreateMode

R = TypeVar("R")

TRIES = 10
"""How often the path is created in a row: servers delete empty containers (CURATOR-724)."""


async def with_parent(
    client: CoordinationClient,
    path: str,
    request: Callable[[], Awaitable[R]],
    *,
    mode: CreateMode = CreateMode.PERSISTENT,
    acl: Sequence[ACL] | None,
) -> R:
    """Send a request, and again with `path` created while it raises `NoNodeError`.

    `mode` is that of the path and its missing ancestors; `acl` is that of all that is created.
    """
    for _ in range(TRIES):
        try:
            return await request()
        except NoNodeError:
            await client.ensure_path(path, mode=mode, acl=acl)
    return await request()
