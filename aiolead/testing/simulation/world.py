"""A made-up world, as a scenario is handed it: servers, a network, processes that can be harmed.

    async def scenario(world: World) -> None:
        for name in ("a", "b", "c"):
            world.start(name, partial(program, world))

A scenario starts programs and returns, or stays to look on. A program goes on until the world has
*healed*, and then to the end of what it is for: from that instant on nothing is broken any more, so
everybody must be served within a bound.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ..._wire.versions import Feature
from ..history import Entered, Event, History, Joined, Left, Session, Withdrew
from ..invariants import REQUESTS, REQUESTS_PER_CHANGE, Bounds, Violation
from .director import Director
from .ensemble import Ensemble, EnsembleSettings
from .leftovers import look_for_leftovers
from .levers import Levers
from .network import Network, Path
from .online import Online
from .process import Process, Program
from .schedule import MOST_CLOCKS, Schedule
from .timeline import Timeline
from .witness import Witness

SERVER_HOST = "10.0.0."
PROCESS_HOST = "10.0.1."


@dataclass(slots=True, eq=False)
class _Offer:
    """A body that may be cancelled."""

    line: str
    contender: str
    inner: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    outer: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class World:
    """The world that a scenario gets.

    Attributes:
        schedule: the schedule of the seed.
        timeline: virtual time.
        history: the history that programs report to, and on which the invariants are checked.
        network: hosts and the paths between them.
        ensemble: the servers.
        names: those of all programs, in the order in which they were started.
        places: how many may hold at once, by line, where it is more than one.
        harmless_to_holds: see `invariants.Bounds`.
        losing: see `invariants.Bounds`.
        requests, requests_per_change: see `invariants.Bounds`.
        longest_turn: for how long programs that hold as the world heals may go on, in seconds.
        witness: the facts about the servers.
        sessions: the session of each process that has one, by its name.
        violations: the violations that scenarios report themselves.
        skip: the names of invariants that do not hold in this world, as its scenario knows.
        at_end: closed when the run has ended.
    """

    def __init__(self, schedule: Schedule, timeline: Timeline, tasks: TaskGroup) -> None:
        self.schedule = schedule
        self.timeline = timeline
        self.network: Network = Network(timeline, schedule.seed)
        self.names: list[str] = []
        self.places: dict[str, int] = {}
        # A lease may be as short as an eighth of the session timeout when a hold begins.
        # Reconnecting and renewing takes three round trips.
        slowest = schedule.latency * (1.0 + schedule.jitter)
        is_fast = 6 * slowest < schedule.session_timeout / 20
        self.harmless_to_holds: float = 0.0 if is_fast else -1.0
        self.losing: float = 0.0001
        self.requests: float = REQUESTS
        self.requests_per_change: float = REQUESTS_PER_CHANGE
        self.longest_turn: float = 0.0
        self.sessions: dict[str, int] = {}
        self.violations: list[Violation] = []
        self.skip: set[str] = set()
        self.at_end: ExitStack = ExitStack()
        self._tasks = tasks
        self._programs: dict[str, Program] = {}
        self._processes: dict[str, Process] = {}
        self._all: dict[str, Process] = {}
        self._offers: dict[Process, list[_Offer]] = {}
        self._closing: dict[Process, anyio.Event] = {}
        # The contenders that have joined a queue, by process: several of its tasks may have.
        self._turns: dict[tuple[str, str], dict[str, None]] = {}
        self._waiters: dict[str, None] = {}
        self._holders: dict[str, None] = {}
        self._healed = anyio.Event()
        self.history: History = _Told(self)
        self.witness: Witness = Witness(self.history, schedule.session_timeout)
        release = schedule.release
        self._keeps_sessions = release.has(Feature.LASTING_SESSIONS)
        if not self._keeps_sessions:
            self.skip.add("I13")  # the end of a connection, however short, costs the session
        self.ensemble: Ensemble = Ensemble(
            timeline,
            self.network,
            schedule.rng("servers"),
            EnsembleSettings(
                voters=schedule.voters,
                observers=schedule.observers,
                tick=schedule.tick,
                init_limit=schedule.sync_limit + 1,
                sync_limit=schedule.sync_limit,
                rates=schedule.server_rates,
                last_repeat=schedule.session_timeout / 4,
                engine=release.engine,
                version=release.version,
            ),
            on_fact=self.witness,
        )
        self._levers = Levers(self)
        self._director = Director(self, self._levers)

    # --- for scenarios and programs --------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the start, in real time, which no process has."""
        return self.timeline.now

    @property
    def is_healed(self) -> bool:
        """Whether nothing is broken any more: faults are over, and no packet is late."""
        return self._healed.is_set()

    async def healed(self) -> None:
        """Waits until nothing is broken any more: faults are over, and no packet is late."""
        await self._healed.wait()

    def rng(self, name: str) -> random.Random:
        """A generator for one kind of decision: the same for the same seed and name."""
        return self.schedule.rng(name)

    def start(self, name: str, program: Program) -> bool:
        """Starts a program as a process of its own; returns whether it has.

        It does not if the schedule was shrunk to one that lacks this process.

        Args:
            name: the name of the process, in the history too; without a slash or a dot. The one
                that takes its place after it was killed is called `name.2`, and so on.
            program: a coroutine function; its exception ends the run as a violation.
        """
        if name in self._programs or not name or "/" in name or "." in name:
            raise ValueError(f"name: must be new, without a slash or a dot, not {name!r}")
        self._programs[name] = program
        self.names.append(name)
        if name in self.schedule.absent:
            return False
        self._start(name, name)
        return True

    def client(self, process: Process, **options: Any) -> Online:
        """A client, as `async with`, that reports to the history.

        Args:
            process: its process.
            options: for `aiolead.connect`, beside those that follow from the schedule.
        """
        schedule = self.schedule
        common: dict[str, Any] = {
            "session_timeout": schedule.session_timeout,
            "grace_period": schedule.grace_period,
        }
        if schedule.tells_tick:
            common["tick_time"] = schedule.tick
        return Online(self, process, {**common, **options})

    @contextmanager
    def may_be_cancelled(
        self, process: Process, line: str, contender: str
    ) -> Iterator[anyio.CancelScope]:
        """Offers the body of a `with` to the faults that cancel tasks.

        Args:
            process: the process of the task.
            line: the tenure that the body contends for.
            contender: as which.
        """
        offer = _Offer(line, contender)
        offers = self._offers.setdefault(process, [])
        offers.append(offer)
        try:
            with offer.outer, offer.inner:
                yield offer.inner
        finally:
            offers.remove(offer)

    async def asked_to_close(self, process: Process) -> None:
        """Waits until a fault wants a program to close its client, and to go on with another."""
        event = self._closing[process] = anyio.Event()
        await event.wait()

    def harm(
        self, kind: str, target: str = "", *, duration: float = 0.0, amount: float = 0.5
    ) -> None:
        """Does a fault at once, beside those of the schedule; without effect after the healing.

        For programs that stand for what goes wrong: shrinking leaves a program out, and so its
        faults.

        Args:
            kind: one of `KINDS`.
            target: to whom; see `faults.Target`.
            duration: for how long, in seconds; it ends at the healing.
            amount: see `Fault`.
        """
        self._director.harm(kind, target, duration, amount)

    def block(self, process: Process, seconds: float, *, after: int = 0) -> None:
        """A call blocks the event loop of a process: no task of it runs, but its threads do.

        Args:
            process: which.
            seconds: for how long; it ends when the faults do.
            after: how often one of its tasks is woken before.
        """
        seconds = min(seconds, self.schedule.healing - self.now)
        if process.is_alive and seconds > 0.0:
            self.timeline.after(seconds, self._levers.block_process(process, after))

    def runs_threads(self, process: Process) -> bool:
        """Whether the threads of a process run: it is alive, and not stopped as a whole."""
        return process.is_alive and not self._levers.is_stopped(process)

    def closes_connections(self) -> None:
        """From now on, servers may see connections closed before their clients do.

        Where a session ends with its connection, its body then has no time to stop. Fencing is all
        that such an engine allows.
        """
        if not self._keeps_sessions:
            self.skip |= {"I1", "I2"}

    def violation(self, name: str, text: str) -> None:
        """Something is wrong that the invariants do not know of."""
        self.violations.append(Violation(name, text, self.now))

    def bounds(self) -> Bounds:
        """How long things may take in this world."""
        schedule = self.schedule
        # Until a server notices that it is alone; until it gives up an election that fails.
        patience = (2 * schedule.sync_limit + 3) * schedule.tick
        return Bounds(
            session_timeout=schedule.session_timeout,
            tick_time=schedule.tick,
            grace_period=schedule.grace_period,
            release=schedule.session_timeout,
            election=patience + 2.0,
            harmless_to_holds=self.harmless_to_holds,
            losing=self.losing,
            places=self.places,
            requests=self.requests,
            requests_per_change=self.requests_per_change,
        )

    # --- processes, for faults -------------------------------------------------------------------

    def process(self, name: str) -> Process | None:
        """The process that runs a program now; None if it was never started."""
        return self._processes.get(name)

    def alive(self) -> list[Process]:
        """All processes that run, or are stopped."""
        return [process for process in self._processes.values() if process.is_alive]

    def playing(self, part: str) -> Process | None:
        """The process of the latest `holder` or `waiter` there is."""
        contenders = self._holders if part == "holder" else self._waiters
        for contender in reversed(contenders):
            process = self._all.get(contender.partition("/")[0])
            if process is not None and process.is_alive:
                return process
        return None

    def kill(self, process: Process) -> None:
        """Kills a process."""
        if process.is_alive:
            process.kill()
            self.history.killed(process.name)

    def restart(self, process: Process) -> None:
        """Restart a killed process's program, unless that has been done."""
        name, _, number = process.name.partition(".")
        if self._processes.get(name) is process and not process.is_alive:
            self._start(name, f"{name}.{int(number or 1) + 1}")

    def cancel(self, process: Process, which: float, *, twice: bool) -> None:
        """Cancels one of the bodies that a process offers for that.

        Args:
            process: whose.
            which: 0 to 1: which of them.
            twice: whether it is the scope around the one that is cancelled at first.
        """
        offers = self._offers.get(process)
        if not offers or not process.is_alive:
            return
        offer = offers[min(int(which * len(offers)), len(offers) - 1)]
        scope = offer.outer if twice else offer.inner
        if not scope.cancel_called:
            if not offer.inner.cancel_called:
                self.history.cancelled(offer.line, offer.contender)
            scope.cancel()

    def ask_to_close(self, process: Process) -> None:
        """Has a program close its client."""
        event = self._closing.get(process)
        if event is not None and process.is_alive:
            event.set()

    def revoke(self, process: Process | None, line: str | None = None) -> None:
        """An operator takes away what a process holds, or waits for: in one line or in all.

        A line may be a claim: then it counts with the path that it is in, too. None: all processes,
        also those that have ended, whose znodes may still be there.
        """
        for (name, where), contenders in self._turns.items():
            is_aimed_at = process is None or name == process.name
            if is_aimed_at and line in (None, where, where.rpartition("/")[0]):
                for contender in contenders:
                    self.history.revoked(where, contender)

    @property
    def lines(self) -> list[str]:
        """All lines that anybody has joined."""
        return list(dict.fromkeys(line for _, line in self._turns))

    def delays(self, path: Path) -> tuple[float, float]:
        """How long packets take at least and at most where no fault makes it longer, in seconds."""
        schedule, servers = self.schedule, self._levers.hosts
        peers = path.source in servers and path.target in servers
        least = schedule.peer_latency if peers else schedule.latency
        return least, least * (1.0 + schedule.jitter)

    def _start(self, name: str, full_name: str) -> None:
        number = self.names.index(name)
        rates = self.schedule.process_rates
        process = Process(
            full_name,
            f"{PROCESS_HOST}{number + 1}",
            self.ensemble.connect_string,
            timeline=self.timeline,
            network=self.network,
            tasks=self._tasks,
            seed=self.schedule.seed,
            rate=rates[number % MOST_CLOCKS],
        )
        self._processes[name] = self._all[full_name] = process
        for server in self._levers.hosts:
            for source, target in ((process.host, server), (server, process.host)):
                path = self.network.path(source, target)
                path.range = self.delays(path)
        process.start(self._programs[name])

    # --- the run ---------------------------------------------------------------------------------

    async def run(self, scenario: Callable[[World], Awaitable[object]]) -> None:
        """From the start of the servers to the look at what is left.

        Raises:
            Exception: the exceptions of programs or the scenario.
        """
        levers = self._levers
        for one in levers.hosts:
            for other in levers.hosts:
                if one != other:
                    path = self.network.path(one, other)
                    path.range = self.delays(path)
        self.ensemble.start()
        self._director.plan()
        await scenario(self)
        await self.healed()
        most = self.bounds().progress + 2 * self.schedule.session_timeout + self.longest_turn
        with anyio.move_on_after(most):
            for process in list(self._processes.values()):
                await process.wait()
        # A process that is not done by now is a violation; kill it, to see what else there is.
        for process in self.alive():
            self.violation("I9", f"{process.name} is not done long after everything has healed")
            self.kill(process)
            await process.wait()
        self.witness.pace.finish(self.now)
        await look_for_leftovers(self)

    def heal(self) -> None:
        """From now on nothing is broken any more."""
        self.history.healed()
        self._healed.set()

    @property
    def done(self) -> dict[str, int]:
        """How often each kind of fault was done."""
        return self._director.done

    def note(self, event: Event) -> None:
        """Looks at an event of the history as it is recorded."""
        if isinstance(event, Session):
            self.sessions[event.contender] = event.session_id
            return
        if isinstance(event, Joined):
            self._waiters[event.contender] = None
            key = event.contender.partition("/")[0], event.line
            self._turns.setdefault(key, {})[event.contender] = None
        elif isinstance(event, (Entered, Withdrew)):
            self._waiters.pop(event.contender, None)
            if isinstance(event, Entered):
                self._holders[event.contender] = None
        elif isinstance(event, Left):
            self._holders.pop(event.contender, None)
        else:
            return
        self._director.noted(event)

    def is_server(self, host: str) -> bool:
        """Whether an address is that of a server."""
        return host.startswith(SERVER_HOST)

    def is_alive(self, contender: str) -> bool:
        """Whether a contender's process has not been killed."""
        process = self._all.get(contender.partition("/")[0])
        return process is None or process.is_alive


class _Told(History):
    """A history whose events the world looks at."""

    def __init__(self, world: World) -> None:
        super().__init__(lambda: world.timeline.now, is_alive=world.is_alive)
        self._world = world

    def record(self, event: Event) -> None:
        super().record(event)
        self._world.note(event)
