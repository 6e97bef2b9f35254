"""The znode of a keeper, and the debts that are left when it cannot be deleted at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ...abc import CoordinationClient
from ...errors import NoNodeError
from ...model import Stat
from ...paths import join, parent
from ..catching_up import catch_up
from ..error_policy import until_done
from ..ownership import LostCreates, is_shared

AT_ONCE = 100
"""How many znodes are looked at in one go, when a lost create is searched for."""


@dataclass(slots=True)
class Kept:
    """A znode that we have created, or taken over.

    Attributes:
        path: where it is.
        czxid: the transaction that created it.
        owner: the session that owns it; 0 if it is persistent.
        version: of the data that we know of.
        mzxid: the transaction that set that data.
    """

    path: str
    czxid: int
    owner: int
    version: int
    mzxid: int

    @classmethod
    def of(cls, path: str, stat: Stat) -> Kept:
        return cls(path, stat.czxid, stat.ephemeral_owner, stat.version, stat.mzxid)


class Claims:
    """What the keepers of one client have at, or under, one path."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}
        """The keeper of each path."""
        self.going: set[int] = set()
        """The czxids of znodes that were given up and are being deleted."""
        self.lost = LostCreates()
        """Those of our creates."""


async def delete_kept(client: CoordinationClient, claims: Claims, node: Kept) -> None:
    """Pays a debt: deletes a znode, over as many connections as it takes, if it is still that one.

    Raises:
        AioleadError: it was refused: `NoAuthError`, `NotEmptyError`.
    """

    async def delete() -> None:
        stat = await client.exists(node.path)
        if stat is not None and stat.czxid == node.czxid:
            await client.delete(node.path, version=stat.version)

    claims.going.add(node.czxid)
    try:
        await until_done(client, node.owner, delete)
    finally:
        claims.going.discard(node.czxid)


async def find_unclaimed(
    client: CoordinationClient,
    claims: Claims,
    path: str,
    *,
    is_sequential: bool,
    owner: int,
    data: bytes,
) -> Kept | None:
    """Finds a znode that no keeper of ours has: that of a create whose answer was lost.

    Args:
        client: the session.
        claims: what our keepers have.
        path: the znode, or what the server appended a number to.
        is_sequential: whether it did.
        owner: our session; 0 for a persistent one, which nobody owns. That, or one of a session
            that is shared, is ours if it holds what we have created it with; see `ownership`.
        data: that.

    Raises:
        ConnectionLossError, SessionExpiredError: nothing is known yet.
    """
    await catch_up(client, path)
    if is_sequential:
        folder = parent(path)
        try:
            every = [join(folder, name) for name in sorted(await client.get_children(folder))]
        except NoNodeError:
            return None
        paths = [each for each in every if each.startswith(path) and len(each) == len(path) + 10]
    else:
        paths = [path]
    unclaimed = [each for each in paths if each not in claims.kept]
    for start in range(0, len(unclaimed), AT_ONCE):
        looks = [(each, client.get(each)) for each in unclaimed[start : start + AT_ONCE]]
        for each, look in looks:
            try:
                content, stat = await look
            except NoNodeError:
                continue
            ours = stat.ephemeral_owner == owner and claims.lost.may_have_made(client, stat.czxid)
            if not owner or is_shared(client):
                ours = ours and (content, stat.version) == (data, 0)
            if ours and each not in claims.kept:
                claims.lost.found(stat.czxid)
                return Kept.of(each, stat)
    return None


async def delete_lost(
    client: CoordinationClient,
    claims: Claims,
    path: str,
    *,
    is_sequential: bool,
    owner: int,
    data: bytes,
    looked: Callable[[], object],
) -> None:
    """Pays the debt of a create whose answer was lost, and whose znode nobody wants any more.

    The znode is looked for as by `find_unclaimed`. When it was not there, or is deleted, `looked`
    is called. There is a second look, when the session timeout has passed: a create that was on its
    way over a connection that we gave up may be applied after the first one.

    Raises:
        AioleadError: it was refused.
    """

    async def find_and_delete() -> None:
        node = await find_unclaimed(
            client, claims, path, is_sequential=is_sequential, owner=owner, data=data
        )
        if node is not None:
            await delete_kept(client, claims, node)

    try:
        may_come = await until_done(client, owner, find_and_delete)
    finally:
        looked()
    if may_come:
        await anyio.sleep(client.session_timeout)
        await until_done(client, owner, find_and_delete)
