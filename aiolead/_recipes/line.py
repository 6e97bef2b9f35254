"""What the contenders of one client on one path share: which znodes there are theirs.

A create whose answer was lost may have been applied. Its znode, if there is one, is found again by
its name, which begins with what no other one's does. Names are claimed synchronously, as the answer
to a create comes in; and one connection answers in order; so a znode of our session that is seen
and unclaimed belongs to a create whose answer was lost. Its contender may be about to look for it:
so only one that nobody expects either is an orphan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ..abc import CoordinationClient, Reply
from ..errors import NoNodeError
from ..model import Created, SessionState
from ..paths import basename, join, sequence_of
from .catching_up import catch_up
from .error_policy import until_done
from .layout import Layout, Role

SEQUENCE_DIGITS = 10
"""What servers append to the name of a sequential znode."""


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
    """The znodes of this client's contenders on a path."""

    def __init__(self) -> None:
        self._expected: set[str] = set()
        """How the names begin of creates that are wanted, and neither known to be done nor to have
        failed: their znodes may be there."""
        self.was_contended = False
        """Whether the last listing of the line showed others before us: it may be so again."""
        self.are_readable = True
        """Whether all of ours so far are such as we may surely read."""
        self.front: str | None = None
        """The last one of ours that was the first in the line, where one holds at a time."""
        self.fits: list[tuple[Layout, Role]] = []
        """With what kinds of contenders all neighbours were found to fit, once. (To hash a layout
        takes longer than to look at the few that there are.)"""
        self.look: Reply[list[str]] | None = None
        """The last listing that was asked for to see that."""
        self.changes = 0
        """How often the session has changed its state, while anybody followed that."""
        self._followers = 0
        self._unfollow: Callable[[], None]
        self._claimed: dict[str, int] = {}
        """The numbers of those that are wanted, by name."""
        self._at: dict[int, str] = {}

    # --- the session's state -------------------------------------------------------------------

    def follow(self, client: CoordinationClient) -> None:
        """Has `changes` counted, until `unfollow` was called as often: once for all contenders."""
        if not self._followers:
            self._unfollow = client.subscribe(self._on_state)
        self._followers += 1

    def unfollow(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._unfollow()

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self.changes += 1

    # --- whose is what -------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nobody of ours is in the line, or on the way there."""
        return not self._claimed and not self._expected

    def expect(self, prefix: str) -> None:
        """Takes note that a znode is created whose name begins so, until `settle`."""
        self._expected.add(prefix)

    def settle(self, prefix: str) -> None:
        """It is claimed by now, or was not created, or is not wanted any more."""
        self._expected.discard(prefix)

    def claim(self, name: str, sequence: int) -> None:
        """Takes note that a znode is wanted by somebody here, and of its number."""
        self._claimed[name] = sequence
        self._at[sequence] = name

    def forget(self, name: str) -> None:
        sequence = self._claimed.pop(name, None)
        if sequence is not None and self._at.get(sequence) == name:
            del self._at[sequence]

    def is_claimed(self, name: str) -> bool:
        return name in self._claimed

    def is_wanted(self, name: str) -> bool:
        """Whether it is claimed, or may be of a create whose answer is still to be found out."""
        return name in self._claimed or name[:-SEQUENCE_DIGITS] in self._expected

    def ours_at(self, sequence: int) -> str | None:
        """The name of our contender with that number, if it is one of ours."""
        return self._at.get(sequence)

    async def find_lost(self, client: CoordinationClient, path: str, prefix: str) -> Node | None:
        """Finds, and claims, the znode of a create whose answer was lost.

        One that is claimed already is none: another contender of ours, which would have had to wait
        for it, has found that nobody wanted it, and deletes it.

        Args:
            client: whose session it was.
            path: the path.
            prefix: how its name begins: no other one's does.

        Raises:
            ConnectionLossError, SessionExpiredError: nothing is known yet.
        """
        await catch_up(client, path)
        try:
            names = await client.get_children(path)
            found = [join(path, name) for name in names if name.startswith(prefix)]
            stat = await client.exists(found[0]) if found else None
        except NoNodeError:
            return None
        if stat is None or self.is_claimed(basename(found[0])):
            return None
        node = Node.of(Created(found[0], stat), stat.ephemeral_owner)
        self.claim(node.name, node.sequence)
        return node


async def delete_until_gone(client: CoordinationClient, node: Node) -> None:
    """Pays a debt: deletes a znode, over as many connections as it takes, while it can be ours.

    Raises:
        AioleadError: it was refused.
    """
    await until_done(client, node.session_id, lambda: client.delete(node.path))


async def delete_lost(
    client: CoordinationClient,
    line: Line,
    path: str,
    prefix: str,
    session_id: int,
    *,
    already_looked: bool,
) -> None:
    """Pays the debt of a create whose answer was lost, and whose znode nobody wants.

    Args:
        client: whose session it was.
        line: the claims on the path.
        path: the path.
        prefix: how the name of the znode begins.
        session_id: the session; once it is over there is no debt.
        already_looked: whether it was searched for in vain. A create that was on its way over a
            connection that we gave up may be applied after that, so there is one more look when
            the session timeout has passed. (One that comes even later is found by the next
            contender of ours that would have to wait for it.)

    Raises:
        AioleadError: it was refused.
    """
    found: list[Node] = []

    async def find() -> None:
        node = await line.find_lost(client, path, prefix)
        if node is not None:
            found.append(node)

    if not already_looked and not await until_done(client, session_id, find):
        return
    if not found:
        await anyio.sleep(client.session_timeout)
        await until_done(client, session_id, find)
    for node in found:
        try:
            await delete_until_gone(client, node)
        finally:
            line.forget(node.name)
