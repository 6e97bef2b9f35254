"""The znodes of this client's recipes: the proof that a znode of our session is ours.

The session alone proves nothing: several tasks of a client may want the same path, and an adapted
session is shared with another library. So the answer to a create is recorded here, synchronously. A
connection answers in order: an unrecorded znode of our session is from a lost create, or from
others in a shared session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...abc import CoordinationClient
from ...model import Created, Stat
from ...paths import sequence_of
from .ownership import LostCreates, is_shared

SEQUENCE_DIGITS = 10
"""The digits that servers append to the name of a sequential znode."""


_NONE: Any = MappingProxyType({})
"""No znodes at fixed paths; a queue has none, and there may be thousands of queues."""


@dataclass(slots=True, unsafe_hash=True)
class RegisteredNode:
    """A znode of ours; `sequence` is 0 if it is not sequential.

    `token` is its czxid, the fencing token. The answer to a create in a transaction lacks it: until
    it is known, `token` is minus the newest zxid that was known before.
    """

    path: str
    sequence: int
    token: int
    session_id: int
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.name = self.path[self.path.rindex("/") + 1 :]

    def is_shown_by(self, stat: Stat) -> bool:
        """Whether what is at the path is this very znode."""
        if self.token <= 0:
            return stat.ephemeral_owner == self.session_id and stat.czxid > -self.token
        return stat.czxid == self.token

    @classmethod
    def of(cls, created: Created, session_id: int) -> RegisteredNode:
        sequence = sequence_of(created.path)
        if sequence is None:
            raise AssertionError(f"a sequential znode without a number: {created.path}")
        return cls(created.path, sequence, created.stat.czxid, session_id)


class NodeRegistry:
    """The znodes of one client's recipes at a path, or below it.

    Sequential ones are recorded by name, which is unique (session and serial); those at a fixed
    path by czxid.
    """

    # Empty dicts take less memory than empty sets, and garbage collections pass over them.
    __slots__ = ("__weakref__", "_claimed", "_czxids", "_expected", "_lost")

    def __init__(self) -> None:
        self._expected: dict[str, None] = {}
        """Prefixes of wanted creates whose outcome is not known: their znodes may be there."""
        self._claimed: dict[str, int] = {}
        """The numbers of wanted sequential znodes, by name."""
        self._czxids: dict[int, None] = _NONE
        """Of znodes at fixed paths that are wanted, or being deleted."""
        self._lost: dict[str, LostCreates] = _NONE
        """By fixed path, where the session is shared."""

    # --- by name -------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no sequential znode of ours is there, or on the way."""
        return not self._claimed and not self._expected

    def expect(self, prefix: str) -> None:
        """Record that a znode with this prefix is being created, until `settle`."""
        self._expected[prefix] = None

    def settle(self, prefix: str) -> None:
        """It is claimed by now, was not created, or is not wanted any more."""
        self._expected.pop(prefix, None)

    def claim(self, name: str, sequence: int) -> None:
        self._claimed[name] = sequence

    def forget(self, name: str) -> None:
        self._claimed.pop(name, None)

    def is_claimed(self, name: str) -> bool:
        return name in self._claimed

    def is_wanted(self, name: str) -> bool:
        """Whether it is claimed, or may be from a create that is not settled."""
        return name in self._claimed or name[:-SEQUENCE_DIGITS] in self._expected

    # --- by czxid ------------------------------------------------------------------------------

    def claim_czxid(self, path: str, czxid: int) -> None:
        if self._czxids is _NONE:
            self._czxids = {}
        self._czxids[czxid] = None
        lost = self._lost.get(path)
        if lost is not None:
            lost.found(czxid)
            if lost.is_empty:
                del self._lost[path]

    def is_claimed_czxid(self, czxid: int) -> bool:
        return czxid in self._czxids

    def forget_czxid(self, czxid: int) -> None:
        if czxid in self._czxids:
            del self._czxids[czxid]

    def note_lost(self, client: CoordinationClient, path: str, session_id: int, since: int) -> None:
        """Record a lost create at a fixed path, sent when `ownership.now` was `since`."""
        if is_shared(client):
            if self._lost is _NONE:
                self._lost = {}
            self._lost.setdefault(path, LostCreates()).add(client, session_id, since)

    def is_unclaimed(self, client: CoordinationClient, path: str, stat: Stat) -> bool:
        """Whether a znode at a fixed path is from a lost create, as far as can be known."""
        if stat.ephemeral_owner != client.session_id or stat.czxid in self._czxids:
            return False
        if not is_shared(client):
            return True
        lost = self._lost.get(path)
        return lost is not None and lost.may_have_made(client, stat.czxid)
