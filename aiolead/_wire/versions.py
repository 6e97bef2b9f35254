"""Differences between engines and their versions, for client, embedded server and tests alike.

Each row of `Feature` names the first release of every line (3.8, 3.9 ...) of ZooKeeper that has the
difference, since many were backported. The releases were read from ZooKeeper's source history (the
issue is named) and tried on 3.8.0, 3.9.3 and 3.9.6. Distributors backport without changing the
version: Debian's 3.8.0 has `EVENTS_NEED_READ`. The four-letter word `srvr` states a server's
version.

A row also names the first release of the other engines that speak the protocol. These were read
from their published source; no server of theirs was run.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from .._util.parsing import shown, whole
from ..errors import ConfigurationError
from .codes import OpCode

Version = tuple[int, int, int]

SRVR = b"srvr"

NOT_SERVING = b"This ZooKeeper instance is not currently serving requests"
"""The answer of a server that has no leader."""

_NUMBERS = r"([0-9]{1,5})\.([0-9]{1,5})(?:\.([0-9]{1,5}))?"
_ANSWER = re.compile(
    rb"(Zookeeper|ClickHouse Keeper|RaftKeeper) version: (?:RaftKeeper )?v?" + _NUMBERS.encode()
)


class Engine(enum.Enum):
    """A server that speaks ZooKeeper's protocol; the values are those of `connect(engine=)`."""

    ZOOKEEPER = "zookeeper"
    CLICKHOUSE_KEEPER = "clickhouse-keeper"
    RAFTKEEPER = "raftkeeper"

    @property
    def label(self) -> str:
        """Its name in messages."""
        return _LABELS[self]


_LABELS = {
    Engine.ZOOKEEPER: "ZooKeeper",
    Engine.CLICKHOUSE_KEEPER: "ClickHouse Keeper",
    Engine.RAFTKEEPER: "RaftKeeper",
}
_BY_ANSWER = {b"Zookeeper": Engine.ZOOKEEPER} | {
    engine.label.encode(): engine for engine in Engine if engine is not Engine.ZOOKEEPER
}


class Release(NamedTuple):
    """An engine and its version."""

    engine: Engine
    version: Version

    def __str__(self) -> str:
        """As a server reports it: `3.9.2`, `ClickHouse Keeper 26.3.9`."""
        number = ".".join(map(str, self.version))
        return number if self.engine is Engine.ZOOKEEPER else f"{self.engine.label} {number}"

    def has(self, feature: Feature) -> bool:
        """Whether servers of this release have a feature."""
        if self.engine is Engine.ZOOKEEPER:
            return feature.is_in(self.version)
        since = feature.others.get(self.engine)
        return since is not None and self.version >= since


ANY: Version = (0, 0, 0)
"""The oldest version of an engine, where it is not known."""

UNKNOWN = Release(Engine.CLICKHOUSE_KEEPER, ANY)
"""The release that is assumed of another engine than ZooKeeper: it has the fewest features."""


def parse_engine(name: object) -> Engine:
    """Parse the argument `engine` of `connect`, or raise `ConfigurationError`."""
    try:
        return Engine(name)
    except ValueError:
        known = ", ".join(repr(engine.value) for engine in Engine)
        raise ConfigurationError(f"engine: must be one of {known}, not {name!r}") from None


def release_in(answer: bytes) -> Release | None:
    """The engine and version in an answer to `srvr`; None if there is none."""
    match = _ANSWER.match(answer)
    if match is None:
        return None
    engine, *numbers = match.groups()
    return Release(_BY_ANSWER[engine], _version(*numbers))


def parse_version(text: object, *, name: str) -> Version:
    """Parse a version such as "3.9" or "3.9.2"; else `ConfigurationError`, about `name`.

    A line of releases stands for its first one that is supported.
    """
    match = re.fullmatch(_NUMBERS, text) if isinstance(text, str) else None
    if match is None:
        given = shown(text) if isinstance(text, int) else repr(text)
        raise ConfigurationError(f'{name}: must be a version such as "3.9", not {given}')
    version = _version(*match.groups())
    is_oldest_line = match[3] is None and version[:2] == OLDEST[:2]
    return OLDEST if is_oldest_line else version


def _version(major: str | bytes, minor: str | bytes, patch: str | bytes | None) -> Version:
    return whole(major), whole(minor), whole(patch or "0")


OLDEST: Version = (3, 5, 1)
"""The oldest release that the client and the recipes are written for. Earlier ones do not have the
containers in which recipes put their znodes.
"""

TESTED: tuple[Version, ...] = ((3, 8, 0), (3, 9, 3), (3, 9, 6))
"""The releases that every test with a real server passes on."""


class Feature(enum.Enum):
    """A difference between ZooKeeper versions, or between engines.

    Attributes:
        label: its name in error messages.
        before: the behaviour of servers without it.
        releases: the first release of each line of ZooKeeper that has it, oldest first.
        ops: the operations that a server without it does not know.
        others: the first version of each other engine that has it.
    """

    # In every stable release of ZooKeeper since `OLDEST`. Other engines lack them at first.
    CREATE2 = (
        "the Stat in the answer to a create",
        "a plain create is sent; `Created.stat` has no times",
        [(3, 5, 0)],
        {OpCode.CREATE2},
        {Engine.CLICKHOUSE_KEEPER: (25, 12, 0)},
    )
    REMOVE_WATCHES = (
        "the removal of a watch",
        "the client forgets the watch; the server keeps it until it fires",
        [(3, 5, 0)],
        {OpCode.REMOVE_WATCHES, OpCode.CHECK_WATCHES},
        {Engine.CLICKHOUSE_KEEPER: (25, 12, 0)},
    )
    SET_WATCHES = (
        "watches that are set again",
        "its sessions end with their connections, and with these the watches",
        [(3, 5, 0)],
        {OpCode.SET_WATCHES},
        # Not `ANY`: beside a literal, pyright calls the type unknown.
        {Engine.CLICKHOUSE_KEEPER: (25, 12, 0), Engine.RAFTKEEPER: (0, 0, 0)},
    )
    LASTING_SESSIONS = (
        "a session that outlives its connection",
        "holds are lost, and watches fire, as soon as the connection is lost",
        [(3, 5, 0)],
        (),
        {Engine.RAFTKEEPER: ANY},
    )
    CONTAINERS = (
        "a container znode",
        "`UnsupportedError`; the parents that recipes make are persistent",
        [(3, 5, 1)],
        {OpCode.CREATE_CONTAINER},
        {Engine.CLICKHOUSE_KEEPER: (26, 7, 0)},
    )
    TTL = (
        "a znode with a time to live",
        "`UnimplementedError`, `UnsupportedError`",
        [(3, 5, 3)],
        {OpCode.CREATE_TTL},
    )
    """ClickHouse Keeper 26.6 has it behind a feature flag, `create_ttl`, that is off by default.
    Without the flag, the request ends the session."""

    # Operations and arguments: `UnsupportedError` where they are missing.
    PERSISTENT_WATCHES = (
        "a persistent watch",
        "`UnsupportedError`; `TreeCache` uses one-shot watches, two for each znode",
        [(3, 6, 0)],
        {OpCode.ADD_WATCH, OpCode.SET_WATCHES2},
        {Engine.CLICKHOUSE_KEEPER: (25, 12, 0)},
    )
    RECURSIVE_WATCHES = (
        "a recursive watch",
        "the same",
        [(3, 6, 0)],
    )
    """ClickHouse Keeper has them, but their events name the watched path in place of the path that
    has changed (ClickHouse issue 115475)."""
    MULTI_READ = (
        "several reads in one request",
        "`UnsupportedError`",
        [(3, 6, 0)],
        {OpCode.MULTI_READ},
        {Engine.CLICKHOUSE_KEEPER: (24, 8, 0), Engine.RAFTKEEPER: (2, 1, 0)},
    )
    GET_EPHEMERALS = (
        "the list of a session's ephemeral znodes",
        "`UnsupportedError`",
        [(3, 6, 0)],
        {OpCode.GET_EPHEMERALS},
    )
    GET_ALL_CHILDREN_NUMBER = (
        "the number of all znodes below one",
        "`UnsupportedError`",
        [(3, 6, 0)],
        {OpCode.GET_ALL_CHILDREN_NUMBER},
    )
    WHO_AM_I = (
        "the list of one's own identities",
        "`UnsupportedError`",
        [(3, 7, 0)],
        {OpCode.WHO_AM_I},
    )
    HARD_QUOTAS = ("a hard limit of a quota", "`UnsupportedError`", [(3, 7, 0)])

    # The same request is answered differently.
    WATCH_MODES_APART = (
        "a one-shot and a persistent watch on one path",
        "a watch ends those of other modes on its path; the client arms them again",
        [(3, 9, 0)],
    )
    """A watch no longer ends those of other modes on its path (ZOOKEEPER-4466), and each mode is
    removed on its own (ZOOKEEPER-4472)."""
    EVENT_ZXIDS = ("the zxid in a watch event", "`WatchEvent.zxid` is -1", [(3, 9, 0)])
    """A watch event carries the zxid of the change, where it was -1 (ZOOKEEPER-4655)."""
    EARLY_DECODING = (
        "no zxid for a request that cannot be decoded",
        "such a request takes a zxid, like a transaction that fails",
        [(3, 9, 0)],
    )
    """A request is decoded before it gets a zxid, except for transactions (ZOOKEEPER-4575)."""
    CREATE2_IN_MULTI = (
        "the stat of a create2 in a transaction",
        "the answer has the path only; invalid create flags are a bad argument",
        [(3, 7, 2), (3, 8, 2), (3, 9, 0)],
    )
    """`CREATE2` in a transaction is answered with a stat, no longer like `CREATE`. Invalid create
    flags fail the whole transaction with a marshalling error (-5), where the operation failed with
    bad arguments (ZOOKEEPER-4026)."""
    EXISTS_NEEDS_READ = (
        "a permission for exists",
        "`exists` needs no permission",
        [(3, 8, 4), (3, 9, 2)],
    )
    """`EXISTS` needs READ on the znode, if there is one (ZOOKEEPER-2590)."""
    EVENTS_NEED_READ = (
        "a permission for watch events",
        "watches report changes of znodes that the client may not read",
        [(3, 8, 4), (3, 9, 2)],
    )
    """Watch events are withheld from clients without READ on the znode that changed, or for its
    list of children on the parent. A one-shot watch is gone all the same (CVE-2024-23944,
    ZOOKEEPER-4799)."""
    REARMED_EVENTS_NEED_READ = (
        "a permission for events that were missed",
        "after a reconnect, missed changes of such znodes are reported",
        [(3, 9, 6)],
    )
    """The same for missed events that `SET_WATCHES` reports, except deletions: the event is
    withheld, and the watch is not set."""
    NO_LONE_CHECK = (
        "no check outside a transaction",
        "the server executes such a check; this client sends none",
        [(3, 8, 5), (3, 9, 3)],
    )
    """`CHECK` outside a transaction is answered with -6, and the connection is closed
    (ZOOKEEPER-2623)."""
    IPV6_ACLS = ("an IPv6 address in an ACL", "`InvalidACLError`", [(3, 9, 4)])
    """The scheme `ip` takes IPv6 addresses, which were an invalid ACL (ZOOKEEPER-4240)."""

    # Only an ensemble shows it.
    JOINING_KEEPS_COMMITS = (
        "committed transactions that survive a server stopped while it joins",
        "they may be lost on some servers, so that servers differ in what they show",
        [(3, 8, 5), (3, 9, 2)],
    )
    """A server that is stopped while it joins, and then leads, keeps what was committed
    (ZOOKEEPER-4643, 4646, 4785)."""

    def __init__(
        self,
        label: str,
        before: str,
        releases: list[Version],
        ops: Collection[OpCode] = (),
        others: Mapping[Engine, Version] = MappingProxyType({}),
    ) -> None:
        self.label = label
        self.before = before
        self.releases: tuple[Version, ...] = tuple(releases)
        self.ops: frozenset[OpCode] = frozenset(ops)
        self.others: Mapping[Engine, Version] = others

    @property
    def since(self) -> Version:
        """The oldest release of ZooKeeper that has it; later ones may lack it, see `is_in`."""
        return self.releases[0]

    def is_in(self, version: Version) -> bool:
        """Whether ZooKeeper servers of this version have it."""
        for first in self.releases:
            if version[:2] == first[:2]:
                return version >= first
        return version >= self.releases[-1]
