"""What a server grants with a session, judged before anything of it counts."""

from __future__ import annotations

from .._wire.handshake import ConnectResponse
from ..errors import RemoteWireError
from .lease.timing import SHORTEST

LONGEST_PASSWORD = 256
"""How long a session's password may be, in bytes: those of ZooKeeper have 16. It goes into every
handshake, and servers refuse long ones."""


def granted_timeout(response: ConnectResponse) -> float:
    """The session timeout that a server grants, in seconds.

    Raises:
        RemoteWireError: no client can use this session. The server has failed, as one that does not
            answer has; the session that was asked for may go on at another one.
    """
    granted = response.timeout_ms / 1000
    if granted < SHORTEST:
        raise RemoteWireError(
            f"the server grants a session timeout of {granted:g} seconds: at least {SHORTEST:g} "
            "are needed, see its maxSessionTimeout"
        )
    if len(response.password) > LONGEST_PASSWORD:
        raise RemoteWireError(
            f"the server gives the session a password of {len(response.password)} bytes: at most "
            f"{LONGEST_PASSWORD} are accepted"
        )
    return granted
