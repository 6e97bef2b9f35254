"""Changes of the ensemble's configuration, as `PrepRequestProcessor` makes them."""

from __future__ import annotations

from collections.abc import Iterable

from ..._wire.config_text import CONFIG_PATH, format_config, parse_config, parse_server
from ..._wire.replies import DataReply
from ..._wire.requests import Reconfig
from ...errors import (
    BadArgumentsError,
    BadVersionError,
    NewConfigNoQuorumError,
    RemoteWireError,
)
from ...model import ServerSpec
from .transaction import Transaction

LEAST_VOTERS = 2
"""With fewer, an ensemble would become a standalone server (`standaloneEnabled`)."""

_NOBODYS_OWN = ("0.0.0.0", "::", "localhost", "::1")  # noqa: S104


class Membership:
    """The members of the ensemble that the server plays, and which of them are up.

    Args:
        config: the initial ensemble: all of these servers are up.
    """

    def __init__(self, config: bytes) -> None:
        self._config = config
        self._up = {spec.id for spec in parse_config(config).servers}

    def change(self, request: Reconfig, transaction: Transaction) -> DataReply:
        """Changes who belongs to the ensemble. Servers that join are up afterwards.

        Raises:
            BadVersionError: the configuration has another version.
            BadArgumentsError: the request makes no sense, or too few voters would be left.
            RemoteWireError: so little sense that real servers answer with a marshalling error.
            NewConfigNoQuorumError: most voters would be servers that are not up yet.
            NoAuthError: the client may not write the configuration.
        """
        before = parse_config(self._config)
        if request.version not in (-1, before.version):
            raise BadVersionError(CONFIG_PATH)
        if request.members is not None:
            servers = _whole(request.members)
        else:
            servers = {spec.id: spec for spec in before.servers}
            for number in _split(request.leaving):
                servers.pop(_number(number), None)
            for text in _split(request.joining):
                spec = _joiner(text)
                if any(_conflict(spec, other) for other in servers.values() if other.id != spec.id):
                    raise BadArgumentsError(CONFIG_PATH)
                servers[spec.id] = spec
        voters = {spec.id for spec in servers.values() if not spec.is_observer}
        if len(voters) < LEAST_VOTERS:
            raise BadArgumentsError(CONFIG_PATH)
        if 2 * len(voters & self._up) <= len(voters):
            raise NewConfigNoQuorumError(CONFIG_PATH)
        ordered = sorted(servers.values(), key=lambda spec: spec.id)
        after = format_config(ordered, transaction.zxid)
        reply = DataReply(after, transaction.set_config(after))
        self._config = after
        self._up |= servers.keys()
        return reply


def _whole(members: str) -> dict[int, ServerSpec]:
    servers: dict[int, ServerSpec] = {}
    for line in filter(None, map(str.strip, members.replace(",", "\n").splitlines())):
        name = line.partition("=")[0].strip()
        if name.startswith("server."):
            spec = _server(line)
            servers[spec.id] = spec
        elif name != "version":
            raise BadArgumentsError(CONFIG_PATH)
    voters = sum(not spec.is_observer for spec in servers.values())
    if voters < LEAST_VOTERS and voters < len(servers):
        raise RemoteWireError("observers without a quorum")
    return servers


def _joiner(text: str) -> ServerSpec:
    if len(_split(text, "=")) != 2:
        raise BadArgumentsError(CONFIG_PATH)
    spec = _server(text)
    if spec.client is None:
        raise BadArgumentsError(CONFIG_PATH)
    return spec


def _server(text: str) -> ServerSpec:
    """A line; the part before the last dot of its name."""
    name, _, value = text.partition("=")
    number = _number(name.rpartition(".")[2])
    try:
        return parse_server(f"server.{number}={value}")
    except ValueError:
        raise BadArgumentsError(CONFIG_PATH) from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RemoteWireError(f"{text!r} is no number of a server") from None


def _split(text: str | None, separator: str = ",") -> list[str]:
    return [part for piece in (text or "").split(separator) if (part := piece.strip())]


def _conflict(one: ServerSpec, other: ServerSpec) -> bool:
    """Whether two servers would be at the same address: one that is not every machine's own."""
    return not _addresses(one).isdisjoint(_addresses(other))


def _addresses(spec: ServerSpec) -> set[tuple[str, int]]:
    found: list[tuple[str, int]] = [] if spec.client is None else [spec.client]
    for host, quorum, election in spec.addresses:
        found += (host, quorum), (host, election)
    return set(_own(found))


def _own(addresses: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    return (
        (host.lower(), port)
        for host, port in addresses
        if host.lower() not in _NOBODYS_OWN and not host.startswith("127.")
    )
