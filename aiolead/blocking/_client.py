"""The client: a session, and what threads have it do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, final

import aiolead

from ..model import ACL, Created, CreateMode, SessionState, Stat
from ._fence import Transaction
from ._loop import Loop

T = TypeVar("T")


@final
class Client:
    """A session with a ZooKeeper ensemble, for any number of threads. Made by `blocking.connect`.

    Each operation waits for its answer; what it raises is what the same one of `aiolead.Client`
    raises. What is not here: `call`.

    Raises:
        UsageError: in a forked child, or in a thread that runs an event loop; nothing was sent.
        ClientClosedError: it was closed.
        TenureLost: this thread is in the body of something that is lost; nothing was sent.
    """

    def __init__(self, loop: Loop, client: aiolead.Client) -> None:
        self._loop = loop
        self._client = client

    def call(self, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
        """Has anything awaited in the event loop of the client, and waits for what it gives.

        For instance `client.call(lambda c: c.get_acl("/a"))`, or an `async def` that takes the
        client. It must not block; nor may it hand out what belongs to the event loop.

        An exception that a signal handler raises meanwhile (Ctrl-C) cancels it.
        """
        return self._loop.call(lambda: act(self._client))

    def _make(self, make: Callable[[aiolead.Client], T]) -> T:
        async def act() -> T:
            return make(self._client)

        return self._loop.call(act)

    # --- how things stand ----------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The current session; 0 before the first one."""
        return self._client.session_id

    @property
    def session_timeout(self) -> float:
        """What was asked for or what the servers granted, whichever is less, in seconds."""
        return self._client.session_timeout

    @property
    def state(self) -> SessionState:
        """The session's state."""
        return self._client.state

    def healthy(self, max_unconfirmed: float | None = None) -> bool:
        """Whether the servers have confirmed that this client is well, not longer ago than that.

        See `aiolead.Client.healthy`. It does not wait for the event loop.
        """
        return self._client.healthy(max_unconfirmed)

    def statistics(self) -> aiolead.types.ClientStatistics:
        """How the client is doing; see `aiolead.Client.statistics`."""
        return self._make(lambda c: c.statistics())

    # --- operations ----------------------------------------------------------------------------

    def chroot(self, path: str) -> Client:
        """A view of what lies under `path`, over the same session."""
        return Client(self._loop, self._client.chroot(path))

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Created:
        """Creates a znode."""
        return self.call(lambda c: c.create(path, data, mode=mode, acl=acl, ttl=ttl))

    def delete(self, path: str, *, version: int = -1) -> None:
        """Deletes a znode without children, if it has the version (-1: any)."""
        self.call(lambda c: c.delete(path, version=version))

    def delete_all(self, path: str) -> int:
        """Deletes a znode with everything below it; returns how many."""
        return self.call(lambda c: c.delete_all(path))

    def ensure_path(
        self,
        path: str,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
    ) -> None:
        """Creates a znode, and what is missing above it, unless it is there."""
        self.call(lambda c: c.ensure_path(path, mode=mode, acl=acl))

    def exists(self, path: str) -> Stat | None:
        """A znode's `Stat`, or None if there is no such znode."""
        return self.call(lambda c: c.exists(path))

    def get(self, path: str) -> tuple[bytes, Stat]:
        """A znode's data and `Stat`."""
        return self.call(lambda c: c.get(path))

    def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """Replaces a znode's data, if it has the version (-1: any); returns its new `Stat`."""
        return self.call(lambda c: c.set(path, data, version=version))

    def get_children(self, path: str) -> list[str]:
        """The names of a znode's children, in no particular order."""
        return self.call(lambda c: c.get_children(path))

    def sync(self, path: str = "/") -> None:
        """Has the connected server catch up with the leader before it answers what comes after."""
        self.call(lambda c: c.sync(path))

    def transaction(self) -> Transaction:
        """Several writes that are applied together or not at all."""
        return Transaction(self._loop, self._client.transaction())
