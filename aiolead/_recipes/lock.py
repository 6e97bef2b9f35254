"""The lock, and the reentrant lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import ClassVar, Generic, TypeVar, cast, final

import anyio.lowlevel

from .._client.fast import current_task_id
from .._util.misuse import left_by_another
from ..abc import CoordinationClient
from ..errors import UsageError
from ..model import ACL
from . import rivals
from .contender_queue import ContenderQueue
from .hold import Held
from .holding import Contest, HeldRecipe, TenureContext
from .layouts import Layout, Role
from .recipe import OnDisconnect

__all__ = ["Lock", "ReentrantLock"]


@final
class Lock(HeldRecipe[Held]):
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
        acl: of our znode, and of the path if it is created; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._queue = ContenderQueue(type(self).__name__, client, path, layout, Role.LOCK)
        contest = self._queue.contest(Held, identity=identity, on_disconnect=on_disconnect, acl=acl)
        super().__init__(contest)

    holders: ClassVar[rivals.Inquiry] = rivals.holders
    contenders: ClassVar[rivals.Inquiry] = rivals.contenders
    revoke: ClassVar[rivals.Inquiry] = rivals.revoke


R_co = TypeVar("R_co", covariant=True)


@dataclass(slots=True, eq=False, repr=False)
class _TaskHold:
    """The hold of a task, and how often the task has entered."""

    held: Held
    count: int = 1


class _ReentrantContext(TenureContext[R_co], Generic[R_co]):
    """The outermost block of a task acquires and releases; inner blocks count."""

    def __init__(
        self,
        contest: Contest[Held],
        holds: dict[int, _TaskHold],
        timeout: float | None = None,
        *,
        is_try: bool = False,
    ) -> None:
        super().__init__(contest, timeout, is_try=is_try)
        self._holds = holds
        self._within: int | None = None
        """The task, in an inner block."""
        self._outer: _TaskHold | None = None

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
            raise UsageError(f"{self._contest!r}: this context manager is in use; make one each")
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
            raise left_by_another(self._contest)
        if exc is None:
            await anyio.lowlevel.checkpoint()

    def _is_outermost(self, task: int) -> bool:
        entry = self._holds.get(task)
        return entry is not None and entry.held is self._tenure


@final
class ReentrantLock(HeldRecipe[Held]):
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

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        layout: Layout = Layout.CURATOR,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._queue = ContenderQueue(type(self).__name__, client, path, layout, Role.LOCK)
        contest = self._queue.contest(Held, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._holds: dict[int, _TaskHold] = {}
        super().__init__(contest, partial(_ReentrantContext, contest, self._holds))

    holders: ClassVar[rivals.Inquiry] = rivals.holders
    contenders: ClassVar[rivals.Inquiry] = rivals.contenders
    revoke: ClassVar[rivals.Inquiry] = rivals.revoke

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
