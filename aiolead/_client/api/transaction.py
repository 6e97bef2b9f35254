"""Transactions: several writes that are applied together or not at all."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Self

from ..._session.requests.call import WRITE
from ..._session.requests.transaction_call import multi_parser
from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.packets import encode_body
from ..._wire.replies import CreateReply, MultiResult, PathReply, StatReply
from ..._wire.requests import Multi, MultiOp
from ...errors import ConfigurationError, UsageError
from ...model import ACL, CreateMode, Stat
from ..core import Core
from .operations import Scope
from .pending_reply import PendingReply

TransactionResult = str | Stat | None
"""A create's path (servers give no `Stat` here), a set's `Stat`, None for the rest."""


class Transaction:
    """Several writes, sent as one and applied together or not at all.

    For instance `await client.transaction().check("/a", version=3).set("/b", b"new")`. Operations
    see the effect of those before them. Awaiting (or `commit`) sends the transaction, once. The
    result has one entry per operation: the path for a create, the `Stat` for a set, None for a
    check or a delete. If an operation failed, so that none was applied, it raises
    `TransactionError`.
    """

    def __init__(self, core: Core, scope: Scope, *, is_reported: bool = False) -> None:
        self._core = core
        self._scope = scope
        self._is_reported = is_reported
        self._ops: list[MultiOp] = []
        self._paths: list[str] = []
        self._sent = False

    def _add(self, op: MultiOp, path: str) -> Self:
        if self._sent:
            raise UsageError("the transaction was sent already: make a new one")
        self._ops.append(op)
        self._paths.append(path)
        return self

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Self:
        """Add a create; see `Client.create`."""
        return self._add(self._scope.create_request(path, data, mode, acl, ttl), path)

    def delete(self, path: str, *, version: int = -1) -> Self:
        """Add a delete; see `Client.delete`."""
        return self._add(self._scope.delete_request(path, version), path)

    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Add a set; see `Client.set`."""
        return self._add(self._scope.set_request(path, data, version), path)

    def check(self, path: str, *, version: int = -1) -> Self:
        """Add the condition that a znode exists and has the version (-1: any)."""
        return self._add(self._scope.check_request(path, version), path)

    def commit(self) -> PendingReply[list[TransactionResult]]:
        """Send the transaction. After a lost connection, it may or may not have been applied."""
        if not self._ops:
            raise ConfigurationError("transaction: needs at least one operation")
        if self._sent:
            raise UsageError("the transaction was sent already: make a new one")
        self._sent = True
        body = encode_body(Multi(tuple(self._ops)))
        reply: PendingReply[list[TransactionResult]] = PendingReply(
            OpCode.MULTI,
            body,
            self._parse,
            path=self._paths[0],
            kind=WRITE,
        )
        if self._is_reported:
            reply.is_reported = True
        return self._core.submit(reply)

    def __await__(self) -> Generator[Any, Any, list[TransactionResult]]:
        return self.commit().__await__()

    def _parse(self, r: Reader) -> list[TransactionResult]:
        return [self._result(result) for result in multi_parser(self._ops, self._paths)(r)]

    def _result(self, result: MultiResult) -> TransactionResult:
        match result:
            case CreateReply(path) | PathReply(path):
                return self._scope.strip(path)
            case StatReply(stat):
                return stat
            case _:
                return None
