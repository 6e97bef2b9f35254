"""The options that commands share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Literal, TypeVar

import anyio
from cyclopts import Parameter

import aiolead

from ..errors import ConfigurationError
from ..model import Auth
from .output import Reporter, show_log

__all__ = ["BASICS", "COMMON", "Basics", "Common", "Seconds"]

T = TypeVar("T")

DEFAULT_SESSION_TIMEOUT = 10.0

Seconds = float
"""What options say of times."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Basics:
    """How to run, and how much to say."""

    backend: Annotated[Literal["asyncio", "trio"], Parameter(env_var="AIOLEAD_BACKEND")] = "asyncio"
    """The event loop."""

    quiet: Annotated[bool, Parameter(alias="-q", negative="")] = False
    """Say nothing but errors."""

    verbose: Annotated[bool, Parameter(alias="-v", negative="")] = False
    """Show the log of the library."""

    @property
    def reporter(self) -> Reporter:
        return Reporter(self.quiet)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs an event loop until the work is done."""
        if self.verbose:
            show_log()
        if self.backend == "trio" and find_spec("trio") is None:
            raise ConfigurationError(
                '--backend: trio is not installed: pip install "aiolead[trio]"'
            )
        return anyio.run(work, backend=self.backend)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common(Basics):
    """Where to connect, how to run, and how much to say."""

    hosts: Annotated[str | None, Parameter(env_var="AIOLEAD_HOSTS")] = None
    """The servers: host[:port][,host[:port]...][/chroot]."""

    session_timeout: Annotated[Seconds | None, Parameter(env_var="AIOLEAD_SESSION_TIMEOUT")] = None
    """How long the servers wait for one that they do not hear from, in seconds. Default: 10."""

    connect_timeout: Annotated[Seconds | None, Parameter(env_var="AIOLEAD_CONNECT_TIMEOUT")] = None
    """How long to try to reach a server at first, in seconds. Default: the session timeout."""

    auth: Annotated[str | None, Parameter(env_var="AIOLEAD_AUTH")] = None
    """Credentials, such as digest:USER:PASSWORD. Everybody on this machine can read a command line:
    better use the environment variable."""

    @property
    def wanted_session_timeout(self) -> float:
        """In seconds."""
        return DEFAULT_SESSION_TIMEOUT if self.session_timeout is None else self.session_timeout

    def connect(
        self, hosts: str | None = None, *, wind_down: float | None = None
    ) -> aiolead.Connection:
        """`aiolead.connect` with these options.

        Args:
            hosts: instead of what the options say.
            wind_down: as there.
        """
        hosts = hosts or self.hosts
        if not hosts:
            raise ConfigurationError("--hosts: not given, and AIOLEAD_HOSTS is not set")
        return aiolead.connect(
            hosts,
            session_timeout=self.wanted_session_timeout,
            connect_timeout=self.connect_timeout,
            auth=self._credentials(),
            wind_down=wind_down,
        )

    def _credentials(self) -> list[Auth]:
        if self.auth is None:
            return []
        scheme, colon, credential = self.auth.partition(":")
        if not scheme or not colon:
            # What was given may be a password: it is not shown.
            raise ConfigurationError("--auth: must be SCHEME:CREDENTIAL")
        return [Auth(scheme, credential.encode())]


BASICS = Basics()
COMMON = Common()
