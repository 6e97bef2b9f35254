"""The connected server: its engine, its version, and the operations that it supports.

Several engines speak ZooKeeper's protocol, and not all of it. An operation that ClickHouse Keeper
does not know costs the connection, and with it the session. So each request is looked at as it is
put on the wire, and is replaced, dropped or refused where the server does not know it.

The engine and its version are known by

* the arguments of `connect`: `engine` and `server_version`;
* the answer to the handshake: the sessions of other engines have no password;
* its answer to `srvr`, which the client asks for on a separate connection: see `learned`. Until
  then, of another engine than ZooKeeper only the least is assumed;
* experience: if a server closes two connections in a row on an operation that no answer has shown
  it to know, then the operation is not sent there again. After the first one it is asked for its
  release, and nothing is concluded before it has answered. ZooKeeper servers are believed to know
  all that their release knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from .._util.escaping import escaped, get_logger
from .._wire.codes import OpCode, op_name
from .._wire.handshake import NO_PASSWORD, ConnectResponse
from .._wire.jute import Reader, Writer
from .._wire.replies import CreateReply
from .._wire.requests import Create, Multi
from .._wire.versions import ANY, OLDEST, UNKNOWN, Engine, Feature, Release, Version
from ..errors import Outcome, UnsupportedError
from ..model import CreateMode, Stat
from .requests import Call
from .suspects import RIGHT_AFTER, SHORT

logger = get_logger("aiolead.session")

T = TypeVar("T")

LOSSES = 2
"""How many connections in a row an operation costs at least before a server is taken to lack it."""

FORGOTTEN_AFTER = 16
"""Session timeouts after which one lost connection says nothing about the next one."""

FEATURE_OF: dict[int, Feature] = {op: feature for feature in Feature for op in feature.ops}

NONE_LACKING: frozenset[int] = frozenset()


class PresentServer:
    """The server of the present connection, and what is remembered of others.

    Attributes:
        name: how messages name it.
        is_foreign: whether its handshake shows that it is not a ZooKeeper server.
        lacking: the operations that are not sent to it. Nearly always there are none.
        suspected: operations that have cost one connection, by server.
    """

    def __init__(self, engine: Engine | None = None, version: Version | None = None) -> None:
        self._engine = engine
        self._version = version
        self._learned: Release | None = None
        self._session_id = 0
        # By name. The engine outlasts a connection; the version may not, as during an upgrade.
        self._engines: dict[str, Engine | None] = {}
        self._missing: dict[str, set[int]] = {}
        self.suspected: dict[tuple[str, int], float] = {}
        self._has_reported_parents = False
        self.name: str = ""
        self.is_foreign: bool = False
        self.lacking: frozenset[int] = NONE_LACKING

    # --- what it is ------------------------------------------------------------------------------

    def opened(self, name: str) -> None:
        """Begin with a new connection, of whose server nothing is known yet."""
        self.name = name
        self._learned = None
        self.is_foreign = False

    def greeted(self, response: ConnectResponse) -> None:
        """Note what the answer to the handshake shows."""
        self._session_id = response.session_id
        self.is_foreign = response.password == NO_PASSWORD and self._engine is not Engine.ZOOKEEPER
        self._note()

    def learned(self, name: str, release: Release | None, *, is_connected: bool) -> None:
        """Note what a server says it is; None if it does not say.

        The answer may come after its connection was lost.
        """
        if release is None:
            self._engines.setdefault(name, None)  # it may be slow, or have too many connections
        else:
            self._engines[name] = release.engine
            if release.engine is Engine.ZOOKEEPER:
                # Its connections were lost for other reasons.
                self._missing.pop(name, None)
        if is_connected:
            self._learned = release
        self._note()

    @property
    def given(self) -> Release | None:
        """The release by the arguments of `connect`, if they settle it."""
        # A version without an engine is one of ZooKeeper, which this server is not.
        engine = self._engine or (None if self.is_foreign else Engine.ZOOKEEPER)
        if engine is None or self._version is None:
            return None
        return Release(engine, self._version)

    @property
    def release(self) -> Release | None:
        """The release, or what is assumed of it; None for a ZooKeeper server of any version."""
        if (release := self.given or self._learned) is not None:
            return release
        if self._engine is Engine.RAFTKEEPER:
            return Release(Engine.RAFTKEEPER, ANY)
        return UNKNOWN if self.is_foreign or self._engine is Engine.CLICKHOUSE_KEEPER else None

    @property
    def is_unknown(self) -> bool:
        """Whether it is worth asking which release it is, although no request needs that yet."""
        if self.given is not None or self._learned is not None:
            return False
        is_other = self.is_foreign or self._engine not in (None, Engine.ZOOKEEPER)
        is_suspected = any(name == self.name for name, _ in self.suspected)
        return is_other or is_suspected or self.name in self._missing

    def has(self, feature: Feature) -> bool:
        """Whether the server has a feature that every ZooKeeper server has."""
        if not feature.ops.isdisjoint(self._missing.get(self.name, ())):
            return False
        release = self.release
        return release is None or release.engine is Engine.ZOOKEEPER or release.has(feature)

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session outlives its connection."""
        return self.has(Feature.LASTING_SESSIONS)

    def _note(self) -> None:
        release = self.release
        is_zookeeper = release is None or release.engine is Engine.ZOOKEEPER
        if is_zookeeper and not self._missing:
            self.lacking = NONE_LACKING
            return
        self.lacking = frozenset(op for op, feature in FEATURE_OF.items() if not self.has(feature))

    # --- requests that it does not know ----------------------------------------------------------

    def substitute(self, call: Call[Any], body: bytes) -> int | None:
        """Return the operation to send in place of the call's own, with the same body.

        None: the call was settled without being sent.
        """
        op, lacking = call.op, self.lacking
        if op == OpCode.MULTI:
            inner = [each.op for each in Multi.read(Reader(body)).ops if each.op in lacking]
            if not inner:
                return op
            op = inner[0]
        elif op not in lacking:
            return op
        elif op == OpCode.CREATE2:
            _read_as_plain(call, body, self._session_id)
            return OpCode.CREATE
        elif op == OpCode.REMOVE_WATCHES:
            call.drop()  # it fires once, for nobody
            return None
        call.fail(self.unsupported(FEATURE_OF[op]))
        return None

    def unsupported(self, feature: Feature) -> UnsupportedError:
        """The error of a request for a feature that the server lacks; nothing was sent."""
        release = self.given or self._learned
        missing = feature.ops & self._missing.get(self.name, set())
        if missing:
            why = f"{self.name} has closed the connection on each {op_name(min(missing))}"
        else:
            why = described(release, self.name, feature, is_given=self.given is not None)
        error = unsupported(feature, release, why)
        error.outcome = Outcome.NOT_APPLIED
        return error

    def report_persistent_parents(self, path: str) -> None:
        """Log, once, that parents are persistent, since the server has no containers."""
        if not self._has_reported_parents:
            self._has_reported_parents = True
            logger.warning(
                "%s has no containers: %s is persistent, as are other parents, and stays when it "
                "is empty",
                *(self.name, escaped(path)),
            )

    # --- experience ------------------------------------------------------------------------------

    def closed(self, unanswered: Iterable[Call[Any]], now: float, timeout: float) -> None:
        """The server has closed the connection, with these requests in flight."""
        given, name = self.given, self.name
        engine = self._engines.get(name) if given is None else given.engine
        if engine is Engine.ZOOKEEPER and not self.is_foreign:
            return
        # A long request may be refused for its length, whatever its operation.
        recent = {
            call.op
            for call in unanswered
            if now - call.sent_at <= RIGHT_AFTER * timeout and call.size <= SHORT
        }
        for op in sorted(recent.intersection(FEATURE_OF) - self.lacking):
            key = name, op
            lost_at = self.suspected.get(key)
            is_first = lost_at is None or now - lost_at > FORGOTTEN_AFTER * timeout
            if is_first or not (given or name in self._engines):
                self.suspected[key] = now
                continue
            del self.suspected[key]
            self._missing.setdefault(name, set()).add(op)
            logger.warning(
                "%s has closed %d connections on %s, which is not sent there again: "
                "connect(engine=...) avoids the loss",
                *(name, LOSSES, op_name(op)),
            )

    def answered(self, op: int) -> None:
        """An answer shows that the server knows the operation."""
        self.suspected.pop((self.name, op), None)


def unsupported(feature: Feature, release: Release | None, why: str) -> UnsupportedError:
    needs = ".".join(map(str, max(feature.since, OLDEST)[:2]))
    version = None if release is None else ".".join(map(str, release.version))
    return UnsupportedError(feature.label, needs, version, why)


def described(release: Release | None, name: str, feature: Feature, *, is_given: bool) -> str:
    """Why a server lacks a feature."""
    if release is None:
        return (
            f"{name} does not report its version "
            '(connect(server_version="...") settles it, with engine="..." if it is not ZooKeeper)'
        )
    source = "connect(server_version=) says" if is_given else f"{name} is"
    since = feature.others.get(release.engine)
    if release.engine is Engine.ZOOKEEPER:
        return f"{source} {release}"
    if since is None:
        return f"{source} {release}, and no {release.engine.label} has it"
    return f"{source} {release}, and has it from {'.'.join(map(str, since[:2]))} on"


def _read_as_plain(call: Call[Any], body: bytes, session_id: int) -> None:
    """Let a call for `CREATE2` read the answer to `CREATE`."""
    request = Create.read(Reader(body))
    owner = session_id if CreateMode(request.flags).is_ephemeral else 0
    call.parse = partial(_parse_plain, call.parse, owner, len(request.data or b""))


def _parse_plain(parse: Callable[[Reader], T], owner: int, data_length: int, r: Reader) -> T:
    """Read the answer to a plain create as if it had the `Stat`.

    The answer to a write has the zxid of its transaction in its header, which is the new znode's
    `czxid`. So the token of a hold is proven by the create's own answer, as everywhere.
    """
    zxid = r.zxid
    stat = Stat(
        czxid=zxid,
        mzxid=zxid,
        ctime=0,
        mtime=0,
        version=0,
        cversion=0,
        aversion=0,
        ephemeral_owner=owner,
        data_length=data_length,
        num_children=0,
        pzxid=zxid,
    )
    w = Writer()
    CreateReply(r.text(), stat).write(w)
    return parse(Reader(bytes(w.buffer)))
