"""Real ZooKeeper servers as child processes, for tests."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeVar, Unpack

from anyio.lowlevel import checkpoint_if_cancelled

from .._util.daemon_threads import in_daemon_thread
from ..errors import UsageError
from .installation import Installation, find_installation
from .launch import LOOPBACK, ChildProcess, LaunchError, free_ports, wait_until

__all__ = ["BlockingServer", "ZooKeeperServer"]

_R = TypeVar("_R")

_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 5.0

# A server lives for seconds and holds next to nothing: what counts is how fast it starts.
_JVM_OPTIONS = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    # How often empty containers and expired znodes are looked for; the default is a minute.
    "-Dznode.container.checkIntervalMs=500",
)

_LOGBACK = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} [%thread] %level %logger{0} - %message%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""

_SIMPLE_LOGGER = """\
org.slf4j.simpleLogger.defaultLogLevel=info
org.slf4j.simpleLogger.showDateTime=true
org.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS
org.slf4j.simpleLogger.showShortLogName=true
"""


class CommonOptions(TypedDict, total=False):
    """The arguments of servers that are those of ensembles, too; see `BlockingServer`."""

    tick_time: float
    init_limit: int
    sync_limit: int
    force_sync: bool
    extra: Mapping[str, object] | None
    java_options: Sequence[str]
    version: str | None


class ServerOptions(CommonOptions, total=False):
    """The arguments of `ZooKeeperServer`; see `BlockingServer`."""

    port: int | None


async def in_thread(work: Callable[[], _R]) -> _R:
    """Runs what blocks, for a bounded time, in a thread; puts a cancellation off until its end."""
    await checkpoint_if_cancelled()
    # Not anyio's threads, whose callers a native cancellation of asyncio reaches at once.
    return await in_daemon_thread(work, "aiolead-server", to_its_end=True)


class BlockingServer:
    """A real ZooKeeper server, for code without an event loop.

    The same as `ZooKeeperServer`, with plain methods in the place of coroutines, so that a
    session-scoped fixture can own it, whatever runs the tests. A context manager, too.

    Args:
        tick_time: ZooKeeper's unit of time, in seconds. Session timeouts lie between 2 and 20
            ticks, and servers look for expired sessions once per tick.
        init_limit: how long a follower may take to join, in ticks.
        sync_limit: how long leader and follower may be silent towards each other, in ticks.
        force_sync: whether writes wait for the disk. Off, as nothing outlives the tests.
        extra: more lines for the configuration file; they win over those made here.
        port: where clients connect; by default one that is free.
        java_options: more options for the Java runtime.
        version: which ZooKeeper to run, as "3.9.3" or "3.9": see `find_installation`.
        peers: the members of the ensemble, as `server.N` lines; none for a standalone server.
        server_id: which of them this one is.

    Raises:
        ConfigurationError: `version` is not a version.
        ZooKeeperNotFoundError: ZooKeeper, this version of it, or Java is not installed; says which
            versions were found, and what to install.
    """

    def __init__(
        self,
        *,
        tick_time: float = 0.5,
        init_limit: int = 20,
        sync_limit: int = 4,
        force_sync: bool = False,
        extra: Mapping[str, object] | None = None,
        port: int | None = None,
        java_options: Sequence[str] = (),
        version: str | None = None,
        peers: Mapping[str, str] | None = None,
        server_id: int | None = None,
    ) -> None:
        self._installation = find_installation(version=version)
        self._java_options = tuple(java_options)
        self._server_id = server_id
        self.port: int = free_ports(1)[0] if port is None else port
        self._settings: dict[str, object] = {
            "tickTime": round(tick_time * 1000),
            "initLimit": init_limit,
            "syncLimit": sync_limit,
            "clientPort": self.port,
            "clientPortAddress": LOOPBACK,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "forceSync": "yes" if force_sync else "no",
            "extendedTypesEnabled": "true",
            "maxClientCnxns": 0,
            # A preallocated log of 64 MiB is the default; it would fill memory file systems.
            "preAllocSize": 1024,
            # With reconfiguration on, the members' addresses come from the leader. Ensembles have
            # it off, so that each server may see its peers under addresses of its own.
            "reconfigEnabled": "false" if peers else "true",
            **(peers or {}),
            **(extra or {}),
        }
        self._directory: Path | None = None
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def installation(self) -> Installation:
        """Which ZooKeeper and which Java run here."""
        return self._installation

    @property
    def connect_string(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            UsageError: the server was not started, or was stopped.
        """
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process, serving or not, paused or not.

        Raises:
            UsageError: this is a forked child, and the server belongs to the parent. So do all
                methods that need the process; `close` does nothing then.
        """
        if self._process is None:
            return False
        self._process.check_owner()
        return self._process.exit_status is None

    def start(self, timeout: float = _START_TIMEOUT) -> None:
        """Starts the server and waits until it serves. Data that it stored before is still there.

        Args:
            timeout: in seconds.

        Raises:
            LaunchError: it ended, or does not serve in time. Its message has the log's tail.
            UsageError: it runs already.
        """
        self.launch()
        self.wait_serving(timeout)

    def launch(self) -> None:
        """Starts the process and returns at once."""
        if self.is_running:
            raise UsageError(f"the server on port {self.port} runs already")
        self._forget()
        command = [str(self._installation.java), *_JVM_OPTIONS, *self._java_options]
        directory = self._prepare()
        # The folder comes first: loggers look for their configuration on the class path.
        command += ["-cp", f"{directory}:{self._installation.class_path}"]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(directory / "zoo.cfg")]
        self._process = ChildProcess(command, self.log)

    def wait_serving(self, timeout: float = _START_TIMEOUT) -> None:
        """Waits until the server serves clients; see `start`."""
        if not wait_until(lambda: not self.is_running or self.is_serving(), timeout):
            raise LaunchError(f"no answer within {timeout} s from {self._describe()}")
        if not self.is_running:
            raise LaunchError(f"ended while it started: {self._describe()}")

    def is_serving(self) -> bool:
        """Whether it answers and, as a member of an ensemble, is in contact with a quorum."""
        try:
            return "Mode:" in self.four_letter("srvr", timeout=1.0)
        except OSError:
            return False

    def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Lets the server shut down in order; kills it if that takes longer than `timeout` s."""
        if self._process is not None:
            self._process.check_owner()
            self._process.terminate(timeout)
            self._process = None

    def kill(self) -> None:
        """Ends the server at once (SIGKILL). Acknowledged writes stay."""
        self._running().kill()
        self._process = None

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): its sockets stay open and silent."""
        self._running().pause()

    def resume(self) -> None:
        """Lets a paused process go on."""
        self._running().resume()

    def restart(self, timeout: float = _START_TIMEOUT) -> None:
        """Stops the server in order and starts it again, on the same port with the same data."""
        self.stop()
        self.start(timeout)

    def ensure_serving(self, timeout: float = _START_TIMEOUT) -> None:
        """Bring the server back to where it serves, regardless of faults."""
        if self.is_running:
            self.resume()
            self.wait_serving(timeout)
        else:
            self.start(timeout)

    def close(self) -> None:
        """Kills the server and deletes its files. Takes a few milliseconds."""
        self.signal_kill()
        self.discard()

    def signal_kill(self) -> None:
        """The first half of `close`: returns at once, so that several servers end together."""
        if self._process is not None and not self._process.is_inherited():
            self._process.signal_kill()

    def discard(self) -> None:
        """The second half of `close`."""
        if self._process is not None and self._process.is_inherited():
            return
        self._forget()
        if self._directory is not None:
            shutil.rmtree(self._directory)
            self._directory = None

    def four_letter(self, word: str, timeout: float = 30.0) -> str:
        """Sends one of ZooKeeper's four-letter commands and returns the answer.

        Args:
            word: such as `ruok`, `srvr`, `cons`, `wchp`.
            timeout: for the whole exchange, in seconds.

        Raises:
            OSError: the server does not answer.
        """
        deadline = time.monotonic() + timeout
        answer = bytearray()
        with socket.create_connection((LOOPBACK, self.port), timeout) as link:
            link.sendall(word.encode("ascii"))
            while True:
                # The floor keeps a passed deadline from meaning "do not block".
                link.settimeout(max(deadline - time.monotonic(), 0.001))
                chunk = link.recv(65536)
                if not chunk:
                    return answer.decode("utf-8", "replace")
                answer += chunk

    def mntr(self) -> dict[str, str]:
        """The server's report about itself: the answer to `mntr`, without the prefix `zk_`.

        Raises:
            OSError: the server does not answer.
        """
        lines = (line.partition("\t") for line in self.four_letter("mntr").splitlines())
        return {name.removeprefix("zk_"): value for name, tab, value in lines if tab}

    @property
    def log(self) -> Path:
        """The server's log; gone once it is closed.

        Raises:
            UsageError: the server was never started.
        """
        if self._directory is None:
            raise UsageError("the server was not started, so there is no log")
        return self._directory / "server.log"

    def _running(self) -> ChildProcess:
        if self._process is None or not self.is_running:
            raise UsageError(f"the server on port {self.port} does not run")
        return self._process

    def _forget(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _prepare(self) -> Path:
        if self._directory is None:
            self._directory = directory = Path(tempfile.mkdtemp(prefix="zookeeper-"))
            data = directory / "data"
            data.mkdir()
            if self._server_id is not None:
                (data / "myid").write_text(f"{self._server_id}\n", encoding="ascii")
            settings = {"dataDir": data, **self._settings}
            lines = "".join(f"{name}={value}\n" for name, value in settings.items())
            (directory / "zoo.cfg").write_text(lines, encoding="utf-8")
            (directory / "logback.xml").write_text(_LOGBACK, encoding="ascii")
            (directory / "simplelogger.properties").write_text(_SIMPLE_LOGGER, encoding="ascii")
        return self._directory

    def _describe(self) -> str:
        status = "running" if self._process is None else self._process.exit_status
        where = f"the server on port {self.port} (exit status {status})"
        tail = self.log.read_text("utf-8", "replace").splitlines()[-25:]
        return "\n".join([f"{where}; the end of its log:", *tail])


class ZooKeeperServer:
    """A real ZooKeeper server as a child process, standalone, on loopback.

    An async context manager that starts the server and, at the end, kills it:

        async with ZooKeeperServer() as server:
            async with aiolead.connect(server.connect_string) as client:
                ...
                await server.restart()

    It takes a Java runtime and a ZooKeeper distribution (see `find_installation`), and under a
    second to start. The arguments are those of `BlockingServer`, which is this server's other
    face: `blocking` has the same verbs for code without an event loop.

    Cancellation: a verb that has begun is brought to its end, which its time limit bounds, so that
    no process is left half started.
    """

    def __init__(self, **options: Unpack[ServerOptions]) -> None:
        self.blocking: BlockingServer = BlockingServer(**options)

    @classmethod
    def over(cls, blocking: BlockingServer) -> Self:
        """The asynchronous face of a server that somebody else owns."""
        server = cls.__new__(cls)
        server.blocking = blocking
        return server

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.blocking.close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Not in a thread, since waiting for one is what a cancelled task cannot do.
        self.blocking.close()

    @property
    def connect_string(self) -> str:
        return self.blocking.connect_string

    @property
    def port(self) -> int:
        return self.blocking.port

    @property
    def pid(self) -> int:
        """See `BlockingServer.pid`."""
        return self.blocking.pid

    @property
    def is_running(self) -> bool:
        """See `BlockingServer.is_running`."""
        return self.blocking.is_running

    async def start(self, timeout: float = _START_TIMEOUT) -> None:
        """See `BlockingServer.start`."""
        await in_thread(lambda: self.blocking.start(timeout))

    async def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """See `BlockingServer.stop`."""
        await in_thread(lambda: self.blocking.stop(timeout))

    async def kill(self) -> None:
        """See `BlockingServer.kill`."""
        await in_thread(self.blocking.kill)

    async def pause(self) -> None:
        """See `BlockingServer.pause`."""
        await in_thread(self.blocking.pause)

    async def resume(self) -> None:
        """See `BlockingServer.resume`."""
        await in_thread(self.blocking.resume)

    async def restart(self, timeout: float = _START_TIMEOUT) -> None:
        """See `BlockingServer.restart`."""
        await in_thread(lambda: self.blocking.restart(timeout))

    async def four_letter(self, word: str, timeout: float = 30.0) -> str:
        """See `BlockingServer.four_letter`."""
        return await in_thread(lambda: self.blocking.four_letter(word, timeout))

    async def mntr(self) -> dict[str, str]:
        """See `BlockingServer.mntr`."""
        return await in_thread(self.blocking.mntr)
