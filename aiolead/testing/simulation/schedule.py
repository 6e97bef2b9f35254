"""Which faults a seed means, and when; as text, to be replayed.

Every decision has a generator of its own, derived from the seed and the decision's name. So a
fault that is left out leaves all others, and everything else, as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import Any, Self

from ..._wire.versions import Engine, Release
from ...errors import ConfigurationError
from .._server.settings import parse_release
from .faults import STREAMS, Composite, Fault, Kind, Target
from .seeds import derived

MOST_CLOCKS = 8
"""How many processes, and how many servers, have clock rates of their own."""

DRIFT = 500e-6
"""How much faster or slower than real time a clock may run: docs/explanation/safety.md, A1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that a seed decides about the world, but for what the scenario itself draws.

    All times are in seconds.

    Attributes:
        seed: the number that everything is derived from.
        voters: how many servers vote.
        observers: how many further servers do not.
        tick: the servers' `tickTime`.
        sync_limit: the servers' `syncLimit`, in ticks.
        session_timeout: as clients request it, and get it.
        grace_period: how long the bodies of tenures may take to stop.
        tells_tick: whether clients know the tick time.
        latency: how long a packet takes between a client and a server, at least.
        peer_latency: how long one takes between two servers, at least.
        jitter: how much longer either may take, as a multiple of itself.
        process_rates: how fast the clocks of processes run; of real time's rate, in turns.
        server_rates: how fast those of servers run.
        faults: the faults, in the order of their numbers.
        healing: when everything that still is wrong ends.
        absent: processes, by name, that are not started: fewer may fail in the same way.
        engine: the engine that the servers imitate, as `name` or `name:version`; empty for
            ZooKeeper. No seed decides it.
    """

    seed: int
    voters: int
    observers: int
    tick: float
    sync_limit: int
    session_timeout: float
    grace_period: float
    tells_tick: bool
    latency: float
    peer_latency: float
    jitter: float
    process_rates: tuple[float, ...]
    server_rates: tuple[float, ...]
    faults: tuple[Fault, ...]
    healing: float
    absent: tuple[str, ...] = ()
    engine: str = ""

    @classmethod
    def of(cls, seed: int) -> Self:
        """The schedule of a seed."""
        rng = derived(seed, "ensemble")
        timeout = rng.choice((2.0, 2.0, 2.0, 3.0, 4.0))
        healing = 1.0 + timeout * derived(seed, "healing").uniform(2.0, 3.2)
        net = derived(seed, "network")
        latency = net.choice((0.0002, 0.001, 0.004, timeout / 200))
        grace_periods = (0.0, 0.05, 0.1, 0.1, 0.25)
        if latency == timeout / 200:
            # A quarter, and round trips of up to a twelfth of the session timeout: with that, and
            # an unknown tick time, there is no lease left to renew (docs/explanation/safety.md).
            grace_periods = (0.0, 0.05, 0.1, 0.1, 0.15)
        return cls(
            seed=seed,
            voters=5 if rng.random() < 0.08 else 3,
            observers=1 if rng.random() < 0.12 else 0,
            # Servers refuse session timeouts below two ticks.
            tick=(tick := timeout / rng.choice((2.0, 4.0, 4.0, 5.0, 8.0))),
            sync_limit=max(2, round(rng.uniform(0.5, 1.6) * timeout / tick)),
            session_timeout=timeout,
            grace_period=timeout * rng.choice(grace_periods),
            tells_tick=rng.random() < 0.5,
            latency=latency,
            peer_latency=net.choice((0.0002, 0.001, 0.003)),
            jitter=net.choice((0.1, 1.0, 3.0)),
            process_rates=_rates(derived(seed, "clocks of processes")),
            server_rates=_rates(derived(seed, "clocks of servers")),
            faults=tuple(_draw_faults(seed, timeout, healing)),
            healing=healing,
        )

    def rng(self, name: str) -> Random:
        """A generator for one decision, or one kind of decision."""
        return derived(self.seed, name)

    def only(self, numbers: Iterable[int]) -> Self:
        """The same, with none but these faults."""
        wanted = frozenset(numbers)
        return replace(self, faults=tuple(f for f in self.faults if f.number in wanted))

    def without(self, names: Iterable[str]) -> Self:
        """The same, without some processes."""
        return replace(self, absent=tuple(sorted({*self.absent, *names})))

    def on(self, engine: str) -> Self:
        """The same, on another engine: `name` or `name:version`.

        Raises:
            ConfigurationError: there is no such engine, or it is no version.
        """
        if engine:
            release_of(engine)
        return replace(self, engine=engine)

    @property
    def release(self) -> Release:
        """The engine and version of the servers."""
        return release_of(self.engine or Engine.ZOOKEEPER.value)

    @property
    def is_of_seed(self) -> bool:
        """Whether it is what its seed means, but for what was left out, and for the engine."""
        same = type(self).of(self.seed).only(self.numbers).without(self.absent)
        return self == replace(same, engine=self.engine)

    @property
    def is_reduced(self) -> bool:
        """Whether faults of its seed were left out."""
        return len(self.faults) < len(type(self).of(self.seed).faults)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its faults."""
        return tuple(fault.number for fault in self.faults)

    # --- as text ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        """One line that `parse` takes: a short one if it is that of a seed, else all of it."""
        if not self.is_of_seed:
            return self.to_json()
        text = str(self.seed)
        if self.is_reduced:
            text += " faults=" + ",".join(map(str, self.numbers))
        if self.absent:
            text += " absent=" + ",".join(self.absent)
        if self.engine:
            text += f" engine={self.engine}"
        return text

    def to_json(self) -> str:
        """One line with everything in it: it lasts when seeds come to mean others."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """A schedule from what `str()` or `to_json()` has given.

        Raises:
            ConfigurationError: it is neither.
        """
        try:
            if text.lstrip().startswith("{"):
                return cls._from_json(json.loads(text))
            seed, *parts = text.split()
            schedule = cls.of(int(seed))
            for part in parts:
                name, _, value = part.partition("=")
                words = [word for word in value.split(",") if word]
                if name == "faults":
                    schedule = schedule.only(map(int, words))
                elif name == "absent":
                    schedule = schedule.without(words)
                elif name == "engine":
                    schedule = schedule.on(value)
                else:
                    raise ValueError(f"unknown: {part}")
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"schedule: {text!r} is invalid: {error}") from error
        return schedule

    @classmethod
    def _from_json(cls, values: dict[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}
        if unknown := set(values) - known:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        for name in ("process_rates", "server_rates", "absent"):
            values[name] = tuple(values[name])
        values["faults"] = tuple(Fault(**fault) for fault in values["faults"])
        return cls(**values)

    def tell(self) -> str:
        """Everything, in words and several lines."""
        servers = (
            f"seed {self.seed}: {self.voters} voters, {self.observers} observers, tick "
            f"{self.tick:g} s, sync limit {self.sync_limit} ticks"
        )
        clients = (
            f"  session timeout {self.session_timeout:g} s, grace period {self.grace_period:g} s, "
            + (
                "clients know the tick time"
                if self.tells_tick
                else "clients do not know the tick time"
            )
        )
        net = (
            f"  latency {self.latency:g} s to clients, {self.peer_latency:g} s between servers, "
            f"jitter {self.jitter:g}; no fault after {self.healing:.3f} s"
        )
        lines = [servers, clients, net]
        if self.engine:
            lines.append(f"  the servers imitate {self.release}")
        if self.absent:
            lines.append(f"  without {', '.join(self.absent)}")
        lines += [f"  {fault}" for fault in self.faults]
        if not self.faults:
            lines.append("  no faults")
        return "\n".join(lines)


def release_of(engine: str) -> Release:
    name, _, version = engine.partition(":")
    return parse_release(name, version or None)


def _rates(rng: Random) -> tuple[float, ...]:
    style = rng.random()
    if style < 0.3:  # everybody at one of the bounds
        return tuple(1.0 + rng.choice((-DRIFT, DRIFT)) for _ in range(MOST_CLOCKS))
    if style < 0.5:
        return (1.0,) * MOST_CLOCKS
    return tuple(1.0 + rng.uniform(-DRIFT, DRIFT) for _ in range(MOST_CLOCKS))


# --- drawing faults ------------------------------------------------------------------------------


def _draw_faults(seed: int, timeout: float, healing: float) -> list[Fault]:
    """Swarm testing: a random subset of the kinds, in a random number, none and many included."""
    rng = derived(seed, "swarm")
    style = rng.random()
    if style < 0.06:
        return []
    kinds = STREAMS["swarm"]
    if style < 0.30:  # few kinds
        chosen: Sequence[Kind | Composite] = rng.sample(kinds, rng.randint(1, 3))
    else:
        share = rng.choice((0.15, 0.4, 1.0))
        chosen = [kind for kind in kinds if rng.random() < share] or kinds
    count = rng.randint(8, 16) if rng.random() < 0.12 else rng.randint(1, 6)
    found: list[Fault] = []
    _add(found, seed, "fault", chosen, count, timeout, healing)
    _add_later(found, seed, timeout, healing)
    return found


def _add_later(found: list[Fault], seed: int, timeout: float, healing: float) -> None:
    """Adds faults of the streams that came later: to most seeds, and mostly a few."""
    for name, kinds in STREAMS.items():
        rng = derived(seed, f"swarm of {name}")
        if name == "swarm" or rng.random() < 0.35:
            continue
        chosen = rng.sample(kinds, rng.randint(1, 4)) if rng.random() < 0.5 else kinds
        count = rng.randint(5, 10) if rng.random() < 0.15 else rng.randint(1, 4)
        _add(found, seed, name, chosen, count, timeout, healing)


def _add(
    found: list[Fault],
    seed: int,
    name: str,
    chosen: Sequence[Kind | Composite],
    count: int,
    timeout: float,
    healing: float,
) -> None:
    """Adds a number of faults, each drawn by a generator of its own that bears this name."""
    last_end = 0.0
    for number in range(count):
        own = derived(seed, f"{name} {number}")
        kind = own.choices(chosen, [kind.weight for kind in chosen])[0]
        start = own.uniform(0.1, healing - 0.3)
        if own.random() < 0.3 and 0.1 < last_end < healing - 0.3:
            start = last_end + own.uniform(0.0, timeout / 8)  # while the world recovers
        start = min(start, healing - 0.1)
        drawn = _draw(kind, own, start, timeout)
        for one in drawn:
            end = min(one.start + one.duration, healing)
            if one.start < healing:
                found.append(
                    replace(
                        one,
                        number=len(found),
                        start=round(one.start, 6),
                        duration=round(end - one.start, 6),
                    )
                )
        last_end = max(one.start + one.duration for one in drawn)


def _draw(kind: Kind | Composite, rng: Random, start: float, timeout: float) -> Sequence[Fault]:
    if isinstance(kind, Composite):
        return kind.draw(rng, start, timeout)
    return [
        Fault(
            number=0,
            kind=kind.name,
            start=start,
            duration=timeout * draw_span(rng) * kind.stretch,
            target=kind.target.draw(rng),
            on=draw_moment(rng) if kind.target is not Target.NONE else "",
            amount=round(rng.random(), 6),
        )
    ]


def draw_span(rng: Random) -> float:
    """How long a fault lasts, in session timeouts: often about as long as something matters."""
    low, high = rng.choices(
        ((0.002, 0.1), (0.1, 0.4), (0.4, 0.9), (0.9, 1.2), (1.2, 2.5)), (2, 3, 3, 3, 2)
    )[0]
    return rng.uniform(low, high)


def draw_moment(rng: Random) -> str:
    """The event that a fault waits for, once it is due: mostly none."""
    return rng.choices(("", "entered", "left", "joined"), (6, 3, 1, 1))[0]
