"""Waits that no cancellation ends. Each must wait for something that ends by itself."""

from __future__ import annotations

import anyio


def shielded() -> anyio.CancelScope:
    """A scope that no scope around it cancels."""
    return anyio.CancelScope(shield=True)


async def wait_through(event: anyio.Event) -> None:
    """Wait for an event; a cancellation by asyncio itself is raised only then."""
    cancelled: BaseException | None = None
    with shielded():
        while not event.is_set():
            try:
                await event.wait()
            except anyio.get_cancelled_exc_class() as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
