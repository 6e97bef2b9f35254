"""The znode of a condition's waiter: how it is woken, and how it leaves.

A waiter watches its signal, and the waiter before it. When its predecessor goes, it lists the
signals and the waiters, and passes on the signal that the predecessor may have left (see
`condition_signals`). A waiter that has the lock again deletes its signal and its znode.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio

from ..._util.tasks import Wakeup
from ...abc import CoordinationClient, Reply, Watch
from ...errors import (
    AioleadError,
    NoNodeError,
    SessionError,
    TransactionError,
)
from ...model import ACL, WatchEvent
from ...paths import join
from .._core.error_policy import (
    TRIES,
    Action,
    Step,
    action_for,
    before_next_try,
    in_background,
    until_done,
)
from .._core.pending_delete import Departure
from .._core.reading import catch_up
from .._core.znode_registry import RegisteredNode
from ..contention.layouts import Layout, Role
from ..contention.queue_znode import (
    LocalContenders,
    await_created,
    queue_naming,
    ready_to_create,
)
from ..znode import NodeGone, Znode, ZnodeState
from .condition_signals import ConditionSignals


class Waiter:
    """A waiter, from before it releases the lock until it has it again."""

    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        self._client = client
        self._path = join(path, "waiters")
        local = client.backend.shared(self._path, LocalContenders)
        naming = queue_naming(client, local, self._path, Layout.CURATOR, Role.WAIT)
        self._znode = Znode(client, naming, data, acl, self)
        self._wake = Wakeup()
        self._signals = ConditionSignals(client, path, acl)
        self._signal_watch: Watch | None = None
        self._watched: str | None = None
        self._before_watch: Watch | None = None
        self._has_signal = False

    @property
    def node(self) -> RegisteredNode:
        """The znode; only valid while there is one."""
        return self._znode.node

    # --- what happens to the znode: see `ZnodeObserver` ----------------------------------------

    def znode_gone(self) -> None:
        self._wake.set()

    def watch_ended(self) -> None:
        self._wake.set()

    def data_seen(self, data: bytes) -> None:
        """Nothing to do: nobody asks a waiter for a release."""

    # --- waiting -------------------------------------------------------------------------------

    async def join(self) -> None:
        """Create the znode. From then on no signal is missed."""
        tries = TRIES
        while True:
            try:
                if await ready_to_create(self._client, self._znode):
                    await await_created(self._znode, self._znode.create(), self._path)
                return
            except NoNodeError:
                if not tries:
                    raise
                tries -= 1
                await self._signals.ensure("waiters")
            except AioleadError as error:
                await before_next_try(self._client, error, Step.ACQUIRE)

    async def signalled(self) -> None:
        """Wait for a signal, or for the end of the znode: without it no signal can come."""
        try:
            while True:
                try:
                    if await self._is_signalled():
                        self._has_signal = True
                        return
                except AioleadError as error:
                    # The watches may not be armed.
                    self._leave_watches()
                    self._znode.unwatch()
                    if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                        raise NodeGone from None
                    await before_next_try(self._client, error, Step.ACQUIRE)
                    continue
                stuck = self._signals.stuck
                with anyio.move_on_after(self._client.session_timeout if stuck else None) as scope:
                    await self._wake.wait()
                if scope.cancelled_caught:
                    stuck.clear()
        except NodeGone:
            self._znode.seen_gone()
        finally:
            self._leave_watches()

    async def _is_signalled(self) -> bool:
        """List all waiters, with watches on anything that could change the result."""
        client, own = self._client, self.node
        self._wake = Wakeup()
        self._znode.check()
        armed: list[Reply[Any]] = []
        if not self._znode.is_watched:
            armed.append(self._znode.send_look())
        if self._signal_watch is None:
            self._signal_watch = client.backend.make_watch(self._on_signal)
            armed.append(client.exists(self._signals.signal(own.name), watch=self._signal_watch))
        seen = await self._signals.look()
        for reply in armed:
            try:
                await reply
            except NoNodeError:
                raise NodeGone from None
        self._znode.check()
        if own.name not in seen.waiting:
            raise NodeGone
        if own.name not in seen.unsignalled:
            return True
        if await self._signals.settle(seen):
            self._wake.set()  # and look again
            return False
        rank = seen.waiting.index(own.name)
        before = seen.waiting[rank - 1] if rank else None
        if before != self._watched:
            self._leave_before()
        if before is not None and self._before_watch is None:
            self._watched = before
            self._before_watch = client.backend.make_watch(self._on_before)
            try:
                _, stat = await client.get(self._signals.waiter(before), watch=self._before_watch)
            except NoNodeError:
                is_waiter = False
            else:
                is_waiter = self._signals.note(before, stat)
            if not is_waiter:
                self._leave_before()
                self._wake.set()
        return False

    def _on_signal(self, _event: WatchEvent) -> None:
        self._signal_watch = None
        self._wake.set()

    def _on_before(self, _event: WatchEvent) -> None:
        self._before_watch = self._watched = None
        self._wake.set()

    def _leave_before(self) -> None:
        watch, self._before_watch, self._watched = self._before_watch, None, None
        if watch is not None:
            watch.close()

    def _leave_watches(self) -> None:
        self._leave_before()
        watch, self._signal_watch = self._signal_watch, None
        if watch is not None:
            watch.close()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        """Stop waiting, synchronously; a signal goes to the next waiter."""
        self._leave_watches()
        node, departure = self._znode.current, self._znode.discard()
        if node is not None and departure is not None:
            tidy_up = partial(self._settle_own, node.name)
            job = partial(in_background, self._signals.signal(node.name), tidy_up)
            departure.add_done_callback(lambda: self._client.backend.spawn(job))
        return departure

    async def _settle_own(self, name: str) -> None:
        """Pass our signal on, or delete it, now that our znode is gone."""
        client, signals = self._client, self._signals

        async def settle() -> None:
            if await client.exists(signals.signal(name)) is not None:
                while await signals.settle(await signals.look()):
                    pass

        await until_done(client, 0, settle)

    def consume(self) -> None:
        """Delete the signal and the znode, synchronously: the client does the rest."""
        if self._znode.state is not ZnodeState.PRESENT or not self._has_signal:
            # A signal that came too late to be seen goes to the next waiter.
            self.discard()
            return
        self._leave_watches()
        node, watch = self._znode.hand_over()
        assert node is not None, "it is present"
        change = self._take_away(node)
        change.add_done_callback(partial(self._taken_away, node, change, watch))

    def _take_away(self, node: RegisteredNode) -> Reply[list[Any]]:
        signal = self._signals.signal(node.name)
        return self._client.transaction().delete(signal).delete(node.path).commit()

    def _taken_away(
        self, node: RegisteredNode, change: Reply[list[Any]], watch: Watch | None
    ) -> None:
        # The watch fires with the delete, unless that fails.
        if watch is not None:
            watch.close()
        error = change.error()
        if error is None:
            self._znode.unclaim(node)
        elif not isinstance(error, SessionError):
            job = partial(self._take_away_later, node)
            self._client.backend.spawn(partial(in_background, node.path, job))

    async def _take_away_later(self, node: RegisteredNode) -> None:
        """Clean up if there was no signal after all, or the answer was lost."""
        client = self._client

        async def take_away() -> None:
            while True:
                await catch_up(client, node.path)
                stat = await client.exists(node.path)
                if stat is None or stat.czxid != node.token:
                    return
                if await client.exists(self._signals.signal(node.name)) is None:
                    await client.delete(node.path)
                    return
                try:
                    await self._take_away(node)
                except TransactionError as error:
                    if isinstance(error.cause, NoNodeError):
                        continue  # the signal or the znode is gone by now
                    # The signal has to stay, but our znode must not.
                    self._signals.refused(node.name, error.cause)
                    await client.delete(node.path)
                    return
                else:
                    return

        try:
            await until_done(client, node.session_id, take_away)
        finally:
            self._znode.unclaim(node)
