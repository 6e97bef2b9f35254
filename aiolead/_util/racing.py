"""Opens the first of several addresses that can be opened, as RFC 8305 says (Happy Eyeballs)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeVar

import anyio

from .tasks import AnyTaskGroup

T = TypeVar("T", bound="Closable")

NEXT_AFTER = 0.25
"""How long the attempts at earlier addresses go on before the next one begins, in seconds."""


class Closable(Protocol):
    async def aclose(self) -> None: ...


def by_family(addresses: Sequence[str]) -> list[str]:
    """Order addresses for attempts: IPv6 and IPv4 in turn, IPv6 first."""
    v6 = [address for address in addresses if ":" in address]
    v4 = [address for address in addresses if ":" not in address]
    pairs = chain.from_iterable(zip_longest(v6, v4))
    return [address for address in pairs if address is not None]


async def open_first(
    addresses: Sequence[str],
    open_at: Callable[[str], Awaitable[T | None]],
    open_group: Callable[[], AbstractAsyncContextManager[AnyTaskGroup, Any]],
) -> tuple[str, T] | None:
    """Return the first address that could be opened, with what was opened; None if none could be.

    An attempt begins when the one before has failed, and at the latest after `NEXT_AFTER`. All
    others are cancelled once one has succeeded.

    Args:
        addresses: in the order in which to try them.
        open_at: opens an address; returns None if that fails. The caller bounds its time.
        open_group: makes the task group in which the attempts run; not used for one address.

    Cancellation: closes what was opened.
    """
    if len(addresses) == 1:
        only = await open_at(addresses[0])
        return None if only is None else (addresses[0], only)
    winners: list[tuple[str, T]] = []

    async def attempt(address: str, ended: anyio.Event) -> None:
        try:
            opened = await open_at(address)
            if opened is None:
                return
            if winners:  # another one has just succeeded
                await _abort(opened)
                return
            winners.append((address, opened))
            tasks.cancel_scope.cancel()
        finally:
            ended.set()

    try:
        async with open_group() as tasks:
            for address in addresses:
                if winners:
                    break
                ended = anyio.Event()
                tasks.start_soon(attempt, address, ended)
                with anyio.move_on_after(NEXT_AFTER):
                    await ended.wait()
    except BaseException:
        for _, opened in winners:
            await _abort(opened)
        raise
    return winners[0] if winners else None


async def _abort(opened: Closable) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()  # nothing waits for the other end
        await opened.aclose()
