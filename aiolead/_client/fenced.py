"""Writes that the server applies only while a znode of ours exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .._wire.jute import Reader
from ..errors import ConfigurationError, Fenced, NoNodeError, TransactionError
from ..model import ACL, CreateMode, Stat
from .core import Core
from .operations import Scope
from .reply import PendingReply
from .transaction import Transaction, TransactionResult

T = TypeVar("T")


class Fence:
    """See `aiolead.abc.FencedClient`.

    Each write is a transaction that begins with a check of the guard, so the ensemble itself
    refuses it once the guard is gone: no clock is involved.

    Args:
        core: the client.
        scope: its view of the tree.
        guard: the znode that must exist.
    """

    def __init__(self, core: Core, scope: Scope, guard: str) -> None:
        self._core = core
        self._scope = scope
        self._guard = guard

    def transaction(self) -> FencedTransaction:
        """Several writes under one check; see `Client.transaction`."""
        return FencedTransaction(self._core, self._scope, self._guard)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """Creates a znode and returns its path; see `Client.create`.

        Raises:
            Fenced: the guard is gone; nothing was applied.
        """
        result = await self._one(self.transaction().create(path, data, mode=mode, acl=acl, ttl=ttl))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Sets a znode's data; see `Client.set`.

        Raises:
            Fenced: the guard is gone; nothing was applied.
        """
        result = await self._one(self.transaction().set(path, data, version=version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode; see `Client.delete`.

        Raises:
            Fenced: the guard is gone; nothing was applied.
        """
        await self._one(self.transaction().delete(path, version=version))

    async def _one(self, transaction: FencedTransaction) -> TransactionResult:
        try:
            (result,) = await transaction
        except TransactionError as error:
            # The caller asked for one write, so it gets the error of that one.
            raise error.cause from None
        return result


class FencedTransaction(Transaction):
    """A transaction that is applied only while the guard exists; otherwise like any other.

    Raises:
        Fenced: the guard is gone; nothing was applied.
        TransactionError: an operation failed, so none was applied.
    """

    def __init__(self, core: Core, scope: Scope, guard: str) -> None:
        super().__init__(core, scope)
        self._guard = guard
        self.check(guard)

    def commit(self) -> PendingReply[list[TransactionResult]]:
        if len(self._ops) == 1:
            raise ConfigurationError("transaction: needs at least one operation")
        return super().commit()

    def _parse(self, r: Reader) -> list[TransactionResult]:
        # The check of the guard is ours: neither results nor errors count it.
        try:
            return super()._parse(r)[1:]
        except TransactionError as error:
            if error.index > 0:
                raise TransactionError(error.index - 1, error.results[1:]) from None
            if isinstance(error.cause, NoNodeError):
                raise Fenced(self._guard) from None
            raise error.cause from None
