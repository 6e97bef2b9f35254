"""Deletes the old ones of the znodes that a recipe keeps below a path, in the background."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import final

import anyio

from ..abc import CoordinationClient, Reply
from ..errors import (
    AioleadError,
    BadVersionError,
    NoAuthError,
    NoNodeError,
    NotEmptyError,
    SessionError,
)
from ..model import Stat
from ..paths import join
from .errors import Action, Step, action_for, before_next_try
from .reporting import PathWarnings

AT_ONCE = 100
"""How many znodes are looked at or deleted in one batch."""

LOOKS_AFTER = 3600.0
"""The time between two looks for znodes that are too old, in seconds; less if few are kept long."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Trimmings:
    """The state that all trimmers of one client share for a path; made by `Backend.shared`."""

    is_due: bool = False
    is_running: bool = False
    looks_at: float = -inf
    """When to look for znodes that are too old, by the clock of the event loop."""
    set_aside: int = 0
    """How many had foreign znodes below at the last trimming."""


@final
class Trimmer:
    """Keeps the newest znodes below a path, and deletes the others.

    At a quarter more than `keep` znodes, all but the newest `keep` are deleted. Those that are
    older than `max_age`, in seconds, are deleted at the first call, and then once an hour, however
    many trimmers the client has for the path. Ages are by the servers' clock. Ephemeral znodes
    stay.

    `is_reused`: whether a name may come back after it was deleted. Then a znode is proven to be the
    one that was looked at, before it is deleted. `consequence`: the sentence about a znode with
    others below it, which no server deletes: it stays, and is not counted.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        keep: int,
        consequence: str,
        *,
        max_age: float = inf,
        is_reused: bool = False,
    ) -> None:
        self.path = path
        self._client = client
        self._keep = keep
        self._max_age = max_age
        self._is_reused = is_reused
        self._consequence = consequence
        self._trimmings = client.backend.shared(path, Trimmings)
        self._warnings = client.backend.shared(path, PathWarnings)

    @property
    def _is_trimming(self) -> bool:
        return self._trimmings.is_running

    def trim_later(self) -> None:
        """Delete old znodes in the background, if there are any."""
        self._trimmings.is_due = True
        if not self._is_trimming:
            self._trimmings.is_running = True
            self._client.backend.spawn(self._trim)

    async def _trim(self) -> None:
        """Delete old znodes; try again if the server is overloaded.

        After another error, the next call tries again. Znodes that others have put znodes below
        stay, and are not counted.
        """
        trimmings = self._trimmings
        try:
            while trimmings.is_due:
                trimmings.is_due = False
                try:
                    await self._delete_old()
                except (NoNodeError, SessionError):
                    return
                except AioleadError as error:
                    if action_for(error, Step.FOLLOW) is Action.RECONNECT:
                        return
                    await before_next_try(self._client, error, Step.FOLLOW)
                    trimmings.is_due = True
        finally:
            trimmings.is_running = False

    async def _delete_old(self) -> None:
        client, keep, now = self._client, self._keep, anyio.current_time()
        trimmings = self._trimmings
        stat = await client.exists(self.path)
        are_too_many = (
            stat is not None and stat.num_children - trimmings.set_aside > keep + keep // 4
        )
        may_be_old = self._max_age < inf and now >= trimmings.looks_at
        if stat is None or not (are_too_many or may_be_old):
            return
        paths = [join(self.path, name) for name in await client.get_children(self.path)]
        found: list[tuple[str, Stat]] = []
        newest = 0
        trimmings.set_aside = 0
        for start in range(0, len(paths), AT_ONCE):
            batch = paths[start : start + AT_ONCE]
            for path, look in [(path, client.exists(path)) for path in batch]:
                with suppress(NoAuthError):  # another client may trim it
                    seen = await look
                    if seen is None:
                        continue
                    newest = max(newest, seen.ctime)
                    if seen.num_children:
                        self._pass_over(path)
                    elif not seen.ephemeral_owner:
                        found.append((path, seen))
        # By age, not by name: what was begun first may have been done last.
        found.sort(key=lambda each: each[1].czxid)
        extra = max(0, len(found) - keep) if are_too_many else 0
        oldest = newest - self._max_age * 1000
        old = [each for n, each in enumerate(found) if n < extra or each[1].ctime < oldest]
        for start in range(0, len(old), AT_ONCE):
            await self._delete(old[start : start + AT_ONCE])
        if self._max_age < inf:
            trimmings.looks_at = now + min(LOOKS_AFTER, self._max_age / 4)

    async def _delete(self, batch: list[tuple[str, Stat]]) -> None:
        client = self._client
        if self._is_reused:
            # A delete goes by name and version, and all new znodes have the same version: so it is
            # changed first.
            batch = await self._proven(batch)
        deletes: list[tuple[str, Reply[None]]] = [
            (path, client.delete(path, version=stat.version if self._is_reused else -1))
            for path, stat in batch
        ]
        for path, delete in deletes:
            try:
                await delete
            except (NoNodeError, BadVersionError):
                pass  # another client has trimmed it
            except NotEmptyError:
                self._pass_over(path)

    async def _proven(self, batch: list[tuple[str, Stat]]) -> list[tuple[str, Stat]]:
        """Those that are still there, with their versions by now."""
        client = self._client
        proofs = [(path, stat, client.set(path, b"", version=stat.version)) for path, stat in batch]
        proven: list[tuple[str, Stat]] = []
        for path, stat, proof in proofs:
            with suppress(NoNodeError, BadVersionError):
                changed = await proof
                if changed.czxid == stat.czxid:
                    proven.append((path, changed))
        return proven

    def _pass_over(self, path: str) -> None:
        self._trimmings.set_aside += 1
        self._warnings.warn_of_children(path, self._consequence)
