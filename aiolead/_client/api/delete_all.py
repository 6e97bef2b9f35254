"""Deletes a znode with everything below it; ZooKeeper has no operation for this.

The tree is listed breadth first, so the reverse of the list has every znode before its parent.
Deletions are sent and applied in this order, several transactions at a time, while others may
create and delete in the tree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ...errors import (
    ConnectionLossError,
    InvalidPathError,
    NoNodeError,
    NotEmptyError,
    Outcome,
    TransactionError,
)
from ...paths import join
from ..core import Core
from .operations import ANY_VERSION, GET_CHILDREN, Scope
from .pending_reply import PendingReply
from .transactions import Transaction, TransactionResult

LISTINGS = 64
"""How many requests for children may be in flight."""

TRANSACTIONS = 8
"""How many transactions may be in flight."""

DELETIONS = 128
"""How many znodes one transaction deletes at most."""

TRANSACTION_BYTES = 64 * 1024
"""The longest transaction, in bytes, however much the servers would accept."""

DELETION_BYTES = 4 + 1 + 4 + 4 + 4
"""The size of a deletion without its path: its header, a length, a version."""

TRANSACTION_END = 4 + 1 + 4
"""The size of a transaction without its operations."""

ROUNDS = 10
"""How often the tree is listed again because others created something in it."""

LOSSES = 5
"""How many connections may be lost in a row without anything being deleted."""

FIXED = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""Znodes that no server deletes."""


class TreeDeletion:
    """One deletion of a tree; `run` it once. The root of a view under a chroot stays.

    Raises `InvalidPathError` if no server deletes the top.
    """

    def __init__(self, core: Core, scope: Scope, path: str) -> None:
        if scope.full(path) in FIXED:
            raise InvalidPathError(f"path: nobody can delete {scope.full(path)}")
        self._core = core
        self._scope = scope
        self._top = path
        self._room = min(core.machine.max_body, TRANSACTION_BYTES) - TRANSACTION_END
        self._deleted = 0
        self._unsure: set[str] = set()
        """Deletions that were sent and are not answered yet."""

    async def run(self) -> int:
        """Deletes; returns the number of znodes. See `Client.delete_all`."""
        rounds = losses = 0
        while True:
            listed = await self._list()
            self._count_the_unsure(listed)
            before = self._deleted
            try:
                if await self._delete(listed):
                    return self._deleted
            except ConnectionLossError as error:
                losses = 1 if self._deleted > before else losses + 1
                # No server for a whole session timeout, or a loss each time that this is sent.
                if error.outcome is Outcome.NOT_APPLIED or losses == LOSSES:
                    raise
                continue
            rounds += 1
            if rounds == ROUNDS:
                raise NotEmptyError(
                    self._top, message=f"others create in it while it is deleted ({ROUNDS} times)"
                )

    async def _list(self) -> list[str]:
        """Returns the paths, each znode before those below it."""
        found = [self._top]
        queued, asked = deque(found), deque[tuple[str, PendingReply[list[str]]]]()
        missing = set[str]()
        while queued or asked:
            while queued and len(asked) < LISTINGS:
                path = queued.popleft()
                reply = self._core.submit(self._scope.read(GET_CHILDREN, self._core, path, None))
                asked.append((path, reply))
            path, reply = asked.popleft()
            try:
                children = [join(path, name) for name in await reply]
            except NoNodeError:
                missing.add(path)
                continue
            found += children
            queued += children
        if self._top == "/":
            missing.add("/")
        return [path for path in found if path not in missing]

    def _count_the_unsure(self, listed: Iterable[str]) -> None:
        # A znode that is gone after a lost connection was most likely deleted by us.
        self._deleted += len(self._unsure.difference(listed))
        self._unsure.clear()

    async def _delete(self, listed: list[str]) -> bool:
        """Deletes what was listed; False if something there has new children."""
        pending = deque[tuple[list[str], PendingReply[list[TransactionResult]]]]()
        is_clean = True
        for batch in self._batches(reversed(listed)):
            if len(pending) == TRANSACTIONS:
                is_clean &= await self._settle(*pending.popleft())
            transaction = Transaction(self._core, self._scope)
            for path in batch:
                transaction.delete(path)
            pending.append((batch, transaction.commit()))
            self._unsure.update(batch)
        while pending:
            is_clean &= await self._settle(*pending.popleft())
        return is_clean

    def _batches(self, paths: Iterable[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        room = self._room
        for path in paths:
            size = len(self._scope.full(path).encode()) + DELETION_BYTES
            if batch and (len(batch) == DELETIONS or size > room):
                yield batch
                batch, room = [], self._room
            batch.append(path)
            room -= size
        if batch:
            yield batch

    async def _settle(self, batch: list[str], reply: PendingReply[list[TransactionResult]]) -> bool:
        try:
            await reply
        except TransactionError as error:
            if not isinstance(error.cause, (NoNodeError, NotEmptyError)):
                raise error.cause from None
            return await self._delete_one_by_one(batch)
        self._deleted += len(batch)
        self._unsure.difference_update(batch)
        return True

    async def _delete_one_by_one(self, batch: list[str]) -> bool:
        """Deletes a batch that others have changed.

        Later transactions in flight may fail because of what this one has left. Their znodes are
        then deleted one by one after these, so that the order stays.
        """
        ephemerals = self._core.machine.ephemerals
        deletions = [
            self._core.submit(self._scope.delete(path, ANY_VERSION, ephemerals)) for path in batch
        ]
        is_clean = True
        for path, reply in zip(batch, deletions, strict=True):
            try:
                await reply
            except NoNodeError:
                pass
            except NotEmptyError:
                is_clean = False
            else:
                self._deleted += 1
            self._unsure.discard(path)
        return is_clean
