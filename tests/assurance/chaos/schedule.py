"""Which faults a seed means, and when.

The same seed gives the same schedule. The effects differ from run to run: processes and
time are real.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Kind(enum.Enum):
    """The kinds of faults. The first word is what they are done to."""

    SERVER_KILLED = "server killed"
    SERVER_STOPPED = "server stopped"
    SERVER_RESTARTED = "server restarted"
    SERVERS_ROLLED = "servers restarted one after the other"
    FOLLOWER_ISOLATED = "network: a follower is isolated from its peers"
    LEADER_ISOLATED = "network: the leader is isolated from its peers"
    LINK_RESET = "link reset"
    LINK_REFUSED = "link reset and refused"
    LINK_SILENT = "link silent"
    LINK_SILENT_TO_SERVER = "link silent towards the server"
    LINK_SILENT_TO_CLIENT = "link silent towards the client"
    LINK_STALLED = "link stalled"
    LINK_SLOW = "link slow"
    CONTENDER_KILLED = "contender killed"
    CONTENDER_STOPPED = "contender stopped"

    @property
    def scope(self) -> str:
        """Its target: server, servers, network, link or contender."""
        return self.value.partition(" ")[0].rstrip(":")


HOLDER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        kind: the kind of the fault.
        target: the number of a server or contender; `HOLDER` for the holder at that time, and the
            server that it is connected to.
        start: when, in seconds from the start of the schedule.
        duration: for how long, in seconds.
        patience: how long after its end it may still begin, in seconds, if there was nobody before
            to whom it could be done. It then lasts as long. By default it is left out.
    """

    kind: Kind
    target: int
    start: float
    duration: float
    patience: float = 0.0

    @property
    def end(self) -> float:
        return self.start + self.duration

    def __str__(self) -> str:
        whom = "the holder's" if self.target == HOLDER else f"number {self.target}"
        return f"{self.start:6.2f} to {self.end:6.2f} s  {self.kind.value}, {whom}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The faults of a run.

    Attributes:
        seed: the seed that they were drawn from.
        faults: in the order of their starts.
        seconds: when all of them have ended.
    """

    seed: int
    faults: tuple[Fault, ...]
    seconds: float

    @classmethod
    def of(
        cls, seed: int, *, servers: int, contenders: int, seconds: float, session_timeout: float
    ) -> Schedule:
        """The schedule of a seed: a random subset of the kinds, in a random number.

        Args:
            seed: the seed of all random choices.
            servers: how many there are.
            contenders: how many there are.
            seconds: how long things go wrong.
            session_timeout: faults last from a small part of it to twice as long.
        """
        rng = random.Random(f"chaos:{seed}")
        kinds = rng.sample(list(Kind), rng.choice((2, 4, 8, len(Kind))))
        faults: list[Fault] = []
        for _ in range(round(seconds * rng.choice((0.5, 1.0, 2.0)))):
            kind = rng.choice(kinds)
            low, high = rng.choice(((0.02, 0.3), (0.3, 0.9), (0.9, 1.3), (1.3, 2.5)))
            number = rng.randrange(servers if kind.scope == "server" else contenders)
            duration = min(rng.uniform(low, high) * session_timeout, seconds)
            fault = Fault(
                kind=kind,
                target=rng.choice((HOLDER, number)),
                start=rng.uniform(0, seconds - duration),
                duration=duration,
            )
            faults.append(fault)
        return cls(seed=seed, faults=tuple(sorted(faults, key=lambda f: f.start)), seconds=seconds)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults)) or "no faults"
