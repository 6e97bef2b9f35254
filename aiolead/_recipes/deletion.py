"""The delete of a znode of ours, as something to wait for until the znode is known to be gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ..abc import CoordinationClient, Reply
from ..errors import AioleadError, ConnectionLossError, NoNodeError


class Departure(Protocol):
    """That something of ours goes."""

    @property
    def is_done(self) -> bool:
        """Whether it is known to be gone, or refused to go."""
        ...

    def error(self) -> AioleadError | None:
        """What the servers said, None for nothing. Only once `is_done`."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Has it called, synchronously, as soon as that is known: at once, if it is."""
        ...


class Deletion:
    """The delete of one znode, over as many connections as it takes. A `Departure`.

    A delete whose answer was lost says nothing: the znode may be there still. So the debt that is
    left then belongs to it.

    Args:
        client: the session.
        delete: the answer to the delete.
        pay: deletes it later, where that answer is lost; runs as a job of the client's.
        over: called, synchronously, when there is nothing left to do.
    """

    __slots__ = ("_callbacks", "_client", "_delete", "_error", "_over", "_pay", "is_done")

    def __init__(
        self,
        client: CoordinationClient,
        delete: Reply[None],
        pay: Callable[[], Awaitable[object]],
        over: Callable[[], object],
    ) -> None:
        self._client = client
        self._delete = delete
        self._pay = pay
        self._over = over
        self._callbacks: list[Callable[[], object]] = []
        self._error: AioleadError | None = None
        self.is_done = False
        delete.add_done_callback(self._answered)

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def _answered(self) -> None:
        error = self._delete.error()
        if isinstance(error, ConnectionLossError):
            self._client.spawn(self._pay_later)
        else:
            self._end(error)

    async def _pay_later(self) -> None:
        try:
            await self._pay()
        finally:
            # Whose doing it is that the znode is gone, nobody knows.
            self._end(None)

    def _end(self, error: AioleadError | None) -> None:
        self._error = error
        self.is_done = True
        self._over()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class _Several:
    """Several departures as one, which ends with the last of them."""

    def __init__(self, parts: Sequence[Departure]) -> None:
        self._parts = parts

    @property
    def is_done(self) -> bool:
        return all(part.is_done for part in self._parts)

    def error(self) -> AioleadError | None:
        """The first error."""
        return next((error for error in self._errors() if error is not None), None)

    def _errors(self) -> list[AioleadError | None]:
        return [part.error() for part in self._parts]

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        left = len(self._parts)

        def one_more() -> None:
            nonlocal left
            left -= 1
            if not left:
                callback()

        for part in self._parts:
            part.add_done_callback(one_more)


class _Either(_Several):
    def error(self) -> AioleadError | None:
        """What is wrong with both, or with one but that it was not there."""
        errors = self._errors()
        if all(isinstance(error, NoNodeError) for error in errors):
            return errors[0]
        return next((e for e in errors if e is not None and not isinstance(e, NoNodeError)), None)


def all_of(parts: Sequence[Departure]) -> Departure | None:
    """That all of them go; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return _Several(parts)


def whichever_there_is(one: Departure | None, other: Departure) -> Departure:
    """That the one of two goes that there is: that the other was not there is no error."""
    return other if one is None else _Either((one, other))
