"""A re-entrant lock in a world of faults.

* `reenter`: processes of one task or two, each of which takes the lock, and takes it again within
  that, level within level. The tasks of a process share one object. Single levels are cancelled,
  and children of the holder try for the lock.

These must hold, besides the invariants of everything that is held (each task is a contender, and a
child of one is another):

    reentrant-count   `hold_count` is the number of blocks that this very task is in
    reentrant-same    to enter again gives the same tenure, and takes no time; once that is lost, it
                      is refused
    reentrant-loss    a loss ends all levels: none goes on, and the outermost raises it
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import anyio

import aiolead
from aiolead.errors import (
    AcquireTimeout,
    ConnectionLossError,
    LockLost,
    SessionError,
    TenureLost,
)
from aiolead.model import SessionState
from aiolead.testing.history.events import Continued
from aiolead.testing.simulation import Process, Turn, World
from aiolead.testing.simulation.turns import Observed
from tests.assurance.simulation.programs import (
    Contend,
    end_of_session,
    explored,
    over_clients,
    way_in,
)

LINE = "/lines/again"
DEEPEST = 4
SLICES = 4
"""How often one that stays in a block looks up."""

AGAIN_WITHOUT_A_LINK = "entered again while the connection was lost"
LOST_AT_ONCE = "lost at several levels at once"
REFUSED = "refused to enter again after a loss"
INNER_CANCELLED = "an inner block was cancelled, and the outer one went on"


@explored(
    range(1000, 1012),
    range(12),
    reached=(
        "entered again while the connection was lost",
        "lost at several levels at once",
        "refused to enter again after a loss",
        "an inner block was cancelled, and the outer one went on",
    ),
)
async def reenter(world: World) -> None:
    """Two or three processes of one task or two."""
    for number in range(world.rng("reenter").choice((2, 3))):
        tasks = world.rng(f"tasks of p{number}").choice((1, 2))
        world.start(f"p{number}", partial(program, world, tasks))


async def program(world: World, tasks: int, process: Process) -> None:
    """Takes turns over any number of clients; after the healing one more in each task."""
    names = [process.name] if tasks == 1 else [f"{process.name}/{n}" for n in range(tasks)]

    def over(client: aiolead.Client) -> Contend:
        lock = aiolead.ReentrantLock(client, LINE, identity=process.name)
        return partial(take_turns, world, process, client, lock)

    await over_clients(world, process, names, over)


async def take_turns(
    world: World, process: Process, client: aiolead.Client, lock: aiolead.ReentrantLock, who: str
) -> None:
    while True:
        was_healed, held = world.is_healed, False
        with (
            world.may_be_cancelled(process, LINE, who),
            suppress(AcquireTimeout, TenureLost, ConnectionLossError),
        ):
            held = await _Levels(world, process, client, lock, who).outermost()
        if process.is_alive and lock.hold_count:
            world.violation("reentrant-count", f"{who} has left, and is in {lock.hold_count}")
        if was_healed and held:
            return
        await end_of_session(client)
        pause = 0.001 if world.is_healed else process.rng.uniform(0.0, 0.25)
        await anyio.sleep(pause * client.session_timeout)


class _Levels:
    """One turn: the outermost block, and those within."""

    def __init__(
        self,
        world: World,
        process: Process,
        client: aiolead.Client,
        lock: aiolead.ReentrantLock,
        who: str,
    ) -> None:
        self._world = world
        self._history = world.history
        self._process = process
        self._rng = process.rng
        self._client = client
        self._lock = lock
        self._who = who
        self._blocks = 0  # how many of them are open

    async def outermost(self) -> bool:
        rng, lock = self._rng, self._lock
        # When all has healed, everybody is to be served: nobody gives up.
        weights = (3, 2, 0, 0) if self._world.is_healed else (3, 2, 1, 1)
        context, wait = way_in(rng, lock, self._client.session_timeout, weights)
        async with Turn(self._history, LINE, self._who, context, timeout=wait) as held:
            if held is None:
                return False
            self._note_loss(held)
            self._blocks = 1
            try:
                await self._level(held)
            except anyio.get_cancelled_exc_class():
                # All the time that a body may take to stop is made use of.
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(
                        self._world.schedule.grace_period * rng.choice((0.0, 0.5, 0.98))
                    )
                    await self._once_more(held)
                raise
        if held.loss is not None:
            self._wrong("reentrant-loss", "has lost it, and is not notified")
        return True

    def _note_loss(self, held: aiolead.Held) -> None:
        def on_lost() -> None:
            if self._blocks > 1:
                self._history.reached(LOST_AT_ONCE)

        held._body = Observed(held._body, on_lost)

    async def _level(self, held: aiolead.Held) -> None:
        """The body of one block."""
        rng = self._rng
        self._count()
        await self._stay(held)
        for _ in range(rng.choice((0, 1, 1, 2)) if self._blocks < DEEPEST else 0):
            await self._enter_again(held)
            self._count()
            await self._stay(held)
        if rng.random() < 0.15:
            async with anyio.create_task_group() as children:
                children.start_soon(self._child, f"{self._who}/child")

    async def _enter_again(self, held: aiolead.Held) -> None:
        world, lock = self._world, self._lock
        ways = (lock.acquire, lambda: lock.acquire(timeout=0.0), lock.try_acquire, lambda: lock)
        context = self._rng.choice(ways)()
        since, first = world.now, len(self._history.events)
        limit = self._rng.choice((None, None, None, 0.2)) and self._rng.uniform(0.0, 0.2)
        # Another name than that of the turn, which goes on.
        name = f"{self._who}/level {self._blocks}"
        with (
            anyio.move_on_after(limit and limit * self._client.session_timeout) as limited,
            world.may_be_cancelled(self._process, LINE, name) as offered,
        ):
            async with context as again:
                self._blocks += 1
                try:
                    if again is not held or held.loss is not None:
                        self._wrong("reentrant-same", f"has {again} within {held}")
                    if world.now > since and not self._was_stopped(first):
                        self._wrong("reentrant-same", f"had to wait, in block {self._blocks}")
                    if self._client.state is SessionState.SUSPENDED:
                        self._history.reached(AGAIN_WITHOUT_A_LINK)
                    await self._level(held)
                finally:
                    self._blocks -= 1
        if (limited.cancelled_caught or offered.cancelled_caught) and held.is_held:
            self._history.reached(INNER_CANCELLED)

    async def _once_more(self, held: aiolead.Held) -> None:
        """Enters again though the block is at its end: that is refused if it is lost."""
        try:
            async with self._lock.acquire() as again:
                if again is not held or held.loss is not None:
                    self._wrong("reentrant-same", f"has {again} at the end of {held}")
        except LockLost:
            self._history.reached(REFUSED)

    async def _child(self, who: str) -> None:
        """Another task, though it is a child of the holder's: it holds nothing."""
        if self._lock.hold_count:
            self._wrong("reentrant-count", f"has a child that is in {self._lock.hold_count}")
        turn = Turn(self._history, LINE, who, self._lock.try_acquire(), timeout=0.0)
        with suppress(ConnectionLossError, SessionError, TenureLost):
            async with turn:
                pass

    async def _stay(self, held: aiolead.Held) -> None:
        rng, world = self._rng, self._world
        low, high = rng.choices(((0.0, 0.02), (0.02, 0.3), (0.3, 1.0)), (3, 3, 1))[0]
        if world.is_healed:
            low, high = 0.0, 0.005
        length = rng.uniform(low, high) * self._client.session_timeout
        for _ in range(SLICES):
            await anyio.sleep(length / SLICES)
            await self._end_if_lost(held)
            if self._client.state is SessionState.SUSPENDED and self._blocks < DEEPEST:
                await self._enter_again(held)

    async def _end_if_lost(self, held: aiolead.Held) -> None:
        self._history.looked(LINE, self._who, held.token, held=held.is_held)
        if held.loss is not None:
            # It was lost in the instant in which we woke; no other instant may come.
            await anyio.sleep(0.001)
            self._wrong("reentrant-loss", f"goes on in block {self._blocks}")
        held.check()

    # --- what is wrong ---------------------------------------------------------------------------

    def _count(self) -> None:
        if self._lock.hold_count != self._blocks:
            text = f"is in {self._blocks} blocks, and hold_count is {self._lock.hold_count}"
            self._wrong("reentrant-count", text)

    def _was_stopped(self, first: int) -> bool:
        """Whether the process did not run all the while: only then a moment takes time."""
        events = self._history.events[first:]
        name = self._process.name
        return any(isinstance(event, Continued) and event.contender == name for event in events)

    def _wrong(self, name: str, text: str) -> None:
        if self._process.is_alive:
            self._world.violation(name, f"{self._who} {text}")
