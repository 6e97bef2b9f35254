"""Never two holders: the body has ended before a server can give the role to another client."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import CUTS, LONG_CUT, SILENCE, STALE

PING_IS_PROOF = Change(
    "_session.machine:SessionMachine._other_packet",
    "self._lease_proof.answered(sent, now, proof=False, led=False)",
    "self._lease_proof.answered(sent, now, proof=True, led=True)",
)

NO_RENEWAL = Change(
    "_session.lease.lease_book:LeaseBook.renewal_due",
    "self._next_renewal if self.settled and not self._unanswered else inf",
    "inf",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="no-deadline",
        wrong="A lease never ends by itself: a holder holds until the servers say otherwise.",
        seen_in="aiozk; kazoo #89",
        aim=LONG_CUT,
        changes=(
            Change(
                "_session.lease.lease_book:LeaseBook.deadline",
                "self._lease_proof.proven_until - self._timing.margin",
                "inf",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="counted-from-the-answer",
        wrong="The lease counts from the answer to a request, not from its sending.",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof.answered",
                "self._at_server.add(sent, now, self._timing.session_timeout)",
                "self._at_server.add(now, now, self._timing.session_timeout)",
            ),
        ),
        tests=("tests/session/test_session_lease_proof.py",),
    ),
    Mutant(
        name="any-bytes-are-proof",
        wrong="Whatever comes from the server extends the lease as a committed write would.",
        seen_in="CURATOR-444",
        changes=(
            Change(
                "_session.machine:SessionMachine.receive",
                "self.last_contact = now",
                """
                self.last_contact = now
                if self._established:
                    self._lease_proof.answered(now, now, proof=True, led=True)
                """,
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="an-event-is-proof-of-now",
        wrong="A watch event counts as a committed write. A server that was isolated "
        "delivers old events when its connection heals.",
        aim=STALE,
        changes=(
            Change(
                "_session.machine:SessionMachine._event",
                "self.watches.fire(type_, event.path, zxid)",
                """
                then = self.last_contact
                self._lease_proof.answered(then, then, proof=True, led=True)
                self._lease_proof._collected = self.last_contact
                self.watches.fire(type_, event.path, zxid)
                """,
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="an-event-is-contact",
        wrong="A watch event proves that the server had contact with the leader when it"
        " answered the request before.",
        seen_in="aiolead, until the simulation showed that it does not",
        aim=STALE,
        changes=(
            Change(
                "_session.machine:SessionMachine._event",
                "self.watches.fire(type_, event.path, zxid)",
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
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="ping-is-proof",
        wrong="The answer to a ping extends the lease.",
        aim=LONG_CUT,
        changes=(PING_IS_PROOF,),
        tests=("tests/session/test_session_lease.py",),
        simulated=True,
    ),
    Mutant(
        name="only-pings-renew",
        wrong="The answer to a ping extends the lease, and no other request is sent to renew it.",
        seen_in="kazoo, Curator: two leaders while a follower was cut off",
        aim=LONG_CUT,
        changes=(
            PING_IS_PROOF,
            NO_RENEWAL,
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="refusal-is-proof",
        wrong="A refused write extends the lease like a committed one.",
        changes=(
            Change(
                "_session.machine:SessionMachine._packet",
                "kind.is_proof and worked",
                "kind.is_proof",
            ),
            Change(
                "_session.machine:SessionMachine._packet",
                "kind.is_led and worked",
                "kind.is_led",
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="renewal-counts-itself",
        wrong="An answered renewal counts from its own sending, not from that of the "
        "renewal before.",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof._settle",
                "self.proven_until = max(self.proven_until, sent + timeout)",
                """
                if sent > -inf:
                    self.proven_until = max(self.proven_until, self._collected + timeout)
                """,
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="no-half-tick",
        wrong="A touch is taken to reach the leader at once, not with the next ping of its server.",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof._settle",
                "timeout, half_tick = self._timing.session_timeout, self._timing.half_tick",
                "timeout, half_tick = self._timing.session_timeout, 0.0",
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="one-round-on-an-observer-of-a-follower",
        wrong="Half a tick counts as enough on an observer that a follower feeds, where"
        " a touch takes two hops.",
        seen_in="aiolead, until it was measured",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof.closed",
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
        tests=("tests/session/test_session_lease_proof_observer.py",),
    ),
    Mutant(
        name="late-sync-is-proof",
        wrong="A sync confirms a write although the proof before it has ended, so the "
        "leader may have ended the session in between.",
        seen_in="aiolead, until the specification showed it",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof.answered",
                "if led and (proof or now <= self.proven_until - self._timing.drift):",
                "if led:",
            ),
        ),
        tests=("tests/session/test_session_lease_proof.py",),
    ),
    Mutant(
        name="renewals-in-one-step",
        wrong="A renewal counts as soon as it is answered, without a second request "
        "that confirms it.",
        seen_in="aiolead, at first",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof.answered",
                "self._committed = max(self._committed, sent)",
                "self._committed = self._collected = max(self._committed, sent)",
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="lease-a-third-too-long",
        wrong="The lease lasts for 4/3 of the session timeout.",
        seen_in="a client for Rust: 1.4 session timeouts",
        aim=Aim(((*CUTS, *SILENCE),), least=0.9, groups=3),
        changes=(
            Change(
                "_session.lease.lease_book:LeaseBook.deadline",
                "self._lease_proof.proven_until - self._timing.margin",
                "self._lease_proof.proven_until + self._timing.session_timeout / 3",
            ),
        ),
        tests=("tests/session/test_many_holds.py",),
        simulated=True,
    ),
    Mutant(
        name="half-a-tick-without-drift",
        wrong="Half a tick is measured by the client's clock as it is, which may be the"
        " faster one: the leader's ping may come after the renewal.",
        seen_in="aiolead, until the specification showed it",
        changes=(
            Change(
                "_session.lease.timing:Timing.derive",
                "(granted / 4 if tick_time is None else tick_time / 2) / (1 - DRIFT)",
                "(granted / 4 if tick_time is None else tick_time / 2)",
            ),
        ),
        tests=("tests/session/test_session_lease_proof_drift.py",),
        note="It takes a partition within a thousandth of half a tick. The check of "
        "traces sees it in most schedules: `tests/assurance/spec/test_lease_traces.py`.",
    ),
    Mutant(
        name="wall-clock",
        wrong="The lease is measured with the wall clock, which can be set.",
        seen_in="CURATOR-442; aiozk's deadlines; kazoo's Lease",
        changes=(
            Change(
                "_client.connect_options:lease_clock",
                "best_clock(time)",
                "time.time",
            ),
        ),
        tests=("tests/client/test_connect.py",),
        note="The simulation hands the client a clock of its own.",
    ),
    Mutant(
        name="held-is-a-flag",
        wrong="`is_held` is a flag that a task sets, not a look at the clock.",
        changes=(
            Change(
                "_recipes._core.tenure:Tenure.remaining",
                "self._client.backend.lease.remaining()",
                "1.0",
            ),
            Change(
                "_recipes._core.tenure:Tenure._is_over_by_clock",
                "not given_up and backend.lease.remaining() <= 0.0 and not backend.is_forked",
                "False",
            ),
        ),
        tests=("tests/recipes/locks/test_every_hold.py",),
    ),
    Mutant(
        name="connecting-extends-the-lease",
        wrong="The lease starts again when a connection is opened, before any answer.",
        seen_in="CURATOR-460: counted from the disconnect",
        changes=(
            Change(
                "_session.machine:SessionMachine.connection_made",
                "self._handshake_sent = now",
                """
                self._handshake_sent = now
                if self.session_id:
                    self._lease_proof.opened(self.timing, now, created=True)
                """,
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="handshake-is-proof",
        wrong="A session that moves to another server counts from its handshake, which "
        "a leader without a quorum may answer.",
        changes=(
            Change(
                "_session.lease.proof:LeaseProof.opened",
                "self._committed = sent if created else -inf",
                "self._committed = sent",
            ),
        ),
        tests=("tests/session/test_session_lease.py",),
    ),
    Mutant(
        name="no-renewal",
        wrong="Nothing renews the lease of a hold.",
        changes=(NO_RENEWAL,),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="many-are-lost-late",
        wrong="Many holds of one session are given up no earlier than a single one, so "
        "the last ones end late.",
        seen_in="aiolead: 5,000 holds at a session timeout of 4 s ended 135 to 290 ms "
        "after the servers might have given them away",
        changes=(
            Change(
                "_session.lease.lease_book:LeaseBook.loss_due",
                "self.deadline - max(0, self.held - 1) * LOSING",
                "self.deadline",
            ),
        ),
        tests=("tests/assurance/simulation/test_many_holds.py",),
    ),
    Mutant(
        name="cancelled-a-grace-period-late",
        wrong="The deadline is right, but bodies are cancelled only when they must have stopped.",
        changes=(
            Change(
                "_session.lease.lease_book:LeaseBook.loss_due",
                "self.deadline - max(0, self.held - 1) * LOSING",
                "self.given_away_at",
            ),
        ),
        tests=("tests/assurance/spec/test_lease_traces.py",),
    ),
    Mutant(
        name="one-refusal-ends-the-session",
        wrong="A session is given up after one round of servers that hung up.",
        seen_in="aiozk: a reset during the handshake",
        changes=(
            Change(
                "_client.net.supervisor:REFUSALS",
                "3",
                "1",
            ),
            Change(
                "_client.net.supervisor:Supervisor._session_is_hopeless",
                "age > self._machine.timing.session_timeout",
                "age > 0",
            ),
        ),
        tests=("tests/client/test_faults.py",),
        note="It takes a round in which every server hangs up on a session that is alive.",
    ),
    Mutant(
        name="too-late-for-the-reserve",
        wrong="The watchdog acts when the role may be given away, not a reserve before.",
        changes=(
            Change(
                "_session.lease.overdue:Overdue.look",
                "if at - reserve <= now:",
                "if at <= now:",
            ),
        ),
        tests=("tests/session/test_session_overdue.py",),
    ),
    Mutant(
        name="stopped-is-dead",
        wrong="The guardian closes the session of a process that is stopped, not dead.",
        changes=(
            Change(
                "_client.guardian_process:Guardian.wait_for_end",
                "wait = None if is_open else look * 1000",
                """
                wait = 10
                state = open(f"/proc/{self._owner}/stat").read().rpartition(")")[2].split()[0]
                has_ended = state in "Tt"
                """,
            ),
        ),
        tests=("tests/client/test_guardian.py",),
    ),
    Mutant(
        name="forked-child-holds",
        wrong="A forked child goes on as a holder after its parent has left or crashed.",
        changes=(
            Change(
                "_client.api.client_backend:ClientLease.remaining",
                "return 0.0  # a forked child holds nothing",
                "pass",
            ),
        ),
        tests=("tests/recipes/test_forks.py",),
    ),
)
