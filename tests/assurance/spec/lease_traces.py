"""Traces of the lease in simulated schedules, in terms of the specification's actions.

`Recorder` writes down what clients and leaders do while a schedule runs. `violations` finds, for
each step, a behaviour of `docs/spec/lease.tla` that explains it, and replays it by `lease_rules`:

* When a proof moves, there must be requests `a`, `w` and a second one (or a handshake and `w`) that
  the specification's client may send at these times, and whose answers prove as much.
* A hold begins only while the specification's client may begin, and is cancelled by its deadline:
  neither later, nor earlier for want of a proof.
* A leader ends a session only when it may, and never while its client has a proof that it lives.

    python -m tests.assurance.spec.lease_traces --seeds 500
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal
from unittest import mock

from aiolead._client.core import LONGEST_SLEEP
from aiolead._session import machine as machine_module
from aiolead._session.lease import HeldZnode, LeaseBook, LeaseProof
from aiolead._session.timing import DRIFT, LOSING, Timing
from aiolead.errors import LossReason
from aiolead.testing.simulation.ensemble.facts import Truth
from aiolead.testing.simulation.ensemble.sessions import LeaderSessions
from aiolead.testing.simulation.loops import Backend
from aiolead.testing.simulation.process import Process
from aiolead.testing.simulation.run import Scenario, simulate
from aiolead.testing.simulation.timeline import Timeline
from aiolead.testing.simulation.world import World
from tests.session.script import waited

from .lease_rules import Client, Rules
from .schedules import check_schedules

NEAR = 1e-6
"""Seconds by which sums of the same times may differ."""

LATE = DRIFT * LONGEST_SLEEP
"""Seconds by which a timer may be late: a simulated process's clock may be faster than its timers,
which are those of virtual time."""

Action = Literal["Connect", "Disconnect", "Receive", "Begin", "Cancel", "EndBody", "Continue"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one client, by its clock.

    Attributes:
        action: of the specification; `Continue` is the end of a stop of the process, which the
            specification leaves out (A5 of safety.md).
        at: when; for a request, when its answer was received.
        sent: when the request was sent.
        request: `handshake`, `created` (of a session), `read`, `write` (committed) or `sync`.
        proven: until when the session is proven to live, after this step.
        hold: which one.
        reason: why it was lost.
    """

    action: Action
    at: float
    sent: float = 0.0
    request: str = ""
    proven: float = -inf
    hold: int = 0
    reason: LossReason | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A leader decided to end a session whose timeout was over.

    Attributes:
        at: when, in virtual time.
        session: its number.
        timeout: its timeout.
        touch_age: how long ago its last touch was, by the leader's clock.
        left: for how much longer its client had a proof that it lives, when a quorum had committed
            that; -inf until then. (A leader that was deposed decides, too.)
    """

    at: float
    session: int
    timeout: float
    touch_age: float
    left: float = -inf


@dataclass(slots=True)
class ClientTrace:
    """The steps of one client.

    Attributes:
        timings: the intervals, and from which step on.
        clock: the last reading of its clock, and when that was in virtual time.
    """

    steps: list[Step] = field(default_factory=list)
    timings: list[tuple[int, Timing]] = field(default_factory=list)
    clock: tuple[float, float] = (0.0, 0.0)


class Recorder:
    """Records the clients and leaders of one schedule."""

    def __init__(self) -> None:
        self.clients: list[ClientTrace] = []
        self.ended: list[Ended] = []
        self.timeline: Timeline | None = None
        self.half_tick = 0.0  # of the schedule's servers; 0 if it is not known
        self._machines: list[tuple[Any, ClientTrace]] = []
        self._cores: list[tuple[Any, ClientTrace]] = []
        self._decided: dict[int, int] = {}
        self._touches: dict[tuple[int, int], tuple[int, int]] = {}

    @property
    def now(self) -> float:
        return 0.0 if self.timeline is None else self.timeline.now

    @contextmanager
    def recording(self, proof: type[LeaseProof] = LeaseProof) -> Iterator[None]:
        """Until the end of the block; `proof` is what clients decide with."""
        recorder = self

        class Machine(machine_module.SessionMachine):
            def __init__(self, *args: Any, **options: Any) -> None:
                trace = ClientTrace()
                core = options["observer"]  # it has the client's clock
                recorder.clients.append(trace)
                recorder._machines.append((self, trace))
                recorder._cores.append((core, trace))
                with (
                    mock.patch.object(
                        machine_module, "LeaseProof", _recorded_proof(recorder, trace, proof)
                    ),
                    mock.patch.object(machine_module, "LeaseBook", _recorded_book(trace, core)),
                ):
                    super().__init__(*args, **options)

        resume = Process.resume

        def resumed(it: Process) -> None:
            if it.is_stopped:
                for core, trace in recorder._cores:
                    if getattr(core.clock, "__self__", None) is it:
                        trace.steps.append(Step("Continue", it.clock()))
            resume(it)

        touch, overdue = LeaderSessions.touch, LeaderSessions.overdue
        track, tell = LeaderSessions.track, Truth.tell

        def touched(it: LeaderSessions, session: int, timeout_ms: int, now_ms: int) -> bool:
            lives = touch(it, session, timeout_ms, now_ms)
            if lives:
                recorder._touches[id(it), session] = (timeout_ms, now_ms)
            return lives

        def tracked(it: LeaderSessions, session: int, timeout_ms: int, now_ms: int) -> None:
            recorder._touches[id(it), session] = (timeout_ms, now_ms)
            recorder._decided.pop(session, None)
            track(it, session, timeout_ms, now_ms)

        def told(it: Truth, kind: str, **details: Any) -> None:
            tell(it, kind, **details)
            session = details.get("session", 0)
            if kind == "session-ending" and details["why"] == "closed":
                recorder._decided.pop(session, None)
            elif kind == "session-ended" and session in recorder._decided:
                number = recorder._decided.pop(session)
                ended = replace(recorder.ended[number], left=recorder._left(session))
                recorder.ended[number] = ended

        def found(it: LeaderSessions, now_ms: int) -> list[int]:
            sessions = overdue(it, now_ms)
            for session in sessions:
                timeout, last = recorder._touches[id(it), session]
                age = (now_ms - last) / 1000
                recorder._decided[session] = len(recorder.ended)
                recorder.ended.append(Ended(recorder.now, session, timeout / 1000, age))
            return sessions

        with (
            mock.patch("aiolead._client.connect.SessionMachine", Machine),
            mock.patch.object(Process, "resume", resumed),
            mock.patch.object(LeaderSessions, "touch", touched),
            mock.patch.object(LeaderSessions, "track", tracked),
            mock.patch.object(LeaderSessions, "overdue", found),
            mock.patch.object(Truth, "tell", told),
        ):
            yield

    def _left(self, session: int) -> float:
        """For how long the client of a session still has a proof that it lives, or less."""
        left = -inf
        for machine, trace in self._machines:
            if getattr(machine, "session_id", 0) == session:
                reading, at = trace.clock
                clock = reading + (self.now - at) * (1 + DRIFT)
                left = max(left, machine._lease_proof.proven_until - clock)
        return left


def _recorded_proof(
    recorder: Recorder, trace: ClientTrace, proof: type[LeaseProof]
) -> type[LeaseProof]:
    class Recorded(proof):  # type: ignore[valid-type, misc]
        __slots__ = ()

        def opened(self, timing: Timing, sent: float, *, created: bool) -> None:
            super().opened(timing, sent, created=created)
            trace.timings.append((len(trace.steps), timing))
            what = "created" if created else "handshake"
            self._add(Step("Connect", sent, sent, what, self.proven_until))

        def closed(self) -> None:
            super().closed()
            trace.steps.append(Step("Disconnect", trace.clock[0], proven=self.proven_until))

        def answered(self, sent: float, now: float, *, proof: bool, led: bool) -> None:
            super().answered(sent, now, proof=proof, led=led)
            what = "write" if proof else "sync" if led else "read"
            self._add(Step("Receive", now, sent, what, self.proven_until))

        def _add(self, step: Step) -> None:
            trace.clock = (step.at, recorder.now)
            trace.steps.append(step)

    return Recorded


def _recorded_book(trace: ClientTrace, core: Any) -> type[LeaseBook]:
    class Observer:
        def began(self, held: HeldZnode, leases: LeaseBook) -> None:
            pass  # recorded by `hold`, which knows the time

        def proof_moved(self, leases: LeaseBook) -> None:
            pass

        def lost(self, held: HeldZnode, reason: LossReason, leases: LeaseBook) -> None:
            trace.steps.append(Step("Cancel", core.clock(), hold=id(held), reason=reason))

        def ended(self, held: HeldZnode) -> None:
            trace.steps.append(Step("EndBody", core.clock(), hold=id(held)))

    class Recorded(LeaseBook):
        def __init__(self, lease_proof: LeaseProof, timing: Timing, observer: Any, _: Any) -> None:
            super().__init__(lease_proof, timing, observer, Observer())

        def hold(self, *args: Any, now: float, **options: Any) -> HeldZnode:
            # Before: a hold on a closed client is lost at once.
            place = len(trace.steps)
            held = super().hold(*args, now=now, **options)
            proven = self._lease_proof.proven_until
            trace.steps.insert(place, Step("Begin", now, proven=proven, hold=id(held)))
            return held

    return Recorded


# --- the check ---------------------------------------------------------------------------------


def violations(recorder: Recorder) -> list[str]:
    """The steps that the specification does not allow."""
    wait = waited(recorder.half_tick)
    found = [each for trace in recorder.clients for each in client_violations(trace, wait)]
    for end in recorder.ended:
        rules = Rules(end.timeout, 0, 0, 0)
        if not rules.may_decide(end.touch_age):
            found.append(f"Decide: the last touch is {end.touch_age} old: {end}")
        if end.left > end.timeout * DRIFT + NEAR:
            found.append(f"End: its client has a proof for {end.left}: {end}")
    return found


def client_violations(trace: ClientTrace, wait: float = 0.0) -> Iterator[str]:
    """The steps of one client that the specification does not allow.

    Renewals are at least as far apart as the client means to wait, and `wait`, which the servers'
    tick time asks for.
    """
    timings = dict(trace.timings)
    rules: Rules | None = None
    proven = -inf
    answered: list[Step] = []  # on this connection
    running: dict[int, Step] = {}
    continued = -inf
    for number, step in enumerate(trace.steps):
        if number in timings:
            timing = timings[number]
            rules = Rules(
                timing.session_timeout,
                max(timing.half_tick, wait - NEAR),
                timing.grace_period,
                timing.drift,
            )
        if rules is None:
            continue  # nothing happened before the first connection
        match step.action:
            case "Connect":
                answered = [step]
                if step.request == "created":
                    proven = step.sent + rules.tau
                if step.proven > proven + NEAR:
                    yield f"Connect proves {step.proven - proven} too much: {step}"
            case "Disconnect":
                answered = []
            case "Receive":
                late = [each for each in running.values() if _is_late(rules, proven, step.at)]
                if late:
                    yield f"Tick: a hold runs although its lease is over: {late[0]}, {step}"
                answered.append(step)
                if step.proven > max(proven, step.at) + NEAR and not _is_explained(
                    rules, answered, proven
                ):
                    yield f"Receive: nothing proves {step.proven}: {step}"
            case "Begin":
                before = Client(left=max(0.0, proven - step.at))
                if rules.begin(before) is None:
                    yield f"Begin: {before.left} is left: {step}"
                running[step.hold] = step
            case "Cancel":
                if step.at > continued + LATE:
                    yield from _cancelled(rules, proven, len(running), step)
                running.pop(step.hold, None)
            case "EndBody":
                running.pop(step.hold, None)
            case "Continue":
                continued = step.at
        if step.action in ("Connect", "Receive"):
            proven = step.proven


def _cancelled(rules: Rules, proven: float, holds: int, step: Step) -> Iterator[str]:
    """Time does not pass a deadline; and without another reason it must have come.

    Of many holds, some are lost a little earlier, so that the last one is lost in time.
    """
    if _is_late(rules, proven, step.at - LATE):
        yield f"Tick: a hold runs although its lease is over: {step}"
    left = max(0.0, proven - step.at - holds * LOSING - NEAR)
    is_due = rules.cancel(Client(left=left, body="runs")) is not None
    if step.reason is LossReason.UNCONFIRMED and not is_due:
        yield f"Cancel: {left} is left: {step}"


def _is_late(rules: Rules, proven: float, at: float) -> bool:
    return at >= proven - rules.margin - rules.grace + NEAR


def _is_explained(rules: Rules, answered: list[Step], proven: float) -> bool:
    """Whether a behaviour of the specification ends with the last answer's proof."""
    last = answered[-1]
    for a in answered[:-1]:
        if abs(a.sent + rules.tau - last.proven) > NEAR:
            continue
        later = [each for each in answered if each.request == "write" and each.sent >= a.sent]
        for w in later:
            if abs(_replayed(rules, a, w, last, proven) - (last.proven - last.at)) <= NEAR:
                return True
    return False


def _replayed(rules: Rules, a: Step, w: Step, second: Step, proven: float) -> float:
    """The lease that is left after these requests; -inf if they are not allowed."""
    first = {"handshake": rules.connect, "created": rules.connect}.get(a.request, rules.send_a)
    is_moved = a.request in ("handshake", "created")
    to_do: list[tuple[float, Callable[[Client], Client | None]]] = [
        (a.sent, first),
        (a.at, rules.answer),
        (a.at, rules.receive),
        (w.sent, rules.send_write),
        (w.at, rules.answer),
        (w.at, rules.receive),
    ]
    if not is_moved:
        kind = {"sync": "sync", "write": "second"}.get(second.request)
        if kind is None:
            return -inf  # its answer shows nothing
        to_do += [
            (second.sent, lambda it: rules.send_second(it, kind)),
            (second.at, rules.answer),
            (second.at, rules.receive),
        ]
    it: Client | None = Client(connected=not is_moved, left=max(0.0, proven - a.sent))
    now = a.sent
    for at, action in to_do:
        if at < now:
            return -inf
        it = rules.tick(it, at - now) if it is not None else None
        # The drift of the clocks is part of what is still proven, for a sync.
        if it is not None and at == second.at and it.left <= rules.margin:
            it = replace(it, left=0)
        it = action(it) if it is not None else None
        if it is None:
            return -inf
        now = at
    return it.left if it is not None else -inf


# --- schedules ---------------------------------------------------------------------------------


def checked(
    scenario: Scenario, seed: int, backend: Backend, proof: type[LeaseProof] = LeaseProof
) -> tuple[Recorder, list[str], list[str]]:
    """Run a schedule: its trace, what the specification does not allow, and what the history's
    invariants find."""
    recorder = Recorder()

    async def traced(world: World) -> None:
        recorder.timeline = world.timeline
        recorder.half_tick = world.schedule.tick / 2
        await scenario(world)

    with recorder.recording(proof):
        outcome = simulate(traced, seed=seed, backend=backend)
    return recorder, violations(recorder), [str(each) for each in outcome.violations]


def main() -> int:
    return check_schedules(
        "tests.assurance.spec.lease_traces",
        checked,
        lambda recorder: {
            "steps of clients": sum(len(trace.steps) for trace in recorder.clients),
            "ends of sessions": len(recorder.ended),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
