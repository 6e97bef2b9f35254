"""Who belongs to an ensemble, and what asks them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import anyio

from .. import Client
from ..errors import AioleadError, ConfigurationError
from ..model import EnsembleConfig
from .options import Common
from .words import Inquirer, Server

__all__ = [
    "ADMIN_PORT",
    "PATIENCE",
    "addresses_of",
    "everybody",
    "inquirer_for",
    "members_besides",
    "read_config",
]

PATIENCE = 3.0
"""How long a server has for an answer, unless told otherwise, in seconds."""
ADMIN_PORT = 8080
"""Where ZooKeeper's admin server listens by default."""
MOST_MEMBERS = 255
"""How many servers an ensemble can have: their numbers are from 1 to 255."""


def inquirer_for(
    common: Common, patience: float, admin_port: int, *, admin_plain_http: bool = False
) -> Inquirer:
    """What asks servers, by the options of a command.

    Args:
        common: where to connect, and whether by TLS.
        patience: for each answer, in seconds.
        admin_port: of the admin servers; 0 not to ask them.
        admin_plain_http: whether to ask them without TLS also where `common` says to use it.

    Raises:
        ConfigurationError: they make no sense.
    """
    if not 0.01 <= patience <= 3600:
        raise ConfigurationError(f"--patience: must be 0.01 to 3600 seconds, not {patience:g}")
    if not 0 <= admin_port <= 65535:
        raise ConfigurationError(f"--admin-port: must be 0 to 65535, not {admin_port}")
    return Inquirer(common.wanted_tls, patience, admin_port, admin_plain_http=admin_plain_http)


async def read_config(common: Common) -> tuple[EnsembleConfig | None, str]:
    """Who belongs to the ensemble, or why that is not known.

    Raises:
        ConfigurationError: the options make no sense.
    """
    connection = common.connect()
    try:
        async with connection as client:
            config = await client.get_config()
    except AioleadError as error:
        return None, str(error)
    return (config, "") if config.servers else (None, "the servers do not tell it")


async def everybody(client: Client, known: Sequence[Server], *, secure: bool) -> list[Server]:
    """Those servers, and the other members of the ensemble, if it tells them.

    Not every client may read that, and some servers have no configuration.
    """
    try:
        config = await client.get_config()
    except AioleadError:
        return list(known)
    return [*known, *await members_besides(config, known, secure=secure)]


async def members_besides(
    config: EnsembleConfig, known: Sequence[Server], *, secure: bool
) -> list[Server]:
    """The members of an ensemble that are none of those servers, as far as clients can reach them.

    They may have other names here and there, so their addresses are compared. All names are looked
    up at once: a configuration may have many that no resolver answers.
    """
    told = config.client_addresses(secure=secure)[:MOST_MEMBERS]
    members = [Server(*address) for address in told]
    found: dict[Server, list[tuple[str, int]]] = {}

    async def look_up(server: Server) -> None:
        found[server] = await addresses_of(server)

    async with anyio.create_task_group() as tasks:
        for server in {*known, *members}:
            tasks.start_soon(look_up, server)
    seen = {address for server in known for address in found[server]}
    new: list[Server] = []
    for member in members:
        addresses = found[member]
        if not seen.intersection(addresses):
            new.append(member)
        seen.update(addresses)
    return new


async def addresses_of(server: Server) -> list[tuple[str, int]]:
    """The addresses of a server; what it is called, if it has none."""
    try:
        with anyio.fail_after(PATIENCE):
            found = await anyio.getaddrinfo(
                server.host, server.port, type=socket.SocketKind.SOCK_STREAM
            )
    except (OSError, ValueError, OverflowError):  # what no resolver looks up, or is no port
        return [(server.host, server.port)]
    return [(str(address[0]), int(address[1])) for *_, address in found]
