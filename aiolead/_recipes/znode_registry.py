"""The znodes of this client's recipes: the proof that a znode of our session is ours.

Neither a path nor a session proves that a znode is ours. Several tasks and recipes of a client may
want the same path, an adapted session has znodes of another library, and another process may
continue the session (`connect(resume=)`). And a writer that may create can forge any name, but not
the owner of an ephemeral znode. So all recipes record their znodes in one registry for each client,
synchronously, as the answers to the creates arrive. Whether an existing znode is ours is decided as
the answer that shows it arrives, too: an answer that follows may remove the record.

A znode is from a *lost create*, one whose answer was lost, if the session of the create owns it,
and

* a sequential one: its name begins with the session and a number that this client gives once
  (`Backend.serial`);
* one at a fixed path: no recipe of this client has it, a create of this client at that path was
  lost in this session, and the znode is younger than that request. Servers do not say more. Another
  process that continues the session could have made it as well, so where there may be one this
  counts only once that process cannot hold anything any more (`Backend.sole_in`).

An *orphan* is a znode that another process has left in our session. It would exist for as long as
our session does, so it is deleted, once that process cannot hold anything any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio

from ..abc import CoordinationClient, Reply
from ..errors import ConnectionLossError, Outcome
from ..model import Stat
from .errors import in_background, until_done

T = TypeVar("T")


async def until_sole(client: CoordinationClient) -> None:
    """Wait until no other process can hold anything under the session; see `Backend.sole_in`.

    A new connection begins a new wait, since another process may have had the session before it.
    """
    while (seconds := client.backend.sole_in()) > 0.0:
        await anyio.sleep(min(seconds, client.session_timeout))
        await client.ready()


async def write_as_sole(client: CoordinationClient, send: Callable[[], Reply[T]]) -> T:
    """Send a write that is right only while no other process can hold anything under the session.

    The other process may have taken the session over again without a word to this one: then the
    servers refuse the write on this connection, and would do it on the next one. So it is bound to
    the connection for which `Backend.sole_in` counts. Raises `ConnectionLossError` if it was lost.
    """
    if client.backend.sole_in() > 0.0:
        raise ConnectionLossError(
            "another process may have had the session", outcome=Outcome.NOT_APPLIED
        )
    return await client.backend.bind(send())


async def write_anyhow(_client: CoordinationClient, send: Callable[[], Reply[T]]) -> T:
    """Send a write that is right over any connection."""
    return await send()


class Send(Protocol):
    """How to send a write: `write_as_sole` or `write_anyhow`."""

    async def __call__(self, client: CoordinationClient, send: Callable[[], Reply[T]], /) -> T: ...


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


class OwnZnodes:
    """The registry: all znodes that the recipes of one client have, by czxid, and lost creates."""

    __slots__ = ("__weakref__", "_lost", "_orphans", "claimed")

    def __init__(self) -> None:
        # Empty dicts take less memory than empty sets, and garbage collections pass over them.
        self.claimed: dict[int, None] = {}
        """The czxids of those that are wanted, or being deleted."""
        self._lost: dict[str, LostCreates] = {}
        """By fixed path, as the servers know it."""
        self._orphans: dict[int, None] = {}
        """The czxids of those that are about to be deleted."""

    @classmethod
    def of(cls, client: CoordinationClient) -> OwnZnodes:
        return client.backend.shared(None, cls)

    # --- lost creates --------------------------------------------------------------------------

    def note_lost(self, path: str, session_id: int, since: int) -> None:
        """Record a lost create at a fixed path, sent when `since` was the newest known zxid.

        It is kept for as long as the session lives: the create may be applied very late.
        """
        lost = self._lost.get(path)
        if lost is None or lost.session_id != session_id:
            lost = self._lost[path] = LostCreates(session_id)
        lost.since.append(since)

    def settle_lost(self, path: str, czxid: int) -> None:
        """Remove the lost create that has made a znode, if one has; it makes no other."""
        lost = self._lost.get(path)
        if lost is not None:
            lost.made(czxid)
            if not lost.since:
                del self._lost[path]

    def is_from_lost_create(self, client: CoordinationClient, path: str, stat: Stat) -> bool:
        """Whether a znode at a fixed path (as the servers know it) is from a lost create."""
        lost = self._lost.get(path)
        return (
            lost is not None
            and lost.session_id == client.session_id
            and any(stat.czxid > since for since in lost.since)
            and self.is_unclaimed(client, stat)
        )

    def is_unclaimed(self, client: CoordinationClient, stat: Stat) -> bool:
        """Whether our session owns a znode that no recipe here has, and no other process holds."""
        return self._is_unknown(client, stat) and client.backend.sole_in() <= 0.0

    def _is_unknown(self, client: CoordinationClient, stat: Stat) -> bool:
        return stat.ephemeral_owner == client.session_id != 0 and stat.czxid not in self.claimed

    # --- orphans -------------------------------------------------------------------------------

    def is_left_behind(self, client: CoordinationClient, stat: Stat) -> bool:
        """Whether another process that had our session has made a znode, as far as can be known.

        The application may have made it itself. That only counts as another's if other processes
        may have the session, and no other library uses it in this one.
        """
        backend = client.backend
        is_passed_on = backend.is_session_passed_on and not backend.is_session_shared
        return is_passed_on and self._is_unknown(client, stat)

    def delete_orphan(
        self,
        client: CoordinationClient,
        path: str,
        stat: Stat,
        delete: Callable[[RegisteredNode], Awaitable[object]],
    ) -> None:
        """Delete a znode that another process has left in our session, once that is over there.

        `delete` deletes a znode if it is still the same one; one attempt.
        """
        if stat.czxid not in self._orphans:
            self._orphans[stat.czxid] = None
            orphan = RegisteredNode(path, 0, stat.czxid, stat.ephemeral_owner)
            client.backend.spawn(
                partial(self._delete_once_sole, client, orphan, delete),
                lambda _error: self._orphans.pop(orphan.token, None),
            )

    async def _delete_once_sole(
        self,
        client: CoordinationClient,
        orphan: RegisteredNode,
        delete: Callable[[RegisteredNode], Awaitable[object]],
    ) -> None:
        async def attempt() -> None:
            await until_sole(client)
            if client.session_id == orphan.session_id and orphan.token not in self.claimed:
                await delete(orphan)

        await in_background(orphan.path, partial(until_done, client, orphan.session_id, attempt))


class LostCreates:
    """The lost creates of a session at one path: the newest zxid known as each was sent."""

    __slots__ = ("session_id", "since")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.since: list[int] = []

    def made(self, czxid: int) -> None:
        for since in self.since:
            if czxid > since:
                self.since.remove(since)
                return


SEQUENCE_DIGITS: Final = 10
"""The digits that servers append to the name of a sequential znode."""


class OwnNames:
    """The names of one client's sequential znodes in a folder; each is unique."""

    __slots__ = ("__weakref__", "_claimed", "_expected", "znodes")

    def __init__(self) -> None:
        self._expected: dict[str, None] = {}
        """Prefixes of wanted creates whose outcome is not known: their znodes may be there."""
        self._claimed: dict[str, int] = {}
        """The numbers of wanted sequential znodes, by name."""
        self.znodes: OwnZnodes | None = None
        """The registry that they are in, too; set by the first of them."""

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
