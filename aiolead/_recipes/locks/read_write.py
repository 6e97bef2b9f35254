"""The lock that readers share and a writer holds alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import AioleadError, AlreadyHeldError, UpgradeError
from ...model import ACL, Participant
from ...paths import basename
from .._core.acquire import Acquirable
from .._core.arguments import OnDisconnect
from .._core.error_policy import Step, before_next_try
from .._core.tenure import Held
from .._core.znode_registry import RegisteredNode
from ..contention.layouts import Layout, Role
from .lock import QueuedLock
from .write_contender import Downgrade, WriteContender


class WriteHeld(Held):
    """A hold for writing, or, after `downgrade`, for reading."""

    _is_downgraded = False
    _writer: WriteContender

    def _take(self, acquirable: Acquirable) -> None:
        assert isinstance(acquirable, WriteContender)
        self._writer = acquirable
        super()._take(acquirable)
        acquirable.when_reader(self._on_reader)

    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
        return self._is_downgraded

    async def downgrade(self) -> None:
        """Continue to hold the lock for reading: readers come in, and no writer in between.

        The tenure and its token stay the same, but the znode changes: what `fenced` returned before
        refuses to write from now on.

        Cancellation: the downgrade may still be applied; see `is_downgraded`. Leaving the block
        releases the lock in any case. On connection loss: continues over the next connection.

        Raises:
            LockLost: the lock is lost.
            UsageError: the lock was released, by `release` or by the end of its body.
            ServerError: the servers refused, by an ACL for instance; the hold is still for writing.
        """
        self.check()
        writer = self._writer
        if writer.downgrade is Downgrade.DONE:
            await anyio.lowlevel.checkpoint()
        while writer.downgrade is not Downgrade.DONE:
            try:
                await writer.become_reader()
            except AioleadError as error:
                if error.session_over:
                    raise
                await before_next_try(self._client, error, Step.ACQUIRE)
            self.check()

    def _on_reader(self, node: RegisteredNode) -> None:
        self._is_downgraded = True
        self._path = node.path


@final
class ReadLock(QueuedLock[Held]):
    """The read side of a `ReadWriteLock`, shared by readers. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern readers only.
    """

    _role = Role.READ
    _tenure = Held

    def _enter(self, *, forever: bool) -> int:
        if any(isinstance(user, WriteLock) for user in self._tasks.mine()):
            raise AlreadyHeldError(
                f"this task has {self.path} for writing, or waits for that: it would wait for "
                "itself; use held.downgrade()"
            )
        return super()._enter(forever=forever)

    async def _contenders(self) -> list[Participant]:
        is_reader = self._layout._is_reader
        return [who for who in await super()._contenders() if is_reader(basename(who.path))]


@final
class WriteLock(QueuedLock[WriteHeld]):
    """The write side of a `ReadWriteLock`, held by one writer alone. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern writers only.
    """

    _role = Role.WRITE
    _contender = WriteContender
    _tenure = WriteHeld

    def _enter(self, *, forever: bool) -> int:
        if any(isinstance(user, ReadLock) for user in self._tasks.mine()):
            raise UpgradeError(
                f"this task has {self.path} for reading, or waits for that: a reader cannot become "
                "a writer, since two of them would wait for each other"
            )
        return super()._enter(forever=forever)

    async def _contenders(self) -> list[Participant]:
        is_reader = self._layout._is_reader
        return [who for who in await super()._contenders() if not is_reader(basename(who.path))]


@final
class ReadWriteLock:
    """A lock that readers share and a writer holds alone; first come first served.

        async with lock.read as held: ...
        async with lock.write as held:
            ...
            await held.downgrade()  # continues as a reader; no writer comes in between
        async with lock.write.acquire(timeout=5) as held: ...

    No contender overtakes another, so none starves: a reader behind a waiting writer waits for it.
    Consecutive readers come in together. Loss, lease, cancellation and release are those of `Lock`.

    Not re-entrant. A task that reads and asks to write gets `UpgradeError` at once. A task that
    writes becomes a reader with `downgrade`.

    Args: as for `Lock`. By its `layout` it contends with Curator's `InterProcessReadWriteLock`,
    kazoo's `ReadLock` and `WriteLock`, or aiozk's `SharedLock`. A malformed argument raises
    `ConfigurationError`.

    Threads and forks: as `Lock`.
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
        if isinstance(layout, Layout):
            layout._require(type(self).__name__, Role.READ, Role.WRITE)
        self._read = ReadLock(
            client, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
        )
        self._write = WriteLock(
            client, path, identity=identity, layout=layout, on_disconnect=on_disconnect, acl=acl
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def read(self) -> ReadLock:
        """The lock for reading."""
        return self._read

    @property
    def write(self) -> WriteLock:
        """The lock for writing."""
        return self._write

    @property
    def path(self) -> str:
        """The contended path."""
        return self.read.path

    @property
    def identity(self) -> str:
        """The name that others see for this holder or contender."""
        return self.read.identity

    async def holders(self) -> list[Participant]:
        """Return the holders: readers, or one writer. May lag, as `Lock.holders`."""
        return [participant for participant in await self.contenders() if participant.is_holder]

    async def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `Lock.holders`."""
        return [who for who, _, _ in await self.write._contenders_with_data()]

    async def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release. See `Lock.revoke`."""
        return await self.write._revoke((Role.READ, Role.WRITE))
