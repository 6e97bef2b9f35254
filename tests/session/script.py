"""A session machine without I/O: the test drives its clock and plays the server, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiolead._session.lease import HeldZnode, LeaseBook
from aiolead._session.machine import SessionMachine
from aiolead._session.requests import WRITE, Call
from aiolead._session.watches import WatchKind, WatchSlot
from aiolead._wire import replies, requests
from aiolead._wire.codes import XID_EVENT, OpCode
from aiolead._wire.config_text import CONFIG_PATH
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import FrameReader, Reader, Record, encode_record, encode_reply
from aiolead.errors import AioleadError, LossReason, NoNodeError, Outcome, SessionExpiredError
from aiolead.model import EventType, SessionState, Stat, WatchEvent

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
PASSWORD = b"sixteen bytes :)"
NO_NODE = NoNodeError.code

# The session of most tests: renewals every 2 s, half a tick of 2 s, 0.8 s to stop in.
START = 1000.0
TIMEOUT = 8.0
MARGIN = 0.808


def waited(half_tick: float) -> float:
    """How long a client waits, by its own clock, for `half_tick` of the servers' time.

    It is a little longer, since clocks differ by up to 0.1 %.
    """
    return half_tick / (1 - 0.001)


def lease_since(sent: float) -> Any:
    """The deadline of a lease that a request of this time proves."""
    return pytest.approx(sent + TIMEOUT - MARGIN)


@dataclass
class Packet:
    """A request as the server sees it."""

    xid: int
    op: OpCode
    body: bytes = field(repr=False)
    sent: float

    @property
    def reader(self) -> Reader:
        return Reader(self.body)

    @property
    def checks(self) -> list[str]:
        """The paths of a transaction."""
        return [op.path for op in requests.Multi.read(self.reader).ops]

    @property
    def is_question(self) -> bool:
        """Whether it asks if one round of the proof is enough."""
        return self.op is OpCode.GET_DATA and requests.GetData.read(self.reader).path == CONFIG_PATH

    @property
    def sets_watch(self) -> bool:
        """Whether a read asks for a watch."""
        return bytes(self.body).endswith(b"\x01")

    @property
    def set_watches(self) -> requests.SetWatches:
        return requests.SetWatches.read(self.reader, self.op)


class Script:
    """A machine and everything that its owner and its server do.

    Args:
        **options: of the machine, in place of what suits most tests: a session timeout of 8 s.

    Attributes:
        now: the clock.
        states: every reported change.
        on_state: called with each of them.
        cuts: why `tick` wanted the connection to be cut. It was cut then.
        down: whether there is no connection.
        shows_question: whether `sent` has the question whether one round is enough. By default
            it is answered as by a server without a configuration, and not seen.
    """

    def __init__(self, **options: Any) -> None:
        self.now = START
        self.zxid = 100
        self.states: list[tuple[SessionState, int]] = []
        self.on_state: Callable[[SessionState], object] = lambda _: None
        self.cuts: list[str] = []
        self.outputs = 0
        self.dues = 0
        self.down = True
        self.shows_question = False
        self._questions: set[int] = set()
        self._frames = FrameReader(1 << 28)
        self._early: list[bytes] = []
        """The frames that have left in the segment of a handshake, behind it."""
        settings: dict[str, Any] = {
            "session_timeout": 8.0,
            "auth": (),
            "max_request": 0xFFFFF,
            "max_reply": 1 << 20,
            "max_in_flight": 1000,
            "max_queued": 100_000,
            "max_ephemeral_paths": 768 * 1024,
            "tick_time": None,
            "grace_period": None,
        }
        self.machine = SessionMachine(
            **(settings | options),
            observer=self,
        )

    # --- as the observer of the machine --------------------------------------------------------

    def state_changed(self, state: SessionState, session_id: int) -> None:
        self.states.append((state, session_id))
        self.on_state(state)

    def output_ready(self) -> None:
        self.outputs += 1

    def due_earlier(self, at: float) -> None:
        self.dues += 1

    def lease_renewed(self, took: float, remaining: float) -> None:
        pass

    def ephemerals_near_limit(self) -> None:
        pass

    def release_unknown(self) -> None:
        pass

    def attempts(self) -> str:
        return ""

    # --- the lease -----------------------------------------------------------------------------

    @property
    def leases(self) -> LeaseBook:
        return self.machine.leases

    @property
    def deadline(self) -> float:
        """When the lease ends."""
        return self.machine.leases.deadline

    # --- the connection ------------------------------------------------------------------------

    def open(self) -> ConnectRequest:
        """A connection is opened; returns the handshake that goes out on it."""
        self._frames = FrameReader(1 << 28)
        self.down = False
        self.machine.connection_made(self.now)
        frame, *self._early = self._frames.feed(self.machine.data_to_send(self.now))
        return ConnectRequest.read(Reader(frame))

    def greet(self, session_id: int = 7, timeout: float = 8.0) -> None:
        """The server's answer to the handshake."""
        response = ConnectResponse(round(timeout * 1000), session_id, PASSWORD)
        self.feed(encode_record(response))

    def connect(
        self, session_id: int = 7, timeout: float = 8.0, *, after: float = 0.0
    ) -> ConnectRequest:
        """Opens a connection, which is greeted `after` seconds."""
        request = self.open()
        self.now += after
        self.greet(session_id, timeout)
        return request

    def disconnect(self) -> None:
        self.down = True
        self.machine.connection_lost(self.now)

    def reconnect(self, session_id: int = 7, timeout: float = 8.0) -> ConnectRequest:
        """Loses the connection, and opens the next one."""
        self.disconnect()
        return self.connect(session_id, timeout)

    def expire(self) -> None:
        """Loses the connection, and the next server says that the session has expired."""
        self.disconnect()
        self.open()
        with pytest.raises(SessionExpiredError):
            self.greet(0, 0.0)

    def feed(self, data: bytes) -> None:
        self.machine.receive(data, self.now)
        while self.machine.decoding is not None:
            self.machine.receive(b"", self.now)

    # --- requests ------------------------------------------------------------------------------

    def submit(self, call: Call[Any]) -> Call[Any]:
        call.is_users = True
        return self.machine.submit(call, self.now)

    def sent(self) -> list[Packet]:
        """The requests that leave now."""
        frames, self._early = self._early, []
        while data := self.machine.data_to_send(self.now):
            frames += self._frames.feed(data)
        packets = []
        for frame in frames:
            header = requests.RequestHeader.read(Reader(frame))
            packet = Packet(header.xid, OpCode(header.op), frame[8:], self.now)
            if packet.is_question and not self.shows_question:
                self._questions.add(packet.xid)
            else:
                packets.append(packet)
        self._answer_questions()
        return packets

    def one(self) -> Packet:
        """The request that leaves now, which has to be the only one."""
        (packet,) = self.sent()
        return packet

    def _answer_questions(self) -> None:
        """Answer those that are next in turn."""
        oldest = self.machine.requests.oldest
        if oldest is not None and oldest.xid in self._questions:
            self._questions.remove(oldest.xid)
            self.reply(oldest.xid, err=NO_NODE)

    def ops(self) -> list[OpCode]:
        """The operations of what is sent now."""
        return [packet.op for packet in self.sent()]

    # --- reads and writes ----------------------------------------------------------------------

    def get(self, path: str, slot: WatchSlot | None = None) -> Call[Any]:
        request = requests.GetData(path, slot is not None)
        return self._read(request, lambda r: replies.DataReply.read(r).data, slot)

    def exists(self, path: str, slot: WatchSlot | None = None) -> Call[Any]:
        def on_error(error: AioleadError) -> AioleadError | None:
            return None if isinstance(error, NoNodeError) else error

        call = self._read(
            requests.Exists(path, slot is not None), lambda r: replies.StatReply.read(r).stat, slot
        )
        call.on_error = on_error
        return call

    def children(self, path: str, slot: WatchSlot | None = None) -> Call[Any]:
        request = requests.GetChildren(path, slot is not None, OpCode.GET_CHILDREN)
        return self._read(request, lambda r: list(replies.NamesReply.read(r).names), slot)

    def _read(
        self,
        request: requests.GetData | requests.Exists | requests.GetChildren,
        parse: Callable[[Reader], Any],
        slot: WatchSlot | None,
    ) -> Call[Any]:
        kind = WatchKind.CHILD if isinstance(request, requests.GetChildren) else WatchKind.DATA
        path = request.path
        watches, is_of_data = self.machine.watches, isinstance(request, requests.GetData)
        arming = slot and watches.begin(slot, path, path, kind, is_of_data=is_of_data)
        return self.submit(Call(request.op, request.encode(), parse, path=path, arming=arming))

    def write(self, path: str = "/w") -> Call[Any]:
        body = requests.SetData(path, b"", -1).encode()
        parse = lambda r: replies.StatReply.read(r).stat  # noqa: E731
        return self.submit(Call(OpCode.SET_DATA, body, parse, path=path, kind=WRITE))

    def watch(self, read: str = "get", path: str = "/a") -> Watcher:
        """Submits a read with a watch."""
        watcher = Watcher(self)
        watcher.call = getattr(self, read)(path, watcher.slot)
        return watcher

    # --- holds ---------------------------------------------------------------------------------

    def hold(self, path: str = "/held", **options: Any) -> Holder:
        return Holder(self, path, **options)

    def next_renewal(self, within: float = 10.0) -> Packet:
        """Lets time pass up to the next renewal, which is not answered; pings are."""
        end = self.now + within
        while self.machine.next_deadline() <= end:
            self.now = max(self.now, self.machine.next_deadline())
            self.tick()
            found = None
            for packet in self.sent():
                if packet.op is OpCode.MULTI:
                    assert found is None
                    found = packet
                else:
                    self.answer(packet)
            if found is not None:
                return found
        raise AssertionError("no renewal")

    def next_sync(self) -> Packet:
        """Answers the next transaction of a renewal, and returns the sync behind it."""
        self.answer(self.next_renewal())
        sync = self.one()
        assert sync.op is OpCode.SYNC
        return sync

    def renew(self, times: int = 1) -> Packet:
        """Answers both steps of some renewals; returns the last transaction."""
        for _ in range(times):
            packet = self.next_renewal()
            self.answer(packet)
            self.confirm()
        return packet

    # --- answers -------------------------------------------------------------------------------

    def reply(
        self, xid: int, body: Record | None = None, *, err: int = 0, zxid: int | None = None
    ) -> None:
        zxid = self.zxid if zxid is None else zxid
        self.feed(encode_reply(replies.ReplyHeader(xid, zxid, err), body))
        self._answer_questions()

    def answer(self, packet: Packet, *, err: int = 0) -> None:
        """The usual answer to a request; every write succeeds."""
        if packet.op is OpCode.MULTI and not err:
            self.zxid += 1
            ops = requests.Multi.read(packet.reader).ops
            self.reply(
                packet.xid,
                replies.MultiReply(tuple((op.op, replies.DoneResult(op.op)) for op in ops)),
            )
        elif err:
            self.reply(packet.xid, err=err)
        elif packet.op is OpCode.SET_DATA:
            self.zxid += 1
            self.reply(packet.xid, replies.StatReply(STAT))
        else:
            self.reply(packet.xid, _ANSWERS[packet.op])

    def refuse(self, packet: Packet, index: int, code: int) -> None:
        """The answer to a transaction of which one operation failed."""
        count = len(requests.Multi.read(packet.reader).ops)
        codes = [0] * index + [code] + [-2] * (count - index - 1)
        results = tuple((OpCode.ERROR, replies.ErrorResult(code)) for code in codes)
        self.zxid += 1
        self.reply(packet.xid, replies.MultiReply(results))

    def confirm(self) -> Packet:
        """Answers the second step of a renewal, which has to be all there is to send now."""
        (sync,) = self.sent()
        assert sync.op is OpCode.SYNC
        self.answer(sync)
        return sync

    def event(self, type_: EventType, path: str) -> None:
        self.feed(
            encode_reply(
                replies.ReplyHeader(XID_EVENT, -1, 0), replies.WatcherEvent(type_.value, path)
            )
        )

    def serve(self) -> list[Packet]:
        """Answers everything that is sent now, and what the answers have made it send."""
        packets = []
        while sent := self.sent():
            packets += sent
            for packet in sent:
                self.answer(packet)
        return packets

    # --- time ----------------------------------------------------------------------------------

    def tick(self) -> None:
        why = self.machine.tick(self.now)
        if why is not None:
            self.cuts.append(why)
            self.disconnect()

    def advance(self, seconds: float, serve: Callable[[], object] | None = None) -> list[Packet]:
        """Lets time pass, and calls `tick` exactly when something is due.

        Args:
            seconds: how long.
            serve: called after each tick; by default what is sent is collected.

        Returns:
            what was sent meanwhile, where `serve` did not take it.
        """
        end = self.now + seconds
        packets = []
        while (due := self.machine.next_deadline()) <= end:
            self.now = max(self.now, due)
            self.tick()
            if serve is None:
                packets += self.sent()
            else:
                serve()
            assert self.machine.next_deadline() > self.now, "its owner would spin"
        self.now = end
        return packets

    def serve_for(self, seconds: float) -> list[Packet]:
        """Lets time pass, while everything is answered. Returns what was."""
        packets: list[Packet] = []
        self.advance(seconds, serve=lambda: packets.extend(self.serve()))
        return packets

    def pass_time(self) -> None:
        """A tenth of a second passes, in which only pings are answered."""
        for packet in self.advance(0.1):
            if packet.op is OpCode.PING and not self.cuts:
                self.answer(packet)

    def wait(self, seconds: float) -> None:
        """Time passes without anything being due."""
        assert self.machine.next_deadline() > self.now + seconds
        self.now += seconds


def connected(**options: Any) -> Script:
    """A script with a session of 8 s."""
    script = Script(**options)
    script.connect()
    return script


_ANSWERS: dict[OpCode, Record | None] = {
    OpCode.GET_DATA: replies.DataReply(b"data", STAT),
    OpCode.EXISTS: replies.StatReply(STAT),
    OpCode.GET_CHILDREN: replies.NamesReply(("a", "b")),
    OpCode.REMOVE_WATCHES: None,
    OpCode.CLOSE_SESSION: None,
    OpCode.PING: None,
    OpCode.SET_WATCHES: None,
    OpCode.SET_WATCHES2: None,
    OpCode.ADD_WATCH: replies.NumberReply(0),
    OpCode.SYNC: replies.PathReply("/"),
    OpCode.AUTH: None,
}


READS = ("get", "exists", "children")
"""Those that can set a watch."""


def failure_of(call: Call[Any]) -> tuple[type[AioleadError], Outcome]:
    """The type of a call's error, and whether the request was applied."""
    return type(call.error()), outcome_of(call)


def outcome_of(call: Call[Any]) -> Outcome:
    error = call.error()
    assert error is not None
    return error.outcome


class Watcher:
    """A watch of one caller, the events that it has seen, and its read."""

    call: Call[Any]

    def __init__(self, script: Script) -> None:
        self.events: list[WatchEvent] = []
        self.slot = WatchSlot(script.machine.watches, self.events.append)

    @property
    def is_armed(self) -> bool:
        return self.slot.is_armed

    def close(self) -> None:
        self.slot.close()

    @property
    def types(self) -> list[EventType]:
        return [event.type for event in self.events]


# --- holds -----------------------------------------------------------------------------------


class Holder:
    """Something that is held, and what became of it.

    Args:
        script: the client.
        path: the held znode.
        on_lost: called after the loss was noted down.
        on_settled: called after it was noted down that the hold has settled.
        **options: whether it is `urgent`, and `resign_on_disconnect`.

    Attributes:
        lost: why and when it was lost.
        settled: when it settled.
    """

    def __init__(
        self,
        script: Script,
        path: str = "/held",
        *,
        on_lost: Callable[[LossReason], object] = lambda _: None,
        on_settled: Callable[[], object] = lambda: None,
        **options: bool,
    ) -> None:
        self.lost: list[tuple[LossReason, float]] = []
        self.settled: list[float] = []
        self._script = script
        self._on_lost, self._on_settled = on_lost, on_settled
        self.hold: HeldZnode = script.leases.hold(
            path,
            self,
            urgent=options.get("urgent", False),
            resign_on_disconnect=options.get("resign_on_disconnect", False),
            now=script.now,
        )

    def hold_lost(self, reason: LossReason) -> None:
        self.lost.append((reason, self._script.now))
        self._on_lost(reason)

    def hold_settled(self) -> None:
        self.settled.append(self._script.now)
        self._on_settled()

    def release(self) -> None:
        self.hold.release()

    def lose(self, reason: LossReason) -> None:
        self.hold.lose(reason)

    @property
    def reasons(self) -> list[LossReason]:
        return [reason for reason, _ in self.lost]


def renewals(packets: list[Packet]) -> list[Packet]:
    return [packet for packet in packets if packet.op is OpCode.MULTI]
