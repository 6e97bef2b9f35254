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

from ...abc import CoordinationClient, Hold, Reply, Watch
from ...errors import (
    AioleadError,
    ConnectionLossError,
    Fenced,
    LossReason,
    NoNodeError,
    SessionError,
)
from ...model import CreateMode, EventType, Stat, WatchEvent
from ...paths import basename, join
from .._core.ephemeral import Holder, HoldOptions
from .._core.error_policy import may_be_applied, until_done
from .._core.pending_delete import Departure, PendingDelete, whichever_there_is
from .._core.znode_registry import RegisteredNode
from ..contention.contender import Contender


class Downgrade(enum.Enum):
    """The state of the transaction that turns a writer into a reader."""

    NONE = "none"
    """Not sent, or not applied."""
    SENT = "sent"
    UNKNOWN = "unknown"
    """The answer was lost."""
    DONE = "done"


class WriteContender(Contender):
    """A contender for writing, and the `Hold` that it returns, since its znode may change."""

    downgrade = Downgrade.NONE
    _holding: Hold
    _options: HoldOptions
    _reader_look: Reply[tuple[bytes, Stat]] | None = None
    _refusal: AioleadError | None = None
    _writer_watch: Watch | None = None
    _is_discarded = False
    _has_moved = False
    """Whether the hold is on the reader."""
    _on_reader: Callable[[RegisteredNode], object] | None = None

    def when_reader(self, call: Callable[[RegisteredNode], object]) -> None:
        """Register a callback, called synchronously once the downgrade is confirmed."""
        self._on_reader = call

    # --- the hold ------------------------------------------------------------------------------

    def hold(self, holder: Holder, options: HoldOptions) -> Hold:
        self._options = options
        self._holding = super().hold(holder, options)
        return self

    def lose(self, reason: LossReason) -> None:
        self._holding.lose(reason)

    def release(self) -> None:
        self._holding.release()

    def _hold_lost(self, reason: LossReason) -> None:
        if (
            reason is LossReason.DELETED
            and self.downgrade is Downgrade.UNKNOWN
            and not self._has_moved
            and not self._is_discarded
        ):
            self._move_hold()
            self._look_at_reader()
        else:
            super()._hold_lost(reason)

    def _move_hold(self) -> None:
        before, self._has_moved = self._holding, True
        self._gone = False
        options: HoldOptions = {**self._options, "urgent": True}
        self._holding = self._begin_hold(self._reader_path, options)
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
        if self._is_between and not self._gone:
            await self._find_out()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    @property
    def _is_between(self) -> bool:
        return self.downgrade in (Downgrade.SENT, Downgrade.UNKNOWN)

    def _send(self) -> None:
        writer, path = self.node, self._reader_path
        # Claimed, so that the clean-up of unclaimed znodes leaves it alone.
        self._local.claim(basename(path), writer.sequence)
        self._writer_watch, self._watch = self._watch, None
        self.downgrade = Downgrade.SENT
        change = (
            self._client.fenced(writer.path)
            .transaction()
            .create(path, self._data, mode=CreateMode.EPHEMERAL, acl=self._acl)
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
            self._lost()
        else:
            if not isinstance(error, (ConnectionLossError, SessionError)):
                self._refusal = error
            self._stay()

    def _look_at_reader(self) -> Reply[tuple[bytes, Stat]]:
        if self._watch is None:
            self._make_watch()
        look = self._reader_look = self._client.get(self._reader_path, watch=self._watch)
        look.add_done_callback(partial(self._reader_seen, look))
        return look

    def _reader_seen(self, look: Reply[tuple[bytes, Stat]]) -> None:
        if self._reader_look is look:
            self._reader_look = None
        if not self._is_between or self._node is None or look.error():
            return
        writer, (_, stat) = self._node, look.result()
        if stat.ephemeral_owner == writer.session_id:
            reader = RegisteredNode(
                self._reader_path, writer.sequence, stat.czxid, writer.session_id
            )
            self._node = reader
            self.downgrade = Downgrade.DONE
            self._local.forget(writer.name)
            self._close_writer_watch()
            if not self._has_moved:
                self._move_hold()
            if self._on_reader is not None:
                self._on_reader(reader)

    async def _find_out(self) -> None:
        """Ask the quorum whether the reader exists: the connected server may lag."""
        try:
            await self._client.check(self._reader_path)
        except NoNodeError:
            if self._is_between and self._has_moved:
                self._lost()
            elif self._is_between:
                self._stay()
            return
        if self._is_between:
            with suppress(NoNodeError):
                await self._look_at_reader()

    def _stay(self) -> None:
        """Return to the writer: the transaction was not applied."""
        self._local.forget(basename(self._reader_path))
        self.unwatch()
        self._watch, self._writer_watch = self._writer_watch, None
        self.downgrade = Downgrade.NONE
        if self._watch is None:
            self._send_look()

    # --- watching ------------------------------------------------------------------------------

    def _hold_settled(self) -> None:
        if not self._is_between:
            super()._hold_settled()

    def _seen(self, node: RegisteredNode, look: Reply[tuple[bytes, Stat]]) -> None:
        # A look at the writer that was sent again, over the next connection, is stale.
        if self._is_between:
            self._look = None
        else:
            super()._seen(node, look)

    def _on_event(self, event: WatchEvent) -> None:
        if self.downgrade is not Downgrade.NONE and self._is_of_writer(event):
            self._writer_watch = None  # expected
        else:
            super()._on_event(event)

    def _is_of_writer(self, event: WatchEvent) -> bool:
        return event.type is not EventType.NONE and not self._layout._is_reader(
            basename(event.path)
        )

    def _close_writer_watch(self) -> None:
        watch, self._writer_watch = self._writer_watch, None
        if watch is not None:
            watch.close()

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> Departure | None:
        self._is_discarded = True
        self._on_reader = None
        node = self._node
        if not self._is_between or node is None:
            return super().discard()
        # Either of the two may exist: delete both.
        path, session_id = self._reader_path, node.session_id
        self.unwatch()
        self._close_writer_watch()
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
