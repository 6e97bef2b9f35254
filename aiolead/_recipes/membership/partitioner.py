"""Splitting work over whoever is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NoReturn, final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ...abc import CoordinationClient
from ...errors import AioleadError, ConfigurationError, LockLost, UsageError
from ...model import ACL
from ...paths import join
from .._core.arguments import (
    OnDisconnect,
    checked_acl,
    checked_client,
    checked_name,
    checked_number,
    checked_on_disconnect,
    checked_path,
)
from .._core.tenure import Held
from ..locks.lock import Lock
from .group import Group, MembersView
from .split import Split

MAX_ITEMS = 2_000
"""Most items: each is a lock, and all are hashed with all members."""

LONGEST_QUIET = 10
"""After so many quiet periods a split is acted upon even if members keep coming and going."""

Worker = Callable[[str, Held], Awaitable[object]]


class _NotAcquired(Exception):
    """A lock cannot be acquired. Never leaves this module."""

    def __init__(self, why: AioleadError) -> None:
        super().__init__()
        self.why = why


class _Share:
    """One item that is to be ours: its task, from the line for its lock to the end of the work."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()


@final
class Partitioner:
    """Splits items over the members that are there, and does the work of our share.

        partitioner = aiolead.Partitioner(client, "/crawler", ["de", "en", "fr", "pl"])
        await partitioner.run(crawl)      # crawl(item, held), a task for each item that is ours

    The members' list says who should have which item: all have the same number, give or take one,
    and who comes or goes moves little more than its own share. But an item is owned by its lock,
    with its lease, whatever anybody believes of the list: never are there two owners. Who should
    not own it any more lets go as soon as its worker has ended; who should, waits for that.

    All members should be given the same items: those that they do not agree on are owned by at most
    one member still, but maybe by none.

    Args:
        client: the session.
        path: the path: `party` below it has the members, `locks` has a lock for each item.
        items: what is split: names that can be those of znodes; 2,000 at most.
        identity: what the others call us; by default host name, process id and something random.
            A process that is restarted under its old name within the quiet period gets its own
            items back, and nobody else's move.
        quiet: how long the members must have stayed the same before a new split is acted upon, in
            seconds; after ten times that it is anyway. Items of a member that has left wait as
            long.
        on_disconnect: what becomes of owned items when the link is lost; see `Lock`.
        acl: of our znodes, and of the paths where they have to be created; everybody everything by
            default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        items: Iterable[str],
        *,
        identity: str | None = None,
        quiet: float = 0.0,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._items = _checked_items(items)
        if identity is not None:
            checked_name("identity", identity)
        self._member_id = identity
        self._quiet = checked_number("quiet", quiet)
        self._on_disconnect: OnDisconnect = checked_on_disconnect(on_disconnect)
        self._acl = checked_acl(acl)
        self._split = Split()
        self._is_running = False
        self._changed = anyio.Event()
        self._members: frozenset[str] = frozenset()
        self._members_changed = 0
        """Counts how often they have."""
        self._shares: dict[str, _Share] = {}
        self._owned: set[str] = set()
        self._errors: list[Exception] = []
        """What workers have raised."""
        self._refusal: AioleadError | None = None
        """Why membership, or a lock, cannot be kept up."""

    def __repr__(self) -> str:
        return f"<Partitioner {self._path}, owns {len(self._owned)} of {len(self._items)} items>"

    @property
    def path(self) -> str:
        """The path that is shared with the other members."""
        return self._path

    @property
    def items(self) -> frozenset[str]:
        """What is split."""
        return self._items

    @property
    def owned(self) -> frozenset[str]:
        """The items that are ours now: their workers run, or have run and returned."""
        return frozenset(self._owned)

    @property
    def members(self) -> frozenset[str]:
        """Who shares the work, as far as we know; empty before `run`."""
        return self._members

    def update_items(self, items: Iterable[str]) -> None:
        """Splits other items from now on. Workers of items that are not among them are cancelled.

        Raises:
            ConfigurationError: as for the constructor.
        """
        self._items = _checked_items(items)
        self._changed.set()

    async def run(self, worker: Worker) -> NoReturn:
        """Is a member, and calls `worker(item, held)`, as a task, for each item that is ours.

        An item that is to go to another member, or is no item any more, or whose lock is lost, has
        its worker cancelled; when that has ended, the item is let go of. A worker that returns
        keeps its item all the same: it is not called again, nor is anybody else's, until the item
        has moved.

        Raises:
            Exception: what a worker has raised, bare, once all others have been cancelled and
                awaited; an `ExceptionGroup` only if several have.
            ServerError, SessionError: membership, or the locks, cannot be kept up.
            UsageError: it runs already; or this client has a member of that name already.

        Cancellation: cancels the workers, awaits them, lets go of their items and leaves.

        On connection loss: workers go on as long as the lease lasts (or not, with
        `on_disconnect="resign"`); after it they are cancelled, and called anew when the items are
        ours again.
        """
        if self._is_running:
            raise UsageError(f"{self!r} runs already")
        self._is_running = True
        try:
            group = Group(self._client, join(self._path, "party"), acl=self._acl)
            joining = group.join(identity=self._member_id)
            async with joining as membership, group.observe() as view:
                await self._share(view, membership.identity, worker)
        finally:
            self._is_running = False
            self._members = frozenset()
        raise AssertionError("sharing does not end by itself")

    async def _share(self, view: MembersView, me: str, worker: Worker) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    tasks.start_soon(self._follow, view, me, tasks.cancel_scope)
                    await self._assign(me, tasks, worker)
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self._shares.clear()
            self._owned.clear()
            errors, self._errors = self._errors, []
            refusal, self._refusal = self._refusal, None
            if len(errors) > 1:
                raise ExceptionGroup(f"{len(errors)} workers have failed", errors)
            if errors:
                raise errors[0]
            if refusal is not None:
                raise refusal

    async def _follow(self, view: MembersView, me: str, everything: anyio.CancelScope) -> None:
        """Takes note of who is there."""
        try:
            async for members in view:
                # A znode that is not ephemeral says nothing about who lives. We do, until our
                # locks say otherwise: that we are not listed for a moment moves nothing.
                alive = frozenset(id_ for id_, member in members.items() if member.session_id)
                if alive | {me} != self._members:
                    self._members = alive | {me}
                    self._members_changed += 1
                    self._changed.set()
        except AioleadError as error:
            self._refusal = error
            everything.cancel()

    async def _assign(self, me: str, tasks: TaskGroup, worker: Worker) -> None:
        """Starts and stops work, as members and items change."""
        acted_upon: frozenset[str] = frozenset()
        while True:
            self._changed = anyio.Event()
            if not self._members:
                await self._changed.wait()
                continue
            if self._members != acted_upon:
                await self._wait_for_quiet(acted_upon)
                acted_upon = self._members
            wanted = set(self._split.shares(self._items, acted_upon)[me])
            for item, share in self._shares.items():
                if item not in wanted:
                    share.scope.cancel()
            for item in sorted(wanted - self._shares.keys()):
                share = self._shares[item] = _Share()
                tasks.start_soon(self._own, item, share, worker, tasks.cancel_scope)
            await self._changed.wait()

    async def _wait_for_quiet(self, acted_upon: frozenset[str]) -> None:
        """Until the members stay the same, or are those again whom the present split is for."""
        with anyio.move_on_after(LONGEST_QUIET * self._quiet):
            while self._members != acted_upon:
                count = self._members_changed
                await anyio.sleep(self._quiet)
                if count == self._members_changed:
                    return

    async def _own(
        self, item: str, share: _Share, worker: Worker, everything: anyio.CancelScope
    ) -> None:
        """One item: from the line for its lock to the moment in which it is somebody else's."""
        lock = Lock(
            self._client,
            join(join(self._path, "locks"), item),
            identity=self._member_id,
            on_disconnect=self._on_disconnect,
            acl=self._acl,
        )
        try:
            with share.scope:
                while True:
                    await self._hold(item, lock, worker)
        except _NotAcquired as error:
            self._refusal = error.why  # that of any lock will do
            everything.cancel()
        except Exception as error:
            self._errors.append(error)
            everything.cancel()
        finally:
            if self._shares.get(item) is share:
                del self._shares[item]
            # It may have become ours again while the worker was ending.
            self._changed.set()

    async def _hold(self, item: str, lock: Lock, worker: Worker) -> None:
        token = 0
        try:
            async with lock.acquire() as held:
                token = held.token
                self._owned.add(item)
                try:
                    await worker(item, held)
                    await anyio.sleep_forever()
                finally:
                    self._owned.discard(item)
        except AioleadError as error:
            if token == 0:
                raise _NotAcquired(error) from None
            if not _is_loss_of(token, error):
                raise
        except BaseExceptionGroup as error:
            # A group, if tasks of the worker's own task group have called `held.check()`.
            if not _is_loss_of(token, error):
                raise


def _is_loss_of(token: int, error: BaseException) -> bool:
    """Whether an error, or everything in a group, says that one hold was lost."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_loss_of(token, member) for member in error.exceptions)
    return isinstance(error, LockLost) and error.token == token


def _checked_items(items: Iterable[str]) -> frozenset[str]:
    if isinstance(items, str):
        raise ConfigurationError(f"items: must be several names, not the str {items!r}")
    found = frozenset(checked_name("items", item) for item in items)
    if len(found) > MAX_ITEMS:
        raise ConfigurationError(f"items: are {len(found)}, at most {MAX_ITEMS} are allowed")
    return found
