"""Requests that a server takes and never answers, while their connection stays.

Real servers do it: where the leader is stopped for a while and sessions move, a server may skip a
write and answer the request behind it (compare ZOOKEEPER-2886).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ...._wire.codes import OpCode


class Fate(enum.Enum):
    """The fate of the answer to a request."""

    SENT = enum.auto()
    CUT_OFF = enum.auto()
    """The connection is closed instead."""
    OMITTED = enum.auto()
    """Nothing is sent, and the connection stays."""


@dataclass(slots=True, eq=False, kw_only=True)
class Omission:
    """One request that will not be answered; the servers that share it do this once in all.

    Pings are always answered.

    Attributes:
        is_applied: whether the request is carried out all the same.
        is_swallowed: whether nothing that comes behind it on its connection is answered either, but
            for pings, until `is_over`. Otherwise what comes behind it is answered as usual.
        op: the type of request; None for anything.
        host: the client's; None for anybody's.
        passes: how many such requests are answered before.
        is_used: whether the request was found.
        is_over: whether the fault has ended. The request itself is never answered.
    """

    is_applied: bool
    is_swallowed: bool
    op: OpCode | None = None
    host: str | None = None
    passes: int = 0
    is_used: bool = False
    is_over: bool = False

    def takes(self, host: str, op: OpCode) -> bool:
        """Whether this is the request that is not answered; asked for each one, in order."""
        if self.is_used or self.is_over or self.host not in (None, host):
            return False
        if self.op not in (None, op):
            return False
        if self.passes > 0:
            self.passes -= 1
            return False
        self.is_used = True
        return True
