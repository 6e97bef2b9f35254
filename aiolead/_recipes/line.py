"""What the contenders of one client on one path share: which znodes there are theirs.

A create whose answer was lost may have been applied. Its znode, if there is one, is found again by
its owner: an ephemeral znode of our session, named and filled like ours, that no contender of ours
claims. Names are claimed synchronously, as the answer to a create comes in; and one connection
answers in order; so a znode that is listed and unclaimed belongs to a create whose answer was lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from ..abc import CoordinationClient
from ..errors import ConnectionLossError, NoNodeError, SessionError
from ..model import Created
from ..paths import basename, join, sequence_of
from .layout import Layout, Role
from .revocation import is_request

AT_ONCE = 100
"""How many znodes are looked at in one go, when a lost create is searched for."""


@dataclass(frozen=True, slots=True)
class Node:
    """A contender's znode.

    Attributes:
        path: where it is.
        sequence: its number in the line.
        token: its czxid, the fencing token.
        session_id: the session that owns it.
    """

    path: str
    sequence: int
    token: int
    session_id: int

    @property
    def name(self) -> str:
        return basename(self.path)

    @classmethod
    def of(cls, created: Created, session_id: int) -> Node:
        sequence = sequence_of(created.path)
        if sequence is None:
            raise AssertionError(f"a sequential znode without a number: {created.path}")
        return cls(created.path, sequence, created.stat.czxid, session_id)


class Line:
    """The znodes of this client's contenders on a path, by name."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.joined = 0
        """How many contenders there have been."""
        self.was_contended = False
        """Whether the last to join found others there: then the next one expects that too."""

    def claim(self, node: Node) -> None:
        self.claimed.add(node.name)

    def forget(self, node: Node) -> None:
        self.claimed.discard(node.name)

    async def find_lost(
        self, client: CoordinationClient, path: str, layout: Layout, role: Role, data: bytes
    ) -> Node | None:
        """Finds, and claims, a znode of ours that nobody claims: that of a lost create.

        Raises:
            ConnectionLossError, SessionExpiredError: nothing is known yet.
        """
        session_id = client.session_id
        caught_up = client.sync(path)  # this server may not have seen what the last one applied
        names = client.get_children(path)
        try:
            await caught_up
            found = sorted(n for n in await names if layout.is_like_ours(role, n))
        except NoNodeError:
            return None
        unclaimed = [name for name in found if name not in self.claimed]
        for start in range(0, len(unclaimed), AT_ONCE):
            batch = unclaimed[start : start + AT_ONCE]
            looks = [(name, client.get(join(path, name))) for name in batch]
            for name, look in looks:
                try:
                    content, stat = await look
                except NoNodeError:
                    continue
                # Others may have asked for it meanwhile: see `revocation`.
                is_like_ours = content == data or is_request(content)
                ours = stat.ephemeral_owner == session_id and is_like_ours
                if ours and name not in self.claimed:
                    node = Node.of(Created(join(path, name), stat), session_id)
                    self.claim(node)
                    return node
        return None


async def delete_until_gone(client: CoordinationClient, node: Node) -> None:
    """Pays a debt: deletes a znode, over as many connections as it takes, while it can be ours.

    It looks before it deletes: the delete whose answer was lost may have been applied, and the
    empty path have been reaped and made anew since. Then the name is somebody else's.
    """
    while True:
        try:
            await client.ready()
            if client.session_id != node.session_id:
                return
            stat = await client.exists(node.path)
            if stat is None or stat.czxid != node.token:
                return
            await client.delete(node.path)
        except ConnectionLossError:
            continue
        except (NoNodeError, SessionError):
            return
        return


async def delete_lost(
    client: CoordinationClient,
    line: Line,
    path: str,
    layout: Layout,
    role: Role,
    data: bytes,
    session_id: int,
    *,
    already_looked: bool,
) -> None:
    """Pays the debt of a create whose answer was lost, and whose znode nobody wants.

    Args:
        client: whose session it was.
        line: the claims on the path.
        path: the path.
        layout: how its contenders are named.
        role: what is contended for.
        data: what the znode holds.
        session_id: the session; once it is over there is no debt.
        already_looked: whether it was searched for in vain. A create that was on its way over a
            connection that we gave up may be applied after that, so there is one more look when
            the session timeout has passed. (One that comes even later is found by the next
            contender of ours that would have to wait for it.)
    """
    while True:
        if already_looked:
            await anyio.sleep(client.session_timeout)
        try:
            await client.ready()
            if client.session_id != session_id:
                return
            node = await line.find_lost(client, path, layout, role, data)
        except ConnectionLossError:
            continue
        except SessionError:
            return
        if node is not None:
            await delete_until_gone(client, node)
            line.forget(node)
        if node is not None or already_looked:
            return
        already_looked = True
