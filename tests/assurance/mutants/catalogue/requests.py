"""No request, event or item is lost, doubled or mixed up."""

from __future__ import annotations

from ..model import Aim, Change, Mutant
from .kinds import SKIPS

WRITES_UNSETTLED = Change(
    "_session.requests.request_queue:RequestQueue.connection_lost",
    "if call.kind.is_write or call.kind.is_bound:",
    "if call.kind.is_bound:",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="cancelled-requests-lose-their-place",
        wrong="A cancelled request gives up its place in the order of answers, and its "
        "answer goes to the next request.",
        changes=(
            Change(
                "_client.api.pending_reply:PendingReply",
                "_was_awaited: bool = field(default=False, init=False)",
                """
                _was_awaited: bool = field(default=False, init=False)
                abandoned: bool = field(default=False, init=False)
                """,
            ),
            Change(
                "_client.api.pending_reply:PendingReply.__await__",
                "waits: Generator[Any, Any, T] = waiter.__await__()",
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
                "_session.requests.request_queue:RequestQueue.awaiting",
                "call = self.unanswered[0]",
                """
                while len(self.unanswered) > 1 and getattr(self.unanswered[0], "abandoned", 0):
                    self.unanswered.popleft()
                call = self.unanswered[0]
                """,
            ),
            Change(
                "_session.requests.request_queue:RequestQueue.awaiting",
                "call.xid != xid",
                "call.xid < 0",
            ),
        ),
        tests=("tests/session/test_session_machine.py",),
        simulated=True,
    ),
    Mutant(
        name="skipped-answer-is-malformed",
        wrong="A skipped request is reported as malformed bytes, an error that no recipe retries.",
        seen_in="aiolead, at first; kazoo: its connection thread ends (xids do not match)",
        aim=Aim((SKIPS,), least=0.3),
        changes=(
            Change(
                "_session.requests.request_queue:RequestQueue.awaiting",
                "call = self.unanswered[0]",
                """
                call = self.unanswered[0]
                if call.xid != xid:
                    from ...errors import RemoteWireError

                    raise RemoteWireError("the server skipped a request")
                """,
            ),
        ),
        tests=("tests/client/test_faults.py",),
        simulated=True,
    ),
    Mutant(
        name="half-a-frame-outlives-its-connection",
        wrong="Bytes that an old connection left behind are read as the beginning of "
        "the next one's.",
        changes=(
            Change(
                "_session.machine:SessionMachine._reset_connection",
                "FrameReader(self._max_reply, long=LONG)",
                'getattr(self, "_frames", FrameReader(self._max_reply, long=LONG))',
            ),
        ),
        tests=("tests/session/test_session_machine.py",),
        simulated=True,
    ),
    Mutant(
        name="old-connection-ends-the-new-one",
        wrong="An error of the old connection ends the connection that followed.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.net.supervisor:Supervisor._serve",
                "await carrier.aclose()",
                """
                await carrier.aclose()

                async def late() -> None:
                    await anyio.sleep(self._machine.timing.session_timeout / 20)
                    self._cut(ConnectionEnded("the one before has ended"))

                self._core.start(late)
                """,
            ),
        ),
        tests=("tests/client/test_faults.py",),
        simulated=True,
    ),
    Mutant(
        name="last-zxid-forgotten",
        wrong="A reconnecting client does not send the last zxid that it has seen, so a"
        " server that is behind accepts it.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session.machine:SessionMachine.connection_made",
                """
                ConnectRequest(
                    self.last_zxid,
                    round(self._asked_timeout * 1000),
                    self.session_id,
                    self._password,
                    read_only=self._read_only and self.session_id == 0,
                )
                """,
                """
                ConnectRequest(
                    0,
                    round(self._asked_timeout * 1000),
                    self.session_id,
                    self._password,
                    read_only=self._read_only and self.session_id == 0,
                )
                """,
            ),
        ),
        tests=("tests/session/test_session_machine.py",),
    ),
    Mutant(
        name="writes-are-sent-twice",
        wrong="A write whose answer was lost is sent again over the next connection.",
        seen_in="aiozk",
        changes=(
            Change(
                "_session.requests.request_queue:RequestQueue.connection_lost",
                "not (call.kind.is_write or call.kind.is_bound)",
                "not call.kind.is_bound",
            ),
            Change(
                "_session.requests.request_queue:RequestQueue.take",
                """
                if call.kind.is_write:
                    call.body = b""
                """,
                """
                if call.kind.is_bound:
                    call.body = b""
                """,
            ),
            WRITES_UNSETTLED,
        ),
        tests=("tests/session/test_session_liveness.py",),
        simulated=True,
    ),
    Mutant(
        name="pending-writes-are-forgotten",
        wrong="Writes that were in flight when the connection was lost are never settled.",
        seen_in="aiozk, after a FIN",
        changes=(WRITES_UNSETTLED,),
        tests=("tests/session/test_session_liveness.py",),
        simulated=True,
    ),
    Mutant(
        name="frames-that-come-in-pieces",
        wrong="A frame that arrives in two pieces loses its first one.",
        changes=(
            Change(
                "_wire.framing:FrameReader._split",
                "bytearray(data[pos:]) if pos < size else _NOTHING",
                "bytearray(data[pos : pos + 4]) if pos < size else _NOTHING",
            ),
        ),
        tests=("tests/session/test_session_life.py",),
        simulated=True,
    ),
    Mutant(
        name="data-watches-not-rearmed",
        wrong="Data watches are not set again after a reconnect.",
        seen_in="aiozk; kazoo #151; rust-zookeeper #97",
        changes=(
            Change(
                "_session.watches.registry:_set_watches",
                "tuple(chunk[WatchKind.DATA])",
                "()",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="no-watch-is-rearmed",
        wrong="A reconnect drops all watches.",
        changes=(
            Change(
                "_session.watches.registry:WatchRegistry._requests",
                "for kind, armed in self._armed.items():",
                "for kind, armed in list(self._armed.items())[:0]:",
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="rearming-is-awaited-by-the-reader",
        wrong="The task that reads answers waits for the answer to SetWatches before it reads on.",
        seen_in="aiozk",
        changes=(
            Change(
                "_client.net.carrier:StreamCarrier._read",
                """
                while feed(data):
                    await checkpoint()
                    data = b""
                """,
                """
                while feed(data):
                    await checkpoint()
                    data = b""
                while feed.func.__self__._machine.watches.unanswered:
                    await anyio.sleep(0.01)
                """,
            ),
        ),
        tests=("tests/assurance/simulation/test_found.py",),
        simulated=True,
    ),
    Mutant(
        name="rearming-in-one-request",
        wrong="All watches are set again by one request, however long it is.",
        seen_in="aiozk; ZOOKEEPER-706",
        changes=(
            Change(
                "_session.watches.registry:WatchRegistry._requests",
                "if size and size + cost > limit:",
                "if size and size + cost > limit * 1000000:",
            ),
        ),
        tests=("tests/session/test_session_watches.py",),
        note="It takes more than 128 KiB of watched paths.",
    ),
    Mutant(
        name="one-shot-watch-over-a-persistent-one",
        wrong="A read sets a one-shot watch where a persistent one is, which ends that.",
        seen_in="ZOOKEEPER-4466",
        changes=(
            Change(
                "_session.watches.arming:Arming.sending",
                "body if self._registry.is_one_shot(self._path, self._kind) else "
                'body[:-1] + b"\\0"',
                "body",
            ),
        ),
        tests=("tests/session/test_session_persistent_watches.py",),
    ),
    Mutant(
        name="versions-say-what-is-new",
        wrong="A followed value counts as unchanged if its version is, although the "
        "znode was deleted and created again.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes.values.shared_value:SharedValueView._read",
                "written = _NEVER if stat is None else stat.mzxid",
                "written = _NEVER if stat is None else stat.version",
            ),
        ),
        tests=("tests/recipes/values/test_values.py",),
    ),
    Mutant(
        name="change-lost-while-releasing",
        wrong="An item that is assigned again while its worker still ends is not started again.",
        seen_in="kazoo 259, 283",
        changes=(
            Change(
                "_recipes.membership.partitioner:Partitioner._own",
                """
                # It may have become ours again while the worker was ending.
                self._changed.set()
                """,
                "",
            ),
        ),
        tests=("tests/recipes/membership/test_partitioner.py",),
    ),
    Mutant(
        name="member-known-by-its-name",
        wrong="A member that left and joined again during a disconnection is taken for "
        "the same one.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes.membership.group:changes_between",
                "if now is None or now.czxid != was.czxid:",
                "if now is None:",
            ),
        ),
        tests=("tests/recipes/membership/test_group.py",),
    ),
    Mutant(
        name="unanswered-acks-count",
        wrong="An acknowledgement whose answer was lost counts as applied.",
        changes=(
            Change(
                "_recipes.queues.claimed:Claimed._try_to_finish",
                """
                self._was_unanswered = True
                if await self._was_applied():
                    self._done()
                """,
                """
                self._was_unanswered = True
                self._done()
                """,
            ),
        ),
        tests=("tests/recipes/queues/test_queue_faults.py",),
    ),
)
