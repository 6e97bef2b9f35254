"""The condition: its holders wait for a notification and release its lock meanwhile.

A waiter watches its signal, and the waiter before it. When its predecessor goes, it lists the
signals and the waiters, and passes on the signal that the predecessor may have left. A waiter that
has the lock again deletes its signal and its znode.

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

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import anyio

from .._client.fast import current_task_id
from .._util.parsing import MalformedError, whole
from ..abc import CoordinationClient, Reply
from ..errors import (
    AioleadError,
    ConnectionLossError,
    LossReason,
    NodeExistsError,
    NoNodeError,
    Outcome,
    ReleaseError,
    TransactionError,
    UsageError,
)
from ..model import ACL, CreateMode, Participant, Stat
from ..paths import join
from . import rivals
from .contender_queue import ContenderQueue, created, prefix_of
from .errors import (
    Action,
    Step,
    action_for,
    before_next_try,
    ensure_path,
    in_background,
    until_answered,
    until_done,
    with_parent,
)
from .hold import Body, Held, Place, acquire
from .holding import Contest, HeldRecipe
from .layouts import CURATOR, Layout, Role, names_of
from .naming import Departure, OwnNames, RegisteredNode, Sequential, set_awaited
from .place_parts import Alarm
from .reading import catch_up, listed, over_sessions, read_participants, read_stats
from .recipe import OnDisconnect, checked_count, checked_path, checked_wait
from .reporting import PathWarnings
from .znode import NodeGone, Znode, ZnodeState

__all__ = ["Condition"]
__types__ = ["ConditionHeld"]

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

    async def ensure(self) -> None:
        """Create the parent of the signals, which servers delete when it is empty."""
        mode = CreateMode.CONTAINER
        await ensure_path(self._client, join(self._path, "signals"), mode=mode, acl=self._acl)

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
        found = await read_stats(self._client, join(self._path, "waiters"), names)
        return [name for name, stat in found.items() if self.note(name, stat)]

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


class Waiter:
    """A waiter, from before it releases the lock until it has it again."""

    def __init__(
        self, client: CoordinationClient, path: str, data: bytes, acl: Sequence[ACL] | None
    ) -> None:
        self._client = client
        self._path = join(path, "waiters")
        self._acl = acl
        names = client.backend.shared(self._path, OwnNames)
        prefix = prefix_of(names_of(Layout.CURATOR, Role.WAIT))
        naming = Sequential(client, names, self._path, prefix)
        self._alarm = Alarm(client)
        self._znode = Znode(client, naming, data, acl, self._alarm)
        self._signals = ConditionSignals(client, path, acl)
        self._before = ""
        """The path of the waiter before ours, if that is watched."""
        self._has_signal = False

    @property
    def node(self) -> RegisteredNode:
        """The znode; only valid while there is one."""
        return self._znode.node

    # --- waiting -------------------------------------------------------------------------------

    async def join(self) -> None:
        """Create the znode. From then on no signal is missed."""
        client, mode = self._client, CreateMode.CONTAINER
        create = partial(until_answered, client, self._create)
        await with_parent(client, self._path, create, mode=mode, acl=self._acl)

    async def _create(self) -> None:
        if not await self._znode.found_lost():
            await created(self._znode, self._znode.create(), self._path)

    async def signalled(self) -> None:
        """Wait for a signal, or for the end of the znode: without it no signal can come."""
        try:
            while True:
                try:
                    if await self._is_signalled():
                        self._has_signal = True
                        return
                except AioleadError as error:
                    # The watches may not be armed.
                    self._alarm.close()
                    self._znode.unwatch()
                    if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                        raise NodeGone from None
                    await before_next_try(self._client, error, Step.ACQUIRE)
                    continue
                stuck = self._signals.stuck
                with anyio.move_on_after(self._client.session_timeout if stuck else None) as scope:
                    await self._alarm.wait()
                if scope.cancelled_caught:
                    stuck.clear()
        except NodeGone:
            self._znode.seen_gone()
        finally:
            self._alarm.close()

    async def _is_signalled(self) -> bool:
        """List all waiters, with watches on anything that could change the result."""
        self._alarm.renew()
        self._znode.check()
        armed = self._arm()
        seen = await self._signals.look()
        for reply in armed:
            try:
                await reply
            except NoNodeError:
                raise NodeGone from None
        self._znode.check()
        own = self.node.name
        if own not in seen.waiting:
            raise NodeGone
        if own not in seen.unsignalled:
            return True
        if await self._signals.settle(seen) or not await self._watch_before(seen.waiting, own):
            self._alarm.set()  # and look again
        return False

    def _arm(self) -> list[Reply[Any]]:
        """Watch our znode and its signal, as far as they are not watched; return the requests."""
        armed: list[Reply[Any]] = []
        if not self._znode.is_watched:
            armed.append(self._znode.send_look())
        signal = self._signals.signal(self.node.name)
        watch = self._alarm.arm(signal)
        if watch is not None:
            armed.append(self._client.exists(signal, watch=watch))
        return armed

    async def _watch_before(self, waiting: Sequence[str], own: str) -> bool:
        """Watch the waiter before ours, if there is one; return False if it is none by now."""
        rank = waiting.index(own)
        name = waiting[rank - 1] if rank else ""
        before = self._signals.waiter(name) if rank else ""
        if before != self._before:
            self._alarm.disarm(self._before)
            self._before = before
        watch = self._alarm.arm(before) if rank else None
        if watch is None:
            return True
        try:
            _, stat = await self._client.get(before, watch=watch)
        except NoNodeError:
            is_waiter = False
        else:
            is_waiter = self._signals.note(name, stat)
        if not is_waiter:
            self._alarm.disarm(before)
        return is_waiter

    # --- leaving -------------------------------------------------------------------------------

    def discard(self) -> None:
        """Stop waiting, synchronously; a signal goes to the next waiter."""
        self._leave(None)

    def consume(self) -> None:
        """Delete the signal and the znode, synchronously: the client does the rest.

        The signal goes first: without its waiter, other waiters would pass it on. One that came too
        late to be seen goes to the next waiter.
        """
        is_seen = self._has_signal and self._znode.state is ZnodeState.PRESENT
        self._leave(self._client.delete(self._signals.signal(self.node.name)) if is_seen else None)

    def _leave(self, consumed: Reply[None] | None) -> None:
        self._alarm.close()
        node, departure = self._znode.current, self._znode.discard()
        if node is not None and departure is not None:
            departure.add_done_callback(partial(self._left, node.name, consumed))

    def _left(self, name: str, consumed: Reply[None] | None) -> None:
        """Settle the signal, now that its waiter is gone, unless it is known to be deleted."""
        if consumed is None or consumed.error() is not None:
            settle = self._pass_on if consumed is None else self._delete_signal
            job = partial(until_done, self._client, 0, partial(settle, name))
            path = self._signals.signal(name)
            self._client.backend.spawn(partial(in_background, path, job))

    async def _pass_on(self, name: str) -> None:
        if await self._client.exists(self._signals.signal(name)) is not None:
            while await self._signals.settle(await self._signals.look()):
                pass

    async def _delete_signal(self, name: str) -> None:
        try:
            await self._client.delete(self._signals.signal(name))
        except NoNodeError:
            return
        except AioleadError as error:
            self._signals.refused(name, error)


class ConditionHeld(Held):
    """The hold of a condition's lock by the body of an `async with`, interrupted by `wait`."""

    _waits = False
    _is_abandoned = False

    def __init__(
        self,
        contest: Contest[ConditionHeld],
        place: Place,
        body: Body,
        *,
        condition: str,
    ) -> None:
        self._condition = condition
        """The path of the condition."""
        self._task = current_task_id()
        super().__init__(contest, place, body)

    # --- waiting -------------------------------------------------------------------------------

    async def wait(self, *, timeout: float | None = None) -> bool:
        """Release the lock, wait for `notify`, acquire it again; return False after a timeout.

            while not await is_ready():
                await held.wait()

        It returns once the lock is held again: another hold, with another `token`. Wait in a loop:
        it may return without a `notify`, after an expired session for instance, and what was true
        at the `notify` may have changed.

        Args:
            timeout: how long to wait to be notified, in seconds; None waits forever. It does not
                limit acquiring the lock again. Do not use a cancel scope instead: see Cancellation.

        Raises:
            LockLost: the lock was lost before the wait began.
            ReleaseError: the servers refuse to delete our znode, so nobody can get the lock,
                ourselves included. The whole block is cancelled.
            UsageError: the lock is not held, or another task entered the block.

        Cancellation: the wait ends without the lock, so the whole block is cancelled. If only the
        wait was to be cancelled, leaving the block raises `UsageError`. A notification already
        received goes to the next waiter. On connection loss: the wait continues.
        """
        timeout = checked_wait(timeout)
        if current_task_id() != self._task:
            raise UsageError(f"{self!r}: only the task that has entered it can wait")
        self.check()
        contest = self._contest
        waiter = Waiter(self._client, self._condition, contest.data, contest.acl)
        release: Departure | None = None
        in_time = True
        try:
            await waiter.join()
            self.check()
            with anyio.CancelScope() as refused:
                release = self._let_go(refused)
                with anyio.move_on_after(timeout) as scope:
                    await waiter.signalled()
                in_time = not scope.cancelled_caught
                await self._take_again()
            if refused.cancelled_caught and release is not None and (error := release.error):
                raise error
        except BaseException as left:
            waiter.discard()
            if self._waits:
                self._abandon()
            if release is not None and left is not release.error:
                set_awaited(release, False)
            raise
        if release is not None:
            set_awaited(release, False)
        waiter.consume()
        return in_time

    def _let_go(self, refused: anyio.CancelScope) -> Departure | None:
        """Release the lock, synchronously; cancel `refused` if the servers refuse that."""
        self._waits = self._has_left = True
        release = self._place.discard()
        if release is not None:
            release.is_awaited = True
            release.add_done_callback(lambda: self._released_it(release, refused))
        return release

    def _released_it(self, release: Departure, refused: anyio.CancelScope) -> None:
        error = release.error
        if isinstance(error, ReleaseError):
            # Acquiring again would wait for our own znode.
            refused.cancel()
        elif isinstance(error, NoNodeError) and self._loss is None:
            # It had been lost before.
            self._loss = LossReason.DELETED
            self._cancel_body()

    async def _take_again(self) -> None:
        place = self._contest.make_place(self._contest)
        try:
            await acquire(self._client, place)
            # No checkpoint until it is held.
            if self._loss is None and not self._released:
                self._waits = self._has_left = False
                if self._revocation is not None and self._revocation.is_set():
                    self._revocation = None  # that was asked of the hold before
                self._take(place)
                return
        except BaseException:
            place.discard()
            raise
        place.discard()
        if self._released:
            # Another task has released it: the block continues without a hold.
            self._waits = False
            self.check()
        await anyio.sleep_forever()  # it is being cancelled, since it was lost

    def _abandon(self) -> None:
        """End the block of an interrupted wait: it holds nothing and must not continue."""
        self._is_abandoned = True
        self._cancel_body()

    def _release(self) -> None:
        if not self._waits:
            super()._release()

    async def _release_elsewhere(self) -> None:
        if self._waits:
            self._released = True  # it must not acquire the lock again
        await self.release()

    async def release(self) -> None:
        """Release the lock before the body has ended; see `Tenure.release`. Not while it waits."""
        if self._waits:
            self.check()
        await super().release()

    def _why_ended(self) -> Exception | None:
        why = super()._why_ended()
        if why is None and self._is_abandoned:
            return UsageError(
                f"{self._contest!r}: a wait was cancelled inside of the block, which therefore "
                "had lost the lock; to limit a wait, use held.wait(timeout=)"
            )
        return why

    def check(self) -> None:
        if self._waits and self._loss is None:
            raise UsageError(f"{self._what}: the lock is not held while one waits")
        super().check()

    # --- notifying -----------------------------------------------------------------------------

    async def notify(self, count: int = 1) -> int:
        """Wake the first `count` waiters, or all if there are fewer; return how many were woken.

        They acquire the lock one after the other, once it is free. A notification survives its
        sender. If a waiter dies before it has the lock again, the next one is woken that waited
        already when it was notified. Children of the paths that are no waiters do not count.

        Raises:
            LockLost: the lock is lost.
            Fenced: the servers say that the lock is lost; no further waiter was woken.
            UsageError: the lock is not held.
            ServerError: the servers refused the write, by `NoAuthError` for instance.

        Cancellation: some may have been woken. On connection loss: finds out which ones,
        and continues.
        """
        return await self._notify(count)

    async def notify_all(self) -> int:
        """Wake all waiters; otherwise as `notify`."""
        return await self._notify(None)

    async def _notify(self, count: int | None) -> int:
        self.check()
        left = sys.maxsize if count is None else checked_count("count", count, most=sys.maxsize)
        client = self._client
        signals = ConditionSignals(client, self._condition, self._contest.acl)
        done = 0
        author, names = b"", list[str]()
        is_unknown = False
        while done < left:
            try:
                if is_unknown:
                    # This server may lag behind the one that got the transaction.
                    await catch_up(client, self._condition)
                    # It is atomic, and none of its signals is consumed while we hold the lock.
                    if await signals.has(author):
                        await signals.owned(names)
                        done += sum(name not in signals.ownerless for name in names)
                    is_unknown = False
                    continue
                seen = await self._look(signals)
                self.check()
                if not seen.unsignalled:
                    break
                names = seen.unsignalled[:AT_ONCE]
                if signals.ownerless:
                    # There are children that are no waiters: leave the others out beforehand.
                    names = await signals.owned(names)
                    self.check()
                names = names[: left - done]
                if names:
                    author = f"{self.token:x}-{client.backend.serial():x}".encode()
                    done += await self._signal(signals, author, names)
                    names = []
            except ConnectionLossError as error:
                is_unknown = is_unknown or error.outcome is Outcome.UNKNOWN
                await client.ready()
        return done

    async def _look(self, signals: ConditionSignals) -> Waiters:
        seen = await signals.look()
        while not seen.unsignalled and await signals.settle(seen):
            seen = await signals.look()
        return seen

    async def _signal(self, signals: ConditionSignals, author: bytes, names: Sequence[str]) -> int:
        """Notify waiters in a transaction guarded by the lock; return how many. Then look again."""
        change = self.fenced().transaction()
        for name in names:
            change.check(signals.waiter(name))
        for name in names:
            change.create(signals.signal(name), author, acl=self._contest.acl)
        with self._client.pipelined():
            looks = signals.ask_owners(names)
            reply = change.commit()
        try:
            await reply
        except TransactionError as error:
            if isinstance(error.cause, NoNodeError) and error.index >= len(names):
                await signals.ensure()
            elif not isinstance(error.cause, (NoNodeError, NodeExistsError)):
                raise
            return 0
        # The transaction has found all of them, and answers come in order.
        owners = [(name, look.result()) for name, look in looks if look.error() is None]
        return len(names) - sum(not signals.note(name, s) for name, s in owners if s is not None)


@final
class Condition(HeldRecipe[ConditionHeld]):
    """A lock whose holders can wait until another holder notifies them.

        async with condition as held:
            while not await is_ready():
                await held.wait()  # without the lock meanwhile
            ...

        async with condition as held:
            await make_it_ready()
            await held.notify()

    Like `java.util.concurrent.locks.Condition`, across processes. Waiters are notified first come
    first served. A notification wakes only a waiter that waited when it was given, and among those
    none is lost: if the notifying process dies, it persists; if the notified waiter dies or is
    cancelled, the next one gets it.

    Its lock is a `Lock` at `lock` below the path: a `Lock` of that path contends with it.

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
        self._base = checked_path(path)
        recipe, lock = type(self).__name__, join(path, "lock")
        self._queue = ContenderQueue(recipe, client, lock, Layout.CURATOR, Role.LOCK)
        contest = self._queue.contest(
            partial(ConditionHeld, condition=path),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            label=f"<{recipe} {path}>",
        )
        super().__init__(contest)

    holders: ClassVar[rivals.Inquiry] = rivals.holders
    contenders: ClassVar[rivals.Inquiry] = rivals.contenders
    revoke: ClassVar[rivals.Inquiry] = rivals.revoke

    @property
    def path(self) -> str:
        """The path of the condition; its lock is at `lock` below it."""
        return self._base

    async def waiters(self) -> list[Participant]:
        """Return the waiters, first come first, including notified ones. May lag, as `holders`."""
        return await over_sessions(self._client, self._read_waiters)

    async def _read_waiters(self) -> list[Participant]:
        seen = await ConditionSignals(self._client, self._base, self._acl).look()
        path = join(self._base, "waiters")
        found = await read_participants(self._client, path, seen.waiting, is_holder=False)
        return [waiter for waiter in found if waiter.session_id]
