"""The numbers of the protocol (`ZooDefs.java`), and the errors for error codes."""

from __future__ import annotations

import enum

from ..errors import (
    AioleadError,
    AuthFailedError,
    ConnectionLossError,
    ServerError,
    SessionExpiredError,
    SessionMovedError,
    UnknownServerError,
)

PROTOCOL_VERSION = 0

XID_EVENT = -1
XID_PING = -2
XID_AUTH = -4
XID_SET_WATCHES = -8
RESERVED_XIDS = {XID_PING: "a ping", XID_AUTH: "credentials", XID_SET_WATCHES: "SetWatches"}
"""Packets that are answered under an xid of their own."""

XID_SASL = 1
"""For SASL tokens: any positive xid will do, as no request is in flight during the login."""


class OpCode(enum.IntEnum):
    """The operation of a request."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


REFUSED_READ_ONLY = frozenset(
    {
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.MULTI,
        OpCode.SYNC,
        OpCode.RECONFIG,
        OpCode.CLOSE_SESSION,
    }
)
"""The operations that a read-only server refuses (`ReadOnlyRequestProcessor`); never sent to it."""


def op_name(op: int) -> str:
    try:
        return OpCode(op).name
    except ValueError:
        return f"operation {op}"


class WatcherType(enum.IntEnum):
    """The watches that `REMOVE_WATCHES` removes."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    """Since 3.9, as `RECURSIVE`; before, the others remove persistent watches, too."""
    RECURSIVE = 5


class AddWatchMode(enum.IntEnum):
    """The scope of an `ADD_WATCH` watch, which fires until it is removed."""

    PERSISTENT = 0
    """Changes of the path and of the list of its children."""
    RECURSIVE = 1
    """Changes of the path and of everything below it, but not of lists of children."""


KEEPER_STATE_CONNECTED = 3
"""The `state` of every watch event that a server sends over a healthy connection."""


_BY_CODE = {cls.code: cls for cls in ServerError.__subclasses__() if cls.code}


def server_error(code: int, path: str | None = None) -> AioleadError:
    """The error for a code: of the session, of the connection (-4), else a `ServerError`."""
    if cls := _BY_CODE.get(code):
        return cls(path)
    match code:
        case -4:
            return ConnectionLossError("the server lost its connection to the ensemble")
        case -112:
            return SessionExpiredError("the server says that the session expired")
        case -115:
            return AuthFailedError("the server refused the credentials")
        case -118:
            return SessionMovedError("the session was moved to another connection")
        case -124:
            return AuthFailedError(
                "the server takes authenticated clients only, so it closed the session"
            )
        case _:
            return UnknownServerError(code, path)
