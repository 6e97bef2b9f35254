"""A tenure: the term of an election, the hold of a lock.

A tenure lives in the task that acquired it, inside of a cancel scope around the body. The client's
tasks report a loss to it synchronously. Whether it is held is decided by the clock, not by a flag:
a blocked event loop runs past any cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import anyio
import anyio.lowlevel

from ..._internal_errors import call_back
from ...abc import FencedClient
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
from .error_policy import log_refusal
from .pending_delete import Departure, confirmed

if TYPE_CHECKING:
    from .acquire import Acquirable
    from .holding_recipe import HoldingRecipe


@final
@dataclass(frozen=True, slots=True)
class TenureStatistics:
    """The state of a tenure at the moment of `Tenure.statistics()`; times are in seconds.

    Attributes:
        path: our znode.
        token: the fencing token.
        session_id: the session that owns it.
        is_held: whether it is held, by the clock.
        remaining: for how long it is surely held, unless the lease is renewed before.
        lasted: how long it has lasted; or had, when it was over.
        loss: why it was lost; None while it is held, and if it was released.
        is_released: whether it was released before its body had ended.
        is_revocation_requested: whether others ask for a release.
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
        recipe: HoldingRecipe[Any],
        acquirable: Acquirable,
        on_lost: Callable[[], object],
        on_released: Callable[[], object] | None = None,
    ) -> None:
        self._recipe = recipe
        self._client = recipe._client
        self._what = recipe._path
        self._since = recipe._reporting.now()
        self._lasted: float | None = None
        self._on_lost = on_lost
        self._on_released = on_released
        self._loss: LossReason | None = None
        self._released = False
        """Whether it was released before the body had ended."""
        self._has_left = False
        """Whether the body has ended."""
        self._gone: Departure | None = None
        self._refusal: ReleaseError | None = None
        """That the servers refused to delete our znode, until it is reported."""
        self._is_refusal_reported = False
        self._is_asked_for = False
        self._revocation: anyio.Event | None = None
        """Made where somebody waits for that."""
        self._lost_callbacks: list[Callable[[], object]] = []
        self._take(acquirable)

    def _take(self, acquirable: Acquirable) -> None:
        """Begins to hold what was acquired."""
        recipe, node = self._recipe, acquirable.node
        self._acquirable = acquirable
        self._path = node.path
        self._token = node.token
        self._session_id = node.session_id
        self._hold = acquirable.hold(
            self._lose, urgent=recipe._urgent, resign_on_disconnect=recipe._resign_on_disconnect
        )
        if self._loss is not None:
            # Only a client that is being closed does that. Nothing begins any more.
            self._hold.release()
            raise ClientClosedError("the client is being closed")
        acquirable.when_asked_for(self._ask_for)

    def __repr__(self) -> str:
        held = "held" if self.is_held else "not held"
        return f"<{type(self).__name__} {self._what} token={self.token} {held}>"

    @property
    def path(self) -> str:
        """Our znode."""
        return self._path

    @property
    def token(self) -> int:
        """The fencing token: rises with every tenure, and is never used twice.

        It is the transaction id that created our znode. A store that the holder writes to should
        refuse a token smaller than the last one it has seen: a process that was suspended cannot
        know that it has lost its tenure until it runs again.
        """
        return self._token

    @property
    def identity(self) -> str:
        """What others see as the holder."""
        return self._recipe.identity

    @property
    def session_id(self) -> int:
        """The session that owns our znode."""
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
        """Why it was lost; None while it is held, and if it was released."""
        return self._loss

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before.

        0.0 once it is lost or released.
        """
        if self._loss is not None or self._released or self._has_left:
            return 0.0
        return self._client.backend.lease.remaining()

    def check(self) -> None:
        """Returns if it is held now, by the clock. Sends nothing.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was released: by `release`, or as its body ended.
        """
        if self._released:
            raise UsageError(f"the {self._lost_error.noun} of {self._what} was resigned")
        if self._settle_by_clock() is not None:
            raise self._error()
        if self._has_left:
            raise UsageError(
                f"the {self._lost_error.noun} of {self._what} was released: its body has ended"
            )

    async def verify(self) -> None:
        """Returns if the quorum confirms, in one round trip, that it is held.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was released: by `release`, or as its body ended.
            ConnectionLossError: the connection was lost before the answer came; ask again.
        """
        self.check()
        try:
            await self._confirmation()
        except NoNodeError:
            if not self._released:
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
        given_up = self._released or self._has_left
        return given_up or not (self._loss is None or self._loss.znode_remains)

    async def release(self) -> None:
        """Release it before the body has ended. The body goes on, but holds nothing any more.

        Returns when the servers have confirmed it, or after a third of the session timeout; the
        client then deletes the znode as soon as it can.

        Raises:
            ReleaseError: the servers refuse to delete our znode.

        Cancellation: it is released all the same.
        """
        if not self._released:
            self._released = True
            if self._on_released is not None:
                self._on_released()
            self._has_ended()
            await self._release()
            self._report_refusal(None)
        else:
            await anyio.lowlevel.checkpoint()

    @property
    def is_revocation_requested(self) -> bool:
        """Whether others ask for a release (`revoke`). False where the recipe has no `revoke`."""
        return self._is_asked_for

    async def revocation_requested(self) -> None:
        """Wait until others ask for a release; forever, where the recipe has no `revoke`."""
        if self._revocation is None:
            self._revocation = anyio.Event()
            if self._is_asked_for:
                self._revocation.set()
        await self._revocation.wait()

    def add_lost_callback(self, callback: Callable[[], object]) -> None:
        """Registers a callback for the loss, called synchronously; at once if it is lost already.

        A body needs none: it is cancelled. This is for what no cancellation reaches, such as
        another thread. The callback runs in the client's task: it must be quick. What it raises is
        logged. It is not called for a release.
        """
        if self._loss is not None:
            callback()
        else:
            self._lost_callbacks.append(callback)

    def statistics(self) -> TenureStatistics:
        """The state of the tenure, as it is known here, without asking a server."""
        remaining, lasted = self.remaining(), self._lasted
        return TenureStatistics(
            path=self.path,
            token=self.token,
            session_id=self._session_id,
            is_held=remaining > 0.0,
            remaining=remaining,
            lasted=self._recipe._reporting.now() - self._since if lasted is None else lasted,
            loss=self._loss,
            is_released=self._released,
            is_revocation_requested=self.is_revocation_requested,
        )

    # --- for the recipes -----------------------------------------------------------------------

    def _has_begun(self) -> None:
        """Reports that it has begun; from then on `_has_ended` is to be called at its end."""
        self._recipe._reporting.begun(self.token, self._session_id)

    def _has_ended(self) -> None:
        """Reports that it is over, and why, unless that was reported before."""
        if self._lasted is None:
            reporting, loss = self._recipe._reporting, self._loss
            self._lasted = reporting.now() - self._since
            reporting.ended(
                self.token,
                self._session_id,
                self._given_up_as if loss is None else loss.name.lower(),
                self._lasted,
                is_loss=loss not in (None, LossReason.CLOSED),
            )

    @property
    def _given_up_as(self) -> str:
        """How it has ended, where it was not lost."""
        return "resigned" if self._released else "released"

    def _ask_for(self) -> None:
        self._is_asked_for = True
        if self._revocation is not None:
            self._revocation.set()

    def _lose(self, reason: LossReason) -> None:
        if self._loss is None and not self._released:
            self._loss = reason
            self._on_lost()
            for callback in self._lost_callbacks:
                call_back(callback)
            self._has_ended()

    def _settle_by_clock(self) -> LossReason | None:
        given_up = self._released or self._has_left
        if not given_up and self._loss is None and self._client.backend.lease.remaining() <= 0.0:
            self._hold.lose(LossReason.UNCONFIRMED)
        return self._loss

    def _error(self) -> TenureLost:
        """What to raise once it is lost."""
        return self._lost_error(self._what, self._loss or LossReason.UNCONFIRMED, self.token)

    def _why_ended(self) -> Exception | None:
        """What has cancelled the body, if anything has."""
        return None if self._loss is None else self._error()

    async def _release(self) -> None:
        """Ends it, in good order or after a loss; the part before the first await is enough.

        Waits for the servers' confirmation if it was held to the end, for a third of the session
        timeout at most. If their answer is that our znode was gone before, it had been lost.
        """
        lost = self._settle_by_clock() is not None
        self._has_left = True
        # From here on it is the client's work, whatever happens to this task.
        gone = self._acquirable.discard()
        self._hold.release()
        if not lost:
            self._gone = gone
            await self._confirmed()

    async def _release_elsewhere(self) -> None:
        """Releases it in another task than the one that has entered."""
        await self.release()

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
            left: what the body raised. Then the refusal is logged.

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
        """Resign: `release`, by its name for leadership."""
        await self.release()


class Held(Tenure):
    """One unbroken time of holding a lock."""

    _lost_error = LockLost
