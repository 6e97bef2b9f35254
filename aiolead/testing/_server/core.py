"""The server as a whole: connections, the handshake, sessions, and the order of it all.

The contract with the shell: call `connect` for each connection, `receive` with its bytes, `lost`
when it is gone, and `tick` when `next_deadline` has come. After each call, see to every connection
in `take_woken`: send what its `take` returns, and close it as its `closing` says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hmac import compare_digest

from ... import paths
from ..._wire.codes import REFUSED_READ_ONLY, XID_PING, OpCode
from ..._wire.handshake import NO_PASSWORD, ConnectRequest
from ..._wire.jute import Reader, Record
from ..._wire.replies import TokenReply
from ..._wire.requests import AuthPacket, Create, RequestHeader, Sasl
from ...errors import (
    MarshallingError,
    NoNodeError,
    NotReadOnlyError,
    RemoteWireError,
    ServerError,
    ThrottledOpError,
    UnimplementedError,
)
from ...model import OPEN_ACL_UNSAFE, CreateMode
from . import fourletter
from .acl import Identity
from .connection import Closing, Connection, Traffic
from .login import DigestLogin, RefusedLogin
from .processor import NO_ZXID, Processor
from .protocol import (
    AUTH_FAILED,
    KEEPER_GREETINGS,
    NEEDS_LOGIN,
    OPS,
    Greeting,
    authenticate,
    reply,
    take_fault,
)
from .records import NoTokenReply
from .sessions import Session, Sessions
from .settings import Settings, milliseconds
from .store import Kept, Store
from .transaction import Transaction


class Core:
    """One standalone server.

    Args:
        settings: the settings that are fixed for its life.
        rng: where session ids and passwords come from.
        store: where its state is kept, with the state of the server before it; None to keep it in
            memory.

    Raises:
        ConfigurationError: the data in the store make no sense.
    """

    def __init__(self, settings: Settings, rng: random.Random, store: Store | None = None) -> None:
        self.settings = settings
        self.traffic = Traffic()
        self.processor = Processor(
            features=settings.features,
            enforces_quotas=settings.enforces_quotas,
            refuses_ephemerals=settings.has_local_sessions,
            schemes=settings.schemes,
        )
        # As real ids: the highest byte is the number of the server, the lowest two count.
        first_id = rng.getrandbits(39) << 16 | 1
        secret = rng.getrandbits(128).to_bytes(16, "big")
        kept = Kept(self.processor.zxid, first_id, secret, {})
        earlier = None if store is None else store.load(self.processor.tree)
        if earlier is not None:
            kept = earlier
        secret = kept.secret
        self.processor.zxid = kept.zxid
        self.sessions = Sessions(settings.tick_ms, kept.next_session, secret)
        for session_id, timeout_ms in kept.sessions.items():
            # Their time begins with `restarted`.
            self.sessions.track(session_id, timeout_ms, 0)
        self._store = store
        self._grants_read_only = True
        self._kept_sessions: Sessions | None = None  # those of the ensemble, while read-only
        self._secret = secret
        self._rng = rng
        if settings.config is not None:
            self.processor.set_up(settings.config)
        if store is not None:
            if earlier is None:
                store.begin(kept, self.processor.tree)
            self.processor.on_applied = lambda paths: store.keep(
                self.processor.tree, paths, self.processor.zxid
            )
        self.connections: dict[Connection, None] = {}
        self.dropped_requests: Counter[OpCode] = Counter()
        self.dropped_replies: Counter[OpCode] = Counter()
        self.throttled: Counter[OpCode] = Counter()
        self.pace = 0.0
        """Seconds of rest after each request of a connection: see `resume`."""
        self.max_frame: int = settings.max_frame
        """The largest request that is taken now, in bytes."""
        self._woken: dict[Connection, None] = {}
        self._attached: dict[int, Connection] = {}
        self._next_reaping_ms: int | None = None
        self._now_ms = 0  # of the last bytes that came

    # --- what the shell calls ------------------------------------------------------------------

    def connect(self, address: str, identities: Sequence[Identity] = ()) -> Connection | None:
        """Takes a connection up; None where there are too many.

        Args:
            address: of the client, as text.
            identities: the identities that the client has proved before its first message.
        """
        if self.is_full():
            return None
        connection = Connection(
            address, self.settings.max_frame, self._woken, self.traffic, identities
        )
        self.connections[connection] = None
        return connection

    def is_full(self, coming: int = 0) -> bool:
        """Whether there are as many connections as there may be, with those that are coming."""
        return 0 < self.settings.max_connections <= len(self.connections) + coming

    def lost(self, connection: Connection) -> None:
        """The connection is gone. Its session lives on, its watches do not."""
        if connection.closing is not Closing.NOW:
            connection.close_now()
        self.connections.pop(connection, None)
        self._woken.pop(connection, None)
        self.processor.watches.forget(connection)
        if self._attached.get(connection.session_id) is connection:
            del self._attached[connection.session_id]
            if not self.settings.keeps_sessions and self.sessions.get(connection.session_id):
                self._end_session(connection.session_id, self._now_ms)

    def receive(self, connection: Connection, data: bytes, now: float) -> bool:
        """Takes bytes from a client and answers the requests that are complete with them.

        Returns:
            False if there is more to do: call `resume` after a rest of `pace` seconds, or, if the
            client has to read first (`Connection.is_full`), after the next send; and `receive` not
            before that has returned True.
        """
        self.traffic.bytes_in += len(data)
        if not connection.has_opened:
            data = connection.opening = connection.opening + data
            if len(data) < 4:
                return True
            connection.has_opened, connection.opening = True, b""
            if (word := data[:4].decode("latin-1")) in fourletter.WORDS:
                self.traffic.packets_in += 1
                connection.queue(fourletter.answer(word, self))
                connection.close_after_flush()
                return True
            if not (self.settings.is_zookeeper or int.from_bytes(data[:4]) in KEEPER_GREETINGS):
                self._close(connection)  # an unknown word
                return True
        connection.frames = connection.reader.feed(data)
        return self.resume(connection, now)

    def resume(self, connection: Connection, now: float) -> bool:
        """Goes on with what `receive` left."""
        now_ms = milliseconds(now)
        self._now_ms = self._time_ms(now_ms)
        while connection.closing is Closing.NO:
            if connection.is_full:
                return False
            try:
                packet = next(connection.frames, None)
                if packet is None:
                    return True
                if len(packet) > self.max_frame:
                    self._close(connection)
                    return True
                connection.packets_in += 1
                self.traffic.packets_in += 1
                if connection.is_established:
                    self._request(connection, packet, now_ms)
                else:
                    self._handshake(connection, packet, now_ms)
            except RemoteWireError:
                # No client of the protocol sends this: there is nobody to answer.
                self._close(connection)
            if self.pace:
                return False
        return True

    def tick(self, now: float) -> None:
        """Ends the sessions whose time is up, and reaps what has outlived itself."""
        now_ms = milliseconds(now)
        for session in self.sessions.overdue(now_ms):
            self.expire(session.id, now)
        if self._next_reaping_ms is not None and self._next_reaping_ms <= now_ms:
            self.processor.reap(self._time_ms(now_ms))
            self._next_reaping_ms = None

    def next_deadline(self, now: float) -> float | None:
        """When to call `tick` next; None if nothing can happen before the next request."""
        if not self.processor.tree.has_mortals:
            self._next_reaping_ms = None
        elif self._next_reaping_ms is None:
            self._next_reaping_ms = milliseconds(now) + self.settings.container_interval_ms
        times = (self.sessions.next_expiry_ms(), self._next_reaping_ms)
        return min((time / 1000 for time in times if time is not None), default=None)

    def take_woken(self) -> list[Connection]:
        """The connections that have something to be sent, or are to be closed."""
        woken = list(self._woken)
        self._woken.clear()
        return woken

    # --- what tests call -----------------------------------------------------------------------

    def expire(self, session_id: int, now: float) -> bool:
        """Ends a session as if its time were up; False if there is no such session."""
        if self.sessions.get(session_id) is None:
            return False
        self._end_session(session_id, self._time_ms(milliseconds(now)))
        if connection := self._attached.get(session_id):
            self.lost(connection)
            self._woken[connection] = None
        return True

    @property
    def is_read_only(self) -> bool:
        """Whether it plays a server that is isolated from the quorum."""
        return self._kept_sessions is not None

    def become_read_only(self, *, grants_sessions: bool = True) -> None:
        """Play a server without a quorum: every connection is closed, and only reads are answered.

        Sessions neither end nor begin meanwhile, but for those that are made up for clients that
        say that they would rather have old answers than none.
        """
        self._grants_read_only = grants_sessions
        if self._kept_sessions is None:
            self._kept_sessions = self.sessions
            first_id = self._rng.getrandbits(39) << 16 | 1
            self.sessions = Sessions(self.settings.tick_ms, first_id, self._secret)
            self._close_all()

    def become_full(self, now: float) -> None:
        """Back in contact with the quorum: what was made up meanwhile is forgotten."""
        if self._kept_sessions is not None:
            self.sessions, self._kept_sessions = self._kept_sessions, None
            self._close_all()
            self.restarted(now)

    def _close_all(self) -> None:
        for connection in list(self.connections):
            self._close(connection)

    def restarted(self, now: float) -> None:
        """The server was down until now: every session has its full timeout again."""
        self.sessions.touch_all(milliseconds(now))

    def is_attached(self, session_id: int) -> bool:
        return session_id in self._attached

    def connection_of(self, session_id: int) -> Connection | None:
        return self._attached.get(session_id)

    def set_sequence(self, path: str, value: int) -> None:
        """Makes `value` the number that the next sequential child gets.

        Raises:
            NoNodeError: there is no such path.
        """
        paths.validate(path)
        node = self.processor.tree.get(path)
        if node is None:
            raise NoNodeError(path)
        node.creates = value
        if self._store is not None:
            self._store.keep(self.processor.tree, [path], self.processor.zxid)

    def create(self, path: str, data: bytes, now: float) -> None:
        """A persistent znode, under a zxid of its own, as if a client had created it.

        Raises:
            ServerError: the answer that the client would have got.
        """
        paths.validate(path)
        request = Create(path, data, tuple(OPEN_ACL_UNSAFE), CreateMode.PERSISTENT)
        write = partial(Transaction.create, request=request)
        time_ms = self._time_ms(milliseconds(now))
        self.processor.apply(write, self.processor.zxid + 1, time_ms)

    def heal(self, now: float) -> None:
        """Nothing is refused, dropped or delayed any more."""
        self.become_full(now)
        for faults in (self.dropped_requests, self.dropped_replies, self.throttled):
            faults.clear()
        self.pace = 0.0
        self.max_frame = self.settings.max_frame

    # --- the protocol --------------------------------------------------------------------------

    def _handshake(self, connection: Connection, packet: bytes, now_ms: int) -> None:
        settings = self.settings
        greeting = Greeting(packet, is_zookeeper=settings.is_zookeeper)
        request = greeting.request
        if not settings.is_zookeeper:
            # The last zxid is not looked at.
            session_id = request.session_id if settings.keeps_sessions else 0
            request = replace(request, session_id=session_id, last_zxid_seen=0)
        if take_fault(self.dropped_requests, OpCode.CREATE_SESSION):
            connection.close_after_flush()
            return
        if request.last_zxid_seen > self.processor.zxid:
            # The client has seen the future; another server may know it.
            self._close(connection)
            return
        if self.is_read_only and (not request.read_only or request.session_id != 0):
            # Such a server can do nothing for the ensemble's sessions (as from 3.10 on).
            self._close(connection)
            return
        if self.is_read_only and not self._grants_read_only:
            greeting.refuse_read_only(connection)
            return
        timeout = settings.negotiated_ms(request.timeout_ms)
        session = self._attach(request, timeout, now_ms)
        if session is None:
            greeting.refuse(connection)
            return
        if request.session_id == 0 and not self.is_read_only:
            self.processor.zxid += 1
            if self._store is not None:
                self._store.add_session(session.id, timeout, self.processor.zxid)
        connection.session_id, connection.timeout_ms = session.id, timeout
        self._attached[session.id] = connection
        if take_fault(self.dropped_replies, OpCode.CREATE_SESSION):
            connection.close_after_flush()
            return
        is_zookeeper = settings.is_zookeeper
        password = self.sessions.password(session.id) if is_zookeeper else NO_PASSWORD
        greeting.grant(connection, timeout, session.id, password, read_only=self.is_read_only)

    def _attach(self, request: ConnectRequest, timeout: int, now_ms: int) -> Session | None:
        """The session that the client asks for: a new one, its own, or none at all."""
        if request.session_id == 0:
            return self.sessions.create(timeout, now_ms)
        session = self.sessions.get(request.session_id)
        if session is None:
            return None
        is_known = compare_digest(request.password, self.sessions.password(session.id))
        if self.settings.is_zookeeper and not is_known:
            return None
        # ZooKeeper closes the old connection before it looks at the password. Nobody does so here:
        # session ids are no secret, and a client that guesses one could keep its owner from being
        # served.
        if previous := self._attached.get(session.id):
            self._close(previous)
        self.sessions.touch(session.id, timeout, now_ms)
        return session

    def _request(self, connection: Connection, packet: bytes, now_ms: int) -> None:
        r = Reader(packet)
        header = RequestHeader.read(r)
        op = OPS.get(header.op)
        self.traffic.requests[op.name if op is not None else "UNKNOWN"] += 1
        connection.last_op = op.name if op is not None else "NA"
        if op is OpCode.AUTH:
            # Answered before the queue of requests: it does not touch the session.
            proof = AuthPacket.read(r)
            authenticate(connection, header.xid, proof, self.settings.super_digest)
            return
        if op is not OpCode.SASL and not self._may_ask(connection):
            reply(connection, header.xid, 0, error=NEEDS_LOGIN)
            connection.close_after_flush()
            return
        self.sessions.touch(connection.session_id, connection.timeout_ms, now_ms)
        if op is None or not self.settings.takes_request(op, packet):
            if not self.settings.is_zookeeper:
                self._unknown(connection)
                return
            reply(connection, header.xid, NO_ZXID, error=UnimplementedError.code)
            connection.close_after_flush()
            return
        if take_fault(self.dropped_requests, op):
            connection.close_after_flush()
            return
        if take_fault(self.throttled, op):
            reply(connection, header.xid, self.processor.zxid, error=ThrottledOpError.code)
            return
        drops_reply = take_fault(self.dropped_replies, op)
        body, error = self._execute(connection, op, r, now_ms)
        if drops_reply:
            connection.close_after_flush()
            return
        xid = XID_PING if op is OpCode.PING else header.xid
        zxid = 0 if op is OpCode.SASL else self.processor.zxid
        reply(connection, xid, zxid, body, error=error)
        if op is OpCode.CLOSE_SESSION or error in (AUTH_FAILED, NEEDS_LOGIN):
            connection.close_after_flush()

    def _unknown(self, connection: Connection) -> None:
        """An engine that does not know an operation answers nothing.

        ClickHouse Keeper closes the connection and the session. RaftKeeper 2.3 reads on.
        """
        if not self.settings.keeps_sessions:
            connection.close_after_flush()

    def _may_ask(self, connection: Connection) -> bool:
        required = self.settings.required
        return not required or any(scheme in required for scheme, _ in connection.identities)

    def _log_in(self, connection: Connection, token: bytes) -> tuple[Record | None, int]:
        if not self.settings.sasl_users:
            return NoTokenReply(), 0
        if connection.login is None:
            nonce = f"{self._rng.getrandbits(128):032x}"
            connection.login = DigestLogin(self.settings.sasl_users, nonce)
        try:
            answer = connection.login.evaluate(token)
        except RefusedLogin:
            return None, NEEDS_LOGIN if "sasl" in self.settings.required else AUTH_FAILED
        if connection.login.user is not None:
            connection.identities.append(("sasl", connection.login.user))
        return TokenReply(answer), 0

    def _execute(
        self, connection: Connection, op: OpCode, r: Reader, now_ms: int
    ) -> tuple[Record | None, int]:
        time_ms = self._time_ms(now_ms)
        match op:
            case OpCode.PING:
                return None, 0
            case OpCode.SASL:
                return self._log_in(connection, Sasl.read(r).token)
            case OpCode.CLOSE_SESSION:
                self._end_session(connection.session_id, time_ms)
                return None, 0
        if self.is_read_only and op in REFUSED_READ_ONLY:
            return None, NotReadOnlyError.code
        try:
            return self.processor.execute(connection, op, r, time_ms), 0
        except RemoteWireError:
            return None, MarshallingError.code
        except ServerError as error:
            return None, error.code

    def _end_session(self, session_id: int, time_ms: int) -> None:
        self.sessions.remove(session_id)
        self.processor.end_session(session_id, time_ms)
        if self._store is not None:
            # Last: a session that is kept without its znodes ends by itself after a restart.
            self._store.drop_session(session_id)

    def _close(self, connection: Connection) -> None:
        self.lost(connection)
        self._woken[connection] = None

    def _time_ms(self, now_ms: int) -> int:
        return milliseconds(self.settings.epoch) + now_ms
