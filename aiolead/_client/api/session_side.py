"""The part of a client that is about its session, not about znodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import anyio
import anyio.lowlevel

from ..._session.requests import no_result
from ..._util.escaping import shown_session
from ..._wire.codes import OpCode
from ..._wire.framing import encode_body
from ..._wire.requests import AuthPacket
from ...errors import ConfigurationError, UsageError
from ...model import Auth, SessionCredentials, SessionState
from ...paths import parse_connect_string
from .. import loop_affinity
from ..client_reporting import ClientStatistics
from ..core import Core
from .client_backend import ClientBackend
from .operations import Scope, checked_duration
from .pending_reply import PendingReply

if TYPE_CHECKING:
    from ..client_host import ClientHandle


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A change of a session's state.

    `session_id` is the session that it is about; 0 while there is none.
    """

    state: SessionState
    session_id: int


class SessionStates(AsyncIterator[SessionChange]):
    """The states of a client's session, from the present one on.

    The latest state wins: a slow observer may miss that a connection was lost and regained, but
    never the last state, and never an expiry, which comes before anything of the next session. The
    iteration ends when the client is closed or its credentials were refused.

    Use as a context manager: `async with client.observe() as states: async for change in states:`.

    Threads and forks: any thread may read `current`; everything else raises `UsageError`
    outside of the client's event loop.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: list[SessionChange] = []
        self._wake = anyio.Event()
        self._open = False
        self._over = False

    @property
    def current(self) -> SessionChange:
        """The state now, independent of the iteration."""
        return SessionChange(self._core.machine.state, self._core.machine.session_id)

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        # No checkpoint from here on: a cancelled `__aenter__` has no `__aexit__`.
        self._unsubscribe = self._core.subscribe(self._on_state)
        self._pending = [self.current]
        self._open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._core.leaves_here(exc_info):
            return
        self._unsubscribe()
        self._over = True
        self._wake.set()

    def _on_state(self, state: SessionState, session_id: int) -> None:
        if self._pending and self._pending[-1].state is not SessionState.EXPIRED:
            self._pending.pop()
        self._pending.append(SessionChange(state, session_id))
        # Between two iterations at most one expiry matters: the last.
        del self._pending[:-2]
        self._wake.set()

    async def __anext__(self) -> SessionChange:
        self._core.check_home()
        if not self._open:
            raise UsageError("the states were not opened: use `async with ... as states`")
        if self._pending or self._over:
            await anyio.lowlevel.checkpoint()
        while not self._over and not self._pending:
            self._wake = anyio.Event()
            await self._wake.wait()
        if self._over:
            raise StopAsyncIteration
        change = self._pending.pop(0)
        self._over = change.state.is_final
        return change


class SessionSide:
    """The part of a client that every view of it shares."""

    def __init__(
        self, core: Core, scope: Scope, handle: ClientHandle | None, backend: ClientBackend
    ) -> None:
        self._core = core
        self._handle = handle
        """Closes the client once no object of the program has it."""
        self._scope = scope
        self._backend = backend

    def __repr__(self) -> str:
        state = self._core.machine.state.value
        session, chroot = shown_session(self.session_id), self._scope.prefix or "/"
        return f"<Client session {session} {state} chroot={chroot}>"

    # --- the session ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the client, with all its views, as leaving `async with aiolead.connect()` does.

        For a client that was opened by `client = await aiolead.connect(...)`. Everything still held
        is lost first, and its holders get the grace period to stop; then the session is closed.
        Without effect if the client is closed.

        Raises `UsageError` outside of the client's event loop. Any task of it may call this.

        Cancellation: it is put off until the client is closed, which is bounded, as it is for
        `connect`. On connection loss: the session is not closed, and ends when it times out.
        """
        if self._handle is not None:
            await self._handle.host.leave()

    @property
    def session_id(self) -> int:
        """The current session; 0 while there is none."""
        return self._core.machine.session_id

    @property
    def session_timeout(self) -> float:
        """The timeout asked for or the one granted, whichever is less, in seconds.

        No wait of the client or its recipes is longer. Servers keep the session of a dead client
        for the granted timeout, which `statistics()` has.
        """
        return self._core.machine.timing.patience

    @property
    def state(self) -> SessionState:
        """The state of the session; `CLOSED` in a forked child, which has none."""
        if loop_affinity.process is not self._core.affinity.process:
            return SessionState.CLOSED
        return self._core.machine.state

    @property
    def credentials(self) -> SessionCredentials:
        """The credentials with which another client, in any process, can continue the session.

        The two take the session from each other if they run at the same time. For one session
        timeout after it has connected, each treats what the other has in the session as another
        client's. Neither closes the session, since the other may hold something under it: once this
        was read, the session ends when it times out. Raises `UsageError` without a session, if a
        read-only server has made it up, and outside of the client's event loop.
        """
        return self._passed_on()

    def detach(self) -> SessionCredentials:
        """Let the present session outlive the client, and return its `credentials`.

        Leaving does not close it, but whatever is still held then is lost first, as always. Its
        other ephemeral znodes live until the session timeout has passed, or as long as
        `connect(resume=)` continues it. If the session expires before the client is closed, the one
        that follows is closed as usual. Raises `UsageError` without a session.
        """
        credentials = replace(self._passed_on(), is_detached=True)
        self._core.detached = credentials.session_id
        self._core.session_changed()
        return credentials

    def _passed_on(self) -> SessionCredentials:
        self._core.check_home()
        credentials = self._core.machine.credentials
        if credentials is None:
            raise UsageError("there is no session that could be resumed")
        self._core.machine.pass_on()
        return credentials

    @property
    def backend(self) -> ClientBackend:
        """The part for recipes and adapters; also one-shot watches: `backend.make_watch`."""
        return self._backend

    def healthy(self, max_unconfirmed: float | None = None) -> bool:
        """Return whether the servers have confirmed recently that this client is well.

        For health probes (`docs/how-to/frameworks.md`); asks no server. These must be recent:

        * While something is held: the quorum's confirmation, which stops, for instance, when our
          server is partitioned from the others.
        * While a lost hold is not released: the last confirmation before the loss. So a body that
          ignores its cancellation shows.
        * Otherwise, for instance while waiting for a lock: any answer of the server in this
          session.

        False without a session: before the first one, after an expiry until the next one has begun,
        on a read-only server, once the client is closed, in a forked child.

        Args:
            max_unconfirmed: in seconds; defaults to the session timeout, after which the servers
                may have ended the session. A healthy holder is confirmed within half of that and a
                round trip: with less, the answer is sometimes false.

        Raises:
            ConfigurationError: `max_unconfirmed` is no number of seconds, or more than a day.
        """
        machine = self._core.machine
        limit = machine.timing.session_timeout
        if max_unconfirmed is not None:
            limit = checked_duration("max_unconfirmed", max_unconfirmed, least=0, most=86_400)
        return self._core.clock() - machine.confirmed_at <= limit and not self._core.is_forked

    def statistics(self) -> ClientStatistics:
        """Return the state of session, connections, requests and lease; asks no server.

        In a forked child, that of a closed client that holds nothing.
        """
        peer = self._core.supervisor.peer
        found = self._core.reporting.statistics(None if peer is None else peer.name)
        if not self._core.is_forked:
            return found
        return replace(
            found, state=SessionState.CLOSED, server=None, held=0, lease_remaining=0.0, in_flight=0
        )

    def observe(self) -> SessionStates:
        """Return the session's states, from the present one on, as an async iterator."""
        self._core.check_home()
        return SessionStates(self._core)

    def update_hosts(self, hosts: str | Sequence[str]) -> None:
        """Replace the list of servers, by a connect string or a list of its parts.

        A connected client may have to move, so that load stays even: some clients to a new server,
        all away from a removed one. It waits for the answers to what it has sent, for an eighth of
        the session timeout at most; the session goes on. Raises `ConfigurationError` if the list is
        malformed, or has a chroot: the client keeps its own.
        """
        self._core.check_home()
        target = parse_connect_string(hosts)
        if target.chroot:
            raise ConfigurationError(f"hosts: a client keeps its chroot, leave it out: {hosts!r}")
        self._core.supervisor.update_hosts(target.hosts)

    async def ready(self) -> None:
        """Wait until the session is connected.

        Raises `SessionError` if the client was closed, or its credentials were refused.
        """
        await self._core.ready()

    def pipelined(self) -> AbstractContextManager[None]:
        """Return a context manager: requests made in its body leave together, in one segment.

        Otherwise a request made while no other is under way leaves at once, and the next a moment
        later. The body must not await.
        """
        self._core.check_home()
        return self._core.pipelined

    def add_auth(self, auth: Auth) -> PendingReply[None]:
        """Present more credentials: to the present server, and on every later connection.

        They count for every request made after this call; the answer says that the server has taken
        them. Without a connection it waits for the next server, for the session timeout at most;
        the credentials are kept even after that.

        Raises:
            AuthFailedError: they were refused, which ends the client, as at `connect`.
            ConnectionLossError: no server received them in time.
        """
        if not isinstance(auth, Auth):
            # The value may be, or hold, a password: it is not shown.
            raise ConfigurationError("auth: must be an Auth, such as Auth.digest(user, password)")
        self._core.check_home()
        body = encode_body(AuthPacket(auth.scheme, auth.credential))
        reply: PendingReply[None] = PendingReply(OpCode.AUTH, body, no_result)
        self._core.machine.check_size(reply)
        self._core.machine.login.add(auth, reply, self._core.clock())
        self._core.session_changed()
        return reply
