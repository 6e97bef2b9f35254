"""Other threads of simulated processes: they ask what a hold is worth, at any step of the loop.

A read is a real thread of the operating system, which is started and waited for within one instant
of virtual time, between two steps of the event loop. So it has no event loop, as any other thread,
and a run is still a function of its seed. While the loop of a process is blocked (`World.block`),
its threads go on; while the process is stopped, they do not.

    threads = OtherThreads(world)
    world.start("threads", threads.run)   # shrinking can leave it out
    ...
    async with Turn(...) as held:
        threads.look_at(process, line, contender, held, client)
"""

from __future__ import annotations

import _thread
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..._client.api.client import Client
from ..._recipes.hold import Tenure
from ...errors import TenureLost, UsageError
from .parking import PROCESS
from .process import Process

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")

DRIFT = 1e-3
"""How much faster or slower the clock of a process may run, and more."""

PATIENCE = 3000
"""After so many steps without a request under way, a loop is not blocked."""

KEPT = 4
"""So many of the latest holds are asked about, those that are over included."""


def in_thread(process: Process, call: Callable[[], T]) -> T:
    """Runs a call in another thread of a process, and returns what it does."""
    results: list[T] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()
    context = Context()
    context.run(PROCESS.set, process)

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    done.acquire()
    # `threading` refuses to, in a simulated run.
    _thread.start_new_thread(run, ())
    done.acquire()
    if errors:
        raise errors[0]
    return results[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one read of a hold.

    Attributes:
        call: by which call.
        held: whether it says that it holds; None if it says nothing of that.
        remaining: for how many seconds, if it says so.
        error: the name of an unexpected error; empty if there was none.
    """

    call: str
    held: bool | None = None
    remaining: float = 0.0
    error: str = ""


def _check(held: Tenure) -> Answer:
    try:
        held.check()
    except (TenureLost, UsageError):
        return Answer("check", False)
    return Answer("check", True)


def _is_held(held: Tenure) -> Answer:
    return Answer("is_held", held.is_held)


def _remaining(held: Tenure) -> Answer:
    remaining = held.remaining()
    return Answer("remaining", remaining > 0.0, remaining)


def _statistics(held: Tenure) -> Answer:
    found = held.statistics()
    return Answer("statistics", found.is_held, found.remaining)


def _loss(held: Tenure) -> Answer:
    return Answer("loss", None if held.loss is None else False)


def _token(held: Tenure) -> Answer:
    return Answer("token", None, error="" if held.token else "no token")


READS: dict[str, Callable[[Tenure], Answer]] = {
    "check": _check,
    "is_held": _is_held,
    "remaining": _remaining,
    "statistics": _statistics,
    "loss": _loss,
    "token": _token,
}
"""The calls of a hold that send nothing, and so are for any thread."""

CLIENT_READS: dict[str, Callable[[Client], object]] = {
    "healthy": lambda client: client.healthy(),
    "client statistics": lambda client: client.statistics(),
    "state": lambda client: client.state,
    "session_id": lambda client: client.session_id,
}
"""Those of a client."""


def answer(name: str, held: Tenure, client: Client) -> Answer:
    """The answer to one of all these reads."""
    try:
        if name in READS:
            return READS[name](held)
        CLIENT_READS[name](client)
    except Exception as error:
        return Answer(name, error=type(error).__name__)
    return Answer(name)


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """A hold that others ask about."""

    process: Process
    line: str
    contender: str
    held: Tenure
    client: Client


class OtherThreads:
    """The other threads of all processes of a world.

    Args:
        world: which.
        blocks: whether they also block the event loops: a program that works in them, as it should
            not.
    """

    def __init__(self, world: World, *, blocks: bool = True) -> None:
        self._world = world
        self._rng: random.Random = world.rng("threads")
        self._blocks = blocks
        self._holds: list[Hold] = []
        self._is_open = False
        self._steps = 0
        self._waiting: list[tuple[int, Callable[[], object]]] = []

    def look_at(
        self, process: Process, line: str, contender: str, held: Tenure, client: Client
    ) -> None:
        """From now on, threads of the process ask about this hold."""
        if not self._is_open:
            return
        hold = Hold(process, line, contender, held, client)
        self._holds = [*self._holds[1 - KEPT :], hold]
        for _ in range(self._rng.randint(1, 3)):
            self._later(hold)

    async def run(self, process: Process) -> None:
        """The program that has the threads run: until the world has healed."""
        del process
        self._is_open = True
        try:
            while not self._world.is_healed:
                await anyio.sleep(self._rng.uniform(0.0, 0.15) * self._tau)
                self._begin()
        finally:
            self._is_open = False

    @property
    def _tau(self) -> float:
        return self._world.schedule.session_timeout

    def _begin(self) -> None:
        """One of the recent holds is asked about, or its loop is blocked."""
        if not self._holds:
            return
        hold = self._rng.choice(self._holds)
        self._later(hold)
        lasting = [each for each in self._holds if each.held.remaining() > 0.0]
        if self._blocks and lasting and self._rng.random() < 0.25:
            self._block(self._rng.choice(lasting))

    def _block(self, hold: Hold) -> None:
        """Blocks a loop: now, or just when an answer is due that it will find late."""
        steps = self._rng.choice((0, 0, self._rng.randint(1, 20)))
        if self._rng.random() < 0.4:
            self._block_now(hold, steps)
        else:
            self._at_step(1, partial(self._block_when_busy, hold, PATIENCE))

    def _block_when_busy(self, hold: Hold, patience: int) -> None:
        if hold.held.remaining() <= 0.0:
            return
        if hold.client.statistics().in_flight:
            # A renewal is two requests, one after the other.
            steps = self._rng.choice((0, self._rng.randint(1, 25)))
            self._at_step(steps, partial(self._block_now, hold, 0))
        elif patience and self._is_open:
            self._at_step(1, partial(self._block_when_busy, hold, patience - 1))

    def _block_now(self, hold: Hold, steps: int) -> None:
        """Blocks a loop: for a while, or so long that the lease ends; then a thread asks first."""
        rng, world = self._rng, self._world
        left = hold.held.remaining()
        seconds = rng.uniform(0.0, 0.5) * self._tau
        if left > 0.0 and rng.random() < 0.8:
            over = left * (1.0 + DRIFT) + 1e-6
            seconds = over + rng.choice((1e-6, 1e-3, 0.05)) * rng.uniform(0.5, 2.0) * self._tau
            world.timeline.after(over, partial(self._ask, hold))
        world.block(hold.process, seconds, after=steps)

    def _later(self, hold: Hold) -> None:
        """Asks now, at a random instant, or as the lease ends; there, after any number of steps."""
        rng, timeline = self._rng, self._world.timeline
        delay = rng.choice((0.0, rng.uniform(0.0, 0.3) * self._tau))
        left = hold.held.remaining()
        if left > 0.0 and rng.random() < 0.6:
            delay = left + rng.choice((0.0, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3)) * rng.uniform(-1.0, 2.0)
        steps = rng.choice((0, 0, rng.randint(1, 12)))
        timeline.after(max(0.0, delay), partial(self._at_step, steps, partial(self._ask, hold)))

    def _at_step(self, steps: int, call: Callable[[], object]) -> None:
        if steps == 0:
            call()
            return
        self._waiting.append((self._steps + steps, call))
        self._world.timeline.between_steps(self._between)

    def _between(self) -> None:
        self._steps += 1
        due = [call for step, call in self._waiting if step <= self._steps]
        self._waiting = [entry for entry in self._waiting if entry[0] > self._steps]
        if not self._waiting:
            self._world.timeline.between_steps(None)
        for call in due:
            call()

    def _ask(self, hold: Hold) -> None:
        world, process = self._world, hold.process
        if not self._is_open or not world.runs_threads(process):
            return
        name = self._rng.choice(_CALLS)
        said = in_thread(process, partial(answer, name, hold.held, hold.client))
        if said.held is not None or said.error:
            world.history.peeked(
                hold.line,
                hold.contender,
                hold.held.token,
                "thread",
                call=name,
                held=bool(said.held),
                remaining=said.remaining,
                error=said.error,
            )
        if said.held and self._rng.random() < 0.7:
            self._later(hold)


_CALLS = (*READS, "check", "check", "is_held", *CLIENT_READS)
"""Those that look at the clock are asked more often."""
