"""Waiting and being woken, by anyio alone: the plain versions of `waiting`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ...errors import AioleadError

Wakeup = anyio.Event


def current_task_id() -> int:
    return anyio.get_current_task().id


async def wait_shielded(
    wakeup: anyio.Event, seconds: float, _scope: anyio.CancelScope | None = None
) -> None:
    with anyio.move_on_after(seconds, shield=True):
        await wakeup.wait()


def check_cancelled() -> Generator[Any, Any, None]:
    return checkpoint_if_cancelled().__await__()


@final
class EventFuture:
    """A `ReplyFuture` made of an event."""

    __slots__ = ("_error", "_event", "_result")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._result: Any = None
        self._error: AioleadError | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from self._event.wait().__await__()
        if self._error is not None:
            raise self._error
        return self._result

    def done(self) -> bool:
        return self._event.is_set()

    def set_result(self, result: Any) -> None:
        self._result = result
        self._event.set()

    def set_exception(self, error: AioleadError) -> None:
        self._error = error
        self._event.set()


reply_future = EventFuture
