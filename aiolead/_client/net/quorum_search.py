"""Looking for a server that is in contact with the quorum, from one that is not.

Servers say which of the two they are in answer to the word `isro`. Those that may become read-only
answer it unless told otherwise; it takes a connection of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import anyio
from anyio.abc import ByteStream

from ..._logging import get_logger
from ...errors import TransportError
from .host_list import HostList
from .rebalance import Server

logger = get_logger("aiolead.connection")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 60.0
"""Seconds between two looks: the pause doubles with each, since a partition may last for days."""

PATIENCE = 1.0
"""How long one address may take to answer, in seconds."""

LONGEST_ANSWER = 64

Open = Callable[[Server, str], Awaitable[ByteStream]]
"""Opens a byte stream to one address of a server."""


async def find_full_server(hosts: HostList, open_stream: Open) -> Server:
    """Asks all servers, again and again, until one says that it is in contact with the quorum.

    Args:
        hosts: the servers; those of the moment are asked, the present one too, since it may have
            other addresses.
        open_stream: how to connect.

    Cancellation: closes the connection on which a server was being asked.
    """
    for pause in pauses():
        await anyio.sleep(pause)
        for server in hosts.shuffled():
            if await says(server, b"rw", hosts, open_stream):
                return server
    raise AssertionError("the pauses have no end")


def pauses() -> Iterator[float]:
    """Seconds to wait before each look."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


async def says(server: Server, wanted: bytes, hosts: HostList, open_stream: Open) -> bool:
    """Whether a server, at one of its addresses, answers `isro` so: `rw`, or `ro`."""
    try:
        with anyio.fail_after(PATIENCE):
            addresses = await hosts.resolve(*server)
    except (OSError, ValueError) as error:
        logger.debug("%s is not asked: %s", server[0], error)
        return False
    for address in addresses:
        try:
            with anyio.fail_after(PATIENCE):
                answer = await _ask(server, address, open_stream)
        except (OSError, anyio.BrokenResourceError, TransportError) as error:
            logger.debug("%s (%s) does not answer: %s", server[0], address, error)
        else:
            if answer.strip() == wanted:
                return True
    return False


async def _ask(server: Server, address: str, open_stream: Open) -> bytes:
    stream = await open_stream(server, address)
    answer = b""
    try:
        await stream.send(b"isro")
        while len(answer) < LONGEST_ANSWER:
            answer += await stream.receive(LONGEST_ANSWER)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # some reset the connection after their answer
    finally:
        await anyio.aclose_forcefully(stream)
    return answer
