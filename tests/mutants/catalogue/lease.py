"""How long a holder believes that it holds."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import (
    ASYNCIO,
    CUTS,
    DELETIONS,
    GONE_TOGETHER,
    LATE_THEN_GONE,
    LONG_CUT,
    LOST_LINKS,
    SILENCE,
    STALE,
)

NO_RENEWAL = Change(
    "_session/lease/lease_book.py",
    "return self._next_renewal if self.settled and not self._unanswered else inf",
    "return inf",
)

MUTANTS = (
    Mutant(
        number="1",
        name="no-deadline",
        aim=LONG_CUT,
        wrong="A lease never runs out by itself: a holder holds until the servers say otherwise.",
        seen_in="aiozk; kazoo #89",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "return self._lease_proof.proven_until - self._timing.margin",
                "return inf",
            ),
        ),
    ),
    Mutant(
        number="2",
        name="counted-from-the-answer",
        aim=LATE_THEN_GONE,
        wrong="What a request proves is counted from its answer instead of its sending.",
        changes=(
            Change(
                "_session/lease/proof.py",
                "self._at_server.add(sent, now, self._timing.session_timeout)",
                "self._at_server.add(now, now, self._timing.session_timeout)",
            ),
        ),
        tests=(
            "tests/unit/session/test_session_lease_proof.py",
            "tests/unit/session/test_session_lease.py",
        ),
    ),
    Mutant(
        number="2b",
        name="handshake-counted-from-its-answer",
        aim=LATE_THEN_GONE,
        wrong="A new session counts from the answer to the handshake instead of its sending.",
        changes=(
            Change(
                "_session/machine.py",
                "self._lease_proof.opened(self.timing, self._handshake_sent, created=created)",
                "self._lease_proof.opened(self.timing, now, created=created)",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="3",
        name="any-bytes-are-proof",
        aim=LONG_CUT,
        wrong="Whatever comes from the server extends the lease as a committed write would.",
        seen_in="CURATOR-444",
        changes=(
            Change(
                "_session/machine.py",
                """
                self.last_contact = now
                """,
                """
                self.last_contact = now
                if self._established:
                    self._lease_proof.answered(now, now, proof=True, led=True)
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="3b",
        name="an-event-is-proof-of-now",
        aim=STALE,
        wrong="A watch event counts as a committed write: a server that was cut off hands on, when "
        "its link heals, what was committed long ago.",
        changes=(
            Change(
                "_session/machine.py",
                """
                self.watches.fire(type_, event.path, zxid)
                """,
                """
                then = self.last_contact
                self._lease_proof.answered(then, then, proof=True, led=True)
                self._lease_proof._collected = self.last_contact
                self.watches.fire(type_, event.path, zxid)
                """,
            ),
        ),
    ),
    Mutant(
        number="3c",
        name="an-event-is-contact",
        aim=STALE,
        wrong="A watch event proves that our server had contact with the leader when it answered "
        "the request before.",
        seen_in="aiolead, until the simulation showed that it does not",
        changes=(
            Change(
                "_session/machine.py",
                """
                self.watches.fire(type_, event.path, zxid)
                """,
                """
                proof = self._lease_proof
                if entries := proof._at_server._entries:
                    proof._collected = max(proof._collected, entries[-1][0])
                    proof.is_direct = True
                    proof._settle(self.last_contact)
                self.watches.fire(type_, event.path, zxid)
                """,
            ),
        ),
    ),
    Mutant(
        number="4",
        name="ping-is-proof",
        aim=LONG_CUT,
        wrong="The answer to a ping extends the lease.",
        changes=(
            Change(
                "_session/machine.py",
                "self._lease_proof.answered(sent, now, proof=False, led=False)",
                "self._lease_proof.answered(sent, now, proof=True, led=True)",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="4d",
        name="nothing-but-pings",
        aim=LONG_CUT,
        wrong="The answer to a ping extends the lease, and nothing else is sent to renew it.",
        seen_in="kazoo, Curator: two leaders while a follower was cut off",
        changes=(
            Change(
                "_session/machine.py",
                "self._lease_proof.answered(sent, now, proof=False, led=False)",
                "self._lease_proof.answered(sent, now, proof=True, led=True)",
            ),
            NO_RENEWAL,
        ),
    ),
    Mutant(
        number="4b",
        name="read-is-proof",
        aim=LONG_CUT,
        wrong="The answer to a read extends the lease.",
        changes=(
            Change(
                "_session/machine.py",
                "proof=kind.is_proof and worked, led=kind.is_led and worked",
                "proof=worked, led=worked",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="4c",
        name="refusal-is-proof",
        aim=LONG_CUT,
        wrong="A write that was refused extends the lease as one that was committed.",
        changes=(
            Change(
                "_session/machine.py",
                "proof=kind.is_proof and worked, led=kind.is_led and worked",
                "proof=kind.is_proof, led=kind.is_led",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="5",
        name="renewal-counts-itself",
        aim=GONE_TOGETHER,
        wrong="A renewal that was answered counts from its own sending instead of that of the "
        "one before.",
        changes=(
            Change(
                "_session/lease/proof.py",
                "self.proven_until = max(self.proven_until, sent + timeout)",
                """
                if sent > -inf:
                    self.proven_until = max(self.proven_until, self._collected + timeout)
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="5b",
        name="no-half-tick",
        aim=GONE_TOGETHER,
        wrong="A touch is taken to reach the leader at once, not with its next ping.",
        changes=(
            Change(
                "_session/lease/proof.py",
                "timeout, half_tick = self._timing.session_timeout, self._timing.half_tick",
                "timeout, half_tick = self._timing.session_timeout, 0.0",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="5e",
        name="one-round-on-an-observer-of-a-follower",
        wrong="Half a tick is taken for enough on an observer that a follower feeds, where a touch "
        "takes two hops.",
        seen_in="aiolead, until it was measured",
        changes=(
            Change(
                "_session/lease/proof.py",
                """
                self._entry_due = self._forwarded = -inf
                self.is_direct = False
                """,
                """
                self._entry_due = self._forwarded = -inf
                self.is_direct = True
                """,
            ),
        ),
        tests=(
            "tests/unit/session/test_session_lease_proof_observer.py",
            "tests/unit/session/test_session_feeding.py",
        ),
    ),
    Mutant(
        number="5f",
        name="second-round-too-early",
        wrong="On an observer of a follower, the second round begins with the first one, whatever "
        "the follower has by then: half a tick counts for both hops.",
        changes=(
            Change(
                "_session/lease/proof.py",
                "self._at_follower.add(sent, now, timeout)",
                "self._at_follower.add(sent, self._collected - half_tick, timeout)",
            ),
        ),
        tests=("tests/unit/session/test_session_lease_proof_observer.py",),
    ),
    Mutant(
        number="5g",
        name="observers-are-overlooked",
        wrong="One round counts although the configuration lists observers.",
        changes=(
            Change(
                "_session/lease/feeding.py",
                "return any(server.is_observer for server in parse_config(data).servers)",
                "return not parse_config(data)",
            ),
        ),
        tests=("tests/unit/session/test_session_feeding.py",),
    ),
    Mutant(
        number="5d",
        name="a-late-sync-is-proof",
        aim=GONE_TOGETHER,
        wrong="A sync confirms a write although the proof before it has ended: it may have slipped "
        "into the instant in which the leader ended the session.",
        seen_in="aiolead, until the specification showed it",
        changes=(
            Change(
                "_session/lease/proof.py",
                "if led and (proof or now <= self.proven_until - self._timing.drift):",
                "if led:",
            ),
        ),
        tests=("tests/unit/session/test_session_lease_proof.py",),
    ),
    Mutant(
        number="5c",
        name="renewals-in-one-step",
        aim=GONE_TOGETHER,
        wrong="A renewal counts as soon as it is answered: that the leader has what was collected "
        "before is not confirmed by a second request.",
        seen_in="aiolead, at first",
        changes=(
            Change(
                "_session/lease/proof.py",
                """
                    self._committed = max(self._committed, sent)
                """,
                """
                    self._committed = self._collected = max(self._committed, sent)
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="6",
        name="lease-a-third-too-long",
        aim=Aim(((*CUTS, *SILENCE),), least=0.9, groups=3),
        wrong="The lease lasts for 4/3 of the session timeout.",
        seen_in="a client for Rust: 1.4 session timeouts",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "return self._lease_proof.proven_until - self._timing.margin",
                "return self._lease_proof.proven_until + self._timing.session_timeout / 3",
            ),
        ),
    ),
    Mutant(
        number="6b",
        name="no-grace-period",
        aim=Aim(((*CUTS, *SILENCE),), least=0.9, groups=3),
        wrong="The body is cancelled only when the proof ends: no time is left for it to stop.",
        changes=(
            Change(
                "_session/lease/timing.py",
                "return self.drift + self.grace_period",
                "return self.drift",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="6c",
        name="no-drift",
        aim=GONE_TOGETHER,
        wrong="Clocks are taken to run at the same rate exactly.",
        changes=(Change("_session/lease/timing.py", "DRIFT = 0.001", "DRIFT = 0.0"),),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="6d",
        name="half-a-tick-without-drift",
        aim=GONE_TOGETHER,
        wrong="Half a tick is waited for by the client's clock as it is, which may be the faster "
        "one: the leader's ping may come after the renewal.",
        seen_in="aiolead, until the specification showed it",
        changes=(
            Change(
                "_session/lease/timing.py",
                "(granted / 4 if tick_time is None else tick_time / 2) / (1 - DRIFT),",
                "(granted / 4 if tick_time is None else tick_time / 2),",
            ),
        ),
        tests=("tests/unit/session/test_session_lease_proof_drift.py",),
        note="It takes a partition within a thousandth of half a tick. The check of traces sees it "
        "in most schedules: `tests/spec/test_lease_traces.py`.",
    ),
    Mutant(
        number="7",
        name="asked-timeout",
        wrong="Time is counted with the session timeout that was asked for, not the granted one.",
        changes=(
            Change(
                "_session/machine.py",
                "granted = granted_timeout(response)",
                "granted = self._asked_timeout",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="7b",
        name="longest-timeout-counts",
        wrong="Where servers grant different timeouts, the latest counts, not the shortest.",
        changes=(
            Change(
                "_session/machine.py",
                "granted = min(granted, self.timing.granted)  # see `lease.proof`",
                "granted = granted  # see `lease.proof`",
            ),
        ),
        tests=("tests/unit/session/test_session_machine.py",),
    ),
    Mutant(
        number="8",
        name="wall-clock",
        simulated=False,
        wrong="The lease is measured with the wall clock, which can be set.",
        seen_in="CURATOR-442; aiozk's deadlines; kazoo's Lease",
        changes=(Change("_client/connect_options.py", "= best_clock(time)", "= time.time"),),
        note="The simulation hands the client a clock of its own.",
        tests=("tests/unit/client/test_client_clock.py",),
    ),
    Mutant(
        number="9",
        name="held-is-a-flag",
        aim=Aim((("process-stopped",),), least=0.7, groups=3),
        wrong="Whether something is held is a flag that a task sets, not a look at the clock.",
        changes=(
            Change(
                "_recipes/_core/tenure.py",
                "return self._client.backend.lease.remaining()",
                "return 1.0",
            ),
            Change(
                "_recipes/_core/tenure.py",
                "return not given_up and backend.lease.remaining() <= 0.0 "
                "and not backend.is_forked",
                "return False",
            ),
        ),
        tests=("tests/recipes/election/test_election.py", *ASYNCIO),
    ),
    Mutant(
        number="10",
        name="connecting-extends-the-lease",
        aim=Aim(((*CUTS, *SILENCE),), least=0.5, groups=3),
        wrong="The lease starts anew when a connection is opened, before anything was answered.",
        seen_in="CURATOR-460: counted from the disconnect",
        changes=(
            Change(
                "_session/machine.py",
                """
                self._handshake_sent = now
                """,
                """
                self._handshake_sent = now
                if self.session_id:
                    self._lease_proof.opened(self.timing, now, created=True)
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="10b",
        name="handshake-is-proof",
        aim=GONE_TOGETHER,
        wrong="A session that moves here counts from its handshake, as a new one does: that "
        "answer can come from a leader that has lost its quorum.",
        changes=(
            Change(
                "_session/lease/proof.py",
                "self._committed = sent if created else -inf",
                "self._committed = sent",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="25",
        name="refused-renewals-are-ignored",
        aim=Aim((DELETIONS,), groups=3),
        wrong="A renewal that finds our znode gone is taken for one that failed to get through.",
        changes=(
            Change(
                "_session/lease/renewals.py",
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
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="25c",
        name="one-unreadable-znode-ends-every-hold",
        wrong="A renewal of which one check is refused (NoAuth) counts as refused for all holds, "
        "until the lease runs out.",
        seen_in="aiolead, at first",
        changes=(
            Change(
                "_session/lease/renewals.py",
                "if not isinstance(error, TransactionError):",
                "if not (isinstance(error, TransactionError) "
                "and isinstance(error.cause, NoNodeError)):",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
        simulated=False,
    ),
    Mutant(
        number="25b",
        name="own-deletion-unseen",
        aim=Aim((DELETIONS,), groups=3),
        wrong="Neither renewals nor a watch tell a holder that its znode was deleted.",
        seen_in="CURATOR-171; kazoo's `is_acquired`",
        changes=(
            Change(
                "_session/lease/renewals.py",
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
                "_recipes/_core/ephemeral.py",
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
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="61",
        name="renewals-leave-too-early",
        wrong="Renewals leave without a thought for when the leader collects, so that none proves "
        "the one before.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "self._next_renewal = max(sent + timing.renew_every, answered + timing.half_tick)",
                "self._next_renewal = sent + timing.renew_every",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="61b",
        name="no-renewal",
        wrong="Nothing renews the lease of what is held.",
        changes=(NO_RENEWAL,),
    ),
    Mutant(
        number="62",
        name="starts-without-a-lease",
        wrong="A term starts however little is left of the lease.",
        changes=(
            Change(
                "_recipes/_core/acquire.py",
                "if client.backend.lease.is_enough():",
                "if client.backend.lease.is_enough() is not None:",
            ),
        ),
        tests=("tests/recipes/test_counts.py", *ASYNCIO),
    ),
    Mutant(
        number="63",
        name="never-changes-servers",
        aim=Aim((CUTS,), least=0.4, groups=3),
        wrong="A holder whose server does not confirm the lease stays with that server.",
        changes=(
            Change(
                "_session/machine.py",
                "short_at = self.leases.short_at(can_move=self.can_move)",
                "short_at = inf",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="64",
        name="resign-is-ignored",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="`on_disconnect='resign'` does nothing: a lost link does not end the hold.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "held = HeldZnode(self, path, lost, settled, resign_on_disconnect)",
                "held = HeldZnode(self, path, lost, settled, False)",
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="400",
        name="many-are-lost-late",
        wrong="Losing the holds of a session begins when a single one would have to be lost, "
        "however many there are.",
        seen_in="aiolead: 5,000 holds at a session timeout of 4 s ended 135 to 290 ms after the "
        "servers might have given them away",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "return self.deadline - max(0, self.held - 1) * LOSING",
                "return self.deadline",
            ),
        ),
        tests=("tests/simulation/test_many_holds.py", "tests/unit/session/test_many_holds.py"),
    ),
    Mutant(
        number="6e",
        name="cancelled-a-grace-period-late",
        wrong="The deadline is right, but bodies are cancelled only when they must have stopped.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "return self.deadline - max(0, self.held - 1) * LOSING",
                "return self.given_away_at",
            ),
        ),
        tests=("tests/spec/test_lease_traces.py", "tests/unit/session/test_session_lease.py"),
    ),
    Mutant(
        number="400b",
        name="any-number-of-holds",
        wrong="A session may have more holds than it could lose in time.",
        changes=(
            Change(
                "_session/lease/lease_book.py",
                "if held >= timing.most_holds:",
                "if False:",
            ),
        ),
        tests=("tests/unit/session/test_many_holds.py",),
        simulated=False,
    ),
    Mutant(
        number="400c",
        name="garbage-is-collected-first",
        wrong="The bodies of many lost holds wait for a full garbage collection.",
        changes=(
            Change(
                "_client/core.py",
                "gc.disable()",
                "pass",
            ),
        ),
        tests=("tests/recipes/test_many_holds.py",),
        simulated=False,
    ),
    Mutant(
        number="400d",
        name="losses-are-reported-first",
        wrong="A lost body waits until the losses of all others are logged.",
        changes=(
            Change(
                "_recipes/_core/reporting.py",
                'client.backend.shared("/", LossReports).add(client, report)',
                "report()",
            ),
        ),
        tests=("tests/recipes/test_many_holds.py",),
        simulated=False,
    ),
)
