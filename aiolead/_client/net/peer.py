"""The server at the other end of a session's connection, and what version it is.

A server does not say in the handshake what it is; it says so in answer to the word `srvr`, which
has to come first on a connection, so it takes one of its own. Servers of ZooKeeper answer this word
whatever is configured (`zkServer.sh` depends on it).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ..._wire.versions import NOT_SERVING, SRVR, Version, version_in
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
        """What version the server says it is; it is asked once.

        Args:
            patience: how long that may take, in seconds.

        Returns:
            The version; None if the server does not tell.

        Raises:
            OSError: it could not be asked now; a `TimeoutError` if it did not answer in time.

        Cancellation: closes the connection on which it was being asked.
        """
        if self._is_known:
            await anyio.lowlevel.checkpoint()
            return self._version
        # The wait for somebody else who is asking counts, too.
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
        answer = bytearray()
        try:
            await stream.send(SRVR)
            while b"\n" not in answer and len(answer) < MAX_ANSWER:
                answer += await stream.receive(MAX_ANSWER)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass  # Some reset the connection after their answer: what came before counts.
        finally:
            await anyio.aclose_forcefully(stream)
        return bytes(answer)

    def _take(self, answer: bytes) -> None:
        if answer.startswith(NOT_SERVING):
            raise ConnectionError(NOT_SERVING.decode())
        self._version = version_in(answer)
        # Who hung up without a word may have had too many connections: asked again next time.
        self._is_known = answer != b""
