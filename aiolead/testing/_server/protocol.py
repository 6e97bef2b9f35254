"""The server's side of a connection, the same for one server and for an ensemble."""

from __future__ import annotations

from collections import Counter

from ..._wire.codes import OpCode
from ..._wire.handshake import NO_PASSWORD, ConnectRequest, ConnectResponse
from ..._wire.jute import Reader, Record, Writer, encode_reply, frame
from ..._wire.replies import ReplyHeader
from ..._wire.requests import AuthPacket
from . import acl
from .connection import Connection

AUTH_FAILED = -115

NOT_READ_ONLY = -119

NEEDS_LOGIN = -124
"""The answer to a request before the login, where a login is required."""

OLD_CONNECT_SIZE = 28
"""Bytes of a ConnectRequest without its password and its read-only flag."""

KEEPER_GREETINGS = (44, 45)
"""The lengths of a client's first packet that other engines take for a handshake."""

REJECTED = 42
"""The protocol version in a refused handshake of other engines."""

MAX_IDENTITIES = 256
"""How many identities a connection may prove: more than anybody has, and an end."""

OPS = {int(op): op for op in OpCode}
"""Every operation by its number."""

# Requests that only servers send to each other, or to themselves.
NOT_FOR_CLIENTS = {
    OpCode.NOTIFICATION,
    OpCode.CREATE_SESSION,
    OpCode.DELETE_CONTAINER,
    OpCode.ERROR,
}


class Greeting:
    """A client's first packet.

    Attributes:
        request: its content.
        is_old: whether it comes from a client before 3.4, which knows no read-only mode: it
            neither sends the flag nor expects it.
    """

    def __init__(self, packet: bytes, *, is_zookeeper: bool = True) -> None:
        self.request: ConnectRequest = ConnectRequest.read(Reader(packet))
        self._is_zookeeper = is_zookeeper
        self.is_old: bool = len(packet) == OLD_CONNECT_SIZE + len(self.request.password)

    def grant(
        self,
        connection: Connection,
        timeout_ms: int,
        id_: int,
        password: bytes,
        *,
        read_only: bool = False,
    ) -> None:
        self._answer(connection, ConnectResponse(timeout_ms, id_, password, read_only))

    def refuse(self, connection: Connection) -> None:
        """There is no such session (any more), or the password is not its own."""
        refusal = ConnectResponse(0, 0, NO_PASSWORD)
        if not self._is_zookeeper:
            refusal = ConnectResponse(-1, 0, NO_PASSWORD, protocol_version=REJECTED)
        self._answer(connection, refusal)
        connection.close_after_flush()

    def refuse_read_only(self, connection: Connection) -> None:
        """Answer as a read-only server that may not create a session (ZooKeeper 3.8 and 3.9)."""
        connection.queue(encode_reply(ReplyHeader(0, 0, NOT_READ_ONLY), None))
        connection.close_after_flush()

    def _answer(self, connection: Connection, response: ConnectResponse) -> None:
        w = Writer()
        response.write(w)
        is_short = self.is_old or not self._is_zookeeper
        connection.queue(frame(w.buffer[:-1] if is_short else w.buffer))


def reply(
    connection: Connection, xid: int, zxid: int, body: Record | None = None, *, error: int = 0
) -> None:
    connection.queue(encode_reply(ReplyHeader(xid, zxid, error), body))


def authenticate(
    connection: Connection, xid: int, packet: AuthPacket, super_digest: str | None = None
) -> None:
    """Answers an AUTH packet, and closes the connection if it proves nothing."""
    proven = acl.authenticate(packet.scheme, packet.credential, connection.address, super_digest)
    known = connection.identities
    for identity in proven:
        if identity not in known and len(known) < MAX_IDENTITIES:
            known.append(identity)
    if proven and all(identity in known for identity in proven):
        reply(connection, xid, 0)
    else:
        reply(connection, xid, 0, error=AUTH_FAILED)
        connection.close_after_flush()


def take_fault(faults: Counter[OpCode], op: OpCode) -> bool:
    """Whether this message is one of those that are to be lost; counts it."""
    if faults[op] <= 0:
        return False
    faults[op] -= 1
    return True
