"""The ensemble's own configuration: reading and following it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from .._session.watches import WatchKind
from .._util.escaping import get_logger
from .._wire.codes import OpCode
from .._wire.config_text import CONFIG_PATH, parse_config
from .._wire.jute import Reader
from .._wire.replies import DataReply
from ..abc import Watch
from ..errors import (
    AioleadError,
    NoAuthError,
    NoNodeError,
    RemoteWireError,
    SessionError,
)
from ..model import EnsembleConfig
from .api.client_watches import ClientWatch
from .api.operations import Scope, WatchableRead
from .core import Core, PendingReply
from .net.host_list import Server

logger = get_logger("aiolead.connection")

PAUSE = 1.0
"""How long to wait after a transient failure, in seconds."""


def decode_config(r: Reader) -> EnsembleConfig:
    return parse_config(DataReply.read(r).data or b"")


_READ_CONFIG = WatchableRead(OpCode.GET_DATA, decode_config, WatchKind.DATA)


def read_config(core: Core, watch: Watch | None) -> PendingReply[EnsembleConfig]:
    """Make the call that reads the configuration, which lies outside of every chroot."""
    return Scope("").read(_READ_CONFIG, core, CONFIG_PATH, watch)


async def observe_config(
    core: Core, update: Callable[[Sequence[Server]], None], *, secure: bool
) -> None:
    """Keeps the list of servers as the ensemble's configuration says, until it cannot."""
    while True:
        try:
            await core.ready()
            with ClientWatch(core, None) as watch:
                config = await core.submit(read_config(core, watch))
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
