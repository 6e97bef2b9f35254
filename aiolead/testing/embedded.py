"""A ZooKeeper server in this process, for demos, development and tests."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

import anyio
from anyio.lowlevel import checkpoint

from .._wire.codes import OpCode
from .._wire.config_text import format_config, parse_config
from .._wire.jute import DEFAULT_MAX_FRAME
from .._wire.versions import Feature
from ..errors import ConfigurationError, RemoteWireError, UsageError
from ..paths import format_host
from ._server.core import Core
from ._server.settings import Settings, milliseconds, parse_release
from ._shell import Shell
from .streams import MemoryStream, memory_stream_pair
from .threaded import ThreadedServer

if TYPE_CHECKING:
    from ._server.store import Store

__all__ = ["EmbeddedServer", "SessionInfo"]

MAX_SEQUENCE = 0x7FFF_FFFF

MAX_CONNECTIONS = 1_000
"""How many connections there may be by default. A process may often have 1,024 open files."""

MEMORY_ADDRESS = "127.0.0.1"
"""The address that the scheme `ip` sees for a connection in memory."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as the server knows it.

    Attributes:
        timeout: as negotiated, in seconds.
        is_connected: whether it has a connection now.
    """

    timeout: float
    is_connected: bool


class EmbeddedServerOptions(TypedDict, total=False):
    """The arguments of `EmbeddedServer`, for those who pass them on."""

    host: str
    port: int | None
    tick_time: float
    min_session_timeout: float | None
    max_session_timeout: float | None
    max_frame: int
    max_connections: int
    container_interval: float
    engine: str
    version: str | None
    backports: Collection[Feature]
    config: str | None
    super_digest: str | None
    enforce_quota: bool
    local_sessions: bool
    ssl_context: ssl.SSLContext | None
    tls_port: int | None
    sasl_users: Mapping[str, str] | None
    require_auth: Collection[str]
    data_dir: str | os.PathLike[str] | None
    clock: Callable[[], float] | None
    rng: random.Random | None


class EmbeddedServer:
    """A standalone ZooKeeper server that speaks the wire protocol, in memory and over TCP.

        async with EmbeddedServer() as server:
            async with aiolead.connect(server.connect_string) as client:
                ...

    It behaves as ZooKeeper does, expiry included, but keeps everything in memory by default, and
    its control methods make happen at will what is hard to provoke in a real server. Its tasks
    belong to no task of the program, so another task than the one that entered may leave it. Its
    errors are raised on leaving.

    Args:
        host: the address to listen on. Beyond this machine (as `0.0.0.0` is) it is a warning in the
            log: every client that reaches the server may use all of it, unless `require_auth` is
            set.
        port: the port to listen on; 0 takes a free one. None does not listen at all: then there are
            only the connections in memory, and no real I/O.
        tick_time: the unit of time, in seconds: sessions end at multiples of it.
        min_session_timeout: the shortest session timeout that is granted, in seconds; two ticks
            by default.
        max_session_timeout: the longest; twenty ticks by default.
        max_frame: the largest request, in bytes. A client that sends a larger one is disconnected.
        max_connections: how many connections there may be at a time, 1,000 by default: one more is
            closed at once. 0 sets no limit. (ZooKeeper's `maxClientCnxns` is for each address.)
        container_interval: how often empty containers and outlived TTL znodes are looked for, in
            seconds.
        config: the first content of `/zookeeper/config`: lines of `server.N=...`, one for each
            server of the ensemble, all of them up. Then the super user may change it with
            `reconfig`, and is refused what a real ensemble refuses: fewer than two voters, and
            voters of whom most have yet to join. Without it reconfiguration is switched off.
        super_digest: the ACL id of the super user, `Auth.digest(user, password).acl().id`, as
            ZooKeeper's `superDigest`: a client with this identity may do everything, regardless of
            ACLs. By default there is none.
        engine: the server that it says it is: `zookeeper`, `clickhouse-keeper` or `raftkeeper`. The
            others are imitated as their published source has it: the handshake, the operations that
            a version does not know, sessions that end with their connection, and the wrong paths in
            the events of recursive watches.
        version: the version that it says it is, and behaves as in all that `aiolead.types.Feature`
            names; defaults to 3.8.0, or the oldest that is imitated of another engine (24.8.0,
            2.3.0). In what the table does not name, it behaves as ZooKeeper 3.8 does.
        backports: features that it has all the same, although they came later. Distributors bring
            security fixes to older versions: Debian's 3.8.0 has `Feature.EVENTS_NEED_READ`.
        enforce_quota: whether the hard limits of quotas hold, as with ZooKeeper's `enforceQuota`.
        local_sessions: whether sessions are local and stay so, as with `localSessionsEnabled` where
            `localSessionsUpgradingEnabled` is off: ephemeral znodes are refused.
        ssl_context: for TLS on every connection, those in memory, too. Where it asks for client
            certificates, their subjects are the clients' identities of the scheme `x509`.
        tls_port: a second port, for TLS, as ZooKeeper's `secureClientPort`: `port` and connections
            in memory are without TLS then. 0 takes a free one. By default there is no second port.
        sasl_users: the users that may log in by SASL's DIGEST-MD5, and their passwords; looked at
            with each login.
        require_auth: the schemes (`sasl`, `digest`, `x509`) of which a client must have shown an
            identity before its first request; empty to serve everybody.
        data_dir: a directory where znodes and sessions are kept: the next server there goes on with
            them, also after SIGKILL, though not after a power cut. It is made if there is none.
            Each change waits for the file, and no other server may use it meanwhile. By default
            everything is in memory, and gone when the server is left.
        clock: returns the time in seconds; it must go with `anyio.sleep`. By default the clock of
            the event loop.
        rng: where session ids and passwords come from. A seeded one makes them repeatable.

    Raises:
        ConfigurationError: an argument makes no sense; on entering, `data_dir` cannot be used.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int | None = 0,
        tick_time: float = 0.5,
        min_session_timeout: float | None = None,
        max_session_timeout: float | None = None,
        max_frame: int = DEFAULT_MAX_FRAME,
        max_connections: int = MAX_CONNECTIONS,
        container_interval: float = 60.0,
        engine: str = "zookeeper",
        version: str | None = None,
        config: str | None = None,
        super_digest: str | None = None,
        backports: Collection[Feature] = (),
        enforce_quota: bool = False,
        local_sessions: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        tls_port: int | None = None,
        sasl_users: Mapping[str, str] | None = None,
        require_auth: Collection[str] = (),
        data_dir: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if tick_time < 0.001:
            raise ConfigurationError(f"tick_time: must be at least 0.001 s, not {tick_time}")
        if container_interval < 0.001:
            raise ConfigurationError(
                f"container_interval: must be at least 0.001 s, not {container_interval}"
            )
        shortest = 2 * tick_time if min_session_timeout is None else min_session_timeout
        longest = 20 * tick_time if max_session_timeout is None else max_session_timeout
        if not 0 < shortest <= longest:
            raise ConfigurationError(
                "min_session_timeout: must be above 0 and not above max_session_timeout, "
                f"not {shortest} and {longest}"
            )
        if max_connections < 0:
            raise ConfigurationError(
                f"max_connections: must be 0 for no limit, or more, not {max_connections}"
            )
        if max_frame < 1:
            raise ConfigurationError(f"max_frame: must be at least 1 byte, not {max_frame}")
        if tls_port is not None and (ssl_context is None or port is None):
            missing = "ssl_context" if ssl_context is None else "port"
            raise ConfigurationError(f"tls_port: needs {missing}")
        schemes = {"digest", "ip"}
        if ssl_context is not None:
            schemes.add("x509")
        if sasl_users:
            schemes.add("sasl")
        if isinstance(require_auth, str) or not schemes.issuperset(require_auth):
            raise ConfigurationError(
                f"require_auth: must be some of {sorted(schemes)}, not {require_auth!r}"
            )
        release = parse_release(engine, version)
        self._host = host
        self._port = port
        self._clock = clock
        self._rng = rng or random.SystemRandom()
        self._settings = Settings(
            tick_ms=milliseconds(tick_time),
            min_session_ms=milliseconds(shortest),
            max_session_ms=milliseconds(longest),
            max_frame=max_frame,
            max_connections=max_connections,
            container_interval_ms=milliseconds(container_interval),
            enforces_quotas=enforce_quota,
            has_local_sessions=local_sessions,
            engine=release.engine,
            version=release.version,
            backports=frozenset(backports),
            sasl_users=sasl_users or {},
            schemes=frozenset(schemes),
            required=frozenset(require_auth),
            super_digest=super_digest,
            config=None if config is None else _checked_config(config),
        )
        self._ssl_context = ssl_context
        self._tls_port = tls_port
        self._data_dir = data_dir
        self._store: Store | None = None
        self._shell: Shell | None = None

    @classmethod
    def in_thread(cls, **options: Unpack[EmbeddedServerOptions]) -> ThreadedServer:
        """The same server in a thread of its own, for programs without an event loop.

            with EmbeddedServer.in_thread() as server:
                client = kazoo.client.KazooClient(server.connect_string)

        Args:
            **options: as for the class itself.
        """
        return ThreadedServer(cls(**options))

    async def __aenter__(self) -> Self:
        if self._shell is not None:
            raise UsageError("an EmbeddedServer can be entered only once")
        clock = self._clock or anyio.current_time
        # A clock that was passed in is all the time there is; the times in a Stat follow it.
        epoch = time.time() - clock() if self._clock is None else 0.0
        if self._data_dir is not None:
            # Other servers need no SQLite.
            from ._server.store import Store

            self._store = Store(Path(self._data_dir))
        try:
            core = Core(replace(self._settings, epoch=epoch), self._rng, self._store)
            self._shell = Shell(
                core, clock, self._host, self._port, self._ssl_context, self._tls_port
            )
            await self._shell.open()
        except BaseException:
            self._close_store()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # Where a coroutine is destroyed after its event loop, nothing can be awaited.
            if exc_type is not GeneratorExit or self._running.is_here():
                await self._running.close()
        finally:
            self._close_store()
        failures = self._running.failures
        if not failures:
            return
        if exc is None:
            raise (
                failures[0]
                if len(failures) == 1
                else ExceptionGroup("the embedded server failed", failures)
            )
        # The body's own exception goes first, bare, as callers expect it.
        for failure in failures:
            exc.add_note(f"the embedded server failed, too: {failure!r}")

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()

    # --- where it is ---------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Where it listens; the same again after `stop` and `start`.

        Raises:
            UsageError: it does not listen.
        """
        port = self._running.port
        if port is None:
            raise UsageError("this EmbeddedServer does not listen: it was made with port=None")
        return port

    @property
    def connect_string(self) -> str:
        return format_host(self._host, self.port)

    @property
    def tls_connect_string(self) -> str:
        """The address of the second port, which is for TLS.

        Raises:
            UsageError: there is none.
        """
        port = self._running.tls_port
        if port is None:
            raise UsageError("this EmbeddedServer has no second port: it was made without tls_port")
        return format_host(self._host, port)

    async def connect_stream(self) -> MemoryStream:
        """A new connection in memory: the client's end.

        Raises:
            ConnectionRefusedError: the server is stopped.
        """
        await checkpoint()
        client, server = memory_stream_pair()
        self._running.adopt(server, MEMORY_ADDRESS)
        return client

    # --- making things happen ------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops listening and drops every connection; the tree and the sessions are kept.

        No session ends while the server is stopped. Stopping twice does nothing.
        """
        await self._running.stop()

    async def start(self) -> None:
        """Starts again after `stop`, on the same port.

        Every session has its full timeout from now on, as after a restart of a real server.
        Starting twice does nothing.

        Raises:
            OSError: somebody else has taken the port.
        """
        await self._running.start()

    def pause(self) -> None:
        """Behaves as a stopped process (SIGSTOP): nothing is read, answered or accepted.

        Connections stay open, and clients can open new ones.
        """
        self._running.pause()

    def resume(self) -> None:
        """Goes on after `pause`.

        As in a real server that comes back, time has passed: the sessions that ran out are ended
        before anything that their clients have sent meanwhile is read.
        """
        self._running.resume()

    def set_read_only(self, read_only: bool, *, grants_sessions: bool = True) -> None:
        """Plays a server with `readonlymode.enabled` that has lost its quorum, or found it again.

        Every connection is closed. While it is read-only, it takes clients that asked for that, in
        sessions that it makes up, refuses writes and `sync` with `NotReadOnlyError`, and answers
        `isro` with `ro`. Sessions that were there before are kept, and have their full timeout
        afterwards. They are not served meanwhile: ZooKeeper 3.8 does that, later versions do not.

        Args:
            read_only: whether it has lost its quorum.
            grants_sessions: whether it makes up sessions, as with `localSessionsEnabled`. Without
                it, every handshake is refused.
        """
        running = self._running
        if read_only:
            running.core.become_read_only(grants_sessions=grants_sessions)
        else:
            running.core.become_full(running.now())
        running.deliver()

    def expire_session(self, session_id: int) -> None:
        """End a session now, as if its client had been silent for the session timeout.

        Raises:
            UsageError: there is no such session.
        """
        running = self._running
        if not running.core.expire(session_id, running.now()):
            raise UsageError(f"no session {session_id:#x}")
        running.deliver()

    def disconnect(self, session_id: int | None = None, *, reset: bool = False) -> None:
        """Closes a session's connection, or all there are. The sessions live on.

        Args:
            session_id: the client whose connection; None means all, also those without a session.
            reset: close with RST, which the client sees as an error, rather than with FIN.
        """
        self._running.disconnect(session_id, reset=reset)

    def drop_reply(self, op: OpCode, count: int = 1) -> None:
        """Applies the next requests of a kind, but closes the connection instead of answering.

        Args:
            op: which kind. `OpCode.CREATE_SESSION` stands for the handshake.
            count: how many requests.
        """
        self._running.core.dropped_replies[op] += count

    def drop_request(self, op: OpCode, count: int = 1) -> None:
        """Closes the connection on the next requests of a kind, without applying them."""
        self._running.core.dropped_requests[op] += count

    def throttle(self, op: OpCode, count: int = 1) -> None:
        """Answers the next requests of a kind with `ThrottledOpError`, without applying them.

        As a server does that throttles (ZooKeeper from 3.7 on), to a client that it can do without.
        """
        self._running.core.throttled[op] += count

    def slow_down(self, pace: float) -> None:
        """Takes its time: after each request of a connection it rests before it reads the next.

        Requests that arrive meanwhile are held back by TCP, as by a server with too many requests.

        Args:
            pace: the rest in seconds; 0 ends it.

        Raises:
            ConfigurationError: it is negative, or longer than a second.
        """
        if not 0 <= pace <= 1:
            raise ConfigurationError(f"pace: must be 0 to 1 seconds, not {pace}")
        self._running.core.pace = pace

    def limit_requests(self, size: int) -> None:
        """Closes the connection on every longer request, as after a change of `jute.maxbuffer`.

        Connections stay open until then. `heal` restores `max_frame`.

        Args:
            size: the largest request, in bytes.

        Raises:
            ConfigurationError: it is not between 1 and `max_frame`.
        """
        most = self._settings.max_frame
        if not 1 <= size <= most:
            raise ConfigurationError(f"size: must be 1 to {most} bytes, not {size}")
        self._running.core.max_frame = size

    def set_sequence(self, path: str, value: int) -> None:
        """Makes `value` the number of the next sequential child of a znode.

        Raises:
            ConfigurationError: it does not fit in 31 bits.
            NoNodeError: there is no such znode.
        """
        if not 0 <= value <= MAX_SEQUENCE:
            raise ConfigurationError(f"value: must be 0 to {MAX_SEQUENCE}, not {value}")
        self._running.core.set_sequence(path, value)

    def create(self, path: str, data: bytes = b"") -> None:
        """Puts a znode there that everybody may change, as if a client had.

        Raises:
            ServerError: the answer that the client would have got.
        """
        running = self._running
        running.core.create(path, data, running.now())
        running.deliver()

    async def heal(self) -> None:
        """Undoes what the methods above have done to the server itself: it serves everybody.

        It runs, and is not paused, read-only or slow; a limit of requests, pending drops and
        throttles are forgotten. The tree and the sessions stay as they are.
        """
        running = self._running
        running.resume()
        running.core.heal(running.now())
        running.deliver()
        await running.start()

    # --- looking inside ------------------------------------------------------------------------

    @property
    def requests(self) -> Counter[str]:
        """How often each operation was asked for, by the name of its `OpCode`; pings, too."""
        return self._running.core.traffic.requests

    @property
    def packets_in(self) -> int:
        """How many packets have come in, handshakes included."""
        return self._running.core.traffic.packets_in

    @property
    def packets_out(self) -> int:
        """How many packets were sent, watch events included."""
        return self._running.core.traffic.packets_out

    @property
    def bytes_in(self) -> int:
        return self._running.core.traffic.bytes_in

    @property
    def bytes_out(self) -> int:
        return self._running.core.traffic.bytes_out

    @property
    def connections(self) -> int:
        """How many connections there are, with a session or without."""
        return len(self._running.core.connections)

    @property
    def zxid(self) -> int:
        """The transaction id of the last change."""
        return self._running.core.processor.zxid

    def znodes(self) -> list[str]:
        """Every path, sorted, except the server's own below `/zookeeper`."""
        return sorted(self._running.core.processor.tree.paths())

    def sessions(self) -> dict[int, SessionInfo]:
        """The sessions that have not ended, by id."""
        core = self._running.core
        return {
            session.id: SessionInfo(session.timeout_ms / 1000, core.is_attached(session.id))
            for session in core.sessions.all()
        }

    def watches(self) -> dict[str, set[int]]:
        """Which sessions watch each path, in whichever way."""
        return {
            path: {connection.session_id for connection in watchers}
            for path, watchers in self._running.core.processor.watches.by_path().items()
        }

    @property
    def _running(self) -> Shell:
        if self._shell is None:
            raise UsageError("the EmbeddedServer was not entered: use `async with`")
        return self._shell


def _checked_config(config: str) -> bytes:
    try:
        parsed = parse_config(config.encode())
    except RemoteWireError as error:
        raise ConfigurationError(f"config: {error}") from None
    return format_config(parsed.servers, max(parsed.version, 0))
