"""One attempt to acquire something, across lost connections and expired sessions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio

from .._util.escaping import in_seconds
from ..abc import CoordinationClient, Hold, Watch
from ..errors import AioleadError, ConnectionLossError, LossReason, NoNodeError, Outcome
from ..model import ACL, SessionState, WatchEvent
from .errors import Action, Step, action_for, before_next_try
from .naming import Naming
from .pending_delete import Departure, all_of
from .znode import Holder, HoldOptions, NodeGone, Znode
from .znode_registry import RegisteredNode


class Acquirable:
    """One attempt to acquire something, with the znodes that stand for it.

    Made for one acquisition, and for one tenure if that succeeds. `discard` is always called in the
    end, at least once, and leaves nothing behind, whatever was cancelled or lost before.
    """

    __slots__ = ()

    _client: CoordinationClient

    is_asked_for = False
    """Whether others ask for a release; only contenders in a queue are asked."""

    @property
    @abstractmethod
    def node(self) -> RegisteredNode:
        """The znode; only valid while it is held."""

    @abstractmethod
    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        """Register it as held, right after it was acquired."""

    @abstractmethod
    def discard(self) -> Departure | None:
        """Abandon the attempt or hold; synchronous. Return its pending delete, if any."""

    def obstacle(self) -> str:
        """Return a clause for messages that names the znode it waits for; empty if unknown."""
        return ""

    # --- acquiring -------------------------------------------------------------------------------

    def acquire(self) -> Coroutine[Any, Any, bool]:
        """Wait until it may be held, with a lease that lasts for a while; return True.

        There is no checkpoint between that decision and the return. Raises `MixedLayoutError`,
        `SequenceExhaustedError`, `SessionError`, or the `ServerError` that answers the create.

        Cancellation: leaves its znodes; call `discard`. On connection loss: goes on with the same
        znodes; after an expired session, from the start.
        """
        return self._persist(waits=True)

    async def try_acquire(self) -> bool:
        """As `acquire`, but without waiting for others: return whether it may be held.

        On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
        """
        with anyio.move_on_after(self._client.session_timeout):
            return await self._persist(waits=False)
        raise ConnectionLossError(
            f"no server was reached for {in_seconds(self._client.session_timeout)}",
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
            if unfollow is not None:
                unfollow()

    @abstractmethod
    def _has_just_created(self) -> bool:
        """Whether neither a wait nor a change of the session came after our last create."""

    @abstractmethod
    def _follow_session(self) -> Callable[[], object] | None:
        """Follow the state of the session; return a function that ends this, if that is needed."""

    @abstractmethod
    async def _try(self, *, waits: bool) -> bool:
        """Make one attempt; return whether it succeeded. Wait for others only if `waits`.

        Called again, with whatever znodes exist, after a lost connection or a lost znode. Raises
        `NodeGone` if a znode of ours is gone.
        """

    @abstractmethod
    def _znodes(self) -> Sequence[Znode]:
        """The znodes that stand for it, the newest last."""

    @abstractmethod
    def _start_again(self) -> None:
        """Give up the other znodes: the session is over, or one of ours is gone."""

    @abstractmethod
    def _leave_watches(self) -> None:
        """Close the watches on others."""

    async def _await_lease(self) -> None:
        """Wait until enough of the lease is left to begin with.

        A session that is young, or has written lately, has enough: then there is no round trip and
        no checkpoint. Otherwise two writes are needed, one after the other; our create counts as
        the first if no wait followed it. A waiter needs both: the server's report that its turn has
        come proves nothing about the session (docs/explanation/safety.md). If the proof takes two
        rounds, more writes follow until half a tick has passed.

        A renewal may end with a `sync`, since its first request shows that the session lives. Here
        nothing is proven any more, and a leader that has just begun to end the session might answer
        a `sync` before that takes effect. It refuses a write.

        A znode that was not watched all the time is also read: others may have deleted it. Raises
        `NodeGone` if a znode of ours is gone.
        """
        client, znodes = self._client, self._znodes()
        is_new = self._has_just_created()
        writes = int(is_new)
        while True:
            if not is_new:
                for znode in znodes:
                    znode.watch()
            for znode in znodes:
                if znode.look is not None:
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
            is_new = self._has_just_created()
        for znode in znodes:
            znode.check()


class NodeAcquirable(Acquirable):
    """An acquirable with one or more znodes, none of which is a place in a queue.

    They are at or below `path`, with the data `data` and the ACL `acl`.
    """

    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        self._client = client
        self._path = path
        self._data = data
        self._acl = acl
        self._is_new = False
        self._wake = anyio.Event()
        self._watches: list[Watch] = []

    @property
    def node(self) -> RegisteredNode:
        """The znode that was created last."""
        return max((znode.node for znode in self._znodes()), key=lambda node: node.token)

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        """Register all of the znodes: losing one loses the hold."""
        holds = [znode.hold(holder, options) for znode in self._znodes()]
        return holds[0] if len(holds) == 1 else HoldGroup(holds)

    def discard(self) -> Departure | None:
        self._leave_watches()
        deletes = [znode.discard() for znode in self._znodes()]
        return all_of([delete for delete in deletes if delete is not None])

    def _start_again(self) -> None:
        for znode in self._znodes():
            znode.withdraw()

    def _new_znode(self, naming: Naming) -> Znode:
        """Make a znode at `_path` or below it. If others delete it, this attempt looks again."""
        return Znode(self._client, naming, self._data, self._acl, self)

    # --- what happens to a znode: see `ZnodeObserver` --------------------------------------------

    def znode_gone(self) -> None:
        self._wake.set()

    def watch_ended(self) -> None:
        """Nothing to do: the session has ended as well, or the hold is lost."""

    def data_seen(self, data: bytes) -> None:
        """Nothing to do: nobody asks for a release."""

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
        """Look again: something has happened."""
        self._wake.set()

    async def _sleep(self) -> None:
        """Wait until something happens; not at all if it has since `_wake` was replaced."""
        self._is_new = False
        await self._wake.wait()

    def _watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Make a watch that wakes this attempt, or calls `on_event`, until `_leave_watches`."""
        watch = self._client.backend.make_watch(on_event or self._rouse)
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
