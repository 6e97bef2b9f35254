"""Preferred leaders: of those present, one with the highest priority leads.

The queue decides who may lead, as in any election, so that there is one leader at most whatever
happens here. Priorities only decide which contender declines, and which one asks:

* A contender that reaches the front while a better one is in the queue steps back: it deletes its
  znode, and joins again at the end, with a name that says when it first came.
* A waiter that is better than the contender in front waits until it has been in the queue for
  `stable_for`. Then, if it is the best, it asks the contender in front to resign, as `revoke` does.

A waiter that finds nobody worse in front needs no timer. A contender that comes to the front later
has seen its predecessor go. So its server has applied the create of the waiter, which was earlier,
and the contender steps back if it is worse. docs/explanation/recipe-designs.md has the states and
failures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final

import anyio

from .._util.contender_names import ElectionRules, rules_of
from ..errors import BadVersionError, NoAuthError, NoNodeError
from ..paths import join, sequence_of
from .contender_queue import Contender, ContenderQueue
from .hold import Place
from .holding import Contest
from .naming import Departure, Sequential
from .neighbours import MOST_READ, queue_order
from .reading import asking, is_request
from .rivals import HolderQuery
from .znode import NodeGone, Znode


class MakePlace(Protocol):
    """Makes the place of a contest, which reports its rank if that is wanted.

    `is_ready`: whether others may hand over to it at once.
    """

    def __call__(
        self,
        contest: Contest[Any],
        on_rank: Callable[[int | None], object] | None = None,
        *,
        is_ready: bool = True,
    ) -> Place: ...


@dataclass(frozen=True, slots=True)
class Outlook:
    """A listing of the queue, as one of its contenders sees it. Pure.

    Attributes:
        front: the name of the first contender.
        is_better_than_front: whether it has a higher priority than the first contender.
        better: the names of those with a higher priority, or with the same one that came earlier.
    """

    front: str
    is_better_than_front: bool
    better: tuple[str, ...]

    @property
    def is_best(self) -> bool:
        return not self.better


def outlook_of(line: Sequence[str], own: str) -> Outlook | None:
    """The outlook of the contender `own` in a queue; None if it is not in it.

    A contender that says no priority is no better than anybody, and is never asked to resign: it
    may be another library's.
    """
    if own not in line:
        return None
    rank, front = _rank(own), rules_of(line[0]).priority
    return Outlook(
        front=line[0],
        is_better_than_front=front is not None and front < -rank[0],
        better=tuple(name for name in line if _rank(name) < rank),
    )


def _rank(name: str) -> tuple[float, int, int]:
    """The smaller, the better: by the priority, then by when it first came."""
    rules, number = rules_of(name), sequence_of(name) or 0
    priority = -math.inf if rules.priority is None else rules.priority
    return -priority, number if rules.arrival is None else rules.arrival, number


@final
class PreferredPlace:
    """A contender that is in front, with no better one in the queue: a `Place`.

    Args:
        stable_for: how long it is in the queue before it asks a worse leader to resign, in seconds.
        on_rank: see `Contender`.
        is_ready: see `MakePlace`.
    """

    def __init__(
        self,
        queue: ContenderQueue,
        stable_for: float,
        contest: Contest[Any],
        on_rank: Callable[[int | None], object] | None = None,
        *,
        is_ready: bool = True,
    ) -> None:
        self._queue = queue
        self._client = queue.client
        self._path = queue.path
        self._stable_for = stable_for
        self._acl = contest.acl
        self._on_rank = on_rank
        self._contender = queue.contend(contest, on_rank, self._listed, is_ready=is_ready)
        self.is_new = False
        self._scope: anyio.CancelScope | None = None
        """Around the wait in the queue, which ends when it is time to ask."""
        self._better: str | None = None
        """The better contender that was seen from the front last, for messages."""
        self._forget()

    def _follow(self, arrival: int | None = None) -> None:
        """Replace the contender by another one, whose znode will say what that of this one does."""
        before, queue = self._contender, self._queue
        before.discard()
        naming = None
        if arrival is not None:
            rules = ElectionRules(priority=queue.rules.priority, arrival=arrival)
            prefix = partial(queue.names.prefix, rules=rules.part)
            naming = Sequential(queue.client, queue.local, queue.path, prefix)
        self._contender = Contender(
            queue,
            before.znode.data,
            self._acl,
            on_rank=self._on_rank,
            on_listed=self._listed,
            naming=naming,
        )
        self._forget()

    def _forget(self) -> None:
        self._outlook: Outlook | None = None
        """That of the last listing."""
        self._joined: str | None = None
        """The name of the znode whose time in the queue counts."""
        self._joined_at = 0.0
        self._due = math.inf
        """When to ask the leader to resign; infinite as long as no worse one is in front."""

    # --- getting to the front, as the best -----------------------------------------------------

    async def get(self, *, wait: bool) -> bool:
        while True:
            if not await self._reach_front(wait=wait):
                return False
            self._better = await self._better_one()
            if self._better is None:
                self.is_new = self._contender.is_new
                return True
            if not wait:
                return False
            self._step_back()

    async def _reach_front(self, *, wait: bool) -> bool:
        while True:
            with anyio.CancelScope(deadline=self._due if wait else math.inf) as scope:
                self._scope = scope if wait else None
                self._contender.is_new = False
                try:
                    return await self._contender.get(wait=wait)
                finally:
                    self._scope = None
            # Its time has come: the clock may show a little less, since event loops round.
            await self._take_over()

    async def _better_one(self) -> str | None:
        """From the front: the name of a better contender in the queue, None if there is none.

        A listing that showed this contender in front is enough. One that joined later has found a
        worse contender in front, and asks by itself. A znode that no session owns contends for
        nothing, whatever its name says: stepping back behind it would be forever.
        """
        outlook = self._outlook
        if outlook is None or outlook.front != self._contender.znode.node.name:
            outlook = self._note(await self._list())
        looks = [
            (name, self._client.exists(join(self._path, name)))
            for name in outlook.better[:MOST_READ]
        ]
        for name, look in looks:
            try:
                stat = await look
            except NoAuthError:
                return name
            if stat is not None and stat.ephemeral_owner:
                return name
        return None

    def _step_back(self) -> None:
        """Leave the front, so that the next `get` joins at the end, as another contender."""
        node = self._contender.znode.node
        arrival = rules_of(node.name).arrival
        self._contender.unwatch()
        self._follow(node.sequence if arrival is None else arrival)

    # --- taking over ---------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Ask a worse leader to resign, if this contender is the best one."""
        if self._contender.znode.current is None:
            self._due = math.inf  # it joins first
            return
        outlook = self._note(await self._list())
        if not outlook.is_better_than_front:
            return
        if outlook.is_best:
            await self._ask(outlook.front)
        # It may take long, or a better contender that was to ask may be gone by then.
        self._due = anyio.current_time() + self._stable_for

    async def _ask(self, name: str) -> None:
        """Ask this very znode's owner, since a better contender may lead by now."""
        client, path = self._client, join(self._path, name)
        with suppress(NoNodeError, BadVersionError):  # it has left, or was asked by others
            try:
                data, stat = await client.get(path)
                if stat.ephemeral_owner and not is_request(data):
                    request = asking(data, is_ours=self._queue.names.ours(name) is not None)
                    await client.set(path, request, version=stat.version)
            except NoAuthError:
                self._queue.local.warnings_of(client, self._path).warn(
                    "priority",
                    f"{path}: the leader, which has a lower priority, cannot be asked to resign: "
                    "its ACL does not allow READ and WRITE to this client",
                )

    async def _list(self) -> list[str]:
        try:
            names = await self._client.get_children(self._path)
        except NoNodeError:
            raise NodeGone from None
        return await queue_order(self._client, self._path, names, self._queue.names)

    def _listed(self, line: Sequence[str]) -> None:
        """The contender has listed the queue."""
        if self._contender.znode.node.name in line:  # else it joins again
            self._note(line)

    def _note(self, line: Sequence[str]) -> Outlook:
        """Take a listing into account; raise `NodeGone` if our znode is not in it."""
        node = self._contender.znode.current
        outlook = None if node is None else outlook_of(line, node.name)
        if node is None or outlook is None:
            raise NodeGone
        self._outlook = outlook
        now = anyio.current_time()
        if self._joined != node.name:
            self._joined, self._joined_at, self._due = node.name, now, math.inf
        if not outlook.is_better_than_front:
            self._due = math.inf
        elif self._due == math.inf:
            self._due = max(now, self._joined_at + self._stable_for)
        if self._scope is not None:
            self._scope.deadline = self._due
        return outlook

    # --- the rest of a `Place` -----------------------------------------------------------------

    @property
    def znodes(self) -> Sequence[Znode]:
        return self._contender.znodes

    def unwatch(self) -> None:
        self._contender.unwatch()

    def restart(self) -> None:
        """Begin again: in another session, or with another znode, it has just come."""
        self._contender.restart()
        self._follow()

    def discard(self) -> Departure | None:
        return self._contender.discard()

    def obstacle(self) -> str:
        if self._better is not None:
            return f"behind {join(self._path, self._better)}, which has a higher priority"
        return self._contender.obstacle()

    def holder_query(self) -> HolderQuery | None:
        return self._contender.holder_query()
