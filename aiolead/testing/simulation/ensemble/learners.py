"""A learner as its leader sees it: ZooKeeper's `LearnerHandler`."""

from __future__ import annotations

import enum

from .life import Life, Silence
from .links import Link
from .messages import Join


class Stage(enum.IntEnum):
    """How far a learner has come."""

    JOINED = 0
    """It has said who it is, and waits for the epoch."""
    INVITED = 1
    """It was sent the epoch."""
    PROMISED = 2
    """It has accepted the epoch, and waits until a quorum has."""
    SYNCING = 3
    """It gets what it lacks, and all that is proposed from now on."""
    SYNCED = 4
    """It has it, and waits until a quorum has."""
    SERVING = 5
    """It may serve clients."""


class Learner:
    """One connection from a learner. A learner that comes back gets a new one.

    Args:
        join: its last message.
        link: the connection.
        is_voter: whether its acknowledgements count.
        silence: runs out when it was silent for too long.
        deadline: the tick up to which it counts as alive.

    Attributes:
        is_over: whether it was given up.
    """

    def __init__(
        self, join: Join, link: Link, silence: Silence, *, is_voter: bool, deadline: int
    ) -> None:
        self.server: int = join.server
        self.accepted_epoch: int = join.accepted_epoch
        self.link = link
        self.silence = silence
        self.is_voter = is_voter
        self.deadline = deadline
        self.stage = Stage.JOINED
        self.zxid = 0
        self.is_over: bool = False
        # Of the proposals that it has yet to acknowledge: the oldest, and the newest after it.
        self._owed: tuple[int, float] | None = None
        self._owed_next: tuple[int, float] | None = None

    @property
    def gets_proposals(self) -> bool:
        return self.stage >= Stage.SYNCING

    def proposed(self, zxid: int, now: float) -> None:
        """It was sent a proposal."""
        if self.stage < Stage.SYNCED:
            return
        if self._owed is None:
            self._owed = zxid, now
        else:
            self._owed_next = zxid, now

    def acknowledged(self, zxid: int) -> None:
        if self._owed is not None and self._owed[0] == zxid:
            self._owed, self._owed_next = self._owed_next, None
        elif self._owed_next is not None and self._owed_next[0] == zxid:
            self._owed_next = None

    def owes_since(self, life: Life) -> float:
        """For how long a proposal was not acknowledged, in seconds."""
        return 0.0 if self._owed is None else life.clock() - self._owed[1]

    def close(self) -> None:
        self.is_over = True
        self.silence.stop()
        self.link.close()
