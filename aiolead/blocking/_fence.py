"""Several writes as one, and writes that are refused once what guards them is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from .. import abc
from ..model import ACL, CreateMode, Stat
from ._loop import Loop


class Transaction:
    """Collects operations, then sends them as one: `commit`. See `aiolead.types.Transaction`.

    Made by `Client.transaction` and `Fence.transaction`. For one thread.
    """

    def __init__(self, loop: Loop, transaction: abc.Transaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Self:
        """Adds a create; see `aiolead.Client.create`."""
        self._transaction.create(path, data, mode=mode, acl=acl, ttl=ttl)
        return self

    def delete(self, path: str, *, version: int = -1) -> Self:
        """Adds a delete; see `aiolead.Client.delete`."""
        self._transaction.delete(path, version=version)
        return self

    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Adds a set; see `aiolead.Client.set`."""
        self._transaction.set(path, data, version=version)
        return self

    def check(self, path: str, *, version: int = -1) -> Self:
        """Adds the condition that a znode exists, and has the version, unless that is -1."""
        self._transaction.check(path, version=version)
        return self

    async def _commit(self) -> list[str | Stat | None]:
        return await self._transaction.commit()

    def commit(self) -> list[str | Stat | None]:
        """Sends it, once, and waits for the answer: one entry for each operation.

        Raises:
            TransactionError: an operation failed, so none was applied.
            Fenced: what guards it is gone; nothing was applied.
            ConnectionLossError: the link was lost; `outcome` says whether it may have been applied.
        """
        return self._loop.call(self._commit)


class Fence:
    """Writes that the server applies only while the guarding znode exists: `held.fenced()`.

    Each raises `Fenced` if it does not. See `aiolead.types.Fence`.
    """

    def __init__(self, loop: Loop, fence: abc.FencedClient) -> None:
        self._loop = loop
        self._fence = fence

    def transaction(self) -> Transaction:
        """Several of them, all or none."""
        return Transaction(self._loop, self._fence.transaction())

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """Creates a znode and returns its path."""
        return self._loop.call(lambda: self._fence.create(path, data, mode=mode, acl=acl, ttl=ttl))

    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Sets a znode's data."""
        return self._loop.call(lambda: self._fence.set(path, data, version=version))

    def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode."""
        self._loop.call(lambda: self._fence.delete(path, version=version))
