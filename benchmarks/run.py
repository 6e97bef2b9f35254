"""Takes the samples: every peer does the same in each round, in another order."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from aiolead.testing import BlockingServer

from . import machine
from .driver import Driver, PeerFailedError
from .peers.curator import CuratorNotFoundError
from .peers.go import GoNotFoundError
from .peers.registry import PEERS, PeerKind
from .progress import Progress
from .results import Failure, Results, Sample
from .rows import PLACES
from .site import ALL_SETTINGS, Setting, Site, network, serving
from .workloads import WORKLOADS, Scale, Take, Workload

ROUNDS: dict[Scale, int] = {"full": 3, "quick": 1, "tiny": 1}
_FAILURES = 2
"""A peer that has failed so often at something is not asked again for it."""

_AFTER_A_FAILURE = 130.0
"""How long the sessions of a peer that has failed are waited for to expire, in seconds."""

_CALIBRATION = 100
_OVERHEAD = 0.4
"""The overhead of a sample, about, in seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """A sample that is to be taken."""

    setting: Setting
    workload: Workload
    round: int
    peer: PeerKind

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.setting.name, self.workload.name, self.peer.name


@dataclass(frozen=True, slots=True)
class Choice:
    """The choices of a run; the scale chooses for empty ones."""

    scale: Scale = "full"
    rounds: int = 0
    seed: int = 0
    settings: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()

    @property
    def how_often(self) -> int:
        """How many rounds there are where the bars are read: one server, no disk."""
        return self.rounds or ROUNDS[self.scale]

    def rounds_at(self, setting: Setting) -> int:
        return self.how_often if setting.has_bars else max(1, self.how_often // 3)

    def steps(self) -> list[Step]:
        """In the order in which they are done: by servers, network, workload, round; shuffled."""
        rng = random.Random(self.seed)
        steps = []
        for setting in ALL_SETTINGS.values():
            for workload in WORKLOADS.values():
                if not self._has(setting, workload):
                    continue
                peers = [kind for kind in PEERS.values() if self._joins(kind, workload, setting)]
                for number in range(min(self.rounds_at(setting), workload.most_rounds)):
                    for peer in rng.sample(peers, len(peers)):
                        steps.append(Step(setting, workload, number, peer))  # noqa: PERF401
        return steps

    def _has(self, setting: Setting, workload: Workload) -> bool:
        if self.workloads and workload.name not in self.workloads:
            return False
        # A workload, or a setting, that is named is measured at any scale.
        named = self.scale != "quick" or bool(self.workloads and self.settings)
        where = workload.settings if named else workload.quick_settings
        return setting.name in where and (not self.settings or setting.name in self.settings)

    def _joins(self, kind: PeerKind, workload: Workload, setting: Setting) -> bool:
        if not (workload.peers(kind) and kind.can_do(workload.name)):
            return False
        if kind.is_ours and kind.loop == "threads" and not workload.is_of_threads:
            return False
        if kind.is_cold and setting != Setting():
            return False  # warming up takes the same time everywhere
        if self.peers:
            return kind.name in self.peers
        if kind.is_other_loop and not (workload.is_of_loops and setting.has_bars):
            return False
        return self.scale != "quick" or kind.name in workload.quick_peers


class Drivers:
    """The processes of the peers, which live from sample to sample. A context manager."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_all()

    def drop_all(self) -> None:
        for name in list(self._drivers):
            self.drop(name)

    def get(self, kind: PeerKind) -> Driver:
        if kind.name not in self._drivers:
            self._drivers[kind.name] = Driver(kind)
        return self._drivers[kind.name]

    def drop(self, name: str) -> None:
        driver = self._drivers.pop(name, None)
        if driver is not None:
            driver.close()


class Run:
    """A run, as it goes on.

    Args:
        choice: the choices of the run.
        progress: the report of the steps.
        file: where the results are written, after each workload; None for nowhere.
        minutes: after so many, only the rows of the comparison are measured.
    """

    def __init__(
        self,
        choice: Choice,
        progress: Progress,
        file: Path | None = None,
        minutes: float = math.inf,
    ) -> None:
        begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._choice = choice
        self._progress = progress
        self._file = file
        self._until = time.monotonic() + 60 * minutes
        self._reserved = 0.0
        """How long the rows of the comparison will still take, about, in seconds."""
        self._absent: set[str] = set()
        self._failed: Counter[tuple[str, str, str]] = Counter()
        self.results = Results(begun, choice.scale, choice.seed, choice.how_often)

    def everything(self, steps: list[Step]) -> Results:
        """Starts servers, and takes all samples."""
        results = self.results
        results.machine = machine.describe()
        results.busy.append(machine.busy())
        self._look_for_peers(steps)
        self._reserved = sum(map(self._of_comparison, steps))
        try:
            with Drivers() as drivers:
                for (servers, fsync), some in _by_servers(steps):
                    while some:
                        with serving(servers, fsync) as running:
                            some = self._at(running, some, drivers)
            results.busy.append(machine.busy())
        finally:
            self._save()
        self._progress.finish()
        return results

    def _at(
        self, running: Sequence[BlockingServer], steps: list[Step], drivers: Drivers
    ) -> list[Step]:
        """Takes these samples; those that are left if a server has died of one of them."""
        left = list(steps)
        at_once = Site(replace(steps[0].setting, delay=0.0), running)
        at_once.check_counters()
        self.results.versions["zookeeper"] = at_once.version()
        self._warm_up(at_once, drivers)
        for setting, some in itertools.groupby(steps, lambda step: step.setting):
            with network(setting, running) as site:
                self._calibrate(site, at_once, drivers)
                for _, same in itertools.groupby(some, lambda step: step.workload.name):
                    for step in same:
                        self.one(step, site, at_once, drivers)
                        left.remove(step)
                        if not all(server.is_running for server in running):
                            self._progress.say("A server has died. New ones take its place.")
                            drivers.drop_all()
                            return left
                    self._save()
        return left

    def one(self, step: Step, site: Site, at_once: Site, drivers: Drivers) -> None:
        """Takes one sample, or notes why there is none.

        Args:
            at_once: the same servers with no delay before them, where peers warm up.
        """
        self._progress.begin(f"{step.setting.name}  {step.workload.title}  {step.peer.name}")
        place = [step.setting.name, step.workload.name]
        self._reserved -= self._of_comparison(step)
        if step.peer.name in self._absent:
            pass
        elif tuple(place) not in PLACES and time.monotonic() + self._reserved > self._until:
            if place not in self.results.skipped:
                self.results.skipped.append(place)
                self._progress.say(f"no time for {step.workload.title}, {step.setting.name}")
        elif self._failed[step.kind] < _FAILURES:
            began = time.monotonic()
            try:
                values = self._take(step, site, at_once, drivers)
            except Exception as error:
                # Any error is reported, and the other steps go on.
                self._note(step, error)
                drivers.drop(step.peer.name)
                self._clear(site)
            else:
                self.results.samples.append(
                    Sample(
                        step.workload.name,
                        step.setting.name,
                        step.peer.name,
                        step.round,
                        values,
                        round(time.monotonic() - began, 2),
                    )
                )
        self._progress.end()

    def _take(self, step: Step, site: Site, at_once: Site, drivers: Drivers) -> dict[str, object]:
        workload, peer = step.workload, step.peer
        size = workload.size(self._choice.scale, step.setting)
        with ExitStack() as others:
            if workload.is_fresh or peer.is_cold:
                driver = others.enter_context(Driver(peer, *workload.options))
            else:
                driver = drivers.get(peer)
                if workload.is_warmed and workload.family not in driver.warmed:
                    for _ in range(peer.warm_up):
                        with ExitStack() as more:
                            full = workload.sizes[self._choice.scale]
                            workload.measure(Take(at_once, driver, full, more))
                    driver.warmed.add(workload.family)
            if peer.name not in self.results.versions:
                self.results.versions[peer.name] = driver.call("version")["version"]
            return workload.measure(Take(site, driver, size, others))

    def _clear(self, site: Site) -> None:
        try:
            if not site.cleared(_AFTER_A_FAILURE):
                self._progress.say("some of its sessions have not expired")
        except OSError as dead:
            self._progress.say(f"a server does not answer: {dead}")

    def _of_comparison(self, step: Step) -> float:
        """The time of a step, about, if it is of the comparison; else 0."""
        if (step.setting.name, step.workload.name) not in PLACES:
            return 0.0
        return _OVERHEAD + step.workload.guess(self._choice.scale, step.peer.library)

    def _look_for_peers(self, steps: list[Step]) -> None:
        """Notes once who is not on this machine. The others go on without them."""
        for kind in {step.peer.name: step.peer for step in steps}.values():
            try:
                kind.command()
            except (CuratorNotFoundError, GoNotFoundError, OSError) as missing:
                self._absent.add(kind.name)
                again = f"python -m benchmarks run --peers {kind.name}"
                failure = Failure("everything", "everywhere", kind.name, 0, str(missing), again)
                self.results.failures.append(failure)
                self._progress.say(f"{kind.name} does not take part: {missing}")

    def _note(self, step: Step, error: Exception) -> None:
        self._failed[step.kind] += 1
        again = (
            f"python -m benchmarks run --scale {self._choice.scale} --rounds 1 "
            f"--settings {step.setting.name} --workloads {step.workload.name} "
            f"--peers {step.peer.name}"
        )
        names = step.workload.name, step.setting.name, step.peer.name
        is_told = isinstance(error, (PeerFailedError, CuratorNotFoundError))
        what = str(error) if is_told else f"{type(error).__name__}: {error}"
        self.results.failures.append(Failure(*names, step.round, what, again))
        self._progress.say(f"{step.peer.name} failed: {' / '.join(names[:2])}: {what}")

    def _warm_up(self, site: Site, drivers: Drivers) -> None:
        """Has the servers' machine compile what it will do often."""
        driver = drivers.get(PEERS["limit"])
        for name in ("sequential-get", "pipelined", "lock-cycles", "handover-10"):
            size = WORKLOADS[name].sizes[self._choice.scale]
            with ExitStack() as more:
                WORKLOADS[name].measure(Take(site, driver, size, more))

    def _calibrate(self, site: Site, at_once: Site, drivers: Drivers) -> None:
        """The times of a read without the network, with it, and with the delay that it adds."""
        if site.forwarder is None:
            return
        driver, count = drivers.get(PEERS["limit"]), _CALIBRATION

        def read(hosts: str) -> float:
            path = site.make()
            with driver.clients(hosts):
                driver.call("gets", path=path, count=count // 10)
                return float(driver.call("gets", path=path, count=count)["seconds"]) / count

        site.forwarder.tell("delay 0")
        measured = {"direct": read(at_once.hosts), "forwarded": read(site.hosts)}
        site.forwarder.tell(f"delay {site.setting.delay}")
        measured["delayed"] = read(site.hosts)
        self.results.networks[site.setting.name] = measured

    def _save(self) -> None:
        if self._file is not None:
            self.results.save(self._file)


def _by_servers(steps: list[Step]) -> Iterator[tuple[tuple[int, bool], list[Step]]]:
    def servers(step: Step) -> tuple[int, bool]:
        return step.setting.servers, step.setting.fsync

    for key, some in itertools.groupby(steps, servers):
        yield key, list(some)


def steps_for_progress(
    steps: list[Step], scale: Scale = "full"
) -> list[tuple[tuple[str, str, str], float]]:
    """For `Progress`: the kind of each step, and what it will take, about."""
    warmed: set[tuple[str, str]] = set()
    found = []
    for step in steps:
        guess = step.workload.guess(scale, step.peer.library)
        times = 1
        if step.workload.is_warmed and not (step.workload.is_fresh or step.peer.is_cold):
            who = step.workload.family, step.peer.name
            times += step.peer.warm_up * (who not in warmed)
            warmed.add(who)
        found.append((step.kind, _OVERHEAD + times * guess))
    return found
