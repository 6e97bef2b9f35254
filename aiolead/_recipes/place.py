"""Acquiring: the only loop over lost connections and expired sessions, and the lease to begin with.

A recipe says what is contended for, its `Place`. `acquire` knows nothing else of it, and is the
only reader of the table of errors for acquisitions (`errors`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio

from .._util.escaping import in_seconds
from ..abc import CoordinationClient, Hold, Watch
from ..errors import AioleadError, ConnectionLossError, LossReason, NoNodeError, Outcome
from ..model import SessionState, WatchEvent
from .errors import Action, Step, action_for, before_next_try
from .pending_delete import Departure, all_of
from .rivals import HolderQuery
from .znode import Holder, HoldOptions, NodeGone, Znode


class Place(Protocol):
    """The subject of one acquisition: a place in a queue, a znode, permits, a claim, a seat.

    Made for one acquisition, and for the hold if that succeeds. `discard` is always called in the
    end, at least once, and leaves nothing behind, whatever was cancelled or lost before.
    """

    is_new: bool
    """Whether nothing was waited for since the answer to our create: it shows that all is there."""

    @property
    def znodes(self) -> Sequence[Znode]:
        """The znodes that stand for it, the newest last; there is one at least once it is got."""
        ...

    async def get(self, *, wait: bool) -> bool:
        """Try to get it, over one connection; return whether it is ours.

        Wait for others only if `wait`. Called again, with whatever znodes exist, after a lost
        connection or a lost znode. Raises `NodeGone` if a znode of ours is gone.
        """
        ...

    def unwatch(self) -> None:
        """Close the watches on others. Called after each try."""
        ...

    def restart(self) -> None:
        """Give up the znodes: the session is over, or one of ours is gone."""
        ...

    def discard(self) -> Departure | None:
        """Abandon it for good; synchronous. Return its pending delete, if there is one."""
        ...

    def obstacle(self) -> str:
        """Return a clause for messages that names the znode it waits for; empty if unknown."""
        ...

    def holder_query(self) -> HolderQuery | None:
        """Return a function that reads the holder, also later; None if it waits for nobody."""
        ...


async def acquire(client: CoordinationClient, place: Place, *, wait: bool = True) -> bool:
    """Get a place, with a lease that lasts for a while; return whether it is ours.

    There is no checkpoint between that decision and the return. Raises `MixedLayoutError`,
    `SequenceExhaustedError`, `SessionError`, or the `ServerError` that answers the create.

    Cancellation: leaves the znodes; call `discard`. On connection loss: goes on with the same
    znodes; after an expired session, from the start.
    """
    while True:
        try:
            if client.state is not SessionState.CONNECTED:
                await client.ready()
            if not await place.get(wait=wait):
                return False
            await _lease_to_begin_with(client, place)
            return True
        except NodeGone:
            place.is_new = False
            place.restart()
        except AioleadError as error:
            place.is_new = False
            if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                place.restart()
            else:
                place.unwatch()
                for znode in place.znodes:
                    znode.unwatch()
                await before_next_try(client, error, Step.ACQUIRE)
        finally:
            place.unwatch()


async def try_acquire(client: CoordinationClient, place: Place) -> bool:
    """As `acquire`, but without waiting for others.

    On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
    """
    with anyio.move_on_after(client.session_timeout):
        return await acquire(client, place, wait=False)
    raise ConnectionLossError(
        f"no server was reached for {in_seconds(client.session_timeout)}",
        outcome=Outcome.NOT_APPLIED,
    )


async def _lease_to_begin_with(client: CoordinationClient, place: Place) -> None:
    """Wait until enough of the lease is left to begin with.

    A session that is young, or has written lately, has enough: then there is no round trip and no
    checkpoint. Otherwise two writes are needed, one after the other; our create counts as the first
    if no wait followed it. A waiter needs both: the server's report that its turn has come proves
    nothing about the session (docs/explanation/safety.md). If the proof takes two rounds, more
    writes follow until half a tick has passed.

    A renewal may end with a `sync`, since its first request shows that the session lives. Here
    nothing is proven any more, and a leader that has just begun to end the session might answer a
    `sync` before that takes effect. It refuses a write.

    A znode that was not watched all the time is also read: others may have deleted it. Raises
    `NodeGone` if a znode of ours is gone.
    """
    znodes = place.znodes
    writes = 1 if place.is_new else 0
    while True:
        if not place.is_new or client.state is not SessionState.CONNECTED:
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
    for znode in znodes:
        znode.check()


def hold_all(znodes: Sequence[Znode], holder: Holder, options: HoldOptions) -> Hold:
    """Register the znodes as held: losing one loses the hold."""
    if len(znodes) == 1:
        return znodes[0].hold(holder, options)
    return _HoldGroup([znode.hold(holder, options) for znode in znodes])


class _HoldGroup:
    """Several holds as one; see `abc.Hold`."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    def lose(self, reason: LossReason) -> None:
        self._holds[0].lose(reason)

    def release(self) -> None:
        for hold in self._holds:
            hold.release()


def discard_all(znodes: Sequence[Znode]) -> Departure | None:
    """Abandon the znodes for good; return their pending deletes as one."""
    deletes = [znode.discard() for znode in znodes]
    return all_of([delete for delete in deletes if delete is not None])


class Alarm:
    """The watches of one attempt, on others and on its own znodes, and the wait for any of them.

    It is the observer of the attempt's znodes. A wait ends with the session, too: that fires all
    watches.
    """

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client
        self._event = anyio.Event()
        self._watches: list[Watch] = []

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def renew(self) -> None:
        """Close the watches, and forget what has happened: another look at the servers begins."""
        self.close()
        self._event = anyio.Event()

    def watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Make a watch that sets the alarm, or calls `on_event`; it lasts until `close`."""
        watch = self._client.backend.make_watch(on_event or self.set)
        self._watches.append(watch)
        return watch

    def set(self, _event: Any = None) -> None:
        """Something has happened: look again."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until something happens; not at all if it has since `renew`."""
        await self._event.wait()

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    # --- what happens to a znode of ours: see `ZnodeObserver` ------------------------------------

    def znode_gone(self) -> None:
        self._event.set()

    def watch_ended(self) -> None:
        self._event.set()

    def data_seen(self, data: bytes) -> None:
        """Nothing to do: nobody asks for a release."""
