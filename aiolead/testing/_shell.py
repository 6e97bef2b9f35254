"""The embedded server's tasks: listening, serving connections, and keeping time."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Sequence

import anyio

from .._util.escaping import get_logger
from .._util.host_tasks import HostTasks, open_group
from .._util.shielding import wait_through
from .._util.tasks import AnyTaskGroup
from ..errors import UsageError
from ..paths import format_host
from ._link import Gate, Link, Transport
from ._server.acl import Identity
from ._server.connection import Connection
from ._server.core import Core
from ._sockets import Listener
from ._tls import HANDSHAKE_TIMEOUT, TLSTransport

_LOGGER = get_logger(__name__)

ACCEPT_PAUSE = 0.1
"""Seconds to wait when no connection can be accepted, for want of descriptors."""

Door = tuple[Listener, ssl.SSLContext | None]
"""A port that is listened on, and its TLS."""


class Shell:
    """Runs a core, in tasks that belong to no task of the program.

    Their errors are kept in `failures`, and logged. They cancel nobody.

    Args:
        core: the server that it runs.
        clock: returns the time in seconds.
        host: the address to listen on.
        port: the port to listen on; 0 takes a free one, None listens on none.
        tls: for TLS on every connection, or on those to `tls_port` alone if that is set.
        tls_port: a second port, for TLS; `port` and connections in memory are without it then.
    """

    def __init__(
        self,
        core: Core,
        clock: Callable[[], float],
        host: str,
        port: int | None,
        tls: ssl.SSLContext | None = None,
        tls_port: int | None = None,
    ) -> None:
        self.core = core
        self.now = clock
        self.port = port
        self.tls_port = tls_port
        self.failures: list[Exception] = []
        self._host = host
        self._tls = tls
        self._handshakes: set[Transport] = set()
        """The connections on which TLS is being agreed upon."""
        self._tasks: HostTasks | None = None
        self._closed: anyio.Event | None = None
        """Exists once closing has begun, and is set when all tasks have ended."""
        self._gate = Gate()
        self._links: dict[Connection, Link] = {}
        self._run_tasks: AnyTaskGroup | None = None
        self._run_ended = anyio.Event()
        self._rescheduled = anyio.Event()
        self._timer_until: float | None = None

    async def open(self) -> None:
        process = os.getpid()
        self._tasks = HostTasks(self._crashed, self._close, lambda: os.getpid() != process)
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise

    def is_here(self) -> bool:
        """Whether the server's event loop is the one that runs."""
        return self._tasks is not None and self._tasks.is_here()

    async def close(self) -> None:
        """Ends all tasks, and waits for them. Any task of the event loop may call it.

        Cancellation is put off until they have ended, which takes a few turns of the event loop.
        """
        await wait_through(self._close())

    def _close(self) -> anyio.Event:
        """Begins to close; the event is set when all tasks have ended."""
        if self._closed is None:
            assert self._tasks is not None
            self._closed = anyio.Event()
            self._tasks.start_closing(self._closing)
        return self._closed

    async def _closing(self) -> None:
        assert self._tasks is not None
        assert self._closed is not None
        try:
            self._tasks.end()
            await self._tasks.wait_ended()
        finally:
            self._closed.set()

    async def start(self) -> None:
        if self._tasks is None or self._closed is not None:
            raise UsageError("the EmbeddedServer was left already")
        if self._run_tasks is not None:
            return
        doors: list[Door] = []
        try:
            if self.port is not None:
                listener = await self._listen(self.port)
                self.port = listener.port
                doors.append((listener, self._default_tls))
            if self.tls_port is not None:
                listener = await self._listen(self.tls_port)
                self.tls_port = listener.port
                doors.append((listener, self._tls))
        except BaseException:
            for listener, _ in doors:
                listener.close()
            raise
        self.core.restarted(self.now())
        self._run_ended = anyio.Event()
        started = anyio.Event()
        self._tasks.start_soon(self._run, doors, started)
        await wait_through(started)

    @property
    def _default_tls(self) -> ssl.SSLContext | None:
        """For connections that do not come by the port for TLS."""
        return self._tls if self.tls_port is None else None

    async def _listen(self, port: int) -> Listener:
        listener = await Listener.open(self._host, port)
        if not listener.is_local:
            _LOGGER.warning(
                "the embedded server, which is for development and tests, listens on %s: other "
                "machines can reach it",
                format_host(self._host, listener.port),
            )
        return listener

    async def stop(self) -> None:
        if self._run_tasks is not None:
            self._run_tasks.cancel_scope.cancel()
            await self._run_ended.wait()

    def pause(self) -> None:
        self._gate.close()

    def resume(self) -> None:
        if not self._gate.is_open:
            self.core.tick(self.now())
            self._gate.open()
            self.deliver()

    def disconnect(self, session_id: int | None, *, reset: bool) -> None:
        for connection, link in list(self._links.items()):
            if session_id is None or connection.session_id == session_id:
                link.cut(reset=reset)

    def adopt(self, transport: Transport, address: str) -> None:
        """Serves a new connection in memory, unless there are too many.

        Raises:
            ConnectionRefusedError: the server is stopped.
        """
        self._adopt(transport, address, self._default_tls)

    def _adopt(self, transport: Transport, address: str, tls: ssl.SSLContext | None) -> None:
        """Serves a new connection, unless there are too many.

        Raises:
            ConnectionRefusedError: the server is stopped.
        """
        tasks = self._run_tasks
        ends = self._closed is not None
        if tasks is None or ends or tasks.cancel_scope.cancel_called:
            raise ConnectionRefusedError("the embedded server is stopped")
        if tls is None:
            self._take_up(tasks, transport, address, ())
        elif self.core.is_full(len(self._handshakes)):
            transport.close()
        else:
            self._handshakes.add(transport)
            tasks.start_soon(self._guard, self._secure, tasks, transport, address, tls)

    async def _secure(
        self, tasks: AnyTaskGroup, transport: Transport, address: str, context: ssl.SSLContext
    ) -> None:
        """Agrees with a client on TLS; a client that fails at it was never here."""
        secure = TLSTransport(transport, context)
        is_done = False
        try:
            await self._gate.wait()
            with anyio.move_on_after(HANDSHAKE_TIMEOUT):
                await secure.handshake()
                is_done = True
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._handshakes.discard(transport)
            if not is_done:
                transport.close()
        if is_done:
            client = secure.client
            identities = () if client is None else (("x509", client),)
            self._take_up(tasks, secure, address, identities)

    def _take_up(
        self,
        tasks: AnyTaskGroup,
        transport: Transport,
        address: str,
        identities: Sequence[Identity],
    ) -> None:
        connection = self.core.connect(address, identities)
        if connection is None:
            transport.close()
            return
        link = Link(
            self.core,
            connection,
            transport,
            self._gate,
            self.now,
            self.deliver,
            self._fail,
        )
        self._links[connection] = link
        tasks.start_soon(self._serve, connection, link)

    def deliver(self) -> None:
        """Wakes the links, and the timer, that the core has something for."""
        for connection in self.core.take_woken():
            if link := self._links.get(connection):
                link.wake()
        deadline = self.core.next_deadline(self.now())
        if deadline is not None and (self._timer_until is None or deadline < self._timer_until):
            self._rescheduled.set()

    async def _run(self, doors: Sequence[Door], started: anyio.Event) -> None:
        """From one start to the next stop."""
        try:
            async with open_group() as tasks:
                self._run_tasks = tasks
                tasks.start_soon(self._guard, self._keep_time)
                for listener, tls in doors:
                    tasks.start_soon(self._guard, self._accept, listener, tls)
                started.set()
        finally:
            started.set()
            self._run_tasks = None
            for listener, _ in doors:
                listener.close()
            # Those whose task was cancelled before it ran: it has closed nothing.
            for link in self._links.values():
                link.cut()
            for transport in self._handshakes:
                transport.close()
            self._links.clear()
            self._handshakes.clear()
            self._run_ended.set()

    async def _serve(self, connection: Connection, link: Link) -> None:
        try:
            await link.serve()
        finally:
            del self._links[connection]

    async def _accept(self, listener: Listener, tls: ssl.SSLContext | None) -> None:
        while True:
            await self._gate.wait()
            try:
                transport, address = await listener.accept()
            except OSError as error:
                _LOGGER.warning("cannot accept a connection: %s", error)
                await anyio.sleep(ACCEPT_PAUSE)
                continue
            try:
                self._adopt(transport, address, tls)
            except ConnectionRefusedError:  # The server was stopped as the connection came.
                transport.close()

    async def _keep_time(self) -> None:
        while True:
            now = self.now()
            self._rescheduled = anyio.Event()
            self._timer_until = self.core.next_deadline(now)
            until = float("inf") if self._timer_until is None else self._timer_until
            with anyio.move_on_after(max(0.0, until - now)):
                await self._rescheduled.wait()
            await self._gate.wait()
            self.core.tick(self.now())
            self.deliver()

    async def _guard(self, loop: Callable[..., Awaitable[None]], *args: object) -> None:
        try:
            await loop(*args)
        except Exception as error:
            self._fail(error)

    def _crashed(self, error: BaseException, _function: object) -> None:
        if isinstance(error, Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        _LOGGER.error("the embedded server failed", exc_info=error)
        self.failures.append(error)
