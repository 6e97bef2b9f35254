"""The znode of a condition's waiter, and the signals that wake it.

A waiter is an ephemeral sequential znode below `waiters`. A holder notifies it by a persistent
znode of the same name below `signals`, in a transaction that checks that the waiter exists. A
waiter that has the lock again deletes both.

A signal whose waiter is gone is an orphan, and goes to the first waiter without a signal. Each
waiter watches the one before it; when that goes, it lists the signals, and only then the waiters.
Since signals are given to existing waiters only, a listed signal without a waiter is an orphan. The
transaction that passes it on fails if another waiter has passed it on already.

If the servers refuse that transaction for another reason, such as a child below the orphan, the
orphan stays, is reported, and is tried again once per session timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from ..._tasks import Wakeup
from ...abc import CoordinationClient, Reply, Watch
from ...errors import (
    AioleadError,
    NodeExistsError,
    NoNodeError,
    SessionError,
    TransactionError,
)
from ...model import ACL, CreateMode, WatchEvent
from ...paths import ListedPath, join, sequence_of
from .._core.ephemeral import NodeGone
from .._core.error_policy import (
    TRIES,
    Action,
    Step,
    action_for,
    before_next_try,
    ensure_path,
    in_background,
    until_done,
)
from .._core.pending_delete import Departure
from .._core.reading import catch_up, listed
from .._core.reporting import PathWarnings
from .._core.znode_registry import RegisteredNode
from ..contention.kernel import in_order
from ..contention.layouts import Layout, Role
from ..contention.queue_node import QueueNode


@dataclass(frozen=True, slots=True)
class Waiters:
    """The waiters of a condition, first come first, and the signals whose waiters are gone."""

    waiting: list[str]
    orphans: list[str]
    unsignalled: list[str]

    @property
    def signals(self) -> int:
        """How many signals are not consumed yet."""
        return len(self.orphans) + len(self.waiting) - len(self.unsignalled)


def sort_out(path: str, signals: Sequence[str], waiters: Sequence[str]) -> Waiters:
    """Evaluate a listing of the signals and a later one of the waiters."""
    # A signal has its waiter's name: a waiter whose name nobody can create gets none.
    able = [name for name in waiters if not isinstance(name, ListedPath)]
    waiting = in_order(path, able, Layout.CURATOR, Role.WAIT)
    # As for waiters, a name without a number is none of the recipe.
    signalled = {name for name in signals if sequence_of(name) is not None}
    there = set(waiting)
    return Waiters(
        waiting,
        sorted(signalled - there),
        [name for name in waiting if name not in signalled],
    )


async def look(client: CoordinationClient, path: str) -> Waiters:
    """List the waiters and signals of a condition in one round trip."""
    signals = client.get_children(join(path, "signals"))
    waiters = client.get_children(join(path, "waiters"))
    return sort_out(path, await listed(signals), await listed(waiters))


def report_stuck(client: CoordinationClient, path: str, signal: str, error: AioleadError) -> None:
    """Warn of a signal that the servers refuse to delete, once for each."""
    signal = join(join(path, "signals"), signal)
    client.backend.shared(path, PathWarnings).warn(
        signal, f"{signal}: a signal whose waiter is gone cannot be passed on: {error}"
    )


async def ensure(client: CoordinationClient, path: str, acl: Sequence[ACL] | None) -> None:
    """Create the parent of waiters or signals, which servers delete when it is empty."""
    await ensure_path(client, path, mode=CreateMode.CONTAINER, acl=acl)


class Waiter(QueueNode):
    """A waiter, from before it releases the lock until it has it again."""

    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        super().__init__(client, join(path, "waiters"), Layout.CURATOR, Role.WAIT, data, acl)
        self._condition = path
        self._signal_watch: Watch | None = None
        self._watched: str | None = None
        self._before_watch: Watch | None = None
        self._has_signal = False
        self._stuck: set[str] = set()
        """Orphans that the servers have refused to move; tried again from time to time."""

    async def join(self) -> None:
        """Create the znode. From then on no signal is missed."""
        tries = TRIES
        while True:
            try:
                if await self._ready_to_create():
                    await self._await_created(self.create())
                return
            except NoNodeError:
                if not tries:
                    raise
                tries -= 1
                await ensure(self._client, self._path, self._acl)
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
                    self.unwatch()
                    if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                        raise NodeGone from None
                    await before_next_try(self._client, error, Step.ACQUIRE)
                    continue
                if not self._stuck:
                    await self._wake.wait()
                    continue
                with anyio.move_on_after(self._client.session_timeout) as scope:
                    await self._wake.wait()
                if scope.cancelled_caught:
                    self._stuck.clear()
        except NodeGone:
            self._gone = True
        finally:
            self._leave_watches()

    async def _is_signalled(self) -> bool:
        """List all waiters, with watches on anything that could change the result."""
        client, own = self._client, self.node
        self._wake = Wakeup()
        self.check()
        armed: list[Reply[Any]] = []
        if self._watch is None:
            armed.append(self._send_look())
        if self._signal_watch is None:
            self._signal_watch = client.backend.make_watch(self._on_signal)
            armed.append(client.exists(self._signal_of(own.name), watch=self._signal_watch))
        seen = await look(client, self._condition)
        for reply in armed:
            try:
                await reply
            except NoNodeError:
                raise NodeGone from None
        self.check()
        if own.name not in seen.waiting:
            raise NodeGone
        if own.name not in seen.unsignalled:
            return True
        if orphans := [name for name in seen.orphans if name not in self._stuck]:
            await self._pass_on(orphans[0], seen.unsignalled[0])
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
                await client.get(join(self._path, before), watch=self._before_watch)
            except NoNodeError:
                self._leave_before()
                self._wake.set()
        return False

    async def _pass_on(self, orphan: str, to: str) -> None:
        """Move an orphan to another waiter, unless another client was quicker."""
        change = (
            self._client.transaction()
            .check(join(self._path, to))
            .delete(self._signal_of(orphan))
            .create(self._signal_of(to), acl=self._acl)
        )
        try:
            await change
        except TransactionError as error:
            if not isinstance(error.cause, (NoNodeError, NodeExistsError)):
                self._stuck.add(orphan)
                report_stuck(self._client, self._condition, orphan, error.cause)

    def _signal_of(self, name: str) -> str:
        return join(join(self._condition, "signals"), name)

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
        return super().discard()

    def consume(self) -> None:
        """Delete the signal and the znode, synchronously: the client does the rest."""
        node = self._node
        is_over = self._gone or (node and node.session_id != self._client.session_id)
        if node is None or is_over or not self._has_signal:
            # A signal that came too late to be seen goes to the next waiter.
            self.discard()
            return
        self._leave_watches()
        self._node = None
        watch, self._watch = self._watch, None
        change = self._take_away(node)
        change.add_done_callback(partial(self._taken_away, node, change, watch))

    def _take_away(self, node: RegisteredNode) -> Reply[list[Any]]:
        signal = self._signal_of(node.name)
        return self._client.transaction().delete(signal).delete(node.path).commit()

    def _taken_away(
        self, node: RegisteredNode, change: Reply[list[Any]], watch: Watch | None
    ) -> None:
        # The watch fires with the delete, unless that fails.
        if watch is not None:
            watch.close()
        error = change.error()
        if error is None:
            self._local.forget(node.name)
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
                if await client.exists(self._signal_of(node.name)) is None:
                    await client.delete(node.path)
                    return
                try:
                    await self._take_away(node)
                except TransactionError as error:
                    # The signal or the znode is gone by now.
                    if not isinstance(error.cause, NoNodeError):
                        raise
                else:
                    return

        try:
            await until_done(client, node.session_id, take_away)
        finally:
            self._local.forget(node.name)
