"""Persistent watches: what the server is told, who hears of what, and what is told after a gap."""

from __future__ import annotations

import pytest
from session.script import NO_NODE, READS, Packet, Script, Watcher, children, exists, get

from aiolead._session.requests.call import READ, WATCH_CHANGE, Call
from aiolead._session.watches.persistent import StreamSlot, ancestors
from aiolead._session.watches.registry import CHUNK
from aiolead._wire.codes import XID_EVENT, XID_SET_WATCHES, AddWatchMode, OpCode, WatcherType
from aiolead._wire.framing import encode_body, encode_reply
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import AddWatch, RemoveWatches
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    ConnectionLossError,
    SessionExpiredError,
    UnimplementedError,
)
from aiolead.model import Auth, EventType, Missed, MissedReason, WatchEvent

E = EventType
R = MissedReason
EXACT, RECURSIVE = AddWatchMode.PERSISTENT, AddWatchMode.RECURSIVE


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
        body = encode_body(request)
        kind = WATCH_CHANGE if bound else READ
        call = Call(OpCode.ADD_WATCH, body, lambda r: r.i32(), arming=joining, kind=kind)
        self.call: Call[int] = self.script.submit(call)

    def _on_news(self) -> None:
        self.news += 1

    def close(self) -> None:
        self.script.machine.watches.leave(self.slot)

    def read(self) -> list[tuple[EventType, str] | MissedReason]:
        told: list[tuple[EventType, str] | MissedReason] = []
        while self.slot.events:
            item = self.slot.take()
            assert item is not None
            told.append(item.reason if isinstance(item, Missed) else (item.type, item.path))
        return told


def opened(script: Script, path: str = "/a", *, recursive: bool = False) -> Stream:
    stream = Stream(script, path, recursive=recursive)
    script.serve()
    assert stream.call.error() is None
    return stream


def told(packets: list[Packet]) -> list[object]:
    """What a server was told about watches, in order."""
    found: list[object] = []
    for packet in packets:
        match packet.op:
            case OpCode.ADD_WATCH:
                request = AddWatch.read(packet.reader)
                found.append((AddWatchMode(request.mode), request.path))
            case OpCode.REMOVE_WATCHES:
                removal = RemoveWatches.read(packet.reader)
                found.append(("remove", WatcherType(removal.type), removal.path))
            case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
                found.append(packet.set_watches)
            case OpCode.GET_DATA | OpCode.EXISTS | OpCode.GET_CHILDREN:
                found.append((packet.op, bytes(packet.body).endswith(b"\x01")))
            case _:
                found.append(packet.op)
    return found


def removal(path: str = "/a", type_: WatcherType = WatcherType.ANY) -> tuple[object, ...]:
    return ("remove", type_, path)


# --- who hears of what -------------------------------------------------------------------------

EVENTS = [
    (type_, path)
    for path in ("/", "/a", "/a/b", "/a/b/c", "/ab", "/x")
    for type_ in (E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED)
]


def test_a_stream_hears_of_its_path_alone(script: Script) -> None:
    stream = opened(script)
    for type_, path in EVENTS:
        script.event(type_, path)
    assert stream.read() == [event for event in EVENTS if event[1] == "/a"]
    assert stream.news == 4


@pytest.mark.parametrize(
    ("path", "seen"),
    [("/a", {"/a", "/a/b", "/a/b/c"}), ("/", {"/", "/a", "/a/b", "/a/b/c", "/ab", "/x"})],
)
def test_a_recursive_one_hears_of_everything_below_but_of_no_lists_of_children(
    script: Script, path: str, seen: set[str]
) -> None:
    stream = opened(script, path, recursive=True)
    for event in EVENTS:
        script.event(*event)
    assert stream.read() == [
        (type_, path) for type_, path in EVENTS if path in seen and type_ is not E.CHILDREN_CHANGED
    ]


def test_paths_above() -> None:
    assert list(ancestors("/a/b/c")) == ["/a/b", "/a", "/"]
    assert list(ancestors("/a")) == ["/"]
    assert list(ancestors("/")) == []


@pytest.mark.parametrize("path", ["/a" * 500_000, "/" * 1_000_000, "a" * 1_000_000])
def test_of_a_path_of_a_megabyte_only_what_may_be_watched_is_looked_at(path: str) -> None:
    assert len(list(ancestors(path, 4))) <= 5
    assert all(len(above) <= 4 for above in ancestors(path, 4))


def test_several_streams_hear_of_the_same_event(script: Script) -> None:
    streams = [opened(script), opened(script), opened(script, "/", recursive=True)]
    script.event(E.DELETED, "/a")
    assert [stream.read() for stream in streams] == [[(E.DELETED, "/a")]] * 3


def test_a_stream_hears_every_time(script: Script) -> None:
    stream = opened(script)
    for _ in range(3):
        script.event(E.CREATED, "/a")
        script.event(E.DELETED, "/a")
    assert len(stream.read()) == 6


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("recursive", [False, True])
def test_one_event_is_for_streams_and_one_shot_watches_alike(
    script: Script, read: str, recursive: bool
) -> None:
    stream = opened(script, recursive=recursive)
    watcher = Watcher(script)
    READS[read](script, "/a", watcher.slot)
    script.serve()
    script.event(E.DELETED, "/a")
    script.event(E.CREATED, "/a")
    assert watcher.types == [E.DELETED]
    assert stream.read() == [(E.DELETED, "/a"), (E.CREATED, "/a")]


def test_the_event_of_a_one_shot_watch_on_children_is_none_for_a_recursive_stream(
    script: Script,
) -> None:
    """A server sends it, since the watch below asked for it (ZOOKEEPER-4475)."""
    stream, watcher = opened(script, recursive=True), Watcher(script)
    children(script, "/a/b", watcher.slot)
    script.serve()
    script.event(E.CHILDREN_CHANGED, "/a/b")
    assert watcher.types == [E.CHILDREN_CHANGED]
    assert stream.read() == []


def test_an_event_says_the_path_as_the_stream_named_it(script: Script) -> None:
    inner = Stream(script, "/a", prefix="/app", recursive=True)
    root = StreamSlot("/app", "/app", recursive=True, limit=9, on_news=lambda: None)
    script.machine.watches.join(root)
    script.serve()
    script.event(E.CREATED, "/app/a/b")
    script.event(E.DELETED, "/app")
    assert inner.read() == [(E.CREATED, "/a/b")]
    assert root.take() == WatchEvent(E.CREATED, "/a/b")
    assert root.take() == WatchEvent(E.DELETED, "/")
    assert root.take() is None


@pytest.mark.parametrize("number", [-1, 5, 6, 7, 99])
def test_other_events_are_for_nobody(script: Script, number: int) -> None:
    """Removed watches are reported by Java's client to itself, by no server."""
    stream = opened(script)
    script.feed(encode_reply(ReplyHeader(XID_EVENT, -1, 0), WatcherEvent(number, "/a")))
    assert stream.read() == []


def test_an_event_carries_the_zxid_where_servers_tell_it(script: Script) -> None:
    stream = opened(script)
    script.feed(encode_reply(ReplyHeader(XID_EVENT, 77, 0), WatcherEvent(E.DELETED, "/a")))
    assert stream.slot.take() == WatchEvent(E.DELETED, "/a", 77)


def test_what_comes_before_the_answer_is_heard(script: Script) -> None:
    """Servers answer requests of one client and tell it of changes in several threads."""
    stream = Stream(script)
    (packet,) = script.sent()
    script.event(E.DATA_CHANGED, "/a")
    script.answer(packet)
    assert stream.read() == [(E.DATA_CHANGED, "/a")]


# --- one watch on the server -------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
def test_opening_sets_a_watch_and_closing_the_last_removes_it(
    script: Script, recursive: bool
) -> None:
    mode = RECURSIVE if recursive else EXACT
    one = Stream(script, recursive=recursive)
    assert not one.slot.is_set
    assert told(script.serve()) == [(mode, "/a")]
    assert one.slot.is_set
    two = opened(script, recursive=recursive)
    one.close()
    one.close()
    assert told(script.serve()) == []
    script.event(E.DELETED, "/a")
    assert (one.read(), two.read()) == ([], [(E.DELETED, "/a")])
    two.close()
    assert told(script.serve()) == [removal()]
    script.event(E.DELETED, "/a")
    assert two.read() == []
    assert len(script.machine.watches) == 0
    assert script.machine.watches.persistent.by_path == {}


def test_a_stream_that_is_closed_while_it_opens_is_removed_behind_that(script: Script) -> None:
    stream = Stream(script)
    (packet,) = script.sent()
    stream.close()
    assert script.sent() == []
    script.answer(packet)
    assert told(script.serve()) == [removal()]
    assert script.machine.watches.persistent.by_path == {}


def test_a_stream_that_is_closed_before_it_was_asked_for_is_not_asked_for(script: Script) -> None:
    stream = Stream(script)
    stream.close()
    assert script.sent() == []
    assert stream.call.is_done
    assert script.machine.watches.persistent.by_path == {}


def test_opening_again_before_the_removal_went_out_keeps_the_watch(script: Script) -> None:
    opened(script).close()
    stream = Stream(script)
    assert told(script.serve()) == [(EXACT, "/a")]
    stream.close()
    again = Stream(script)
    again.close()
    assert told(script.serve()) == [removal()]
    assert script.machine.watches.persistent.by_path == {}


def test_opening_again_after_the_removal_went_out_sets_it_again(script: Script) -> None:
    opened(script).close()
    (packet,) = script.sent()
    stream = Stream(script)
    script.answer(packet)
    assert told(script.serve()) == [(EXACT, "/a")]
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]


def test_a_refused_watch_is_none(script: Script) -> None:
    stream = Stream(script)
    (packet,) = script.sent()
    script.answer(packet, err=UnimplementedError.code)
    assert isinstance(stream.call.error(), UnimplementedError)
    script.serve()
    script.event(E.DELETED, "/a")
    assert stream.read() == []
    assert script.machine.watches.persistent.by_path == {}


def test_a_refused_removal_is_nobodys_business(script: Script) -> None:
    opened(script).close()
    (packet,) = script.sent()
    script.answer(packet, err=-121)
    assert script.machine.state.value == "connected"


# --- two kinds on one path ---------------------------------------------------------------------


def test_of_two_kinds_the_recursive_one_is_set(script: Script) -> None:
    """A server before 3.9 knows one watch for a path: the last that it was told of."""
    exact = Stream(script)
    deep = Stream(script, recursive=True)
    late = Stream(script)
    assert told(script.serve()) == [(EXACT, "/a"), (RECURSIVE, "/a"), (RECURSIVE, "/a")]
    deep.close()
    exact.close()
    assert told(script.serve()) == []
    late.close()
    assert told(script.serve()) == [removal()]


def test_beside_a_recursive_one_children_are_told_by_their_own_events(script: Script) -> None:
    exact, deep = opened(script), opened(script, recursive=True)
    for type_ in (E.CREATED, E.DATA_CHANGED, E.DELETED):
        script.event(type_, "/a/b")
    script.event(E.CREATED, "/a/b/c")
    assert exact.read() == [(E.CHILDREN_CHANGED, "/a")]
    script.event(E.CREATED, "/a/b")
    assert exact.read() == [(E.CHILDREN_CHANGED, "/a")]
    assert len(deep.read()) == 5


def test_so_are_those_of_the_root(script: Script) -> None:
    exact = opened(script, "/")
    opened(script, "/", recursive=True)
    script.event(E.CREATED, "/a")
    script.event(E.DELETED, "/")
    assert exact.read() == [(E.CHILDREN_CHANGED, "/"), (E.DELETED, "/")]


def test_without_one_their_events_say_nothing_about_it(script: Script) -> None:
    exact = opened(script)
    opened(script, "/", recursive=True)
    script.event(E.CREATED, "/a/b")
    assert exact.read() == []
    script.event(E.CHILDREN_CHANGED, "/a")
    assert exact.read() == [(E.CHILDREN_CHANGED, "/a")]


# --- beside one-shot watches -------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("read", READS)
def test_a_read_does_not_set_a_one_shot_watch_over_a_persistent_one(
    script: Script, read: str, recursive: bool
) -> None:
    """That would end it, on servers before 3.9 (ZOOKEEPER-4466)."""
    opened(script, recursive=recursive)
    opened(script, "/", recursive=True)
    watcher = Watcher(script)
    READS[read](script, "/a", watcher.slot)
    (packet,) = script.sent()
    # A recursive one does not report children, and is not ended by a watch for them.
    assert bytes(packet.body).endswith(b"\x01") is (recursive and read == "children")
    script.answer(packet)
    assert watcher.slot.is_armed
    watcher.slot.close()
    assert told(script.serve()) == []


@pytest.mark.parametrize("read", READS)
def test_a_read_below_a_recursive_one_does(script: Script, read: str) -> None:
    opened(script, recursive=True)
    READS[read](script, "/a/b", Watcher(script).slot)
    (packet,) = script.sent()
    assert bytes(packet.body).endswith(b"\x01")


def test_what_counts_is_the_order_on_the_wire(script: Script) -> None:
    before, after = Watcher(script), Watcher(script)
    get(script, "/a", before.slot)
    Stream(script)
    get(script, "/a", after.slot)
    assert told(script.serve()) == [
        (OpCode.GET_DATA, True),
        (EXACT, "/a"),
        (OpCode.GET_DATA, False),
    ]
    script.event(E.DATA_CHANGED, "/a")
    assert before.types == after.types == [E.DATA_CHANGED]


def test_a_watch_for_children_is_set_again_behind_a_recursive_one_that_ends_it(
    script: Script,
) -> None:
    watcher = Watcher(script)
    children(script, "/a", watcher.slot)
    get(script, "/a", Watcher(script).slot)
    script.serve()
    script.zxid = 0x700
    get(script, "/other")
    script.serve()
    Stream(script, recursive=True)
    deep, again = told(script.serve())
    assert deep == (RECURSIVE, "/a")
    assert (again.child, again.data, again.relative_zxid) == (("/a",), (), 0x700)  # type: ignore[attr-defined]


def test_also_if_it_was_on_its_way(script: Script) -> None:
    watcher = Watcher(script)
    children(script, "/a", watcher.slot)
    Stream(script, recursive=True)
    listing, deep, again = told(script.serve())
    assert listing == (OpCode.GET_CHILDREN, True)
    assert deep == (RECURSIVE, "/a")
    assert again.child == ("/a",)  # type: ignore[attr-defined]


def test_also_if_it_lived_on_one_that_was_not_recursive(script: Script) -> None:
    opened(script)
    watcher = Watcher(script)
    children(script, "/a", watcher.slot)
    assert told(script.serve()) == [(OpCode.GET_CHILDREN, False)]
    Stream(script, recursive=True)
    deep, again = told(script.serve())
    assert deep == (RECURSIVE, "/a")
    assert again.child == ("/a",)  # type: ignore[attr-defined]


def test_one_shot_watches_are_set_again_behind_the_removal_of_what_they_lived_on(
    script: Script,
) -> None:
    stream = opened(script)
    watchers = {read: Watcher(script) for read in READS}
    for read, watcher in watchers.items():
        READS[read](script, "/a", watcher.slot)
    missing = Watcher(script)
    exists(script, "/a", missing.slot)
    *packets, last = script.sent()
    for packet in packets:
        script.answer(packet)
    script.answer(last, err=NO_NODE)
    script.zxid = 0x900
    get(script, "/other")
    script.serve()
    stream.close()
    gone, again = told(script.serve())
    assert gone == removal()
    assert again.relative_zxid == 0x900  # type: ignore[attr-defined]
    assert (again.data, again.exist, again.child) == (("/a",),) * 3  # type: ignore[attr-defined]
    script.event(E.DATA_CHANGED, "/a")
    assert watchers["get"].types == watchers["exists"].types == [E.DATA_CHANGED]


def test_so_is_one_whose_read_was_on_its_way(script: Script) -> None:
    stream, watcher = opened(script), Watcher(script)
    get(script, "/a", watcher.slot)
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
    assert watcher.slot.is_armed


def test_a_server_that_does_not_set_them_again_is_left(script: Script) -> None:
    stream, watcher = opened(script), Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    stream.close()
    gone, again = script.sent()
    script.answer(gone)
    other = get(script, "/b")
    with pytest.raises(ConnectionLossError, match="does not set watches again"):
        script.answer(again, err=-5)
    script.lose_link()
    assert not other.is_done
    script.connect()
    (packet, read) = script.sent()
    assert packet.set_watches.data == ("/a",)
    assert read.op is OpCode.GET_DATA


def test_a_closed_one_shot_watch_removes_nothing_that_lasts(script: Script) -> None:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    stream = Stream(script)
    watcher.slot.close()
    assert told(script.serve()) == [(EXACT, "/a")]
    stream.close()
    assert told(script.serve()) == [removal()]


# --- over reconnects ---------------------------------------------------------------------------


def test_a_reconnect_sets_the_watches_again_and_says_so(script: Script) -> None:
    exact, deep = opened(script, "/e"), opened(script, "/d", recursive=True)
    script.event(E.CREATED, "/e")
    script.lose_link()
    assert exact.news == 1
    script.connect()
    (packet,) = script.sent()
    assert (packet.op, packet.xid) == (OpCode.SET_WATCHES2, XID_SET_WATCHES)
    assert packet.set_watches.persistent == ("/e",)
    assert packet.set_watches.recursive == ("/d",)
    assert exact.news == 1  # ... not before the server watches
    script.event(E.DATA_CHANGED, "/e")
    script.answer(packet)
    script.event(E.DELETED, "/e")
    assert exact.read() == [
        (E.CREATED, "/e"),
        (E.DATA_CHANGED, "/e"),
        R.RECONNECTED,
        (E.DELETED, "/e"),
    ]
    assert deep.read() == [R.RECONNECTED]


def test_a_link_that_is_lost_again_at_once_is_one_gap(script: Script) -> None:
    stream = opened(script)
    for _ in range(3):
        script.lose_link()
        script.connect()
        script.sent()
    assert stream.read() == []
    script.lose_link()
    script.connect()
    script.serve()
    assert stream.read() == [R.RECONNECTED]


def test_one_shot_watches_are_set_by_the_request_that_every_server_knows(script: Script) -> None:
    opened(script, "/e")
    get(script, "/data", Watcher(script).slot)
    children(script, "/child", Watcher(script).slot)
    script.serve()
    script.lose_link()
    script.connect()
    once, persistent = script.sent()
    assert once.op is OpCode.SET_WATCHES
    assert once.set_watches.data == ("/data",)
    assert once.set_watches.child == ("/child",)
    assert persistent.op is OpCode.SET_WATCHES2


def test_on_one_path_the_order_is_that_in_which_none_ends_another(script: Script) -> None:
    """One-shot ones are covered by persistent ones but for children, which go last."""
    exact, deep = opened(script), opened(script, recursive=True)
    for read in READS:
        READS[read](script, "/a", Watcher(script).slot)
    script.serve()
    script.lose_link()
    script.connect()
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


def test_a_closed_stream_is_not_set_again(script: Script) -> None:
    stream = opened(script)
    script.lose_link()
    stream.close()
    script.connect()
    assert script.sent() == []
    assert script.machine.watches.persistent.by_path == {}


def test_a_removal_that_was_not_sent_is_not_needed_on_the_next_connection(script: Script) -> None:
    opened(script).close()
    script.lose_link()
    script.connect()
    assert script.sent() == []
    assert script.machine.watches.persistent.by_path == {}


def test_a_stream_that_is_being_opened_is_asked_for_again(script: Script) -> None:
    stream = Stream(script)
    script.sent()
    script.lose_link()
    script.connect()
    assert told(script.serve()) == [(EXACT, "/a")]
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]  # and no gap: it had not begun


def test_a_stream_closed_while_it_is_asked_for_again_is_not(script: Script) -> None:
    stream = Stream(script)
    script.sent()
    script.lose_link()
    stream.close()
    script.connect()
    assert script.sent() == []
    assert script.machine.watches.persistent.by_path == {}


def test_a_read_that_is_sent_again_sets_what_is_needed_then(script: Script) -> None:
    stream, watcher = opened(script), Watcher(script)
    get(script, "/a", watcher.slot)
    assert told(script.sent()) == [(OpCode.GET_DATA, False)]
    script.lose_link()
    stream.close()
    script.connect()
    assert told(script.sent()) == [(OpCode.GET_DATA, True)]


def test_many_watches_are_set_again_in_several_requests_below_the_limit(script: Script) -> None:
    streams = [opened(script, f"/{'x' * 500}/{n:04}", recursive=n % 2 == 0) for n in range(600)]
    script.lose_link()
    script.connect()
    packets = script.sent()
    assert len(packets) == 3
    assert all(len(packet.body) <= CHUNK + 28 for packet in packets)
    assert sum(len(packet.set_watches.recursive) for packet in packets) == 300
    for packet in packets[:-1]:
        script.answer(packet)
    assert not any(stream.read() for stream in streams)
    script.answer(packets[-1])
    assert all(stream.read() == [R.RECONNECTED] for stream in streams)


def test_a_server_that_refuses_to_set_them_again_is_left(script: Script) -> None:
    stream, innocent = opened(script), get(script, "/b")
    script.lose_link()
    script.connect()
    (packet, _) = script.sent()
    with pytest.raises(ConnectionLossError, match="does not set watches again"):
        script.reply(packet.xid, err=-6)
    script.lose_link()
    assert stream.read() == []
    assert not innocent.is_done
    script.connect()
    script.serve()
    assert stream.read() == [R.RECONNECTED]
    assert innocent.error() is None


# --- the end of the session --------------------------------------------------------------------


def test_streams_go_on_in_the_next_session(script: Script) -> None:
    stream = opened(script)
    script.lose_link()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert stream.read() == []
    script.lose_link()
    script.connect(8)
    (packet,) = script.sent()
    assert packet.set_watches.persistent == ("/a",)
    assert stream.read() == []
    script.answer(packet)
    script.event(E.DELETED, "/a")
    assert stream.read() == [R.EXPIRED, (E.DELETED, "/a")]


def test_a_lost_link_after_an_expiry_does_not_hide_it(script: Script) -> None:
    stream = opened(script)
    script.lose_link()
    script.connect(8)
    script.lose_link()
    script.connect(8)
    script.serve()
    assert stream.read() == [R.EXPIRED]


def test_a_stream_that_was_being_opened_fails_with_the_session(script: Script) -> None:
    stream = Stream(script)
    script.lose_link()
    script.connect(8)
    assert isinstance(stream.call.error(), SessionExpiredError)
    assert script.sent() == []
    assert script.machine.watches.persistent.by_path == {}


def test_a_closed_client_ends_every_stream_behind_what_it_has_unread(script: Script) -> None:
    streams = [opened(script), opened(script)]
    script.event(E.DELETED, "/a")
    script.machine.closed()
    for stream in streams:
        assert stream.read() == [(E.DELETED, "/a")]
        with pytest.raises(ClientClosedError):
            stream.slot.take()
    streams[0].close()


def test_refused_credentials_end_every_stream() -> None:
    script = Script(auth=[Auth.digest("u", "p")])
    script.connect()
    for packet in script.sent():
        script.reply(packet.xid)
    stream = opened(script)
    script.lose_link()
    script.connect()
    (packet, *_) = script.sent()
    with pytest.raises(AuthFailedError):
        script.reply(packet.xid, err=-115)
    with pytest.raises(AuthFailedError):
        stream.slot.take()
    stream.close()


# --- the buffer --------------------------------------------------------------------------------


def test_a_reader_that_is_too_slow_is_told_so(script: Script) -> None:
    slow, quick = Stream(script, limit=3, recursive=True), Stream(script, recursive=True)
    script.serve()
    for n in range(5):
        script.event(E.CREATED, f"/a/{n}")
    assert slow.read() == [R.OVERFLOW, (E.CREATED, "/a/4")]
    assert len(quick.read()) == 5


def test_every_event_wakes_the_reader_and_so_does_a_gap(script: Script) -> None:
    stream = opened(script)
    script.event(E.DATA_CHANGED, "/a")
    script.event(E.DATA_CHANGED, "/a")
    assert stream.news == 2
    script.lose_link()
    script.connect()
    script.serve()
    assert stream.news == 3
    script.machine.closed()
    assert stream.news == 4


def test_a_stream_whose_opening_failed_can_be_opened_once_more(script: Script) -> None:
    stream = Stream(script, bound=True)
    script.sent()
    script.lose_link()
    assert isinstance(stream.call.error(), ConnectionLossError)
    assert script.machine.watches.persistent.by_path == {}
    script.connect()
    assert script.sent() == []
    stream.open()
    script.serve()
    script.event(E.DELETED, "/a")
    assert stream.read() == [(E.DELETED, "/a")]
