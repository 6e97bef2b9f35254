"""The arguments of `connect`: limits, the hooks of tests, the lease's clock, and the checks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from .._session.timing import SHORTEST
from .._util.escaping import described
from .._wire.framing import DEFAULT_MAX_FRAME
from ..errors import ConfigurationError
from ..events import EventSink
from ..model import Auth
from .api.operations import checked_duration
from .net.opener import Dial
from .watchdog import Watchdog


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
