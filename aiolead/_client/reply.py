"""The answer to a request, as something to await."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .._session.depot import Call
from .._tasks import Wakeup

T = TypeVar("T")


class PendingReply(Call[T]):
    """A call whose answer can be awaited; see `aiolead.abc.Reply`."""

    __slots__ = ("_was_awaited",)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        if not self._done:
            wakeup = Wakeup()
            self.add_done_callback(wakeup.set)
            await wakeup.wait()
        elif hasattr(self, "_was_awaited"):
            await checkpoint()
        else:
            # No turn of the event loop for each of a thousand that were answered at once. Nobody is
            # kept waiting by that for long: for each of them, somebody had to be waited for.
            await checkpoint_if_cancelled()
        self._was_awaited = True
        return self.result()
