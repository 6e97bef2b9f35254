"""The options of a client: the checked arguments of `connect`, and its defaults."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from anyio.abc import ByteStream

from .._session.timing import SHORTEST
from .._util.escaping import described
from .._util.host_tasks import in_ordinary_task
from .._wire.jute import DEFAULT_MAX_FRAME
from .._wire.versions import Engine, Version, parse_engine, parse_version
from ..errors import ConfigurationError
from ..events import EventSink
from ..model import ACL, OPEN_ACL_UNSAFE, Auth, SessionCredentials
from ..paths import parse_connect_string
from .api.operations import checked_acl, checked_duration
from .net.host_list import Server
from .net.opener import Dial, dial_tcp

if TYPE_CHECKING:
    import ssl

    from .guardian.control import SessionGuardian
    from .net.host_sources import Hosts
    from .net.tls import TLS, ContextSource
    from .sasl import SASL
    from .watchdog import Watchdog

T = TypeVar("T")


def best_clock(module: Any) -> Callable[[], float]:
    """Returns the platform's best clock for a lease; `module` is like `time`."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if (clock := getattr(module, name, None)) is not None:
            return partial(module.clock_gettime, clock)
    monotonic: Callable[[], float] = module.monotonic
    return monotonic


lease_clock: Callable[[], float] = best_clock(time)
"""Seconds on a monotonic clock that counts time in suspend, if there is one.

`CLOCK_MONOTONIC` stops in suspend: after a laptop's sleep, a lease would look fresh although its
session has long expired.
"""


MAX_SESSION_TIMEOUT = 3600.0
"""In seconds: far above what servers grant, and far below what milliseconds look like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that a client sends, accepts and queues: `connect(limits=Limits(max_queued=1000))`.

    Attributes:
        max_request: the largest request to send, in bytes: the servers' `jute.maxbuffer`.
        max_reply: the largest frame to accept, in bytes. A listing may have one name for each 32
            bytes of it, and with accents may take three times as many bytes in memory; a longer one
            raises `AnswerTooLargeError`.
        max_in_flight: how many requests may be sent and unanswered; the others wait in the client,
            in order. Lease renewals go first and are not counted; while anything is held, no more
            are in flight than the server answers in time for them.
        max_queued: how many requests may wait before a call raises `TooManyRequestsError`, with
            nothing sent. Waiting requests may not exceed 256 MiB together, either.
        max_ephemeral_paths: the most bytes that the paths of the session's ephemeral znodes may
            have together, each with four more; defaults to 768 KiB. A create that exceeds it raises
            `TooManyHoldsError`, with nothing sent. If a process with much more is killed, the
            servers write a transaction that they cannot read, and never start again
            (ZOOKEEPER-4306): with the default `jute.maxbuffer`, from 2 MiB on.

    Raises:
        ConfigurationError: a value is no whole number, or out of bounds.
    """

    max_request: int = DEFAULT_MAX_FRAME
    max_reply: int = 64 * 1024 * 1024
    max_in_flight: int = 1000
    max_queued: int = 100_000
    max_ephemeral_paths: int = 768 * 1024

    def __post_init__(self) -> None:
        for name in ("max_request", "max_reply", "max_ephemeral_paths"):
            size = getattr(self, name)
            if not isinstance(size, int) or not 1024 <= size <= 0x7FFF_FFFF:
                raise ConfigurationError(
                    f"{name}: must be 1024 to 2^31 - 1 bytes, not {described(size)}"
                )
        for name in ("max_in_flight", "max_queued"):
            number = getattr(self, name)
            if type(number) is not int or number < 1:
                raise ConfigurationError(
                    f"{name}: must be a whole number from 1 up, not {described(number)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The parts of a client that tests and simulations replace: `connect(hooks=Hooks(clock=...))`.

    Attributes:
        clock: the lease's monotonic clock, in seconds; a watchdog calls it in its own thread.
            Defaults to one that counts suspended time.
        rng: the randomness of host order and back-off, and of the numbers of requests and
            contenders in a resumed session.
        dial: opens a byte stream to an address and port, also for tunnels. Defaults to TCP.
    """

    clock: Callable[[], float] | None = None
    rng: random.Random | None = None
    dial: Dial | None = None


class Target(NamedTuple):
    """Which ensemble to connect to; `servers` are those that are known at the call."""

    source: Hosts | None
    servers: tuple[Server, ...]
    chroot: str
    shown: str


class Times(NamedTuple):
    """The times of a client, in seconds; None for those that follow from the session timeout."""

    session_timeout: float
    connect_timeout: float
    grace_period: float | None
    tick_time: float | None

    @property
    def grace_period_or_default(self) -> float:
        return self.session_timeout / 10 if self.grace_period is None else self.grace_period


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Options:
    """The arguments of `connect`, checked. Some of them are secret."""

    target: Target
    times: Times
    auth: tuple[Auth, ...]
    default_acl: tuple[ACL, ...]
    tls: ssl.SSLContext | TLS | None
    encryption: ContextSource | None
    """Made of `tls`, whose files were read."""
    sasl: SASL | None
    watchdog: Watchdog | None
    guardian: SessionGuardian | None
    observe_config: bool
    read_only: bool
    resume: SessionCredentials | None
    engine: Engine | None
    server_version: Version | None
    limits: Limits
    sinks: Sequence[EventSink]
    hooks: Hooks

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the lease, which a watchdog's thread calls, too."""
        return self.hooks.clock or lease_clock

    @property
    def dial(self) -> Dial:
        """How TCP connections are opened."""
        given = self.hooks.dial
        if given is None:
            return dial_tcp

        async def dial_in_ordinary_task(address: str, port: int) -> ByteStream:
            return await in_ordinary_task(given, address, port)

        return dial_in_ordinary_task


def checked_type(name: str, value: T | None, kind: type[T]) -> T:
    """Return an argument that has a default, which `kind` makes without arguments."""
    value = kind() if value is None else value
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name}: must be {kind.__name__}, not {value!r}")
    return value


def checked_default_acl(acl: Sequence[ACL] | None) -> tuple[ACL, ...]:
    return OPEN_ACL_UNSAFE if acl is None else checked_acl(acl, "default_acl")


def checked_target(hosts: str | Sequence[str] | Hosts | None) -> Target:
    if hosts is None:
        hosts = os.environ.get("AIOLEAD_HOSTS")
        if hosts is None:
            raise ConfigurationError("hosts: not given, and AIOLEAD_HOSTS is not set")
    source = _as_source(hosts)
    if source is not None:
        return Target(source, (), source.chroot, str(source))
    parsed = parse_connect_string(hosts)
    return Target(None, parsed.hosts, parsed.chroot, str(parsed))


def _as_source(hosts: object) -> Hosts | None:
    if isinstance(hosts, (str, list, tuple)):
        return None
    from .net.host_sources import Hosts

    return hosts if isinstance(hosts, Hosts) else None


def checked_times(
    session_timeout: float,
    connect_timeout: float | None,
    grace_period: float | None,
    tick_time: float | None,
) -> Times:
    session_timeout = checked_session_timeout(session_timeout)
    if connect_timeout is None:
        connect_timeout = session_timeout
    else:
        connect_timeout = checked_duration("connect_timeout", connect_timeout, least=0, most=86400)
    if grace_period is not None:
        checked_duration("grace_period", grace_period, least=0, most=session_timeout / 4)
    if tick_time is not None:
        checked_duration("tick_time", tick_time, least=0.001, most=session_timeout)
    return Times(session_timeout, connect_timeout, grace_period, tick_time)


def checked_tls(tls: ssl.SSLContext | TLS | None, hosts: object) -> ContextSource | None:
    if tls is None:
        return None
    from .net.tls import ContextSource

    source = _as_source(hosts)
    return ContextSource(tls, None if source is None else source.certificate_name)


def checked_sasl(sasl: object) -> SASL | None:
    if sasl is None:
        return None
    from .sasl import SASL

    if isinstance(sasl, SASL):
        return sasl
    # The value may be, or hold, a password: it is not shown.
    raise ConfigurationError("sasl: must be a SASL, such as SASL.digest_md5(user, password)")


def checked_guardian(
    close_on_crash: object, tls: object, sasl: object, hooks: Hooks | None
) -> SessionGuardian | None:
    if close_on_crash is None or close_on_crash is False:
        return None
    from .guardian.control import checked_close_on_crash
    from .net.tls import TLS

    return checked_close_on_crash(
        close_on_crash,
        tls=tls is not None and not isinstance(tls, TLS),
        sasl=sasl is not None,
        dial=hooks is not None and hooks.dial is not None,
    )


def checked_resume(resume: object) -> SessionCredentials | None:
    if resume is None or isinstance(resume, SessionCredentials):
        return resume
    # It may be, or hold, a password: it is not shown.
    raise ConfigurationError("resume: must be SessionCredentials, or None for a new session")


def checked_engine(engine: str | None) -> Engine | None:
    return None if engine is None else parse_engine(engine)


def checked_server_version(version: str | None) -> Version | None:
    return None if version is None else parse_version(version, name="server_version")


def checked_session_timeout(value: float) -> float:
    name = "session_timeout"
    try:
        return checked_duration(name, value, least=SHORTEST, most=MAX_SESSION_TIMEOUT)
    except ConfigurationError as error:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not MAX_SESSION_TIMEOUT < value <= MAX_SESSION_TIMEOUT * 1000:
            raise
        raise ConfigurationError(
            f"{error}: servers grant 20 ticks at most, 40 seconds by default. In milliseconds, as "
            f"Java's client has it? Then write {value / 1000:g}"
        ) from None


def checked_sinks(on_event: object) -> Sequence[EventSink]:
    if on_event is None:
        return ()
    sinks: list[EventSink] = []
    for sink in on_event if isinstance(on_event, (list, tuple)) else (on_event,):
        # Calling an async function would only make a coroutine, which nobody would await.
        is_async = iscoroutinefunction(sink) or iscoroutinefunction(type(sink).__call__)
        if not callable(sink) or is_async:
            raise ConfigurationError(
                f"on_event: must be a plain function, or several, not {sink!r}"
            )
        sinks.append(sink)
    return sinks


def checked_watchdog(watchdog: object, grace_period: float) -> Watchdog | None:
    if watchdog is None or watchdog is False:
        return None
    from .watchdog import Watchdog

    if watchdog is True:
        watchdog = Watchdog()
    if not isinstance(watchdog, Watchdog):
        raise ConfigurationError(f"watchdog: must be None, a bool or a Watchdog, not {watchdog!r}")
    if grace_period <= 0:
        raise ConfigurationError("watchdog: leaves bodies no time to stop: grace_period is 0")
    if watchdog.reserve is not None and watchdog.reserve > grace_period / 2:
        raise ConfigurationError(
            f"watchdog: its reserve may be half of the grace period, {grace_period / 2:g} seconds, "
            f"not {watchdog.reserve:g}"
        )
    return watchdog


def checked_auth(auth: object) -> tuple[Auth, ...]:
    if isinstance(auth, (list, tuple)) and all(isinstance(entry, Auth) for entry in auth):
        return tuple(auth)
    # The value may be, or hold, a password: it is not shown.
    raise ConfigurationError("auth: must be a list of Auth, such as [Auth.digest(user, password)]")
