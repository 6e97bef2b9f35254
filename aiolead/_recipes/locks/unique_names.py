"""Names that one client holds at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import anyio

from ...abc import CoordinationClient
from ...errors import ConfigurationError, InvalidPathError, NodeExistsError, NoNodeError
from ...model import ACL, CreateMode, Participant
from ...paths import basename, join, validate
from .._core.acquire import NodeAcquirable
from .._core.arguments import OnDisconnect, checked_count
from .._core.contexts import TenureContext
from .._core.error_policy import TRIES
from .._core.holding_recipe import HoldingRecipe
from .._core.participants import read_participants
from .._core.reading import listed, over_sessions
from .._core.tenure import Held
from ..contest import Contest, TaskGuard
from ..naming import Fixed
from ..znode import Znode

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
        contest = Contest.of(
            type(self).__name__,
            client,
            path,
            HeldName,
            partial(_free_name, "name", MOST_NAMES),
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
        """The contest of one claim. A task that holds one name may wait for another."""
        kind, most = _checked_kind(kind), checked_count("most", most, most=1 << 31)
        return self._contest.derived(partial(_free_name, kind, most), guard=TaskGuard())


def _checked_kind(kind: str) -> str:
    if not isinstance(kind, str) or not kind or "/" in kind:
        raise ConfigurationError(f"kind: must be a str without slashes, not {kind!r}")
    try:
        validate(f"/{kind}-0")
    except InvalidPathError as error:
        raise ConfigurationError(f"kind: {kind!r} cannot begin a name: {error}") from None
    return kind


def _free_name(kind: str, most: int, contest: Contest[Any]) -> _FreeName:
    return _FreeName(contest.client, contest.path, kind, most, contest.data, contest.acl)


class _FreeName(NodeAcquirable):
    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        kind: str,
        most: int,
        data: bytes,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, data, acl)
        self._kind = kind
        self._most = most
        self._own: list[Znode] = []

    def _znodes(self) -> Sequence[Znode]:
        return self._own

    async def _try(self, *, waits: bool) -> bool:
        if self._own and await self._own[0].resolve():
            return True
        tries = 0
        while True:
            try:
                free = await self._lowest_free(waits=waits)
                if free is not None:
                    await self._create(free)
                    return True
                if not waits:
                    return False
            except NodeExistsError:
                continue  # another client was quicker
            except NoNodeError:
                tries += 1
                if tries > TRIES:
                    raise
                await self._client.ensure_path(self._path, mode=CreateMode.CONTAINER, acl=self._acl)
                continue
            await self._sleep()

    async def _lowest_free(self, *, waits: bool) -> int | None:
        """The lowest free number; if there is none, watch for one."""
        client = self._client
        free = self._free(await client.get_children(self._path))
        if free is None and waits:
            self._wake = anyio.Event()
            self._leave_watches()
            free = self._free(await client.get_children(self._path, watch=self._watch()))
        return free

    def _free(self, names: Sequence[str]) -> int | None:
        taken = set(names)
        numbers = range(min(self._most, len(taken) + 1))
        return next((n for n in numbers if f"{self._kind}-{n}" not in taken), None)

    async def _create(self, number: int) -> None:
        path = join(self._path, f"{self._kind}-{number}")
        own = self._new_znode(Fixed(self._client, path, is_contended=True))
        self._own = [own]
        await own.create()
        self._is_new = True

    def _start_again(self) -> None:
        super()._start_again()
        self._own = []
