"""Exit codes: those of the shell and of `sysexits.h` where they fit."""

from __future__ import annotations

from ..errors import (
    AcquireTimeout,
    AioleadError,
    AuthFailedError,
    ConfigurationError,
    NoAuthError,
    SessionError,
    TenureLost,
    TransportError,
)

__all__ = [
    "CANNOT_EXECUTE",
    "FAILED",
    "LOST",
    "NOT_ACQUIRED",
    "NOT_FOUND",
    "OK",
    "REFUSED",
    "UNAVAILABLE",
    "USAGE",
    "by_signal",
    "exit_code",
]

OK = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 69
"""No server could be reached."""
LOST = 74
"""What was held was lost while the command ran."""
NOT_ACQUIRED = 75
REFUSED = 77
"""The servers refused the credentials, or the ACL does not allow it."""
CANNOT_EXECUTE = 126
NOT_FOUND = 127


def by_signal(number: int) -> int:
    """What the shell says of a process that died of a signal."""
    return 128 + number


def exit_code(error: AioleadError) -> int:
    """The exit code for an error that ends a command."""
    match error:
        case ConfigurationError():
            return USAGE
        case AuthFailedError() | NoAuthError():
            return REFUSED
        case TransportError() | SessionError():
            return UNAVAILABLE
        case AcquireTimeout():
            return NOT_ACQUIRED
        case TenureLost():
            return LOST
        case _:
            return FAILED
