"""The lock, the base class of all locks with a contender queue, and the reentrant lock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Generic, TypeVar, cast, final

import anyio.lowlevel

from ..._tasks import current_task_id
from ...errors import UsageError
from ...model import Participant
from .._core.contexts import TenureContext, left_by_another
from .._core.enterable import HeldRecipe
from .._core.tenure import Held
from ..contention.layouts import Role
from ..contention.queue_recipe import QueuedRecipe

H = TypeVar("H", bound=Held)


class QueuedLock(QueuedRecipe[H], HeldRecipe[H]):
    """A lock with a contender queue; see `Lock`."""

    async def holders(self) -> list[Participant]:
        """Return the holders. The server may lag: call `client.sync()` first where that matters."""
        return [participant for participant in await self._contenders() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `holders`."""
        return await self._contenders()

    async def revoke(self) -> list[Participant]:
        """Ask the present holders to release; return those that were not asked before.

        Any process may call this, and no holder is forced. A holder checks
        `held.is_revocation_requested` or awaits `held.revocation_requested()`; one of Curator's is
        notified if it is revocable.

        Raises:
            ConnectionLossError: the connection was lost before all answers came; it is safe to
                retry.
            ServerError: the servers refused the write, by `NoAuthError` for instance.
        """
        return await self._revoke((self._role,))


@final
class Lock(QueuedLock[Held]):
    """A lock that one task of one process holds at a time, first come first served.

        async with lock as held: ...
        async with lock.acquire(timeout=5) as held: ...
        async with lock.try_acquire() as held:
            if held is not None: ...

    If the lock is lost, the body is cancelled before the servers could grant it to anybody else,
    and leaving raises `LockLost`. Not re-entrant: a task that acquires what it holds gets
    `AlreadyHeldError`. Any number of tasks may use one object; they exclude each other.

    Args:
        client: the session that holds the lock.
        path: the path; created as a container if missing. Nothing else should use it.
        identity: the holder's name for others; defaults to host name and process id.
        layout: which libraries to contend with; see `Layout`.
        on_disconnect: the fate of a held lock when the connection is lost: `"keep"` (the
            default) keeps it while the lease lasts, `"resign"` releases it at once.
        acl: of our znode, and of the path if it is created; defaults to open to everybody.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _role = Role.LOCK
    _tenure = Held


R_co = TypeVar("R_co", covariant=True)


@dataclass(slots=True)
class _TaskHold:
    """The hold of a task, and how often the task has entered."""

    held: Held
    count: int = 1


class _ReentrantContext(TenureContext[R_co], Generic[R_co]):
    """The outermost block of a task acquires and releases; inner blocks count."""

    _within: int | None = None
    """The task, in an inner block."""
    _outer: _TaskHold | None = None

    @property
    def _holds(self) -> dict[int, _TaskHold]:
        assert isinstance(self._recipe, ReentrantLock)
        return self._recipe._holds

    async def __aenter__(self) -> R_co:
        self._is_entered = True
        task = current_task_id()
        entry = self._holds.get(task)
        if entry is None:
            held = await super().__aenter__()
            if isinstance(held, Held):
                self._holds[task] = _TaskHold(held)
            return held
        await anyio.lowlevel.checkpoint()
        if self._within is not None or self._task is not None:
            raise UsageError(f"{self._recipe!r}: this context manager is in use; make one each")
        entry.held.check()
        entry.count += 1
        self._within, self._outer = task, entry
        return cast(R_co, entry.held)

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outer, self._outer = self._outer, None
        if outer is None:
            # Also if another task leaves, which releases the lock.
            if self._task is not None and self._is_outermost(self._task):
                del self._holds[self._task]
            await super()._leave(current, exc_type, exc, traceback)
            return
        within, self._within = self._within, None
        outer.count -= 1
        if within != current:
            raise left_by_another(self._recipe)
        if exc is None:
            await anyio.lowlevel.checkpoint()

    def _is_outermost(self, task: int) -> bool:
        entry = self._holds.get(task)
        return entry is not None and entry.held is self._tenure


@final
class ReentrantLock(QueuedLock[Held]):
    """A `Lock` that the task that holds it may acquire again.

        async with lock as held:
            async with lock as again:  # the same tenure, at once
                assert again is held

    The holder is a task, not a process: any other task waits, even a child task of the holder. Only
    leaving the outermost block releases the lock, or raises `LockLost`. A loss cancels all blocks.

    Entering again takes no request. It raises `LockLost` if the lease has run out by the clock, and
    `UsageError` if the lock was released.

    Args: as for `Lock`. A `Lock` of the same path, and Curator's `InterProcessMutex`, contend with
    it. A task that holds one of them must not wait for the other.
    """

    _role = Role.LOCK
    _tenure = Held

    @cached_property
    def _holds(self) -> dict[int, _TaskHold]:
        return {}

    def _context(self, timeout: float | None = None, *, is_try: bool = False) -> TenureContext[Any]:
        return _ReentrantContext(self, timeout, is_try=is_try)

    @property
    def hold_count(self) -> int:
        """How many blocks of the current task hold it; 0 elsewhere, also in a forked child."""
        try:
            self._client.backend.check_home()
            task = current_task_id()
        except (UsageError, RuntimeError):  # elsewhere, or in a callback of the event loop
            return 0
        entry = self._holds.get(task)
        return 0 if entry is None else entry.count
