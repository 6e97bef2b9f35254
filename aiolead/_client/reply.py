"""The answer to a request, as something to await."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from .._session.depot import Call

T = TypeVar("T")


class PendingReply(Call[T]):
    """A call whose answer can be awaited; see `aiolead.abc.Reply`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        if self.is_done:
            await anyio.lowlevel.checkpoint()
        else:
            # Made only here, since most pipelined requests are answered before they are awaited.
            event = anyio.Event()
            self.add_done_callback(event.set)
            await event.wait()
        return self.result()
