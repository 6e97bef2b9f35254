"""The barrier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import final

from ...abc import CoordinationClient
from ...errors import AioleadError, NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, EventType
from ...paths import parent
from .._core.arguments import checked_acl, checked_client, checked_path
from .._core.error_policy import Step, before_next_try


@final
class Barrier:
    """A gate that somebody closes and opens, and that others wait at while it is closed.

        barrier = Barrier(client, "/maintenance")
        await barrier.close()
        ...
        await barrier.open()        # somebody else: await barrier.wait()

    Closed is a state of the servers, not of whoever closed it: it stays closed until somebody opens
    it, whatever becomes of that process.

    Args:
        client: the session.
        path: the znode that is there while it is closed; what is missing above it is created, as
            containers.
        acl: of the znode, and of what has to be created above it; everybody everything by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path}>"

    @property
    def path(self) -> str:
        """The znode."""
        return self._path

    async def close(self) -> None:
        """Closes it, unless it is closed.

        On connection loss: raises `ConnectionLossError`, which says whether it may have happened.
        Closing what is closed does no harm: do it again.

        Cancellation: it may be closed all the same.
        """
        while True:
            try:
                await self._client.create(self._path, acl=self._acl)
            except NodeExistsError:
                pass
            except NoNodeError:
                await self._client.ensure_path(
                    parent(self._path), mode=CreateMode.CONTAINER, acl=self._acl
                )
                continue
            return

    async def open(self) -> None:
        """Opens it, unless it is open. Everybody who waits goes on.

        On connection loss, cancellation: as for `close`.
        """
        with suppress(NoNodeError):
            await self._client.delete(self._path)

    async def is_open(self) -> bool:
        """Whether it is open.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        return await self._client.exists(self._path) is None

    async def wait(self) -> None:
        """Waits until it is open; returns at once if it is.

        Whoever was told that it is closed does not find it open because of a server that is behind:
        the quorum is asked first, by a write that changes nothing. An opening counts even if it was
        closed again at once. One that happens while there is no link, or no session, is found out
        about afterwards.

        Raises:
            SessionError: the client was closed, or its credentials were refused.
        """
        client = self._client
        seen: int | None = None  # the czxid of what we wait for to go
        while True:
            watch = client.make_watch()
            try:
                # As `catch_up`, but that a barrier that is open takes one request: this one.
                await client.check(self._path)
                _, stat = await client.get(self._path, watch=watch)
                if seen is not None and stat.czxid != seen:
                    return  # it was opened meanwhile, and closed again
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
