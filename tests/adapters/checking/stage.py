"""The world of one promise: a server, a proxy, the client, an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

import anyio

from aiolead._client.api.client import Client
from aiolead._client.connect import connect as connect_operator
from aiolead._wire.codes import OpCode
from aiolead.abc import CoordinationClient, Reply
from aiolead.errors import AioleadError
from aiolead.model import CreateMode, SessionState
from aiolead.testing.embedded import EmbeddedServer
from aiolead.testing.proxy import FaultProxy

Open = Callable[[str], AbstractAsyncContextManager[CoordinationClient]]
CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
"""Whichever a client uses."""

GLANCE = 0.002


class Stage:
    """The world of one promise. An async context manager.

    Attributes:
        server: the embedded server.
        proxy: the connection of the client goes through it.
        client: the client that is checked.
        operator: another client, whose connection does not break.
    """

    server: EmbeddedServer
    proxy: FaultProxy
    client: CoordinationClient
    operator: Client

    def __init__(self, connect: Open) -> None:
        self._connect = connect
        self.waits_for: str = ""
        """The condition that `eventually` waits for."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self.server = await self._stack.enter_async_context(EmbeddedServer())
            self.proxy = self._stack.enter_context(FaultProxy("127.0.0.1", self.server.port))
            self.operator = await self._stack.enter_async_context(
                connect_operator(self.server.connect_string)
            )
            self.client = await self._stack.enter_async_context(self.another())
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.proxy.heal()  # the client has to close its session
        await self._stack.__aexit__(exc_type, exc, traceback)

    @asynccontextmanager
    async def another(self) -> AsyncIterator[CoordinationClient]:
        """One more client of the kind that is checked."""
        async with self._connect(self.proxy.connect_string) as client:
            yield client

    async def eventually(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something is so, for as long as the promise may take."""
        self.waits_for = what
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(GLANCE)
        self.waits_for = ""

    async def isolate(self, client: CoordinationClient | None = None) -> None:
        """Break the connection, and refuse the next ones until `proxy.heal`."""
        cut = self.client if client is None else client
        self.proxy.refuse()
        self.proxy.reset()
        await self.eventually(lambda: cut.state is SessionState.SUSPENDED, "the loss is noticed")

    async def expire(self) -> int:
        """End the client's session. Return its id once there is another one."""
        before = self.client.session_id
        self.server.expire_session(before)
        await self.eventually(
            lambda: (
                self.client.state is SessionState.CONNECTED
                and self.client.session_id not in (0, before)
            ),
            "a new session",
        )
        return before

    async def held(self, path: str) -> None:
        """Create an ephemeral znode, and renew the lease until it is enough to begin a hold."""
        await self.client.create(path, mode=CreateMode.EPHEMERAL)
        while not self.client.backend.lease.is_enough():
            await self.client.check(path)


async def fails(
    reply: Awaitable[object] | Reply[object], error: type[AioleadError]
) -> AioleadError:
    """Return the error that an answer must be."""
    try:
        answer = await reply
    except error as caught:
        return caught
    raise AssertionError(f"it was answered with {answer!r}, where {error.__name__} is due")


def refuses(call: Callable[[], object], error: type[AioleadError]) -> None:
    """Check that a call itself raises."""
    try:
        given = call()
    except error:
        return
    raise AssertionError(f"the call gave {given!r}, where {error.__name__} is due")
