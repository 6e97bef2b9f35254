"""Persistent watches: what the server is sent, which streams get an event, and gaps."""

from __future__ import annotations

from typing import Any

import pytest
from session.script import NO_NODE, READS, Packet, Script

from aiolead._session.requests import READ, WATCH_CHANGE, Call
from aiolead._session.streams import StreamSlot, ancestors
from aiolead._session.watches import CHUNK
from aiolead._wire import replies, requests
from aiolead._wire.codes import XID_EVENT, XID_SET_WATCHES, AddWatchMode, OpCode, WatcherType
from aiolead._wire.jute import encode_reply
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConnectionLossError,
    SessionExpiredError,
    UnimplementedError,
)
from aiolead.model import EventType, Missed, MissedReason, WatchEvent

E = EventType
R = MissedReason
EXACT, RECURSIVE = AddWatchMode.PERSISTENT, AddWatchMode.RECURSIVE
NOT_SET_AGAIN = "does not set watches again"


class Stream:
    """A stream of events that opens, and what its reader has read."""

    def __init__(
        self,
        script: Script,
        path: str = "/a",
        *,
        recursive: bool = False,
        limit: int = 1000,
        prefix: str = "",
        bound: bool = False,
    ) -> None:
        self.script = script
        self.news = 0
        self.slot = StreamSlot(
            prefix + path, prefix, recursive=recursive, limit=limit, on_news=self._on_news
        )
        self.open(bound=bound)

    def open(self, *, bound: bool = False) -> None:
        request, joining = self.script.machine.watches.join(self.slot)
        kind = WATCH_CHANGE if bound else READ
        self.call: Call[int] = self.script.submit(
            Call(OpCode.ADD_WATCH, request.encode(), lambda r: r.i32(), kind, arming=joining)
        )

    def _on_news(self) -> None:
        self.news += 1

    def close(self) -> None:
        self.script.machine.watches.leave(self.slot)

    def read(self) -> list[tuple[EventType, str] | MissedReason]:
        found: list[tuple[EventType, str] | MissedReason] = []
        while self.slot.events:
            item = self.slot.take()
            assert item is not None
            found.append(item.reason if isinstance(item, Missed) else (item.type, item.path))
        return found


def opened(script: Script, path: str = "/a", *, recursive: bool = False) -> Stream:
    stream = Stream(script, path, recursive=recursive)
    script.serve()
    assert stream.call.error() is None
    return stream


def told(packets: list[Packet]) -> list[object]:
    """The requests about watches, in order."""
    found: list[object] = []
    for packet in packets:
        match packet.op:
            case OpCode.ADD_WATCH:
                request = requests.AddWatch.read(packet.reader)
                found.append((AddWatchMode(request.mode), request.path))
            case OpCode.REMOVE_WATCHES:
                removal = requests.RemoveWatches.read(packet.reader)
                found.append(("remove", WatcherType(removal.type), removal.path))
            case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
                found.append(packet.set_watches)
            case OpCode.GET_DATA | OpCode.EXISTS | OpCode.GET_CHILDREN:
                found.append((packet.op, packet.sets_watch))
            case _:
                found.append(packet.op)
    return found


REMOVAL = ("remove", WatcherType.ANY, "/a")


def assert_forgotten(script: Script) -> None:
    assert script.machine.watches.persistent.by_path == {}


# --- which stream gets an event ----------------------------------------------------------------

EVENTS = [
    (type_, path)
    for path in ("/", "/a", "/a/b", "/a/b/c", "/ab", "/x")
    for type_ in (E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED)
]


@pytest.mark.parametrize(
    ("path", "recursive", "seen"),
    [
        ("/a", False, {"/a"}),
        ("/a", True, {"/a", "/a/b", "/a/b/c"}),
        ("/", True, {"/", "/a", "/a/b", "/a/b/c", "/ab", "/x"}),
    ],
)
def test_stream_gets_the_events_of_its_paths_and_a_recursive_one_no_lists_of_children(
    script: Script, path: str, recursive: bool, seen: set[str]
) -> None:
    stream = opened(script, path, recursive=recursive)
    for event in EVENTS:
        script.event(*event)
    types = {E.CREATED, E.DELETED, E.DATA_CHANGED} | (set() if recursive else {E.CHILDREN_CHANGED})
    expected = [event for event in EVENTS if event[1] in seen and event[0] in types]
    assert stream.read() == expected
    assert stream.news == len(expected)


@pytest.mark.parametrize("path", ["/a" * 500_000, "/" * 1_000_000, "a" * 1_000_000])
def test_ancestors_of_a_long_path_are_bounded_by_the_longest_watched_one(path: str) -> None:
    assert len(list(ancestors(path, 4))) <= 5
    assert all(len(above) <= 4 for above in ancestors(path, 4))


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("recursive", [False, True])
def test_event_is_for_streams_and_one_shot_watches_alike(
    script: Script, read: str, recursive: bool
) -> None:
    stream = opened(script, recursive=recursive)
    watcher = script.watch(read)
    script.serve()
    script.event(E.DELETED, "/a")
    script.event(E.CREATED, "/a")
    assert watcher.types == [E.DELETED]
    assert stream.read() == [(E.DELETED, "/a"), (E.CREATED, "/a")]


def test_event_of_a_one_shot_watch_on_children_is_not_for_a_recursive_stream(
    script: Script,
) -> None:
    """A server sends it, since the watch below asked for it (ZOOKEEPER-4475)."""
    stream, watcher = opened(script, recursive=True), script.watch("children", "/a/b")
    script.serve()
    script.event(E.CHILDREN_CHANGED, "/a/b")
    assert watcher.types == [E.CHILDREN_CHANGED]
    assert stream.read() == []


def test_event_has_the_path_below_the_chroot(script: Script) -> None:
    inner = Stream(script, "/a", prefix="/app", recursive=True)
    root = Stream(script, "", prefix="/app", recursive=True)
    script.serve()
    script.event(E.CREATED, "/app/a/b")
    script.event(E.DELETED, "/app")
    assert inner.read() == [(E.CREATED, "/a/b")]
    assert root.slot.take() == WatchEvent(E.CREATED, "/a/b")
    assert root.slot.take() == WatchEvent(E.DELETED, "/")
    assert root.slot.take() is None


@pytest.mark.parametrize("number", [-1, 5, 6, 7, 99])
def test_events_without_a_change_are_ignored(script: Script, number: int) -> None:
    """Java's client reports removed watches to itself; no server sends such an event."""
    stream = opened(script)
    script.feed(
        encode_reply(replies.ReplyHeader(XID_EVENT, -1, 0), replies.WatcherEvent(number, "/a"))
    )
    assert stream.read() == []


def test_event_has_the_zxid_that_the_server_sent(script: Script) -> None:
    stream = opened(script)
    script.feed(
        encode_reply(replies.ReplyHeader(XID_EVENT, 77, 0), replies.WatcherEvent(E.DELETED, "/a"))
    )
    assert stream.slot.take() == WatchEvent(E.DELETED, "/a", 77)


def test_event_before_the_answer_to_opening_is_read(script: Script) -> None:
    """Servers answer the requests of a client and send its events in several threads."""
    stream = Stream(script)
    (packet,) = script.sent()
    script.event(E.DATA_CHANGED, "/a")
    script.answer(packet)
    assert stream.read() == [(E.DATA_CHANGED, "/a")]


# --- one watch on the server -------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
def test_opening_sets_a_watch_and_closing_the_last_stream_removes_it(
    script: Script, recursive: bool
) -> None:
    one = Stream(script, recursive=recursive)
    assert not one.slot.is_set
    assert told(script.serve()) == [(RECURSIVE if recursive else EXACT, "/a")]
    assert one.slot.is_set
    two = opened(script, recursive=recursive)
    one.close()
    one.close()
    assert told(script.serve()) == []
    script.event(E.DELETED, "/a")
    assert (one.read(), two.read()) == ([], [(E.DELETED, "/a")])
    two.close()
    assert told(script.serve()) == [REMOVAL]
    script.event(E.DELETED, "/a")
    assert two.read() == []
    assert len(script.machine.watches) == 0
    assert_forgotten(script)


@pytest.mark.parametrize("is_sent", [False, True])
def test_stream_closed_while_it_opens_is_not_left_on_the_server(
    script: Script, is_sent: bool
) -> None:
    stream = Stream(script)
    sent = script.sent() if is_sent else []
    stream.close()
    assert script.sent() == []
    for packet in sent:
        script.answer(packet)
    assert stream.call.is_done
    assert told(script.serve()) == ([REMOVAL] if is_sent else [])
    assert_forgotten(script)


def test_opening_before_the_removal_was_sent_keeps_the_watch(script: Script) -> None:
    opened(script).close()
    stream = Stream(script)
    assert told(script.serve()) == [(EXACT, "/a")]
    stream.close()
    Stream(script).close()
    assert told(script.serve()) == [REMOVAL]
    assert_forgotten(script)


def test_opening_after_the_removal_was_sent_sets_the_watch_again(script: Script) -> None:
    opened(script).close()
    (packet,) = script.sent()
    stream = Stream(script)
    script.answer(packet)
    assert told(script.serve()) == [(EXACT, "/a")]
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]


def test_refused_watch_is_forgotten(script: Script) -> None:
    stream = Stream(script)
    script.answer(script.one(), err=UnimplementedError.code)
    assert isinstance(stream.call.error(), UnimplementedError)
    script.serve()
    script.event(E.DELETED, "/a")
    assert stream.read() == []
    assert_forgotten(script)


def test_refused_removal_is_ignored(script: Script) -> None:
    opened(script).close()
    script.answer(script.one(), err=-121)
    assert script.machine.state.value == "connected"


# --- both modes on one path --------------------------------------------------------------------


def test_recursive_watch_is_set_where_streams_of_both_modes_are_open(script: Script) -> None:
    """A server before 3.9 has one watch for a path: the last that it was sent."""
    exact = Stream(script)
    deep = Stream(script, recursive=True)
    late = Stream(script)
    assert told(script.serve()) == [(EXACT, "/a"), (RECURSIVE, "/a"), (RECURSIVE, "/a")]
    deep.close()
    exact.close()
    assert told(script.serve()) == []
    late.close()
    assert told(script.serve()) == [REMOVAL]


CHANGES = [
    *[(type_, "/a/b") for type_ in (E.CREATED, E.DATA_CHANGED, E.DELETED)],
    (E.CREATED, "/a/b/c"),
]
LISTED = (E.CHILDREN_CHANGED, "/a")


@pytest.mark.parametrize(
    ("path", "above", "events", "read"),
    [
        # The recursive watch replaces the other one, so lists of children follow from its events.
        ("/a", "/a", CHANGES, [LISTED]),
        ("/", "/", [(E.CREATED, "/a")], [(E.CHILDREN_CHANGED, "/")]),
        ("/", "/", [(E.DELETED, "/")], [(E.DELETED, "/")]),
        # Each has its own watch, so only the event of the list counts.
        ("/a", "/", CHANGES, []),
        ("/a", "/", [LISTED], [LISTED]),
    ],
)
def test_exact_stream_beside_a_recursive_one(
    script: Script, path: str, above: str, events: list[Any], read: list[Any]
) -> None:
    exact, deep = opened(script, path), opened(script, above, recursive=True)
    for _ in range(2):
        for event in events:
            script.event(*event)
        assert exact.read() == read
        assert deep.read() == [event for event in events if event[0] is not E.CHILDREN_CHANGED]


# --- beside one-shot watches -------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("read", READS)
def test_read_does_not_set_a_one_shot_watch_over_a_persistent_one(
    script: Script, read: str, recursive: bool
) -> None:
    """That would end it, on servers before 3.9 (ZOOKEEPER-4466)."""
    opened(script, recursive=recursive)
    opened(script, "/", recursive=True)
    watcher = script.watch(read)
    (packet,) = script.sent()
    # A recursive one does not report children, and is not ended by a watch for them.
    assert packet.sets_watch is (recursive and read == "children")
    script.answer(packet)
    assert watcher.is_armed
    watcher.close()
    assert told(script.serve()) == []
    script.watch(read, "/b")  # below the root, which has a recursive watch
    assert script.one().sets_watch


def test_order_on_the_wire_decides_whether_a_one_shot_watch_is_set(script: Script) -> None:
    before = script.watch()
    Stream(script)
    behind = script.watch()
    with_watch, without = (OpCode.GET_DATA, True), (OpCode.GET_DATA, False)
    assert told(script.serve()) == [with_watch, (EXACT, "/a"), without]
    script.event(E.DATA_CHANGED, "/a")
    assert before.types == behind.types == [E.DATA_CHANGED]


@pytest.mark.parametrize("before", ["set", "being set", "covered by an exact stream"])
def test_watch_for_children_is_set_again_behind_a_recursive_one_that_ends_it(
    script: Script, before: str
) -> None:
    if before == "covered by an exact stream":
        opened(script)
    script.watch("children")
    script.zxid = 0x700
    if before != "being set":
        script.watch("get")
        script.serve()
    Stream(script, recursive=True)
    *_, deep, again = told(script.serve())
    assert deep == (RECURSIVE, "/a")
    assert isinstance(again, requests.SetWatches)
    assert (again.child, again.data, again.relative_zxid) == (("/a",), (), 0x700)


def test_one_shot_watches_are_set_again_behind_the_removal_of_a_persistent_one(
    script: Script,
) -> None:
    stream = opened(script)
    watchers = {read: script.watch(read) for read in READS}
    script.watch("exists")
    *packets, last = script.sent()
    for packet in packets:
        script.answer(packet)
    script.answer(last, err=NO_NODE)
    script.zxid = 0x900
    script.get("/other")
    script.serve()
    stream.close()
    gone, again = told(script.serve())
    assert gone == REMOVAL
    assert isinstance(again, requests.SetWatches)
    assert again.relative_zxid == 0x900
    assert (again.data, again.exist, again.child) == (("/a",),) * 3
    script.event(E.DATA_CHANGED, "/a")
    assert watchers["get"].types == watchers["exists"].types == [E.DATA_CHANGED]


def test_one_shot_watch_that_was_being_armed_is_set_again_as_well(script: Script) -> None:
    stream, watcher = opened(script), script.watch()
    (packet,) = script.sent()
    stream.close()
    (gone,) = script.sent()
    script.zxid = 0xA00
    script.answer(packet)
    (again,) = script.sent()
    assert again.set_watches.data == ("/a",)
    assert again.set_watches.relative_zxid == 0xA00
    script.answer(gone)
    script.answer(again)
    assert watcher.is_armed


def test_server_that_does_not_set_one_shot_watches_again_is_left(script: Script) -> None:
    stream = opened(script)
    script.watch()
    script.serve()
    stream.close()
    gone, again = script.sent()
    script.answer(gone)
    other = script.get("/b")
    with pytest.raises(ConnectionLossError, match=NOT_SET_AGAIN):
        script.answer(again, err=-5)
    script.disconnect()
    assert not other.is_done
    script.connect()
    (packet, read) = script.sent()
    assert packet.set_watches.data == ("/a",)
    assert read.op is OpCode.GET_DATA


def test_closed_one_shot_watch_does_not_remove_a_persistent_one(script: Script) -> None:
    watcher = script.watch()
    script.serve()
    stream = Stream(script)
    watcher.close()
    assert told(script.serve()) == [(EXACT, "/a")]
    stream.close()
    assert told(script.serve()) == [REMOVAL]


# --- over reconnects ---------------------------------------------------------------------------


def test_reconnect_sets_the_watches_again_and_reports_a_gap(script: Script) -> None:
    exact, deep = opened(script, "/e"), opened(script, "/d", recursive=True)
    script.event(E.CREATED, "/e")
    script.disconnect()
    assert exact.news == 1
    script.connect()
    (packet,) = script.sent()
    assert (packet.op, packet.xid) == (OpCode.SET_WATCHES2, XID_SET_WATCHES)
    assert packet.set_watches.persistent == ("/e",)
    assert packet.set_watches.recursive == ("/d",)
    assert exact.news == 1  # not before the server has the watch
    script.event(E.DATA_CHANGED, "/e")
    script.answer(packet)
    script.event(E.DELETED, "/e")
    assert exact.read() == [
        (E.CREATED, "/e"), (E.DATA_CHANGED, "/e"), R.RECONNECTED, (E.DELETED, "/e"),
    ]  # fmt: skip
    assert deep.read() == [R.RECONNECTED]


@pytest.mark.parametrize(("session", "gap"), [(7, R.RECONNECTED), (8, R.EXPIRED)])
def test_several_lost_connections_are_one_gap(
    script: Script, session: int, gap: MissedReason
) -> None:
    stream = opened(script)
    for _ in range(3):
        script.reconnect(session)
        script.sent()
    assert stream.read() == []
    script.reconnect(session)
    script.serve()
    assert stream.read() == [gap]


def test_one_shot_watches_are_set_by_the_request_that_every_server_has(script: Script) -> None:
    opened(script, "/e")
    script.watch("get", "/data")
    script.watch("children", "/child")
    script.serve()
    script.reconnect()
    once, persistent = script.sent()
    assert once.op is OpCode.SET_WATCHES
    assert once.set_watches.data == ("/data",)
    assert once.set_watches.child == ("/child",)
    assert persistent.op is OpCode.SET_WATCHES2


def test_watches_of_one_path_are_set_in_the_order_in_which_none_ends_another(
    script: Script,
) -> None:
    """Persistent watches cover one-shot ones, except those for children, which go last."""
    exact, deep = opened(script), opened(script, recursive=True)
    for read in READS:
        script.watch(read)
    script.serve()
    script.reconnect()
    first, second, third = script.serve()
    assert first.set_watches.data == ("/a",)
    assert first.set_watches.child == ()
    # Both, in the order of these lists: older servers keep the last.
    assert second.set_watches.persistent == second.set_watches.recursive == ("/a",)
    assert third.op is OpCode.SET_WATCHES
    assert third.set_watches.child == ("/a",)
    script.event(E.CREATED, "/a/b")
    assert exact.read() == [R.RECONNECTED, (E.CHILDREN_CHANGED, "/a")]
    assert deep.read() == [R.RECONNECTED, (E.CREATED, "/a/b")]


@pytest.mark.parametrize("state", ["open", "opening", "removal unsent"])
def test_closed_stream_is_not_set_on_the_next_connection(script: Script, state: str) -> None:
    stream = Stream(script)
    script.sent() if state == "opening" else script.serve()
    if state == "removal unsent":
        stream.close()
    script.disconnect()
    stream.close()
    script.connect()
    assert script.sent() == []
    assert_forgotten(script)


def test_opening_that_is_repeated_on_the_next_connection_reports_no_gap(script: Script) -> None:
    stream = Stream(script)
    script.sent()
    script.reconnect()
    assert told(script.serve()) == [(EXACT, "/a")]
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]


def test_repeated_read_sets_the_watch_that_is_needed_by_then(script: Script) -> None:
    stream = opened(script)
    script.watch()
    assert told(script.sent()) == [(OpCode.GET_DATA, False)]
    script.disconnect()
    stream.close()
    script.connect()
    assert told(script.sent()) == [(OpCode.GET_DATA, True)]


def test_many_watches_are_set_again_in_several_requests_below_the_limit(script: Script) -> None:
    streams = [opened(script, f"/{'x' * 500}/{n:04}", recursive=n % 2 == 0) for n in range(600)]
    script.reconnect()
    packets = script.sent()
    assert len(packets) == 3
    assert all(len(packet.body) <= CHUNK + 28 for packet in packets)
    assert sum(len(packet.set_watches.recursive) for packet in packets) == 300
    for packet in packets[:-1]:
        script.answer(packet)
    assert not any(stream.read() for stream in streams)
    script.answer(packets[-1])
    assert all(stream.read() == [R.RECONNECTED] for stream in streams)


def test_server_that_refuses_to_set_persistent_watches_again_is_left(script: Script) -> None:
    stream, innocent = opened(script), script.get("/b")
    script.reconnect()
    (packet, _) = script.sent()
    with pytest.raises(ConnectionLossError, match=NOT_SET_AGAIN):
        script.reply(packet.xid, err=-6)
    script.disconnect()
    assert stream.read() == []
    assert not innocent.is_done
    script.connect()
    script.serve()
    assert stream.read() == [R.RECONNECTED]
    assert innocent.error() is None


# --- the end of the session --------------------------------------------------------------------


def test_streams_continue_in_the_next_session(script: Script) -> None:
    stream = opened(script)
    script.expire()
    assert stream.read() == []
    script.reconnect(8)
    (packet,) = script.sent()
    assert packet.set_watches.persistent == ("/a",)
    assert stream.read() == []
    script.answer(packet)
    script.event(E.DELETED, "/a")
    assert stream.read() == [R.EXPIRED, (E.DELETED, "/a")]


def test_stream_that_is_opening_fails_with_the_session(script: Script) -> None:
    stream = Stream(script)
    script.reconnect(8)
    assert isinstance(stream.call.error(), SessionExpiredError)
    assert script.sent() == []
    assert_forgotten(script)


@pytest.mark.parametrize("error", [ClientClosedError, AuthFailedError])
def test_end_of_the_client_ends_every_stream_behind_its_unread_events(
    script: Script, error: type[Exception]
) -> None:
    streams = [opened(script), opened(script)]
    script.event(E.DELETED, "/a")
    if error is ClientClosedError:
        script.machine.closed()
    else:
        script.get("/a")
        (packet,) = script.sent()
        with pytest.raises(AuthFailedError):
            script.answer(packet, err=-115)
    for stream in streams:
        assert stream.read() == [(E.DELETED, "/a")]
        with pytest.raises(error):
            stream.slot.take()
    streams[0].close()


# --- the buffer --------------------------------------------------------------------------------


def test_slow_reader_gets_an_overflow_and_the_newest_event(script: Script) -> None:
    slow, quick = Stream(script, limit=3, recursive=True), Stream(script, recursive=True)
    script.serve()
    for n in range(5):
        script.event(E.CREATED, f"/a/{n}")
    assert slow.read() == [R.OVERFLOW, (E.CREATED, "/a/4")]
    assert len(quick.read()) == 5


def test_events_gaps_and_closing_wake_the_reader(script: Script) -> None:
    stream = opened(script)
    script.event(E.DATA_CHANGED, "/a")
    script.event(E.DATA_CHANGED, "/a")
    assert stream.news == 2
    script.reconnect()
    script.serve()
    assert stream.news == 3
    script.machine.closed()
    assert stream.news == 4


def test_stream_whose_opening_failed_can_be_opened_once_more(script: Script) -> None:
    stream = Stream(script, bound=True)
    script.sent()
    script.disconnect()
    assert isinstance(stream.call.error(), ConnectionLossError)
    assert_forgotten(script)
    script.connect()
    assert script.sent() == []
    stream.open()
    script.serve()
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]
