"""A loss is reported in time, once, and to everybody; the znode outlives the body."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import CUTS, SILENCE

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="own-deletion-unseen",
        wrong="Neither renewals nor a watch tell a holder that its znode was deleted.",
        seen_in="CURATOR-171; kazoo's `is_acquired`",
        changes=(
            Change(
                "_session.lease.renewals:Renewals._renewed",
                """
                self._leases.refused(now, at_once=True)
                is_gone = isinstance(error.cause, NoNodeError)
                """,
                """
                is_gone = isinstance(error.cause, NoNodeError)
                self._leases.refused(now, at_once=not is_gone)
                if is_gone:
                    return
                """,
            ),
            Change(
                "_recipes._core.ephemeral:EphemeralNode._lost",
                """
                self._gone = True
                self._rouse()
                if self._hold is not None:
                    self._hold.lose(LossReason.DELETED)
                """,
                """
                self._gone = True
                self._rouse()
                """,
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="session-replaced-silently",
        wrong="After an expired session the next one is opened, and no state change is reported.",
        seen_in="aiozk: SUSPENDED, then CONNECTED, with another session",
        changes=(
            Change(
                "_session.states:SessionLife._expired",
                """
                self._move(Trigger.EXPIRED)
                self._end_session(LossReason.EXPIRED, keep_queue=keep_queue)
                """,
                "",
            ),
            Change(
                "_session.states:SessionLife._expired",
                "self._move(Trigger.RETRY)",
                "",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="hold-outlives-the-session",
        wrong="A hold of an expired session is still held in the next session.",
        aim=Aim((("session-ended",),), target="holder"),
        changes=(
            Change(
                "_session.states:SessionLife._end_session",
                "self.leases.lose_all(reason)",
                "",
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
        simulated=True,
    ),
    Mutant(
        name="loss-not-recorded",
        wrong="A loss cancels the body, but is not recorded.",
        changes=(
            Change(
                "_recipes._core.tenure:Tenure._lose",
                "self._loss = self._loss or reason",
                "del reason",
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="loss-is-swallowed",
        wrong="Leaving the body of a lost hold raises nothing.",
        seen_in="kazoo's Election",
        changes=(
            Change(
                "_recipes._core.contexts:TenureScope._leave",
                "why = tenure._why_ended()",
                """
                why = tenure._why_ended()
                if why is not None and tenure.loss is not None:
                    return True
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
    ),
    Mutant(
        name="released-when-lost",
        wrong="The znode is deleted as soon as the hold is lost, while the body still stops.",
        seen_in="Kubernetes: ReleaseOnCancel",
        aim=Aim(((*CUTS, *SILENCE, "closed"),), least=0.3, groups=3),
        changes=(
            Change(
                "_recipes._core.tenure:Tenure._lose",
                """
                self._loss = self._loss or reason
                self._on_lost()
                """,
                """
                self._loss = self._loss or reason
                self._acquirable.discard()
                self._on_lost()
                """,
            ),
        ),
        tests=("tests/recipes/locks/test_lock.py",),
        simulated=True,
    ),
    Mutant(
        name="losers-are-not-waited-for",
        wrong="A lost hold counts as gone at once, so closing the client does not wait "
        "for its body.",
        aim=Aim((("closed",),), groups=3),
        changes=(
            Change(
                "_session.lease.lease_book:LeaseBook.begin_grace",
                """
                self.forget(held)
                self._in_grace[held] = self._lease_proof.proven_until
                """,
                "self.forget(held)",
            ),
        ),
        tests=("tests/session/test_session_healthy.py",),
        simulated=True,
    ),
    Mutant(
        name="closing-does-not-wait-for-holders",
        wrong="Closing a client ends its session at once, while holders still stop.",
        aim=Aim((("closed",),), groups=3),
        changes=(
            Change(
                "_client.client_host:ClientHost.close_session",
                """
                with anyio.move_on_after(machine.timing.holders_wait, shield=True):
                    await core.holders_gone()
                """,
                """
                with anyio.move_on_after(0, shield=True):
                    await core.holders_gone()
                """,
            ),
        ),
        tests=("tests/assurance/simulation/test_scenarios.py",),
        simulated=True,
    ),
    Mutant(
        name="threads-end-holds",
        wrong="A thread that sees the end of the lease first ends the hold itself: the "
        "body is never cancelled.",
        seen_in="solara #1181; aiomqtt: a cancellation from another thread",
        changes=(
            Change(
                "_recipes._core.tenure:Tenure._why_not_held",
                "backend.lease.expire()",
                "self._settle_by_clock()",
            ),
        ),
        tests=("tests/recipes/test_threads.py",),
    ),
    Mutant(
        name="thread-hold-released-when-lost",
        wrong="The hold of a thread is released as it is lost, while its body goes on.",
        changes=(
            Change(
                "blocking._thread_task:ThreadProxyTask.serve",
                "anyio.CancelScope(shield=True)",
                "anyio.CancelScope()",
            ),
        ),
        tests=("tests/blocking/test_blocking_losses.py",),
    ),
    Mutant(
        name="expiry-wakes-nobody",
        wrong="Watches of an expired session report nothing.",
        seen_in="aiozk; etcd #11456 and #19597",
        changes=(
            Change(
                "_session.watches.registry:WatchRegistry.session_over",
                """
                for slot in slots:
                    slot.fire(WatchEvent(EventType.NONE, slot.label))
                """,
                "",
            ),
        ),
        tests=("tests/session/test_session_life.py",),
        simulated=True,
    ),
    Mutant(
        name="only-first-subscriber-is-notified",
        wrong="A change of state reaches only the first task that waits for it.",
        changes=(
            Change(
                "_client.core:Core.report",
                "for on_state in list(self._subscribers.values()):",
                "for on_state in list(self._subscribers.values())[:1]:",
            ),
        ),
        tests=("tests/recipes/test_rare_moments.py",),
        simulated=True,
    ),
)
