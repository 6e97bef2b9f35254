"""The queues.

The task board has the same parts: `ItemProducer` adds items, up to a limit, and `Consumption`
claims one after the other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast, final

import anyio
import anyio.lowlevel

from .._client.fast import current_task_id
from .._util.contender_names import LAST_SEQUENCE
from .._util.escaping import described
from .._util.misuse import left_by_another
from .._util.parsing import MalformedError, real
from ..abc import CoordinationClient, Reply
from ..errors import (
    ConfigurationError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QueueFullError,
    SequenceExhaustedError,
    TransactionError,
    UsageError,
)
from ..model import ACL, CreateMode, Stat
from ..paths import basename, join, sequence_of
from .attempts import RETRY_PAUSE, AttemptLimit, DeadLetter, decode_letter
from .claims import Claimed, ItemClaim, V
from .codec import Codec, checked_codec, encoded
from .errors import with_parent
from .holding import Contest, HoldingRecipe, Kind, TenureContext
from .neighbours import ITEM, refuse_holders
from .queue_items import (
    MOST_ITEMS,
    AvailableItems,
    DelayNames,
    ItemNames,
    PriorityNames,
    decode,
    encode,
)
from .reading import listed, over_sessions
from .recipe import (
    OnDisconnect,
    OnInvalid,
    checked_acl,
    checked_client,
    checked_count,
    checked_number,
    checked_on_invalid,
    checked_path,
    checked_several,
)

_FEW = 1000


class _Looked:
    """Whether a client has seen that a path of items has nothing else."""

    has_looked: bool = False


class ItemProducer:
    """Adds items to a path, up to a limit.

    Each put reads the number of items in the same segment, for the next put. So the limit costs a
    round trip only when it is near: then the number is read first.
    """

    def __init__(
        self, client: CoordinationClient, path: str, most: int, acl: Sequence[ACL] | None
    ) -> None:
        self._client = client
        self._path = path
        self._most = most
        self._acl = acl
        self._looked = client.backend.shared(path, _Looked)
        self._put = 0
        """How many items this object has sent."""
        self._seen: int | None = None
        """How many items were there when it had sent `_seen_at`."""
        self._seen_at = 0

    async def put(self, prefix: str, bodies: Sequence[bytes]) -> list[str]:
        """Add items, all or none; return their names."""

        async def create() -> list[str]:
            await self._make_room(len(bodies))
            return await self._create(join(self._path, prefix), bodies)

        try:
            # The path is no container: see `AvailableItems`.
            names = await with_parent(self._client, self._path, create, acl=self._acl)
        except NodeExistsError:
            # Since ZOOKEEPER-3249 the counter stops at its end, so names repeat.
            raise SequenceExhaustedError(self._path) from None
        if not all(0 <= (sequence_of(name) or 0) < LAST_SEQUENCE for name in names):
            for delete in [self._client.delete(join(self._path, name)) for name in names]:
                with suppress(NoNodeError, NotEmptyError):
                    await delete
            raise SequenceExhaustedError(self._path)
        return names

    async def size(self) -> int:
        """The number of items, claimed ones included."""
        await over_sessions(self._client, self._look)
        return self._seen or 0

    async def _make_room(self, count: int) -> None:
        if count > self._room():
            try:
                await over_sessions(self._client, self._look)
            except NoAuthError:
                # Servers since 3.8.4 and 3.9.2 let only readers count the items: no limit then.
                return
            await self._refuse_others()
            room = self._room()
            if count > room:
                raise QueueFullError(self._path, self._most - room, self._most)

    async def _refuse_others(self) -> None:
        """Raise `MixedLayoutError` if contenders for something else are among the children.

        It takes a round trip, once per client and path, if there are children and they are few: no
        other recipe has many. Consumers see in each listing whether others have come since.
        """
        if self._looked.has_looked or not 0 < (self._seen or 0) <= _FEW:
            return
        client, path = self._client, self._path
        with suppress(NoAuthError):
            children = await over_sessions(client, lambda: listed(client.get_children(path)))
            others = [name for name in children if not re.fullmatch(ITEM, name)]
            await refuse_holders(client, path, others)
        self._looked.has_looked = True

    def _room(self) -> int:
        if self._seen is None:
            return -1
        return self._most - self._seen - (self._put - self._seen_at)

    async def _create(self, path: str, bodies: Sequence[bytes]) -> list[str]:
        client, mode, acl = self._client, CreateMode.PERSISTENT_SEQUENTIAL, self._acl
        self._put += len(bodies)
        if len(bodies) == 1:
            with client.pipelined():
                created = client.create(path, bodies[0], mode=mode, acl=acl)
                self._look()
            return [basename((await created).path)]
        transaction = client.transaction()
        for body in bodies:
            transaction.create(path, body, mode=mode, acl=acl)
        with client.pipelined():
            reply = transaction.commit()
            self._look()
        try:
            return [basename(str(made)) for made in await reply]
        except TransactionError as error:
            raise error.cause from None

    def _look(self) -> Reply[Stat | None]:
        look = self._client.exists(self._path)
        at = self._put

        def seen() -> None:
            if look.error() is None:
                stat = look.result()
                self._seen, self._seen_at = 0 if stat is None else stat.num_children, at

        look.add_done_callback(seen)
        return look


C = TypeVar("C", bound=Claimed[Any])

__all__ = ["DelayQueue", "PriorityQueue", "Queue"]
__types__ = ["Consumption", "QueueItem"]


class Consumption(TenureContext["Consumption[C]"], Generic[C]):
    """Items, claimed one after the other: `async with queue.consume() as items`.

    An item is held until the next one is requested or the block is left, and is then released
    unless it was finished. The iteration never ends by itself.

    One cancel scope is around the whole block, since none can be around the body of an `async for`.
    So a lost claim ends the block; enter another one to continue.

    Raises (on leaving):
        ClaimLost: a claim was lost, and the cancelled body raised nothing else.

    Cancellation: the item is released. Leaving waits for the servers' confirmation, for a third of
    the session timeout at most.
    """

    def _line(self) -> str:
        subject = self._contest.to_hold.removeprefix("async with ").partition(".")[0]
        return f"async with {subject}.consume() as items:"

    async def __aenter__(self) -> Self:
        self._is_entered = True
        await anyio.lowlevel.checkpoint()
        if self._task is not None:
            raise UsageError(f"{self._contest!r}: this is in use already; make another one")
        self._task, self._is_marked = self._contest.enter(forever=True), True
        self._failure: Exception | None = None
        self._scope = anyio.CancelScope()
        self._scope.__enter__()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        """Release the last item, then wait for the next one. Cancellation claims nothing."""
        contest, scope = self._contest, self._scope
        if scope is None or current_task_id() != self._task:
            raise UsageError(
                f"{contest!r}: iterate inside of its `async with` (in a thread, `with`), in the "
                "task or thread that entered it"
            )
        await self._release_last()
        try:
            tenure: C | None = await contest.contend(self)
        except Exception as error:
            self._failure = error
            raise
        assert tenure is not None
        self._tenure = tenure
        return tenure

    def _on_released(self) -> None:
        """The task that has released the item goes on with the next one."""

    async def _release_last(self) -> None:
        tenure: C | None = self._tenure
        self._tenure = None
        if tenure is None:
            return
        await tenure._end()
        tenure._report_refusal(None)
        if tenure.loss is not None:
            self._failure = tenure._error()
            raise self._failure

    async def _leave(
        self,
        current: int,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        scope, task = self._scope, self._task
        if scope is None or task is None or self._tenure is not None:
            await super()._leave(current, exc_type, exc, traceback)
            return
        if current != task:
            raise left_by_another(self._contest)
        self._unmark()
        self._scope = self._task = None
        if scope.__exit__(exc_type, exc, traceback) and exc is not None:
            # `__anext__` raised it, but the body went on.
            assert self._failure is not None, "nothing else cancels the body"
            raise self._failure


class QueueItem(Claimed[V]):
    """An item of a queue, held for the body of an `async with`.

    It is released when the body ends or the claim is lost, unless it was acknowledged. `Tenure`
    describes `token`, `check()`, `fenced()` and the other members.
    """

    @property
    def dead_letter(self) -> DeadLetter | None:
        """Where a dead letter comes from, and why; None for other items."""
        return decode_letter(self._claim.content.rest)

    async def ack(self) -> None:
        """Acknowledge the item: delete it from the queue.

        Returns once the servers have confirmed: no consumer gets the item any more. The body goes
        on, but holds nothing. Further calls have no effect.

        If others have put znodes below the item, the servers cannot delete it. Then it stays,
        behind a persistent claim by which no consumer gets it again. A line at WARNING names both
        znodes.

        Raises:
            ClaimLost: the claim was lost, or others deleted the item.
            UsageError: the item was released, or another task is acknowledging it.

        Cancellation: the item may or may not be acknowledged; if not, leaving the body releases it.

        On connection loss: checks whether the item was acknowledged, and retries if not. If the
        session ends first, the claim is lost, and another consumer may get the item.
        """
        await self._finish(lambda _: None)


_BY_PRIORITY = PriorityNames()
_BY_TIME = DelayNames()


class _Queue(HoldingRecipe[QueueItem[V]], Generic[V]):
    """The base of all queues: everything except `put`."""

    _names = ItemNames()
    _clock: Callable[[], float] = staticmethod(time.time)

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        codec: Codec[V] | None = None,
        claims: str | None = None,
        max_items: int = 10_000,
        retry_pause: float = RETRY_PAUSE,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._codec: Codec[Any] = Codec.raw() if codec is None else checked_codec(codec)
        claims = checked_path(f"{checked_path(path)}-claims" if claims is None else claims)
        if claims == path:
            raise ConfigurationError(f"claims: must not be the path of the items: {claims!r}")
        most = checked_count("max_items", max_items, most=MOST_ITEMS)
        client, acl = checked_client(client), checked_acl(acl)
        pause = checked_number("retry_pause", retry_pause)
        limit = AttemptLimit.checked(client, max_attempts, dead_letters, acl, others=(path, claims))
        self._available = AvailableItems(
            client,
            path,
            claims,
            self._names,
            clock=self._clock,
            on_invalid=checked_on_invalid(on_invalid),
            acl=acl,
        )
        kind = cast("Kind[QueueItem[V]]", QueueItem)
        contest = Contest(
            type(self).__name__,
            client,
            path,
            kind,
            partial(ItemClaim, self._available, decode, self._codec, pause, limit),
            identity=identity,
            on_disconnect=on_disconnect,
            acl=acl,
            is_guarded=False,
            to_hold="async with queue.get() as item:",
            to_try="async with queue.try_get() as item:",
        )
        super().__init__(contest)
        self._producer = ItemProducer(client, path, most, self._acl)

    def consume(self) -> Consumption[QueueItem[V]]:
        """Claim items one after the other, as an async iterator: see `Consumption`."""
        return Consumption(self._contest)

    def get(self, *, timeout: float | None = None) -> TenureContext[QueueItem[V]]:
        """Claim the next item for the body of an `async with`.

            async with queue.get() as item:
                await work(item.data)
                await item.ack()

        Waits for an item for `timeout` seconds, by default forever; 0 looks once. Leaving the body
        without `ack` releases the item for another attempt, which `retry_pause` delays. If the
        process dies, its session's expiry does the same, without a pause. `item.attempts` counts.

        Raises:
            AcquireTimeout: on entering: there was no item in time.
            MixedLayoutError: on entering: others contend for a lock, an election or a semaphore on
                the path.
            ClaimLost: on leaving: the claim was lost, so that another consumer gets the item, and
                the cancelled body raised nothing else.

        Cancellation: claims nothing, or releases the item.

        On connection loss: waiting continues, also across expired sessions; a claim is held as long
        as the lease lasts.
        """
        return self._context(timeout)

    def try_get(self) -> TenureContext[QueueItem[V] | None]:
        """As `get`, but yields None at once if no item is free. May lag, as `Lock.holders`."""
        return self._context(0, is_try=True)

    async def size(self) -> int:
        """The number of items, claimed ones included. May lag, as `Lock.holders`."""
        return await self._producer.size()

    async def _put(self, prefix: str, items: Iterable[V]) -> list[str]:
        several = checked_several("items", items, "items (one is for put())")
        bodies = [encode([encoded(self._codec, data, name="data")]) for data in several]
        if not bodies:
            raise ConfigurationError("items: must not be empty")
        return await self._producer.put(prefix, bodies)


@final
class Queue(_Queue[V]):
    """A queue: items persist until a consumer acknowledges them; first come, first served.

        name = await queue.put(b"...")

        async with queue.get() as item:
            await work(item.data)
            await item.ack()

    *At least once.* A claim, an ephemeral znode, gives an item to one consumer at a time. The next
    consumer gets it if the first dies or leaves without `ack`, but never once `ack` has returned.
    If the claim is lost, the body is cancelled before the servers can give the item to another
    consumer.

    Items are first handed out in the order in which they were put. A released item is the first one
    again, once its pause is over. An item that others have put znodes below is passed over while
    those exist, with a warning in the log. The format is that of Curator's `DistributedQueue` with
    a `lockPath`.

    Args:
        client: the session.
        path: the path of the items; created as a persistent znode if missing.
        codec: the format of the items' data, for `put` and `item.value`; defaults to unchanged
            bytes. An item that it refuses is invalid: see `on_invalid`.
        claims: the path of the claims, Curator's `lockPath`; defaults to `<path>-claims`.
        max_items: how many items there may be, at most 25,000. A soft limit: see `put`.
        retry_pause: for how long an item rests when its second attempt ends without `ack`, in
            seconds. The pause doubles with each attempt, up to a minute. After the first attempt
            there is none. 0: never.
        max_attempts: how many consumers may get an item, one after the other, before it moves to
            `dead_letters`; by default any number. All consumers should have the same.
        dead_letters: the path of the queue that such items move to, with the reason
            (`QueueItem.dead_letter`). The move is one transaction. It is made as the last attempt
            ends, or by the next consumer if the last one died.
        identity: the holder's name in claims; defaults to host name and process id.
        on_invalid: called synchronously with the `InvalidDataError` of an invalid item; logs a
            warning by default. The item stays, and this object skips it. With `max_attempts` this
            counts as an attempt, and the item moves to `dead_letters` after the last one.
        on_disconnect: the fate of claims on connection loss: `"keep"` keeps them while the
            lease lasts, `"resign"` releases them at once.
        acl: of items, claims, and created paths; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    async def put(self, data: V) -> str:
        """Add an item; return its name.

        Raises:
            QueueFullError: `max_items` are there. Each client counts at its last put, so the limit
                may be exceeded by one put per client, and puts in flight.
            SequenceExhaustedError: the path has no more numbers.
            MixedLayoutError: others contend for a lock, an election or a semaphore on the path.
                Checked at the client's first put.
            ServerError: the server refuses, for example with `NoAuthError`.

        Cancellation: the item may or may not be added.

        On connection loss: `ConnectionLossError`. With the outcome `UNKNOWN` the item may have been
        added; servers choose the names, so no client can find out, and a retry may add it twice. If
        that matters, give items an id in their data.
        """
        return (await self._put("queue-", [data]))[0]

    async def put_many(self, items: Iterable[V]) -> list[str]:
        """Add separate items, all or none, one behind the other; return their names in order.

        They are one transaction, so together they must fit into a packet (1 MiB by default).
        Otherwise as `put`.
        """
        return await self._put("queue-", items)


@final
class PriorityQueue(_Queue[V]):
    """A queue with priorities: the smallest first, equal ones first come, first served.

    Items are listed again for each hand-out, since a smaller one may have come. Otherwise as
    `Queue`. The format is that of Curator's `DistributedPriorityQueue`.
    """

    _names = _BY_PRIORITY

    async def put(self, data: V, *, priority: int = 0) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        `priority` is from -2^31 to 2^31 - 1; the smallest comes first.
        """
        return (await self._put(_BY_PRIORITY.prefix(priority), [data]))[0]

    async def put_many(self, items: Iterable[V], *, priority: int = 0) -> list[str]:
        """Add several items of one priority; see `Queue.put_many`."""
        return await self._put(_BY_PRIORITY.prefix(priority), items)


@final
class DelayQueue(_Queue[V]):
    """A queue whose items are handed out when they are due, the earliest first.

    Consumers compare the due time in an item's name with their own `clock`, in seconds since the
    epoch: items come early or late by the difference to the producer's clock. Nothing else depends
    on clocks. Otherwise as `Queue`. The format is that of Curator's `DistributedDelayQueue`.
    """

    _names = _BY_TIME

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        *,
        codec: Codec[V] | None = None,
        claims: str | None = None,
        max_items: int = 10_000,
        retry_pause: float = RETRY_PAUSE,
        max_attempts: int | None = None,
        dead_letters: str | None = None,
        clock: Callable[[], float] = time.time,
        identity: str | None = None,
        on_invalid: OnInvalid | None = None,
        on_disconnect: OnDisconnect = "keep",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        self._clock = clock
        super().__init__(
            client,
            path,
            codec=codec,
            claims=claims,
            max_items=max_items,
            retry_pause=retry_pause,
            max_attempts=max_attempts,
            dead_letters=dead_letters,
            identity=identity,
            on_invalid=on_invalid,
            on_disconnect=on_disconnect,
            acl=acl,
        )

    async def put(self, data: V, *, delay: float | None = None, at: float | None = None) -> str:
        """Add an item; return its name. Otherwise as `Queue.put`.

        It is due in `delay` seconds, or `at` a time in seconds since the epoch; give one of the
        two.
        """
        return (await self._put(self._prefix(delay, at), [data]))[0]

    async def put_many(
        self, items: Iterable[V], *, delay: float | None = None, at: float | None = None
    ) -> list[str]:
        """Add several items that are due at the same time; see `Queue.put_many`."""
        return await self._put(self._prefix(delay, at), items)

    def _prefix(self, delay: float | None, at: float | None) -> str:
        if delay is not None and at is None:
            return _BY_TIME.prefix(self._clock() + _checked_delay(delay))
        if at is not None and delay is None:
            return _BY_TIME.prefix(at)
        raise ConfigurationError("put: needs either delay or at")


def _checked_delay(delay: float) -> float:
    """Check a delay: any number of seconds, since an item may be overdue already."""
    try:
        return real(delay)
    except MalformedError:
        raise ConfigurationError(
            f"delay: must be a number of seconds, not {described(delay)}"
        ) from None
