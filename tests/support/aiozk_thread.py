"""The real aiozk, each of its clients on an event loop of asyncio in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import aiozk
import anyio

from support.curator import PATIENCE, Pending

T = TypeVar("T")


class Aiozk:
    """A client of aiozk.

    Attributes:
        client: the client. Call it in `begin` and `do` only.
    """

    def __init__(self, connect_string: str) -> None:
        servers, _, chroot = connect_string.partition("/")
        # Its annotations, where it has none, are guessed from the defaults.
        make: Any = aiozk.ZKClient
        self._make: Callable[[], Any] = lambda: make(servers, chroot=chroot, session_timeout=8.0)
        self.client: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def begin(self, act: Callable[[], Awaitable[T]]) -> Pending[T]:
        """Has it do something that may take long, beside all else that it does."""

        async def run() -> T:
            return await act()

        coroutine: Coroutine[Any, Any, T] = run()
        return Pending(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def do(self, act: Callable[[], Awaitable[T]]) -> T:
        """Has it do something, and waits for the answer."""
        return await self.begin(act).wait()

    async def _start(self) -> None:
        self.client = self._make()
        await self.client.start()

    async def __aenter__(self) -> Self:
        self._thread.start()
        await self.do(self._start)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(PATIENCE, shield=True):
            await self.do(self.client.close)
            # What a waiter or a monitor of its recipes still does ends here.
            await self.do(_cancel_others)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
