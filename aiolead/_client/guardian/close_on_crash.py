"""The settings of a session guardian, for `connect(close_on_crash=...)`."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import final

from ...errors import ConfigurationError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGuardian:
    """A process that closes the session after a crash of this one: `connect(close_on_crash=...)`.

    `True` has the same effect as `SessionGuardian()`; this class is for programs whose child
    processes act under their locks.

    Args:
        children: the read end of a pipe, by which child processes delay the closing. Each inherits
            the write end, writes `+` before it acts under a lock of this process, and `-` after it
            and all that it has started have stopped. After a crash, the session is closed only once
            all write ends are closed, and only if there was a `-` for each `+`.

    Raises:
        ConfigurationError: `children` is no file descriptor.
    """

    children: int | None = None

    def __post_init__(self) -> None:
        if self.children is not None and (type(self.children) is not int or self.children < 0):
            raise ConfigurationError(f"children: must be a descriptor, not {self.children!r}")


def checked_close_on_crash(value: object, **obstacles: bool) -> SessionGuardian | None:
    """`obstacles` are arguments of `connect`, with whether they are what a guardian cannot use."""
    if value is None or value is False:
        return None
    if value is True:
        value = SessionGuardian()
    if not isinstance(value, SessionGuardian):
        raise ConfigurationError(
            f"close_on_crash: must be None, a bool or a SessionGuardian, not {value!r}"
        )
    for name, is_given in obstacles.items():
        if is_given:
            raise ConfigurationError(f"close_on_crash: {CANNOT[name]}")
    if not hasattr(signal, "pthread_sigmask") or not hasattr(os, "getppid"):
        raise ConfigurationError("close_on_crash: this operating system is not supported")
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigurationError("close_on_crash: there is no Python interpreter to start it with")
    return value


CANNOT = {
    "tls": "another process cannot use an ssl.SSLContext; pass tls=aiolead.TLS(...)",
    "sasl": "the guardian cannot log in by SASL, which sasl= asks for",
    "dial": "the guardian cannot use hooks.dial: it connects by TCP",
}
