"""Whether a server was reached while somebody waited: what the end of a wait has to say."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, final

import anyio

from ...abc import CoordinationClient
from ...errors import AcquireTimeout, AioleadError, Blame, ConnectionLossError, Outcome
from ...model import SessionState
from .candidate import Candidate


@final
class Reached:
    """Follows, from entering to leaving, whether the client is connected at any time.

    Args:
        client: the session.
    """

    __slots__ = ("_client", "_unsubscribe", "_was_connected")

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client

    def __enter__(self) -> Self:
        self._was_connected = self._client.state is SessionState.CONNECTED
        self._unsubscribe: Callable[[], None] | None = None
        if not self._was_connected:  # mostly it is, and then thousands need no subscription
            self._unsubscribe = self._client.backend.subscribe(self._on_state)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def _on_state(self, state: SessionState, _session_id: int) -> None:
        self._was_connected = self._was_connected or state is SessionState.CONNECTED

    def timeout(self, recipe: object, timeout: float) -> AcquireTimeout:
        """What to raise when the time is up.

        Args:
            recipe: what was waited for.
            timeout: how long, in seconds.
        """
        try:
            self._client.backend.check_connected()
        except AioleadError as error:
            if self._was_connected:
                text = f"{recipe!r}: not our turn within {timeout:g} seconds; now: {error}"
            else:
                text = f"{recipe!r}: no server was reached within {timeout:g} seconds: {error}"
            late = AcquireTimeout(text)
            late.blame = Blame.NETWORK
            return late
        return AcquireTimeout(f"{recipe!r}: not our turn within {timeout:g} seconds")


async def try_at_once(client: CoordinationClient, candidate: Candidate) -> bool:
    """Says whether a candidate may hold, without waiting for others, nor for a server.

    Raises:
        ConnectionLossError: there is no connection, or it was lost meanwhile. Nothing is held.
    """
    client.backend.check_connected()
    with anyio.CancelScope() as scope:

        def on_state(state: SessionState, _session_id: int) -> None:
            if state is not SessionState.CONNECTED:
                scope.cancel()

        unsubscribe = client.backend.subscribe(on_state)
        try:
            return await candidate.try_front()
        finally:
            unsubscribe()
    client.backend.check_connected()
    raise ConnectionLossError(
        "the connection was lost before it was known whether it is our turn: try again",
        outcome=Outcome.NOT_APPLIED,
    )
