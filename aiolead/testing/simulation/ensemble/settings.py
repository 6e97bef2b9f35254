"""The settings of the model of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

from ...._wire.jute import DEFAULT_MAX_FRAME
from ...._wire.versions import Engine, Feature, Version
from ..._server.settings import VERSION, Settings
from .election import FINALIZE_WAIT, FIRST_REPEAT, LAST_REPEAT

EPOCH = 1_600_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSettings:
    """Fixed for the life of an ensemble. Durations are in seconds, of the servers' own clocks.

    Attributes:
        voters: how many servers vote.
        observers: how many further servers do not.
        tick: ZooKeeper's `tickTime`.
        init_limit: in ticks, how long a learner may take to connect and to synchronise.
        sync_limit: in ticks, how long a leader and its learners do without each other's packets.
        min_session_timeout: the shortest session timeout that is granted; None for two ticks.
        max_session_timeout: the longest; None for twenty ticks.
        history: how many committed transactions a server remembers. A learner that lacks more
            gets a snapshot.
        rates: how fast the servers' clocks run, of real time's rate; used in turns.
        phases: the times on the servers' clocks at the beginning, in turns; None to draw it. Ticks,
            and with them the ends of sessions, are multiples of a tick on the leader's clock.
        finalize_wait: see `election.FINALIZE_WAIT`.
        first_repeat: see `election.FIRST_REPEAT`.
        last_repeat: see `election.LAST_REPEAT`.
        max_frame: the largest request, in bytes.
        max_connections: how many connections one host may have to one server; 0 sets no limit.
        container_interval: how often empty containers and outlived TTL znodes are deleted.
        epoch: seconds since 1970 when time begins, for the times in a Stat.
        engine: the engine that they behave as.
        version: the version that the servers report, and whose behaviour they have.
        backports: features that they have although they came later.
    """

    voters: int = 3
    observers: int = 0
    tick: float = 0.5
    init_limit: int = 20
    sync_limit: int = 4
    min_session_timeout: float | None = None
    max_session_timeout: float | None = None
    history: int = 500
    rates: tuple[float, ...] = (1.0,)
    phases: tuple[float, ...] | None = None
    finalize_wait: float = FINALIZE_WAIT
    first_repeat: float = FIRST_REPEAT
    last_repeat: float = LAST_REPEAT
    max_frame: int = DEFAULT_MAX_FRAME
    max_connections: int = 0
    container_interval: float = 60.0
    epoch: float = EPOCH
    engine: Engine = Engine.ZOOKEEPER
    version: Version = VERSION
    backports: frozenset[Feature] = frozenset()

    def of_one_server(self) -> Settings:
        """The settings of the protocol between one server and its clients."""
        shortest, longest = self.min_session_timeout, self.max_session_timeout
        tick_ms = round(self.tick * 1000)
        return Settings(
            tick_ms=tick_ms,
            min_session_ms=2 * tick_ms if shortest is None else round(shortest * 1000),
            max_session_ms=20 * tick_ms if longest is None else round(longest * 1000),
            max_frame=self.max_frame,
            max_connections=self.max_connections,
            epoch=self.epoch,
            engine=self.engine,
            version=self.version,
            backports=self.backports,
        )
