"""The log of a server: what the ensemble has agreed on, and what was proposed since."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ...._wire.codes import OpCode
from ..._server.acl import Identity
from ..._server.writes import Write


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One transaction.

    Attributes:
        zxid: its place in the order: the epoch in the upper 32 bits, a counter in the lower ones.
        op: the request.
        write: its effect on a tree.
        time_ms: when the leader took it up, in milliseconds since 1970.
        session_id: the session of the request; of a session that is ended, its id.
        identities: the identities that its author had proved.
        server: the server that its author is connected to; 0 if it is the ensemble's own.
        ticket: by which that server knows the request.
        timeout_ms: of the session, where one is created.
    """

    zxid: int
    op: OpCode
    write: Write
    time_ms: int
    session_id: int = 0
    identities: Sequence[Identity] = ()
    server: int = 0
    ticket: int = 0
    timeout_ms: int = 0


class Log:
    """Entries in the order of their zxids. Those in front of it are in a snapshot, or forgotten.

    Attributes:
        base: the zxid up to which there are no entries (any more).
        committed: the zxid up to which entries are committed and applied to the tree.
    """

    def __init__(self) -> None:
        self.base: int = 0
        self.committed: int = 0
        self._entries: list[Entry] = []
        self._zxids: list[int] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last(self) -> int:
        """The zxid of the newest entry."""
        return self._zxids[-1] if self._zxids else self.base

    def append(self, entry: Entry) -> None:
        """Adds an entry.

        Raises:
            ValueError: it is not newer than the last one.
        """
        if entry.zxid <= self.last:
            raise ValueError(f"0x{entry.zxid:x} after 0x{self.last:x}")
        self._entries.append(entry)
        self._zxids.append(entry.zxid)

    def zxids(self, upto: int) -> Sequence[int]:
        """Those of the entries that are not newer than `upto`."""
        return self._zxids[: bisect_right(self._zxids, upto)]

    def after(self, zxid: int, upto: int | None = None) -> Sequence[Entry]:
        """The entries newer than a zxid, and not newer than another."""
        end = len(self._zxids) if upto is None else bisect_right(self._zxids, upto)
        return self._entries[bisect_right(self._zxids, zxid) : end]

    def truncate(self, zxid: int) -> None:
        """Drops the entries that are newer than a zxid.

        Raises:
            ValueError: some of them are committed.
        """
        if zxid < self.committed:
            raise ValueError(f"to 0x{zxid:x}, but 0x{self.committed:x} is committed")
        place = bisect_right(self._zxids, zxid)
        del self._entries[place:]
        del self._zxids[place:]

    def restart(self, zxid: int) -> None:
        """Drops everything: there is a snapshot of that zxid instead."""
        self._entries.clear()
        self._zxids.clear()
        self.base = self.committed = zxid

    def forget(self, keep: int) -> None:
        """Drops all but the newest so many of the committed entries."""
        place = bisect_right(self._zxids, self.committed) - keep
        if place > 0:
            self.base = self._zxids[place - 1]
            del self._entries[:place]
            del self._zxids[:place]
