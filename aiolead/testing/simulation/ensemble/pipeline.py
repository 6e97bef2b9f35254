"""In which order a server does what its clients ask for: ZooKeeper's `CommitProcessor`.

A request that needs the leader waits for it, and all later requests of the session wait behind it,
pings included. Other sessions do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ...._wire.codes import XID_PING, OpCode
from ...._wire.jute import Reader, Record
from ....errors import MarshallingError, RemoteWireError, ServerError
from ..._server.connection import Closing
from ..._server.protocol import reply as send_reply
from .clients import ClientLink, Clients
from .log import Entry
from .messages import Request
from .omissions import Fate
from .replica import Replica
from .sessions import SessionElsewhere

WRITES = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.CHECK,
        OpCode.MULTI,
        OpCode.RECONFIG,
        OpCode.CLOSE_SESSION,
    }
)


class Way(Protocol):
    """How requests get to be committed: by leading, or by asking the leader."""

    asks_for_sync: bool
    """Whether a `sync` has to go to the leader."""

    @property
    def lags(self) -> bool:
        """Whether this server leads and has not applied all that is committed."""
        ...

    def forward(self, request: Request) -> None:
        """Sends a request on its way; it comes back committed, or never."""
        ...

    def refusal(self, session_id: int) -> ServerError | None:
        """Why a request that changes nothing is refused, as far as this server knows."""
        ...


class _Pending:
    """A request of a client of this server."""

    __slots__ = ("body", "error", "fate", "link", "op", "xid")

    def __init__(self, link: ClientLink, xid: int, op: OpCode, body: bytes, fate: Fate) -> None:
        self.link = link
        self.xid = xid
        self.op = op
        self.body = body
        self.fate = fate
        self.error: ServerError | None = None


class Pipeline:
    """The requests of one server's clients, while it has one role.

    Args:
        server_id: the server's.
        clients: to whom answers are given.
        replica: the replica that answers reads.
        new_ticket: numbers that this server gives once.
        way: how requests get to be committed.
    """

    def __init__(
        self,
        server_id: int,
        clients: Clients,
        replica: Replica,
        new_ticket: Callable[[], int],
        way: Way,
    ) -> None:
        self._server_id = server_id
        self._clients = clients
        self._replica = replica
        self._new_ticket = new_ticket
        self._way = way
        self._queues: dict[int, deque[_Pending]] = {}
        self._tickets: dict[int, _Pending] = {}
        self._syncs: deque[int] = deque()

    def create_session(self, link: ClientLink) -> None:
        """Has the session made that a new client asks for."""
        self._forward(_Pending(link, 0, OpCode.CREATE_SESSION, b"", Fate.SENT))

    def submit(self, link: ClientLink, xid: int, op: OpCode, body: bytes, fate: Fate) -> None:
        """Takes a request.

        Args:
            link: from whom.
            xid: its number.
            op: the request.
            body: the rest.
            fate: of the answer.
        """
        pending = _Pending(link, xid, op, body, fate)
        if self._needs_leader(op):
            self._forward(pending)
            return
        session_id = link.connection.session_id
        pending.error = self._way.refusal(session_id)
        queue = self._queues.get(session_id)
        if queue is None:
            self._read(pending)
        else:
            queue.append(pending)

    def end_session(self, session_id: int) -> None:
        """Has the session of a lost connection ended, on an engine that does so."""
        ticket = self._new_ticket()
        self._way.forward(Request(self._server_id, ticket, session_id, OpCode.CLOSE_SESSION, b""))

    def committed(self, entry: Entry, reply: Record | None, error: int) -> None:
        """An entry was applied: answer the client that requested it, if it is here."""
        pending = None
        if entry.server == self._server_id:
            pending = self._tickets.pop(entry.ticket, None)
        if pending is None:
            if entry.op is OpCode.CLOSE_SESSION:
                self._clients.session_ended(entry.session_id)
            return
        self._leave_queue(entry.session_id, pending)
        if entry.op is OpCode.CREATE_SESSION:
            # Requests that came with the greeting are handled at once.
            self._clients.greeted(pending.link, is_valid=not error)
        else:
            self._answer(pending, reply, error)
        self._read_on(entry.session_id)

    def synced(self) -> None:
        """The leader has answered the oldest `sync` that is open."""
        pending = self._tickets.pop(self._syncs.popleft())
        session_id = pending.link.connection.session_id
        self._leave_queue(session_id, pending)
        self._read(pending)
        self._read_on(session_id)

    def _forward(self, pending: _Pending) -> None:
        connection = pending.link.connection
        ticket = self._new_ticket()
        self._tickets[ticket] = pending
        self._queues.setdefault(connection.session_id, deque()).append(pending)
        if pending.op is OpCode.SYNC:
            self._syncs.append(ticket)
        self._way.forward(
            Request(
                self._server_id,
                ticket,
                connection.session_id,
                pending.op,
                pending.body,
                tuple(connection.identities),
                connection.timeout_ms,
            )
        )

    def _leave_queue(self, session_id: int, done: _Pending) -> None:
        queue = self._queues[session_id]
        first = queue.popleft()
        if first is not done:
            raise AssertionError(f"{done.op!r} overtakes {first.op!r} of the same session")
        if not queue:
            del self._queues[session_id]

    def _read_on(self, session_id: int) -> None:
        """Does what has waited behind a request, up to the next one that needs the leader."""
        queue = self._queues.get(session_id)
        if queue is not None:
            while queue and not self._needs_leader(queue[0].op):
                self._read(queue.popleft())
            if not queue:
                del self._queues[session_id]

    def _needs_leader(self, op: OpCode) -> bool:
        return op in WRITES or (op is OpCode.SYNC and self._way.asks_for_sync)

    def _read(self, pending: _Pending) -> None:
        connection = pending.link.connection
        if connection.closing is not Closing.NO:
            return
        if pending.error is not None:
            self._answer(pending, None, pending.error.code)
            return
        if pending.op is OpCode.PING:
            self._answer(pending, None, 0)
            return
        if pending.op is OpCode.SYNC and self._way.lags:
            self._clients.server.truth.tell("stale-sync", session=connection.session_id)
        try:
            reader = Reader(pending.body)
            body = self._replica.processor.read(connection, pending.op, reader)
        except RemoteWireError:
            self._answer(pending, None, MarshallingError.code)
        except ServerError as error:
            self._answer(pending, None, error.code)
        else:
            self._answer(pending, body, 0)

    def _answer(self, pending: _Pending, body: Record | None, error: int) -> None:
        connection = pending.link.connection
        if pending.fate is Fate.CUT_OFF or error == SessionElsewhere.code:
            # A client that has moved on must not take the news for an answer to the new connection.
            connection.close_after_flush()
            return
        if pending.fate is Fate.OMITTED:
            return
        xid = XID_PING if pending.op is OpCode.PING else pending.xid
        send_reply(connection, xid, self._replica.processor.zxid, body, error=error)
        if pending.op is OpCode.CLOSE_SESSION:
            connection.close_after_flush()
