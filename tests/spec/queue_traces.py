"""Traces of contender queues in simulated schedules, in terms of the specification's actions.

`Recorder` writes down what contenders and servers do while a schedule runs. `violations` replays
that by `queue_rules`, the contender's part of `docs/spec/queue.tla`:

* A listing shows a state that the servers have committed, none older than this contender's last
  one; what the contender watches afterwards is what the specification says.
* It waits only for znodes that are there, or whose end it has not been told yet.
* It is in front by a listing, or because what it waited for is gone, as the specification says; and
  fewer than N of the znodes before its own are there at that moment, unless its own is gone, too.
* It holds only then. With one place, tokens rise.
* It takes its own znode for gone only if it is.
* A client deletes a znode of its session only after a contender has left it, or as an orphan.

The search for lost creates, and readers and writers, are left out.

    python -m tests.spec.queue_traces --seeds 500
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from aiolead._recipes._core.ephemeral import EphemeralNode, NodeGone
from aiolead._recipes.contention.contender import Contender as RealContender
from aiolead.paths import sequence_of
from aiolead.testing.simulation.ensemble.facts import Truth
from aiolead.testing.simulation.loops import Backend
from aiolead.testing.simulation.run import Scenario, simulate
from aiolead.testing.simulation.timeline import Timeline
from aiolead.testing.simulation.world import World

from .queue_rules import Client, Contender, Rules, Znode
from .schedules import check_schedules


@dataclass(frozen=True, slots=True)
class Fact:
    """A committed change: `created` or `deleted` znodes, or the end (`ended`) of a session.

    Attributes:
        session: that of the znode's owner, or the one that has ended.
        by: the session that has deleted it.
    """

    kind: str
    at: float
    path: str = ""
    token: int = 0
    session: int = 0
    by: int = 0
    zxid: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one contender.

    Attributes:
        action: of the specification; `Cut`, `Notice` and `Leave` are parts of such.
        contender: its number in this trace.
        client: the number of its client, and its current session.
        path: of its znode; empty if it has none.
        token: that znode's.
        places: how many may hold.
        names: the listed ones, those that it watches from now on, or that have gone.
        next: whether it is in front when its predecessor goes.
        claimed: those of `names` that its client's contenders have.
        zxid: the last one that its client has seen.
    """

    action: str
    at: float
    contender: int
    client: int
    session: int
    path: str
    token: int
    places: int
    names: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    next: bool = False
    look_ahead: bool = False
    claimed: frozenset[str] = frozenset()
    zxid: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """A delete of a znode is pending from now on."""

    path: str


class Recorder:
    """Records the contenders and servers of one schedule."""

    def __init__(self) -> None:
        self.trace: list[Fact | Step | Pending] = []
        self.timeline: Timeline | None = None
        self._numbers: dict[int, tuple[int, object]] = {}

    def _number(self, it: object) -> int:
        # The object is kept, so that no other one gets its identity.
        return self._numbers.setdefault(id(it), (len(self._numbers), it))[0]

    def step(self, action: str, it: Any, **details: Any) -> None:
        if it._role.shares:
            return
        node, client = it._node, it._client
        self.trace.append(
            Step(
                action,
                0.0 if self.timeline is None else self.timeline.now,
                self._number(it),
                self._number(client),
                client.session_id,
                "" if node is None else node.path,
                0 if node is None else node.token,
                it._places,
                zxid=client._core.machine.last_zxid,
                **details,
            )
        )

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Until the end of the block."""
        recorder, real = self, RealContender
        place_among, behind_ours, arm = real._place_among, real._behind_ours, real._arm
        note_front, hold, forget = real._note_front, real.hold, real.forget
        leave_watches, delete = real._leave_watches, EphemeralNode._delete
        delete_until_gone, withdraw = EphemeralNode._delete_until_gone.__func__, real.withdraw  # type: ignore[attr-defined]
        tell = Truth.tell

        async def listed(it: Any, names: Any) -> Any:
            details: dict[str, Any] = {"names": tuple(names)}
            details["claimed"] = frozenset(filter(it._local.is_claimed, names))
            details["look_ahead"] = it._on_rank is not None
            try:
                place = await place_among(it, names)
            except NodeGone:
                recorder.step("ListWithoutOwn", it, **details)
                raise
            recorder.step("List", it, watch=place.watch, next=place.is_next, **details)
            return place

        def was_behind_ours(it: Any) -> Any:
            place = behind_ours(it)
            if place is not None:
                recorder.step("BehindOurs", it, watch=place.watch, claimed=frozenset(place.watch))
            return place

        async def armed(it: Any, names: Any) -> bool:
            is_complete = await arm(it, names)
            if is_complete:
                recorder.step("Arm", it, watch=tuple(names), names=tuple(it._ahead_gone))
            else:
                recorder.step("Cut", it)  # another look is due
            return is_complete

        def in_front(it: Any) -> None:
            recorder.step("Front", it, names=tuple(it._ahead_gone))
            note_front(it)

        def held(it: Any, *args: Any, **options: Any) -> Any:
            recorder.step("Enter", it)
            return hold(it, *args, **options)

        def forgotten(it: Any) -> None:
            if it._node is not None:
                recorder.step("Notice", it)
            forget(it)

        def left(it: Any) -> Any:
            recorder.step("Leave", it)
            return withdraw(it)

        def unwatched(it: Any) -> None:
            recorder.step("Cut", it)
            leave_watches(it)

        def deleted(it: Any, node: Any, watch: Any) -> Any:
            recorder.trace.append(Pending(node.path))
            return delete(it, node, watch)

        async def deleted_later(cls: Any, client: Any, node: Any) -> None:
            recorder.trace.append(Pending(node.path))
            await delete_until_gone(cls, client, node)

        def told(it: Truth, kind: str, **details: Any) -> None:
            tell(it, kind, **details)
            recorder._told(it._timeline.now, kind, details)

        patches: list[tuple[type, str, Callable[..., Any] | classmethod[Any, Any, Any]]] = [
            (real, "_place_among", listed),
            (real, "_behind_ours", was_behind_ours),
            (real, "_arm", armed),
            (real, "_note_front", in_front),
            (real, "hold", held),
            (real, "forget", forgotten),
            (real, "withdraw", left),
            (real, "_leave_watches", unwatched),
            (EphemeralNode, "_delete", deleted),
            (EphemeralNode, "_delete_until_gone", classmethod(deleted_later)),
            (Truth, "tell", told),
        ]
        with ExitStack() as stack:
            for where, name, instead in patches:
                stack.enter_context(mock.patch.object(where, name, instead))
            yield

    def _told(self, at: float, kind: str, details: dict[str, Any]) -> None:
        if kind == "session-ended":
            self.trace.append(Fact("ended", at, session=details["session"]))
        elif kind in ("znode-created", "znode-deleted"):
            by = details.get("by", 0)
            path, token, owner = details["path"], details["czxid"], details["owner"]
            fact = Fact(kind.removeprefix("znode-"), at, path, token, owner, by, details["zxid"])
            self.trace.append(fact)


# --- the check ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Queue:
    """The znodes at one path, as committed: now, and after each change."""

    now: dict[str, Znode] = field(default_factory=dict)
    history: list[frozenset[Znode]] = field(default_factory=lambda: [frozenset()])
    known: dict[str, Znode] = field(default_factory=dict)  # all that there have been
    deleted: dict[str, int] = field(default_factory=dict)  # name: zxid
    token: int = 0  # that of the latest holder
    front: dict[int, Znode] = field(default_factory=dict)  # by client


def violations(recorder: Recorder) -> list[str]:
    """The steps that the specification does not allow."""
    return list(_Replay().run(recorder.trace))


class _Replay:
    def __init__(self) -> None:
        self._queues: dict[str, Queue] = defaultdict(Queue)
        self._contenders: dict[int, Contender] = defaultdict(Contender)
        self._seen: dict[int, int] = defaultdict(int)  # the state of the queue, by contender
        self._clients: dict[int, int] = {}  # by session
        self._pending: set[str] = set()
        self._ended: set[int] = set()
        self._suspect: list[Fact] = []  # deletes that only the end of a session explains

    def run(self, trace: list[Fact | Step | Pending]) -> Iterator[str]:
        # Servers may create znodes before their clients say which session is whose.
        for each in trace:
            if isinstance(each, Step) and each.session:
                self._clients[each.session] = each.client
        for each in trace:
            if isinstance(each, Pending):
                self._pending.add(each.path)
                continue
            yield from self._fact(each) if isinstance(each, Fact) else self._step(each)
        yield from self._unexplained()

    def _unexplained(self, at: float = float("inf")) -> Iterator[str]:
        for fact in [fact for fact in self._suspect if fact.at < at]:
            self._suspect.remove(fact)
            yield f"Delete: nobody had left it: {fact}"

    # --- the servers ---------------------------------------------------------------------------

    def _fact(self, fact: Fact) -> Iterator[str]:
        yield from self._unexplained(fact.at)
        if fact.kind == "ended":
            self._ended.add(fact.session)
            self._suspect = [each for each in self._suspect if each.session != fact.session]
            return
        parent, _, name = fact.path.rpartition("/")
        number = sequence_of(fact.path)
        if number is None:
            return
        queue = self._queues[parent]
        if fact.kind == "created":
            owner = self._clients.get(fact.session, -1)
            queue.now[name] = queue.known[name] = Znode(str(owner), name, number, fact.token)
        else:
            queue.now.pop(name, None)
            queue.deleted[name] = fact.zxid
            is_pending = fact.path in self._pending
            if fact.by in self._clients and fact.by != fact.session:
                yield f"Delete: a znode of another session: {fact}"
            elif fact.by == fact.session and fact.by in self._clients and not is_pending:
                self._suspect.append(fact)
        queue.history.append(frozenset(queue.now.values()))

    # --- contenders ----------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterator[str]:
        parent, _, name = step.path.rpartition("/")
        if not step.path:
            if step.action == "Leave":
                self._contenders[step.contender] = Contender("out")
            return
        queue, rules = self._queues[parent], Rules(step.places)
        it = self._contenders[step.contender]
        own = Znode(str(step.client), name, sequence_of(step.path) or 0, step.token)
        if it.node != own:
            it = Contender("here", own)  # joined, by a create or as it was found
        match step.action:
            case "List" | "ListWithoutOwn":
                # The code may list the queue at any time, as after a lost connection.
                it = replace(it, pc="here")
                it = yield from self._listed(queue, rules, it, step)
            case "BehindOurs":
                it = yield from self._behind_ours(queue, rules, replace(it, pc="here"), step)
            case "Arm":
                it = yield from self._armed(queue, rules, it, step)
            case "Cut":
                pc = "here" if it.pc in ("arm", "wait") else it.pc
                it = Contender(pc, it.node)
            case "Front":
                it = yield from self._in_front(queue, rules, it, step)
            case "Enter":
                it = yield from self._entered(queue, rules, it, step)
            case "Notice":
                # Not in the specification: a session that every server refuses is given up
                # (`SessionLife.give_up_session`). It counts from zxid 0 then.
                is_over = own.name not in queue.now or self._is_over(step) or step.zxid == 0
                if not is_over:
                    yield f"StartAgain: its znode is there: {step}"
                it = Contender()
            case "Leave":
                it = rules.leave(it) or it
        self._contenders[step.contender] = it

    def _is_over(self, step: Step) -> bool:
        """Whether the session of its znode is, or its client has another one by now."""
        node = self._queues[step.path.rpartition("/")[0]].now.get(step.path.rpartition("/")[2])
        return (
            node is None
            or self._clients.get(step.session) != step.client
            or (step.session in self._ended)
        )

    def _listed(self, queue: Queue, rules: Rules, it: Contender, step: Step) -> Iterator[Any]:
        names = frozenset(name for name in step.names if sequence_of(name) is not None)
        first = self._seen[step.contender]
        for number, view in enumerate(queue.history[first:], first):
            if frozenset(z.name for z in view) == names:
                self._seen[step.contender] = number
                break
        else:
            yield f"List: no committed state since the last listing is that: {step}"
            return replace(it, pc="arm")
        claimed = frozenset(z for z in view if z.name in step.claimed)
        if any(z.client != str(step.client) for z in claimed):
            yield f"List: claims a znode of another client: {step}"
        # The create's answer has the same czxid as the servers have.
        client = Client(view, queue.front.get(step.client), claimed)
        expected = rules.list_queue(it, client, look_ahead=step.look_ahead)
        if step.action == "ListWithoutOwn":
            if expected is None or expected.pc != "join":
                yield f"List: its znode is in the listing: {step}"
            return Contender()
        found = tuple(z for name in step.watch for z in view if z.name == name)
        after = replace(it, pc="arm" if step.watch else "front", watch=found, next=step.next)
        if expected is None or (
            expected.pc,
            expected.watch if step.watch else (),
            expected.next,
        ) != (
            after.pc,
            after.watch,
            after.next,
        ):
            yield f"List: the specification does not allow {after}, but {expected}: {step}"
        return after

    def _behind_ours(self, queue: Queue, rules: Rules, it: Contender, step: Step) -> Iterator[Any]:
        (name,) = step.watch
        nearest = queue.known[name]
        client = Client(frozenset(), None, frozenset([nearest]))
        after = rules.behind_ours(it, client, nearest)
        if after is None:
            yield f"BehindOurs: the specification does not allow it: {step}"
        return after or it

    def _armed(self, queue: Queue, rules: Rules, it: Contender, step: Step) -> Iterator[Any]:
        names = {z.name: z for z in it.watch}
        if tuple(names) != step.watch:
            yield f"Arm: it watches something else than it has to: {step}"
        # What it has been told: what is gone is gone, and nothing else has gone that it has seen.
        gone = frozenset(z for name, z in names.items() if name in step.names)
        yield from self._not_gone(queue, gone, step)
        for z in it.watch:
            if z not in gone and queue.deleted.get(z.name, step.zxid + 1) <= step.zxid:
                yield f"Arm: {z} is gone, and it waits for that: {step}"
        view = (frozenset(it.watch) - gone) | frozenset([it.node] if it.node else [])
        after = rules.arm(it, Client(view, queue.front.get(step.client)))
        if after is None:
            yield f"Arm: the specification does not allow it: {step}"
        return after or it

    def _not_gone(self, queue: Queue, gone: frozenset[Znode], step: Step) -> Iterator[str]:
        for z in gone:
            if z.name in queue.now:
                yield f"Wake: {z} is not gone: {step}"

    def _in_front(self, queue: Queue, rules: Rules, it: Contender, step: Step) -> Iterator[Any]:
        if it.pc == "wait":
            gone = frozenset(z for z in it.watch if z.name in step.names)
            yield from self._not_gone(queue, gone, step)
            it = replace(it, gone=gone)
            if not gone or not rules.is_first(
                it, Client(frozenset(), queue.front.get(step.client))
            ):
                yield f"Wake: the specification does not allow {it}: {step}"
        elif it.pc != "front":
            yield f"Front: it has not waited, nor seen that: {it}, {step}"
        before = [z for z in queue.now.values() if it.node and z.number < it.node.number]
        if it.node and it.node.name in queue.now and len(before) >= step.places:
            yield f"Front: {len(before)} are before it: {step}"
        if rules.places == 1 and it.node is not None:
            queue.front[step.client] = it.node
        return replace(it, pc="front")

    def _entered(self, queue: Queue, rules: Rules, it: Contender, step: Step) -> Iterator[Any]:
        name = step.path.rpartition("/")[2]
        is_there = name in queue.now
        view = frozenset([it.node]) if it.node else frozenset[Znode]()
        is_told = queue.deleted.get(name, step.zxid + 1) <= step.zxid and not is_there
        after = rules.enter(it, Client(frozenset() if is_told else view))
        if after is None or after.pc != "held":
            yield f"Enter: the specification does not allow it: {it}, {step}"
        if rules.places == 1 and is_there:
            if step.token <= queue.token:
                yield f"Enter: the token does not rise from {queue.token}: {step}"
            queue.token = step.token
        return after or it


# --- schedules ---------------------------------------------------------------------------------


def checked(
    scenario: Scenario, seed: int, backend: Backend
) -> tuple[Recorder, list[str], list[str]]:
    """Run a schedule: its trace, what the specification does not allow, and what the history's
    invariants find."""
    recorder = Recorder()

    async def traced(world: World) -> None:
        recorder.timeline = world.timeline
        await scenario(world)

    with recorder.recording():
        outcome = simulate(traced, seed=seed, backend=backend)
    return recorder, violations(recorder), [str(each) for each in outcome.violations]


def main() -> int:
    return check_schedules(
        "tests.spec.queue_traces",
        checked,
        lambda recorder: {
            "steps of contenders": sum(isinstance(each, Step) for each in recorder.trace)
        },
    )


if __name__ == "__main__":
    sys.exit(main())
