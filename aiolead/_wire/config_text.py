"""The text of an ensemble's configuration, on the wire and in `/zookeeper/config`.

    server.1=zk1:2888:3888:participant;zk1:2181
    version=100000000

A member is `host:port:port[:role]`, with `|` between several addresses; then `;` and `[host:]port`
for clients, and the same again for clients that use TLS. The version is hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .._util.parsing import MalformedError, hexadecimal, shown, whole
from .._util.parsing import text as utf8
from ..errors import RemoteWireError
from ..model import EnsembleConfig, ServerSpec

CONFIG_PATH = "/zookeeper/config"

# Compiled at their first use: a short lock reads no configuration.
_SERVER = r"(?s)\s*server\.(\d+)\s*=(.*)"
_C = r"\x00-\x1f\x7f-\x9f"
_HOST = rf"(?:\[(?P<v6>[^\s{_C}\[\],;|]{{1,255}})\]|(?P<host>[^\s{_C}:\[\],;|/]{{1,255}}))"
_MEMBER = _HOST + r":(?P<quorum>\d+):(?P<election>\d+)(?::(?P<role>\w+))?"
_CLIENT = rf"(?:{_HOST}:)?(?P<port>\d+)"
_ROLES = {None: False, "participant": False, "observer": True}

MAX_SERVERS = 1_000
"""The most members of a configuration; by convention, servers' numbers are below 256."""

ANYWHERE = "0.0.0.0"  # noqa: S104 - what a client address without a host means


def parse_server(text: str) -> ServerSpec:
    """Parse `server.N=...`. Raises a `ValueError` that says what is wrong."""
    match = re.fullmatch(_SERVER, text)
    if match is None:
        raise MalformedError(f"no server.N=host:port:port[:role][;[host:]port]: {shown(text)}")
    members, *clients = (part.strip() for part in match[2].split(";"))
    if len(clients) > 2:
        raise MalformedError(f"more than two client addresses: {shown(text)}")
    addresses: list[tuple[str, int, int]] = []
    roles: set[bool] = set()
    for member in members.split("|"):
        found = re.fullmatch(_MEMBER, member.strip())
        role = None if found is None or found["role"] is None else found["role"].lower()
        if found is None or role not in _ROLES:
            raise MalformedError(
                f"{shown(member)} is no host:port:port[:participant|:observer]: {shown(text)}"
            )
        host = found["v6"] or found["host"]
        addresses.append((host, _port(found["quorum"]), _port(found["election"])))
        roles.add(_ROLES[role])
    if len(roles) > 1:
        raise MalformedError(
            f"one address is of a participant, another of an observer: {shown(text)}"
        )
    client, secure = [*(_parse_client(part, text) for part in clients), None, None][:2]
    return ServerSpec(whole(match[1], least=0), tuple(addresses), client, secure, roles.pop())


def _parse_client(part: str, text: str) -> tuple[str, int] | None:
    if not part:
        return None
    match = re.fullmatch(_CLIENT, part)
    if match is None:
        raise MalformedError(f"{shown(part)} is no [host:]port: {shown(text)}")
    return match["v6"] or match["host"] or ANYWHERE, _port(match["port"])


def _port(text: str) -> int:
    try:
        return whole(text, least=1, most=65535)
    except MalformedError:
        raise MalformedError(f"{shown(text)} is no port (1 to 65535)") from None


def parse_config(data: bytes) -> EnsembleConfig:
    """Parse a configuration, skipping groups and weights; `RemoteWireError` if it is malformed."""
    servers: list[ServerSpec] = []
    version = -1
    try:
        for line in utf8(data).splitlines():
            name, _, value = line.partition("=")
            if name.strip().startswith("server."):
                servers.append(parse_server(line))
                if len(servers) > MAX_SERVERS:
                    raise MalformedError(f"more than {MAX_SERVERS} servers")
            elif name.strip() == "version":
                version = hexadecimal(value)
    except MalformedError as error:
        raise RemoteWireError(f"no configuration of an ensemble: {error}") from None
    return EnsembleConfig(tuple(sorted(servers, key=lambda server: server.id)), version)


def format_config(servers: Sequence[ServerSpec], version: int) -> bytes:
    """The text of a configuration, as servers write it; a version of -1 is left out."""
    said = [] if version < 0 else [f"version={version:x}"]
    return "\n".join([*map(str, servers), *said]).encode()
