"""Finds a server in contact with the quorum, for a client of a server that is not.

Servers that may become read-only answer the word `isro` with `rw` or `ro`, unless configured not
to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import anyio
from anyio.abc import ByteStream

from ..._logging import get_logger
from ...errors import TransportError
from .four_letter_words import ask
from .host_list import HostList
from .rebalance import Server

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
    try:
        with anyio.fail_after(PATIENCE):
            addresses = await hosts.resolve(*server)
    except (OSError, ValueError) as error:
        logger.debug("%s is not asked: %s", server[0], error)
        return False
    for address in addresses:
        try:
            with anyio.fail_after(PATIENCE):
                stream = await open_stream(server, address)
                answer = await ask(stream, b"isro", LONGEST_ANSWER)
        except (OSError, anyio.BrokenResourceError, TransportError) as error:
            logger.debug("%s (%s) does not answer: %s", server[0], address, error)
        else:
            if answer.strip() == wanted:
                return True
    return False
