"""Making a client of the arguments of `connect`: its options, then its parts; entering it."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from .._session.machine import SessionMachine
from .._session.requests import MAX_XID
from .._util.misuse import MissingAttribute
from ..errors import UsageError
from ..events import EventSink
from ..model import ACL, Auth, SessionCredentials
from .api.client import Client
from .client_host import ClientHandle, ClientHost
from .connect_options import (
    Hooks,
    Limits,
    Options,
    checked_auth,
    checked_default_acl,
    checked_engine,
    checked_guardian,
    checked_resume,
    checked_sasl,
    checked_server_version,
    checked_sinks,
    checked_target,
    checked_times,
    checked_tls,
    checked_type,
    checked_watchdog,
)
from .core import MAX_SERIAL, Core
from .net.opener import Opener
from .net.supervisor import Supervisor

if TYPE_CHECKING:
    import ssl

    from .._session.observer import SessionObserver
    from .guardian.control import SessionGuardian
    from .net.host_sources import Hosts
    from .net.tls import TLS
    from .sasl import SASL, Logins
    from .watchdog import Guard, Watchdog


def connect(
    hosts: str | Sequence[str] | Hosts | None = None,
    *,
    session_timeout: float = 10.0,
    connect_timeout: float | None = None,
    auth: Sequence[Auth] = (),
    default_acl: Sequence[ACL] | None = None,
    tls: ssl.SSLContext | TLS | None = None,
    sasl: SASL | None = None,
    grace_period: float | None = None,
    tick_time: float | None = None,
    watchdog: Watchdog | bool | None = None,
    close_on_crash: SessionGuardian | bool | None = None,
    observe_config: bool = False,
    read_only: bool = False,
    resume: SessionCredentials | None = None,
    engine: str | None = None,
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
        default_acl: the permissions of every znode that is created without an `acl` of its own, by
            operations and by recipes, such as `[ACL.auth()]`. Servers refuse that
            (`InvalidACLError`) from a client without credentials. Defaults to everything for
            everybody.
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
        engine: the servers' software: "zookeeper", "clickhouse-keeper" or "raftkeeper". By default
            the answer to the handshake shows whether it is ZooKeeper.
        server_version: the version that every server has at least, such as "3.9", for servers that
            do not report it; of `engine`, by default of ZooKeeper. By default the client asks, on a
            separate connection, when an operation needs more than ZooKeeper 3.5.
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
        UsageError: `watchdog` needs a thread, and this process can start none.

    Cancellation: entering may be cancelled, and closes what it has opened. Leaving is bounded, and
    puts a cancellation off until the session is closed. The client's own tasks ignore the
    cancellation of all tasks of an event loop; see `docs/explanation/client-tasks.md`.
    """
    times = checked_times(session_timeout, connect_timeout, grace_period, tick_time)
    options = Options(
        target=checked_target(hosts),
        times=times,
        hooks=checked_type("hooks", hooks, Hooks),
        auth=checked_auth(auth),
        default_acl=checked_default_acl(default_acl),
        tls=tls,
        encryption=checked_tls(tls, hosts),
        sasl=checked_sasl(sasl),
        watchdog=checked_watchdog(watchdog, times.grace_period_or_default),
        guardian=checked_guardian(close_on_crash, tls, sasl, hooks),
        observe_config=observe_config,
        read_only=read_only,
        resume=checked_resume(resume),
        engine=checked_engine(engine),
        server_version=checked_server_version(server_version),
        limits=checked_type("limits", limits, Limits),
        sinks=checked_sinks(on_event),
    )
    return _assemble(options)


def _assemble(options: Options) -> Connection:
    """Put a client together. None of its parts does anything before it is entered."""
    rng = options.hooks.rng or random.Random()  # noqa: S311 (spreads load, guards nothing)
    opener = Opener(options.dial, options.encryption)
    guard = None
    if options.watchdog is not None:
        from .watchdog import Guard

        guard = Guard(options.clock, options.watchdog)
    core = _make_core(options, rng, opener, guard)
    guardian = following = None
    if options.guardian is not None:
        from .guardian.control import GuardianControl, describe

        describe_session = partial(describe, core, core.supervisor, opener, options.tls)
        guardian = GuardianControl(options.guardian, describe_session)
    if options.observe_config:
        from .ensemble_config import observe_config

        following = partial(
            observe_config, core, core.supervisor.update_hosts, secure=opener.is_encrypted
        )
    host = ClientHost(options, core, guard, guardian, following)
    handle = ClientHandle(host)
    return Connection(handle, Client(core, options.target.chroot, handle))


def _make_core(options: Options, rng: random.Random, opener: Opener, guard: Guard | None) -> Core:
    """Make the session: its machine, what connects it, and what owns both."""
    logins = None
    if options.sasl is not None:
        from .sasl import Logins

        logins = Logins(options.sasl)
    # The session's last client counted from 1 or from a random number. Answers to it may still be
    # under way and must not match our requests; and its credentials may be older than its last one.
    # Likewise the serials that make contenders' names unique.
    is_new = options.resume is None
    first_xid, first_serial = (
        1 if is_new else rng.randint(1, largest) for largest in (MAX_XID, MAX_SERIAL)
    )
    return Core(
        partial(_make_machine, options, first_xid, guard, logins),
        partial(_make_supervisor, options, rng, opener, logins),
        options.clock,
        options.sinks,
        first_serial=first_serial,
        default_acl=options.default_acl,
    )


def _make_machine(
    options: Options,
    first_xid: int,
    guard: Guard | None,
    logins: Logins | None,
    observer: SessionObserver,
) -> SessionMachine:
    times, limits = options.times, options.limits
    return SessionMachine(
        session_timeout=times.session_timeout,
        auth=options.auth,
        max_request=limits.max_request,
        max_reply=limits.max_reply,
        max_in_flight=limits.max_in_flight,
        max_queued=limits.max_queued,
        max_ephemeral_paths=limits.max_ephemeral_paths,
        tick_time=times.tick_time,
        grace_period=times.grace_period,
        read_only=options.read_only,
        resume=options.resume,
        first_xid=first_xid,
        engine=options.engine,
        server_version=options.server_version,
        observer=observer,
        watchdog=None if guard is None else guard.overdue,
        on_challenge=None if logins is None else logins.challenged,
    )


def _make_supervisor(
    options: Options, rng: random.Random, opener: Opener, logins: Logins | None, core: Core
) -> Supervisor:
    discover = None
    if options.target.source is not None:
        from .net.host_sources import Discovery

        discover = partial(Discovery, options.target.source, once=options.observe_config)
    return Supervisor(
        core,
        servers=options.target.servers,
        rng=rng,
        opener=opener,
        logins=logins,
        read_only=options.read_only,
        discover=discover,
    )


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
