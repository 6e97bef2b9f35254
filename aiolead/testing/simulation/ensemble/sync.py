"""How a leader brings a learner to its own state: the choice, as a pure function.

A leader that has been elected compares the last transaction of each learner with its own log, and
sends what is missing (a difference), has the learner drop what the ensemble never agreed on (a
truncation), both, or everything (a snapshot). The cases are those of ZooKeeper's `LearnerHandler`.

    plan = plan_sync(learner, committed, last_processed)
    match plan.kind:
        case SyncKind.DIFF: ...       # nothing to drop
        case SyncKind.TRUNC: ...      # drop every transaction after plan.zxid
        case SyncKind.SNAP: ...       # replace everything by the leader's tree, as of plan.zxid
    # then, for each of plan.proposals: its proposal and its commit
    # then all that the leader commits or proposes after plan.forward_after
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["SyncKind", "SyncPlan", "plan_sync", "shown_zxid"]

_COUNTER = 0xFFFF_FFFF
"""The half of a zxid that counts within an epoch."""


class SyncKind(Enum):
    """The packet that starts a synchronisation."""

    DIFF = "difference"
    TRUNC = "truncation"
    SNAP = "snapshot"


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The messages of a leader to a learner, in this order.

    Attributes:
        kind: the first message. A truncation may be followed by proposals, too.
        zxid: of that packet. DIFF: the last transaction that the learner will have then. TRUNC: the
            last one that it keeps. SNAP: the last one that is in the snapshot.
        proposals: the committed transactions to send after it, oldest first.
        forward_after: proposals in flight at the leader are forwarded if they are newer than this.
    """

    kind: SyncKind
    zxid: int
    proposals: tuple[int, ...] = ()
    forward_after: int = 0

    @property
    def name(self) -> str:
        """DIFF, TRUNC, TRUNC+DIFF or SNAP."""
        both = self.kind is SyncKind.TRUNC and self.proposals
        return "TRUNC+DIFF" if both else self.kind.name

    @property
    def text(self) -> str:
        """The plan in words: the effect on the learner."""
        count = len(self.proposals)
        sent = f"gets {count:,} transaction{'' if count == 1 else 's'}"
        drops = f"drops all after {shown_zxid(self.zxid)}"
        match self.name:
            case "SNAP":
                return "gets everything: the leader does not know what is missing"
            case "TRUNC":
                return f"{drops}, which no majority has"
            case "TRUNC+DIFF":
                return f"{drops}, then {sent}"
        return sent if count else "nothing is missing"


def shown_zxid(zxid: int) -> str:
    """A zxid as its epoch and the count in it, such as 2.9."""
    return f"{zxid >> 32}.{zxid & _COUNTER}"


def plan_sync(
    learner: int,
    committed: Sequence[int],
    last_processed: int,
    on_disk: Sequence[int] = (),
) -> SyncPlan:
    """How to bring a learner up to date.

    Args:
        learner: the last zxid in the learner's log.
        committed: the zxids of the committed transactions that the leader has in memory, ascending.
            ZooKeeper keeps 500.
        last_processed: the last zxid that was applied to the leader's tree. Right after an election
            that is the new epoch with a counter of 0, for which there is no transaction.
        on_disk: the zxids in the leader's transaction log, ascending, as far back as the leader is
            willing to read; it may overlap with `committed`.

    Returns:
        The plan.
    """
    if learner == last_processed:
        return SyncPlan(SyncKind.DIFF, learner, forward_after=learner)
    # An epoch that was begun and saw no write left no transaction behind that could be found, or
    # dropped. So such a learner is never truncated.
    is_bare_epoch = learner & _COUNTER == 0
    oldest, newest = (committed[0], committed[-1]) if committed else (last_processed,) * 2
    if learner > newest and not is_bare_epoch:
        return SyncPlan(SyncKind.TRUNC, newest, forward_after=newest)
    plan = None
    if oldest <= learner <= newest:
        plan = _from_history(learner, committed, newest, is_bare_epoch=is_bare_epoch)
    elif learner < oldest and on_disk and on_disk[0] <= learner:
        # A gap between disk and memory would be one in the learner's log.
        older = [zxid for zxid in on_disk if zxid <= oldest]
        if older[-1] >= oldest:
            history = [*older, *(zxid for zxid in committed if zxid > oldest)]
            plan = _from_history(learner, history, newest, is_bare_epoch=is_bare_epoch)
    if plan is None:
        return SyncPlan(SyncKind.SNAP, last_processed, forward_after=last_processed)
    return plan


def _from_history(
    learner: int, history: Sequence[int], newest: int, *, is_bare_epoch: bool
) -> SyncPlan | None:
    """A difference, or a truncation to where the histories part; None if neither will do."""
    missing = tuple(zxid for zxid in history if zxid > learner)
    end = missing[-1] if missing else learner
    if is_bare_epoch or learner in history:
        return SyncPlan(SyncKind.DIFF, newest, missing, end)
    if missing[0] & ~_COUNTER != learner & ~_COUNTER:
        # ZooKeeper does not cut back into an earlier epoch here: the learner would stop.
        return None
    parting = max(zxid for zxid in history if zxid < learner)
    return SyncPlan(SyncKind.TRUNC, parting, missing, end)
