"""The transactions of the servers, with their times, from the transaction logs.

Every server logs each transaction before it acknowledges it, with the time at which the leader made
it. That time comes before anybody can learn of the transaction, from any server. So the deletion of
a holder's znode is taken to be earlier than it could be seen, by the time that a quorum takes.

A transaction is committed if two of three servers have it. An isolated leader goes on writing some
that nobody else has.

The times are those of the wall clock, in milliseconds; on one machine, that is the monotonic clock
and an offset, for as long as nobody sets the clock.
"""

from __future__ import annotations

import struct
import time
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Self

from aiolead._wire.codes import OpCode
from aiolead._wire.jute import Reader
from aiolead.testing import BlockingEnsemble, BlockingServer
from aiolead.testing.history import (
    Entered,
    Event,
    Left,
    NodeCreated,
    NodeDeleted,
    SessionOpened,
    SessionOver,
)

_FILE_HEADER = struct.Struct(">4siq")
_ENTRY_HEADER = struct.Struct(">qi")

_RESOLUTION = 0.001
_MOMENT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One entry of a log.

    Attributes:
        at: when the leader made it, in seconds of the wall clock.
        session: the session of the request.
        xid: of the request; 0 if the servers did it by themselves.
        zxid: its number.
        op: the `OpCode`, as a number.
        body: the rest.
    """

    at: float
    session: int
    xid: int
    zxid: int
    op: int
    body: bytes


def transactions(log: bytes) -> Iterator[Transaction]:
    """The entries of a log file. Its server may be writing it, or have been killed as it wrote."""
    position = _FILE_HEADER.size
    while position + _ENTRY_HEADER.size <= len(log):
        _checksum, size = _ENTRY_HEADER.unpack_from(log, position)
        position += _ENTRY_HEADER.size
        # Files are filled up with zeros in advance; each entry ends with a B.
        if size <= 0 or log[position + size : position + size + 1] != b"B":
            return
        reader = Reader(log[position : position + size])
        session, xid, zxid, at, op = (
            reader.i64(),
            reader.i32(),
            reader.i64(),
            reader.i64(),
            reader.i32(),
        )
        body = log[position + size - reader.remaining : position + size]
        yield Transaction(at=at / 1000, session=session, xid=xid, zxid=zxid, op=op, body=body)
        position += size + 1


@dataclass(frozen=True, slots=True)
class Stored:
    """The disk of one server.

    Attributes:
        entries: of its logs. A server that was sent what it has already writes it twice.
        snapshots: the numbers of the last transactions in its snapshots.
    """

    entries: frozenset[Transaction]
    snapshots: frozenset[int]

    @classmethod
    def by(cls, server: BlockingServer) -> Self:
        files = server.log.parent / "data" / "version-2"
        return cls(
            frozenset(t for log in files.glob("log.*") for t in transactions(log.read_bytes())),
            frozenset(int(file.suffix[1:], 16) for file in files.glob("snapshot.*")),
        )


def committed(disks: Sequence[Stored]) -> list[Transaction]:
    """The transactions in the logs of most servers of an ensemble, in order."""
    copies = Counter(entry for disk in disks for entry in disk.entries)
    most = len(disks) // 2 + 1
    return sorted((t for t, count in copies.items() if count >= most), key=lambda t: t.zxid)


def forgotten(disks: Sequence[Stored]) -> list[int]:
    """The numbers of committed transactions that a server does not have, though it has later ones.

    There must be none: what a quorum has logged has to be in every later state of every server.
    Where there are some, the servers are of different opinions, for good, on what exists.
    ZooKeeper 3.8.0 lets that happen if followers are stopped while they join a leader
    (ZOOKEEPER-4785).
    """
    found: set[int] = set()
    for disk in disks:
        own = sorted(entry.zxid for entry in disk.entries)
        for zxid in {entry.zxid for entry in committed(disks)}.difference(own):
            place = bisect(own, zxid)
            # A server has no log of the transactions in a snapshot that it was sent.
            sent = any(zxid <= last < own[place] for last in disk.snapshots if place < len(own))
            if place < len(own) and not sent:
                found.add(zxid)
    return sorted(found)


def disks_of(ensemble: BlockingEnsemble) -> list[Stored]:
    """The disk of each server."""
    return [Stored.by(server) for server in ensemble.servers]


def testimony(ensemble: BlockingEnsemble, line: str) -> list[Event]:
    """The events of the znodes right below `line`, and of all sessions, on the monotonic clock."""
    offset = time.time() - time.monotonic()
    account = _Account(line)
    for entry in committed(disks_of(ensemble)):
        account.take(entry, entry.at - offset)
    return account.events


def merged(told: Iterable[Event], testimony: Iterable[Event]) -> list[Event]:
    """The events of contenders and servers, in the order of time.

    Logs have whole milliseconds. Within a millisecond, causes come before effects: joining, the
    creation of a znode, entering; and leaving, and the deletion that the holder asks for. Changes
    by the servers themselves are put at the beginning, as early as they may have been.
    """
    told = list(told)
    entered = {event.token: event.at for event in told if isinstance(event, Entered)}
    left = {event.token: event.at for event in told if isinstance(event, Left)}
    tokens: dict[str, int] = {}
    found: list[Event] = []
    for event in testimony:
        if isinstance(event, NodeCreated):
            tokens[event.path] = event.czxid
            latest = entered.get(event.czxid, inf) - _MOMENT
            event = replace(event, at=max(event.at, min(event.at + _RESOLUTION, latest)))
        elif isinstance(event, NodeDeleted) and event.by:
            since = left.get(tokens.get(event.path, 0), 0.0) + _MOMENT
            event = replace(event, at=min(event.at + _RESOLUTION, max(event.at, since)))
        found.append(event)
    return sorted([*told, *found], key=lambda event: event.at)


@dataclass
class _Account:
    """Follows who owns which znode of a line."""

    line: str
    events: list[Event] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)

    def take(self, entry: Transaction, at: float) -> None:
        self._take(entry, entry.op, Reader(entry.body), at)

    def _take(self, entry: Transaction, op: int, reader: Reader, at: float) -> None:
        match op:
            case OpCode.CREATE | OpCode.CREATE2:
                path = reader.text()
                reader.blob()
                reader.acls()
                self._create(entry, path, entry.session if reader.flag() else 0, at)
            case OpCode.DELETE | OpCode.DELETE_CONTAINER:
                self._delete(entry, reader.text(), entry.session, at)
            case OpCode.MULTI:
                for _ in range(reader.i32()):
                    inner = reader.i32()
                    self._take(entry, inner, Reader(reader.blob()), at)
            case OpCode.CREATE_SESSION:
                timeout = reader.i32() / 1000
                self.events.append(SessionOpened(at=at, session_id=entry.session, timeout=timeout))
            case OpCode.CLOSE_SESSION:
                by = entry.session if entry.xid else 0
                for path in [p for p, owner in self.owners.items() if owner == entry.session]:
                    self._delete(entry, path, by, at)
                why = "closed" if entry.xid else "expired"
                self.events.append(SessionOver(at=at, session_id=entry.session, why=why))
            case _:
                pass  # Nothing that the history is about.

    def _create(self, entry: Transaction, path: str, owner: int, at: float) -> None:
        if path.rpartition("/")[0] == self.line:
            self.owners[path] = owner
            self.events.append(NodeCreated(at=at, path=path, czxid=entry.zxid, owner=owner))

    def _delete(self, entry: Transaction, path: str, by: int, at: float) -> None:
        if path in self.owners:
            owner = self.owners.pop(path)
            self.events.append(NodeDeleted(at=at, path=path, zxid=entry.zxid, owner=owner, by=by))
