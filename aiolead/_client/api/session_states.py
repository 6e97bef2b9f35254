"""The states of a client's session, as they change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

import anyio
import anyio.lowlevel

from ..._util.escaping import repr_with_session
from ...errors import UsageError
from ...model import SessionState
from ..core import Core


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A change of a session's state.

    `session_id` is the session that it is about; 0 while there is none.
    """

    state: SessionState
    session_id: int

    def __repr__(self) -> str:
        return repr_with_session(self)


class SessionStates(AsyncIterator[SessionChange]):
    """The states of a client's session, from the present one on.

    The latest state wins: a slow observer may miss that a connection was lost and regained, but
    never the last state, and never an expiry, which comes before anything of the next session. The
    iteration ends when the client is closed or its credentials were refused.

    Use as a context manager: `async with client.observe() as states: async for change in states:`.

    Threads and forks: any thread may read `current`; everything else raises `UsageError`
    outside of the client's event loop.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: list[SessionChange] = []
        self._wake = anyio.Event()
        self._open = False
        self._over = False

    @property
    def current(self) -> SessionChange:
        """The state now, independent of the iteration."""
        return SessionChange(self._core.machine.state, self._core.machine.session_id)

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        # No checkpoint from here on: a cancelled `__aenter__` has no `__aexit__`.
        self._unsubscribe = self._core.subscribe(self._on_state)
        self._pending = [self.current]
        self._open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._core.leaves_here(exc_info):
            return
        self._unsubscribe()
        self._over = True
        self._wake.set()

    def _on_state(self, state: SessionState, session_id: int) -> None:
        if self._pending and self._pending[-1].state is not SessionState.EXPIRED:
            self._pending.pop()
        self._pending.append(SessionChange(state, session_id))
        # Between two iterations at most one expiry matters: the last.
        del self._pending[:-2]
        self._wake.set()

    async def __anext__(self) -> SessionChange:
        self._core.check_home()
        if not self._open:
            raise UsageError(
                "the states were not opened: enter them by `async with` (in a thread, `with`)"
            )
        if self._pending or self._over:
            await anyio.lowlevel.checkpoint()
        while not self._over and not self._pending:
            self._wake = anyio.Event()
            await self._wake.wait()
        if self._over:
            raise StopAsyncIteration
        change = self._pending.pop(0)
        self._over = change.state.is_final
        return change
