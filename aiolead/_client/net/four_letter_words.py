"""Asking servers by four-letter words, on separate connections: the version, and for the quorum.

The handshake does not have the version; the answer to `srvr` does, which must come first on a
connection, and names the engine, too. ZooKeeper servers answer it whatever their configuration
(`zkServer.sh` depends on it). Servers that may become read-only answer the word `isro` with `rw` or
`ro`, unless configured not to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ..._util.escaping import get_logger
from ..._wire.handshake import NO_PASSWORD, ConnectRequest, ConnectResponse
from ..._wire.jute import Reader, encode_record
from ..._wire.versions import NOT_SERVING, SRVR, Release, release_in
from ...errors import RemoteWireError, TransportError
from .host_list import HostList, Server
from .opener import ConnectionEnded


async def ask(stream: ByteStream, word: bytes, most: int, *, end: bytes | None = None) -> bytes:
    """Sends a word such as `isro`, returns the answer, and closes the stream, also when cancelled.

    It reads until there are `most` bytes, or `end`, or the server has closed the connection.
    """
    answer = bytearray()
    try:
        await stream.send(word)
        while len(answer) < most and not (end and end in answer):
            answer += await stream.receive(most)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # some servers reset the connection after their answer
    finally:
        await anyio.aclose_forcefully(stream)
    return bytes(answer)


MAX_ANSWER = 4096
"""How much of an answer is read, in bytes; the version is in its first line."""


class Peer:
    """A server, while a session is connected to it; `open_stream` opens one more connection."""

    __slots__ = ("_asking", "_is_known", "_open_stream", "_release", "name")

    def __init__(self, name: str, open_stream: Callable[[], Awaitable[ByteStream]]) -> None:
        self.name: str = name
        self._open_stream = open_stream
        self._asking = anyio.Lock()
        self._is_known = False
        self._release: Release | None = None

    async def release(self, patience: float) -> Release | None:
        """Returns the release, None if not reported; `OSError` if it cannot be asked in time."""
        if self._is_known:
            await anyio.lowlevel.checkpoint()
            return self._release
        # This includes the wait for another caller that is asking.
        with anyio.fail_after(patience):
            async with self._asking:
                if not self._is_known:
                    self._take(await self._ask())
                return self._release

    async def _ask(self) -> bytes:
        try:
            stream = await self._open_stream()
        except (anyio.BrokenResourceError, ConnectionEnded) as error:
            raise ConnectionError(str(error) or "the connection broke") from error
        return await ask(stream, SRVR, MAX_ANSWER, end=b"\n")

    def _take(self, answer: bytes) -> None:
        if answer.startswith(NOT_SERVING):
            raise ConnectionError(NOT_SERVING.decode())
        self._release = release_in(answer)
        # A server that just hung up may have too many connections: it is asked again later.
        self._is_known = answer != b""


logger = get_logger("aiolead.connection")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 60.0
"""Seconds between two looks: the pause doubles, since a partition may last for days."""

PATIENCE = 1.0
"""How long one address may take to answer, in seconds."""

LONGEST_ANSWER = 64

Open = Callable[[Server, str], Awaitable[ByteStream]]


async def find_full_server(hosts: HostList, open_stream: Open) -> Server:
    """Asks all servers, the present one included, until one is in contact with the quorum."""
    for pause in pauses():
        await anyio.sleep(pause)
        for server in hosts.shuffled():
            if await says(server, b"rw", hosts, open_stream):
                return server
    raise AssertionError("the pauses have no end")


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


async def says(server: Server, wanted: bytes, hosts: HostList, open_stream: Open) -> bool:
    """Whether a server answers `isro` with `wanted` (`rw` or `ro`) at one of its addresses."""
    return await answers(
        server,
        hosts,
        open_stream,
        lambda stream: ask(stream, b"isro", LONGEST_ANSWER),
        lambda answer: answer.strip() == wanted,
    )


async def grants_read_only(server: Server, hosts: HostList, open_stream: Open, asked: int) -> bool:
    """Whether a read-only server grants a session: only with `localSessionsEnabled`.

    Asks for one, of `asked` milliseconds, and leaves it to its end.
    """
    request = ConnectRequest(0, asked, 0, NO_PASSWORD, read_only=True)
    return await answers(
        server,
        hosts,
        open_stream,
        lambda stream: ask(stream, encode_record(request), GRANT),
        _is_read_only_grant,
    )


GRANT = 41
"""The length of a grant, in bytes. A server that sends less is not read-only."""


def _is_read_only_grant(answer: bytes) -> bool:
    try:
        response = ConnectResponse.read(Reader(answer[4:]))
    except RemoteWireError as error:
        logger.debug("no read-only session: %s", error)
        return False
    return response.read_only and response.session_id != 0 and response.timeout_ms > 0


async def has_lost_quorum(hosts: HostList, open_stream: Open) -> bool:
    """Whether a server says that it has no quorum, and none says that it has one.

    It answers `srvr` so in an election, and as long as it is read-only.
    """
    lost = False

    def has_quorum(answer: bytes) -> bool:
        nonlocal lost
        is_without = answer.startswith(NOT_SERVING) or READ_ONLY in answer
        lost = lost or is_without
        return MODE in answer and not is_without

    for server in hosts.shuffled():
        if await answers(server, hosts, open_stream, _ask_mode, has_quorum):
            return False
    return lost


MODE, READ_ONLY = b"Mode: ", b"Mode: read-only"


async def _ask_mode(stream: ByteStream) -> bytes:
    return await ask(stream, SRVR, MAX_ANSWER)


async def answers(
    server: Server,
    hosts: HostList,
    open_stream: Open,
    talk: Callable[[ByteStream], Awaitable[bytes]],
    is_wanted: Callable[[bytes], bool],
) -> bool:
    """Whether a server gives a wanted answer at one of its addresses."""
    try:
        addresses = await hosts.resolve(server, PATIENCE)
    except (OSError, ValueError) as error:
        logger.debug("%s is not asked: %s", server[0], error)
        return False
    for address in addresses:
        try:
            with anyio.fail_after(PATIENCE):
                stream = await open_stream(server, address)
                answer = await talk(stream)
        except (OSError, anyio.BrokenResourceError, TransportError) as error:
            logger.debug("%s (%s) does not answer: %s", server[0], address, error)
        else:
            if is_wanted(answer):
                return True
    return False
