"""Who belongs to an ensemble, and what asks them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import anyio

from .. import Client, EnsembleConfig
from ..errors import AioleadError, ConfigurationError
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


def inquirer_for(common: Common, patience: float, admin_port: int) -> Inquirer:
    """What asks servers, by the options of a command.

    Raises:
        ConfigurationError: they make no sense.
    """
    if not 0.01 <= patience <= 3600:
        raise ConfigurationError(f"--patience: must be 0.01 to 3600 seconds, not {patience:g}")
    if not 0 <= admin_port <= 65535:
        raise ConfigurationError(f"--admin-port: must be 0 to 65535, not {admin_port}")
    return Inquirer(common.wanted_tls, patience, admin_port)


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

    They may have other names here and there, so their addresses are compared.
    """
    members = [Server(*address) for address in config.client_addresses(secure=secure)]
    seen = {address for server in known for address in await addresses_of(server)}
    new: list[Server] = []
    for member in members:
        addresses = await addresses_of(member)
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
    except (OSError, UnicodeError):
        return [(server.host, server.port)]
    return [(str(address[0]), int(address[1])) for *_, address in found]
