"""The lock."""

from __future__ import annotations

from typing import final

from .._core.tenure import Held
from ..contention.layouts import Role
from .queued_lock import QueuedLock


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
