"""The clients of one server: their connections, the handshake, and where their requests go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from ...._wire.codes import OpCode
from ...._wire.handshake import NO_PASSWORD
from ...._wire.jute import Reader
from ...._wire.requests import AuthPacket, RequestHeader
from ...._wire.versions import SRVR
from ....errors import RemoteWireError, UnimplementedError
from ..._server.connection import Closing, Connection, Traffic
from ..._server.processor import NO_ZXID
from ..._server.protocol import OPS, Greeting, authenticate, reply, take_fault
from ..._server.records import NoTokenReply
from ..connection import Wire
from .omissions import Fate, Omission

_HEADER_SIZE = 8

if TYPE_CHECKING:
    from .pipeline import Pipeline
    from .server import Server


class Office(Protocol):
    """How a server's role treats its clients' sessions."""

    pipeline: Pipeline

    def touch(self, session_id: int, timeout_ms: int) -> bool:
        """The session showed a sign of life; False if it is over."""
        ...

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        """A client has come with a session; the answer is given to `Clients.revalidated`."""
        ...


class ClientLink:
    """The server's end of a connection to a client, as an endpoint of the network.

    Attributes:
        greeting: of a handshake that is not decided yet; requests until then are `held`.
        is_ready: whether the handshake is done.
        busy_until: when the last reply leaves that was delayed, in seconds of the timeline.
        omission: the session of the latest request over this connection.
    """

    def __init__(self, clients: Clients, wire: Wire, connection: Connection) -> None:
        self.wire = wire
        self.connection = connection
        self.greeting: Greeting | None = None
        self.held = b""
        self.is_ready = False
        self.busy_until: float = 0.0
        self.omission: Omission | None = None
        self._clients = clients
        self._life = clients.server.life
        self._life.opened(self)

    def received(self, data: bytes, /) -> None:
        self._life.run(self._clients.received, self, data)

    def ended(self) -> None:
        self._life.run(self._clients.lost, self)

    def broken(self) -> None:
        self._life.run(self._clients.lost, self)

    def reset(self) -> None:
        """The process has died."""
        self.wire.reset()


class Clients:
    """All of a server's clients, in one life of its process.

    Attributes:
        office: serves them; None while the server has no role in which it serves.
        attached: the newest connection of each session.
        woken: the connections that have something to be sent, or are to be closed.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.office: Office | None = None
        self.attached: dict[int, ClientLink] = {}
        self.dropped_requests: Counter[OpCode] = Counter()
        self.dropped_replies: Counter[OpCode] = Counter()
        self._links: dict[Connection, ClientLink] = {}
        self.woken: dict[Connection, None] = {}
        self._traffic = Traffic()

    def accept(self, wire: Wire, host: str) -> ClientLink | None:
        """Takes a connection. One that comes while nobody serves is closed as soon as it speaks."""
        limit = self.server.protocol.max_connections
        if 0 < limit <= sum(link.wire.peer_host == host for link in self._links.values()):
            return None
        connection = Connection(host, self.server.protocol.max_frame, self.woken, self._traffic)
        link = self._links[connection] = ClientLink(self, wire, connection)
        return link

    def settle(self) -> None:
        """Sends what was queued, and closes what is to be closed."""
        while self.woken:
            woken = list(self.woken)
            self.woken.clear()
            for connection in woken:
                if link := self._links.get(connection):
                    self._send(link)

    def received(self, link: ClientLink, data: bytes) -> None:
        connection = link.connection
        if connection.closing is not Closing.NO:
            return
        if self.office is None:
            connection.close_now()
            return
        if link.greeting is not None:
            link.held += data
            return
        if not connection.has_opened:
            data = connection.opening = connection.opening + data
            if len(data) < len(SRVR):
                return
            connection.has_opened, connection.opening = True, b""
            if data.startswith(SRVR):
                # The one word that these servers know: what clients ask it for.
                told = self.server.protocol.full_version("simulated")
                connection.queue(f"{self.server.protocol.title} version: {told}\n".encode())
                connection.close_after_flush()
                return
        connection.frames = connection.reader.feed(data)
        self._resume(link)

    def lost(self, link: ClientLink) -> None:
        """The connection is gone, or is to be, with its watches.

        Its session lives on, but where an engine ends it with the connection.
        """
        link.connection.close_now()

    def close_all(self) -> None:
        """The server serves no longer."""
        self.office = None
        for link in list(self._links.values()):
            link.connection.close_now()
        self.settle()

    def session_ended(self, session_id: int) -> None:
        """Somebody else than its client has ended a session."""
        if link := self.attached.get(session_id):
            link.connection.close_now()

    def greeted(self, link: ClientLink, *, is_valid: bool) -> None:
        """The session that a client has asked for, or come with, is decided on."""
        connection, greeting = link.connection, link.greeting
        if greeting is None or connection.closing is not Closing.NO:
            return
        link.greeting = None
        if not is_valid:
            greeting.refuse(connection)
        elif take_fault(self.dropped_replies, OpCode.CREATE_SESSION):
            connection.close_after_flush()
        else:
            id_ = connection.session_id
            is_zookeeper = self.server.protocol.is_zookeeper
            password = self.server.password(id_) if is_zookeeper else NO_PASSWORD
            greeting.grant(connection, connection.timeout_ms, id_, password)
            link.is_ready = True
            self._resume(link)

    def revalidated(self, session_id: int, *, is_valid: bool) -> None:
        """The leader's answer about a session that a client has come with."""
        if link := self.attached.get(session_id):
            self.greeted(link, is_valid=is_valid)

    # --- what clients say ----------------------------------------------------------------------

    def _resume(self, link: ClientLink) -> None:
        connection = link.connection
        try:
            while connection.closing is Closing.NO and link.greeting is None:
                packet = next(connection.frames, None)
                if packet is not None:
                    if link.is_ready:
                        self._request(link, packet)
                    else:
                        self._handshake(link, packet)
                elif link.held:
                    connection.frames = connection.reader.feed(link.held)
                    link.held = b""
                else:
                    return
        except RemoteWireError:
            connection.close_now()

    def _handshake(self, link: ClientLink, packet: bytes) -> None:
        server, office, connection = self.server, self.office, link.connection
        assert office is not None
        protocol = server.protocol
        greeting = Greeting(packet, is_zookeeper=protocol.is_zookeeper)
        request = greeting.request
        if take_fault(self.dropped_requests, OpCode.CREATE_SESSION):
            connection.close_after_flush()
            return
        if protocol.is_zookeeper and request.last_zxid_seen > server.replica.processor.zxid:
            # The client has seen the future; another server may know it.
            connection.close_now()
            return
        link.greeting = greeting
        timeout = connection.timeout_ms = protocol.negotiated_ms(request.timeout_ms)
        if request.session_id == 0 or not protocol.keeps_sessions:
            id_ = connection.session_id = server.new_session_id()
            self.attached[id_] = link
            office.pipeline.create_session(link)
            return
        id_ = connection.session_id = request.session_id
        server.truth.tell("connected", session=id_)
        if previous := self.attached.get(id_):
            # Closed before the password is looked at, as ZooKeeper does.
            previous.connection.close_now()
        self.attached[id_] = link
        if protocol.is_zookeeper and request.password != server.password(id_):
            self.greeted(link, is_valid=False)
        else:
            office.revalidate(id_, timeout)

    def _request(self, link: ClientLink, packet: bytes) -> None:
        office, connection, protocol = self.office, link.connection, self.server.protocol
        assert office is not None
        r = Reader(packet)
        header = RequestHeader.read(r)
        op = OPS.get(header.op)
        if op is OpCode.AUTH:
            # Answered before the queue of requests: it does not touch the session.
            authenticate(connection, header.xid, AuthPacket.read(r))
            return
        self.server.truth.tell("requested", session=connection.session_id)
        if not office.touch(connection.session_id, connection.timeout_ms):
            return  # Of a session that is over. The connection is closed when its end is committed.
        if op is None or not protocol.takes_request(op, packet):
            if not protocol.is_zookeeper:
                if not protocol.keeps_sessions:
                    connection.close_after_flush()
                return
            reply(connection, header.xid, NO_ZXID, error=UnimplementedError.code)
            connection.close_after_flush()
        elif op is OpCode.SASL:
            reply(connection, header.xid, 0, NoTokenReply())
        elif take_fault(self.dropped_requests, op):
            connection.close_after_flush()
        else:
            fate = Fate.CUT_OFF if take_fault(self.dropped_replies, op) else Fate.SENT
            omission = self._omission(link, op)
            if omission is not None:
                if not omission.is_applied:
                    return
                fate = Fate.OMITTED
            office.pipeline.submit(link, header.xid, op, packet[_HEADER_SIZE:], fate)

    def _omission(self, link: ClientLink, op: OpCode) -> Omission | None:
        """Why a request is not answered; None if it is."""
        if op is OpCode.PING:
            return None
        before = link.omission
        if before is not None and before.is_swallowed and not before.is_over:
            return before
        for omission in self.server.omissions:
            if omission.takes(link.wire.peer_host, op):
                link.omission = omission
                self.server.truth.tell(
                    "omitted",
                    server=self.server.id,
                    session=link.connection.session_id,
                    op=op,
                    is_applied=omission.is_applied,
                    is_swallowed=omission.is_swallowed,
                )
                return omission
        return None

    # --- connections ---------------------------------------------------------------------------

    def _send(self, link: ClientLink) -> None:
        server, connection = self.server, link.connection
        data = connection.take()
        closing = connection.closing
        delay = server.reply_delay
        now = server.timeline.now
        if (delay or link.busy_until > now) and closing is not Closing.NOW:
            # Delayed messages are not overtaken.
            link.busy_until = max(now + delay, link.busy_until)
            server.timeline.at(link.busy_until, lambda: self._send_now(link, data, closing))
        else:
            self._send_now(link, data, closing)
        if closing is not Closing.NO:
            self._forget(link)

    def _send_now(self, link: ClientLink, data: bytes, closing: Closing) -> None:
        if data:
            link.wire.send(data)
        if closing is not Closing.NO:
            link.wire.close()
            self.server.life.closed(link)

    def _forget(self, link: ClientLink) -> None:
        connection = link.connection
        self._links.pop(connection, None)
        self.server.replica.processor.watches.forget(connection)
        id_ = connection.session_id
        if self.attached.get(id_) is link:
            del self.attached[id_]
            office, server = self.office, self.server
            is_left = link.is_ready and id_ in server.replica.sessions
            if office is not None and is_left and not server.protocol.keeps_sessions:
                office.pipeline.end_session(id_)
