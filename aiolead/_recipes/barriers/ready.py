"""The znode `ready`, which exists while a round lasts.

The member that sees that enough are there creates it, which lets all of them in. The last one to
leave removes it. If all have died, the next member that finds nobody else removes it.
"""

from __future__ import annotations

from ...abc import CoordinationClient
from ...errors import BadVersionError, NoNodeError
from .._core.error_policy import until_done

READY = "ready"


async def remove_ready(client: CoordinationClient, path: str, round_: int) -> None:
    """Remove the `ready` of a round (`round_` is its czxid), and no other in its place.

    A delete goes by name and version, and all new znodes have the same version. So a write changes
    the version first, and its answer says which round's it is. Raises `ConnectionLossError`: it may
    have been removed.
    """
    try:
        stat = await client.set(path, b"")
        if stat.czxid == round_:
            await client.delete(path, version=stat.version)
    except (NoNodeError, BadVersionError):
        pass  # another member has done it, or is about to


async def tidy(client: CoordinationClient, path: str, ready: str) -> None:
    """Remove `ready` if no member is left: for a member that does not wait for the others."""

    async def remove() -> None:
        exists = client.exists(ready)
        names = client.get_children(path)
        stat = await exists
        is_over = set(await names) <= {READY}
        if stat is not None and is_over:
            await remove_ready(client, ready, stat.czxid)

    await until_done(client, 0, remove)
