"""Items held under a claim, until they are released or finished.

A claim is the ephemeral znode that marks an item as taken. One transaction counts the attempt and
creates the claim; two reads follow in the same segment. So a deleted item is never claimed, and one
round trip brings the item.

The servers count the attempts: the transaction also creates a znode below the item, and deletes it
again, which raises the item's `cversion`. So the count needs no request and no data of its own. It
is there before the consumer has the item, so a consumer that dies has made an attempt; and it never
falls. Curator ignores it, and its own consumers do not count.

The name of an item stays reserved until its claim is known to be gone, even if callers are
cancelled or connections lost: two consumers of one client never work under the same name.

Finishing is one transaction: it checks the claim, writes the results, and deletes item and claim.
So an item is finished at most once, and only by its holder.

No server deletes an item that others have put znodes below. Then the transaction replaces the claim
by a persistent znode of the same name, with data that only this claim has. So no consumer gets the
item again, of this library or of Curator, also after this session has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel

from ..abc import CoordinationClient, Reply, Transaction, Watch
from ..errors import (
    AioleadError,
    ClaimLost,
    ConfigurationError,
    Fenced,
    LossReason,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    SessionError,
    TenureLost,
    TransactionError,
    UsageError,
)
from ..model import ACL, Created, CreateMode, Stat
from ..paths import join
from .attempts import DIED, AttemptLimit, PausedDelete, pause_after, reason_of
from .codec import Codec
from .errors import (
    Action,
    Step,
    action_for,
    before_next_try,
    may_be_applied,
    until_answered,
    with_parent,
)
from .fixed import Fixed, find_at
from .hold import Tenure
from .holding import Contest
from .naming import Departure, Found, Over, RegisteredNode, Sent
from .place_parts import WatchingPlace
from .queue_items import AvailableItems, Content, with_values
from .reading import caught_up, read_data
from .recipe import checked_number
from .reporting import PathWarnings
from .znode import NodeGone, Znode, ZnodeState

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    V = DefaultTypeVar("V", default=bytes)
else:
    V = TypeVar("V")

__types__ = ["Claimed"]

Decode = Callable[[bytes], Content]
"""Decodes the data of an item; raises ValueError if they are invalid."""


MARK = "attempt"
"""The name of the znode that is created and deleted below an item to count an attempt."""

_ITEM, _CLAIM = 0, 1
"""The operations of a claim's transaction that others may make fail."""


def _is_taken(error: TransactionError) -> bool:
    """Whether the claim exists already."""
    return error.index == _CLAIM and isinstance(error.cause, NodeExistsError)


def attempts_of(item: Stat) -> int:
    """How often an item was claimed, as of its `Stat`: half of the changes below it.

    Znodes that others have put below it count as well.
    """
    return ((item.cversion + item.num_children) & 0xFFFF_FFFF) // 2


class ClaimNaming(Fixed):
    """The naming of a claim, which is created by a transaction that checks the item."""

    def __init__(self, client: CoordinationClient, available: AvailableItems, name: str) -> None:
        super().__init__(client, join(available.claims_path, name), is_contended=True)
        self.name = name
        self.item = join(available.items_path, name)
        self.is_counted = True
        """Whether a claim counts as an attempt; False if the servers refuse that."""
        self.pause: tuple[float, bytes] | None = None
        """How long the claim stays after it was given up, in seconds, and its data meanwhile."""
        self._create: Reply[Any] | None = None
        """The last create, until the read behind it has shown the czxid."""

    def send_create(self, _session_id: int, data: bytes, acl: Sequence[ACL] | None) -> Sent:
        path, mode = self.path, CreateMode.EPHEMERAL
        transaction, mark = self._client.transaction(), join(self.item, MARK)
        if self.is_counted:
            transaction.create(mark).create(path, data, mode=mode, acl=acl).delete(mark)
        else:
            transaction.check(self.item).create(path, data, mode=mode, acl=acl)
        create = self._create = transaction.commit()
        return cast("Reply[Created]", create), path, mode

    def claim(self, created: Created, session_id: int, since: int | None = None) -> RegisteredNode:
        if since is None:
            return super().claim(created, session_id)
        # A transaction's answer has no czxid; the read behind it has (`shown`).
        return RegisteredNode(self.path, self.name, 0, -since, session_id)

    def claim_shown(self, stat: Stat, session_id: int) -> RegisteredNode:
        """Record the czxid of a created znode, which a read has shown."""
        self._create = None
        self.registry.claimed[stat.czxid] = None
        return RegisteredNode(self.path, self.name, 0, stat.czxid, session_id)

    def unclaim(self, node: RegisteredNode) -> None:
        if node.token <= 0:
            self._create = None
        super().unclaim(node)

    def takes(self, create: Reply[Any], stat: Stat | None) -> bool:
        """Whether to take what a read behind a create has shown: a lost create made it."""
        error = create.error()
        if stat is None or not isinstance(error, TransactionError) or not _is_taken(error):
            return False
        return self.judge(stat, is_ours=self.is_from_lost_create(stat))

    async def find(self, path: str, session_id: int, data: bytes, found: Found) -> None:
        def is_ours(seen: bytes, stat: Stat) -> bool:
            if self._is_being_claimed:
                return False  # it is the wanted one
            return self.may_be_from(seen, data) and self.is_from_lost_create(stat)

        await find_at(self._client, path, is_ours, found)

    @property
    def _is_being_claimed(self) -> bool:
        create = self._create
        return create is not None and (not create.is_done or create.error() is None)

    def delete(
        self, node: RegisteredNode, data: bytes, watch: Watch | None, over: Over
    ) -> Departure:
        self._create = None
        if self.pause is None:
            return super().delete(node, data, watch, over)
        delay, data = self.pause
        return PausedDelete(self._client, self, node, watch, over, data=data, delay=delay)


@dataclass(slots=True, eq=False)
class _Claim:
    """The znode that claims one item, with its naming."""

    naming: ClaimNaming
    znode: Znode

    @property
    def name(self) -> str:
        return self.naming.name

    @property
    def item(self) -> str:
        return self.naming.item

    def look_behind_create(
        self, client: CoordinationClient, create: Reply[Any] | None
    ) -> Reply[Stat | None]:
        """Read the znode behind its create, in one segment; `create` is None if there is one.

        If the znode existed before, it is ours if a create made it whose answer was lost.
        """
        look = client.exists(self.naming.path)
        if create is not None:
            self.znode.find_by(look, partial(self._judge, create))
        return look

    def _judge(self, create: Reply[Any], stat: Stat | None) -> None:
        if self.naming.takes(create, stat):
            assert stat is not None, "it was seen"
            self.znode.take(Created(self.naming.path, stat))

    def shown(self, stat: Stat | None) -> None:
        """Record the read that followed the create; raises `NodeGone` if the znode is not ours."""
        node = self.znode.node
        if stat is None or not node.is_shown_by(stat):
            self.znode.seen_gone()
            raise NodeGone
        self.znode.replace(self.naming.claim_shown(stat, node.session_id))

    def end(self, give_back: Callable[[str], object]) -> Departure | None:
        """Delete the claim; once it is gone, call `give_back(name)`. Return the pending delete."""
        departure = self.znode.discard()
        self.znode.when_over(partial(give_back, self.name))
        return departure


class ItemClaim(WatchingPlace):
    """The claim of the first free item, as a `Place`."""

    def __init__(
        self,
        available: AvailableItems,
        decode: Decode,
        codec: Codec[Any],
        pause: float,
        limit: AttemptLimit | None,
        contest: Contest[Any],
    ) -> None:
        super().__init__(contest)
        self._reporting = contest.reporting
        self.available = available
        self.content = Content(())
        """Known once the item is claimed."""
        self.attempts = 0
        """How often the item was claimed, this time included; known once it is."""
        self._decode = decode
        self._codec = codec
        self._pause = pause
        self.limit = limit
        """The most attempts; None if there may be any number."""
        self._own: _Claim | None = None
        self._discarded = False
        self._looks = available.looks
        available.enter()

    @property
    def own(self) -> _Claim:
        """Our claim; only while an item is reserved."""
        if self._own is None:
            raise AssertionError("nothing is claimed")
        return self._own

    @property
    def item(self) -> str:
        """The path of the reserved item."""
        return self.own.item

    @property
    def znodes(self) -> Sequence[Znode]:
        return () if self._own is None else (self._own.znode,)

    # --- claiming --------------------------------------------------------------------------------

    async def get(self, *, wait: bool) -> bool:
        while not await self._claim_first():
            if not wait:
                return False
            self.is_new = False
            await self.available.wait()
        return True

    async def _claim_first(self) -> bool:
        """Claim the first free item; False if there is none."""
        available = self.available
        if self._own is not None and await self._claim(self._own):
            return True
        if available.names.is_strict and available.is_stale:
            await available.look()
        elif available.looks == self._looks and available.is_contended:
            await available.check_next()
        while True:
            name = available.pop()
            if name is None:
                if not available.is_stale:
                    return False
                await available.look()
                continue
            naming = ClaimNaming(self._client, available, name)
            znode = Znode(self._client, naming, self._data, available.acl, self._alarm)
            own = self._own = _Claim(naming, znode)
            if await self._claim(own):
                return True
            if available.looks == self._looks:
                # The list is old: its next item is probably gone as well.
                await available.check_next()

    async def _claim(self, own: _Claim) -> bool:
        """Claim and read the reserved item; False if that is impossible."""
        available, mode = self.available, CreateMode.CONTAINER
        request = partial(self._request, own)
        claims = available.claims_path
        return await with_parent(self._client, claims, request, mode=mode, acl=available.acl)

    async def _request(self, own: _Claim) -> bool:
        client, available = self._client, self.available
        is_there = await own.znode.resolve()
        with client.pipelined():
            asked = None if is_there else own.znode.create()
            look, read = own.look_behind_create(client, asked), client.get(own.item)
        if asked is not None:
            try:
                await asked
                self.is_new = True
            except TransactionError as error:
                if self._is_only_count_refused(own, error):
                    own.naming.is_counted = False
                    return await self._request(own)
                is_path_missing = error.index == _CLAIM and isinstance(error.cause, NoNodeError)
                if is_path_missing or not isinstance(error.cause, (NodeExistsError, NoNodeError)):
                    raise error.cause from None
                if isinstance(error.cause, NodeExistsError):
                    await look
                if own.znode.state is ZnodeState.ABSENT:
                    self._missed(own, error)
                    return False
        own.shown(await look)
        try:
            body, of_item = await read
        except NoNodeError:
            self._end(available.free)  # somebody has deleted the item by hand
            return False
        if of_item.num_children:
            available.set_aside(own.name)
            self._end(available.free)
            return False
        self.attempts = max(1, attempts_of(of_item))
        limit = self.limit
        try:
            self.content = with_values(self._codec, self._decode(body))
        except ValueError as error:
            self.content = Content((body,), invalid=error)
        invalid = self.content.invalid
        if invalid is not None:
            if limit is None or self.attempts < limit.most:
                available.invalid(own.name, of_item.version, invalid, is_final=limit is None)
                self.rest()
                self._end(available.free)
            else:
                await self._give_up(limit, f"invalid: {invalid}")
            return False
        if limit is not None and self.attempts > limit.most:
            await self._give_up(limit, DIED)
            return False
        return True

    async def _give_up(self, limit: AttemptLimit, reason: str) -> None:
        """Give up the item that was just claimed, in one transaction with its claim.

        If the answer is lost, the next try finds out: either our claim is gone, or all is there.
        """
        own, attempts = self.own, self.attempts
        claim = own.naming.path
        try:
            await limit.prepare()
            transaction = self._client.transaction().check(claim)
            limit.add(transaction, own.item, self.content.parts, attempts, reason)
            await transaction.delete(own.item).delete(claim)
        except AioleadError as error:
            self._could_not_give_up(limit, error)
        else:
            self._reporting.given_up(self._client.session_id, own.name, attempts)
            self.done()

    def _could_not_give_up(self, limit: AttemptLimit, error: AioleadError) -> None:
        """Leave the item to a later attempt; raise what concerns the connection or the session."""
        if isinstance(error, TransactionError):
            if error.index == 0 and isinstance(error.cause, NoNodeError):
                self.own.znode.seen_gone()
                raise NodeGone from None
            if isinstance(error.cause, NotEmptyError):
                self.available.set_aside(self.own.name)
                self._end(self.available.free)
                return
            if isinstance(error.cause, NoNodeError) and error.index == len(error.results) - _LAST:
                self._end(self.available.free)  # somebody has deleted the item by hand
                return
            error = error.cause
        if isinstance(error, SessionError) or action_for(error, Step.ACQUIRE) in _PASSING:
            raise error
        limit.warn(self.own.item, error)
        self.rest()
        self._end(self.available.free)

    def _is_only_count_refused(self, own: _Claim, error: TransactionError) -> bool:
        """Whether the item may be claimed without counting the attempt.

        Its ACL may forbid to create znodes below it, or to delete them, and a quota that is used up
        forbids any: then consumers are needed more than ever.
        """
        is_refused = isinstance(error.cause, (NoAuthError, QuotaExceededError))
        return own.naming.is_counted and error.index != _CLAIM and is_refused

    def _missed(self, own: _Claim, error: TransactionError) -> None:
        """The item is gone, another consumer has it, or others have put a `MARK` below it."""
        if error.index == _ITEM and isinstance(error.cause, NodeExistsError):
            self.available.set_aside(own.name)
            self._end(self.available.free)
        else:
            self.available.taken(own.name)
            self._end(self.available.gone)

    def restart(self) -> None:
        self._end(self.available.free)

    # --- releasing -------------------------------------------------------------------------------

    def done(self) -> None:
        """Our own transaction has deleted the item and our claim together."""
        if self._own is not None:
            self._own.znode.seen_gone()
            self._end(self.available.gone)

    def rest(self, delay: float | None = None, data: bytes | None = None) -> float:
        """Let the claim stay for a while once it is given up; return the pause, in seconds.

        `delay` is the pause, by default that after so many attempts; `data` is the data of the
        claim meanwhile.
        """
        if delay is None:
            delay = pause_after(self.attempts, self._pause)
        if self._own is not None and delay > 0:
            self._own.naming.pause = delay, self._data if data is None else data
        return delay

    def discard(self) -> Departure | None:
        """Release the item, if any. Synchronous: the client deletes the claim in the background."""
        if not self._discarded:
            self._discarded = True
            self.available.leave()
        return self._end(self.available.free)

    def _end(self, give_back: Callable[[str], object]) -> Departure | None:
        own, self._own = self._own, None
        return None if own is None else own.end(give_back)


_PASSING = (Action.RECONNECT, Action.PAUSE, Action.START_AGAIN)
"""The actions after errors that pass, which `acquire` takes."""

_LAST = 2
"""How many operations end the transaction, behind the results."""


class Claimed(Tenure, Generic[V]):
    """An item held under a claim: a `QueueItem`, or a `Task`."""

    _lost_error = ClaimLost

    _is_done = False
    _is_finishing = False
    _was_unanswered = False
    _was_deleted = False
    _has_children = False
    """Whether others have put znodes below the item."""
    _in_flight: Reply[object] | None = None
    _is_given_up = False
    """Whether the item is being given up rather than finished."""
    _delay: float | None = None
    """The pause after the release, in seconds, if it was asked for."""

    @property
    def name(self) -> str:
        """The name of the item, and of its claim, on the servers."""
        return self.path.rpartition("/")[2]

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts of the item: one, unless Curator's `putMulti` wrote it."""
        return self._claim.content.parts

    @property
    def data(self) -> bytes:
        """The data of the item; raises `UsageError` unless it has exactly one part (`parts`)."""
        parts = self.parts
        if len(parts) != 1:
            raise UsageError(f"{self.name} of {self._what} has {len(parts)} parts: use item.parts")
        return parts[0]

    @property
    def value(self) -> V:
        """The data of the item, as the recipe's `codec` decodes them; otherwise as `data`."""
        _ = self.data  # it must have one part
        value: V = self._claim.content.values[0]
        return value

    @property
    def attempts(self) -> int:
        """How often the item was claimed so far, this time included.

        Every claim counts, also if its consumer died or was cancelled before it had the item. The
        claims of Curator's consumers do not count, nor those of an item whose ACL forbids to create
        or delete znodes below it. Znodes that others have put below the item count, too.
        """
        return self._claim.attempts

    @property
    def _claim(self) -> ItemClaim:
        return cast(ItemClaim, self._place)

    def check(self) -> None:
        if self._is_done:
            raise UsageError(f"{self.name} of {self._what} is done with")
        super().check()

    # --- doing it --------------------------------------------------------------------------------

    async def _finish(self, add: Callable[[Transaction], object]) -> None:
        """Write results, and delete the item and its claim, in one transaction.

        `add` adds the results, once per try; a `ServerError` means that they were refused and
        nothing was applied. Otherwise as `QueueItem.ack`.
        """
        self._client.backend.check_home()
        if self._is_done:
            await anyio.lowlevel.checkpoint()
            return
        self.check()
        if self._is_finishing:
            raise UsageError(f"{self.name} of {self._what}: another task is finishing it")
        self._is_finishing = True
        try:
            while not self._is_done:
                await self._try_to_finish(add)
        finally:
            self._is_finishing = False
            self._settle()

    async def _try_to_finish(self, add: Callable[[Transaction], object]) -> None:
        transaction = self.fenced().transaction()
        add(transaction)
        if self._has_children:
            transaction.delete(self.path).create(self.path, self._mark, acl=self._contest.acl)
        else:
            transaction.delete(self._claim.item).delete(self.path)
        reply: Reply[object] = transaction.commit()
        self._in_flight = reply
        reply.add_done_callback(lambda: self._answered(reply))
        try:
            await reply
        except Fenced:
            # Perhaps by an earlier try of ours whose answer was lost.
            if self._was_unanswered and await self._was_applied():
                self._done()
            else:
                self._lose_holds(LossReason.DELETED)
        except TransactionError as error:
            is_result = error.index < len(error.results) - _LAST
            if not is_result and isinstance(error.cause, NotEmptyError):
                self._has_children = True
                return
            if is_result or not isinstance(error.cause, NoNodeError):
                raise error.cause from None
            # The item was deleted by hand; the claim still exists.
            self._was_deleted = True
        except AioleadError as error:
            if action_for(error, Step.ACQUIRE) not in (Action.RECONNECT, Action.PAUSE):
                raise
            if may_be_applied(error):
                self._was_unanswered = True
                if await self._was_applied():
                    self._done()
            if not self._is_done:
                await before_next_try(self._client, error, Step.ACQUIRE)
        if not self._is_done:
            self._is_finishing = False
            self._settle()
            self.check()
            self._is_finishing = True

    async def _was_applied(self) -> bool:
        """Whether a try whose answer was lost was applied; False once the session is over."""
        client = self._client

        async def read() -> bool:
            if client.session_id != self.session_id:
                return False
            item, claim = client.exists(self._claim.item), client.exists(self.path)
            there, claimed = await item, await claim
            if claimed is not None and claimed.ephemeral_owner == self.session_id:
                return False
            if there is not None and self._has_children:
                mark, _ = await read_data(client, self.path)
                return mark == self._mark
            return there is None

        try:
            return await caught_up(client, self._claim.available.items_path, read)
        except SessionError:
            return False

    @property
    def _mark(self) -> bytes:
        """The data of the znode that replaces this claim."""
        session_id = self.session_id & (1 << 64) - 1
        return b"finished by %016x with token %d" % (session_id, self.token)

    def _answered(self, reply: Reply[object]) -> None:
        """Process an answer in the client's task, even if nobody awaits it any more."""
        if self._in_flight is reply:
            self._in_flight = None
        if reply.error() is None:
            self._done()
        else:
            self._settle()

    def _done(self) -> None:
        if not self._is_done:
            self._is_done = self._released = True
            if self._is_given_up:
                reporting = self._contest.reporting
                reporting.given_up(self.session_id, self.name, self.attempts)
            if self._has_children:
                self._warn_of_children()
            self._claim.done()
            self._claim.discard()

    def _warn_of_children(self) -> None:
        available = self._claim.available
        self._client.backend.shared(available.items_path, PathWarnings).warn_of_children(
            self._claim.item,
            f"The item is finished, and no consumer gets it: delete it, and then {self.path}",
        )

    # --- another attempt -------------------------------------------------------------------------

    async def retry(self, *, delay: float | None = None, reason: str = "") -> None:
        """Release the item before the body has ended, for another attempt after a pause.

        After the last attempt (`max_attempts`) the item is given up instead, with `reason`.

        `delay` is the pause in seconds, 0 for none. By default it is that of an item whose body
        ends without finishing it (see `retry_pause`). The pause ends early if the client is closed,
        or its session expires. The body goes on, but holds nothing.

        Raises:
            ClaimLost: the claim was lost.
            UsageError: the item was released, or finished.

        Cancellation, on connection loss: the item is released all the same.
        """
        self._client.backend.check_home()
        if delay is not None:
            delay = checked_number("delay", delay)
        if not isinstance(reason, str):
            raise ConfigurationError(f"reason: must be a str, not {reason!r}")
        self.check()
        self._delay = delay
        try:
            await self._give_up_if_last(reason or "retry() was called")
        finally:
            await super().release()

    async def release(self) -> None:
        try:
            if not self._released:
                await self._give_up_if_last("it was released")
        finally:
            await super().release()

    async def _end(
        self, scope: anyio.CancelScope | None = None, failure: BaseException | None = None
    ) -> None:
        try:
            if not self._released:
                await self._give_up_if_last(reason_of(failure))
        finally:
            await super()._end(scope)

    async def _give_up_if_last(self, reason: str) -> None:
        """Give up the item if this was its last attempt, for a third of the session timeout.

        If that takes longer, or the hold is lost meanwhile, the next consumer moves the item. The
        same holds after a cancelled `ack`, whose outcome is not known yet.
        """
        limit = self._claim.limit
        if limit is None or self.attempts < limit.most or self.loss is not None:
            return
        if self._is_finishing or self._in_flight is not None:
            return
        claim, item, attempts = self._claim, self._claim.item, self.attempts
        self._is_given_up = True
        with anyio.move_on_after(self._client.session_timeout / 3, shield=True):
            try:
                await until_answered(self._client, limit.prepare)
                parts = claim.content.parts
                await self._finish(lambda t: limit.add(t, item, parts, attempts, reason))
            except (TenureLost, SessionError):
                pass
            except AioleadError as error:
                limit.warn(item, error)
        self._is_given_up = self._is_done or self._in_flight is not None

    def _release(self) -> None:
        if not self._is_done and self.loss is None:
            delay = self._claim.rest(self._delay, self._data_of_pause)
            self._contest.reporting.retried(self.session_id, self.name, self.attempts, delay)
        super()._release()

    @property
    def _data_of_pause(self) -> bytes | None:
        """The data of the claim during the pause; None leaves them as they were created."""
        return None

    @property
    def _given_up_as(self) -> str:
        if self._is_done:
            return "given up" if self._is_given_up else "done"
        return super()._given_up_as

    # --- losing it -------------------------------------------------------------------------------

    def _lose(self, reason: LossReason) -> None:
        # While our own delete is under way, the deletion is a loss only if others did it.
        if reason is LossReason.DELETED and (self._is_finishing or self._in_flight is not None):
            self._was_deleted = True
        else:
            super()._lose(reason)

    def _settle(self) -> None:
        """Report the deletion of our claim as a loss, once it is known that others did it."""
        if self._was_deleted and not self._is_finishing and self._in_flight is None:
            self._was_deleted = False
            # After the body was left, nobody is to be cancelled any more.
            if not self._is_done and not self._has_left:
                super()._lose(LossReason.DELETED)

    async def _confirmed(self, scope: anyio.CancelScope | None = None) -> None:
        await super()._confirmed(scope)
        if self._is_done and self._loss is LossReason.DELETED:
            self._loss = None  # we deleted it: the answer came after the body had ended
