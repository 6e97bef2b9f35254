"""What tries to hold something with ephemeral znodes that stand in no line themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import anyio

from ...abc import CoordinationClient
from ...errors import AioleadError, ConnectionLossError, NoNodeError, Outcome
from ...model import SessionState
from .ephemeral import EphemeralNode, NodeGone
from .error_policy import Action, Step, action_for, before_next_try


class AcquireLoop:
    """A candidate of that kind: it gets over lost links and expired sessions, and proves its lease.

    Args:
        client: the session.
    """

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client
        self._wake = anyio.Event()
        self._is_new = False
        """Whether we have not waited since the last of our creates, nor changed connections."""

    async def reach_front(self) -> bool:
        """Waits until it may be held, with a lease that lasts for a while; gives True.

        Cancellation: leaves it as it is; `discard` it.

        On connection loss: goes on; after an expired session, from the start.
        """
        return await self._persist(waits=True)

    async def try_front(self) -> bool:
        """Says whether it may be held, without waiting for others.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(waits=False)
        raise ConnectionLossError(
            f"no server was reached for {self._client.session_timeout:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )

    async def _persist(self, *, waits: bool) -> bool:
        self._is_new = False
        client = self._client
        unsubscribe = client.backend.subscribe(self._on_state)
        try:
            while True:
                try:
                    if client.state is not SessionState.CONNECTED:
                        await client.ready()
                    won = await self._try(waits=waits)
                    if won:
                        await self._await_lease()
                except NodeGone:
                    self._start_again()
                except AioleadError as error:
                    if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                        self._start_again()
                    else:
                        for znode in self._znodes():
                            znode.unwatch()
                        await before_next_try(client, error, Step.ACQUIRE)
                else:
                    return won
                finally:
                    self._leave_watches()
        finally:
            unsubscribe()

    @abstractmethod
    async def _try(self, *, waits: bool) -> bool:
        """Does what makes it ours, and says whether it is; waits for others only if it `waits`.

        Called again, with whatever znodes there are, after the connection was lost, or a znode.

        Raises:
            NodeGone: a znode of ours is not there any more.
        """

    @abstractmethod
    def _znodes(self) -> Sequence[EphemeralNode]:
        """Those that stand for what is held; the last of them is the youngest."""

    @abstractmethod
    def _start_again(self) -> None:
        """The session is over, or one of our znodes is gone: gives up the others."""

    @abstractmethod
    def _leave_watches(self) -> None:
        """Takes back the watches on others."""

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self._is_new = False
        self._wake.set()

    def _rouse(self, _event: object = None) -> None:
        """Something has happened: look again."""
        self._wake.set()

    async def _sleep(self) -> None:
        """Waits until something happens; not at all if it has since `_wake` was made anew."""
        self._is_new = False
        await self._wake.wait()

    async def _await_lease(self) -> None:
        """Waits until enough is left of the lease to begin with: see `Contender._await_lease`.

        Raises:
            NodeGone: a znode of ours is not there any more.
        """
        client, znodes = self._client, self._znodes()
        writes = int(self._is_new)
        while True:
            if not self._is_new:
                for znode in znodes:
                    znode.watch()
            for znode in znodes:
                await znode.looked_at()
            if client.backend.lease.is_enough():
                break
            if writes >= 2:
                await anyio.sleep(client.session_timeout / 32)
            for znode in znodes:
                znode.check()
            try:
                await client.check(znodes[-1].node.path)
            except NoNodeError:
                znodes[-1].seen_gone()
                raise NodeGone from None
            writes += 1
        for znode in znodes:
            znode.check()
