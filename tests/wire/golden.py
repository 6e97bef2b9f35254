"""The frames that were recorded from others: see tests/assurance/golden/record.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiolead._wire import replies, requests
from aiolead._wire.codes import OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader, Writer
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import Create, GetChildren, RequestHeader, SetWatches

FOLDER = Path(__file__).parents[1] / "assurance" / "golden"
NAMES = ("java", "kazoo", "sasl")

REQUESTS = {
    "CREATE": Create,
    "CREATE2": Create,
    "CREATE_CONTAINER": Create,
    "CREATE_TTL": Create,
    "DELETE": requests.Delete,
    "EXISTS": requests.Exists,
    "GET_DATA": requests.GetData,
    "SET_DATA": requests.SetData,
    "GET_ACL": requests.GetACL,
    "SET_ACL": requests.SetACL,
    "GET_CHILDREN": GetChildren,
    "GET_CHILDREN2": GetChildren,
    "SYNC": requests.Sync,
    "GET_ALL_CHILDREN_NUMBER": requests.GetAllChildrenNumber,
    "GET_EPHEMERALS": requests.GetEphemerals,
    "MULTI": requests.Multi,
    "MULTI_READ": requests.MultiRead,
    "ADD_WATCH": requests.AddWatch,
    "REMOVE_WATCHES": requests.RemoveWatches,
    # It asks whether there is a watch to be removed. aiolead never sends it.
    "CHECK_WATCHES": requests.RemoveWatches,
    "RECONFIG": requests.Reconfig,
    "SET_WATCHES": SetWatches,
    "SET_WATCHES2": SetWatches,
    "AUTH": requests.AuthPacket,
    "SASL": requests.Sasl,
}
REPLIES = {
    "CREATE": replies.PathReply,
    "CREATE2": replies.CreateReply,
    "CREATE_CONTAINER": replies.CreateReply,
    "CREATE_TTL": replies.CreateReply,
    "EXISTS": replies.StatReply,
    "GET_DATA": replies.DataReply,
    "SET_DATA": replies.StatReply,
    "GET_ACL": replies.ACLReply,
    "SET_ACL": replies.StatReply,
    "GET_CHILDREN": replies.NamesReply,
    "GET_CHILDREN2": replies.ChildrenReply,
    "SYNC": replies.PathReply,
    "GET_ALL_CHILDREN_NUMBER": replies.NumberReply,
    "GET_EPHEMERALS": replies.NamesReply,
    "WHO_AM_I": replies.WhoAmIReply,
    "ADD_WATCH": replies.NumberReply,
    "SASL": replies.TokenReply,
    "MULTI": replies.MultiReply,
    "MULTI_READ": replies.MultiReadReply,
}
EMPTY_REQUESTS = {"PING", "CLOSE_SESSION", "WHO_AM_I"}
EMPTY_REPLIES = {
    *("PING", "CLOSE_SESSION", "AUTH", "DELETE", "REMOVE_WATCHES", "CHECK_WATCHES"),
    *("SET_WATCHES", "SET_WATCHES2"),
}
READ_WITH_THE_OPERATION = (Create, GetChildren, SetWatches)


@dataclass(frozen=True)
class Frame:
    """One that went to the server, or came from there.

    Attributes:
        of: the name of its conversation.
        number: its line there.
        data: with the length before it.
    """

    of: str
    number: int
    to_server: bool
    xid: int | None
    op: str
    data: bytes

    def __str__(self) -> str:
        arrow = "to-server" if self.to_server else "to-client"
        return f"{self.of}-{self.number}-{arrow}-{self.op}"

    def decoded(self) -> list[Any]:
        """The records in it.

        Raises:
            RemoteWireError: one of them does not read.
        """
        r = Reader(self.data[4:])
        records = list(self._decoded(r))
        assert r.remaining == 0, f"{r.remaining} bytes are left of {self}"
        return records

    def _decoded(self, r: Reader) -> Any:
        if self.op == "CONNECT":
            yield (ConnectRequest if self.to_server else ConnectResponse).read(r)
        elif self.to_server:
            header = RequestHeader.read(r)
            yield header
            if self.op not in EMPTY_REQUESTS:
                cls: Any = REQUESTS[self.op]
                needs_op = cls in READ_WITH_THE_OPERATION
                yield cls.read(r, OpCode(header.op)) if needs_op else cls.read(r)
        else:
            reply = ReplyHeader.read(r)
            yield reply
            if self.op == "NOTIFICATION":
                yield WatcherEvent.read(r)
            elif not reply.err and self.op not in EMPTY_REPLIES:
                body: Any = REPLIES[self.op]
                yield body.read(r)


def encoded(records: list[Any]) -> bytes:
    """The frame that they make."""
    w = Writer()
    for record in records:
        record.write(w)
    return len(w.buffer).to_bytes(4, "big") + bytes(w.buffer)


def conversation(name: str) -> list[list[Frame]]:
    """The recorded frames, connection by connection."""
    connections: list[list[Frame]] = []
    for number, line in enumerate((FOLDER / f"{name}.txt").read_text().splitlines()):
        if line.startswith("#"):
            if line == "# a connection":
                connections.append([])
            continue
        direction, xid, op, data = line.split()
        number_in_stream = None if xid == "-" else int(xid)
        frame = Frame(name, number + 1, direction == ">", number_in_stream, op, bytes.fromhex(data))
        connections[-1].append(frame)
    return connections


def frames(name: str) -> list[Frame]:
    """All that was recorded."""
    return [frame for connection in conversation(name) for frame in connection]
