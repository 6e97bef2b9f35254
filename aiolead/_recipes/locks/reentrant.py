"""The lock that its holder may take again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import final

import anyio.lowlevel

from ..._tasks import current_task_id
from ...abc import CoordinationClient
from ...errors import UsageError
from ...model import ACL
from .._core.arguments import OnDisconnect
from .._core.contexts import TenureContext, TryContext, _Context
from .._core.entries_by_task import left_by_another
from .._core.tenure import Held
from ..contention.layouts import Layout, Role
from .lock_base import Locking


@dataclass(slots=True)
class _ReentrantEntry:
    """What a task holds, and how often it has entered."""

    held: Held
    count: int = 1


class _Reentry(_Context[Held]):
    """The outermost of a task acquires and releases; those within count."""

    _within: int | None = None
    """The task, where it held the lock already."""
    _outer: _ReentrantEntry | None = None
    """What it held then."""

    @property
    def _entries(self) -> dict[int, _ReentrantEntry]:
        assert isinstance(self._recipe, ReentrantLock)
        return self._recipe._entries

    async def _acquire(self, timeout: float | None) -> Held | None:
        task = current_task_id()
        entry = self._entries.get(task)
        if entry is None:
            held = await super()._acquire(timeout)
            if held is not None:
                self._entries[task] = _ReentrantEntry(held)
            return held
        await anyio.lowlevel.checkpoint()
        if self._within is not None or self._task is not None:
            raise UsageError(f"{self._recipe!r}: this context manager is in use; make one each")
        entry.held.check()
        entry.count += 1
        self._within, self._outer = task, entry
        return entry.held

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outer, self._outer = self._outer, None
        if outer is None:
            # Also if another task leaves: then nothing is held any more.
            if self._task is not None and self._holds(self._task):
                del self._entries[self._task]
            await super().__aexit__(exc_type, exc, traceback)
            return
        within, self._within = self._within, None
        outer.count -= 1
        if within != current_task_id():
            raise left_by_another(self._recipe)
        if exc is None:
            await anyio.lowlevel.checkpoint()

    def _holds(self, task: int) -> bool:
        entry = self._entries.get(task)
        return entry is not None and entry.held is self._tenure


class ReentrantContext(_Reentry, TenureContext[Held]):
    """Waits for our turn, unless this task has it already. Otherwise as `TenureContext`."""


class ReentrantTryContext(_Reentry, TryContext[Held]):
    """Does not wait: gives None where somebody else holds. Otherwise as `ReentrantContext`."""


@final
class ReentrantLock(Locking[Held]):
    """A lock that the task that holds it may take again. Otherwise as `Lock`, and beside it.

        async with lock as held:
            async with lock as again:  # the same tenure, at once
                assert again is held

    It is the task that holds it, not the process: any other task, a child of the holder's too,
    waits for its turn. Only leaving the outermost block releases it. If it is lost, all blocks are
    cancelled, and `LockLost` is raised on leaving the outermost.

    Entering again takes no request; it raises `LockLost` if the lock has been lost by the clock,
    and `UsageError` if it was resigned.

    Args: as for `Lock`. A `Lock` of the same path, and Curator's `InterProcessMutex`, contend with
    it; but a task that holds one of these must not wait for the other.
    """

    _role = Role.LOCK
    _tenure = Held

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
        super().__init__(
            client, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
        )
        self._entries: dict[int, _ReentrantEntry] = {}

    def acquire(self, *, timeout: float | None = None) -> ReentrantContext:
        """Holds the lock for the body of an `async with`; at once, if this task holds it.

        Args:
            timeout: how long to wait for it, in seconds; for ever by default. 0 tries once.

        Raises (on entering):
            AcquireTimeout: it was not ours within that time.

        For cancellation and loss see `TenureContext`.
        """
        return ReentrantContext(self, timeout)

    def try_acquire(self) -> ReentrantTryContext:
        """As `acquire`, but gives None, at once, if somebody else holds the lock."""
        return ReentrantTryContext(self)

    @property
    def hold_count(self) -> int:
        """How often the current task has entered it, and not left."""
        entry = self._entries.get(current_task_id())
        return 0 if entry is None else entry.count
