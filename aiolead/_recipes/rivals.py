"""Whom a contender waits for: read once, when it has waited in vain or for long.

Nothing depends on the answer: it is for people. So a read is bounded in time, and an error of it
only means that the holder stays unknown.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from ..abc import CoordinationClient
from ..errors import AioleadError
from ..events import shown_holder
from ..model import SessionState, Stat
from ..paths import join, sequence_of
from .kernel import in_order
from .names import Names
from .reading import listed, participant

LONGEST = 1.0
"""The longest time for a read, in seconds."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A holder, as read from its znode.

    Attributes:
        identity: its name for itself.
        since: when its znode was created, in seconds since 1970, by the servers' clocks. It has
            held for so long at most, since it may have waited first.
        path: its znode.
        is_ownerless: whether no session owns it, so that it never goes away by itself.
        position: how many contenders were before us, with the holder; None if there is no queue.
    """

    identity: str
    since: float
    path: str
    is_ownerless: bool
    position: int | None = None

    @property
    def age(self) -> float:
        """The age of its znode in seconds, as far as the clocks of servers and client agree."""
        return max(0.0, time.time() - self.since)

    def __str__(self) -> str:
        return shown_holder(self.identity, self.age, self.position or 0)


HolderQuery: TypeAlias = Callable[[], Awaitable[Rival | None]]
"""Reads the holder that a place waits for; None if there is none any more."""


async def ask(client: CoordinationClient, query: HolderQuery | None) -> Rival | None:
    """Return the holder; None if it is unknown, also by an error or for lack of time.

    Cancellation: propagates, as from any wait.
    """
    if query is None or client.state is not SessionState.CONNECTED:
        return None
    with anyio.move_on_after(min(LONGEST, client.session_timeout / 8)):
        try:
            return await query()
        except AioleadError:
            return None
    return None


def rival(path: str, data: bytes, stat: Stat, position: int | None = None) -> Rival:
    who = participant(path, data, stat, is_holder=True)
    is_ownerless = not stat.ephemeral_owner
    return Rival(who.identity, stat.ctime / 1000, path, is_ownerless, position)


async def front_of_queue(
    client: CoordinationClient, path: str, names: Names, own: str
) -> Rival | None:
    """The first contender before `own`, which may have left. Before a reader only writers count."""
    line = in_order(path, await listed(client.get_children(path)), names)
    if names.role.shares and names.is_reader(own):
        line = [name for name in line if not names.is_reader(name)]
    number = sequence_of(own)
    before = [name for name in line if (sequence_of(name) or 0) < (number or 0)]
    if not before:
        return None
    first = join(path, before[0])
    data, stat = await client.get(first)
    return rival(first, data, stat, len(before))


async def only_holder(client: CoordinationClient, path: str) -> Rival | None:
    """The owner of a znode that only one holder can have."""
    data, stat = await client.get(path)
    return rival(path, data, stat)


async def some_holder(client: CoordinationClient, folder: str) -> Rival | None:
    """One of several holders, each of whom has a znode in a folder."""
    names = await listed(client.get_children(folder))
    return await only_holder(client, join(folder, min(names))) if names else None
