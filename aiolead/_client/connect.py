"""Opening and closing a client."""

from __future__ import annotations

import os
import random
import ssl
import weakref
from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from anyio.abc import ByteStream

from .._session.machine import SessionMachine
from .._session.requests import MAX_XID
from .._util.host_tasks import in_ordinary_task
from .._util.misuse import MissingAttribute
from .._wire.versions import parse_version
from ..errors import ConfigurationError, UsageError
from ..events import EventSink
from ..model import Auth, SessionCredentials
from ..paths import parse_connect_string
from .api.client import Client
from .api.operations import checked_duration
from .api.server_features import recount_ephemerals
from .client_host import ClientHandle, ClientHost
from .connect_options import (
    Hooks,
    Limits,
    checked_auth,
    checked_session_timeout,
    checked_sinks,
    checked_watchdog,
    lease_clock,
)
from .core import MAX_SERIAL, Core
from .ensemble_config import observe_config as follow_ensemble
from .guardian_control import (
    GuardianControl,
    SessionGuardian,
    checked_close_on_crash,
    describe,
)
from .net.host_list import Backoff, HostList, Server
from .net.host_sources import Discovery, Hosts
from .net.known_addresses import KnownAddresses
from .net.opener import Dial, Opener, dial_tcp
from .net.supervisor import Supervisor
from .net.tls import TLS, ContextSource
from .sasl import SASL, Logins, checked_sasl
from .watchdog import Guard, Watchdog


def connect(
    hosts: str | Sequence[str] | Hosts | None = None,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float | None = None,
    auth: Sequence[Auth] = (),
    tls: ssl.SSLContext | TLS | None = None,
    sasl: SASL | None = None,
    grace_period: float | None = None,
    tick_time: float | None = None,
    watchdog: Watchdog | bool | None = None,
    close_on_crash: SessionGuardian | bool | None = None,
    observe_config: bool = False,
    read_only: bool = False,
    resume: SessionCredentials | None = None,
    server_version: str | None = None,
    limits: Limits | None = None,
    on_event: EventSink | Sequence[EventSink] | None = None,
    hooks: Hooks | None = None,
) -> Connection:
    """Open a session with a ZooKeeper ensemble: `async with aiolead.connect(...) as client:`.

    Entering waits for the session, unless `connect_timeout` is 0. Leaving closes it, which deletes
    its ephemeral znodes at once. Anything still held is lost first, and its holders get the grace
    period to stop. The client reconnects by itself, and opens a new session after one has expired.

    Args:
        hosts: a connect string, `host[:port][,host[:port]...][/chroot]`, its parts as a list, or
            `Hosts`. Defaults to the environment variable `AIOLEAD_HOSTS`.
        session_timeout: how long the servers keep the session of a silent client, in seconds
            (Java's client has milliseconds), 0.1 to 3600. Servers have limits, 40 seconds by
            default, and may grant another timeout: the lease counts with that (bounds:
            `docs/how-to/client.md`), but no wait is longer than asked for. A server that grants
            less than 0.1 seconds is not used.
        connect_timeout: how long entering may take, in seconds; defaults to the session timeout.
            With 0, entering does not wait, so that a service starts without ZooKeeper: each
            operation waits for a server, for the session timeout at most, and reads leave with the
            handshake, a round trip earlier.
        auth: credentials to present on every connection, such as `Auth.digest(user, password)`.
        tls: a `TLS` (PEM files) or a context of the standard library. Defaults to no encryption.
        sasl: how to log in by SASL on every connection, before `auth` is presented.
        grace_period: how long before its proven end a lease ends for its holders, so that they have
            time to stop, in seconds; at most a quarter of the session timeout, defaults to a tenth.
        tick_time: the servers' `tickTime` in seconds, if it is more than half of the session
            timeout, which servers refuse unless configured to. A shorter one makes leases a little
            longer.
        watchdog: a thread that ends the process, or does what a `Watchdog` says, if a body goes on
            until the servers may give its role away: a hard stop for blocked event loops and for
            bodies that ignore their cancellation. Defaults to no thread.
        close_on_crash: a small process that closes the session as soon as this process has ended
            without closing it, or has executed another program (`os.execv`), so that the next
            leader need not wait for the session timeout; see `docs/explanation/guardian.md`. Not
            with `sasl`, an `ssl.SSLContext` or `hooks.dial`. Defaults to no process.
        observe_config: whether the list of servers follows the ensemble's own configuration; see
            `aiolead.admin.get_config`.
        read_only: whether a server partitioned from the quorum will do while there is no other. The
            state is then `READ_ONLY`, data is old, and writes raise `NotReadOnlyError`; the client
            keeps looking for a full server.
        resume: the credentials of another client, whose session is continued: those that `detach`
            returns, or `credentials`.
        server_version: the ZooKeeper version that every server has at least, such as "3.9", for
            servers that do not report it. By default the client asks, on a separate connection,
            when an operation needs more than ZooKeeper 3.5.
        limits: how much is sent, accepted and queued; see `Limits`.
        on_event: a function called with each `Event`, beside the log, or several; see
            `aiolead.instrumentation`. It runs in the client's event loop, must be quick, and must
            not use the client. Its exceptions are logged, once.
        hooks: another clock, randomness or network, for tests; see `aiolead.testing.Hooks`.

    Raises (at the call):
        ConfigurationError: an argument is malformed or names unusable files; nothing was sent.

    Raises (on entering):
        ConnectFailed: no server was reached in time; `attempts` says why for each.
        AuthFailedError: the credentials were refused.
        SessionExpiredError: the session to be resumed is over.

    Cancellation: entering may be cancelled, and closes what it has opened. Leaving is bounded, and
    puts a cancellation off until the session is closed. The client's own tasks ignore the
    cancellation of all tasks of an event loop; see `docs/explanation/client-tasks.md`.
    """
    if hosts is None:
        hosts = os.environ.get("AIOLEAD_HOSTS")
        if hosts is None:
            raise ConfigurationError("hosts: not given, and AIOLEAD_HOSTS is not set")
    known: tuple[Server, ...] = ()
    if isinstance(hosts, Hosts):
        chroot, target, name_of = hosts.chroot, str(hosts), hosts.certificate_name
    else:
        parsed = parse_connect_string(hosts)
        known, chroot, target, name_of = parsed.hosts, parsed.chroot, str(parsed), None
    session_timeout = checked_session_timeout(session_timeout)
    if connect_timeout is None:
        connect_timeout = session_timeout
    else:
        connect_timeout = checked_duration("connect_timeout", connect_timeout, least=0, most=86400)
    if grace_period is not None:
        checked_duration("grace_period", grace_period, least=0, most=session_timeout / 4)
    if tick_time is not None:
        checked_duration("tick_time", tick_time, least=0.001, most=session_timeout)
    guarding = checked_watchdog(
        watchdog, session_timeout / 10 if grace_period is None else grace_period
    )
    credentials = checked_auth(auth)
    version = None
    if server_version is not None:
        version = parse_version(server_version, name="server_version")
    if resume is not None and not isinstance(resume, SessionCredentials):
        # It may be, or hold, a password: it is not shown.
        raise ConfigurationError("resume: must be SessionCredentials, or None for a new session")
    limits = Limits() if limits is None else limits
    hooks = Hooks() if hooks is None else hooks
    for name, given, kind in (("limits", limits, Limits), ("hooks", hooks, Hooks)):
        if not isinstance(given, kind):
            raise ConfigurationError(f"{name}: must be {kind.__name__}, not {given!r}")
    guarded = checked_close_on_crash(
        close_on_crash,
        tls=tls is not None and not isinstance(tls, TLS),
        sasl=sasl is not None,
        dial=hooks.dial is not None,
    )
    dial = dial_tcp if hooks.dial is None else _dials_in_ordinary_task(hooks.dial)
    opener = Opener(dial, None if tls is None else ContextSource(tls, name_of))
    sinks = checked_sinks(on_event)
    login = checked_sasl(sasl)
    logins = None if login is None else Logins(login)

    rng = hooks.rng or random.Random()  # noqa: S311 (spreads load, guards nothing)
    # The session's last client counted from 1 or from a random number. Answers to it may still be
    # under way and must not match our requests; and its credentials may be older than its last one.
    first_xid = 1 if resume is None else rng.randint(1, MAX_XID)
    # Likewise the serials that make contenders' names unique.
    first_serial = 1 if resume is None else rng.randint(1, MAX_SERIAL)

    def make_machine(core: Core) -> SessionMachine:
        return SessionMachine(
            session_timeout=session_timeout,
            auth=credentials,
            max_request=limits.max_request,
            max_reply=limits.max_reply,
            max_in_flight=limits.max_in_flight,
            max_queued=limits.max_queued,
            max_ephemeral_paths=limits.max_ephemeral_paths,
            tick_time=tick_time,
            grace_period=grace_period,
            read_only=read_only,
            resume=resume,
            first_xid=first_xid,
            on_state=core.report,
            on_output=lambda: core.on_output(),
            on_due=core.due,
            on_challenge=None if logins is None else logins.challenged,
        )

    core = Core(make_machine, hooks.clock or lease_clock, sinks, first_serial)
    core.server_version = version
    core.machine.ephemerals.on_near = partial(recount_ephemerals, core, limits.max_reply)
    guard = None if guarding is None else Guard(core.machine, core.clock, guarding)
    servers = HostList(known, rng, KnownAddresses(core.start))
    supervisor = Supervisor(core, servers, Backoff(rng), opener, logins, read_only=read_only)
    guardian = None
    if guarded is not None:
        guardian = GuardianControl(guarded, partial(describe, core, supervisor, opener, tls))
    discovery = None
    if isinstance(hosts, Hosts):
        discovery = Discovery(hosts, supervisor.update_hosts, once=observe_config)
    following = partial(follow_ensemble, core, supervisor.update_hosts, secure=opener.is_encrypted)
    host = ClientHost(
        core,
        supervisor,
        guard,
        guardian,
        discovery,
        following if observe_config else None,
        target,
        connect_timeout,
        read_only,
    )
    handle = ClientHandle(host)
    core.handle = weakref.ref(handle)
    return Connection(handle, Client(core, chroot))


def _dials_in_ordinary_task(dial: Dial) -> Dial:
    async def dial_in_ordinary_task(address: str, port: int) -> ByteStream:
        return await in_ordinary_task(dial, address, port)

    return dial_in_ordinary_task


@final
class Connection:
    """A client that is not open yet: enter it by `async with`, or await it; once."""

    def __init__(self, handle: ClientHandle, client: Client) -> None:
        self._handle = handle
        self._client = client
        self._entered = False

    if not TYPE_CHECKING:  # type checkers would believe that it has every attribute

        def __getattr__(self, name: str) -> object:
            if not name.startswith("_") and hasattr(Client, name):
                raise MissingAttribute(
                    f"{type(self).__name__!r} object has no attribute {name!r}: what `connect()` "
                    "gives has to be entered or awaited first, write `async with "
                    f"aiolead.connect(...) as client:` and then `client.{name}`"
                )
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

    @property
    def _host(self) -> ClientHost:
        return self._handle.host

    def __await__(self) -> Generator[Any, Any, Client]:
        """Open the client without a block; close it with `await client.aclose()`."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        if self._entered:
            raise UsageError("the connection was entered already: call connect() again")
        self._entered = True
        await self._host.enter()
        return self._client

    async def __aexit__(self, *exc_info: object) -> None:
        if exc_info and exc_info[0] is GeneratorExit and not self._host.core.is_here():
            return  # the coroutine is destroyed after its event loop: nothing can be awaited
        await self._host.leave()
