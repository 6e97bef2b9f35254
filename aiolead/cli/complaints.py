"""What the command says of an error of the library: in terms of its own options."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigurationError, NoNodeError, NotEmptyError

__all__ = ["complaint"]

_OPTIONS: Mapping[str, str] = {
    "ca": "--tls-ca",
    "cert": "--tls-cert",
    "connect_timeout": "--connect-timeout",
    "hosts": "--hosts",
    "identity": "--id",
    "key": "--tls-key",
    "leaders": "--leaders",
    "require_auth": "--require-auth",
    "server_hostname": "--tls-hostname",
    "server_version": "--server-version",
    "session_timeout": "--session-timeout",
    "ttl": "--ttl",
    "version": "--version",
}
"""Of the library's arguments."""


def complaint(error: BaseException, command: str = "") -> str:
    """One line, with what to do about it where that is known.

    Args:
        error: what ends the command.
        command: which one it is, such as "ls", if that matters.
    """
    text = str(error) or type(error).__name__
    match error:
        case ConfigurationError():
            argument, colon, rest = text.partition(": ")
            option = _OPTIONS.get(argument)
            return f"{option}: {rest}" if colon and option is not None else text
        case NoNodeError(path="/"):
            return f"{text} (the chroot in --hosts does not exist)"
        case NoNodeError() if command == "create":
            return f"{text} (--parents creates it)"
        case NotEmptyError() if command == "rm":
            return f"{text} (--recursive deletes them, too)"
        case _:
            return text
