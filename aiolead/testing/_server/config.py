"""Changes of the ensemble's configuration, as `PrepRequestProcessor` makes them."""

from __future__ import annotations

from ..._wire.config import CONFIG_PATH, format_config, parse_config, parse_server
from ..._wire.replies import DataReply
from ..._wire.requests import Reconfig
from ...errors import BadArgumentsError, BadVersionError
from ...model import ServerSpec
from .transaction import Transaction
from .writes import Write


def reconfigure(request: Reconfig, *, config: bytes, zxid: int) -> Write:
    """A change of who belongs to the ensemble.

    Args:
        request: the change.
        config: what is to be changed.
        zxid: the transaction's, which becomes the version.

    Raises:
        BadVersionError: it has another version.
        BadArgumentsError: the request makes no sense, or no voter would be left.
    """
    before = parse_config(config)
    if request.version not in (-1, before.version):
        raise BadVersionError(CONFIG_PATH)
    try:
        if request.members is not None:
            servers = {spec.id: spec for spec in _specs(request.members)}
        else:
            servers = {spec.id: spec for spec in before.servers}
            for number in (request.leaving or "").split(","):
                servers.pop(int(number or -1), None)
            for spec in _specs(request.joining or ""):
                if spec.client is None and spec.secure_client is None:
                    raise ValueError("no address for clients")
                servers[spec.id] = spec
    except ValueError:
        raise BadArgumentsError(CONFIG_PATH) from None
    if all(spec.is_observer for spec in servers.values()):
        raise BadArgumentsError(CONFIG_PATH)
    after = format_config(sorted(servers.values(), key=lambda spec: spec.id), zxid)

    def write(transaction: Transaction) -> DataReply:
        return DataReply(after, transaction.set_config(after))

    return write


def _specs(text: str) -> list[ServerSpec]:
    lines = text.replace(",", "\n").splitlines()
    return [parse_server(line) for line in lines if line.startswith("server.")]
