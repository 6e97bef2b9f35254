"""A term: the tenure of an election, which others may ask to end, and its planned hand-over.

A contender becomes the next one, since those before it step behind. Nothing here makes a leader:
the order of the queue decides that. A waiter that is asked for its place leaves it, and joins again
at the end. Then the leader resigns, as it may at any time. So whatever fails on the way, the lowest
living contender leads (docs/explanation/recipe-designs.md).

A hand-over goes through these states. A state that follows is never left backwards, and each znode
is asked for its place once at most. So the number of requests is bounded, whatever others do.

wanted     no waiter is the successor. It watches the queue.
known      the first look that shows the successor: from here on, its znode is the successor. It
           asks the waiters before it, and watches those and the successor.
gone       that znode is gone: it died, was deleted, or another hand-over has asked it to step
           behind. The first waiter is the successor; with priorities, the best one.
prepared   the successor is the first waiter, is ready, and is not asked to step behind.

Several at once, by several processes, are decided by the queue alone:

* For the same successor: both end as prepared.
* For different ones: the later request decides. It makes the other one's successor step behind, so
  the other one goes on with the first waiter, which is the successor of the later one.
* With `revoke`: the leader that is asked resigns as it does at any time. A successor that leads by
  then is not asked.

One term has one hand-over at a time (`Term.prepare_hand_over`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import anyio
import anyio.lowlevel

from .._util.contender_names import rules_of
from .._util.escaping import in_seconds
from ..abc import CoordinationClient
from ..errors import (
    AioleadError,
    BadVersionError,
    ConfigurationError,
    HandOverTimeout,
    LeadershipLost,
    LossReason,
    NoNodeError,
    UsageError,
)
from ..model import EventType, Participant, WatchEvent
from ..paths import basename
from .errors import Step, before_next_try, until_answered
from .hold import Body, Place, Tenure
from .place_parts import Alarm
from .reading import MAX_IDENTITY, is_ready, is_request, participant, ready
from .recipe import checked_text, checked_wait
from .rivals import Entry, ask_to_release, entries, is_like_ours
from .znode import Znode

if TYPE_CHECKING:
    from .contender_queue import ContenderQueue
    from .holding import Contest

__all__ = ["Term"]

PATIENCE = 20.0
"""How long to wait for a successor by default, in seconds: Kubernetes kills after 30."""


@dataclass(frozen=True, slots=True)
class Succession:
    """A successor that is ready and the next one, and the holders that were before it then."""

    successor: Participant
    holders: Sequence[Entry]


@final
class HandOver:
    """Makes a contender the next one, and waits until it is ready.

    Args:
        queue: the queue of the election.
        name: the identity of the successor; None if any will do. Of several, it is the one with the
            highest priority, then the first one. Once its znode was there and is gone, any will do.
        check: called before each look, and before anything follows from it; an exception ends this.
        may_lead: whether it is enough that the successor leads by now. Then no holders were before
            it.
    """

    def __init__(
        self,
        queue: ContenderQueue,
        name: str | None,
        check: Callable[[], object] | None = None,
        *,
        may_lead: bool = False,
    ) -> None:
        if name is not None and not checked_text("successor", name, most=MAX_IDENTITY):
            raise ConfigurationError("successor: must not be empty")
        self._queue = queue
        self._client = queue.client
        self._is_wanted: Callable[[Participant], bool] = (
            _anybody if name is None else partial(_is_named, name)
        )
        self._check: Callable[[], object] = check or _no_check
        self._may_lead = may_lead
        self._is_there = False
        """Whether a contender was there that is the successor."""
        self._missing = "nobody waits" if name is None else f"no contender {name!r} waits"
        self._obstacle = self._missing
        self._alarm = Alarm(queue.client)

    def look_again(self) -> None:
        """Something has happened that `check` may raise for."""
        self._alarm.set()

    async def prepared(self, timeout: float | None) -> Succession:
        """Wait until the successor is the next contender, and ready.

        Raises `HandOverTimeout`, or what the servers answer. Cancellation: those that were asked
        may have stepped behind. On connection loss: goes on.
        """
        with anyio.move_on_after(checked_wait(timeout)):
            return await self._prepared()
        raise HandOverTimeout(
            f"{self._queue.path}: no successor was ready within {in_seconds(timeout or 0.0)}: "
            f"{self._obstacle}"
        )

    async def _prepared(self) -> Succession:
        try:
            while True:
                self._check()
                self._alarm.renew()
                try:
                    if not self._is_there:
                        await self._watch_queue()
                    found = await self._look()
                except AioleadError as error:
                    await before_next_try(self._client, error, Step.FOLLOW)
                else:
                    self._check()
                    if found is not None:
                        return found
                    await self._alarm.wait()
        finally:
            self._alarm.close()

    async def _watch_queue(self) -> None:
        """Watch for newcomers. Only while there is no successor: each one costs a listing."""
        client, path = self._client, self._queue.path
        try:
            await client.get_children(path, watch=self._alarm.watch())
        except NoNodeError:
            if await client.exists(path, watch=self._alarm.watch()) is not None:
                self._alarm.set()

    async def _look(self) -> Succession | None:
        """Look who is where, ask those before the successor, and watch all of them."""
        found = await entries(self._queue)
        self._check()  # or else it might ask those that hold by now
        holders = [entry for entry in found if entry[0].is_holder]
        for leader, _, _ in holders if self._may_lead else ():
            if self._is_wanted(leader):
                return Succession(leader, ())
        waiters = found[len(holders) :]
        at = self._find(waiters)
        if at is None:
            return None
        before, (successor, _, _) = waiters[:at], waiters[at]
        name = successor.identity
        better = [who for who, _, _ in waiters if _priority(who) > _priority(successor)]
        if better:
            # It would step back behind them, so nobody is asked.
            self._obstacle = f"{name!r} has a lower priority than {better[0].identity!r}"
            await self._watch_all([successor])
            await self._watch_all(better)
            return None
        ours = [each for each in before if is_like_ours(self._queue, basename(each[0].path))]
        if len(ours) < len(before):
            self._obstacle = f"{name!r} is behind a contender of another library, which stays"
        elif before:
            self._obstacle = f"{name!r} is behind {len(before)} that were asked to step behind"
        else:
            self._obstacle = f"{name!r} has not reported that it is ready"
        await ask_to_release(self._queue, ours)
        look = self._client.get(successor.path, watch=self._alarm.watch())
        await self._watch_all([each for each, _, _ in before])
        try:
            data, stat = await look
        except NoNodeError:
            self._alarm.set()
            return None
        if before or stat.czxid != successor.token or not is_ready(data):
            return None
        if is_request(data) and is_like_ours(self._queue, basename(successor.path)):
            self._obstacle = f"another hand-over asks {name!r} to step behind"
            return None
        return Succession(participant(successor.path, data, stat, is_holder=False), holders)

    def _find(self, waiters: Sequence[Entry]) -> int | None:
        """The place of the successor among the waiters; None if it is not there."""
        at = self._place_of_wanted(waiters)
        if at is None and self._is_there:
            # It is gone, so the next one in the queue is the successor.
            self._is_wanted, self._may_lead, self._is_there = _anybody, False, False
            self._obstacle = self._missing = "the successor is gone, and nobody else waits"
            self._alarm.set()  # the queue has to be watched if nobody is there
            at = self._place_of_wanted(waiters)
        self._is_there = at is not None
        if at is None:
            self._obstacle = self._missing
        elif self._is_wanted is not _anybody:
            self._is_wanted = partial(_is_at, waiters[at][0].token)
        return at

    def _place_of_wanted(self, waiters: Sequence[Entry]) -> int | None:
        wanted = [n for n, (who, _, _) in enumerate(waiters) if self._is_wanted(who)]
        return max(wanted, key=lambda n: (_priority(waiters[n][0]), -n), default=None)

    async def _watch_all(self, before: Sequence[Participant]) -> None:
        """Look again when all of them are gone, rather than after each one."""
        left = {who.path for who in before}

        def happened(path: str, event: WatchEvent) -> None:
            left.discard(path)
            if not left or event.type is not EventType.DELETED:
                self._alarm.set()

        looks = [
            (
                who.path,
                self._client.exists(who.path, watch=self._alarm.watch(partial(happened, who.path))),
            )
            for who in before
        ]
        for path, look in looks:
            if await look is None:
                left.discard(path)
        if before and not left:
            self._alarm.set()


def _priority(who: Participant) -> float:
    priority = rules_of(basename(who.path)).priority
    return -math.inf if priority is None else priority


def _no_check() -> None:
    """The check of an observer, which holds nothing."""


def _anybody(_: Participant) -> bool:
    return True


def _is_named(name: str, who: Participant) -> bool:
    return who.identity == name


def _is_at(token: int, who: Participant) -> bool:
    return who.token == token


async def report_ready(client: CoordinationClient, znode: Znode, data: bytes) -> bool:
    """Let a contender's znode say that it is ready; return whether there is one, or was.

    `data` is that of a znode which is created later. Writes by version, so that a request to
    release, which others may write at the same time, stays.
    """
    znode.data = data
    node = znode.current
    if node is None:
        return False

    async def write() -> None:
        while True:
            seen, stat = await client.get(node.path)
            if is_ready(seen) or stat.czxid != node.token:
                return
            try:
                await client.set(node.path, ready(seen), version=stat.version)
            except BadVersionError:
                continue

    with suppress(NoNodeError):  # it joins again, with the new data
        await until_answered(client, write)
    return True


class Term(Tenure):
    """One unbroken time of leadership.

    If `revoke` asks for it, and the election has `on_revocation="resign"`, the body is cancelled.
    From then on `check()` raises, and `loss` is `LossReason.REVOKED`. The term is held, and its
    lease renewed, until the body has ended.
    """

    __slots__ = ("_grace", "_grace_period", "_hand_over", "_is_revoked", "_queue")

    _lost_error = LeadershipLost

    def __init__(
        self,
        contest: Contest[Any],
        place: Place,
        body: Body,
        *,
        queue: ContenderQueue,
        revocation_grace: float | None = None,
    ) -> None:
        self._queue = queue
        self._grace = revocation_grace
        """Seconds from a request until the body must end; None if the body decides."""
        self._grace_period: anyio.CancelScope | None = None
        self._hand_over: HandOver | None = None
        self._is_revoked = False
        super().__init__(contest, place, body)
        if self._is_asked_for:
            self._begin_grace()

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and after a release.

        By the clock, as for every `Tenure`. `REVOKED` once its body must end: it is held until the
        body has ended.
        """
        loss = super().loss
        return LossReason.REVOKED if loss is None and self._is_revoked else loss

    def check(self) -> None:
        """Return if it is held now, by the clock, and the body need not end. Sends nothing.

        As `Tenure.check`, and also raises `LeadershipLost` (`LossReason.REVOKED`) once a revocation
        has cancelled the body, as no cancellation reaches threads.
        """
        super().check()
        if self._is_revoked:
            raise self._error()

    def _why_not_held(self) -> Exception:
        why = super()._why_not_held()
        # The body has ended since it was revoked, which its own end does not hide.
        return self._error() if self._is_revoked and not self._released else why

    def _ask_for(self) -> None:
        super()._ask_for()
        self._begin_grace()

    def _begin_grace(self) -> None:
        if self._grace is None:
            return
        if self._grace:
            self._client.backend.spawn(self._wait_for_body)
        else:
            self._end_body()

    async def _wait_for_body(self) -> None:
        with anyio.CancelScope() as self._grace_period:
            await anyio.sleep(self._grace or 0.0)
            self._end_body()

    def _end_body(self) -> None:
        """Cancel the body, which has not ended by itself. The hold goes on until it has ended."""
        if self._loss is None and self._lasted is None and not self._has_left:
            self._is_revoked = True
            self._cancel_body()
            self._call_lost_callbacks()
            self._end_hand_over()

    def _why_ended(self) -> Exception | None:
        return super()._why_ended() or (self._error() if self._is_revoked else None)

    def _has_ended(self) -> None:
        super()._has_ended()
        if self._grace_period is not None:
            self._grace_period.cancel()
        self._end_hand_over()

    def _end_hand_over(self) -> None:
        if self._hand_over is not None:
            self._hand_over.look_again()

    @property
    def _given_up_as(self) -> str:
        return "revoked" if self._is_revoked else super()._given_up_as

    async def resign(self) -> None:
        """Resign: `release`, by its name for leadership."""
        await self.release()

    async def prepare_hand_over(
        self, to: str | None = None, *, timeout: float | None = PATIENCE
    ) -> Participant:
        """Wait until a successor is the next in the queue, and ready; return it. Leads on.

        Stop the work then, and resign. If the successor dies before it leads, the next contender
        of the queue leads.

        Args:
            to: the successor's identity. The waiters before it are asked to step behind, and join
                the queue again at its end; those of other libraries stay. It need not wait yet.
                If it goes, or another process makes it step behind for another successor, the first
                one that waits is the successor. So it is for None, the default. With priorities,
                that is the best one, and a successor that is not the best one is waited for until
                it is.
            timeout: how long to wait, in seconds, 20 by default. None waits forever.

        Raises:
            HandOverTimeout: no successor was ready in time; says what it waited for.
            LeadershipLost: the term was lost, or is being revoked, meanwhile.
            UsageError: it was resigned; or another task hands it over.
            ServerError: the servers' answer to a read or a request, such as `NoAuthError`.

        Cancellation: the term goes on. On connection loss: goes on as long as the lease lasts.
        """
        self._client.backend.check_home()
        if self._hand_over is not None:
            raise UsageError(f"{self!r}: another task hands it over: cancel that one first")
        hand_over = self._hand_over = HandOver(self._queue, to, self.check)
        try:
            return (await hand_over.prepared(timeout)).successor
        finally:
            self._hand_over = None

    async def hand_over(
        self, to: str | None = None, *, timeout: float | None = PATIENCE
    ) -> Participant:
        """Resign once a successor is the next in the queue, and ready; return it.

        As `prepare_hand_over`, and `resign`: the body goes on, but holds nothing any more. So stop
        the work first, or use the two, and stop it in between.

        Raises what these two raise. If it raises `HandOverTimeout`, the term goes on.

        Cancellation: the term goes on, unless it was resigned by then.
        """
        successor = await self.prepare_hand_over(to, timeout=timeout)
        await self.release()
        return successor
