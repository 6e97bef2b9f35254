"""The znode `ready`, which exists while a round lasts.

The member that sees that enough are there creates it, which lets all of them in. The last one to
leave removes it. If all have died, the next member that finds nobody else removes it.
"""

from __future__ import annotations

from ...abc import CoordinationClient
from ...errors import BadVersionError, NoAuthError, NoNodeError, TransactionError
from ...paths import join
from .._core.error_policy import until_done

READY = "ready"


async def remove_ready(
    client: CoordinationClient, path: str, round_: int, *, own: str = ""
) -> None:
    """Remove the `ready` of a round (`round_` is its czxid), if no member but `own` is there.

    Several members may do it at the same time, and requests may be slow: one that was meant for
    this round may arrive in the next. A delete goes by name and version, and all new znodes have
    the same version. So the version of the path counts the removals: each removal is a transaction
    that is refused if another one came first. The members are listed after that version was read:
    `keep_ready` of one that came later has the removal refused.

    Raises `ConnectionLossError`: it may have been removed.
    """
    ready = join(path, READY)
    get, exists, names = client.get(path), client.exists(ready), client.get_children(path)
    try:
        stat = await exists
        data, counter = await get
        if stat is not None and stat.czxid == round_ and set(await names) <= {READY, own}:
            removal = client.transaction().set(path, data, version=counter.version)
            await removal.delete(ready, version=stat.version).commit()
    except TransactionError as error:
        if isinstance(error.cause, NoAuthError):
            await _remove_uncounted(client, path, round_, own)
        elif not isinstance(error.cause, (NoNodeError, BadVersionError)):
            raise
    except NoNodeError:
        pass


async def _remove_uncounted(client: CoordinationClient, path: str, round_: int, own: str) -> None:
    """Remove it where the ACL of the path forbids to write: by a version of its own."""
    ready = join(path, READY)
    write, names = client.set(ready, b""), client.get_children(path)
    try:
        stat = await write
        if stat.czxid == round_ and set(await names) <= {READY, own}:
            await client.delete(ready, version=stat.version)
    except (NoNodeError, BadVersionError):
        pass  # another member has done it, or is about to


async def keep_ready(client: CoordinationClient, path: str, round_: int) -> bool:
    """Keep the `ready` of a round until our znode is gone; return whether it is still there.

    No other round can begin until then, so none can count on a znode that we withdraw.
    """
    ready = join(path, READY)
    try:
        data, counter = await client.get(path)
        write, exists = client.set(path, data, version=counter.version), client.exists(ready)
        await write
        stat = await exists
    except NoAuthError:
        try:
            stat = await client.set(ready, b"")
        except NoNodeError:
            return False
    except (NoNodeError, BadVersionError):
        return False
    return stat is not None and stat.czxid == round_


async def tidy(client: CoordinationClient, path: str) -> None:
    """Remove `ready` if no member is left: for a member that does not wait for the others."""

    async def remove() -> None:
        stat = await client.exists(join(path, READY))
        if stat is not None:
            await remove_ready(client, path, stat.czxid)

    await until_done(client, 0, remove)
