"""The server at the other end of a session's connection, and its version.

The handshake does not tell the version; the answer to the word `srvr` does, which has to come first
on a connection. Servers of ZooKeeper answer it however they are configured (`zkServer.sh` depends
on it).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ..._wire.versions import NOT_SERVING, SRVR, Version, version_in
from .four_letter_words import ask
from .opener import ConnectionEnded

MAX_ANSWER = 4096
"""How much of an answer is read, in bytes; the version is in its first line."""


class Peer:
    """A server, for as long as a session is connected to it.

    Args:
        name: what errors call it.
        open_stream: opens one more connection to the very same address.
    """

    __slots__ = ("_asking", "_is_known", "_open_stream", "_version", "name")

    def __init__(self, name: str, open_stream: Callable[[], Awaitable[ByteStream]]) -> None:
        self.name: str = name
        self._open_stream = open_stream
        self._asking = anyio.Lock()
        self._is_known = False
        self._version: Version | None = None

    async def version(self, patience: float) -> Version | None:
        """The server's version, None if it does not tell; it is asked once.

        Args:
            patience: how long that may take, in seconds.

        Raises:
            OSError: it could not be asked now; a `TimeoutError` if it did not answer in time.
        """
        if self._is_known:
            await anyio.lowlevel.checkpoint()
            return self._version
        # The wait for another caller that is asking counts, too.
        with anyio.fail_after(patience):
            async with self._asking:
                if not self._is_known:
                    self._take(await self._ask())
                return self._version

    async def _ask(self) -> bytes:
        try:
            stream = await self._open_stream()
        except (anyio.BrokenResourceError, ConnectionEnded) as error:
            raise ConnectionError(str(error) or "the connection broke") from error
        return await ask(stream, SRVR, MAX_ANSWER, end=b"\n")

    def _take(self, answer: bytes) -> None:
        if answer.startswith(NOT_SERVING):
            raise ConnectionError(NOT_SERVING.decode())
        self._version = version_in(answer)
        # A server that hung up without a word may have too many connections: asked again later.
        self._is_known = answer != b""
