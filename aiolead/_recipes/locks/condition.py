"""The condition: its holders wait for a notification and release its lock meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import final

import anyio

from ..._tasks import current_task_id
from ...abc import CoordinationClient
from ...errors import (
    ConnectionLossError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Outcome,
    ReleaseError,
    TransactionError,
    UsageError,
)
from ...model import ACL, Participant
from ...paths import join
from .._core.acquire import Acquirable
from .._core.arguments import OnDisconnect, checked_count, checked_path, checked_wait
from .._core.participants import read_participants
from .._core.pending_delete import Departure
from .._core.reading import catch_up, over_sessions
from .._core.tenure import Held
from ..contention.layouts import Layout, Role
from .condition_waiter import Waiter, Waiters, ensure, look, report_stuck
from .lock import QueuedLock

_AT_ONCE = 200
"""The most waiters that one transaction notifies."""


class ConditionHeld(Held):
    """The hold of a condition's lock by the body of an `async with`, interrupted by `wait`."""

    _waits = False
    _is_abandoned = False

    def _take(self, acquirable: Acquirable) -> None:
        self._task = current_task_id()
        super()._take(acquirable)

    @property
    def _condition(self) -> Condition:
        assert isinstance(self._recipe, Condition)
        return self._recipe

    # --- waiting -------------------------------------------------------------------------------

    async def wait(self, *, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify`, acquire it again; return False after a timeout.

            while not await is_ready():
                await held.wait()

        It returns once the lock is held again: another hold, with another `token`. Wait in a loop:
        it may return without a `notify`, after an expired session for instance, and what was true
        at the `notify` may have changed.

        Args:
            timeout: how long to wait to be notified, in seconds; None waits forever. It does not
                limit acquiring the lock again. Do not use a cancel scope instead: see Cancellation.

        Raises:
            LockLost: the lock was lost before the wait began.
            ReleaseError: the servers refuse to delete our znode, so nobody can get the lock,
                ourselves included. The whole block is cancelled.
            UsageError: the lock is not held, or another task entered the block.

        Cancellation: the wait ends without the lock, so the whole block is cancelled. If only the
        wait was to be cancelled, leaving the block raises `UsageError`. A notification already
        received goes to the next waiter. On connection loss: the wait continues.
        """
        timeout = checked_wait(timeout)
        if current_task_id() != self._task:
            raise UsageError(f"{self!r}: only the task that has entered it can wait")
        self.check()
        waiter = self._condition._waiter()
        release: Departure | None = None
        in_time = True
        try:
            await waiter.join()
            self.check()
            with anyio.CancelScope() as refused:
                release = self._let_go(refused)
                with anyio.move_on_after(timeout) as scope:
                    await waiter.signalled()
                in_time = not scope.cancelled_caught
                await self._take_again()
            if refused.cancelled_caught and release is not None and (error := release.error()):
                raise error
        except BaseException:
            waiter.discard()
            if self._waits:
                self._abandon()
            raise
        finally:
            if release is not None:
                release.await_report(False)
        waiter.consume()
        return in_time

    def _let_go(self, refused: anyio.CancelScope) -> Departure | None:
        """Release the lock, synchronously; cancel `refused` if the servers refuse that."""
        self._waits = self._has_left = True
        release = self._acquirable.discard()
        self._hold.release()
        if release is not None:
            release.await_report(True)
            release.add_done_callback(lambda: self._released_it(release, refused))
        return release

    def _released_it(self, release: Departure, refused: anyio.CancelScope) -> None:
        error = release.error()
        if isinstance(error, ReleaseError):
            # Acquiring again would wait for our own znode.
            refused.cancel()
        elif isinstance(error, NoNodeError) and self._loss is None:
            # It had been lost before.
            self._loss = LossReason.DELETED
            self._on_lost()

    async def _take_again(self) -> None:
        acquirable = self._condition._acquirable()
        try:
            await acquirable.acquire()
            # No checkpoint until it is held.
            if self._loss is None and not self._released:
                self._waits = self._has_left = False
                self._revocation = None
                self._take(acquirable)
                return
        except BaseException:
            acquirable.discard()
            raise
        acquirable.discard()
        if self._released:
            # Another task has released it: the block continues without a hold.
            self._waits = False
            self.check()
        await anyio.sleep_forever()  # it is being cancelled, since it was lost

    def _abandon(self) -> None:
        """End the block of an interrupted wait: it holds nothing and must not continue."""
        self._is_abandoned = True
        self._on_lost()

    async def _release(self, scope: anyio.CancelScope | None = None) -> None:
        if not self._waits:
            await super()._release(scope)

    async def _release_elsewhere(self) -> None:
        if self._waits:
            self._released = True  # it must not acquire the lock again
        await self.release()

    async def release(self) -> None:
        """Release the lock before the body has ended; see `Tenure.release`. Not while it waits."""
        if self._waits:
            self.check()
        await super().release()

    def _why_ended(self) -> Exception | None:
        why = super()._why_ended()
        if why is None and self._is_abandoned:
            return UsageError(
                f"{self._condition!r}: a wait was cancelled inside of the block, which therefore "
                "had lost the lock; to limit a wait, use held.wait(timeout=)"
            )
        return why

    def check(self) -> None:
        if self._waits and self._loss is None:
            raise UsageError(f"{self._what}: the lock is not held while one waits")
        super().check()

    # --- notifying -----------------------------------------------------------------------------

    async def notify(self, count: int = 1) -> int:
        """Wake the first `count` waiters, or all if there are fewer; return how many were woken.

        They acquire the lock one after the other, once it is free. A notification survives its
        sender. If a waiter dies before it has the lock again, the next one is woken.

        Raises:
            LockLost: the lock is lost.
            Fenced: the servers say that the lock is lost; no further waiter was woken.
            UsageError: the lock is not held.
            ServerError: the servers refused the write, by `NoAuthError` for instance.

        Cancellation: some may have been woken. On connection loss: finds out which ones,
        and continues.
        """
        return await self._notify(count)

    async def notify_all(self) -> int:
        """Wake all waiters; otherwise as `notify`."""
        return await self._notify(None)

    async def _notify(self, count: int | None) -> int:
        self.check()
        left = sys.maxsize if count is None else checked_count("count", count, most=sys.maxsize)
        done = signals = 0
        chosen: list[str] = []
        is_unknown = False
        while done < left:
            try:
                if is_unknown:
                    # This server may lag behind the one that got the transaction.
                    await catch_up(self._client, self._condition.path)
                seen = await self._look()
                # The transaction is atomic, signals of vanished waiters are passed on, and none is
                # consumed while we hold the lock. So more signals mean that it was applied.
                if is_unknown and seen.signals > signals:
                    done += len(chosen)
                is_unknown = False
                self.check()
                chosen = seen.unsignalled[: min(left - done, _AT_ONCE)]
                if not chosen:
                    break
                signals = seen.signals
                if await self._signal(chosen):
                    done += len(chosen)
            except ConnectionLossError as error:
                is_unknown = is_unknown or error.outcome is Outcome.UNKNOWN
                await self._client.ready()
        return done

    async def _look(self) -> Waiters:
        seen = await look(self._client, self._condition.path)
        if not seen.unsignalled:
            # Orphans that no waiter is left to take.
            for name in seen.orphans:
                try:
                    await self.fenced().delete(self._condition._signal(name))
                except NoNodeError:
                    continue
                except NotEmptyError as error:
                    report_stuck(self._client, self._condition.path, name, error)
        return seen

    async def _signal(self, names: Sequence[str]) -> bool:
        """Notify waiters in a transaction guarded by the lock; False: look again."""
        change = self.fenced().transaction()
        for name in names:
            change.check(self._condition._znode(name))
        for name in names:
            change.create(self._condition._signal(name), acl=self._condition._acl)
        try:
            await change
        except TransactionError as error:
            if isinstance(error.cause, NoNodeError) and error.index >= len(names):
                await ensure(
                    self._client, join(self._condition.path, "signals"), self._condition._acl
                )
            elif not isinstance(error.cause, (NoNodeError, NodeExistsError)):
                raise
            return False
        return True


@final
class Condition(QueuedLock[ConditionHeld]):
    """A lock whose holders can wait until another holder notifies them.

        async with condition as held:
            while not await is_ready():
                await held.wait()  # without the lock meanwhile
            ...

        async with condition as held:
            await make_it_ready()
            await held.notify()

    Like `java.util.concurrent.locks.Condition`, across processes. Waiters are notified first come
    first served. No notification is lost: if the notifying process dies, it persists; if the
    notified waiter dies or is cancelled, the next one gets it.

    Its lock is a `Lock` at `lock` below the path: a `Lock` of that path contends with it.

    Args: as for `Lock`, without `layout`. A malformed one raises `ConfigurationError`.
    """

    _role = Role.LOCK
    _tenure = ConditionHeld

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._base = checked_path(path)
        super().__init__(
            client,
            join(path, "lock"),
            identity=identity,
            layout=Layout.CURATOR,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._base}>"

    @property
    def path(self) -> str:
        """The path of the condition; its lock is at `lock` below it."""
        return self._base

    async def waiters(self) -> list[Participant]:
        """Return the waiters, first come first, including notified ones. May lag, as `holders`."""
        return await over_sessions(self._client, self._read_waiters)

    async def _read_waiters(self) -> list[Participant]:
        seen = await look(self._client, self._base)
        path = join(self._base, "waiters")
        return await read_participants(self._client, path, seen.waiting, is_holder=False)

    # --- for its holders -----------------------------------------------------------------------

    def _waiter(self) -> Waiter:
        return Waiter(self._client, self._base, self._data, self._acl)

    def _znode(self, waiter: str) -> str:
        return join(join(self._base, "waiters"), waiter)

    def _signal(self, waiter: str) -> str:
        return join(join(self._base, "signals"), waiter)
