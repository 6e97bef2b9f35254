"""The settings of an embedded server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._wire.codes import OpCode
from ..._wire.jute import DEFAULT_MAX_FRAME, REQUEST_HEADER, Reader
from ..._wire.requests import Multi
from ..._wire.versions import Engine, Feature, Release, Version, parse_engine, parse_version
from .acl import DEFAULT_SCHEMES
from .protocol import NOT_FOR_CLIENTS

VERSION = (3, 8, 0)
"""The version of ZooKeeper whose behaviour the server shows unless told otherwise."""

DEFAULT_VERSIONS: Mapping[Engine, str] = {
    Engine.ZOOKEEPER: "3.8.0",
    Engine.CLICKHOUSE_KEEPER: "24.8.0",
    Engine.RAFTKEEPER: "2.3.0",
}

BUILT = "2022-02-25 08:49 UTC"
"""When it was built, as it says. Parsers expect a date."""

ONLY_ZOOKEEPER = {OpCode.SASL}
"""Operations that no other engine knows, and that every ZooKeeper server does."""

_NEEDS = {op: feature for feature in Feature for op in feature.ops}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Fixed for the life of a server.

    Attributes:
        tick_ms: the unit of time: sessions expire at multiples of it.
        min_session_ms: the shortest session timeout that is granted.
        max_session_ms: the longest.
        max_frame: the largest request, in bytes.
        max_connections: how many connections there may be at a time; 0 sets no limit.
        container_interval_ms: how often empty containers and outlived TTL znodes are reaped.
        epoch: seconds since 1970 at which the clock read 0, for the times in a Stat.
        enforces_quotas: whether the hard limits of quotas hold (`enforceQuota`).
        has_local_sessions: whether sessions are local and stay so (`localSessionsEnabled`, without
            `localSessionsUpgradingEnabled`): they can have no ephemeral znodes.
        config: the first content of `/zookeeper/config`; None where it cannot be changed.
        engine: the engine that it behaves as.
        version: the version that the server reports, and whose behaviour it has: see `Feature`.
        backports: features that it has although they came later.
        sasl_users: the passwords of those who may log in by SASL; none switches that off.
        schemes: the schemes of ACL entries, beside world and auth.
        super_digest: the digest id of the super user, who may do everything; None if there is none.
        required: the schemes of which a client must have proved one before its first request;
            none to serve everybody.
    """

    tick_ms: int = 500
    min_session_ms: int = 1000
    max_session_ms: int = 10_000
    max_frame: int = DEFAULT_MAX_FRAME
    max_connections: int = 0
    container_interval_ms: int = 60_000
    epoch: float = 0.0
    enforces_quotas: bool = False
    has_local_sessions: bool = False
    sasl_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    schemes: frozenset[str] = DEFAULT_SCHEMES
    required: frozenset[str] = frozenset()
    config: bytes | None = None
    super_digest: str | None = field(default=None, repr=False)
    engine: Engine = Engine.ZOOKEEPER
    version: Version = VERSION
    backports: frozenset[Feature] = frozenset()

    def takes(self, op: OpCode) -> bool:
        """Whether clients may ask for the operation."""
        if op in ONLY_ZOOKEEPER and not self.is_zookeeper:
            return False
        if op is OpCode.CHECK and self.has(Feature.NO_LONE_CHECK):
            return False
        return op not in NOT_FOR_CLIENTS and self.knows(op)

    def takes_request(self, op: OpCode, packet: bytes) -> bool:
        """Whether clients may ask for a request; other engines look into transactions, too."""
        if op is OpCode.MULTI and not self.is_zookeeper:
            return all(
                self.takes(each.op) for each in Multi.read(Reader(packet, REQUEST_HEADER)).ops
            )
        return self.takes(op)

    def knows(self, op: OpCode) -> bool:
        """Whether a server of this version knows the operation."""
        feature = _NEEDS.get(op)
        return feature is None or self.has(feature)

    def has(self, feature: Feature) -> bool:
        """Whether the server has a feature."""
        return feature in self.backports or Release(self.engine, self.version).has(feature)

    @property
    def is_zookeeper(self) -> bool:
        return self.engine is Engine.ZOOKEEPER

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session outlives its connection."""
        return self.has(Feature.LASTING_SESSIONS)

    @property
    def features(self) -> frozenset[Feature]:
        return frozenset(filter(self.has, Feature))

    def full_version(self, kind: str) -> str:
        """The version as a server reports it, with a stand-in for the revision of its source."""
        number = ".".join(map(str, self.version))
        match self.engine:
            case Engine.ZOOKEEPER:
                return f"{number}-aiolead-{kind}, built on {BUILT}"
            case Engine.CLICKHOUSE_KEEPER:
                return f"v{number}.1-aiolead-{kind}"
            case Engine.RAFTKEEPER:
                return f"RaftKeeper v{number}"

    @property
    def title(self) -> str:
        """How the answers to `srvr` and `stat` begin."""
        return "Zookeeper" if self.is_zookeeper else self.engine.label

    def negotiated_ms(self, asked_ms: int) -> int:
        """The session timeout that a client gets that asks for this one."""
        return min(max(asked_ms, self.min_session_ms), self.max_session_ms)


def parse_release(engine: str, version: str | None) -> Release:
    """The release to imitate, by the arguments `engine` and `version`.

    Raises:
        ConfigurationError: there is no such engine, or it is no version.
    """
    kind = parse_engine(engine)
    given = DEFAULT_VERSIONS[kind] if version is None else version
    return Release(kind, parse_version(given, name="version"))


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, as the server counts them.

    A float may lack less than a microsecond to the next millisecond, by rounding. Without the
    allowance, a timer that sleeps until a deadline would wake just before it.
    """
    return int(seconds * 1000 + 1e-3)
