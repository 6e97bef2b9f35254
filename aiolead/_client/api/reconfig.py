"""The ensemble's own configuration: reading, changing and following it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..._session.requests import UNPROVEN_WRITE
from ..._session.watches import WatchKind
from ..._util.escaping import get_logger
from ..._wire.codes import OpCode
from ..._wire.config_text import CONFIG_PATH, parse_config, parse_server
from ..._wire.framing import encode_body
from ..._wire.jute import Reader
from ..._wire.replies import DataReply
from ..._wire.requests import Reconfig
from ...abc import Watch
from ...errors import (
    AioleadError,
    ConfigurationError,
    NoAuthError,
    NoNodeError,
    RemoteWireError,
    SessionError,
)
from ...model import EnsembleConfig, ServerSpec
from ..core import Core
from ..net.host_list import Server
from .client_watches import ClientWatch
from .operations import Scope, WatchableRead
from .pending_reply import PendingReply

logger = get_logger("aiolead.connection")

MAX_VERSION = (1 << 63) - 1

PAUSE = 1.0
"""How long to wait after a transient failure, in seconds."""


def _config(r: Reader) -> EnsembleConfig:
    return parse_config(DataReply.read(r).data or b"")


_GET_CONFIG = WatchableRead(OpCode.GET_DATA, _config, WatchKind.DATA)


def get_config(core: Core, watch: Watch | None) -> PendingReply[EnsembleConfig]:
    return Scope("").read(_GET_CONFIG, core, CONFIG_PATH, watch)


def reconfig(
    joining: Sequence[ServerSpec | str],
    leaving: Sequence[int],
    members: Sequence[ServerSpec | str] | None,
    version: int,
) -> PendingReply[EnsembleConfig]:
    coming = _checked_servers("joining", joining)
    going = _checked_ids(leaving)
    whole = None if members is None else _checked_servers("members", members)
    if whole is None and not coming and not going:
        raise ConfigurationError("joining, leaving, members: must name at least one server")
    if whole is not None and (coming or going):
        raise ConfigurationError("members: cannot be combined with joining and leaving")
    if whole == "":
        raise ConfigurationError("members: must name at least one server")
    if type(version) is not int or not -1 <= version <= MAX_VERSION:
        raise ConfigurationError(f"version: must be -1 (any) to 2^63 - 1, not {version!r}")
    request = Reconfig(coming or None, going or None, whole, version)
    return PendingReply(
        OpCode.RECONFIG, encode_body(request), _config, path=CONFIG_PATH, kind=UNPROVEN_WRITE
    )


def _checked_servers(name: str, servers: Sequence[ServerSpec | str]) -> str:
    if isinstance(servers, (str, ServerSpec)):
        raise ConfigurationError(f"{name}: must be a list of servers, not one: {str(servers)!r}")
    specs: list[ServerSpec] = []
    for server in servers:
        try:
            # A member that could not be parsed again is not sent, even if constructed by hand.
            specs.append(parse_server(str(server)))
        except ValueError as error:
            raise ConfigurationError(f"{name}: {error}") from None
    if len({spec.id for spec in specs}) < len(specs):
        raise ConfigurationError(f"{name}: a server is in it twice")
    return ",".join(map(str, specs))


def _checked_ids(leaving: Sequence[int]) -> str:
    ids = tuple(leaving) if isinstance(leaving, (list, tuple, set, frozenset)) else (None,)
    if not all(type(number) is int and number >= 0 for number in ids):
        raise ConfigurationError(f"leaving: must be a list of servers' numbers, not {leaving!r}")
    return ",".join(map(str, ids))


async def observe_config(
    core: Core, update: Callable[[Sequence[Server]], None], *, secure: bool
) -> None:
    """Keeps the list of servers as the ensemble's configuration says, until it cannot."""
    while True:
        try:
            await core.ready()
            with ClientWatch(core.machine.watches, None) as watch:
                config = await core.submit(get_config(core, watch))
                _follow(config, update, secure=secure)
                await watch.wait()
        except (NoNodeError, NoAuthError, RemoteWireError) as error:
            logger.warning("the configuration of the ensemble is not followed: %s", error)
            return
        except SessionError as error:
            if core.machine.state.is_final:
                return
            logger.debug("the configuration of the ensemble was not read: %s", error)
        except AioleadError as error:
            logger.debug("the configuration of the ensemble was not read: %s", error)
            await anyio.sleep(PAUSE)


def _follow(
    config: EnsembleConfig, update: Callable[[Sequence[Server]], None], *, secure: bool
) -> None:
    addresses = config.client_addresses(secure=secure)
    if not addresses:
        # Lines of servers in the static style have no address for clients.
        logger.info("the configuration of the ensemble names no address for clients")
        return
    logger.debug("the configuration of the ensemble, version %x", config.version)
    update(addresses)
