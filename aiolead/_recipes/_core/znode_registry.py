"""The znodes of this client's recipes: the proof that a znode of our session is ours.

The session alone proves nothing: several tasks of a client may want the same path, and an adapted
session is shared with another library. So the answer to a create is recorded here, synchronously. A
connection answers in order: an unrecorded znode of our session is from a lost create, or from
others in a shared session.

A unique name proves that a znode is from a lost create: one whose answer was lost. The name has our
session, and a number that the client gives once (`Backend.serial`). At a fixed path it depends on
the session:

* Usually only this client creates znodes in it. One that no recipe of this client claims is from a
  lost create.
* A shared session (`Backend.is_session_shared`) has znodes of another library, too. A znode is ours
  only if a create of ours at that path was lost in this session, and the znode is younger than that
  request. Servers do not say more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...abc import CoordinationClient
from ...model import Stat


def is_shared(client: CoordinationClient) -> bool:
    return client.backend.is_session_shared


def now(client: CoordinationClient) -> int:
    """The newest known zxid, below that of all later creates; 0 if the session is not shared."""
    backend = client.backend
    return backend.last_zxid if backend.is_session_shared else 0


class LostCreates:
    """The lost creates at one path; kept only where the session is shared."""

    def __init__(self) -> None:
        self._session_id = 0
        self._since: list[int] = []

    def add(self, client: CoordinationClient, session_id: int, since: int) -> None:
        """Record a lost create, sent in a session when `now` was `since`."""
        if not is_shared(client):
            return
        if session_id != self._session_id:
            self._session_id = session_id
            self._since.clear()
        self._since.append(since)

    def may_have_made(self, client: CoordinationClient, czxid: int) -> bool:
        """Whether an unclaimed znode of our session may be from one of them."""
        if not is_shared(client):
            return True
        return self._session_id == client.session_id and any(czxid > each for each in self._since)

    @property
    def is_empty(self) -> bool:
        return not self._since

    def found(self, czxid: int) -> None:
        """Remove the create of a znode that was found; later znodes are from others."""
        for since in self._since:
            if czxid > since:
                self._since.remove(since)
                return


SEQUENCE_DIGITS = 10
"""The digits that servers append to the name of a sequential znode."""


_NONE: Any = MappingProxyType({})
"""No znodes at fixed paths; a queue has none, and there may be thousands of queues."""


@dataclass(slots=True, unsafe_hash=True, init=False)
class RegisteredNode:
    """A znode of ours; `sequence` is 0 if it is not sequential.

    `token` is its czxid, the fencing token. The answer to a create in a transaction lacks it: until
    it is known, `token` is minus the newest zxid that was known before.
    """

    path: str
    sequence: int
    token: int
    session_id: int
    name: str = field(compare=False)

    def __init__(self, path: str, sequence: int, token: int, session_id: int) -> None:
        self.path = path
        self.sequence = sequence
        self.token = token
        self.session_id = session_id
        self.name = path[path.rindex("/") + 1 :]

    def is_shown_by(self, stat: Stat) -> bool:
        """Whether what is at the path is this very znode."""
        if self.token <= 0:
            return stat.ephemeral_owner == self.session_id and stat.czxid > -self.token
        return stat.czxid == self.token


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
        """Record a lost create at a fixed path, sent when `now` was `since`."""
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
