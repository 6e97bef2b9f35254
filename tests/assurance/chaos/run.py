"""One seed: contenders as processes, faults, healing, progress, and what the histories say."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

import aiolead
from aiolead.testing import BlockingEnsemble
from aiolead.testing._proxy.thread import LoopThread
from aiolead.testing.history import Entered, Event, History
from aiolead.testing.invariants import Bounds, Margin, Reading, margins
from aiolead.testing.invariants import sometimes as situations

from . import analysis
from .actors import Actor, Seat, leave_all
from .diary import Chronicle, confirmations
from .nemesis import Nemesis
from .role import Role
from .schedule import Kind, Schedule
from .settings import Settings
from .stores import PlainSet, TokenStore
from .witness import disks_of, forgotten, merged, testimony

PATIENCE = 30.0
"""How long each contender may take to have its turn once all is well, in seconds.

A machine that does other things as well may be slow; the invariants know closer bounds for what
depends on nothing but the library.
"""

HOLDS = ((0.02, 0.2), (0.2, 1.0), (0.5, 2.5), (0.05, 0.5))
"""How long the contender of each seat holds, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one seed. All times are in seconds.

    Attributes:
        schedule: the faults.
        recipe: the recipe of the contenders.
        holds: how many there were.
        overlap: for how long two believed at the same time that they held.
        stuck: contenders without a turn within `PATIENCE` of the healing, or that could not leave.
        lost: for each store, the elements that it had confirmed and has lost.
        kept: for each store, how many elements it has.
        refusals: how often the store that goes by tokens has refused.
        wrong: the violations of the invariants, which are checked for aiolead only.
        forgotten: the numbers of transactions that the servers had committed, and have lost. Then
            the run is void, and so are its servers: nothing can be had from such an ensemble.
        margins: how long before the servers deleted its znode each loser had stopped.
        seen: how often rare situations were reached.
        events: the history.
    """

    schedule: Schedule
    recipe: str
    holds: int
    overlap: float
    stuck: list[str]
    lost: dict[str, list[str]]
    kept: dict[str, int]
    refusals: int
    wrong: list[str]
    forgotten: list[int]
    margins: list[Margin]
    seen: Counter[str]
    events: list[Event]

    @property
    def is_void(self) -> bool:
        """Whether nothing follows from the run, since the servers broke what they promise."""
        return bool(self.forgotten)

    @property
    def is_ours(self) -> bool:
        return self.recipe.startswith("aiolead")

    def __str__(self) -> str:
        lost = ", ".join(f"{store} {len(what)}" for store, what in self.lost.items() if what)
        parts = [
            f"{self.recipe}: {self.holds} holds",
            f"two holders for {self.overlap:.3f} s",
            f"lost: {lost or 'nothing'}",
            *([f"VOID: the servers lost {self._lost_zxids}"] if self.is_void else []),
            *self.stuck,
            *(["all invariants hold"] if self.is_ours and not self.wrong else []),
            *([f"{len(self.wrong)} VIOLATIONS"] if self.wrong else []),
        ]
        return "; ".join(parts)

    @property
    def _lost_zxids(self) -> str:
        return ", ".join(map(hex, self.forgotten[:3]))


def play(
    ensemble: BlockingEnsemble,
    settings: Settings,
    schedule: Schedule,
    recipe: str,
    *,
    seats: int = len(HOLDS),
) -> Outcome:
    """Runs a schedule against contenders of one recipe; the servers are well when it returns.

    Unless it is void: then others are needed.

    Args:
        ensemble: that of the settings.
        settings: those of servers and contenders.
        schedule: the faults, for as many servers and contenders.
        recipe: the recipe of the contenders.
        seats: how many contend.

    Raises:
        ExceptionGroup: a fault could not be done.
        TimeoutError: somebody has not had a turn before anything went wrong.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        run = _Run(ensemble, settings, schedule, recipe, directory, stack)
        run.take_seats(seats)
        run.rage()
        run.leave()
        return run.outcome()


class _Run:
    """The parts of one run, and what it has come to."""

    def __init__(
        self,
        ensemble: BlockingEnsemble,
        settings: Settings,
        schedule: Schedule,
        recipe: str,
        directory: Path,
        stack: ExitStack,
    ) -> None:
        self._ensemble = ensemble
        self._settings = settings
        self._schedule = schedule
        self._recipe = recipe
        self._directory = directory
        self._stack = stack
        self._line = f"/chaos-{uuid.uuid4().hex}"
        self._chronicle = Chronicle()
        self._seats: list[Seat] = []
        self._stuck: list[str] = []
        self._wrong: list[str] = []
        self._file = PlainSet(str(directory / "file"), "driver")
        self._store: TokenStore | None = None
        self._is_ours = recipe.startswith("aiolead")

    def take_seats(self, count: int) -> None:
        """Starts all contenders, and waits until each has held once."""
        znode = tokens = ""
        if self._is_ours:
            znode = f"{self._line}-set"
            anyio.run(_create, self._ensemble.connect_string, znode)
            tokens = str(self._directory / "tokens")
            self._store = TokenStore(tokens, self._chronicle, self._line)
            self._stack.enter_context(self._store)
        thread = LoopThread("links")
        self._stack.callback(thread.close)
        for number in range(count):
            least, most = HOLDS[number % len(HOLDS)]
            role = Role(
                recipe=self._recipe,
                line=self._line,
                session_timeout=self._settings.session_timeout,
                hold_least=least,
                hold_most=most,
                seed=self._schedule.seed * 1000 + number * 100,
                backend=("asyncio", "trio")[number % 2],
                plain=str(self._directory / "file"),
                tokens=tokens,
                znode=znode,
            )
            ports = [server.port for server in self._ensemble.servers]
            seat = Seat(f"c{number}", role, ports, thread, self._directory)
            self._stack.callback(seat.close)
            self._seats.append(seat)
            seat.fill()
        for seat in self._seats:
            seat.actor.await_event(Entered, PATIENCE)

    def rage(self) -> None:
        """Does what the schedule says, heals it all, and has everybody served once more."""
        nemesis = Nemesis(self._ensemble, self._seats, self._chronicle)
        try:
            nemesis.rage(self._schedule)
        finally:
            nemesis.heal()
        healed, deadline = self._chronicle.events[-1].at, time.monotonic() + PATIENCE
        for seat in self._seats:
            try:
                left = max(0.0, deadline - time.monotonic())
                seat.actor.await_event(Entered, left, after=healed)
            except TimeoutError as late:
                self._give_up(seat.actor, "was not served once all was well", str(late))

    def leave(self) -> None:
        """Has everybody leave in good order."""
        present = [seat.actor for seat in self._seats if seat.actor.is_running]
        for actor in leave_all(present, PATIENCE / 2):
            self._chronicle.killed(actor.name)
            self._give_up(actor, "did not leave", actor.tail())
        for actor in present:
            if self._is_ours and actor.exit_status not in (0, -9):
                self._wrong.append(f"{actor.name} failed\n{actor.tail()}")

    def _give_up(self, actor: Actor, why: str, detail: str) -> None:
        self._stuck.append(f"{actor.name} {why}")
        if self._is_ours:
            self._wrong.append(f"{actor.name} {why}\n{detail}")

    def outcome(self) -> Outcome:
        actors = [actor for seat in self._seats for actor in seat.actors]
        told = [
            *History.load(actor.history for actor in actors if actor.history.exists()).events,
            *self._chronicle.events,
        ]
        events = merged(told, testimony(self._ensemble, self._line))
        reading = Reading.of(events)
        kept = self._kept()
        lost = {
            store: [each for each in confirmed if each not in kept.get(store, ())]
            for store, confirmed in _confirmed(actors).items()
        }
        wrong = list(self._wrong)
        if self._is_ours:
            wrong += self._settings.violations(reading, is_complete=True)
            wrong += [
                f"{store}: lost {what}"
                for store, what in lost.items()
                if what and self._is_due(store)
            ]
        return Outcome(
            schedule=self._schedule,
            recipe=self._recipe,
            holds=sum(1 for _ in reading.holds()),
            overlap=analysis.overlap(analysis.beliefs(reading), until=reading.end),
            stuck=self._stuck,
            lost=lost,
            kept={store: len(elements) for store, elements in kept.items()},
            refusals=self._store.refusals if self._store else 0,
            wrong=wrong,
            forgotten=forgotten(disks_of(self._ensemble)),
            margins=margins(reading, Bounds(session_timeout=self._settings.session_timeout)),
            seen=situations(events),
            events=events,
        )

    def _kept(self) -> dict[str, list[str]]:
        """The elements of each store at the end."""
        kept = {"file": self._file.read()}
        if self._store is not None:
            kept["tokens"] = self._store.elements
            kept["znode"] = anyio.run(_read, self._ensemble.connect_string, f"{self._line}-set")
        return kept

    def _is_due(self, store: str) -> bool:
        """Whether a store must not have lost anything.

        A file believes a holder that was stopped between its look at the clock and its write. That
        is what tokens are for.
        """
        stops = any(fault.kind is Kind.CONTENDER_STOPPED for fault in self._schedule.faults)
        return store != "file" or not stops


def _confirmed(actors: Sequence[Actor]) -> dict[str, list[str]]:
    """For each store, the elements that it has confirmed to those who added them."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for actor in actors:
        file = confirmations(actor.history)
        # The last line of one that was killed may be cut.
        lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
        for line in lines:
            store, _, element = line.partition(" ")
            found[store].append(element)
    return dict(found)


async def _create(hosts: str, path: str) -> None:
    async with aiolead.connect(hosts, connect_timeout=PATIENCE) as client:
        await client.create(path)


async def _read(hosts: str, path: str) -> list[str]:
    async with aiolead.connect(hosts, connect_timeout=PATIENCE) as client:
        await client.sync(path)
        data, _ = await client.get(path)
    return data.decode().split()
