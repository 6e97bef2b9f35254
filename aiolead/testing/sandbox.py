"""One test's part of a server that others use, too: what the fixtures of the pytest plugin give."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import anyio

from .. import admin, connect
from ..errors import UsageError
from ..model import SessionCredentials
from ..paths import ConnectString, parse_connect_string
from .ensemble import BlockingEnsemble, Ensemble
from .proxy import FaultProxy
from .servers import BlockingServer
from .threaded import ThreadedServer

__all__ = ["EnsembleSandbox", "GivenServer", "KazooClient", "OwnsSession", "Sandbox"]

PATIENCE = 30.0
"""For one errand to a server, in seconds. Errands take milliseconds; this only bounds a defect."""

TIMEOUT = 10.0
"""The requested session timeout of a session that is to end, in seconds."""


@runtime_checkable
class OwnsSession(Protocol):
    """A client, a term, a hold: whatever has a session."""

    @property
    def session_id(self) -> int: ...


@runtime_checkable
class KazooClient(Protocol):
    """An object with a session like kazoo's client: its id and its password."""

    @property
    def client_id(self) -> tuple[int, bytes] | None: ...


class GivenServer:
    """Servers that somebody else runs.

    Args:
        connect_string: where they are; all operations happen below its chroot.

    Raises:
        ConfigurationError: it is malformed.
    """

    def __init__(self, connect_string: str) -> None:
        parse_connect_string(connect_string)
        self.connect_string = connect_string


class Sandbox:
    """A server, and an empty chroot in it that nobody else uses.

    A context manager. Entering creates the chroot; leaving ends the proxies, and puts right
    whatever was done to the server, so that the next one finds it as it should be. In servers that
    somebody else runs (`GivenServer`) the chroot is deleted, with all that is in it. In a forked
    child, leaving does nothing.

    Clients of any kind connect to `connect_string`. Their creator closes them.

    Args:
        server: the sandbox that it belongs to.

    Attributes:
        hosts: where the server is, without a chroot.
        chroot: the path of the chroot.
    """

    def __init__(
        self, server: ThreadedServer | BlockingServer | BlockingEnsemble | GivenServer
    ) -> None:
        self._shared = server
        target = parse_connect_string(server.connect_string)
        self._target = target.hosts[0]
        self.hosts: str = str(ConnectString(target.hosts))
        self.chroot: str = f"{target.chroot}/test-{uuid.uuid4().hex}"
        self._proxies = ExitStack()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.connect_string}>"

    def __enter__(self) -> Self:
        if isinstance(self._shared, ThreadedServer):
            self._shared.create(self.chroot)  # the credentials, if a login is needed
        else:
            _run(self._make_chroot)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child: its parent still uses the chroot
        self._proxies.close()
        if isinstance(self._shared, GivenServer):
            _run(self._delete_chroot)
        elif isinstance(self._shared, ThreadedServer):
            self._shared.heal()
        else:
            self._shared.ensure_serving()

    @property
    def connect_string(self) -> str:
        """Where clients connect, with the chroot."""
        return self.hosts + self.chroot

    @property
    def server(self) -> ThreadedServer:
        """The embedded server, for its own abilities: `pause`, `drop_reply`, `znodes` ...

        Raises:
            UsageError: it is another kind of server.
        """
        if not isinstance(self._shared, ThreadedServer):
            raise UsageError(f"this needs the embedded server, not {self.hosts}")
        return self._shared

    @property
    def is_embedded(self) -> bool:
        """Whether there is a `server`."""
        return isinstance(self._shared, ThreadedServer)

    def proxy(self) -> FaultProxy:
        """A fault proxy before the server (the first one of an ensemble), with the same chroot.

        Each client that is to have troubles of its own takes one. They end with the sandbox.
        """
        host, port = self._target
        return self._proxies.enter_context(FaultProxy(host, port, chroot=self.chroot))

    def expire_session(self, session: int | OwnsSession | KazooClient | SessionCredentials) -> None:
        """End a session, as if its client had been silent for the session timeout.

        Its ephemeral znodes are gone when this returns. The client finds out by its next request,
        or by a notification, as always.

        Args:
            session: its owner, a client of aiolead or kazoo, or a term; or the session's id. A real
                server wants its password besides: there it takes the client, or its `credentials`.

        Raises:
            UsageError: there is no such session, or its password is not known.
        """
        if isinstance(self._shared, ThreadedServer):
            self._shared.expire_session(_id_of(session))
        else:
            credentials = _credentials_of(session)
            _run(lambda: self._close_session(credentials))

    async def _make_chroot(self) -> None:
        async with connect(self.connect_string) as client:
            await client.ensure_path("/")

    async def _delete_chroot(self) -> None:
        async with connect(self.hosts) as client:
            await admin.delete_all(client, self.chroot)

    async def _close_session(self, credentials: SessionCredentials) -> None:
        # Every client with a session's password may resume it. It closes it if it was left to it.
        async with connect(self.hosts, resume=replace(credentials, is_detached=True)):
            pass


class EnsembleSandbox(Sandbox):
    """A real ensemble, and an empty chroot in it that nobody else uses: see `Sandbox`.

    Attributes:
        ensemble: its servers, to be killed, paused, isolated from each other. `ensemble.blocking`
            has the same verbs for tests that are no coroutines.
    """

    def __init__(self, ensemble: BlockingEnsemble) -> None:
        super().__init__(ensemble)
        self.ensemble: Ensemble = Ensemble.over(ensemble)


def _id_of(session: int | OwnsSession | KazooClient | SessionCredentials) -> int:
    if isinstance(session, int):
        return session
    if isinstance(session, (SessionCredentials, OwnsSession)):
        return session.session_id
    return _credentials_of(session).session_id


def _credentials_of(
    session: int | OwnsSession | KazooClient | SessionCredentials,
) -> SessionCredentials:
    if isinstance(session, SessionCredentials):
        return session
    if isinstance(session, KazooClient):
        if session.client_id is None:
            raise UsageError("the client has no session")
        number, password = session.client_id
        return SessionCredentials(number, password, TIMEOUT)
    credentials: object = getattr(session, "credentials", None)
    if not isinstance(credentials, SessionCredentials):
        raise UsageError(
            "a real server ends a session only for its password: pass the client, or its "
            f"credentials, and not {session!r}"
        )
    return credentials


def _run(errand: Callable[[], Awaitable[None]]) -> None:
    """Runs an errand in a thread of its own: here an event loop may be running already."""
    failures: list[BaseException] = []

    async def in_time() -> None:
        with anyio.fail_after(PATIENCE):
            await errand()

    def run() -> None:
        try:
            anyio.run(in_time)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="zookeeper-errand")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
