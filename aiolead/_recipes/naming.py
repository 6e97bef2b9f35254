"""How a znode of ours is named, found again and deleted, and what proves that it is ours.

A `Znode` has one naming, which knows the requests that create, find and delete it. `Sequential` is
that of a name which begins with the session and a number that this client gives once, `fixed.Fixed`
that of a path which others may use as well. Some recipes have a naming of their own beside them.

docs/explanation/ephemeral-znodes.md says what proves that a znode is ours, and what an orphan is.
All recipes record their znodes in one registry for each client, synchronously, as the answers to
the creates arrive. Whether an existing znode is ours is decided as the answer that shows it
arrives, too: an answer that follows may remove the record.

A delete of our znode goes on until the znode is gone: `PendingDelete`. A refusal is reported once,
to the caller that waits (`Departure.is_awaited`), or in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import anyio

from ..abc import CoordinationClient, Reply, Watch
from ..errors import (
    AioleadError,
    ConnectionLossError,
    NoNodeError,
    Outcome,
    ReleaseError,
)
from ..model import ACL, Created, CreateMode, Stat
from ..paths import basename, join, sequence_of
from .errors import (
    Action,
    Step,
    action_for,
    in_background,
    log_refusal,
    pause,
    refused_release,
    until_done,
)
from .reading import catch_up, listed, look_at_all

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


@dataclass(slots=True, unsafe_hash=True)
class RegisteredNode:
    """A znode of ours; `name` is the end of its path, `sequence` 0 if it is not sequential.

    `token` is its czxid, the fencing token. The answer to a create in a transaction lacks it: until
    it is known, `token` is minus the newest zxid that was known before.
    """

    path: str
    name: str = field(compare=False)
    sequence: int
    token: int
    session_id: int

    def is_shown_by(self, stat: Stat) -> bool:
        """Whether what is at the path is this very znode."""
        if self.token <= 0:
            return stat.ephemeral_owner == self.session_id and stat.czxid > -self.token
        return stat.czxid == self.token


class OwnZnodes:
    """The registry: all znodes that the recipes of one client have, by czxid, and lost creates."""

    __slots__ = ("__weakref__", "_orphans", "claimed", "lost", "lost_in")

    def __init__(self) -> None:
        # Empty dicts take less memory than empty sets, and garbage collections pass over them.
        self.claimed: dict[int, None] = {}
        """The czxids of those that are wanted, or being deleted."""
        self.lost: dict[str, list[int]] = {}
        """The lost creates of one session by fixed path, as the servers know it: the newest zxid
        known as each was sent. Only `Fixed` changes them."""
        self.lost_in: int = 0
        """That session."""
        self._orphans: dict[int, None] = {}
        """The czxids of those that are about to be deleted."""

    @classmethod
    def of(cls, client: CoordinationClient) -> OwnZnodes:
        return client.backend.shared(None, cls)

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
            owner, name = stat.ephemeral_owner, basename(path)
            orphan = RegisteredNode(path, name, 0, stat.czxid, owner)
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


SEQUENCE_DIGITS: Final = 10
"""The digits that servers append to the name of a sequential znode."""


class OwnNames:
    """The names of one client's sequential znodes in a folder; each is unique.

    Only `Sequential` changes them.
    """

    __slots__ = ("__weakref__", "by_number", "claimed", "expected", "znodes")

    def __init__(self) -> None:
        self.expected: dict[str, None] = {}
        """Prefixes of wanted creates whose outcome is not known: their znodes may be there."""
        self.claimed: dict[str, None] = {}
        """Those of wanted znodes."""
        self.by_number: dict[int, str] = {}
        """The newest claimed name of each number: numbers start again with the folder."""
        self.znodes: OwnZnodes | None = None
        """The registry that they are in, too; set by the first of them."""

    def is_claimed(self, name: str) -> bool:
        return name in self.claimed

    def is_wanted(self, name: str) -> bool:
        """Whether it is claimed, or may be from a create that is not settled."""
        return name in self.claimed or name[:-SEQUENCE_DIGITS] in self.expected


class Departure(Protocol):
    """A pending delete, or several as one."""

    @property
    def is_done(self) -> bool:
        """Whether the znode is known to be gone, or the delete was refused."""
        ...

    @property
    def error(self) -> AioleadError | None:
        """The servers' answer once `is_done`: a `ReleaseError` if they refused."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits, and so reports a refusal; otherwise it is logged."""
        ...

    @is_awaited.setter
    def is_awaited(self, is_awaited: bool) -> None: ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback, called synchronously; at once if it is done."""
        ...


def set_awaited(departure: Departure, is_awaited: bool) -> None:
    """Set whether a caller waits. If none does, a refusal is logged that has come already, too."""
    departure.is_awaited = is_awaited
    error = None if is_awaited else departure.error
    if isinstance(error, ReleaseError):
        log_refusal(error)


Over = Callable[[RegisteredNode], object]
"""Called synchronously when nothing is left to do about a znode that was to be deleted."""


class PendingDelete:
    """The delete of one znode, over as many connections as it takes. A `Departure`.

    `request` is the delete; or, with `delete`, a write that proves whose znode it is. That is
    called with its answer, and sends the delete, or returns None if the znode is another's. The
    answer to `request` closes `watch`: a delete fires it, and only a failed one leaves it behind.
    If an answer is lost, or the server is overloaded, or the proof is refused, the client deletes
    later, as `naming` does it.
    """

    __slots__ = (
        "_callbacks",
        "_client",
        "_delete",
        "_naming",
        "_node",
        "_over",
        "_request",
        "error",
        "is_awaited",
        "is_done",
    )

    def __init__(
        self,
        client: CoordinationClient,
        naming: Naming,
        node: RegisteredNode,
        request: Reply[Any],
        over: Over,
        delete: Callable[[Any], Reply[None] | None] | None = None,
        *,
        watch: Watch | None = None,
    ) -> None:
        self._client = client
        self._naming = naming
        self._node = node
        self._request = request
        self._delete = delete
        self._over = over
        self._callbacks: tuple[Callable[[], object], ...] = ()
        self.error: AioleadError | None = None
        self.is_awaited: bool = False
        self.is_done: bool = False
        if watch is not None:
            request.add_done_callback(watch.close)
        request.add_done_callback(self._answered)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks = (*self._callbacks, callback)

    def _answered(self) -> None:
        error, delete = self._request.error(), self._delete
        self._delete = None
        if error is None:
            if delete is None:
                self._end(None)
            else:
                self._proven(delete(self._request.result()))
            return
        action = action_for(error, Step.RELEASE)
        is_proof_refused = delete is not None and action is Action.REFUSED
        if is_proof_refused or action in (Action.RECONNECT, Action.PAUSE):
            self._client.backend.spawn(self._pay_later, self._paid)
        else:
            self._end(refused_release(self._node.path, error) or error)

    def _proven(self, request: Reply[None] | None) -> None:
        if request is None:
            self._end(NoNodeError(self._node.path))
        else:
            self._request = request
            request.add_done_callback(self._answered)

    async def _pay_later(self) -> None:
        error = self._request.error()
        if error is not None and action_for(error, Step.RELEASE) is Action.PAUSE:
            await anyio.sleep(pause(self._client, error))
        await delete_until_gone(self._client, self._naming, self._node)

    def _paid(self, error: AioleadError | None) -> None:
        # Unknown who deleted the znode: the lost delete may have been applied.
        self._end(refused_release(self._node.path, error))

    def _end(self, error: AioleadError | None) -> None:
        self.error = error
        self.is_done = True
        self._over(self._node)
        if isinstance(error, ReleaseError) and not self.is_awaited:
            log_refusal(error)
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback()


Sent = tuple[Reply[Created], str, CreateMode]
"""A create that was sent, the path or the prefix that it creates, and its mode."""

Found = Callable[[Created], object]
"""Called with a znode of ours, as the answer arrives that shows it."""


class Naming(Protocol):
    """The questions and requests of a `Znode`. `find` and `delete_if_ours` wait.

    Each naming marks the parameters that it does not need with an underscore.
    """

    @property
    def is_late_create_awaited(self) -> bool:
        """Whether `Znode.when_over` waits for the second look for the znode of a lost create."""
        ...

    # --- creating --------------------------------------------------------------------------------

    def send_create(self, session_id: int, data: bytes, acl: Sequence[ACL] | None, /) -> Sent:
        """Send the next create, in that session."""
        ...

    def settle(self, path: str, /) -> None:
        """The outcome of a create is known, or its znode is not wanted any more."""
        ...

    def note_lost(self, path: str, session_id: int, since: int, /) -> None:
        """The answer to a create was lost; `since` is the newest zxid known as it was sent."""
        ...

    # --- the registry ----------------------------------------------------------------------------

    def claim(
        self, created: Created, session_id: int, since: int | None = None, /
    ) -> RegisteredNode:
        """Record a znode that is proven to be ours.

        It is that of an answered create, which was sent when `since` was the newest known zxid; or
        a look has shown it, such as that of a lost create.
        """
        ...

    def unclaim(self, node: RegisteredNode, /) -> None:
        """Remove the record of a znode that is gone."""
        ...

    # --- lost creates ----------------------------------------------------------------------------

    def may_adopt(self) -> bool:
        """Whether the znode of a lost create may be held."""
        ...

    async def find(self, path: str, session_id: int, data: bytes, found: Found, /) -> None:
        """Look for the znode of a lost create of that session; call `found` if it is there.

        `data` is that of the last create. `found` is called once at most, as the answer arrives
        that proves it. It must record the znode at once: a later answer may change what is known.
        """
        ...

    # --- deleting --------------------------------------------------------------------------------

    def delete(
        self, node: RegisteredNode, data: bytes, watch: Watch | None, over: Over, /
    ) -> Departure:
        """Send the delete; `watch` is closed once it is answered.

        `data` is that of the last create.
        """
        ...

    async def delete_if_ours(self, node: RegisteredNode, /) -> None:
        """Delete the znode if it is still the same one; one attempt."""
        ...


async def delete_until_gone(
    client: CoordinationClient, naming: Naming, node: RegisteredNode
) -> None:
    """Delete a znode over as many connections as it takes, while it can be ours."""
    await until_done(client, node.session_id, partial(naming.delete_if_ours, node))


class Sequential:
    """The naming of a sequential znode whose name begins with the session and a serial.

    No other znode of that session ever has that name. `names` are those of this client's znodes in
    `folder`; `prefix` makes the beginning of a name from the session and the serial.
    """

    # There may be thousands.
    __slots__ = ("_client", "_folder", "_names", "_prefix", "_registry")

    is_late_create_awaited = True

    def __init__(
        self,
        client: CoordinationClient,
        names: OwnNames,
        folder: str,
        prefix: Callable[[int, int], str],
    ) -> None:
        if names.znodes is None:
            names.znodes = OwnZnodes.of(client)
        self._client = client
        self._names = names
        self._registry = names.znodes
        self._folder = folder
        self._prefix = prefix

    def send_create(self, session_id: int, data: bytes, acl: Sequence[ACL] | None) -> Sent:
        client, mode = self._client, CreateMode.EPHEMERAL_SEQUENTIAL
        prefix = self._prefix(session_id, client.backend.serial())
        path = join(self._folder, prefix)
        create = client.create(path, data, mode=mode, acl=acl)
        self._names.expected[prefix] = None
        return create, path, mode

    def settle(self, path: str) -> None:
        self._names.expected.pop(path[path.rindex("/") + 1 :], None)

    def note_lost(self, path: str, session_id: int, since: int) -> None:
        """Nothing to record: the name is proof enough."""

    def claim(self, created: Created, session_id: int, _since: int | None = None) -> RegisteredNode:
        path, sequence = created.path, sequence_of(created.path)
        if sequence is None:
            raise AssertionError(f"a sequential znode without a number: {path}")
        names, name = self._names, path[path.rindex("/") + 1 :]
        names.claimed[name] = None
        names.by_number[sequence] = name
        token = created.stat.czxid
        self._registry.claimed[token] = None
        return RegisteredNode(path, name, sequence, token, session_id)

    def unclaim(self, node: RegisteredNode) -> None:
        names = self._names
        names.claimed.pop(node.name, None)
        if names.by_number.get(node.sequence) == node.name:
            del names.by_number[node.sequence]
        self._registry.claimed.pop(node.token, None)

    def may_adopt(self) -> bool:
        return True

    async def find(self, path: str, session_id: int, _data: bytes, found: Found) -> None:
        client, above, prefix = self._client, self._folder, basename(path)
        await catch_up(client, above)
        names = await listed(client.get_children(above))
        # A writer that may create can forge the prefix, so all candidates are looked at.

        def look_at(name: str) -> Reply[Stat | None]:
            look = client.exists(join(above, name))
            look.add_done_callback(partial(self._look_answered, name, look, session_id, found))
            return look

        await look_at_all([name for name in names if name.startswith(prefix)], look_at)

    def _look_answered(
        self, name: str, look: Reply[Stat | None], session_id: int, found: Found
    ) -> None:
        stat = None if look.error() else look.result()
        if stat is None or stat.ephemeral_owner != session_id:
            return
        # A claimed one does not count: another contender of ours would have had to wait for it,
        # found that nobody wanted it, and deletes it.
        if not self._names.is_claimed(name):
            found(Created(join(self._folder, name), stat))

    def delete(
        self, node: RegisteredNode, _data: bytes, watch: Watch | None, over: Over
    ) -> Departure:
        delete = self._client.delete(node.path)
        return PendingDelete(self._client, self, node, delete, over, watch=watch)

    async def delete_if_ours(self, node: RegisteredNode) -> None:
        await self._client.delete(node.path)

    def delete_orphan(self, path: str, stat: Stat) -> None:
        """Delete a znode that another process has left in our session."""
        self._registry.delete_orphan(self._client, path, stat, self._delete_as_sole)

    async def _delete_as_sole(self, node: RegisteredNode) -> None:
        await write_as_sole(self._client, partial(self._client.delete, node.path))
