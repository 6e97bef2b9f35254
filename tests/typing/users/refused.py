"""What type checkers refuse, and how each says so. A comment that is not needed is an error."""

from __future__ import annotations

import aiolead


async def names(client: aiolead.Client) -> None:
    aiolead.Lok()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    aiolead.Lock(client, b"/lock")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    aiolead.Election(client, "/e", leader=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def holding(client: aiolead.Client) -> int:
    lock = aiolead.Lock(client, "/lock")
    with lock:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass
    async with lock.try_acquire() as held:
        # Somebody else may hold it.
        return held.token  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


async def connecting() -> None:
    aiolead.connect("zk1", session_timeout="10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    aiolead.blocking.connect("zk1", session_timout=10)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    aiolead.blocking.connect("zk1", backend="uvloop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
