"""Recipes on an application's aiozk client: docs/how-to/aiozk-client.md. Imports without aiozk."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from ..._client.watchdog import Watchdog
    from ._session import Adaptation

__all__ = ["adapt"]


def adapt(
    zk: Any,
    *,
    connect_timeout: float | None = None,
    grace_period: float | None = None,
    tick_time: float | None = None,
    watchdog: Watchdog | bool | None = None,
) -> Adaptation:
    """Return a client on the session of an `aiozk.ZKClient`: `async with adapt(zk) as client:`.

    While the block is open, the session lives on a connection of aiolead's, which carries aiozk's
    own requests, too: `zk.get` and all the others go on working. Every recipe runs on `client`,
    with the same guarantees as on `aiolead.connect`, and with the default ACL of `zk`.

    Leaving ends every hold and gives the session back to aiozk, with its ephemeral znodes. If
    something of ours is left in it, such as a task that still waits for a lock, the session is
    closed instead, since aiozk would keep a contender alive that nobody owns; aiozk then opens a
    new one. One adaptation for the life of the program is best. Entering and leaving are bounded,
    and may be cancelled; the client is then aiozk's again.

    `zk` is started and on this event loop. The other arguments are those of `aiolead.connect`;
    times are in seconds, and `connect_timeout` defaults to the session timeout.

    Raises (at the call):
        ConfigurationError: it is no `aiozk.ZKClient`, or one of an unknown version.

    Raises (on entering):
        UsageError: the client is not started, closed, on another event loop, or adapted already; or
            this is trio. Nothing was sent.
        ConfigurationError: one of the times is invalid.
        ConnectFailed: no server was reached in time. The client is aiozk's again.
    """
    if connect_timeout == 0:
        raise ConfigurationError("connect_timeout: entering has to wait for the session to move")
    _check_version(zk)
    from ._session import Adaptation  # which needs aiozk, of a version that is known

    return Adaptation(
        zk,
        {
            "connect_timeout": connect_timeout,
            "grace_period": grace_period,
            "tick_time": tick_time,
            "watchdog": watchdog,
        },
    )


KNOWN = re.compile(r"0\.32\.\d+")
"""The versions whose private attributes the adapter knows."""


def _check_version(zk: object) -> None:
    """Raises `ConfigurationError` unless this is a client of a known version."""
    try:
        aiozk: Any = importlib.import_module("aiozk")
    except ImportError as error:
        raise ConfigurationError(f"zk: needs aiolead[aiozk]: {error}") from None
    version = getattr(aiozk, "__version__", None)
    if not isinstance(version, str) or not KNOWN.fullmatch(version):
        raise ConfigurationError(
            f"zk: aiozk {version} is not known to the adapter, which needs private parts of it: "
            "install aiozk 0.32, or a newer aiolead"
        )
    if not isinstance(zk, aiozk.ZKClient):
        raise ConfigurationError(f"zk: must be an aiozk.ZKClient, not {type(zk).__name__}")
