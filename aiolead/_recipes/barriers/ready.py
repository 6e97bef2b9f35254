"""The znode `ready`, which exists while a round lasts.

The member that sees that enough are there creates it, which lets all of them in. The last one to
leave removes it. If all have died, the next member that finds nobody else removes it.
"""

from __future__ import annotations

from ...abc import CoordinationClient
from ...errors import BadVersionError, NoAuthError, NoNodeError, TransactionError
from ...paths import parent
from .._core.error_policy import until_done

READY = "ready"


async def remove_ready(client: CoordinationClient, path: str, round_: int) -> None:
    """Remove the `ready` of a round (`round_` is its czxid), and no other in its place.

    Several members may do it at the same time, and requests may be slow: one that was meant for
    this round may arrive in the next. A delete goes by name and version, and all new znodes have
    the same version. So the version of the path counts the removals: each removal is a transaction
    that is refused if another one came first. Raises `ConnectionLossError`: it may have been
    removed.
    """
    above = parent(path)
    get, exists = client.get(above), client.exists(path)
    try:
        stat = await exists
        data, counter = await get
        if stat is not None and stat.czxid == round_:
            removal = client.transaction().set(above, data, version=counter.version)
            await removal.delete(path, version=stat.version).commit()
    except TransactionError as error:
        if isinstance(error.cause, NoAuthError):
            await _remove_uncounted(client, path, round_)
        elif not isinstance(error.cause, (NoNodeError, BadVersionError)):
            raise
    except NoNodeError:
        pass


async def _remove_uncounted(client: CoordinationClient, path: str, round_: int) -> None:
    """Remove it where the ACL of the path forbids to write: by a version of its own."""
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
