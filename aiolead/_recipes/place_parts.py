"""The parts of places that wait: an alarm, several deletes as one, and what such places share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ..abc import CoordinationClient, Watch
from ..errors import AioleadError, ReleaseError
from ..model import WatchEvent
from .naming import Departure
from .znode import Znode

if TYPE_CHECKING:
    from .holding import Contest
    from .rivals import HolderQuery


class _Several:
    """Several departures as one, which ends with the last of them."""

    def __init__(self, parts: Sequence[Departure]) -> None:
        self._parts = parts

    @property
    def is_done(self) -> bool:
        return all(part.is_done for part in self._parts)

    @property
    def error(self) -> AioleadError | None:
        """The first refusal, with the others as notes; else the first error."""
        errors = [error for part in self._parts if (error := part.error) is not None]
        refusals = [error for error in errors if isinstance(error, ReleaseError)]
        if not refusals:
            return errors[0] if errors else None
        first, *others = refusals
        if not getattr(first, "__notes__", None):
            for other in others:
                first.add_note(str(other))
        return first

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        left = len(self._parts)

        def one_more() -> None:
            nonlocal left
            left -= 1
            if not left:
                callback()

        for part in self._parts:
            part.add_done_callback(one_more)

    @property
    def is_awaited(self) -> bool:
        return any(part.is_awaited for part in self._parts)

    @is_awaited.setter
    def is_awaited(self, is_awaited: bool) -> None:
        for part in self._parts:
            part.is_awaited = is_awaited


def all_of(parts: Sequence[Departure]) -> Departure | None:
    """All of them as one; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return _Several(parts)


def discard_all(znodes: Sequence[Znode]) -> Departure | None:
    """Abandon the znodes for good; return their pending deletes as one."""
    deletes = [znode.discard() for znode in znodes]
    return all_of([delete for delete in deletes if delete is not None])


class Alarm:
    """The watches of one attempt, on others and on its own znodes, and the wait for any of them.

    It is the observer of the attempt's znodes. A wait ends with the session, too: that fires all
    watches.
    """

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client
        self._event = anyio.Event()
        self._watches: list[Watch] = []
        self._armed: dict[str, Watch] = {}

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def renew(self) -> None:
        """Close the watches, except those of `arm`, and forget what has happened: look again."""
        for watch in self._watches:
            watch.close()
        self._watches.clear()
        self._event = anyio.Event()

    def watch(self, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Make a watch that sets the alarm, or calls `on_event`; it lasts until `close`."""
        watch = self._client.backend.make_watch(on_event or self.set)
        self._watches.append(watch)
        return watch

    def arm(self, what: str) -> Watch | None:
        """Make a watch that sets the alarm, and stays over looks; None if it is there already."""
        if what in self._armed:
            return None
        watch = self._armed[what] = self._client.backend.make_watch(partial(self._fired, what))
        return watch

    def disarm(self, what: str) -> None:
        watch = self._armed.pop(what, None)
        if watch is not None:
            watch.close()

    def _fired(self, what: str, _event: WatchEvent) -> None:
        self._armed.pop(what, None)
        self._event.set()

    def set(self, _event: Any = None) -> None:
        """Something has happened: look again."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until something happens; not at all if it has since `renew`."""
        await self._event.wait()

    def close(self) -> None:
        """Close all watches."""
        for watch in (*self._watches, *self._armed.values()):
            watch.close()
        self._watches.clear()
        self._armed.clear()

    # --- what happens to a znode of ours: see `ZnodeObserver` ------------------------------------

    def znode_gone(self) -> None:
        self._event.set()

    def watch_ended(self) -> None:
        self._event.set()

    def data_seen(self, data: bytes) -> None:
        """Nothing to do: nobody asks for a release."""


class WatchingPlace(ABC):
    """The common part of places that wait by an alarm, with the arguments of their contest."""

    def __init__(self, contest: Contest[Any]) -> None:
        self._client = contest.client
        self._path = contest.path
        self._data = contest.data
        self._acl = contest.acl
        self._alarm = Alarm(contest.client)
        self.is_new = False

    @property
    @abstractmethod
    def znodes(self) -> Sequence[Znode]:
        """See `Place`, as for the other members."""

    def unwatch(self) -> None:
        self._alarm.close()

    def restart(self) -> None:
        for znode in self.znodes:
            znode.withdraw()

    def discard(self) -> Departure | None:
        self.unwatch()
        return discard_all(self.znodes)

    def obstacle(self) -> str:
        return ""

    def holder_query(self) -> HolderQuery | None:
        """Nobody is waited for, unless a place says otherwise."""
        return None
