"""The connected server, and its version.

The handshake does not have the version; the answer to `srvr` does, which must come first on a
connection. Servers answer it whatever their configuration (`zkServer.sh` depends on it).
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
    """A server, while a session is connected to it; `open_stream` opens one more connection."""

    __slots__ = ("_asking", "_is_known", "_open_stream", "_version", "name")

    def __init__(self, name: str, open_stream: Callable[[], Awaitable[ByteStream]]) -> None:
        self.name: str = name
        self._open_stream = open_stream
        self._asking = anyio.Lock()
        self._is_known = False
        self._version: Version | None = None

    async def version(self, patience: float) -> Version | None:
        """Returns the version, None if not reported; `OSError` if it cannot be asked in time."""
        if self._is_known:
            await anyio.lowlevel.checkpoint()
            return self._version
        # This includes the wait for another caller that is asking.
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
        # A server that just hung up may have too many connections: it is asked again later.
        self._is_known = answer != b""
