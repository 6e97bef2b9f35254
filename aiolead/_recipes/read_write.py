"""The lock that readers share and a writer holds alone.

A writer may become a reader before any other writer gets in, as in Curator since CURATOR-621:

1. It creates a reader, `__READ__` with the writer's number. That stands in front of all waiters.
2. Its hold moves from the writer to the reader.
3. It deletes the writer. Waiting readers come in; a waiting writer waits for the reader.

Until the second step the hold is one for writing, whatever becomes of the reader.
docs/spec/rwlock.tla specifies this.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, final

import anyio

from .._client.fast import current_task_id
from ..abc import CoordinationClient
from ..errors import AioleadError, AlreadyHeldError, ReleaseError, UpgradeError
from ..model import ACL, Participant
from ..paths import join
from . import rivals
from .contender_queue import Contender, ContenderQueue
from .errors import Step, before_next_try
from .fixed import Fixed
from .hold import Body, Held, Place, answered
from .holding import Contest, HeldRecipe
from .layouts import Layout, Names, Role, checked_names
from .naming import Departure
from .recipe import OnDisconnect
from .znode import Znode

__all__ = ["ReadWriteLock"]
__types__ = ["ReadLock", "WriteHeld", "WriteLock"]


class WriteHeld(Held):
    """A hold for writing, or, after `downgrade`, for reading."""

    def __init__(
        self,
        names: Names,
        contest: Contest[Any],
        place: Place,
        body: Body,
    ) -> None:
        assert isinstance(place, Contender)
        self._names = names
        self._contender = place
        self._reader: Znode | None = None
        """The reader that a downgrade creates, until the hold is on it."""
        self._is_downgraded = False
        self._writer_gone: Departure | None = None
        self._downgrading = anyio.Lock()
        super().__init__(contest, place, body)

    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
        return self._is_downgraded

    async def downgrade(self) -> None:
        """Continue to hold the lock for reading: readers come in, and no writer in between.

        The tenure and its token stay the same, but the znode changes: what `fenced` returned before
        refuses to write from now on.

        Cancellation: the hold stays one for writing, or is one for reading already: see
        `is_downgraded`, which does not change later. It is safe to call this again. On connection
        loss: continues over the next connection.

        Raises:
            LockLost: the lock is lost.
            UsageError: the lock was released, by `release` or by the end of its body.
            ReleaseError: the servers refuse to delete the writer's znode. The hold is one for
                reading, but nobody else comes in before this session ends.
            ServerError: the servers refused to create the reader's znode, by an ACL for instance;
                the hold is still for writing.
        """
        self.check()
        async with self._downgrading:
            # Another task may have released it while this one waited.
            self.check()
            while not self._is_downgraded:
                try:
                    reader = await self._created_reader()
                except AioleadError as error:
                    self.check()
                    await before_next_try(self._client, error, Step.ACQUIRE)
                    self.check()
                else:
                    self.check()
                    self._move_to(reader)
            await self._writer_deleted()

    async def _created_reader(self) -> Znode:
        """Return the reader, which holds nothing yet; create it if no earlier call has."""
        writer, reader = self._contender.znode, self._reader
        # If others delete the writer, that is known before the answer to any later request.
        writer.watch()
        if reader is None:
            path = join(self._contest.path, self._names.as_reader(writer.node.name))
            naming = Fixed(self._client, path, is_contended=False, is_unique=True)
            data, acl = self._contest.data, self._contest.acl
            reader = self._reader = Znode(self._client, naming, data, acl, self._contender)
        if await reader.resolve():
            # Others may have deleted it since.
            reader.unwatch()
            reader.watch()
            await reader.looked_at()
            if not reader.is_gone:
                return reader
            reader.forget()
        self.check()
        await reader.create()
        return reader

    def _move_to(self, reader: Znode) -> None:
        """Hold the reader instead of the writer, and delete the writer; synchronous."""
        reader.hold(self, self._contest.hold_options)
        reader.watch()
        writer, self._contender.znode, self._reader = self._contender.znode, reader, None
        self._path = reader.node.path
        self._is_downgraded = True
        self._writer_gone = writer.discard()

    async def _writer_deleted(self) -> None:
        """Wait for the writer's delete; raise `ReleaseError` if it was refused."""
        gone = self._writer_gone
        if gone is None:
            return
        refusal = await answered(gone)
        self.check()
        if isinstance(refusal, ReleaseError):
            raise refusal

    def _release(self) -> None:
        if self._reader is not None:
            self._reader.discard()
        super()._release()


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

    holders: ClassVar[rivals.Inquiry] = rivals.holders
    contenders: ClassVar[rivals.Inquiry] = rivals.contenders
    revoke: ClassVar[rivals.Inquiry] = rivals.revoke


def _recipes_of_task(contest: Contest[Any]) -> list[str]:
    """The recipes by which the current task holds this path, or waits for it."""
    mine = () if contest.guard is None else contest.guard.get(current_task_id(), ())
    return [each.recipe for each in mine]


def _refuse_writer(read: Contest[Any]) -> None:
    if WriteLock.__name__ in _recipes_of_task(read):
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
            type(self).__name__, client, path, layout, Role.WRITE, shown=Role.WRITE
        )
        contest = self._queue.contest(
            partial(WriteHeld, self._queue.names),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            check_task=_refuse_reader,
        )
        super().__init__(contest)

    holders: ClassVar[rivals.Inquiry] = rivals.holders
    contenders: ClassVar[rivals.Inquiry] = rivals.contenders
    revoke: ClassVar[rivals.Inquiry] = rivals.revoke


def _refuse_reader(write: Contest[Any]) -> None:
    if ReadLock.__name__ in _recipes_of_task(write):
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
        checked_names(type(self).__name__, layout, Role.READ, Role.WRITE)
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
        return await rivals.holders(self)

    async def contenders(self) -> list[Participant]:
        """Return the holders and the waiters, in queue order. May lag, as `Lock.holders`."""
        return await rivals.contenders(self)

    async def revoke(self) -> list[Participant]:
        """Ask the present holders, readers or a writer, to release. See `Lock.revoke`."""
        return await rivals.revoke(self)
