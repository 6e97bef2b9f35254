"""Writes that the server applies only while a guarding znode exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ...errors import ConfigurationError, Fenced, NoNodeError, TransactionError
from ...model import ACL, CreateMode, Stat
from ..core import Core
from .operations import Scope
from .pending_reply import PendingReply
from .transaction import Transaction, TransactionResult

T = TypeVar("T")


class Fence:
    """See `aiolead.abc.FencedClient`. All writes raise `Fenced`, with nothing applied, without the
    guard.

    Each write is a transaction that begins with a check of the guard, so the ensemble itself
    refuses it once the guard is gone: no clock is involved. A fence is good only for the session
    that it was made in: later, a znode of the guard's name may be another contender's, since
    sequence numbers start again with the path. No request crosses from one session to the next, so
    a look at the call is enough.
    """

    def __init__(self, core: Core, scope: Scope, guard: str, gone: Callable[[], bool]) -> None:
        self._core = core
        self._scope = scope
        self._guard = guard
        self._gone = gone
        self._session_id = core.machine.session_id

    def transaction(self) -> FencedTransaction:
        """See `Client.transaction`."""
        return FencedTransaction(self._core, self._scope, self._guard, self._is_gone)

    def _is_gone(self) -> bool:
        return self._core.machine.session_id != self._session_id or self._gone()

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """See `Client.create`; returns the znode's path."""
        result = await self._one(self.transaction().create(path, data, mode=mode, acl=acl, ttl=ttl))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """See `Client.set`."""
        result = await self._one(self.transaction().set(path, data, version=version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, *, version: int = -1) -> None:
        """See `Client.delete`."""
        await self._one(self.transaction().delete(path, version=version))

    async def _one(self, transaction: FencedTransaction) -> TransactionResult:
        try:
            (result,) = await transaction
        except TransactionError as error:
            # The caller asked for one write, so it gets the error of that write.
            raise error.cause from None
        return result


class FencedTransaction(Transaction):
    """A transaction that begins with the guard's check; raises `Fenced` without the guard."""

    def __init__(self, core: Core, scope: Scope, guard: str, gone: Callable[[], bool]) -> None:
        super().__init__(core, scope)
        self._guard = guard
        self._gone = gone
        self.check(guard)

    def commit(self) -> PendingReply[list[TransactionResult]]:
        if len(self._ops) == 1:
            raise ConfigurationError("transaction: needs at least one operation")
        if not self._gone():
            return super().commit()
        refused: PendingReply[list[TransactionResult]] = PendingReply(
            OpCode.MULTI, b"", self._parse
        )
        refused._fail(Fenced(self._guard))
        return refused

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
