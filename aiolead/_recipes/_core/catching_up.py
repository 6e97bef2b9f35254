"""Makes the connected server show what others, and we over an earlier connection, have had applied.

A `sync` does that at a follower. A leader answers the `sync` of its own clients as a plain read
(`matchSyncs` of ZooKeeper's `CommitProcessor`), before what is proposed or committed is applied. So
a read behind it may miss a write of ours whose answer was lost, and show a znode of ours that is
gone already. Behind a write of our own a read shows all of that, on every server.

A write has a second effect: the leader refuses what our session still has on its way over another
server (`SessionMovedException`). Nothing that we have sent before is applied after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ...abc import CoordinationClient
from ...errors import AioleadError, NoAuthError, NoNodeError
from .error_policy import Step, before_next_try

R = TypeVar("R")


async def catch_up(client: CoordinationClient, path: str) -> None:
    """Waits for a write that changes nothing.

    It costs a write: where only the time of a read counts, or what follows is a write under a
    condition, `sync` does.

    Args:
        client: the session.
        path: any znode; it need not exist, nor be readable.

    Raises:
        ConnectionLossError, SessionError: nothing is known.
        AioleadError: the server has not put it to the quorum: it is overloaded, or read-only.
    """
    with suppress(NoNodeError, NoAuthError):  # it is the quorum that has refused it
        await client.check(path)


async def caught_up(client: CoordinationClient, path: str, read: Callable[[], Awaitable[R]]) -> R:
    """Makes a read that shows all that was applied, over as many connections as it takes.

    Args:
        client: the session.
        path: as for `catch_up`.
        read: the read; made again after errors that pass.
    """
    while True:
        try:
            await client.ready()
            await catch_up(client, path)
            return await read()
        except AioleadError as error:
            await before_next_try(client, error, Step.FOLLOW)
