"""The pause after an item was released without being finished.

The claim stays for the length of the pause, and is deleted then. So no consumer of any library gets
the item meanwhile, no clock is compared with another one, and nothing has to be stored. If the
session ends, the servers delete the claim, which ends the pause, too.

The pause begins with a write to the claim, which proves that it is still ours and gives it a
version that no new claim has. So one delete, by version, is enough in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio

from ..abc import CoordinationClient, Watch
from ..errors import AioleadError, NoNodeError, SessionError
from .errors import in_background
from .naming import Naming, RegisteredNode, delete_until_gone

LONGEST = 60.0
"""The longest pause that grows by itself, in seconds."""


def pause_after(attempts: int, first: float) -> float:
    """How long an item rests after so many attempts, in seconds.

    Not at all after the first one: most items that are released once were released for a reason
    that is not theirs, such as a consumer that stops. Then `first`, doubled with each attempt.
    """
    return 0.0 if attempts < 2 else max(first, min(LONGEST, first * 2.0 ** min(attempts - 2, 30)))


class PausedDelete:
    """A delete of a claim that waits for `delay` seconds. A `Departure`, done as the wait begins.

    `data` is that of the claim during the pause. `over` is called synchronously when nothing is
    left to do.
    """

    def __init__(
        self,
        client: CoordinationClient,
        naming: Naming,
        node: RegisteredNode,
        watch: Watch | None,
        over: Callable[[], object],
        *,
        data: bytes,
        delay: float,
    ) -> None:
        self._client = client
        self._naming = naming
        self._node = node
        self._watch = watch
        self._over = over
        self._delay = delay
        self._version = -1
        """That of the claim during the pause; -1 while it is not known."""
        self._gone = anyio.Event()
        self._error: AioleadError | None = None
        self._callbacks: list[Callable[[], object]] = []
        self.is_done = False
        # By no version, since a task's notes change it. If an operator has deleted our claim, this
        # may write into that of another consumer. Of theirs, only what others are shown changes:
        # the answer says that it is not ours, and their delete goes on without the version.
        self._proof = client.set(node.path, data)
        self._proof.add_done_callback(self._answered)
        client.backend.spawn(self._run)

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def await_report(self, is_awaited: bool) -> None:
        """Nothing to report to the caller: the delete follows much later."""

    def _answered(self) -> None:
        if self._watch is not None:
            self._watch.close()
        error = self._proof.error()
        if error is None and self._node.is_shown_by(self._proof.result()):
            self._version = self._proof.result().version
        elif error is None or isinstance(error, NoNodeError):
            self._error = NoNodeError(self._node.path)
        if self._error is not None or isinstance(error, SessionError):
            self._gone.set()
        # After any other error the claim is taken for ours: the delete finds out.
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    async def _run(self) -> None:
        try:
            with anyio.move_on_after(self._delay):
                await self._gone.wait()
            if not self._gone.is_set():
                await in_background(self._node.path, self._delete)
        finally:  # also if the client is closed meanwhile
            self._over()

    async def _delete(self) -> None:
        client, node = self._client, self._node
        with suppress(AioleadError):
            await self._proof
        if self._version > 0 and client.session_id == node.session_id:
            try:
                await client.delete(node.path, version=self._version)
            except NoNodeError:
                return
            except AioleadError:
                pass  # the answer is lost, or others have set the data
            else:
                return
        await delete_until_gone(client, self._naming, node)
