"""Replays what a `queue_recorder.Recorder` has written down, by `queue_rules`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from aiolead.paths import sequence_of

from .queue_recorder import Fact, Pending, Recorder, Step
from .queue_rules import AGAIN, Client, Contender, Job, Rules, Znode


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
        # By client and create: what is looked for, and which step has to begin such a job.
        self._jobs: dict[tuple[int, str], Job] = {}
        self._owed: dict[tuple[int, str], Step] = {}
        # By contender: the states that its looks began with, its znode that is watched, and the
        # step at which its client had seen a change that should have been reported to it.
        self._begun: dict[tuple[int, str], int] = {}
        self._watched: dict[int, str] = {}
        self._held: dict[int, Step] = {}
        self._untold: dict[int, Step] = {}

    def run(self, trace: list[Fact | Step | Pending]) -> Iterator[str]:
        # Servers may create znodes before their clients say which session is whose.
        for each in trace:
            if isinstance(each, Step) and each.session:
                self._clients[each.session] = each.client
        for each in trace:
            if isinstance(each, Pending):
                self._pending.add(each.path)
                continue
            if isinstance(each, Fact):
                yield from self._fact(each)
            else:
                yield from self._forgotten(each)
                yield from self._of_create(each) if each.create else self._step(each)
                yield from self._not_told(each)
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

    # --- creates, and the search for lost ones -------------------------------------------------

    def _forgotten(self, step: Step) -> Iterator[str]:
        """Searches that had to begin at once, and have not begun when time passes."""
        for key, owed in [*self._owed.items()]:
            if key[0] == step.client and owed.at < step.at:
                del self._owed[key]
                yield f"Look: nobody looks for a create that was lost: {owed}"

    def _of_create(self, step: Step) -> Iterator[str]:
        it, key = self._contenders[step.contender], (step.client, step.create)
        match step.action:
            case "Join":
                if it.pc not in ("join", "out"):
                    yield f"Join: the specification does not allow it: {it}, {step}"
                it = Contender("sent", create=step.create)
            case "Created" | "Refused" | "CreateLost":
                if it.pc != "sent" or it.create != step.create:
                    yield f"Create: it was not sent: {it}, {step}"
                after = {"Created": "here", "Refused": "join", "CreateLost": "lost"}[step.action]
                it = Contender(after, create=step.create)
            case "UnwantedLost":
                self._owed[key] = step
            case "Find":
                states = self._queues[step.parent].history
                self._begun[step.contender, step.create] = len(states) - 1
            case "Resolve":
                it = yield from self._resolve(it, step)
            case "Resolved":
                it = yield from self._resolved(it, step)
            case "Job":
                owed = self._owed.pop(key, None)
                was_looked_for = owed is not None and owed.action == "Resolve"
                if step.next and not was_looked_for:
                    yield f"Look: it was not looked for before: {step}"
                self._jobs[key] = Job(step.create, "second" if step.next else "first")
                self._owed[key] = step
            case "LookBegins":
                self._owed.pop(key, None)
            case "Look":
                yield from self._look(step)
            case "LookOver":
                is_over = step.about in self._ended or step.session != step.about
                if self._jobs.pop(key, None) is not None and not is_over:
                    yield f"Look: it ends without its second look: {step}"
        self._contenders[step.contender] = it

    def _views(self, step: Step) -> Iterator[Client]:
        """The states that its client may have seen: those committed since the look began."""
        queue = self._queues[step.parent]
        claimed = frozenset(z for name, z in queue.known.items() if name in step.claimed)
        for view in queue.history[self._begun.get((step.contender, step.create), 0) :]:
            yield Client(view, claimed=claimed, name=str(step.client), is_caught_up=True)

    def _resolve(self, it: Contender, step: Step) -> Iterator[Any]:
        if it.pc != "lost" or it.create != step.create:
            yield f"Resolve: it has not lost that: {it}, {step}"
        it = Contender("lost", create=step.create)
        allowed = {after for view in self._views(step) for after in Rules().resolve(it, view)}
        name = step.names[0] if step.names else None
        for after in allowed:
            if (after.node.name if after.node else None) == name:
                if after.node is None:
                    self._owed[step.client, step.create] = step
                return after
        yield f"Resolve: the specification allows {allowed}: {step}"
        return replace(AGAIN, create=step.create)

    def _resolved(self, it: Contender, step: Step) -> Iterator[Any]:
        name = step.path.rpartition("/")[2]
        if it.pc == "lost":
            # `Notice` of the specification: the session of the create is over.
            if step.about not in self._ended and step.session == step.about:
                yield f"Resolve: it has not looked for its create: {step}"
            return Contender()
        if (it.node is not None and it.node.name != name) or (name and it.pc != "here"):
            yield f"Resolve: it takes {name!r} for its znode: {it}, {step}"
        return it

    def _look(self, step: Step) -> Iterator[str]:
        key = (step.client, step.create)
        job = self._jobs.pop(key, None)
        if job is None:
            yield f"Look: nobody has lost that: {step}"
            return
        for view in self._views(step):
            looked = Rules().look(job, view)
            # One that is being deleted, as the registry knows, need not be deleted again.
            if looked is not None and {z.name for z in looked[1] - view.claimed} == {*step.names}:
                if not step.names and job.step == "first":
                    self._jobs[key] = Job(step.create, "second")
                return
        yield f"Look: no committed state since it began shows that: {step}"

    # --- the own znode -------------------------------------------------------------------------

    def _not_told(self, step: Step) -> Iterator[str]:
        """Holds that go on although their client has seen a change after the end of their znode."""
        for number, held in [*self._held.items()]:
            if held.client != step.client:
                continue
            parent, _, name = held.path.rpartition("/")
            gone = self._queues[parent].deleted.get(name)
            is_over = step.session != held.session or held.session in self._ended
            if gone is None or gone > step.zxid or is_over or self._watched.get(number) != name:
                continue
            first = self._untold.setdefault(number, step)
            if first.at < step.at:
                del self._held[number]
                yield f"Deliver: it holds although its client knows better: {held}, {step}"

    # --- contenders ----------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterator[str]:
        parent, _, name = step.path.rpartition("/")
        if not step.path:
            if step.action == "Leave":
                before = self._contenders[step.contender]
                if before.pc == "lost":
                    self._owed[step.client, before.create] = step
                self._contenders[step.contender] = Contender("out")
            return
        queue, rules = self._queues[parent], Rules(step.places)
        it = self._contenders[step.contender]
        own = Znode(str(step.client), name, sequence_of(step.path) or 0, step.token)
        if it.node != own:
            it = Contender("here", own)  # joined, by a create or as it was found
        if step.action in ("Deliver", "Notice", "Leave"):
            self._held.pop(step.contender, None)
            self._untold.pop(step.contender, None)
        match step.action:
            case "Settled" if not step.watched:
                yield f"Settled: it holds, and does not watch its znode: {step}"
            case "Watched":
                self._watched[step.contender] = name
            case "Deliver":
                if name in queue.now:
                    yield f"Deliver: its znode is there: {step}"
                it = Contender("out") if it.pc == "held" else it
            case "List" | "ListWithoutOwn":
                # The code may list the queue at any time, as after a lost connection.
                it = replace(it, pc="here")
                it = yield from self._listed(queue, rules, it, step)
            case "BehindOurs":
                it = yield from self._behind_ours(queue, rules, replace(it, pc="here"), step)
            case "Arm":
                if not step.watched:
                    yield f"Arm: it does not watch its own znode: {step}"
                self._watched[step.contender] = name
                it = yield from self._armed(queue, rules, it, step)
            case "Cut":
                pc = "here" if it.pc in ("arm", "wait") else it.pc
                it = Contender(pc, it.node)
            case "Front":
                it = yield from self._in_front(queue, rules, it, step)
            case "Enter":
                it = yield from self._entered(queue, rules, it, step)
                self._held[step.contender] = step
            case "Notice":
                # Not in the specification: a session that every server refuses is given up
                # (`SessionMachine.give_up_session`). It counts from zxid 0 then.
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
        # The znodes that it was notified of are gone, and no other one that it has seen.
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
