"""Several holds, or several answers, as one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from ..abc import Hold, Reply
from ..errors import AioleadError, LossReason


class Together:
    """Several znodes that are held as one: see `abc.Hold`."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    def lose(self, reason: LossReason) -> None:
        self._holds[0].lose(reason)

    def release(self) -> None:
        for hold in self._holds:
            hold.release()


def all_of(replies: Sequence[Reply[None]]) -> Reply[None] | None:
    """The answer that is there when all are: None, or the first error; None if there are none."""
    if len(replies) < 2:
        return replies[0] if replies else None
    return _All(replies)


class _All:
    def __init__(self, replies: Sequence[Reply[None]]) -> None:
        self._replies = replies

    def __await__(self) -> Generator[Any, Any, None]:
        for reply in self._replies:
            yield from reply.__await__()

    @property
    def is_done(self) -> bool:
        return all(reply.is_done for reply in self._replies)

    def result(self) -> None:
        error = self.error()
        if error is not None:
            raise error

    def error(self) -> AioleadError | None:
        errors = [reply.error() for reply in self._replies]
        return next((error for error in errors if error is not None), None)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        # They are answered in any order where some were never sent.
        left = len(self._replies)

        def one_more() -> None:
            nonlocal left
            left -= 1
            if not left:
                callback()

        for reply in self._replies:
            reply.add_done_callback(one_more)
