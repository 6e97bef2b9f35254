"""Locks that are one znode: `ExclusiveLock`, and the names of `UniqueNames`.

`OneZnode` is the place of such a lock, and of a key of `Once`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, final

from ..abc import CoordinationClient
from ..errors import NodeExistsError, NoNodeError
from ..events import OWNERLESS
from ..model import ACL, CreateMode, EventType, Participant, WatchEvent
from ..paths import basename, join, parent
from .errors import with_parent
from .fixed import Fixed, look_for_ours
from .hold import Held
from .holding import Contest, HeldRecipe, HoldingRecipe, TenureContext
from .place_parts import WatchingPlace
from .reading import listed, over_sessions, read_participants
from .recipe import OnDisconnect, checked_count, checked_name
from .reporting import PathWarnings
from .rivals import HolderQuery, only_holder
from .znode import Znode

__all__ = ["ExclusiveLock", "UniqueNames"]
__types__ = ["HeldName"]


@final
class ExclusiveLock(HeldRecipe[Held]):
    """A lock that is one ephemeral znode: the client that creates it holds the lock. Not fair.

        async with ExclusiveLock(client, "/jobs/nightly") as held: ...
        async with lock.acquire(timeout=5) as held: ...
        async with lock.try_acquire() as held:
            if held is not None: ...

    For locks that are mostly tried and rarely waited for: an attempt takes one request, and leaves
    nothing behind if the lock is held. A release wakes all waiters (thundering herd): n waiters
    cost n creates and 2n reads at each hand-over. With more than a few waiters, use `Lock`.

    Held and lost like a `Lock`. An operator who deletes the znode ends the hold. Another client may
    then create a znode at the path before we are notified; until then `held.fenced()` checks only
    the path, so guard exact writes by `held.token`.

    Args: as for `Lock`, without `layout`. `path` is the znode; missing parents become containers. A
    malformed one raises `ConfigurationError`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        contest = Contest(
            type(self).__name__,
            client,
            path,
            Held,
            _one_znode,
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
        )
        super().__init__(contest)

    async def holders(self) -> list[Participant]:
        """Return the holder, or an empty list. May lag, as `Lock.holders`."""
        client, above, name = self._client, parent(self._path), basename(self._path)
        read = partial(read_participants, client, above, [name], is_holder=True)
        return await over_sessions(client, read)


def _one_znode(contest: Contest[Any]) -> OneZnode:
    return OneZnode(contest, Fixed(contest.client, contest.path, is_contended=True))


class OneZnode(WatchingPlace):
    """One ephemeral znode, as a `Place`: the client that creates it has the place.

    Contenders wait for a persistent znode at the path, with a warning. If such a znode `closes` the
    place, `get` returns False instead, and `is_closed` is true.
    """

    def __init__(self, contest: Contest[Any], naming: Fixed, *, closes: bool = False) -> None:
        super().__init__(contest)
        self._path = naming.path
        self._naming = naming
        self._own = Znode(self._client, naming, self._data, self._acl, self._alarm)
        self._closes = closes
        self._may_be_free = True
        self._is_ownerless = False

    @property
    def is_closed(self) -> bool:
        """Whether a persistent znode was there at the last look, which closes the place."""
        return self._closes and self._is_ownerless

    @property
    def znodes(self) -> Sequence[Znode]:
        return (self._own,)

    async def get(self, *, wait: bool) -> bool:
        if await self._own.resolve():
            return True
        while not await self._create():
            # A look deletes an orphan: the znode of another process that had our session.
            if not (wait or self._closes or self._client.backend.is_session_passed_on):
                return False
            self._may_be_free = False
            while not self._may_be_free:
                if await self._is_ours_after_all():
                    return True
                if not wait or self.is_closed:
                    return False
                self.is_new = False
                await self._alarm.wait()
        return True

    async def _create(self) -> bool:
        """Send one create; return False if the znode exists already."""
        try:
            await with_parent(
                self._client,
                parent(self._path),
                self._own.create,
                mode=CreateMode.CONTAINER,
                acl=self._acl,
            )
        except NodeExistsError:
            return False
        self.is_new = True
        return True

    async def _is_ours_after_all(self) -> bool:
        """Watch the existing znode, unless a create of ours whose answer was lost made it."""
        self._alarm.renew()
        self._is_ownerless = False
        try:
            watch = self._alarm.watch(self._on_event)
            stat = await look_for_ours(self._client, self._own, self._naming, watch)
        except NoNodeError:
            self._may_be_free = True
            self._alarm.set()
            return False
        if stat is not None and not stat.ephemeral_owner:
            self._is_ownerless = True
            if self._closes:
                return False
            client, path, created = self._client, self._path, stat.ctime / 1000
            client.backend.shared(path, PathWarnings).warn_of_ownerless(client, path, path, created)
        return stat is None

    def obstacle(self) -> str:
        return f"{self._path} {OWNERLESS}" if self._is_ownerless else ""

    def holder_query(self) -> HolderQuery | None:
        return partial(only_holder, self._client, self._path)

    def _on_event(self, event: WatchEvent) -> None:
        # A holder that leaves changes its znode before it deletes it.
        self._may_be_free = self._may_be_free or event.type is not EventType.DATA_CHANGED
        self._alarm.set()


MOST_NAMES = 100_000
"""How many names each kind has by default."""


@final
class HeldName(Held):
    """A hold of a name; otherwise as `Held`."""

    @property
    def name(self) -> str:
        """The name: its kind, a dash, and its number."""
        return basename(self.path)

    @property
    def number(self) -> int:
        """The number: the lowest that was free when it was claimed."""
        return int(self.name.rpartition("-")[2])


@final
class UniqueNames(HoldingRecipe[HeldName]):
    """Names that nobody else has at the same time: a small naming service.

        names = UniqueNames(client, "/app/names")
        async with names.claim("worker") as held:
            held.name       # "worker-0", or the lowest number that is free
        async with names.claim("shard", most=16) as held:
            held.number     # waits until one of the 16 is free

    A name is one ephemeral znode, `<path>/<name>`, held under the lease like a lock: if it is lost,
    the body is cancelled before others could claim it. Any number of tasks may use one object, and
    a task may hold any number of names.

    Args: as for `Lock`, without `layout`. A malformed one raises `ConfigurationError`.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        identity: str | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        contest = Contest(
            type(self).__name__,
            client,
            path,
            HeldName,
            partial(_FreeName, "name", MOST_NAMES),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            to_hold="async with names.claim(kind) as held:",
            to_try="async with names.try_claim(kind) as held:",
        )
        super().__init__(contest)

    def claim(
        self, kind: str, *, most: int = MOST_NAMES, timeout: float | None = None
    ) -> TenureContext[HeldName]:
        """Claim the lowest free name of a kind for the body of an `async with`.

        Args:
            kind: the beginning of the name.
            most: how many names of the kind there are, numbered from 0.
            timeout: how long to wait if none is free, in seconds. None waits forever, 0 tries once.
                When it is up, entering raises `AcquireTimeout`.

        For other errors, cancellation and connection loss see `TenureContext`.
        """
        return TenureContext(self._of_kind(kind, most), timeout)

    def try_claim(self, kind: str, *, most: int = MOST_NAMES) -> TenureContext[HeldName | None]:
        """As `claim`, but does not wait: gives None if no name is free."""
        return TenureContext(self._of_kind(kind, most), 0, is_try=True)

    async def holders(self) -> dict[str, Participant]:
        """Return the holders of all kinds, by name. May lag, as `Lock.holders`."""
        return await over_sessions(self._client, self._read_holders)

    async def _read_holders(self) -> dict[str, Participant]:
        names = await listed(self._client.get_children(self._path))
        found = await read_participants(self._client, self._path, sorted(names), is_holder=True)
        return {basename(who.path): who for who in found if who.session_id}

    def _of_kind(self, kind: str, most: int) -> Contest[HeldName]:
        """The contest of one claim. A task may wait for another name, unless it has all of them."""
        kind, most = checked_name("kind", kind), checked_count("most", most, most=1 << 31)
        return self._contest.derived(partial(_FreeName, kind, most), subject=kind, places=most)


class _FreeName(WatchingPlace):
    """The lowest free name of a kind, as a `Place`."""

    def __init__(self, kind: str, most: int, contest: Contest[Any]) -> None:
        super().__init__(contest)
        self._kind = kind
        self._most = most
        self._own: Znode | None = None

    @property
    def znodes(self) -> Sequence[Znode]:
        return () if self._own is None else (self._own,)

    async def get(self, *, wait: bool) -> bool:
        if self._own is not None and await self._own.resolve():
            return True
        claim, mode = partial(self._claim, wait=wait), CreateMode.CONTAINER
        while not await with_parent(self._client, self._path, claim, mode=mode, acl=self._acl):
            if not wait:
                return False
            self.is_new = False
            await self._alarm.wait()
        return True

    async def _claim(self, *, wait: bool) -> bool:
        """Claim the lowest free name; False if none is free."""
        while (free := await self._lowest_free(wait=wait)) is not None:
            with suppress(NodeExistsError):  # another client was quicker
                await self._create(free)
                return True
        return False

    async def _lowest_free(self, *, wait: bool) -> int | None:
        """The lowest free number; if there is none, watch for one."""
        client = self._client
        free = self._free(await client.get_children(self._path))
        if free is None and wait:
            self._alarm.renew()
            free = self._free(await client.get_children(self._path, watch=self._alarm.watch()))
        return free

    def _free(self, names: Sequence[str]) -> int | None:
        taken = set(names)
        numbers = range(min(self._most, len(taken) + 1))
        return next((n for n in numbers if f"{self._kind}-{n}" not in taken), None)

    async def _create(self, number: int) -> None:
        path = join(self._path, f"{self._kind}-{number}")
        naming = Fixed(self._client, path, is_contended=True)
        self._own = Znode(self._client, naming, self._data, self._acl, self._alarm)
        await self._own.create()
        self.is_new = True

    def restart(self) -> None:
        super().restart()
        self._own = None
