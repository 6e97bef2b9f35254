"""Adding items, up to a limit, and consuming them: what queues and the task board have."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.lowlevel

from ..._util.tasks import current_task_id
from ...abc import CoordinationClient, Reply
from ...errors import (
    ConfigurationError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QueueFullError,
    SequenceExhaustedError,
    TransactionError,
    UsageError,
)
from ...model import ACL, CreateMode, Stat
from ...paths import basename, join, sequence_of
from .._core.acquire import Acquirable
from .._core.contexts import TenureScope, left_by_another
from .._core.error_policy import with_parent
from .._core.reading import over_sessions
from .claimed import Claimed
from .item_format import LAST_SEQUENCE

MOST_ITEMS = 25_000
"""Greatest limit: one listing of that many items stays below the packet limit of 1 MiB."""


def checked_bytes(data: bytes) -> bytes:
    if not isinstance(data, bytes):
        raise ConfigurationError(f"data: must be bytes, not {type(data).__name__}")
    return data


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
        self._put = 0  # items that we have sent
        self._seen: int | None = None  # items that were there ...
        self._seen_at = 0  # ... when we had sent that many

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
            await over_sessions(self._client, self._look)
            room = self._room()
            if count > room:
                raise QueueFullError(self._path, self._most - room, self._most)

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


C = TypeVar("C", bound=Claimed)


class Consumption(TenureScope[C]):
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
        self._task = self._contest.enter(forever=True)
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
            raise UsageError(f"{contest!r}: use `async with ... as items`, and iterate in its task")
        await self._release_last()
        try:
            tenure = await contest.contend(Acquirable.acquire, scope.cancel)
        except Exception as error:
            self._failure = error
            raise
        assert tenure is not None
        self._tenure = tenure
        return tenure

    async def _release_last(self) -> None:
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        try:
            if not tenure.is_released:
                await tenure._release()
        finally:
            tenure._has_ended()
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
        self._scope = self._task = None
        self._contest.leave(task)
        if scope.__exit__(exc_type, exc, traceback) and exc is not None:
            # `__anext__` raised it, but the body went on.
            assert self._failure is not None, "nothing else cancels the body"
            raise self._failure
