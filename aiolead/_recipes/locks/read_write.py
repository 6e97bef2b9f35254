"""The lock that readers share and a writer holds alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import anyio.lowlevel

from ...abc import CoordinationClient
from ...errors import AioleadError, AlreadyHeldError, UpgradeError
from ...model import ACL, Participant
from .._core.acquire import Acquirable
from .._core.arguments import OnDisconnect
from .._core.error_policy import Step, before_next_try
from .._core.holding_recipe import HeldRecipe
from .._core.tenure import Held
from .._core.znode_registry import RegisteredNode
from ..contention import contender_queue
from ..contention.contender_queue import ContenderQueue
from ..contention.layouts import Layout, Role
from ..contest import Contest
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
class ReadLock(HeldRecipe[Held]):
    """The read side of a `ReadWriteLock`, shared by readers. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern readers only.
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
        self._queue = ContenderQueue(
            type(self).__name__, client, path, layout, Role.READ, shown=Role.READ
        )
        contest = self._queue.contest(
            Held, identity=identity, on_disconnect=on_disconnect, acl=acl, check_task=_refuse_writer
        )
        super().__init__(contest)

    holders: ClassVar[contender_queue.Inquiry] = contender_queue.holders
    contenders: ClassVar[contender_queue.Inquiry] = contender_queue.contenders
    revoke: ClassVar[contender_queue.Inquiry] = contender_queue.revoke


def _refuse_writer(read: Contest[Any]) -> None:
    if any(contest.recipe == WriteLock.__name__ for contest in read.mine()):
        raise AlreadyHeldError(
            f"this task has {read.path} for writing, or waits for that: it would wait for itself; "
            "use held.downgrade()"
        )


@final
class WriteLock(HeldRecipe[WriteHeld]):
    """The write side of a `ReadWriteLock`, held by one writer alone. Otherwise as `Lock`.

    `holders`, `contenders` and `revoke` concern writers only.
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
        self._queue = ContenderQueue(
            type(self).__name__,
            client,
            path,
            layout,
            Role.WRITE,
            shown=Role.WRITE,
            contender=WriteContender,
        )
        contest = self._queue.contest(
            WriteHeld,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            check_task=_refuse_reader,
        )
        super().__init__(contest)

    holders: ClassVar[contender_queue.Inquiry] = contender_queue.holders
    contenders: ClassVar[contender_queue.Inquiry] = contender_queue.contenders
    revoke: ClassVar[contender_queue.Inquiry] = contender_queue.revoke


def _refuse_reader(write: Contest[Any]) -> None:
    if any(contest.recipe == ReadLock.__name__ for contest in write.mine()):
        raise UpgradeError(
            f"this task has {write.path} for reading, or waits for that: a reader cannot become a "
            "writer, since two of them would wait for each other"
        )


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
        self._queue = ContenderQueue(type(self).__name__, client, path, layout, Role.WRITE)

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
        return await self._queue.holders()

    async def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `Lock.holders`."""
        return await self._queue.contenders()

    async def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release. See `Lock.revoke`."""
        return await self._queue.revoke()
