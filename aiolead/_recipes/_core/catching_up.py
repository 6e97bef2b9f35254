"""Make the connected server show every applied write, ours over earlier connections included.

At a follower a `sync` does that. A leader answers a `sync` of its own clients as a plain read
(`matchSyncs` in ZooKeeper's `CommitProcessor`), before it applies what is proposed or committed. A
read behind it may miss a write whose answer was lost, and show a znode of ours that is already
gone. A read behind a write of our own shows all of that, on every server.

The write also makes the leader refuse what our session still has on its way through another server
(`SessionMovedException`): nothing that was sent before it is applied after it.
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
    """Wait for a write that changes nothing, at any `path`: it need not exist or be readable.

    Where only the time of a read counts, or a conditional write follows, a `sync` is enough. An
    error means that nothing is known, or that the server has not put the write to the quorum: it is
    overloaded, or read-only.
    """
    with suppress(NoNodeError, NoAuthError):  # the quorum has refused it
        await client.check(path)


async def caught_up(client: CoordinationClient, path: str, read: Callable[[], Awaitable[R]]) -> R:
    """Return a `read` that shows every applied write; retry after errors that pass."""
    while True:
        try:
            await client.ready()
            await catch_up(client, path)
            return await read()
        except AioleadError as error:
            await before_next_try(client, error, Step.FOLLOW)
