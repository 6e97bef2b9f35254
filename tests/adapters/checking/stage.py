"""Where a promise is tried: a server, a link that can be broken, the client, an operator."""

from __future__ import annotations

import inspect
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
Promise = Callable[["Stage"], Awaitable[None]]

PROMISES: dict[str, Promise] = {}
"""By their names, in the order in which they are tried."""

CREATES = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
"""Whichever a client uses."""

GLANCE = 0.002


def promise(tried: Promise) -> Promise:
    """Adds a promise under the name of its function."""
    PROMISES[tried.__name__] = tried
    return tried


def shown(tried: Promise) -> str:
    """The text of a promise, in one line."""
    return " ".join((inspect.getdoc(tried) or "").split())


class BrokenPromises(AssertionError):
    """A client does not do what recipes take for granted.

    Attributes:
        broken: how each of the broken promises has shown to be, by its name.
    """

    def __init__(self, broken: dict[str, Exception]) -> None:
        lines = [
            f"{name} ({shown(PROMISES[name])})\n    {_told(error)}"
            for name, error in broken.items()
        ]
        super().__init__(f"{len(broken)} of {len(PROMISES)} are broken:\n" + "\n".join(lines))
        self.broken = broken


def _told(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Stage:
    """One promise's own world. An async context manager.

    Attributes:
        server: where everybody connects to, in the end.
        proxy: the link of the client.
        client: the one that is checked.
        operator: somebody else, on a link that nothing is done to.
    """

    server: EmbeddedServer
    proxy: FaultProxy
    client: CoordinationClient
    operator: Client

    def __init__(self, connect: Open) -> None:
        self._connect = connect
        self.waits_for: str = ""
        """The condition that `eventually` is waiting for."""
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
        self.proxy.heal()  # or else the client could not say goodbye
        await self._stack.__aexit__(exc_type, exc, traceback)

    @asynccontextmanager
    async def another(self) -> AsyncIterator[CoordinationClient]:
        """One more client of the kind that is checked."""
        async with self._connect(self.proxy.connect_string) as client:
            yield client

    async def eventually(self, holds: Callable[[], object], what: str) -> None:
        """Waits until something is so, for as long as the promise may take."""
        self.waits_for = what
        while True:
            if holds():
                break
            await anyio.sleep(GLANCE)
        self.waits_for = ""

    async def cut_off(self, client: CoordinationClient | None = None) -> None:
        """Cuts the link, and lets none be made until `proxy.heal`."""
        client = self.client if client is None else client
        self.proxy.refuse()
        self.proxy.reset()
        await self.eventually(
            lambda: client.state is SessionState.SUSPENDED, "the client notices its lost link"
        )

    async def expire(self) -> int:
        """Ends the client's session; gives its id once there is another one."""
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
        """Has the client create an ephemeral znode, and prove a lease that is enough to begin."""
        await self.client.create(path, mode=CreateMode.EPHEMERAL)
        while not self.client.backend.lease.is_enough():
            await self.client.check(path)


async def fails(
    reply: Awaitable[object] | Reply[object], error: type[AioleadError]
) -> AioleadError:
    """The error that an answer must be."""
    try:
        answer = await reply
    except error as caught:
        return caught
    raise AssertionError(f"it was answered with {answer!r}, where {error.__name__} is due")


def refuses(call: Callable[[], object], error: type[AioleadError]) -> None:
    """Checks that a call itself raises."""
    try:
        given = call()
    except error:
        return
    raise AssertionError(f"the call gave {given!r}, where {error.__name__} is due")


def same(found: object, wanted: object, what: str) -> None:
    """Checks that something is what it must be."""
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, where {wanted!r} is due")


def true(holds: object, what: str) -> None:
    """Checks something that must hold; `what` says it."""
    if not holds:
        raise AssertionError(f"not so: {what}")
