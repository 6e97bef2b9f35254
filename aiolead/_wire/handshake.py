"""The session handshake, which opens a connection before any header."""

from __future__ import annotations

from dataclasses import field

from ..errors import RemoteWireError
from .codes import PROTOCOL_VERSION
from .jute import Reader, Record, Writer, record

REPLY_HEADER = 16
"""Bytes of a `ReplyHeader`: fewer than a `ConnectResponse` has."""

NO_PASSWORD = bytes(16)
"""The password of a client without a session, as the clients of Java, C and kazoo send it.

ClickHouse Keeper and RaftKeeper know a handshake by its length, which includes 16 bytes of
password. They take any other first packet for a four-letter word. They also answer with this
password, since their sessions have none; a ZooKeeper server never does.
"""

NO_SESSION = -1
"""The session id in the answer of a ClickHouse Keeper that has no leader."""


@record
class ConnectRequest(Record):
    """Requests a session; a new one if `session_id` is 0, with `NO_PASSWORD`."""

    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes = field(repr=False)
    read_only: bool = False
    protocol_version: int = PROTOCOL_VERSION

    def write(self, w: Writer) -> None:
        w.i32(self.protocol_version)
        w.i64(self.last_zxid_seen)
        w.i32(self.timeout_ms)
        w.i64(self.session_id)
        w.blob(self.password)
        w.flag(self.read_only)

    @classmethod
    def read(cls, r: Reader) -> ConnectRequest:
        version, zxid, timeout, session = r.i32(), r.i64(), r.i32(), r.i64()
        password = r.blob()
        # Clients older than 3.4 end here.
        read_only = r.flag() if r.remaining else False
        return cls(zxid, timeout, session, password, read_only, version)


@record
class ConnectResponse(Record):
    """Grants a session, with the server's timeout; timeout and id are 0 if it has expired."""

    timeout_ms: int
    session_id: int
    password: bytes = field(repr=False)
    read_only: bool = False
    protocol_version: int = PROTOCOL_VERSION

    def write(self, w: Writer) -> None:
        w.i32(self.protocol_version)
        w.i32(self.timeout_ms)
        w.i64(self.session_id)
        w.blob(self.password)
        w.flag(self.read_only)

    @classmethod
    def read(cls, r: Reader) -> ConnectResponse:
        if r.remaining == REPLY_HEADER:
            # From a read-only server that may not create a session (ZooKeeper 3.8).
            _xid, _zxid, code = r.i32(), r.i64(), r.i32()
            raise RemoteWireError(
                f"error {code} instead of a session; "
                "a read-only server needs localSessionsEnabled to create one"
            )
        version, timeout, session = r.i32(), r.i32(), r.i64()
        password = r.blob()
        read_only = r.flag() if r.remaining else False
        return cls(timeout, session, password, read_only, version)


def check_protocol(response: ConnectResponse) -> None:
    """Raise `RemoteWireError` if the answer is about no session at all.

    RaftKeeper has another protocol version for an expired session, too; its timeout is then
    negative, as in ZooKeeper's answer.
    """
    is_foreign = response.protocol_version != PROTOCOL_VERSION and response.timeout_ms > 0
    if is_foreign or response.session_id == NO_SESSION:
        raise RemoteWireError(
            f"no session here: the answer has protocol version {response.protocol_version} and "
            f"session id {response.session_id:#x}, as that of a ClickHouse Keeper without a leader"
        )
