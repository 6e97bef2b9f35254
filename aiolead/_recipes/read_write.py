"""The lock that readers share and a writer holds alone.

A writer may become a reader before any other writer gets in. A transaction creates the reader
(`__READ__` with the writer's number, as Curator since CURATOR-621) and deletes the writer. The hold
moves to the reader as the answer arrives, before later answers.

If that answer is lost, the hold stays on the writer. The next renewal confirms the writer or shows
that it is gone; then the hold moves to the reader, which the renewal after that confirms or loses.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, final

import anyio.lowlevel

from ..abc import CoordinationClient, Hold, Reply
from ..errors import (
    AioleadError,
    AlreadyHeldError,
    ConnectionLossError,
    Fenced,
    LossReason,
    NoNodeError,
    SessionError,
    UpgradeError,
)
from ..model import ACL, Created, CreateMode, Participant, Stat
from ..paths import basename, join
from . import contender_queue
from .contender_queue import Contender, ContenderQueue
from .errors import Step, before_next_try, may_be_applied, until_done
from .hold import Held
from .holding import Contest, HeldRecipe
from .layouts import Layout, Role
from .pending_delete import Departure, PendingDelete, whichever_there_is
from .place import Place
from .recipe import OnDisconnect
from .znode import Holder, HoldOptions, Znode
from .znode_registry import RegisteredNode


class Downgrade(enum.Enum):
    """The state of the transaction that turns a writer into a reader."""

    NONE = "none"
    """Not sent, or not applied."""
    SENT = "sent"
    UNKNOWN = "unknown"
    """The answer was lost."""
    DONE = "done"


class WriteContender(Contender):
    """A contender for writing, and the `Hold` that it returns, since its znode may change.

    It is also the `Holder` of its znodes, and passes losses and requests on to the tenure.
    """

    downgrade = Downgrade.NONE
    _holding: Hold
    _options: HoldOptions
    _tenure: Holder | None = None
    _reader: Znode | None = None
    """The reader, from the transaction that creates it until its outcome is known."""
    _reader_look: Reply[tuple[bytes, Stat]] | None = None
    _refusal: AioleadError | None = None
    _is_discarded = False
    _has_moved = False
    """Whether the hold is on the reader."""
    _on_reader: Callable[[RegisteredNode], object] | None = None

    def when_reader(self, call: Callable[[RegisteredNode], object]) -> None:
        """Register a callback, called synchronously once the downgrade is confirmed."""
        self._on_reader = call

    # --- the hold ------------------------------------------------------------------------------

    @property
    def node(self) -> RegisteredNode:
        return self.znode.node

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        self._tenure = holder
        self._options = options
        self._holding = self.znode.hold(self, options)
        return self

    def lose(self, reason: LossReason) -> None:
        self._holding.lose(reason)

    def release(self) -> None:
        self._holding.release()

    def _lose(self, reason: LossReason) -> None:
        """See `Holder`."""
        if (
            reason is LossReason.DELETED
            and self.downgrade is Downgrade.UNKNOWN
            and not self._has_moved
            and not self._is_discarded
        ):
            self._move_hold()
            self._look_at_reader()
        elif self._tenure is not None:
            self._tenure._lose(reason)

    def _ask_for(self) -> None:
        """See `Holder`."""
        if self._tenure is not None:
            self._tenure._ask_for()

    def _move_hold(self) -> None:
        before, self._has_moved = self._holding, True
        options: HoldOptions = {**self._options, "urgent": True}
        self._holding = self._the_reader.hold(self, options, self._reader_path)
        before.release()

    # --- becoming a reader ---------------------------------------------------------------------

    async def become_reader(self) -> None:
        """Send the transaction, once, and wait for its outcome, which is in `downgrade`.

        Raises a `ServerError` if it was refused, a `ConnectionLossError` while the outcome is
        unknown.
        """
        if self.downgrade is Downgrade.NONE:
            self._send()
        if self._reader_look is not None:
            with suppress(NoNodeError):
                await self._reader_look
        held = self._the_reader if self._has_moved else self.znode
        if self._is_between and not held.is_gone:
            await self._find_out()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    @property
    def _is_between(self) -> bool:
        return self.downgrade in (Downgrade.SENT, Downgrade.UNKNOWN)

    @property
    def _the_reader(self) -> Znode:
        return self.znode if self._reader is None else self._reader

    def _send(self) -> None:
        writer, path, data = self.node, self._reader_path, self.znode.data
        # Claimed, so that the clean-up of unclaimed znodes leaves it alone.
        self._local.claim(basename(path), writer.sequence)
        self._reader = Znode(self._client, self._naming, data, self._acl, self)
        self.znode.is_muted = True
        self.downgrade = Downgrade.SENT
        change = (
            self._client.fenced(writer.path)
            .transaction()
            .create(path, data, mode=CreateMode.EPHEMERAL, acl=self._acl)
            .delete(writer.path)
            .commit()
        )
        change.add_done_callback(partial(self._answered, change))
        self._look_at_reader()

    @property
    def _reader_path(self) -> str:
        return join(self._path, self._layout._downgraded(self.node.name))

    def _answered(self, change: Reply[list[Any]]) -> None:
        """Process the answer, or its loss, before any later answer."""
        error = change.error()
        if self._is_discarded:
            return
        if error is None:
            self._move_hold()
        elif may_be_applied(error):
            self.downgrade = Downgrade.UNKNOWN
        elif isinstance(error, Fenced):
            self.znode.lost()
        else:
            if not isinstance(error, (ConnectionLossError, SessionError)):
                self._refusal = error
            self._stay()

    def _look_at_reader(self) -> Reply[tuple[bytes, Stat]]:
        watch = self._the_reader.watch_for_look()
        look = self._reader_look = self._client.get(self._reader_path, watch=watch)
        look.add_done_callback(partial(self._reader_seen, look))
        return look

    def _reader_seen(self, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._reader_look is look:
            self._reader_look = None
        reader, writer = self._reader, self.znode
        if reader is None or writer.current is None or look.error():
            return
        path, (_, stat) = self._reader_path, look.result()
        if stat.ephemeral_owner == writer.node.session_id:
            if not self._has_moved:
                self._move_hold()
            reader.take(Created(path, stat))
            self.znode, self._reader = reader, None
            self.downgrade = Downgrade.DONE
            writer.forget()
            if self._on_reader is not None:
                self._on_reader(reader.node)

    async def _find_out(self) -> None:
        """Ask the quorum whether the reader exists: the connected server may lag."""
        try:
            await self._client.check(self._reader_path)
        except NoNodeError:
            if self._is_between and self._has_moved:
                self._the_reader.lost()
            elif self._is_between:
                self._stay()
            return
        if self._is_between:
            with suppress(NoNodeError):
                await self._look_at_reader()

    def _stay(self) -> None:
        """Return to the writer: the transaction was not applied."""
        self._local.forget(basename(self._reader_path))
        self._drop_reader()
        self.downgrade = Downgrade.NONE
        self.znode.is_muted = False
        self.znode.watch()

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.unwatch()
            reader.discard()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        self._is_discarded = True
        self._tenure = self._on_reader = None
        node = self.znode.current
        if not self._is_between or node is None:
            return super().discard()
        # Either of the two may exist: delete both.
        path, session_id = self._reader_path, node.session_id
        self._drop_reader()
        self.znode.unwatch()
        writer = super().discard()
        client, forget = self._client, partial(self._local.forget, basename(path))
        if session_id != client.session_id:
            forget()
            return writer
        return whichever_there_is(writer, _ReaderDeletion(client, node, path, writer, forget))


def _writer(queue: ContenderQueue, contest: Contest[Any]) -> WriteContender:
    return WriteContender(queue, contest.data, contest.acl)


class _ReaderDeletion(PendingDelete):
    """The pending delete of a reader whose transaction is unanswered: it may still be created.

    `gone` is the delete of the writer, sent before this one; None if the writer is gone.
    """

    __slots__ = ("_gone",)

    def __init__(
        self,
        client: CoordinationClient,
        writer: RegisteredNode,
        path: str,
        gone: Departure | None,
        over: Callable[[], object],
    ) -> None:
        self._gone = gone
        debt = partial(_delete_reader, client, writer, path)
        super().__init__(client, path, client.delete(path), debt, over)

    def _answered(self) -> None:
        if self._gone is None or self._gone.is_done:
            super()._answered()
        else:
            # The writer may still exist, so the reader may still be created.
            self._spawn_payment()


async def _delete_reader(client: CoordinationClient, writer: RegisteredNode, path: str) -> None:
    """Delete a reader that may still be created.

    The transaction that creates the reader is conditional on the writer. So delete the writer
    first: from then on the reader exists, or never will. Looking for it before, even after a
    `sync`, is too early: a leader answers `sync` to its own clients before it applies what is in
    flight.
    """

    async def delete() -> None:
        with suppress(NoNodeError):
            await client.delete(writer.path)
        await client.delete(path)

    await until_done(client, writer.session_id, delete)


class WriteHeld(Held):
    """A hold for writing, or, after `downgrade`, for reading."""

    _is_downgraded = False
    _writer: WriteContender

    def _take(self, place: Place) -> None:
        assert isinstance(place, WriteContender)
        self._writer = place
        super()._take(place)
        place.when_reader(self._on_reader)

    def _registered(self, place: Place, options: HoldOptions) -> Hold:
        assert isinstance(place, WriteContender)
        return place.hold(self, options)

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
            type(self).__name__, client, path, layout, Role.WRITE, shown=Role.WRITE
        )
        contest = self._queue.contest(
            WriteHeld,
            make_place=partial(_writer, self._queue),
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
