"""Queues in a world of faults.

* `consume`: producers put items, consumers work on them under claims and acknowledge some, leave
  others, and are killed with them.
* `delay`: the same with items that are due at some time of day. Every process has a clock for that
  of its own; those of some runs do not agree.
* `below`: the same as `consume`, and another client puts znodes below items, held or not, so that
  no server deletes them. When all has healed, it deletes what it has made.
* `letters`: the same as `consume`, with few acknowledgements, and items move to a queue of dead
  letters after their last attempt.
* `turns`: consumers hold one item in turn, which nobody acknowledges. No other item comes and wakes
  a consumer that waits for it.

These must hold, besides the invariants of everything that is held (a line for each claim):

    queue-lost    what was put is there until somebody has acknowledged it
    queue-again   what was acknowledged is not handed out again, unless an operator has deleted the
                  claim that stays of a finished item
    queue-attempts  the attempts of an item rise with each claim, and it is handed out at most
                  `max_attempts` times, and not after it has moved
    queue-order   items are claimed for the first time in the order of their numbers
    queue-early   no item is handed out before it is due, by the clock of who gets it
    queue-stuck   in the end everything is consumed, by consumers that only wait; or in `turns`,
                  every consumer gets the item
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

import anyio

import aiolead
from aiolead._recipes.attempts import DIED, decode_letter
from aiolead._recipes.queue_items import decode
from aiolead.errors import (
    AcquireTimeout,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    Outcome,
    TenureLost,
)
from aiolead.model import CreateMode
from aiolead.paths import sequence_of
from aiolead.testing.history.events import NodeCreated, NodeDeleted, Session
from aiolead.testing.simulation import Process, World
from aiolead.types import DeadLetter
from tests.assurance.simulation.programs import (
    OF_QUEUES,
    Contend,
    base_name,
    claimed,
    end_of_session,
    explored,
    insist,
    over_clients,
    start_each,
    until_set,
)

QUEUE, CLAIMS, DEAD = "/jobs", "/jobs-claims", "/jobs-dead"

EPOCH = 1e6
"""The time of day when a run begins, in seconds."""

IN_TIME = "handed out as it came due, to somebody who was waiting"
OVERTAKEN = "an item was due before one that was put earlier"
BELOW = "an item could not be deleted"
AGAIN = "given back, and handed out again"
RESTS = "given back for an attempt after a pause"
MOVED = "moved to the dead letters as its last attempt ended"
MOVED_LATER = "moved to the dead letters by the consumer after the last one"

ITEM = b"\x00\x01\x00\x01" + b"\x01\x00\x00\x00\x01x" + b"\x02"
"""An item with one part, as queues encode it."""

AnyQueue = aiolead.Queue | aiolead.PriorityQueue | aiolead.DelayQueue


@dataclass(slots=True)
class Plan:
    """The state that all programs of a run share."""

    world: World
    kind: type[AnyQueue]
    tasks: int  # of each consumer
    skew: float = 0.0  # how wrong clocks may be, in session timeouts
    pause: float = 0.1  # `retry_pause`
    acks: float = 0.8  # the share of items that are acknowledged before all has healed
    most: int | None = None  # attempts
    attempts: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # with the tokens
    producing: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)  # to be acknowledged
    acknowledged: set[str] = field(default_factory=set)
    handed_out: set[str] = field(default_factory=set)
    due: dict[str, float] = field(default_factory=dict)  # in the order in which they were put
    drained: anyio.Event = field(default_factory=anyio.Event)
    spoiling: set[str] = field(default_factory=set)
    below: set[str] = field(default_factory=set)  # znodes below items

    def queue(self, client: aiolead.Client, who: str, time_of_day: Callable[[], float]) -> AnyQueue:
        if self.kind is aiolead.DelayQueue:
            return aiolead.DelayQueue(
                client, QUEUE, identity=who, clock=time_of_day, retry_pause=self.pause
            )
        return self.kind(
            client,
            QUEUE,
            identity=who,
            retry_pause=self.pause,
            max_attempts=self.most,
            dead_letters=None if self.most is None else DEAD,
        )

    def consumers(self, process: Process) -> list[str]:
        """The names of the consumers of a process."""
        if self.tasks == 1:
            return [process.name]
        return [f"{process.name}/{number}" for number in range(self.tasks)]

    def time_of_day(self, process: Process) -> Callable[[], float]:
        """As a process believes it to be: set to the right time, or a wrong one, and going on."""
        world = self.world
        wrong = world.rng(f"time of day of {process.name}").uniform(-self.skew, self.skew)
        offset = EPOCH + world.now - process.clock() + wrong * world.schedule.session_timeout
        return lambda: offset + process.clock()


@explored(range(1000, 1012), range(3000, 3012), reached=OF_QUEUES)
async def consume(world: World) -> None:
    """Two or three consumers of one or two tasks, one or two producers, and an auditor."""
    rng = world.rng("consume")
    kind = rng.choices((aiolead.Queue, aiolead.PriorityQueue), (4, 1))[0]
    begin(Plan(world, kind, tasks=rng.choices((1, 2), (3, 1))[0]), rng)


@explored(range(1000, 1012), range(3000, 3012), reached=OF_QUEUES)
async def below(world: World) -> None:
    """The same, with one more client that puts znodes below items."""
    # Znodes below an item count as attempts, so the pauses would become very long.
    plan = Plan(world, aiolead.Queue, tasks=1, pause=0.0)
    begin(plan, world.rng("below"))
    if world.start("spoiler", partial(spoiler, plan)):
        plan.spoiling.add("spoiler")


@explored(
    # 71073 has found a bug.
    [*range(1000, 1012), 71073],
    [*range(3000, 3012), 71073],
    reached=(
        "moved to the dead letters as its last attempt ended",
        "moved to the dead letters by the consumer after the last one",
    ),
)
async def letters(world: World) -> None:
    """The same as `consume`, with one or two attempts at an item, few of which end well."""
    rng = world.rng("letters")
    most = rng.choice((1, 2, 2))
    begin(Plan(world, aiolead.Queue, tasks=1, pause=0.02, acks=0.3, most=most), rng)


@explored(
    range(1000, 1012),
    range(12),
    reached=(
        "handed out as it came due, to somebody who was waiting",
        "an item was due before one that was put earlier",
        "given back, and handed out again",
    ),
)
async def delay(world: World) -> None:
    """The same with items that are not due yet."""
    rng = world.rng("delay")
    skew = rng.choice((0.0, 0.0, 0.3))
    begin(Plan(world, aiolead.DelayQueue, tasks=rng.choices((1, 2), (3, 1))[0], skew=skew), rng)


def begin(plan: Plan, rng: Random) -> None:
    world = plan.world
    start_each(world, "p", rng.choice((2, 3)), partial(consumer, plan))
    plan.producing.update(start_each(world, "q", rng.choice((1, 2)), partial(producer, plan)))
    world.start("auditor", partial(auditor, plan))


# --- one item in turn ----------------------------------------------------------------------------


@explored(range(1000, 1012), range(3000, 3012), reached=OF_QUEUES)
async def turns(world: World) -> None:
    """Two or three processes with one or two consumers each."""
    rng = world.rng("turns")
    kind = rng.choice((aiolead.Queue, aiolead.PriorityQueue))
    # So many turns would make the pauses very long: `take_turn` asks for some.
    plan = Plan(world, kind, tasks=rng.choice((1, 2)), pause=0.0)
    start_each(world, "p", rng.choice((2, 3)), partial(take_turns, plan))


async def take_turns(plan: Plan, process: Process) -> None:
    """Takes turns over any number of clients; after the healing one more by each consumer."""

    def over(client: aiolead.Client) -> Contend:
        shared = plan.queue(client, process.name, process.clock)

        async def consume(who: str) -> None:
            await put_the_item(plan, client)
            while not await take_turn(plan, process, client, shared, who):
                pass

        return consume

    await over_clients(plan.world, process, plan.consumers(process), over, rests=True)


async def put_the_item(plan: Plan, client: aiolead.Client) -> None:
    """Under a fixed name: there is never another one."""
    name = {
        aiolead.Queue: "queue-0000000000",
        aiolead.PriorityQueue: "queue-1000000010000000000",
    }[plan.kind]
    while True:
        with suppress(ConnectionLossError):
            await client.ensure_path(QUEUE)
            with suppress(NodeExistsError):
                await client.create(f"{QUEUE}/{name}", ITEM, mode=CreateMode.PERSISTENT)
            return
        await client.ready()


async def take_turn(
    plan: Plan, process: Process, client: aiolead.Client, shared: AnyQueue, who: str
) -> bool:
    """Returns whether it was after the healing, and successful."""
    world, rng, tau = plan.world, process.rng, client.session_timeout
    # Several objects of a client at one path share nothing but their registry.
    queue = rng.choice((shared, plan.queue(client, who, process.clock)))
    was_healed, held = world.is_healed, False
    with (
        world.may_be_cancelled(process, QUEUE, who),
        suppress(AcquireTimeout, TenureLost, ConnectionLossError),
    ):
        wait = None if was_healed or rng.random() < 0.5 else rng.uniform(0.01, 1.0) * tau
        async with queue.get(timeout=wait) as item:
            with claimed(world, who, item):
                await anyio.sleep(rng.uniform(0.0, 0.2) * tau)
            held = True
            if rng.random() < 0.5:
                await item.retry(delay=rng.uniform(0.0, 0.2) * tau)
                world.history.reached(RESTS)
    await end_of_session(client)
    await anyio.sleep((0.001 if world.is_healed else rng.uniform(0.0, 0.1)) * tau)
    return was_healed and held


# --- putting -------------------------------------------------------------------------------------


async def producer(plan: Plan, process: Process) -> None:
    """Puts items until everything has healed, and one more then."""
    world, rng, count = plan.world, process.rng, 0

    async def work(client: aiolead.Client) -> bool:
        nonlocal count
        clock = plan.time_of_day(process)
        queue = plan.queue(client, process.name, clock)
        while True:
            was_healed = world.is_healed
            names = [f"{process.name}-{count + i}" for i in range(rng.choice((1, 1, 3)))]
            count += len(names)
            order = rng.choice((0, 1))
            if isinstance(queue, aiolead.DelayQueue):
                longest = 0.2 if was_healed else rng.choice((0.05, 0.5, 1.5))
                later = rng.uniform(0.0, longest) * client.session_timeout
                plan.due.update(dict.fromkeys(names, clock() + later))
                done = await put(plan, names, put_later(queue, names, later, clock))
            else:
                done = await put(plan, names, put_now(queue, names, order))
            if done and was_healed:
                plan.producing.discard(base_name(process))
                return True
            await anyio.sleep(rng.uniform(0.0, 0.6) * client.session_timeout)

    await insist(world, process, work)


async def put(plan: Plan, names: list[str], putting: Awaitable[object]) -> bool:
    """Puts items; returns whether that was confirmed."""
    plan.attempted.update(names)
    try:
        await putting
    except ConnectionLossError as error:
        if error.outcome is Outcome.NOT_APPLIED:
            plan.attempted.difference_update(names)
        return False
    plan.confirmed.update(names)
    return True


async def put_now(
    queue: aiolead.Queue | aiolead.PriorityQueue, names: list[str], priority: int
) -> None:
    items = [name.encode() for name in names]
    if isinstance(queue, aiolead.PriorityQueue):
        await queue.put_many(items, priority=priority)
    elif len(items) == 1:
        await queue.put(items[0])
    else:
        await queue.put_many(items)


async def put_later(
    queue: aiolead.DelayQueue, names: list[str], delay: float, clock: Callable[[], float]
) -> None:
    if len(names) == 1:
        await queue.put(names[0].encode(), delay=delay)
    else:
        await queue.put_many([name.encode() for name in names], at=clock() + delay)


# --- consuming -----------------------------------------------------------------------------------


async def consumer(plan: Plan, process: Process) -> None:
    """Consumes over any number of clients until everything is drained."""
    await over_clients(
        plan.world,
        process,
        plan.consumers(process),
        # After the healing it is enough to wait: nobody has to look again by itself.
        lambda client: (
            lambda who: until_set(plan.drained, _Consumer(plan, process, client, who).turn)
        ),
    )


class _Consumer:
    """A task that consumes."""

    def __init__(self, plan: Plan, process: Process, client: aiolead.Client, who: str) -> None:
        self._plan = plan
        self._world = plan.world
        self._history = plan.world.history
        self._rng = process.rng
        self._process = process
        self._client = client
        self._clock = plan.time_of_day(process)
        self._queue = plan.queue(client, who, self._clock)
        self._asked = 0.0  # since when it waits, by that
        self._who = who

    async def turn(self) -> None:
        """One or several items, by one of the ways there are."""
        rng, queue, tau = self._rng, self._queue, self._client.session_timeout
        self._asked = self._clock()
        with (
            self._world.may_be_cancelled(self._process, QUEUE, self._who),
            suppress(AcquireTimeout, TenureLost, ConnectionLossError),
        ):
            weights = (3, 3, 0, 0) if self._world.is_healed else (3, 3, 1, 1)
            match rng.choices(("get", "consume", "wait", "try"), weights)[0]:
                case "get":
                    async with queue.get() as item:
                        await self._work(item)
                case "consume":
                    async with queue.consume() as items:
                        async for item in items:
                            await self._work(item)
                            if rng.random() < 0.2:
                                break
                case "wait":
                    async with queue.get(timeout=rng.uniform(0.01, 1.0) * tau) as item:
                        await self._work(item)
                case _:
                    async with queue.try_get() as item:
                        if item is not None:
                            await self._work(item)
        await end_of_session(self._client)
        if not self._world.is_healed:
            await anyio.sleep(rng.uniform(0.0, 0.1) * tau)

    def _is_freed(self, claim: str) -> bool:
        """Whether an operator has deleted the persistent claim of a finished item."""
        return any(
            isinstance(event, NodeDeleted)
            and event.path == claim
            and not event.owner
            and not event.by
            for event in self._history.events
        )

    async def _work(self, item: aiolead.types.QueueItem) -> None:
        plan = self._plan
        data = item.data.decode()
        if data in plan.acknowledged and not self._is_freed(item.path):
            self._world.violation("queue-again", f"{data} is handed out after its ack")
        self._look_at_the_clock(data)
        plan.attempts.setdefault(data, []).append((item.token, item.attempts))
        with claimed(self._world, self._who, item):
            await self._body(item)
        if self._rng.random() < plan.acks or self._world.is_healed:
            plan.tried.add(data)
            await item.ack()
            plan.acknowledged.add(data)
        self._asked = self._clock()

    def _look_at_the_clock(self, data: str) -> None:
        plan, history, now = self._plan, self._history, self._clock()
        if data in plan.handed_out:
            history.reached(AGAIN)
        plan.handed_out.add(data)
        due = plan.due.get(data)
        if due is None:
            return
        if now < due:
            self._world.violation("queue-early", f"{data} is handed out {due - now:.4f} s early")
        if self._asked < due and now < due + 0.1 * self._client.session_timeout:
            history.reached(IN_TIME)
        before = list(plan.due)[: list(plan.due).index(data)]
        waiting = plan.confirmed - plan.acknowledged
        if any(plan.due[name] > due and name in waiting for name in before):
            history.reached(OVERTAKEN)

    async def _body(self, item: aiolead.types.QueueItem) -> None:
        rng, tau = self._rng, self._client.session_timeout
        low, high = rng.choices(((0.0, 0.02), (0.02, 0.3), (0.3, 1.5)), (3, 3, 2))[0]
        await anyio.sleep(0.001 if self._world.is_healed else rng.uniform(low, high) * tau)
        self._history.looked(item.path, self._who, item.token, held=item.is_held)
        item.check()


# --- at the end ----------------------------------------------------------------------------------


async def auditor(plan: Plan, process: Process) -> None:
    """When all producers are done: waits until the queue is empty, and looks at what happened."""

    async def work(client: aiolead.Client) -> bool:
        queue = plan.queue(client, process.name, plan.time_of_day(process))
        while not plan.drained.is_set():
            await anyio.sleep(0.25 * client.session_timeout)
            with suppress(ConnectionLossError):
                await client.sync()
                if not (plan.producing or plan.spoiling) and await is_empty(client, queue):
                    plan.drained.set()
        return True

    await insist(plan.world, process, work, pause=0.01)
    moved = await dead_letters(plan, process)
    check_attempts(plan, moved)
    if lost := plan.confirmed - plan.tried - moved.keys():
        plan.world.violation("queue-lost", f"nobody has acknowledged {sorted(lost)}")
    if made_up := plan.tried - plan.attempted:
        plan.world.violation("queue-lost", f"nobody has put {sorted(made_up)}")
    is_spoilt = "spoiler" in plan.world.names
    if plan.kind is aiolead.Queue and plan.tasks == 1 and not is_spoilt:
        check_order(plan.world)


async def dead_letters(plan: Plan, process: Process) -> dict[str, tuple[int, DeadLetter]]:
    """By their data: the transaction that has created each dead letter, and what it says."""
    found: dict[str, tuple[int, DeadLetter]] = {}

    async def work(client: aiolead.Client) -> bool:
        found.clear()
        with suppress(NoNodeError):
            await client.sync()
            for name in await client.get_children(DEAD):
                body, stat = await client.get(f"{DEAD}/{name}")
                content = decode(body)
                letter, data = decode_letter(content.rest), content.parts[0].decode()
                assert letter is not None
                if data in found:
                    plan.world.violation("queue-again", f"{data} is a dead letter twice")
                found[data] = stat.czxid, letter
        return True

    if plan.most is not None:
        await insist(plan.world, process, work, pause=0.01)
    return found


def check_attempts(plan: Plan, moved: dict[str, tuple[int, DeadLetter]]) -> None:
    world = plan.world
    for data, claims in plan.attempts.items():
        claims.sort()
        counts = [count for _, count in claims]
        if counts != sorted(set(counts)):
            world.violation("queue-attempts", f"the attempts of {data} do not rise: {claims}")
        if plan.most is not None and counts[-1] > plan.most:
            world.violation("queue-attempts", f"{data} is handed out for the {counts[-1]}th time")
    for data, (zxid, letter) in moved.items():
        world.history.reached(MOVED_LATER if letter.reason == DIED else MOVED)
        if data in plan.acknowledged:
            world.violation("queue-again", f"{data} is a dead letter after its ack")
        if any(token > zxid for token, _ in plan.attempts.get(data, [])):
            world.violation("queue-attempts", f"{data} is handed out after it has moved")
        if plan.most is not None and letter.attempts < plan.most:
            world.violation("queue-attempts", f"{data} has moved too early: {letter}")


async def is_empty(client: aiolead.Client, queue: AnyQueue) -> bool:
    """Whether nobody can get an item any more: the others stay behind claims of no session."""
    if await queue.size() == 0:
        return True
    for name in await client.get_children(QUEUE):
        claim = await client.exists(f"{CLAIMS}/{name}")
        if claim is None or claim.ephemeral_owner:
            return False
    return True


async def spoiler(plan: Plan, process: Process) -> None:
    """Puts znodes below items until all has healed; then deletes all of them."""
    # Also those of a spoiler that was killed: nobody else would delete them.
    world, rng, made = plan.world, process.rng, plan.below

    async def work(client: aiolead.Client) -> bool:
        while not (world.is_healed and not made):
            was_healed = world.is_healed
            with suppress(ConnectionLossError, NoNodeError, NodeExistsError):
                items = sorted(await client.get_children(QUEUE))
                if made and (was_healed or rng.random() < 0.4):
                    path = rng.choice(sorted(made))
                    with suppress(NoNodeError):
                        await client.delete(path)
                    made.discard(path)
                elif items and not was_healed:
                    path = f"{QUEUE}/{rng.choice(items[:4])}/below"
                    made.add(path)
                    await client.create(path, mode=CreateMode.PERSISTENT)
                    world.history.reached(BELOW)
            if not was_healed:
                await anyio.sleep(rng.uniform(0.0, 0.2) * client.session_timeout)
            else:
                await end_of_session(client)
                await anyio.sleep(0.01)
        return True

    await insist(world, process, work)
    plan.spoiling.discard(base_name(process))


def check_order(world: World) -> None:
    """Whether the items were claimed for the first time in order.

    A consumer that has lost the answer to a claim, and does not want it any more, leaves that item
    to others until it knows that the claim will not come; so where links were lost before, for a
    while, the order says nothing.
    """
    events = world.history.events
    lost = [e.at for e in events if isinstance(e, Session) and e.state != "connected"]
    first: dict[str, float] = {}
    created = [event for event in events if isinstance(event, NodeCreated)]
    for event in sorted(created, key=lambda event: event.czxid):
        if event.path.startswith(f"{CLAIMS}/"):
            first.setdefault(event.path, event.at)
    while_lost = 3 * world.schedule.session_timeout
    latest = -1
    for path, at in first.items():
        number = sequence_of(path) or 0
        if number < latest and not any(at - while_lost < when < at for when in lost):
            text = f"{path} was first claimed at {at:.4f}, after that of number {latest}"
            world.violation("queue-order", text)
        latest = max(latest, number)
