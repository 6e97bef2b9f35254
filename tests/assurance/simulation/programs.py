"""Parts that the programs of the scenarios share: clients, turns, and bodies that end late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup

import aiolead
from aiolead.errors import ConnectFailed, SessionError
from aiolead.testing.history.events import NodeCreated, Revoked
from aiolead.testing.simulation import Process, Program, Scenario, World, told

Contend = Callable[[Any], Awaitable[object]]
"""Takes turns as the contender of a name, until it has had all of them."""

Spans = Sequence[tuple[float, float]]
"""Ranges of durations, in session timeouts."""

OF_QUEUES = (
    "handed over while something was broken",
    "link lost while holding",
    "reconnected in the session while holding",
)
"""Situations that schedules of queues reach."""


class Schedules(NamedTuple):
    """The schedules of a scenario that each run of the tests explores.

    Attributes:
        asyncio: their seeds on asyncio.
        trio: their seeds on trio.
        reached: situations without which these schedules prove little.
        faults: how many each has, on the average.
    """

    asyncio: Sequence[int]
    trio: Sequence[int]
    reached: Sequence[str]
    faults: float


def explored(
    asyncio: Sequence[int] = range(1000, 1008),
    trio: Sequence[int] = range(8),
    *,
    reached: Sequence[str] = (),
    faults: float = 3,
) -> Callable[[Scenario], Scenario]:
    """Registers a scenario with `test_scenarios.py`; the arguments are those of `Schedules`."""

    def register(scenario: Scenario) -> Scenario:
        setattr(scenario, "schedules", Schedules(asyncio, trio, reached, faults))  # noqa: B010
        return scenario

    return register


async def over_clients(
    world: World,
    process: Process,
    names: Iterable[Any],
    contend_over: Callable[[aiolead.Client], Contend],
    *,
    rests: bool = False,
) -> None:
    """Has contenders take turns over any number of clients, until each of them is done.

    Args:
        world: the world.
        process: the process of the clients. Some are closed before the contenders are done.
        names: of the contenders.
        contend_over: returns the turns of the contenders over one client.
        rests: whether there is a pause before every other client, and not only if one has failed.
    """
    left = set(names)
    while left:
        # The contenders are around the client, so that it may be closed under them.
        async with anyio.create_task_group() as tasks:
            has_failed = True
            with suppress(ConnectFailed):
                async with world.client(process) as client:
                    await _over_one(world, process, left, contend_over(client), tasks)
                has_failed = False
            if has_failed or rests:
                await anyio.sleep(process.rng.uniform(0.0, 0.1))


async def _over_one(
    world: World, process: Process, left: set[Any], contend: Contend, tasks: TaskGroup
) -> None:
    busy = set(left)
    with anyio.CancelScope() as online:

        async def run(name: Any) -> None:
            try:
                await contend(name)
                left.discard(name)
            except SessionError:
                pass  # the client was closed
            finally:
                busy.discard(name)
                if not busy:
                    online.cancel()

        for name in sorted(left):
            tasks.start_soon(run, name)
        await world.asked_to_close(process)


async def alone(
    world: World, process: Process, turns: Callable[[aiolead.Client], Awaitable[object]]
) -> None:
    """`over_clients` for one contender: the process itself."""
    await over_clients(world, process, [process.name], lambda client: lambda _: turns(client))


async def until_set(event: anyio.Event, turn: Callable[[], Awaitable[object]]) -> None:
    """Takes turns until an event, or until the client is closed: its error is raised."""
    closed: SessionError | None = None
    async with anyio.create_task_group() as tasks:

        async def end() -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end)
        try:
            while True:
                await turn()
        except SessionError as error:
            closed = error
        tasks.cancel_scope.cancel()
    if closed is not None and not event.is_set():
        raise closed


def start_each(world: World, letter: str, count: int, program: Program) -> list[str]:
    """Starts a program as several processes; returns the names of those that it has started."""
    names = [f"{letter}{number}" for number in range(count)]
    return [name for name in names if world.start(name, program)]


def check_updates(
    world: World, invariant: str, found: Sequence[str], attempted: set[str], confirmed: set[str]
) -> None:
    """In the end, a register has each confirmed update, once, and nothing that nobody has made."""
    if lost := confirmed.difference(found):
        world.violation(invariant, f"updates are lost: {sorted(lost)}")
    if made_up := set(found) - attempted:
        world.violation(invariant, f"updates are made up: {sorted(made_up)}")
    if len(set(found)) < len(found):
        world.violation(invariant, f"updates are repeated: {found}")


async def insist(
    world: World,
    process: Process,
    work: Callable[[aiolead.Client], Awaitable[bool]],
    *,
    expected: tuple[type[Exception], ...] = (ConnectFailed, SessionError),
    pause: float | None = None,
) -> None:
    """Does some work over any number of clients, until it says that it is done.

    Args:
        world: the world.
        process: the process of the clients.
        work: the work over one client.
        expected: the errors after which it is tried again, over another client.
        pause: between two clients, in seconds. Random by default.
    """
    while True:
        with suppress(*expected):
            async with world.client(process) as client:
                if await work(client):
                    return
        await anyio.sleep(process.rng.uniform(0.0, 0.1) if pause is None else pause)


def way_in(
    rng: Random, lock: Any, tau: float, weights: Sequence[float], **options: Any
) -> tuple[Any, float | None]:
    """One of the ways to acquire a lock, and how long that may wait: None for any time.

    Args:
        rng: chooses.
        lock: the lock, or one side of it.
        tau: the session timeout, in seconds.
        weights: of `acquire()`, of the lock itself as a context manager, of `acquire(timeout=)` and
            of `try_acquire()`.
        options: of each of these calls.
    """
    match rng.choices(("acquire", "with", "wait", "try"), weights)[0]:
        case "acquire":
            return lock.acquire(**options), None
        case "with":
            return lock, None
        case "wait":
            wait = rng.uniform(0.01, 1.5) * tau
            return lock.acquire(timeout=wait, **options), wait
        case _:
            return lock.try_acquire(**options), 0.0


def length_of(rng: Random, spans: Spans, weights: Sequence[float] | None = None) -> float:
    """A random duration out of one of several ranges, in session timeouts."""
    low, high = rng.choices(spans, weights)[0] if weights else rng.choice(spans)
    return rng.uniform(low, high)


@asynccontextmanager
async def using_the_grace_period(world: World, rng: Random) -> AsyncIterator[None]:
    """A body that, when it is cancelled, uses all the time that it may take to stop, or less."""
    try:
        yield
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await anyio.sleep(world.schedule.grace_period * rng.choice((0.0, 0.5, 0.98)))
        raise


@contextmanager
def claimed(world: World, who: str, item: Any, *, may_be_revoked: bool = True) -> Iterator[None]:
    """Reports a claim of an item to the history, as a line of its own.

    From the end of the block on, nothing is done that only the holder may do.
    """
    history = world.history
    history.joined(item.path, who)
    created = next(
        (e.at for e in history.events if isinstance(e, NodeCreated) and e.czxid == item.token), 0.0
    )
    if may_be_revoked and any(
        isinstance(e, Revoked) and (e.line == item.path or (e.contender == who and e.at >= created))
        for e in history.events
    ):
        # An operator has deleted a claim on it before. This one has the same name. So a late
        # request of the owner of the earlier claim may delete this one. (I1 is checked still.)
        # Or an operator has ended the session before the answer to the claim came.
        history.revoked(item.path, who)
    body = item._body
    told(history, item.path, who, item)
    try:
        yield
    finally:
        item._body = body
        history.left(item.path, who, item.token, was_lost=item.loss is not None)


async def end_of_session(client: aiolead.Client) -> None:
    """Raises what has become of a client whose session is over."""
    if client.state.is_final:
        await client.ready()


def base_name(process: Process) -> str:
    """The name of a process, without the number of the one that took the place of a killed one."""
    return process.name.partition(".")[0]
