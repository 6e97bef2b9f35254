"""What is held, for the thread that holds it and for others that look at it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import aiolead

from .._logging import get_logger
from ..errors import LossReason, TenureLost
from ._answer import Flag
from ._fence import Fence
from ._loop import Loop

T = TypeVar("T", bound=aiolead.types.Tenure)

OnLost = Callable[[TenureLost], object]

logger = get_logger("aiolead.blocking")


class Tenure(Generic[T]):
    """One unbroken time of holding something. See `Held` and `Term`.

    Any thread may use it. In a forked child it is not held, and what would ask the servers raises
    `UsageError`.

    Attributes:
        path: our znode.
        token: the fencing token: rises with every tenure, and is never used twice; see
            `aiolead.types.Tenure`.
        lost: set as soon as it is known that it is lost; not, if it is given up.
    """

    def __init__(self, loop: Loop, tenure: T, on_lost: OnLost | None) -> None:
        # In the event loop.
        self._loop = loop
        self._tenure = tenure
        self.token: int = tenure.token
        self.lost: threading.Event = Flag()
        tenure.add_lost_callback(self.lost.set)
        if on_lost is not None:
            self._add(on_lost)

    def _add(self, on_lost: OnLost) -> None:
        """In the event loop."""
        self._tenure.add_lost_callback(lambda: _call(on_lost, self._tenure))

    def __repr__(self) -> str:
        return repr(self._tenure)

    @property
    def path(self) -> str:
        return self._tenure.path

    @property
    def identity(self) -> str:
        """What the holder calls itself."""
        return self._tenure.identity

    @property
    def session_id(self) -> int:
        """The session that owns our znode."""
        return self._tenure.session_id

    @property
    def loss(self) -> LossReason | None:
        """Why it was lost; None while it is held, and if it was given up."""
        return self._tenure.loss

    @property
    def is_held(self) -> bool:
        """Whether it is held now: by the clock, at this very call."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds until the holder must have begun to stop, unless the lease is renewed before.

        0.0 once it is lost or was given up.
        """
        return 0.0 if self._loop.is_forked else self._tenure.remaining()

    def check(self) -> None:
        """Returns if it is held now, by the clock. Cheap: call it before whatever must not happen
        twice, and every so often while you work. Nothing else stops a thread.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was given up: by `release`, or as its body ended; or in a forked child.
        """
        self._loop.check_process()
        if self._tenure.remaining() <= 0.0:
            self._loop.ask(self._tenure.check)

    def verify(self) -> None:
        """Returns if the quorum confirms, in one round trip, that it is held.

        Raises:
            TenureLost: it is lost (`LeadershipLost`, `LockLost`).
            UsageError: it was given up: by `release`, or as its body ended.
            ConnectionLossError: the link was lost before the answer came; ask again.
        """
        self._loop.call(self._tenure.verify)

    def fenced(self) -> Fence:
        """Writes that the ensemble itself refuses (`Fenced`) once our znode is gone."""
        return Fence(self._loop, self._tenure.fenced())

    def release(self) -> None:
        """Gives it up before the body has ended. The body goes on, but holds nothing any more.

        Returns when the servers have confirmed it, or after a third of the session timeout.
        """
        self._loop.call(self._tenure.release)

    def statistics(self) -> aiolead.types.TenureStatistics:
        """How it is doing; see `aiolead.types.Tenure.statistics`."""
        return self._loop.ask(self._tenure.statistics)

    @property
    def is_revocation_requested(self) -> bool:
        """Whether somebody asks for it (`revoke`): let go of it as soon as you can.

        Always False where the recipe has no `revoke`.
        """
        return self._tenure.is_revocation_requested


def _call(on_lost: OnLost, tenure: aiolead.types.Tenure) -> None:
    """In a thread of its own: it may wait for whatever it likes."""
    try:
        tenure.check()
    except TenureLost as lost:
        thread = threading.Thread(target=on_lost, args=(lost,), name="aiolead-on-lost", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            logger.exception("on_lost could not be called: there is no thread for it")


class Term(Tenure[aiolead.Term]):
    """One unbroken time of leadership."""

    def resign(self) -> None:
        """Resign: the same as `release`, by its name for leadership."""
        self.release()


class Held(Tenure[aiolead.types.Tenure]):
    """One unbroken time of holding a lock, or permits."""


class WriteHeld(Tenure[aiolead.types.WriteHeld]):
    """One unbroken time of holding a lock for writing, or, after `downgrade`, for reading."""

    @property
    def is_downgraded(self) -> bool:
        """Whether it has become a hold for reading."""
        return self._tenure.is_downgraded

    def downgrade(self) -> None:
        """Goes on to hold the lock for reading: readers come in, and no writer in between.

        What `fenced` gave before refuses to write from now on. See `aiolead.types.WriteHeld`.

        Raises:
            LockLost: it is lost.
            UsageError: it was given up: by `release`, or as its body ended.
            ServerError: it was refused, by an ACL for instance; we still write.
        """
        self._loop.call(self._tenure.downgrade)
