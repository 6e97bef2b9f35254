"""A contender for writing that may become a reader before any other writer gets in.

A transaction creates the reader (`__READ__` with the writer's number, as Curator since CURATOR-621)
and deletes the writer. The hold moves to the reader as the answer arrives, before later answers.

If that answer is lost, the hold stays on the writer. The next renewal confirms the writer or shows
that it is gone; then the hold moves to the reader, which the renewal after that confirms or loses.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ...abc import CoordinationClient, Hold, Reply
from ...errors import (
    AioleadError,
    ConnectionLossError,
    Fenced,
    LossReason,
    NoNodeError,
    SessionError,
)
from ...model import Created, CreateMode, Stat
from ...paths import basename, join
from .._core.error_policy import may_be_applied, until_done
from .._core.pending_delete import Departure, PendingDelete, whichever_there_is
from .._core.znode_registry import RegisteredNode
from ..contention.contender import Contender
from ..znode import Holder, HoldOptions, Znode


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
