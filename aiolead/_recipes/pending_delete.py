"""A delete of our znode that goes on until the znode is gone; see `error_policy`.

A refusal is reported once: to the caller that waits (`Departure.await_report`), or in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import anyio

from ..abc import CoordinationClient, Reply
from ..errors import AioleadError, NoNodeError, ReleaseError
from .errors import Action, Step, action_for, log_refusal, pause, refused_release


class Departure(Protocol):
    """A pending delete, or several as one."""

    @property
    def is_done(self) -> bool:
        """Whether the znode is known to be gone, or the delete was refused."""
        ...

    def error(self) -> AioleadError | None:
        """The servers' answer, a `ReleaseError` if they refused. Only valid once `is_done`."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback, called synchronously; at once if it is done."""
        ...

    def await_report(self, is_awaited: bool) -> None:
        """Set whether a caller waits, and so reports a refusal; otherwise it is logged."""
        ...


class PendingDelete:
    """The delete of one znode, over as many connections as it takes. A `Departure`.

    `request` is the delete; or, with `delete`, a write that proves whose znode it is. That is
    called with its answer, and sends the delete, or returns None if the znode is another's. If an
    answer is lost, or the server is overloaded, or the proof is refused, the client runs `pay`,
    which deletes later and raises a refusal. `over` is called synchronously when nothing is left to
    do.
    """

    __slots__ = (
        "_callbacks",
        "_client",
        "_delete",
        "_error",
        "_is_awaited",
        "_over",
        "_path",
        "_pay",
        "_request",
        "is_done",
    )

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        request: Reply[Any],
        pay: Callable[[], Awaitable[object]],
        over: Callable[[], object],
        delete: Callable[[Any], Reply[None] | None] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._request = request
        self._delete = delete
        self._pay = pay
        self._over = over
        self._callbacks: tuple[Callable[[], object], ...] = ()
        self._error: AioleadError | None = None
        self._is_awaited = False
        self.is_done = False
        request.add_done_callback(self._answered)

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks = (*self._callbacks, callback)

    def await_report(self, is_awaited: bool) -> None:
        self._is_awaited = is_awaited

    def _answered(self) -> None:
        error, delete = self._request.error(), self._delete
        self._delete = None
        if error is None:
            if delete is None:
                self._end(None)
            else:
                self._proven(delete(self._request.result()))
            return
        action = action_for(error, Step.RELEASE)
        is_proof_refused = delete is not None and action is Action.REFUSED
        if is_proof_refused or action in (Action.RECONNECT, Action.PAUSE):
            self._spawn_payment()
        else:
            self._end(refused_release(self._path, error) or error)

    def _proven(self, request: Reply[None] | None) -> None:
        if request is None:
            self._end(NoNodeError(self._path))
        else:
            self._request = request
            request.add_done_callback(self._answered)

    def _spawn_payment(self) -> None:
        self._client.backend.spawn(self._pay_later, self._paid)

    async def _pay_later(self) -> None:
        error = self._request.error()
        if error is not None and action_for(error, Step.RELEASE) is Action.PAUSE:
            await anyio.sleep(pause(self._client, error))
        await self._pay()

    def _paid(self, error: AioleadError | None) -> None:
        # Unknown who deleted the znode: the lost delete may have been applied.
        self._end(refused_release(self._path, error))

    def _end(self, error: AioleadError | None) -> None:
        self._error = error
        self.is_done = True
        self._over()
        if isinstance(error, ReleaseError) and not self._is_awaited:
            log_refusal(error)
        callbacks, self._callbacks = self._callbacks, ()
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
        """The first refusal, with the others as notes; else the first error."""
        errors = [error for error in self._errors() if error is not None]
        refusals = [error for error in errors if isinstance(error, ReleaseError)]
        if not refusals:
            return errors[0] if errors else None
        first, *others = refusals
        if not getattr(first, "__notes__", None):
            for other in others:
                first.add_note(str(other))
        return first

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

    def await_report(self, is_awaited: bool) -> None:
        for part in self._parts:
            part.await_report(is_awaited)


def all_of(parts: Sequence[Departure]) -> Departure | None:
    """All of them as one; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return _Several(parts)
