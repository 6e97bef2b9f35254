"""Opening and closing a client."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Literal, TypedDict, Unpack, final

import aiolead

from .._client.connect_options import Hooks
from ..errors import ConfigurationError, UsageError
from ..events import EventSink
from ..model import Auth, SessionCredentials
from ._client import Client
from ._loop import Loop


class ConnectOptions(TypedDict, total=False):
    """The options of `aiolead.connect`, which says what they mean."""

    session_timeout: float
    connect_timeout: float | None
    auth: Sequence[Auth]
    tls: ssl.SSLContext | aiolead.TLS | None
    sasl: aiolead.SASL | None
    grace_period: float | None
    tick_time: float | None
    watchdog: aiolead.Watchdog | bool | None
    observe_config: bool
    read_only: bool
    resume: SessionCredentials | None
    server_version: str | None
    limits: aiolead.Limits | None
    on_event: EventSink | Sequence[EventSink] | None
    hooks: Hooks | None


def connect(
    hosts: str | Sequence[str] | aiolead.Hosts | None = None,
    *,
    backend: Literal["asyncio", "trio"] = "asyncio",
    backend_options: dict[str, Any] | None = None,
    **options: Unpack[ConnectOptions],
) -> Connection:
    """A session with a ZooKeeper ensemble: `with blocking.connect(...) as client:`.

    Entering starts a thread with an event loop in it, and waits for the session. Leaving closes
    that, so that its ephemeral znodes vanish at once, and ends the thread; whatever other threads
    still hold then is lost first, and their bodies are waited for, for the grace period. One
    client is enough for a process, whatever the number of its threads. Connect after forking, not
    before.

    Args:
        hosts: as for `aiolead.connect`.
        backend: which event loop runs in the thread.
        backend_options: for `anyio.run`.
        options: as for `aiolead.connect`. `grace_period` is how long bodies have to notice a loss:
            a quarter of the session timeout at most, a tenth by default. `on_event` is called in
            the thread of the event loop.

    Raises (at the call): as `aiolead.connect`.

    Raises (on entering): as `aiolead.connect`; and
        UsageError: in a thread that runs an event loop.

    An exception that a signal handler raises (Ctrl-C) while entering gives up; while leaving, it
    gives up waiting: the thread goes on closing the session.
    """
    if backend not in ("asyncio", "trio"):
        raise ConfigurationError(f'backend: must be "asyncio" or "trio", not {backend!r}')
    if backend == "trio" and find_spec("trio") is None:
        raise ConfigurationError('backend: trio is not installed; pip install "aiolead[trio]"')
    return Connection(aiolead.connect(hosts, **options), Loop(backend, backend_options))


@final
class Connection:
    """The context manager that `connect` returns; it can be entered once."""

    def __init__(self, connection: aiolead.types.Connection, loop: Loop) -> None:
        self._connection = connection
        self._loop = loop
        self._entered = False

    def __enter__(self) -> Client:
        if self._entered:
            raise UsageError("the connection was entered already: call connect() again")
        self._entered = True
        return Client(self._loop, self._loop.open(self._connection))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered:
            self._loop.close()
