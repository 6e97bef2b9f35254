"""Reading what others were told: a barrier that holds on every server.

A `sync` makes a follower apply all that was committed before. A leader answers the `sync` of its
own clients as a read (`matchSyncs` of its CommitProcessor), maybe before it has applied what it has
just had committed. A write is answered behind all that was committed before it, on every server.
"""

from __future__ import annotations

from contextlib import suppress

from ..abc import CoordinationClient
from ..errors import NoAuthError, NoNodeError


async def catch_up(client: CoordinationClient, path: str) -> None:
    """Waits until the connected server has applied all that anybody was told before this call.

    It is a transaction that changes nothing; that it may fail is of no interest. It costs a write:
    where only the time of a read counts, or what follows is a write under a condition, `sync` does.

    Args:
        client: the session.
        path: any znode; it need not exist, nor be readable.

    Raises:
        ConnectionLossError: ask again.
        SessionExpiredError: the session is over.
        NotReadOnlyError: the server is a read-only one, and knows nothing of the others.
    """
    with suppress(NoNodeError, NoAuthError):
        await client.check(path)
