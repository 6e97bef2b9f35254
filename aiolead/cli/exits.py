"""How an error ends a command: the exit code (as in shells and `sysexits.h`) and one line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from ..errors import (
    AcquireTimeout,
    AioleadError,
    AuthFailedError,
    BadArgumentsError,
    ConfigurationError,
    ConnectFailed,
    InvalidACLError,
    MixedLayoutError,
    NoAuthError,
    NoNodeError,
    NotEmptyError,
    SessionError,
    TenureLost,
    TransportError,
)

OK = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 69
"""No server could be reached."""
LOST = 74
"""The lock or leadership was lost while the command ran."""
NOT_ACQUIRED = 75
REFUSED = 77
"""The servers refused the credentials, or the ACL does not allow it."""
CANNOT_EXECUTE = 126
NOT_FOUND = 127

_CODES: tuple[tuple[tuple[type[AioleadError], ...], int], ...] = (
    ((ConfigurationError,), USAGE),
    ((AuthFailedError, NoAuthError), REFUSED),
    ((TransportError, SessionError), UNAVAILABLE),
    ((AcquireTimeout,), NOT_ACQUIRED),
    ((TenureLost,), LOST),
)

_OPTIONS: Mapping[str, str] = {
    "ca": "--tls-ca",
    "cert": "--tls-cert",
    "changing_from": "--changing-from",
    "connect_timeout": "--connect-timeout",
    "data_dir": "--data-dir",
    "hosts": "--hosts",
    "identity": "--id",
    "joining": "--add",
    "key": "--tls-key",
    "leaders": "--leaders",
    "priority": "--priority",
    "require_auth": "--require-auth",
    "server_hostname": "--tls-hostname",
    "stable_for": "--stable-for",
    "engine": "--engine",
    "server_version": "--server-version",
    "session_timeout": "--session-timeout",
    "ttl": "--ttl",
    "version": "--version",
}
"""The options that stand for arguments of the library."""


_CREATING = ("cp", "create", "delete", "deleteall", "import", "lock", "once", "rm", "run")
"""Commands that create and delete znodes, whose own ACLs do not count for that."""


class CommandError(Exception):
    """A command cannot go on. The message says why; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Exit(int):
    """An exit code. `number` is the signal that ended a process; 0 if none did."""

    number = 0


def by_signal(number: int) -> Exit:
    code = Exit(128 + number)
    code.number = number
    return code


def of_process(code: int) -> Exit:
    """The exit code of another process, which is minus its signal if one has ended it."""
    return by_signal(-code) if code < 0 else Exit(code)


def die_of(number: int) -> None:
    """End this process by a signal, so that its parent sees why. Process 1 survives that."""
    import resource
    import signal

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it was not this program that failed
    with suppress(OSError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def exit_code(error: AioleadError) -> int:
    return next((code for types, code in _CODES if isinstance(error, types)), FAILED)


def complaint(error: BaseException, command: str = "") -> str:
    """One line about an error in terms of `command`'s options, with a remedy if known."""
    text = str(error) or type(error).__name__
    match error:
        case ConfigurationError():
            argument, colon, rest = text.partition(": ")
            return f"{_OPTIONS[argument]}: {rest}" if colon and argument in _OPTIONS else text
        case ConnectFailed():
            return f"{text}; see: aiolead doctor"
        case AuthFailedError() if "credentials" in text:
            # A server refuses unknown schemes, but no password of `digest`.
            return f"{text} (--auth begins with a scheme, such as digest:USER:PASSWORD)"
        case AuthFailedError():
            return f"{text} (are --auth and --sasl right?)"
        case MixedLayoutError():
            return text.replace("changing_from=", "--changing-from ")
        case InvalidACLError():
            scheme = "the servers must know any other scheme"
            return f"{text} (auth:: needs --auth, --sasl or --tls-cert; {scheme})"
        case NoAuthError() if command == "members":
            return f"{text} (by default, only the servers' super user may)"
        case NoAuthError():
            parent = "; the parent's ACL says who may create and delete" * (command in _CREATING)
            return f"{text} (--auth or --sasl logs in; aiolead acl shows who may do what{parent})"
        case NoNodeError(path="/"):
            return f"{text} (the chroot in --hosts does not exist: aiolead create -p /)"
        case NoNodeError() if command == "create":
            return f"{text} (--parents creates it)"
        case BadArgumentsError() if command == "members":
            return f"{text} (a server to add needs its client port; some server must stay)"
        case NotEmptyError() if command in ("rm", "delete"):
            return f"{text} (--recursive deletes them, too)"
        case _:
            return text
