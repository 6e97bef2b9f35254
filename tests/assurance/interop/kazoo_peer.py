"""The real kazoo, each of its clients in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import anyio
from assurance.interop.peers import PATIENCE, Pending
from kazoo.client import KazooClient

T = TypeVar("T")


class Kazoo:
    """A client of kazoo, and the thread that calls it: one thing after the other.

    Attributes:
        client: the client. Call it in `begin` and `do` only.
    """

    def __init__(self, connect_string: str) -> None:
        self.client: Any = KazooClient(connect_string, timeout=8.0)
        self._thread = ThreadPoolExecutor(1)

    def begin(self, act: Callable[[], T]) -> Pending[T]:
        """Has it do something that may take long."""
        return Pending(self._thread.submit(act))

    async def do(self, act: Callable[[], T]) -> T:
        """Has it do something, and waits for the answer."""
        return await self.begin(act).wait()

    async def __aenter__(self) -> Self:
        await self.do(lambda: self.client.start(timeout=PATIENCE))
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(PATIENCE, shield=True):
            await self.do(self.client.stop)
            await self.do(self.client.close)
        self._thread.shutdown()
