"""The znode `ready`, which exists for as long as a round lasts.

The member that sees that enough are there creates it, and that decides for all who are there. The
last one to leave removes it. If all have died it is left; then the next member that comes, and
finds nobody else, removes it.
"""

from __future__ import annotations

from ...abc import CoordinationClient
from ...errors import BadVersionError, NoNodeError
from .._core.error_policy import until_done

READY = "ready"


async def remove_ready(client: CoordinationClient, path: str, round_: int) -> None:
    """Removes the `ready` of a round, and no other one that may have taken its place since.

    A delete goes by name and version, and all new znodes have the same: so it gets another version
    first, and the answer to that says whose it is.

    Args:
        client: the session.
        path: of `ready`.
        round_: its czxid.

    Raises:
        ConnectionLossError: it may have been removed.
    """
    try:
        stat = await client.set(path, b"")
        if stat.czxid == round_:
            await client.delete(path, version=stat.version)
    except (NoNodeError, BadVersionError):
        pass  # another member has done it, or is about to


async def tidy(client: CoordinationClient, path: str, ready: str) -> None:
    """Removes `ready` if no member is left: for a member that does not wait for the others."""

    async def remove() -> None:
        exists = client.exists(ready)
        names = client.get_children(path)
        stat = await exists
        is_over = set(await names) <= {READY}
        if stat is not None and is_over:
            await remove_ready(client, ready, stat.czxid)

    await until_done(client, 0, remove)
