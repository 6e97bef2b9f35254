"""The client's tasks that connect it, and carry the bytes of each connection."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream

from ..._session.states import SERVED
from ..._util.escaping import get_logger, in_words, shown_session
from ..._util.host_tasks import open_group
from ..._util.internal_errors import internal_error
from ..._util.racing import open_first
from ...errors import AioleadError, AuthFailedError, InternalError
from ...paths import format_host
from ..fast.carrier import Carrier
from .fork_safety import kept_from_children
from .four_letter_words import (
    Peer,
    find_full_server,
    grants_read_only,
    has_lost_quorum,
    says,
)
from .host_list import Backoff, HostList, Server
from .known_addresses import KnownAddresses
from .opener import ConnectionEnded, ConnectionLeft, Opener

if TYPE_CHECKING:
    from ..core import Core
    from ..sasl import Login, Logins
    from .host_sources import Discovery

logger = get_logger("aiolead.connection")

LASTING = 0.1
"""A connection that lasted for so many seconds is replaced at once when it is lost; a server that
drops its clients sooner is asked less and less often.
"""

MOVING = 1 / 8
"""The part of the session timeout that a moving client waits for answers. Nothing is sent
meanwhile, renewals included: a lease that is renewed in time has 0.4 of it left.
"""

LEAST_PATIENCE = 1 / 32
"""The least time for a holder's connection attempt, as a part of the session timeout."""


REFUSALS = 3
"""Rounds of refusals that end an overdue session; one may be due to a bad connection."""


class ServerConnection:
    __slots__ = (
        *("address", "answered", "carrier", "ended", "is_leaving", "is_open", "opened", "peer"),
        *("scope", "server"),
    )

    def __init__(self, carrier: Carrier, peer: Peer, server: Server, address: str) -> None:
        self.carrier = carrier
        self.peer = peer
        self.server = server
        self.address = address
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.opened: anyio.Event = anyio.Event()
        self.is_open = False
        self.ended: Exception | None = None
        self.is_leaving = False
        self.answered: anyio.Event | None = None
        """Set when nothing is in flight any more, while a move waits for that."""

    def end(self, why: Exception) -> None:
        if self.ended is None:
            self.ended = why
        self.scope.cancel()


class Supervisor:
    """Keeps a client connected: one connection after another, to the servers of its list.

    Args:
        servers: the list; it may be changed by `update_hosts`.
        discover: makes what asks for the list, with where it puts it, if anything does.

    Attributes:
        connection: the present one, logged in or not.
    """

    def __init__(
        self,
        core: Core,
        *,
        servers: Sequence[Server],
        rng: random.Random,
        opener: Opener,
        logins: Logins | None = None,
        read_only: bool = False,
        discover: Callable[[Callable[[Sequence[Server]], object]], Discovery] | None = None,
    ) -> None:
        self._core = core
        self._machine = core.machine
        self._hosts = HostList(servers, rng, KnownAddresses(core.start))
        self._discovery = None if discover is None else discover(self.update_hosts)
        self._backoff = Backoff(rng)
        self._opener = opener
        self._logins = logins
        self._read_only = read_only
        self.connection: ServerConnection | None = None
        self._failures: dict[str, Exception] = {}
        """The last error of each address since the last success."""
        self._doing: dict[str, str] = {}
        """The stage reached at each address of the present attempt."""
        self._kept_until = -inf
        """When to ask again whether there is a quorum, if every server refuses the session."""
        self._ask_again: dict[Server, float] = {}
        """When to ask a read-only server again that has granted no session."""

    @property
    def peer(self) -> Peer | None:
        """The connected server; None while there is none."""
        connection = self.connection
        if connection is None or not connection.is_open or connection.ended is not None:
            return None
        return connection.peer

    def attempts(self) -> list[tuple[str, Exception]]:
        """Why there is no session yet: each address's last error, or the stage reached."""
        attempts = {} if self._discovery is None else dict(self._discovery.attempts())
        attempts |= self._failures
        for name, stage in self._doing.items():
            if not any(known == name or known.startswith(f"{name} (") for known in attempts):
                attempts[name] = ConnectionEnded(stage)
        for host in self._hosts:
            if not any(name.split(" ")[0] == host for name in attempts):
                attempts[host] = ConnectionEnded("not tried yet")
        return list(attempts.items())

    def servers(self) -> list[tuple[str, Server]]:
        """Each server with where it is reached: the present one by its address, others by name."""
        servers = self._hosts.servers
        connection = self.connection
        if connection is None:
            return [(server[0], server) for server in servers]
        others = [(server[0], server) for server in servers if server != connection.server]
        return [(connection.address, connection.server), *others]

    async def greeted(self) -> None:
        """Wait until the present connection has a session."""
        if self.connection is not None:
            await self.connection.opened.wait()

    def end(self, error: InternalError) -> None:
        self._machine.failed(error)
        self.cut(error)

    def cut(self, why: Exception) -> None:
        """End the connection; for the machine, it is lost at once."""
        if self.connection is not None and self.connection.ended is None:
            self.connection.end(why)
            closed = str(why) if isinstance(why, ServerHungUp) else ""
            self._machine.connection_lost(self._core.clock(), closed)

    # --- moving --------------------------------------------------------------------------------

    def update_hosts(self, hosts: Sequence[Server]) -> None:
        """Replaces the list of servers, which may move a connected client."""
        must_move = self._hosts.update(hosts)
        if must_move:
            self.move("the list of servers has changed")
        elif self._hosts.has_changed:
            self._machine.can_move = len(self._hosts) > 1
        self._core.session_changed()

    def move(self, why: str) -> None:
        """Leaves the server for another one, once everything sent is answered."""
        connection = self.connection
        if (
            connection is None
            or not self._machine.server.keeps_sessions  # it would be the end of the session
            or connection.is_leaving
            or connection.ended is not None
            or not connection.is_open
        ):
            return
        connection.is_leaving = True
        self._machine.hold_back()
        self._core.start(partial(self._leave, connection), partial(self._left, connection, why))

    async def _leave(self, connection: ServerConnection) -> None:
        with anyio.move_on_after(self._machine.timing.patience * MOVING):
            while connection.ended is None and self._machine.requests.inflight:
                connection.answered = anyio.Event()
                await connection.answered.wait()

    def _left(self, connection: ServerConnection, why: str, _error: AioleadError | None) -> None:
        connection.answered = None
        if connection is self.connection:
            self.cut(ConnectionLeft(why))

    # --- connecting ----------------------------------------------------------------------------

    async def keep_connected(self) -> None:
        """Connects again and again, until the client is closed or its credentials are refused."""
        self._core.reporting.searching()
        if self._discovery is not None:
            await self._discovery.begin(self._report_missing)
            self._core.start(self._discovery.keep_asking)
        refusals = 0  # consecutive rounds in which every server hung up on our handshake
        while not self._machine.state.is_final and not self._core.is_forked:
            delay = self._backoff.delay(self._machine.timing.patience)
            if delay:
                await anyio.sleep(delay)
            refused, outcome, session_id = True, "", self._session_id
            self._hosts.look_ahead()
            for server in self._hosts.round():
                outcome = await self._try_host(server)
                if outcome == "refused" and await self._should_read_only(server):
                    logger.warning("only %s serves us: it is read-only", server[0])
                    self._machine.give_up_session()
                refused = refused and outcome == "refused" and not self._hosts.has_changed
                if outcome == "served":
                    self._ask_again.clear()
                if outcome == "served" or self._hosts.has_changed:
                    break
                if self._machine.state.is_final:
                    return
            if outcome != "served":
                # The end of a session is reported, and says nothing about the servers.
                if not self._hosts.has_changed and session_id == self._session_id:
                    self._report_missing()
                if self._discovery is not None:
                    self._discovery.hurry()
            refusals = refusals + 1 if refused else 0
            if refusals >= REFUSALS and await self._session_is_lost():
                session, zxid = shown_session(self._session_id), self._machine.last_zxid
                logger.warning("every server refuses session %s at zxid 0x%x", session, zxid)
                self._machine.give_up_session()

    def _report_missing(self) -> None:
        self._core.reporting.no_server(self.attempts())

    @property
    def _session_id(self) -> int:
        return self._machine.session_id

    def _session_is_hopeless(self) -> bool:
        # Servers refuse clients that have seen a later zxid, also without a session.
        if self._session_id == 0 and self._machine.last_zxid == 0:
            return False
        age = self._core.clock() - self._machine.last_contact
        return age > self._machine.timing.session_timeout

    async def _session_is_lost(self) -> bool:
        """Whether the ensemble has forgotten an overdue session, or is older than it.

        An ensemble without a quorum has not: its next leader gives each session its full timeout.
        """
        now = self._core.clock()
        if not self._session_is_hopeless() or now < self._kept_until:
            return False
        if await has_lost_quorum(self._hosts, self._open_aside):
            self._kept_until = now + self._machine.timing.session_timeout
            return False
        return True

    async def _should_read_only(self, server: Server) -> bool:
        """Whether to exchange an overdue session for one that this server has offered."""
        may = self._read_only and not self._machine.is_resuming
        now, timing = self._core.clock(), self._machine.timing
        if not may or not self._session_is_hopeless() or now < self._ask_again.get(server, -inf):
            return False
        if not await says(server, b"ro", self._hosts, self._open_aside):
            return False
        asked = round(timing.session_timeout * 1000)
        if await grants_read_only(server, self._hosts, self._open_aside, asked):
            return True
        if server not in self._ask_again:
            logger.warning(
                "%s is read-only, and grants no session: it needs localSessionsEnabled. Session "
                "%s is kept until there is a quorum",
                server[0],
                shown_session(self._session_id),
            )
        self._ask_again[server] = now + timing.session_timeout
        return False

    async def _search(self, _link: ServerConnection) -> None:
        """Leaves a read-only server as soon as a full one is found."""
        server = await find_full_server(self._hosts, self._open_aside)
        self._hosts.prefer(server)
        self.move("a full server was found")

    async def _open_aside(self, server: Server, address: str) -> ByteStream:
        host, port = server
        return await self._opener.open(host, address, port)

    @property
    def _patience(self) -> float:
        """Seconds for one attempt: the session has to outlive a few dead servers.

        So has a holder's lease: each frozen server costs the same share of what is left. A name
        with several addresses counts as so many servers.
        """
        timing, leases = self._machine.timing, self._machine.leases
        share = 1 / (1 + self._hosts.count_addresses())
        patience = timing.patience * share
        if leases.held:
            left = (leases.loss_due - self._core.clock()) * share
            patience = min(patience, max(left, timing.patience * LEAST_PATIENCE))
        return patience

    async def _try_host(self, server: Server) -> str:
        outcome = "failed"
        host, port = server
        name = format_host(host, port)
        self._doing = {name: "its name is not resolved yet"}
        try:
            addresses = await self._hosts.resolve(server, self._patience)
        except Exception as error:  # a resolver may raise anything
            self._failed(name, _reason(error, "its name was not resolved in time"))
            return outcome
        self._machine.can_move = len(self._hosts) > 1 or len(addresses) > 1
        labels = {
            address: name if address == host else f"{name} ({address})" for address in addresses
        }
        self._doing = {}
        while labels:
            opened = await open_first(
                list(labels), partial(self._open_carrier, server, labels), open_group
            )
            if opened is None:
                return "failed"
            address, carrier = opened
            if self._machine.state.is_final:  # the client was closed at this moment
                await carrier.aclose()
                return "failed"
            outcome = await self._serve(carrier, server, address, labels.pop(address))
            if outcome == "served" or self._machine.state.is_final:
                break
        return outcome

    def _failed(self, name: str, error: Exception) -> None:
        self._core.reporting.connection_failed(name, error)
        self._failures[name] = error

    async def _open_carrier(
        self, server: Server, labels: dict[str, str], address: str
    ) -> Carrier | None:
        """Opens a connection to an address; removes it from `labels` if that fails."""
        host, port = server
        name = labels[address]
        self._doing[name] = "no connection yet"
        try:
            with anyio.fail_after(self._patience):
                return await self._opener.open_carrier(host, address, port)
        except Exception as error:  # `dial` may raise anything
            self._failed(name, _reason(error, "no connection in time"))
            del labels[address]
            return None

    async def _serve(self, carrier: Carrier, server: Server, address: str, name: str) -> str:
        """Logs in on a new connection; returns when it has ended.

        Returns `served` after a connection with a session, `refused` if the server accepted the
        connection and then closed it without a word, else `failed`. `name` is for errors and logs.
        """
        host, port = server
        self._doing = {name: "no answer to the handshake yet"}
        connection = self.connection = ServerConnection(
            carrier, Peer(name, partial(self._opener.open, host, address, port)), server, address
        )
        clock = self._core.clock
        opened_at = inf
        login = None if self._logins is None else self._logins.begin(host)
        try:
            self._machine.connection_made(clock(), name)
            with kept_from_children(carrier.raw_socket), connection.scope:
                async with open_group() as tasks:
                    tasks.start_soon(self._guard, connection, self._carry)
                    if login is not None:
                        tasks.start_soon(self._guard, connection, partial(self._log_in, login))
                    with anyio.move_on_after(self._patience):
                        await connection.opened.wait()
                        opened_at = clock()
                        self._core.reporting.connection_opened(name)
                        if not self._hosts.opened(server):
                            self.move("the server is not in the list any more")
                        if self._machine.is_read_only:
                            tasks.start_soon(self._guard, connection, self._search)
                    if not connection.is_open:
                        self.cut(ConnectionEnded("no answer to the handshake in time"))
        finally:
            why = connection.ended = connection.ended or ConnectionEnded("the connection ended")
            self._machine.connection_lost(clock())
            self.connection = None
            try:
                if not (self._machine.server.keeps_sessions or isinstance(why, ServerHungUp)):
                    # The server ends the session as it sees the end of the connection.
                    with anyio.move_on_after(self._machine.timing.grace_period):
                        await self._core.holders_gone()
            finally:
                await carrier.aclose()
            if connection.answered is not None:
                connection.answered.set()
        if not connection.is_open:
            self._failed(name, self._explained(why))
            return "refused" if isinstance(why, ServerHungUp) else "failed"
        self._core.reporting.connection_lost(name, why)
        self._failures.clear()
        now, patience = clock(), self._machine.timing.patience
        if now - opened_at >= min(LASTING, patience / 20):
            self._backoff.succeeded(now, patience, is_shared=self._machine.is_passed_on)
        return "served"

    def _explained(self, why: Exception) -> Exception:
        """The reason of a connection that ended at the handshake, with what a hang-up may mean."""
        if str(why) != HUNG_UP:
            return why
        port = "" if self._opener.is_encrypted else ", or a port for TLS"
        return ServerHungUp(
            f"{HUNG_UP} at the handshake: it has no quorum, or too many connections{port}?"
        )

    async def _guard(
        self, connection: ServerConnection, job: Callable[[ServerConnection], Awaitable[None]]
    ) -> None:
        """Runs a job of a connection; an unexpected exception ends that connection."""
        try:
            await job(connection)
        except Exception as error:
            self.cut(internal_error(error, job))

    async def _carry(self, connection: ServerConnection) -> None:
        try:
            await connection.carrier.carry(self._core)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self.cut(_hang_up(error))

    def look_whether_opened(self, connection: ServerConnection) -> None:
        if self._machine.state in SERVED:
            connection.is_open = True
            connection.opened.set()
            self._core.due_earlier(-inf)

    async def _log_in(self, login: Login, connection: ServerConnection) -> None:
        machine, clock = self._machine, self._core.clock

        def answer(token: bytes | None, is_last: bool) -> None:
            if connection.ended is None:
                machine.login.answer(token, clock(), is_last=is_last)
                if not connection.is_open:
                    self.look_whether_opened(connection)

        try:
            await login.run(answer)
        except AuthFailedError as error:
            machine.refuse_login(error)
            self.cut(error)
        except ConnectionEnded as error:
            self.cut(error)


HUNG_UP = "the server closed the connection"


class ServerHungUp(ConnectionEnded):
    """The other end closed the connection."""


def _hang_up(error: Exception) -> ConnectionEnded:
    if isinstance(error, anyio.EndOfStream):
        return ServerHungUp(HUNG_UP)
    if isinstance(error.__cause__, ConnectionEnded):
        return error.__cause__
    cause = error.__cause__
    return ServerHungUp(
        f"the connection broke: {in_words(cause if isinstance(cause, Exception) else error)}"
    )


def _reason(error: Exception, timed_out: str) -> Exception:
    if isinstance(error, TimeoutError):
        return ConnectionEnded(timed_out)
    if isinstance(error, ConnectionEnded):
        return error
    # anyio's error says only that all attempts failed; its cause says why.
    below = error.__cause__
    if isinstance(below, BaseExceptionGroup):
        below = below.exceptions[0]
    return below if isinstance(below, OSError) else error
