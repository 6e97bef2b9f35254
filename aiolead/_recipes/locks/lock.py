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

    The body is cancelled if the lock is lost, before the servers could give it to anybody else;
    `LockLost` is then raised on leaving. Not re-entrant: a task that asks for what it holds gets
    `AlreadyHeldError`. Any number of tasks may use one object; they exclude each other.

    Args:
        client: the session that holds it.
        path: the path; created, as a container, when it is missing. Nothing else should use it.
        identity: what others see as the holder; defaults to host name and process id.
        layout: whom to contend with; see `Layout`.
        on_disconnect: what becomes of a held lock when the connection is lost: `"keep"` keeps it
            while the lease lasts, `"resign"` releases it at once.
        acl: of our znode, and of the path where it has to be created; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    _role = Role.LOCK
    _tenure = Held
