"""Names that nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import anyio

from ...abc import CoordinationClient, Hold, Watch
from ...errors import ConfigurationError, InvalidPathError, LossReason, NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, Participant
from ...paths import basename, join, validate
from .._core.acquire_loop import AcquireLoop
from .._core.arguments import OnDisconnect, checked_count
from .._core.contexts import TenureContext, TryContext
from .._core.fixed import FixedNode
from .._core.holding_recipe import HoldingRecipe, TaskGuard
from .._core.pending_delete import Departure
from .._core.tenure import Held
from .._core.znode_registry import NodeRegistry, RegisteredNode

MOST_NAMES = 100_000
"""How many names of a kind there are, unless told otherwise."""

TRIES = 10
"""How often the path is made anew for one try: servers reap empty containers."""


@final
class HeldName(Held):
    """One unbroken time of having a name. What is said of `Held` goes for it, too."""

    @property
    def name(self) -> str:
        """The name: its kind, a dash, and its number."""
        return basename(self.path)

    @property
    def number(self) -> int:
        """The number: the lowest that was free when we came."""
        return int(self.name.rpartition("-")[2])


@final
class UniqueNames:
    """Names that nobody else has at the same time: a small naming service.

        names = UniqueNames(client, "/app/names")
        async with names.claim("worker") as held:
            held.name       # "worker-0", or the lowest number that is free
        async with names.claim("shard", most=16) as held:
            held.number     # waits until one of the 16 is free

    A name is held under the lease, as a lock is: the body is cancelled if it is lost, before
    anybody else could get it. It is one ephemeral znode, `<path>/<name>`. One object may be used by
    any number of tasks, and a task may have any number of names.

    Args:
        client: the session that has them.
        path: where the names are; created, as a container, when it is missing.
        identity: what others see as the holder; host name and process id by default.
        on_disconnect: what becomes of a name when the link is lost: `"keep"` keeps it while the
            lease lasts, `"resign"` gives it up at once.
        acl: of our znodes, and of the path where it has to be created; everybody everything by
            default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
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
        self._arguments = (client, path, identity, on_disconnect, acl)
        self._all = self._kind("name", MOST_NAMES)

    def __repr__(self) -> str:
        return f"<UniqueNames {self._all.path}>"

    @property
    def path(self) -> str:
        """Where the names are."""
        return self._all.path

    @property
    def identity(self) -> str:
        """What we call ourselves; others see it."""
        return self._all.identity

    def claim(
        self, kind: str, *, most: int = MOST_NAMES, timeout: float | None = None
    ) -> TenureContext[HeldName]:
        """Has the lowest name of a kind that is free, for the body of an `async with`.

        Args:
            kind: what the name begins with.
            most: how many names of the kind there are: from 0 up to one less.
            timeout: how long to wait if none is free, in seconds; for ever by default.

        Raises (on entering):
            AcquireTimeout: none was free within that time.

        For cancellation and loss see `TenureContext`.
        """
        return TenureContext(self._kind(kind, most), timeout)

    def try_claim(self, kind: str, *, most: int = MOST_NAMES) -> TryContext[HeldName]:
        """As `claim`, but gives None, at once, if no name is free."""
        return TryContext(self._kind(kind, most))

    async def holders(self) -> dict[str, Participant]:
        """Which names are taken, of all kinds, and by whom.

        A read of the connected server, which may be a moment behind; `client.sync()` before it
        where that matters.
        """
        client, path = self._all._client, self._all.path
        try:
            names = await client.get_children(path)
        except NoNodeError:
            return {}
        looks = [(name, client.get(join(path, name))) for name in sorted(names)]
        found: dict[str, Participant] = {}
        for name, look in looks:
            try:
                data, stat = await look
            except NoNodeError:
                continue
            if stat.ephemeral_owner:
                found[name] = Participant(
                    identity=data.decode(errors="replace"),
                    path=join(path, name),
                    token=stat.czxid,
                    session_id=stat.ephemeral_owner,
                    is_holder=True,
                )
        return found

    def _kind(self, kind: str, most: int) -> _Kind:
        client, path, identity, on_disconnect, acl = self._arguments
        return _Kind(client, path, kind, most, identity, on_disconnect, acl)


@final
class _Kind(HoldingRecipe[HeldName]):
    """The names of one kind."""

    _tenure = HeldName
    _called = "UniqueNames"
    _to_hold = "async with names.claim(kind) as held:"

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        kind: str,
        most: int,
        identity: str | None,
        on_disconnect: OnDisconnect,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, identity=identity, on_disconnect=on_disconnect, acl=acl)
        self._kind = _checked_kind(kind)
        self._most = checked_count("most", most, most=1 << 31)
        # Who has one name may wait for another one: it is not the same that it waits for.
        self._tasks = TaskGuard()

    def _candidate(self) -> _Claim:
        return _Claim(self._client, self._path, self._kind, self._most, self._data, self._acl)


def _checked_kind(kind: str) -> str:
    if not isinstance(kind, str) or not kind or "/" in kind:
        raise ConfigurationError(f"kind: must be a str without slashes, not {kind!r}")
    try:
        validate(f"/{kind}-0")
    except InvalidPathError as error:
        raise ConfigurationError(f"kind: {kind!r} is no beginning of a name: {error}") from None
    return kind


class _Claim(AcquireLoop):
    """One try at having a name."""

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        kind: str,
        most: int,
        data: bytes,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client)
        self._path = path
        self._kind = kind
        self._most = most
        self._data = data
        self._acl = acl
        self._own: FixedNode | None = None
        self._watch: Watch | None = None

    @property
    def node(self) -> RegisteredNode:
        return self._znodes()[0].node

    def _znodes(self) -> Sequence[FixedNode]:
        return () if self._own is None else (self._own,)

    async def _try(self, *, waits: bool) -> bool:
        if self._own is not None and await self._own.resolve():
            return True
        odd = 0
        while True:
            try:
                free = await self._lowest_free(waits=waits)
                if free is not None:
                    await self._create(free)
                    return True
                if not waits:
                    return False
            except NodeExistsError:
                continue  # somebody was quicker
            except NoNodeError:
                odd += 1
                if odd > TRIES:
                    raise
                await self._client.ensure_path(self._path, mode=CreateMode.CONTAINER, acl=self._acl)
                continue
            await self._sleep()

    async def _lowest_free(self, *, waits: bool) -> int | None:
        """The lowest number that nobody has; if there is none, a change of that is watched."""
        client = self._client
        free = self._free(await client.get_children(self._path))
        if free is None and waits:
            self._wake = anyio.Event()
            self._leave_watches()
            watch = self._watch = client.backend.make_watch(self._rouse)
            free = self._free(await client.get_children(self._path, watch=watch))
        return free

    def _free(self, names: Sequence[str]) -> int | None:
        taken = set(names)
        numbers = range(min(self._most, len(taken) + 1))
        return next((n for n in numbers if f"{self._kind}-{n}" not in taken), None)

    async def _create(self, number: int) -> None:
        client = self._client
        own = self._own = FixedNode(
            client,
            client.backend.shared(self._path, NodeRegistry),
            join(self._path, f"{self._kind}-{number}"),
            self._data,
            acl=self._acl,
            on_gone=self._rouse,
        )
        await own.create()
        self._is_new = True

    def _start_again(self) -> None:
        if self._own is not None:
            self._own.withdraw()
            self._own = None

    def _leave_watches(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def hold(self, lost: Callable[[LossReason], object], *, urgent: bool, resigns: bool) -> Hold:
        return self._znodes()[0].hold(lost, urgent=urgent, resigns=resigns)

    def discard(self) -> Departure | None:
        self._leave_watches()
        return None if self._own is None else self._own.discard()
