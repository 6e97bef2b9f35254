"""A place that is contended for, and a tenure of it: the term of an election, the hold of a lock.

A recipe says what is contended for, its `Place`. `acquire` knows nothing else of it, and is the
only reader of the table of errors for acquisitions (`errors`): it is the only loop over lost
connections and expired sessions, and gets the lease to begin with.

A tenure lives in the task that acquired it, inside a cancel scope around the body; the client's
tasks report a loss to it synchronously. The clock decides whether it is held, not a flag: a blocked
event loop runs past any cancellation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

import anyio
import anyio.lowlevel

from .._client.fast import Wakeup, wait_shielded
from .._util.escaping import in_seconds
from .._util.internal_errors import call_back
from .._util.misuse import check_callback, not_copied
from ..abc import CoordinationClient, FencedClient
from ..errors import (
    AioleadError,
    ClientClosedError,
    ConnectionLossError,
    LockLost,
    LossReason,
    NoNodeError,
    Outcome,
    ReleaseError,
    TenureLost,
    UsageError,
)
from ..model import SessionState
from .errors import Action, Step, action_for, before_next_try, log_refusal
from .naming import Departure, set_awaited
from .znode import NodeGone, Znode

if TYPE_CHECKING:
    from ..types import TenureStatistics
    from .holding import Contest
    from .rivals import HolderQuery

__all__ = ["Held"]
__types__ = ["Tenure"]


class Place(Protocol):
    """The subject of one acquisition: a place in a queue, a znode, permits, a claim, a seat.

    Made for one acquisition, and for the hold if that succeeds. `discard` is always called in the
    end, at least once, and leaves nothing behind, whatever was cancelled or lost before.
    """

    is_new: bool
    """Whether nothing was waited for since the answer to our create: it shows that all is there."""

    @property
    def znodes(self) -> Sequence[Znode]:
        """The znodes that stand for it, the newest last; there is one at least once it is got."""
        ...

    async def get(self, *, wait: bool) -> bool:
        """Try to get it, over one connection; return whether it is ours.

        Wait for others only if `wait`. Called again, with whatever znodes exist, after a lost
        connection or a lost znode. Raises `NodeGone` if a znode of ours is gone.
        """
        ...

    def unwatch(self) -> None:
        """Close the watches on others. Called after each try."""
        ...

    def restart(self) -> None:
        """Give up the znodes: the session is over, or one of ours is gone."""
        ...

    def discard(self) -> Departure | None:
        """Abandon it for good, and release its holds; synchronous.

        Return its pending delete, if there is one.
        """
        ...

    def obstacle(self) -> str:
        """Return a clause for messages that names the znode it waits for; empty if unknown."""
        ...

    def holder_query(self) -> HolderQuery | None:
        """Return a function that reads the holder, also later; None if it waits for nobody."""
        ...


async def acquire(client: CoordinationClient, place: Place, *, wait: bool = True) -> bool:
    """Get a place, with a lease that lasts for a while; return whether it is ours.

    There is no checkpoint between that decision and the return. Raises `MixedLayoutError`,
    `SequenceExhaustedError`, `SessionError`, or the `ServerError` that answers the create.

    Cancellation: leaves the znodes; call `discard`. On connection loss: goes on with the same
    znodes; after an expired session, from the start.
    """
    while True:
        try:
            if client.state is not SessionState.CONNECTED:
                await client.ready()
            if not await place.get(wait=wait):
                return False
            await _lease_to_begin_with(client, place)
            return True
        except NodeGone:
            place.is_new = False
            place.restart()
        except AioleadError as error:
            place.is_new = False
            if action_for(error, Step.ACQUIRE) is Action.START_AGAIN:
                place.restart()
            else:
                place.unwatch()
                for znode in place.znodes:
                    znode.unwatch()
                await before_next_try(client, error, Step.ACQUIRE)
        finally:
            place.unwatch()


async def try_acquire(client: CoordinationClient, place: Place) -> bool:
    """As `acquire`, but without waiting for others.

    On connection loss: goes on for the session timeout; then raises `ConnectionLossError`.
    """
    with anyio.move_on_after(client.session_timeout):
        return await acquire(client, place, wait=False)
    raise ConnectionLossError(
        f"no server was reached for {in_seconds(client.session_timeout)}",
        outcome=Outcome.NOT_APPLIED,
    )


async def _lease_to_begin_with(client: CoordinationClient, place: Place) -> None:
    """Wait until enough of the lease is left to begin with.

    A session that is young, or has written lately, has enough: then there is no round trip and no
    checkpoint. Otherwise two writes are needed, one after the other; our create counts as the first
    if no wait followed it. A waiter needs both: the server's report that its turn has come proves
    nothing about the session (docs/explanation/safety.md). If the proof takes two rounds, more
    writes follow until half a tick has passed.

    A renewal may end with a `sync`, since its first request shows that the session lives. Here
    nothing is proven any more, and a leader that has just begun to end the session might answer a
    `sync` before that takes effect. It refuses a write.

    A znode that was not watched all the time is also read: others may have deleted it. Raises
    `NodeGone` if a znode of ours is gone.
    """
    znodes = place.znodes
    writes = 1 if place.is_new else 0
    while True:
        if not place.is_new or client.state is not SessionState.CONNECTED:
            for znode in znodes:
                znode.watch()
        for znode in znodes:
            if znode.look is not None:
                await znode.looked_at()
        if client.backend.lease.is_enough():
            break
        if writes >= 2:
            await anyio.sleep(client.session_timeout / 32)
        for znode in znodes:
            znode.check()
        try:
            await client.check(znodes[-1].node.path)
        except NoNodeError:
            znodes[-1].seen_gone()
            raise NodeGone from None
        writes += 1
    for znode in znodes:
        znode.check()


async def answered(departure: Departure) -> AioleadError | None:
    """Wait until a pending delete is done, as its reporter; return the servers' answer."""
    if not departure.is_done:
        done = Wakeup()
        departure.is_awaited = True
        departure.add_done_callback(done.set)
        try:
            await done.wait()
        except BaseException:
            set_awaited(departure, False)
            raise
        departure.is_awaited = False
    return departure.error


_making_a_list = threading.RLock()  # a signal handler may come in between


class Body(Protocol):
    """The block, campaign or consumption that runs under a hold; both calls are synchronous."""

    def _on_lost(self) -> None:
        """The hold is lost, or its body must end: once at most, but again after an error."""
        ...

    def _on_released(self) -> None:
        """The hold was released before its body has ended."""
        ...


class Tenure:
    """One unbroken time of holding something. See `Term` and `Held`.

    Threads and forks: any thread may read it (properties, `remaining`, `check`, `statistics`),
    make `fenced()` and register callbacks. All else, which changes it or waits, raises
    `UsageError` outside of the client's event loop. A forked child holds nothing: `is_held` is
    False there, `remaining()` 0.0, and `check()` raises `UsageError`.
    """

    # There may be thousands.
    __slots__ = (
        *("__weakref__", "_body", "_client", "_contest", "_gone", "_has_left"),
        *("_is_asked_for", "_is_refusal_reported", "_lasted", "_loss", "_lost_callbacks"),
        *("_path", "_place", "_refusal", "_released", "_revocation"),
        *("_session_id", "_since", "_token", "_what"),
    )

    _lost_error: ClassVar[type[TenureLost]] = TenureLost

    def __init__(self, contest: Contest[Any], place: Place, body: Body) -> None:
        self._contest = contest
        self._client = contest.client
        self._what = contest.path
        self._since = contest.reporting.now()
        self._lasted: float | None = None
        self._body = body
        self._loss: LossReason | None = None
        self._released = False
        self._has_left = False
        self._gone: Departure | None = None
        self._refusal: ReleaseError | None = None
        """The servers' refusal to delete the znode, until it is reported."""
        self._is_refusal_reported = False
        self._revocation: anyio.Event | None = None
        self._lost_callbacks: list[Callable[[], object]] | None = None
        self._take(place)

    def _take(self, place: Place) -> None:
        znodes = place.znodes
        node = znodes[-1].node
        self._place = place
        self._path = node.path
        self._token = node.token
        self._session_id = node.session_id
        for znode in znodes:
            znode.hold(self, self._contest.hold_options)
        if self._loss is not None:
            # Only a client that is being closed does that: nothing begins any more.
            raise ClientClosedError("the client is being closed")
        self._is_asked_for = znodes[-1].is_asked_for

    def __reduce__(self) -> NoReturn:
        raise not_copied(self)

    def __repr__(self) -> str:
        held = "held" if self.is_held else "not held"
        return f"<{type(self).__name__} {self._what} token={self.token} {held}>"

    @property
    def path(self) -> str:
        """The holder's znode."""
        return self._path

    @property
    def token(self) -> int:
        """The fencing token: rises with every tenure, and is never used twice.

        It is the zxid that created the holder's znode. A store that the holder writes to should
        refuse a token smaller than the last one it has seen: a suspended process cannot know that
        it has lost its tenure until it runs again.
        """
        return self._token

    @property
    def identity(self) -> str:
        """The holder's name, as others see it."""
        return self._contest.identity

    @property
    def session_id(self) -> int:
        """The session that owns the holder's znode."""
        return self._session_id

    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
        return self.remaining() > 0.0

    @property
    def is_released(self) -> bool:
        """Whether it was released (`release`, `resign`) before its body had ended."""
        return self._released

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and after a release.

        By the clock, as `is_held`: `UNCONFIRMED` from the end of the lease on, although the event
        loop may be blocked and has not cancelled the body yet.
        """
        if self._loss is None and self._is_over_by_clock():
            return LossReason.UNCONFIRMED
        return self._loss

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before.

        0.0 once it is lost or released, and in a forked child.
        """
        if self._loss is not None or self._released or self._has_left:
            return 0.0
        return self._client.backend.lease.remaining()

    def check(self) -> None:
        """Return if it is held now, by the clock. Sends nothing.

        Any thread may call it, and a signal handler. Only the client's event loop ends the hold and
        cancels the body; a thread that is the first to see the end of the lease wakes it.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was released: by `release`, or as its body ended; or this is a forked
                child, which holds nothing.
        """
        if self.remaining() <= 0.0:
            raise self._why_not_held()

    def _why_not_held(self) -> Exception:
        backend = self._client.backend
        if backend.is_forked:
            backend.check_home()
        if self._released:
            return UsageError(f"the {self._lost_error.noun} of {self._what} was resigned")
        if self._loss is None and self._has_left:
            return UsageError(
                f"the {self._lost_error.noun} of {self._what} was released: its body has ended"
            )
        if self._loss is None:
            backend.lease.expire()
        return self._error()

    async def verify(self) -> None:
        """Return if the quorum confirms, in one round trip, that it is held.

        Raises:
            TenureLost, UsageError: as for `check`.
            ConnectionLossError: the connection was lost before the answer came; ask again.
        """
        self.check()
        try:
            await self._confirmation()
        except NoNodeError:
            if not self._released:
                self._lose_holds(LossReason.DELETED)
        self.check()

    async def _confirmation(self) -> None:
        """Return if the quorum still has our znode; else raise `NoNodeError`."""
        await self._client.check(self.path)

    def fenced(self) -> FencedClient:
        """A client whose writes the ensemble refuses (`Fenced`) once the holder's znode is gone."""
        return self._client.fenced(self.path, gone=self._is_gone)

    def _is_gone(self) -> bool:
        """Whether our znode is known to be gone, or going: not if only the lease ran out."""
        given_up = self._released or self._has_left
        return given_up or not (self._loss is None or self._loss.znode_remains)

    async def release(self) -> None:
        """Release it before the body has ended. The body goes on, but holds nothing any more.

        Returns when the servers have confirmed it, or after a third of the session timeout; the
        client then deletes the znode as soon as it can.

        Raises:
            ReleaseError: the servers refuse to delete the znode.

        Cancellation: it is released all the same.
        """
        self._client.backend.check_home()
        if not self._released:
            self._release()  # first: the lease may have run out, which is a loss
            self._released = True
            self._body._on_released()
            self._has_ended()
            await self._confirmed()
            self._report_refusal(None)
        else:
            await anyio.lowlevel.checkpoint()

    @property
    def is_revocation_requested(self) -> bool:
        """Whether others ask for a release (`revoke`). False if the recipe has no `revoke`."""
        return self._is_asked_for

    async def revocation_requested(self) -> None:
        """Wait until others ask for a release; forever, if the recipe has no `revoke`."""
        self._client.backend.check_home()
        if self._revocation is None:
            self._revocation = anyio.Event()
            if self._is_asked_for:
                self._revocation.set()
        await self._revocation.wait()

    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback for the loss, called synchronously; at once if it is lost already.

        It is for what no cancellation reaches, such as another thread; the body is cancelled
        anyway. It runs in the client's task, so it must be quick; its exceptions are logged. It is
        not called for a release.

        Any thread may register one. If the hold is lost already, it is called in that thread.
        Raises `UsageError` in a forked child, and `ConfigurationError` if it takes arguments, or is
        async.
        """
        check_callback("callback", callback)
        backend = self._client.backend
        if backend.is_forked:
            backend.check_home()
        if self._loss is not None:
            callback()
            return
        # In this order: the event loop sets the loss, then calls what is registered. So either it
        # finds this, or we see the loss.
        self._callbacks_for_loss().append(callback)
        if self._loss is not None:
            self._call_lost_callbacks()

    def statistics(self) -> TenureStatistics:
        """The state of the tenure, as known here, without asking a server."""
        from ..types import TenureStatistics  # by the name that pickles have

        remaining, lasted = self.remaining(), self._lasted
        return TenureStatistics(
            path=self.path,
            token=self.token,
            session_id=self._session_id,
            is_held=remaining > 0.0,
            remaining=remaining,
            lasted=self._contest.reporting.now() - self._since if lasted is None else lasted,
            loss=self.loss,
            is_released=self._released,
            is_revocation_requested=self.is_revocation_requested,
        )

    # --- for the recipes -----------------------------------------------------------------------

    async def _end(
        self, scope: anyio.CancelScope | None = None, _failure: BaseException | None = None
    ) -> None:
        """Release it, unless that has happened; wait for the answer, and report the end.

        `_failure` has ended the body, if anything has.
        """
        try:
            if not self._released:  # else another task may have released it just now
                self._release()
            await self._confirmed(scope)
        finally:
            self._has_ended()

    def _has_ended(self) -> None:
        """Report that it is over, and why, unless that was reported before."""
        if self._lasted is None:
            reporting, loss = self._contest.reporting, self._loss
            lasted = self._lasted = reporting.now() - self._since
            if loss is None:
                reporting.ended(self._token, self._session_id, self._given_up_as, lasted)
            else:
                reporting.lost(self._token, self._session_id, loss, lasted)

    @property
    def _given_up_as(self) -> str:
        return "resigned" if self._released else "released"

    def _ask_for(self) -> None:
        self._is_asked_for = True
        if self._revocation is not None:
            self._revocation.set()

    def _lose(self, reason: LossReason) -> None:
        """See `Holder`. After an error, it may be called again: then nobody was notified yet."""
        if self._released or (self._loss is not None and self._lasted is not None):
            return
        self._loss = self._loss or reason
        self._cancel_body()
        self._call_lost_callbacks()
        self._has_ended()

    def _cancel_body(self) -> None:
        self._body._on_lost()

    def _callbacks_for_loss(self) -> list[Callable[[], object]]:
        if self._lost_callbacks is None:  # as of most tenures: a list costs memory
            with _making_a_list:
                if self._lost_callbacks is None:
                    self._lost_callbacks = []
        return self._lost_callbacks

    def _call_lost_callbacks(self) -> None:
        """Call each callback once, also if another thread does the same at this moment."""
        callbacks = self._lost_callbacks
        while callbacks:
            with suppress(IndexError):
                call_back(callbacks.pop(0))

    def _is_over_by_clock(self) -> bool:
        given_up = self._released or self._has_left
        backend = self._client.backend
        return not given_up and backend.lease.remaining() <= 0.0 and not backend.is_forked

    def _error(self) -> TenureLost:
        reason = self.loss or LossReason.UNCONFIRMED
        is_unconfirmed = reason is LossReason.UNCONFIRMED
        cause = self._contest.reporting.trouble() if is_unconfirmed else ""
        return self._lost_error(self._what, reason, self.token, cause)

    def _why_ended(self) -> Exception | None:
        """The exception for what has cancelled the body, if anything has."""
        return None if self._loss is None else self._error()

    def _lose_holds(self, reason: LossReason) -> None:
        """End it against the holder's will; without effect once its place was discarded."""
        for znode in self._place.znodes:
            znode.lose_hold(reason)

    def _release(self) -> None:
        """End it, in good order or after a loss; from here on the client does the rest."""
        if self._loss is None and self._is_over_by_clock():
            self._lose_holds(LossReason.UNCONFIRMED)
        lost = self._loss is not None
        self._has_left = True
        gone = self._place.discard()
        if not lost:
            self._gone = gone

    async def _release_elsewhere(self) -> None:
        """Release it in another task than the one that entered."""
        await self.release()

    async def _confirmed(self, scope: anyio.CancelScope | None = None) -> None:
        """Wait for the servers' answer to `_release`, for a third of the session timeout at most.

        If they answer that our znode was gone before, the hold had been lost. Nothing is waited for
        after a loss. Cancellation does not end the wait. A refusal that comes later is logged.
        `scope` is that of the body, which has ended: see `wait_shielded`.
        """
        gone = self._gone
        if gone is None:
            return
        gone.is_awaited = True
        if not gone.is_done:
            answered = Wakeup()
            gone.add_done_callback(answered.set)
            try:
                await wait_shielded(answered, self._client.session_timeout / 3, scope)
            except BaseException:  # asyncio's own cancellation
                set_awaited(gone, False)
                raise
        if not gone.is_done:
            set_awaited(gone, False)
            return
        error = gone.error
        if isinstance(error, NoNodeError):
            self._loss = LossReason.DELETED
        elif isinstance(error, ReleaseError) and not self._is_refusal_reported:
            self._refusal = error

    def _report_refusal(self, left: BaseException | None) -> None:
        """Raise an unreported refusal to delete our znode; log it if the body raised `left`."""
        refusal, self._refusal = self._refusal, None
        if refusal is None:
            return
        self._is_refusal_reported = True
        if left is None:
            raise refusal
        log_refusal(refusal)


class Held(Tenure):
    """One unbroken time of holding a lock."""

    __slots__ = ()

    _lost_error = LockLost


def beside_loss(token: int, error: BaseException) -> BaseException | None:
    """Return the rest of an error beside the loss of the tenure with that token; None if it is all.

    A group has the losses that tasks of the body have seen. On trio, it also has a cancellation of
    the moment of the loss, which is the rest then. With any other rest, the error stays whole.
    """
    if not isinstance(error, BaseExceptionGroup):
        return None if _is_loss_of(token, error) else error
    rest = error.split(lambda each: _is_loss_of(token, each))[1]
    if rest is None:
        return None
    return rest if without_cancellation(rest) is None else error


def _is_loss_of(token: int, error: BaseException) -> bool:
    return isinstance(error, TenureLost) and error.token == token


def without_cancellation(error: BaseException) -> BaseException | None:
    """Return an error without the cancellation that is in its group on trio; None if it is all."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1]
    return None if isinstance(error, cancelled) else error
