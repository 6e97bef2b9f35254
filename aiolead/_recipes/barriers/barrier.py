"""The barrier recipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import final

from ...abc import CoordinationClient
from ...errors import AioleadError, NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, EventType
from ...paths import parent
from .._core.error_policy import Step, before_next_try
from .._core.parents import with_parent
from .._core.recipe import Recipe

_MARK = b"aiolead barrier"
"""The data of the znode, by which people see what it is; no library reads them."""


@final
class Barrier(Recipe):
    """A barrier that any process sets and removes, and that others wait at while it is set.

        barrier = Barrier(client, "/maintenance")
        await barrier.set()
        ...
        await barrier.remove()      # other processes: await barrier.wait()

    It stays set until a process removes it, whatever happens to the process that set it.

    Args:
        client: the session.
        path: the znode that exists while the barrier is set; missing parents become containers.
        acl: of the znode and of the parents; open to everybody by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        super().__init__(client, path, acl)

    async def set(self) -> None:
        """Set the barrier. No effect if it is set.

        On connection loss: raises `ConnectionLossError`, which says whether it may be set. It is
        safe to retry. Cancellation: it may be set all the same.
        """
        with suppress(NodeExistsError):
            await with_parent(
                self._client,
                parent(self._path),
                lambda: self._client.create(self._path, _MARK, acl=self._acl),
                mode=CreateMode.CONTAINER,
                acl=self._acl,
            )

    async def remove(self) -> None:
        """Remove the barrier: every waiter goes on. No effect if it is not set.

        On connection loss, cancellation: as for `set`.
        """
        with suppress(NoNodeError):
            await self._client.delete(self._path)

    async def is_set(self) -> bool:
        """Whether the barrier is set.

        Reads from the connected server, which may lag; call `client.sync()` first where that
        matters.
        """
        return await self._client.exists(self._path) is not None

    async def wait(self) -> None:
        """Wait until the barrier is removed; return at once if it is not set.

        A lagging server lets no client through: the quorum is asked first, by a write that changes
        nothing. A removal counts even if the barrier is set again at once, and if it comes during a
        lost connection or between two sessions.

        Raises:
            SessionError: the client was closed, or its credentials were refused.

        Cancellation: stops waiting.
        """
        client = self._client
        seen: int | None = None  # the czxid of the znode that has to go
        while True:
            watch = client.backend.make_watch()
            try:
                # As `catch_up`, but a barrier that is not set takes one request: this one.
                await client.check(self._path)
                _, stat = await client.get(self._path, watch=watch)
                if seen is not None and stat.czxid != seen:
                    return  # removed meanwhile, and set again
                seen = stat.czxid
                event = await watch.wait()
                if event.type is EventType.DELETED:
                    return
            except NoNodeError:
                return
            except AioleadError as error:
                await before_next_try(client, error, Step.FOLLOW)
            finally:
                watch.close()
