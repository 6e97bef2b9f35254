"""Sessions, connections and the order of answers."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import ASYNCIO, CUTS, LINKS, LOST_LINKS, READ_ONLY, SILENCE, SKIPS, SWALLOWS

SILENT_EXPIRY = Change(
    "_session/states.py",
    """
    self._move(Trigger.EXPIRED)
    self._end_session(LossReason.EXPIRED, keep_queue=keep_queue)
    if self.is_resuming:
    """,
    """
    if self.is_resuming:
    """,
)

MUTANTS = (
    Mutant(
        number="440",
        name="surrogate-pairs-are-unreadable",
        wrong="Real servers write characters beyond U+FFFF in a way that cannot be read.",
        changes=(
            Change(
                "_wire/jute.py",
                'return halves.encode("utf-16", "surrogatepass").decode("utf-16")',
                'return halves.encode("utf-16").decode("utf-16")',
            ),
        ),
        tests=("tests/unit/wire/test_wire_jute.py",),
    ),
    Mutant(
        number="441",
        name="an-unreadable-text-ends-the-connection",
        wrong="A name that cannot be decoded costs everything else that is in flight.",
        changes=(
            Change(
                "_session/requests/call.py",
                "is_own = isinstance(error, (UnreadableTextError, AnswerTooLargeError))",
                "is_own = isinstance(error, AnswerTooLargeError)",
            ),
        ),
        tests=("tests/unit/session/test_session_machine.py",),
    ),
    Mutant(
        number="11",
        name="new-session-without-a-word",
        wrong="After an expired session the next one is opened without anybody being told.",
        seen_in="aiozk: SUSPENDED, then CONNECTED, with another session",
        changes=(
            SILENT_EXPIRY,
            Change(
                "_session/states.py",
                """
                self._password = b""
                self._move(Trigger.RETRY)
                """,
                """
                self._password = b""
                """,
            ),
        ),
    ),
    Mutant(
        number="12",
        name="hold-outlives-the-session",
        aim=Aim((("session-ended",),), target="holder"),
        wrong="What is held is still held in the next session.",
        changes=(
            Change(
                "_session/states.py",
                """
                self.leases.lose_all(reason)
                if not keep_queue:
                """,
                """
                if not keep_queue:
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_lease.py",),
    ),
    Mutant(
        number="12b",
        name="fence-outlives-the-session",
        aim=Aim((("session-ended", "line-deleted"),), groups=3),
        wrong="Fenced writes of an expired session go through if a znode of the guard's name is "
        "there again.",
        changes=(
            Change(
                "_client/api/transactions.py",
                "return self._core.machine.session_id != self._session_id or self._gone()",
                "return self._gone()",
            ),
        ),
        tests=("tests/recipes/test_fence_and_sessions.py", *ASYNCIO),
    ),
    Mutant(
        number="21",
        name="cancelled-requests-lose-their-place",
        wrong="A cancelled request gives up its place in line, and its answer goes to the next "
        "one.",
        changes=(
            Change(
                "_client/api/pending_reply.py",
                """
                _was_awaited: bool = field(default=False, init=False)
                """,
                """
                _was_awaited: bool = field(default=False, init=False)
                abandoned: bool = field(default=False, init=False)
                """,
            ),
            Change(
                "_client/api/pending_reply.py",
                """
                waits: Generator[Any, Any, T] = waiter.__await__()
                """,
                """
                def abandoning() -> Any:
                    try:
                        return (yield from waiter.__await__())
                    except BaseException:
                        self.abandoned = True
                        raise

                waits: Generator[Any, Any, T] = abandoning()
                """,
            ),
            Change(
                "_session/requests/request_queue.py",
                """
                call = self.unanswered[0]
                if call.xid != xid:
                """,
                """
                while len(self.unanswered) > 1 and getattr(self.unanswered[0], "abandoned", 0):
                    self.unanswered.popleft()
                call = self.unanswered[0]
                if call.xid < 0:
                """,
            ),
        ),
    ),
    Mutant(
        number="21c",
        name="a-look-for-cancellations-is-kept",
        wrong="A task of asyncio that was not cancelled once is not looked at again: cancelled "
        "while it waited, it gets answers that are there already.",
        changes=(
            Change(
                "_client/api/pending_reply.py",
                "asyncio.get_running_loop().call_soon(_forget_checked)",
                "",
            ),
        ),
        tests=("tests/client/test_pending_reply.py",),
        simulated=False,
        note="No scenario awaits replies that were answered already, after a shielded wait.",
    ),
    Mutant(
        number="21b",
        name="a-skipped-answer-is-nonsense",
        wrong="A server that skips a request has sent bytes that cannot be decoded: the request "
        "fails with an error that no caller rides out.",
        seen_in="aiolead, at first; kazoo: its connection thread ends (xids do not match)",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                """
                if call.xid != xid:
                    raise ConnectionLossError(
                """,
                """
                if call.xid != xid:
                    from ...errors import RemoteWireError

                    raise RemoteWireError(
                """,
            ),
        ),
        aim=Aim((SKIPS,), least=0.3),
        tests=("tests/client/test_client_faults.py", *ASYNCIO),
    ),
    Mutant(
        number="22",
        name="half-a-frame-outlives-its-connection",
        wrong="Bytes that an old connection left behind are taken for the beginning of what the "
        "next one says.",
        changes=(
            Change(
                "_session/machine.py",
                """
                def _reset_connection(self) -> None:
                    self._out: list[bytes] = []
                    self._frames = FrameReader(self._max_reply, long=LONG)
                """,
                """
                def _reset_connection(self) -> None:
                    self._out: list[bytes] = []
                    self._frames = getattr(self, "_frames", FrameReader(self._max_reply, long=LONG))
                """,
            ),
        ),
    ),
    Mutant(
        number="22b",
        name="old-connection-ends-the-new-one",
        wrong="An error of the old connection is taken for one of the connection that followed.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/supervisor.py",
                """
                finally:
                    self._core.peer = None
                    self._machine.connection_lost(clock())
                    self._connection = None
                    await carrier.aclose()
                """,
                """
                finally:
                    self._core.peer = None
                    self._machine.connection_lost(clock())
                    self._connection = None
                    await carrier.aclose()

                    async def late() -> None:
                        await anyio.sleep(self._machine.timing.session_timeout / 20)
                        self._cut(ConnectionEnded("the one before has ended"))

                    self._core.start(late)
                """,
            ),
        ),
    ),
    Mutant(
        number="22c",
        name="old-queue-outlives-its-connection",
        wrong="What was to be sent on a connection that is gone, pings and all, is sent on the "
        "next one, before its handshake.",
        changes=(
            Change(
                "_session/machine.py",
                """
                def _reset_connection(self) -> None:
                    self._out: list[bytes] = []
                """,
                """
                def _reset_connection(self) -> None:
                    self._out: list[bytes] = getattr(self, "_out", [])
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_machine.py",),
        note="It takes a send that has to wait. Else bytes are taken in the moment in which they "
        "come to be there, so none are left when a connection ends.",
    ),
    Mutant(
        number="23",
        name="last-zxid-forgotten",
        aim=Aim((("lagging", "isolated", "deaf", "peers-reset", "slow-disk"),), groups=3),
        wrong="A reconnecting client does not say what it has seen, so a server that is behind "
        "takes it.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session/machine.py",
                """
                self.last_zxid,
                round(self._asked_timeout * 1000),
                """,
                """
                0,
                round(self._asked_timeout * 1000),
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_machine.py",),
    ),
    Mutant(
        number="37",
        name="writes-are-sent-twice",
        wrong="A write whose answer was lost is sent again over the next connection.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                "if not (call.kind.is_write or call.kind.is_bound)]",
                "if not call.kind.is_bound]",
            ),
            Change(
                "_session/requests/request_queue.py",
                """
                if call.kind.is_write:
                    call.body = b""
                """,
                """
                if call.kind.is_bound:
                    call.body = b""
                """,
            ),
            Change(
                "_session/requests/request_queue.py",
                """
                for call in inflight:
                    if call.kind.is_write or call.kind.is_bound:
                """,
                """
                for call in inflight:
                    if call.kind.is_bound:
                """,
            ),
        ),
    ),
    Mutant(
        number="39",
        name="pending-writes-are-forgotten",
        wrong="Writes that were in flight when the link was lost are never settled.",
        seen_in="aiozk, after a FIN",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                """
                for call in inflight:
                    if call.kind.is_write or call.kind.is_bound:
                """,
                """
                for call in inflight:
                    if call.kind.is_bound:
                """,
            ),
        ),
    ),
    Mutant(
        number="39b",
        name="end-of-stream-unnoticed",
        aim=Aim((("link-fin",),), target="holder"),
        wrong="A connection that the server closes is taken for one that is silent.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client/net/supervisor.py",
                """
                await connection.carrier.carry(feed, take)
                """,
                """
                try:
                    await connection.carrier.carry(feed, take)
                except anyio.EndOfStream:
                    await anyio.sleep_forever()
                """,
            ),
        ),
        tests=("tests/client/test_client_faults.py", *ASYNCIO),
    ),
    Mutant(
        number="43",
        name="no-ping-while-something-comes-in",
        wrong="A ping leaves only when nothing has come in for a while, not when nothing went out.",
        changes=(
            Change(
                "_session/machine.py",
                "return self._last_sent + self.timing.ping_after",
                "return max(self._last_sent, self.last_contact) + self.timing.ping_after",
            ),
        ),
        tests=("tests/unit/session/test_session_life.py",),
    ),
    Mutant(
        number="43b",
        name="pings-too-rarely",
        wrong="An idle session is pinged once in a session timeout.",
        changes=(
            Change(
                "_session/lease/timing.py",
                """
                \"\"\"Silence of the client after which a ping is due.\"\"\"
                return self.patience / 3
                """,
                """
                return self.patience
                """,
            ),
            Change(
                "_session/lease/timing.py",
                "return self.patience * 2 / 3",
                "return self.patience * 2",
            ),
        ),
    ),
    Mutant(
        number="65",
        name="half-open-unnoticed",
        aim=Aim((SILENCE,), least=0.5, groups=3),
        wrong="A connection over which nothing comes any more is kept.",
        changes=(
            Change(
                "_session/machine.py",
                "return self._liveness.since + self.timing.silent_after",
                "return self._liveness.since + 1e9",
            ),
        ),
    ),
    Mutant(
        number="65b",
        name="events-break-the-silence",
        aim=Aim((SILENCE,), least=0.5, groups=3),
        wrong="A connection that takes nothing of ours any more is kept while it brings events.",
        changes=(
            Change(
                "_session/machine.py",
                "return self._liveness.since + self.timing.silent_after",
                "return self.last_contact + self.timing.silent_after",
            ),
        ),
        tests=("tests/unit/session/test_session_life.py",),
    ),
    Mutant(
        number="65c",
        name="answered-pings-are-enough",
        wrong="A connection is kept for as long as pings are answered, although a request that was "
        "sent before them is not.",
        changes=(
            Change(
                "_session/requests/liveness.py",
                "return min(self.last_answer, self._oldest()[0])",
                "return self.last_answer",
            ),
        ),
        aim=Aim((SWALLOWS,), least=1.5, groups=3),
        tests=("tests/unit/session/test_session_liveness.py",),
    ),
    Mutant(
        number="66",
        name="password-forgotten",
        wrong="Each reconnect asks for a session without the password of ours.",
        changes=(
            Change(
                "_session/machine.py",
                "self._password = response.password",
                'self._password = b""',
            ),
        ),
    ),
    Mutant(
        number="67",
        name="one-refusal-ends-the-session",
        aim=Aim((("connect-request-lost",), ("link-reset",)), least=0.5),
        wrong="A session is given up as soon as one round of servers has hung up on us.",
        seen_in="aiozk: a reset during the handshake",
        changes=(
            Change("_client/net/supervisor.py", "REFUSALS = 3", "REFUSALS = 1"),
            Change(
                "_client/net/supervisor.py",
                "return age > self._machine.timing.session_timeout",
                "return age > 0",
            ),
        ),
        tests=LINKS,
        note="It takes a round in which every server hangs up on a session that is alive.",
    ),
    Mutant(
        number="68",
        name="reads-lose-their-place",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="Reads that are sent again go behind the requests that were made after them.",
        changes=(
            Change(
                "_session/requests/request_queue.py",
                "self.queue.extendleft(reversed(reads))",
                "self.queue.extend(reads)",
            ),
        ),
        tests=("tests/unit/session/test_session_request_queue.py",),
    ),
    Mutant(
        number="69",
        name="frames-that-come-in-pieces",
        wrong="A frame that arrives in two pieces loses its first one.",
        changes=(
            Change(
                "_wire/framing.py",
                "self.kept = bytearray(data[pos:])",
                "self.kept = bytearray(data[pos : pos + 4])",
            ),
        ),
    ),
    Mutant(
        number="70",
        name="suspended-unreported",
        aim=Aim((LOST_LINKS,), groups=3),
        wrong="A lost link is not reported as a change of state.",
        changes=(
            Change(
                "_session/machine.py",
                """
                if self.state is SessionState.CONNECTED:
                    self._move(Trigger.CONNECTION_LOST)
                """,
                """
                if self.state is SessionState.CONNECTED:
                    self.state = SessionState.SUSPENDED
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_machine.py",),
    ),
    Mutant(
        number="71",
        name="late-expiry-is-waited-out",
        aim=Aim((("session-ended", *CUTS),), groups=3),
        wrong="The word of a server, in answer to a request, that the session is over is ignored.",
        changes=(
            Change(
                "_session/machine.py",
                "if isinstance(answer, (AuthFailedError, SessionExpiredError, SessionMovedError)):",
                "if isinstance(answer, AuthFailedError):",
            ),
        ),
        tests=("tests/unit/session/test_session_life.py",),
    ),
    Mutant(
        number="24",
        name="read-only-counts-as-connected",
        wrong="A read-only server is taken for one that can commit.",
        changes=(
            Change(
                "_session/machine.py",
                """
                if not self.is_read_only:
                    self._move(Trigger.ESTABLISHED)
                    return
                """,
                """
                if self is not None:
                    self._move(Trigger.ESTABLISHED)
                    return
                """,
            ),
        ),
        tests=READ_ONLY,
        simulated=False,
    ),
    Mutant(
        number="24b",
        name="read-only-begins-a-lease",
        wrong="The handshake with a read-only server counts as proof of a session.",
        changes=(
            Change(
                "_session/machine.py",
                "self._handshake_sent = -inf  # proves nothing at such a server",
                "pass",
            ),
        ),
        tests=READ_ONLY,
        note="No znode can be created there, so nobody can hold by it: only `lease` contradicts "
        "itself.",
        simulated=False,
    ),
    Mutant(
        number="24c",
        name="sessions-are-shown-to-read-only-servers",
        wrong="A session of the ensemble is resumed by a read-only server.",
        changes=(
            Change(
                "_session/machine.py",
                "read_only=self._read_only and self.session_id == 0,",
                "read_only=self._read_only,",
            ),
            Change(
                "_session/machine.py",
                "if response.read_only and not (self._read_only and self.session_id == 0):",
                "if response.read_only and not self._read_only:",
            ),
        ),
        tests=READ_ONLY,
        simulated=False,
    ),
    Mutant(
        number="24d",
        name="resumed-sessions-forget-their-timeout",
        wrong="A session that is resumed counts with what it is granted then, and not with what it "
        "began with, by which a new leader goes.",
        changes=(
            Change(
                "_session/machine.py",
                "session_timeout = min(session_timeout, resume.timeout)",
                "session_timeout = max(session_timeout, resume.timeout)",
            ),
        ),
        tests=("tests/unit/session/test_session_resume.py",),
        simulated=False,
    ),
    Mutant(
        number="24e",
        name="resumed-sessions-are-replaced",
        wrong="Where the session that is to be resumed is over, a new one begins without a word.",
        changes=(
            Change(
                "_session/states.py",
                """
                if self.is_resuming:
                    self._move(Trigger.CLOSED)  # no other session was asked for
                """,
                """
                if self.is_resuming and self.state is None:
                    self._move(Trigger.CLOSED)  # no other session was asked for
                """,
            ),
        ),
        tests=("tests/unit/session/test_session_resume.py",),
        simulated=False,
    ),
    Mutant(
        number="24f",
        name="moving-waits-for-nobody",
        wrong="A client that moves cuts its link with requests in flight.",
        changes=(
            Change(
                "_client/net/supervisor.py",
                "while connection.ended is None and self._machine.requests.inflight:",
                "while connection.ended is None and False:",
            ),
        ),
        tests=("tests/client/test_client_moves.py", *ASYNCIO),
        simulated=False,
    ),
    Mutant(
        number="24g",
        name="strangers-close-connections",
        wrong="The embedded server closes a session's connection for anybody who names the "
        "session, before it looks at the password.",
        seen_in="ZooKeeper; aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "testing/_server/core.py",
                """
                session = self.sessions.get(request.session_id)
                if session is None:
                    return None
                """,
                """
                if previous := self._attached.get(request.session_id):
                    self._close(previous)
                session = self.sessions.get(request.session_id)
                if session is None:
                    return None
                """,
            ),
        ),
        tests=("tests/unit/server/test_server_core.py",),
        note="The simulation's servers do so, too, as ZooKeeper's do.",
    ),
    Mutant(
        number="24h",
        name="reads-are-sent-again-for-ever",
        wrong="A read over which each connection is lost is sent again, without an end.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_session/requests/call.py",
                "return now - self.lost_at > RETRIED_FOR * patience",
                "return False",
            ),
        ),
        tests=("tests/unit/session/test_session_request_queue.py",),
    ),
    Mutant(
        number="24i",
        name="dns-names-the-servers",
        wrong="The certificate of a target of SRV records is checked for the name that DNS gives.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_client/net/host_sources.py",
                "return host if is_ours or not self._domain else self._domain",
                "return host if is_ours or True else self._domain",
            ),
        ),
        tests=("tests/client/test_client_hosts.py",),
    ),
    Mutant(
        number="24j",
        name="refused-requests-are-sent-at-once",
        wrong="A request that costs each connection is sent again without a pause.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_session/requests/suspects.py",
                "or now >= record.until - EARLY:",
                "or now >= record.lost_at:",
            ),
        ),
        tests=("tests/client/test_refused_requests.py",),
    ),
    Mutant(
        number="24k",
        name="suspected-requests-are-not-sent-alone",
        wrong="A suspected request leaves together with others.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_session/requests/request_queue.py",
                """
                if self._counted:
                    return True
                self._alone = call
                """,
                """
                if self._counted:
                    return False
                """,
            ),
        ),
        tests=("tests/client/test_refused_requests.py",),
    ),
    Mutant(
        number="24l",
        name="own-requests-stay-long",
        wrong="Renewals and re-armed watches that are too long for servers stay as long.",
        seen_in="aiolead, before its first release",
        simulated=False,
        changes=(
            Change(
                "_session/machine.py",
                "if longest > SHORT:",
                "if longest > self.max_body:",
            ),
        ),
        tests=("tests/client/test_refused_requests.py",),
    ),
)
