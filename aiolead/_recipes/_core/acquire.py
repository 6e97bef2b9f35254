"""One attempt to acquire something: over lost connections and expired sessions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Unpack

import anyio

from ...abc import CoordinationClient, Hold, Watch
from ...errors import AioleadError, ConnectionLossError, LossReason, NoNodeError, Outcome
from ...model import SessionState
from .ephemeral import EphemeralNode, HoldOptions, NodeGone
from .error_policy import Action, Step, action_for, before_next_try
from .pending_delete import Departure, all_of
from .znode_registry import RegisteredNode


class Acquirable:
    """One attempt to acquire something, with the znodes that stand for it.

    Made for one acquisition, and for one tenure if that succeeds. Whatever is cancelled or cut
    when, `discard` is called in the end, at least once, and leaves nothing behind.
    """

    __slots__ = ()

    _client: CoordinationClient

    @property
    @abstractmethod
    def node(self) -> RegisteredNode:
        """The znode. Only while it is held."""

    @abstractmethod
    def hold(self, lost: Callable[[LossReason], object], **options: Unpack[HoldOptions]) -> Hold:
        """Registers it as held; to be called right after it was acquired.

        Args:
            lost: called once, synchronously, when the hold ends without a release.
            options: as for `abc.Lease.hold`.
        """

    @abstractmethod
    def discard(self) -> Departure | None:
        """Gives it up, held or not. Synchronous: the rest is the client's work.

        Returns:
            The pending delete of our znode; None if there is none to delete.
        """

    def when_asked_for(self, call: Callable[[], object]) -> None:
        """Registers a callback for a request to release; only contenders in a queue get any."""

    # --- acquiring -------------------------------------------------------------------------------

    def acquire(self) -> Coroutine[Any, Any, bool]:
        """Waits until it may be held, with a lease that lasts for a while; returns True.

        There is no checkpoint between that decision and the return.

        Raises:
            MixedLayoutError: a neighbour in the queue and we would not exclude each other.
            SequenceExhaustedError: the path has no more numbers.
            ServerError: what the server says to the create, such as `NoAuthError`.
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: leaves it as it is; `discard` it.

        On connection loss: goes on with the same znodes; after an expired session, from the start.
        """
        return self._persist(waits=True)

    async def try_acquire(self) -> bool:
        """Whether it may be held, without waiting for others. Otherwise as `acquire`.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(waits=False)
        raise ConnectionLossError(
            f"no server was reached for {self._client.session_timeout:g} seconds",
            outcome=Outcome.NOT_APPLIED,
        )

    async def _persist(self, *, waits: bool) -> bool:
        client = self._client
        unfollow = self._follow_session()
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
                        self._leave_watches()
                        for znode in self._znodes():
                            znode.unwatch()
                        await before_next_try(client, error, Step.ACQUIRE)
                else:
                    return won
                finally:
                    self._leave_watches()
        finally:
            unfollow()

    @abstractmethod
    def _has_just_created(self) -> bool:
        """Whether there was no wait, and no change of the session, since our last create."""

    @abstractmethod
    def _follow_session(self) -> Callable[[], object]:
        """Follows the state of the session; returns what ends that."""

    @abstractmethod
    async def _try(self, *, waits: bool) -> bool:
        """One attempt: whether it is ours; waits for others only if it `waits`.

        Called again, with whatever znodes there are, after a lost connection or a lost znode.

        Raises:
            NodeGone: a znode of ours is gone.
        """

    @abstractmethod
    def _znodes(self) -> Sequence[EphemeralNode]:
        """The znodes that stand for it, the youngest one last."""

    @abstractmethod
    def _start_again(self) -> None:
        """The session is over, or a znode of ours is gone: gives up the others."""

    @abstractmethod
    def _leave_watches(self) -> None:
        """Takes back the watches on others."""

    async def _await_lease(self) -> None:
        """Waits until enough is left of the lease to begin with.

        On a session that is young, or has written something lately, it has: then there is no round
        trip, and no checkpoint. Else it takes two writes, one after the other. A create of ours
        without a wait since is the first one. A waiter asks twice: that its server has reported its
        turn proves nothing about the session (see docs/safety.md).

        A renewal's second request is a `sync`, since its first one shows that the session lives.
        Here nothing is proven any more, and a leader that has just begun to end the session might
        answer a `sync` in the instant before that has an effect. A write it refuses.

        A znode that was not watched all the time is looked at besides: others may have deleted it.

        Raises:
            NodeGone: a znode of ours is gone.
        """
        client, znodes = self._client, self._znodes()
        writes = int(self._has_just_created())
        while True:
            if not self._has_just_created():
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


class NodeAcquirable(Acquirable):
    """An acquirable that has one or more znodes, none of which is its place in a queue.

    Args:
        client: the session.
    """

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client
        self._is_new = False
        self._wake = anyio.Event()
        self._watches: list[Watch] = []

    @property
    def node(self) -> RegisteredNode:
        """The last one that was created."""
        return max((znode.node for znode in self._znodes()), key=lambda node: node.token)

    def hold(self, lost: Callable[[LossReason], object], **options: Unpack[HoldOptions]) -> Hold:
        """Registers all of the znodes: the loss of one is the loss of the hold."""
        holds = [znode.hold(lost, **options) for znode in self._znodes()]
        return holds[0] if len(holds) == 1 else HoldGroup(holds)

    def discard(self) -> Departure | None:
        self._leave_watches()
        deletes = [znode.discard() for znode in self._znodes()]
        return all_of([delete for delete in deletes if delete is not None])

    def _start_again(self) -> None:
        for znode in self._znodes():
            znode.withdraw()

    # --- waiting ---------------------------------------------------------------------------------

    def _has_just_created(self) -> bool:
        return self._is_new

    def _follow_session(self) -> Callable[[], object]:
        self._is_new = False
        return self._client.backend.subscribe(self._on_state)

    def _on_state(self, _state: SessionState, _session_id: int) -> None:
        self._is_new = False
        self._wake.set()

    def _rouse(self, _event: object = None) -> None:
        """Something has happened: look again."""
        self._wake.set()

    async def _sleep(self) -> None:
        """Waits until something happens; not at all if it has since `_wake` was replaced."""
        self._is_new = False
        await self._wake.wait()

    def _watch(self) -> Watch:
        """A watch that rouses it, until `_leave_watches`."""
        watch = self._client.backend.make_watch(self._rouse)
        self._watches.append(watch)
        return watch

    def _leave_watches(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()


class HoldGroup:
    """Several holds as one; see `abc.Hold`."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    def lose(self, reason: LossReason) -> None:
        self._holds[0].lose(reason)

    def release(self) -> None:
        for hold in self._holds:
            hold.release()
