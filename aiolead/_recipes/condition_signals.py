"""The signals of a condition: whose they are, and what becomes of those whose waiters are gone.

A waiter is an ephemeral sequential znode below `waiters`. A holder notifies it by a persistent
znode of the same name below `signals`, in a transaction that checks that the waiter exists. Names
of other layouts, and waiters that no session owns, are nobody's: others may create anything there.
The owner of a waiter is read as it is notified, in the same segment. A persistent znode with a name
of the layout gets a signal in this way once, which stays: nobody takes it for a waiter any more.

A signal whose waiter is gone is an orphan. Since signals are given to existing waiters only, a
signal is an orphan if a later listing does not have its waiter. It goes to the first waiter without
a signal that waited already when it was given, that is, whose znode is older. The transaction that
passes it on fails if another client has passed it on already. Its data keep when it was given. If
no such waiter is left, nobody may be woken by it, and it is deleted.

If the servers refuse to move or delete an orphan, because of a child below it for instance, it
stays, and is reported. It is tried again from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._util.contender_names import Role
from .._util.parsing import MalformedError, whole
from ..abc import CoordinationClient, Reply
from ..errors import AioleadError, NodeExistsError, NoNodeError, TransactionError
from ..model import ACL, CreateMode, Stat
from ..paths import join
from .errors import Action, Step, action_for, ensure_path
from .layouts import CURATOR
from .reading import listed
from .reporting import PathWarnings

AT_ONCE = 200
"""The most waiters, or orphans, that are looked at in one go."""


@dataclass(frozen=True, slots=True)
class Waiters:
    """The waiters of a condition, first come first, and the signals whose waiters are gone."""

    waiting: list[str]
    orphans: list[str]
    unsignalled: list[str]


def sort_out(
    signals: Sequence[str], waiters: Sequence[str], ownerless: frozenset[str] = frozenset()
) -> Waiters:
    """Evaluate a listing of the signals and a later one of the waiters.

    `ownerless` are names below `waiters` that no session owns, and which therefore are none.
    """
    ours = CURATOR.names[Role.WAIT].ours
    matches = [match for name in waiters if (match := ours(name))]
    matches.sort(key=lambda match: int(match[2]))
    there = [match[0] for match in matches]
    waiting = [name for name in there if name not in ownerless]
    signalled = {name for name in signals if ours(name)}
    return Waiters(
        waiting,
        sorted(signalled.difference(there)),
        [name for name in waiting if name not in signalled],
    )


@dataclass(frozen=True, slots=True)
class Signal:
    """The data of a signal.

    Attributes:
        author: identifies the transaction that has given it, in case its answer is lost.
        given: the id of that transaction, which the znode itself has until it is passed on.
    """

    author: bytes
    given: int

    @classmethod
    def decode(cls, data: bytes, stat: Stat) -> Signal:
        author, _, given = data.partition(b" ")
        try:
            return cls(author, whole(given, most=stat.czxid) if given else stat.czxid)
        except MalformedError:
            return cls(author, stat.czxid)

    def encode(self) -> bytes:
        """The data of the same signal for another waiter."""
        return b"%s %d" % (self.author, self.given)


class ConditionSignals:
    """The waiters and signals of a condition, as one waiter or notifier sees them."""

    def __init__(
        self, client: CoordinationClient, path: str, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = client
        self._path = path
        self._acl = acl
        self.ownerless: frozenset[str] = frozenset()
        """Children of `waiters` that no session owns, as far as it is known."""
        self.stuck: set[str] = set()
        """Orphans that the servers have refused to move; clear it to try them again."""

    def waiter(self, name: str) -> str:
        return join(join(self._path, "waiters"), name)

    def signal(self, name: str) -> str:
        return join(join(self._path, "signals"), name)

    async def ensure(self, part: str) -> None:
        """Create the parent of waiters or signals, which servers delete when it is empty."""
        mode = CreateMode.CONTAINER
        await ensure_path(self._client, join(self._path, part), mode=mode, acl=self._acl)

    async def look(self) -> Waiters:
        """List the waiters and signals in one round trip."""
        signals = self._client.get_children(join(self._path, "signals"))
        waiters = self._client.get_children(join(self._path, "waiters"))
        return sort_out(await listed(signals), await listed(waiters), self.ownerless)

    def note(self, name: str, stat: Stat) -> bool:
        """Whether a child of `waiters` is one, by its owner; if not, it is left out from now on."""
        if not stat.ephemeral_owner:
            self.ownerless |= {name}
        return bool(stat.ephemeral_owner)

    def ask_owners(self, names: Sequence[str]) -> list[tuple[str, Reply[Stat | None]]]:
        """Read who owns them, for `note`."""
        return [(name, self._client.exists(self.waiter(name))) for name in names]

    async def owned(self, names: Sequence[str]) -> list[str]:
        """Those that are waiters, by their owners, and still there: one round trip."""
        found = [(name, await look) for name, look in self.ask_owners(names)]
        return [name for name, stat in found if stat is not None and self.note(name, stat)]

    async def has(self, author: bytes) -> bool:
        """Whether there is a signal of an author, with whatever waiter."""
        seen = await listed(self._client.get_children(join(self._path, "signals")))
        names = sort_out(seen, []).orphans
        for start in range(0, len(names), AT_ONCE):
            found = await self._read(names[start : start + AT_ONCE])
            if any(signal.author == author for signal in found.values()):
                return True
        return False

    # --- orphans -------------------------------------------------------------------------------

    async def settle(self, seen: Waiters) -> bool:
        """Delete orphans that nobody may get, or pass one on; return whether to look again."""
        orphans = [name for name in seen.orphans if name not in self.stuck][:AT_ONCE]
        if not orphans:
            return False
        heir, since = seen.unsignalled[0] if seen.unsignalled else "", 0
        if heir:
            stat = await self._client.exists(self.waiter(heir))
            if stat is None or not self.note(heir, stat):
                return True
            since = stat.czxid
        found = await self._read(orphans)
        stale = [name for name, signal in found.items() if not heir or signal.given < since]
        for name, delete in [(name, self._client.delete(self.signal(name))) for name in stale]:
            await self._unless_refused(name, delete)
        left = [name for name in found if name not in stale]
        if left:  # another one goes to the next waiter
            await self._pass_on(left[0], found[left[0]], heir)
        return True

    async def _read(self, names: Sequence[str]) -> dict[str, Signal]:
        looks = [(name, self._client.get(self.signal(name))) for name in names]
        found: dict[str, Signal] = {}
        for name, look in looks:
            read = await self._unless_refused(name, look)
            if read is not None:
                found[name] = Signal.decode(*read)
        return found

    async def _pass_on(self, orphan: str, signal: Signal, to: str) -> None:
        """Move an orphan to another waiter, unless another client was quicker."""
        change = (
            self._client.transaction()
            .check(self.waiter(to))
            .delete(self.signal(orphan))
            .create(self.signal(to), signal.encode(), acl=self._acl)
        )
        await self._unless_refused(orphan, change.commit())

    async def _unless_refused(self, name: str, reply: Reply[Any]) -> Any:
        """The answer to a request for an orphan; None if it has changed, or that was refused."""
        try:
            return await reply
        except AioleadError as error:
            cause = error.cause if isinstance(error, TransactionError) else error
            if not isinstance(cause, (NoNodeError, NodeExistsError)):
                self.refused(name, cause)
            return None

    def refused(self, name: str, error: AioleadError) -> None:
        """Warn of a signal that the servers refuse to move; raise any other error."""
        if action_for(error, Step.RELEASE) is not Action.REFUSED:
            raise error
        self.stuck.add(name)
        signal = self.signal(name)
        self._client.backend.shared(self._path, PathWarnings).warn(
            signal, f"{signal}: a signal whose waiter is gone cannot be passed on: {error}"
        )
