"""What is held: the term of an election, the hold of a lock.

A tenure lives in the task that asked for it: a cancel scope around the body, and nothing else, so
that whatever the body raises leaves bare. The client's tasks tell it, synchronously, that it is
lost. Clocks decide, not flags: a blocked event loop runs past any cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import anyio
import anyio.lowlevel

from ..._internal_errors import call_back
from ...abc import CoordinationClient, FencedClient
from ...errors import (
    ClientClosedError,
    LeadershipLost,
    LockLost,
    LossReason,
    NoNodeError,
    ReleaseError,
    TenureLost,
    UsageError,
)
from .candidate import Candidate
from .error_policy import log_refusal
from .pending_delete import Departure, confirmed
from .reporting import RecipeReporting


@final
@dataclass(frozen=True, slots=True)
class TenureStatistics:
    """How a tenure is doing, at the moment of `Tenure.statistics()`; times are in seconds.

    Attributes:
        path: our znode.
        token: the fencing token.
        session_id: the session that owns it.
        is_held: whether it is held, by the clock.
        remaining: for how long it is surely held, unless the lease is renewed before.
        lasted: how long it has lasted; or had, when it was over.
        loss: why it was lost; None while it is held, and if it was given up.
        is_released: whether it was given up before its body had ended.
        is_revocation_requested: whether somebody asks for it.
    """

    path: str
    token: int
    session_id: int
    is_held: bool
    remaining: float
    lasted: float
    loss: LossReason | None
    is_released: bool
    is_revocation_requested: bool


class Tenure:
    """One unbroken time of holding something. See `Term` and `Held`."""

    _lost_error: ClassVar[type[TenureLost]] = TenureLost

    def __init__(
        self,
        client: CoordinationClient,
        candidate: Candidate,
        what: str,
        identity: str,
        *,
        reporting: RecipeReporting,
        urgent: bool,
        resigns: bool,
        on_lost: Callable[[], object],
        on_resigned: Callable[[], object] | None = None,
    ) -> None:
        self._client = client
        self._what = what
        self._identity = identity
        self._reporting = reporting
        self._since = reporting.now()
        self._lasted: float | None = None
        self._on_lost = on_lost
        self._on_resigned = on_resigned
        self._urgent = urgent
        self._resigns = resigns
        self._loss: LossReason | None = None
        self._resigned = False
        self._released = False
        self._gone: Departure | None = None
        self._refusal: ReleaseError | None = None
        """That the servers refused to delete our znode, until it is reported."""
        self._is_refusal_reported = False
        self._is_asked_for = False
        self._revocation: anyio.Event | None = None
        """Made where somebody waits for that."""
        self._lost_callbacks: list[Callable[[], object]] = []
        self._take(candidate)

    def _take(self, candidate: Candidate) -> None:
        """Begins to hold what a candidate has got to the front of."""
        node = candidate.node
        self._candidate = candidate
        self.path: str = node.path
        """Our znode."""
        self.token: int = node.token
        """The fencing token: rises with every tenure, and is never used twice.

        It is the transaction id that created our znode. What stores data for the holder should
        refuse a token smaller than the last one it has seen: a process that was stopped (by a
        debugger, a suspended machine, a long garbage collection) cannot know that it has lost its
        tenure until it runs again, so only the other side can refuse what it then writes.
        """
        self._session_id = node.session_id
        self._hold = candidate.hold(self._lose, urgent=self._urgent, resigns=self._resigns)
        if self._loss is not None:
            # Only a client that is being closed does that. Nothing begins any more.
            self._hold.release()
            raise ClientClosedError("the client is being closed")

    def __repr__(self) -> str:
        held = "held" if self.is_held else "not held"
        return f"<{type(self).__name__} {self._what} token={self.token} {held}>"

    @property
    def identity(self) -> str:
        """What the holder calls itself."""
        return self._identity

    @property
    def session_id(self) -> int:
        """The session that owns our znode."""
        return self._session_id

    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before.

        0.0 once it is lost or was given up.
        """
        if self._loss is not None or self._resigned or self._released:
            return 0.0
        return self._client.backend.lease.remaining()

    def check(self) -> None:
        """Returns if it is held now, by the clock. Cheap: call it before whatever must not happen
        twice.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was given up: by `release`, or as its body ended.
        """
        if self._resigned:
            raise UsageError(f"the {self._lost_error.noun} of {self._what} was resigned")
        if self._settle_by_clock() is not None:
            raise self._error()
        if self._released:
            raise UsageError(
                f"the {self._lost_error.noun} of {self._what} was released: its body has ended"
            )

    async def verify(self) -> None:
        """Returns if the quorum confirms, in one round trip, that it is held.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was given up: by `release`, or as its body ended.
            ConnectionLossError: the link was lost before the answer came; ask again.
        """
        self.check()
        try:
            await self._confirmation()
        except NoNodeError:
            if not self._resigned:
                self._hold.lose(LossReason.DELETED)
        self.check()

    async def _confirmation(self) -> None:
        """Returns if the quorum still has our znode.

        Raises:
            NoNodeError: it has not.
        """
        await self._client.check(self.path)

    def fenced(self) -> FencedClient:
        """Writes that the ensemble itself refuses (`Fenced`) once our znode is gone."""
        return self._client.fenced(self.path, gone=self._is_gone)

    def _is_gone(self) -> bool:
        """Whether our znode is known to be gone, or going: not so if only the lease ran out."""
        given_up = self._resigned or self._released
        return given_up or not (self._loss is None or self._loss.znode_remains)

    async def release(self) -> None:
        """Gives it up before the body has ended. The body goes on, but holds nothing any more.

        Returns when the servers have confirmed it, or after a third of the session timeout; the
        znode is then deleted by the client as soon as it can be.

        Raises:
            ReleaseError: the servers refuse to delete our znode.

        Cancellation: it is given up all the same.
        """
        if not self._resigned:
            self._resigned = True
            if self._on_resigned is not None:
                self._on_resigned()
            self._has_ended()
            await self._release()
            self._report_refusal(None)
        else:
            await anyio.lowlevel.checkpoint()

    @property
    def is_revocation_requested(self) -> bool:
        """Whether somebody asks for it (`revoke`): let go of it as soon as you can.

        Always False where the recipe has no `revoke`.
        """
        return self._is_asked_for

    async def revocation_requested(self) -> None:
        """Waits until somebody asks for it; for ever, where nobody does."""
        if self._revocation is None:
            self._revocation = anyio.Event()
            if self._is_asked_for:
                self._revocation.set()
        await self._revocation.wait()

    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Has the callback called, synchronously, as soon as the loss is known; at once if it is.

        A body needs none: it is cancelled. This is for what passes the news on to where no
        cancellation reaches, such as another thread. The callback runs in the client's task: it
        must be quick. What it raises is logged. It is not called if what is held is given up.
        """
        if self._loss is not None:
            callback()
        else:
            self._lost_callbacks.append(callback)

    def statistics(self) -> TenureStatistics:
        """How it is doing. A look at what is known here, without asking a server."""
        remaining, lasted = self.remaining(), self._lasted
        return TenureStatistics(
            path=self.path,
            token=self.token,
            session_id=self._session_id,
            is_held=remaining > 0.0,
            remaining=remaining,
            lasted=self._reporting.now() - self._since if lasted is None else lasted,
            loss=self._loss,
            is_released=self._resigned,
            is_revocation_requested=self.is_revocation_requested,
        )

    # --- for the recipes -----------------------------------------------------------------------

    def _has_begun(self) -> None:
        """Tells that it has; from then on `_has_ended` is to be called at its end."""
        self._reporting.begun(self.token, self._session_id)

    def _has_ended(self) -> None:
        """Tells that it is over, and why, unless that was told before."""
        if self._lasted is None:
            self._lasted = self._reporting.now() - self._since
            loss = self._loss
            self._reporting.ended(
                self.token,
                self._session_id,
                self._given_up_as if loss is None else loss.name.lower(),
                self._lasted,
                is_loss=loss not in (None, LossReason.CLOSED),
            )

    @property
    def _given_up_as(self) -> str:
        """How it has ended, where it was not lost."""
        return "resigned" if self._resigned else "released"

    def _ask_for(self) -> None:
        self._is_asked_for = True
        if self._revocation is not None:
            self._revocation.set()

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and if it was given up."""
        return self._loss

    @property
    def is_released(self) -> bool:
        """Whether it was released before its body had ended."""
        return self._resigned

    def _lose(self, reason: LossReason) -> None:
        if self._loss is None and not self._resigned:
            self._loss = reason
            self._on_lost()
            for callback in self._lost_callbacks:
                call_back(callback)
            self._has_ended()

    def _settle_by_clock(self) -> LossReason | None:
        given_up = self._resigned or self._released
        if not given_up and self._loss is None and self._client.backend.lease.remaining() <= 0.0:
            self._hold.lose(LossReason.UNCONFIRMED)
        return self._loss

    def _error(self) -> TenureLost:
        """What to raise once it is lost."""
        return self._lost_error(self._what, self._loss or LossReason.UNCONFIRMED, self.token)

    async def _release(self) -> None:
        """Ends it, in good order or after a loss; the part before the first await is enough.

        Waits for the servers' confirmation if it was held to the end, for a third of the session
        timeout at most. If their answer is that our znode was gone before, it had been lost.
        """
        lost = self._settle_by_clock() is not None
        self._released = True
        # From here on it is the client's work, whatever happens to this task.
        gone = self._candidate.discard()
        self._hold.release()
        if not lost:
            self._gone = gone
            await self._confirmed()

    async def _confirmed(self) -> None:
        """Waits until the servers have confirmed what `_release` has begun; see there."""
        gone = self._gone
        if gone is None:
            return
        error = await confirmed(self._client, gone)
        if isinstance(error, NoNodeError):
            self._loss = LossReason.DELETED
        elif isinstance(error, ReleaseError) and not self._is_refusal_reported:
            self._refusal = error

    def _report_refusal(self, left: BaseException | None) -> None:
        """Raises that the servers refused to delete our znode, if that was not reported before.

        Args:
            left: what the body raised: that is told by its own propagation, and the refusal by a
                line in the log.

        Raises:
            ReleaseError: they did, and the body has ended normally.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is None:
            return
        self._is_refusal_reported = True
        if left is None:
            raise refusal
        log_refusal(refusal)


class Term(Tenure):
    """One unbroken time of leadership."""

    _lost_error = LeadershipLost

    async def resign(self) -> None:
        """Resign: the same as `release`, by its name for leadership."""
        await self.release()


class Held(Tenure):
    """One unbroken time of holding a lock."""

    _lost_error = LockLost
