"""Watches: what arms them, what fires them, and that they survive the link but not the session."""

from __future__ import annotations

from itertools import product

import pytest
from session.script import NO_NODE, READS, Script, Watcher, children, exists, get

from aiolead._session.watches.one_shot import FIRES, WatchKind
from aiolead._session.watches.registry import CHUNK
from aiolead._wire.codes import XID_EVENT, XID_SET_WATCHES, OpCode, WatcherType
from aiolead._wire.framing import encode_reply
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import RemoveWatches
from aiolead.errors import ConnectionLossError, NoNodeError, SessionExpiredError, UsageError
from aiolead.model import EventType, WatchEvent

E = EventType


def armed(script: Script, read: str = "get", path: str = "/a", *, err: int = 0) -> Watcher:
    """A watch that its read has armed; the read's answer may be an error."""
    watcher = Watcher(script)
    READS[read](script, path, watcher.slot)
    (packet,) = script.sent()
    script.answer(packet, err=err)
    return watcher


def removals(script: Script) -> list[RemoveWatches]:
    packets = script.serve()
    return [RemoveWatches.read(p.reader) for p in packets if p.op is OpCode.REMOVE_WATCHES]


# --- firing ------------------------------------------------------------------------------------

FIRED_BY = {
    ("get", 0): {E.DATA_CHANGED, E.DELETED, E.CREATED},
    ("exists", 0): {E.DATA_CHANGED, E.DELETED, E.CREATED},
    ("exists", NO_NODE): {E.CREATED, E.DATA_CHANGED, E.DELETED},
    ("children", 0): {E.CHILDREN_CHANGED, E.DELETED},
}


@pytest.mark.parametrize("event", [E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED])
@pytest.mark.parametrize(("read", "err"), FIRED_BY)
def test_what_fires_which_watch(script: Script, read: str, err: int, event: EventType) -> None:
    watcher = armed(script, read, err=err)
    assert watcher.slot.is_armed
    script.event(event, "/b")
    assert watcher.events == []
    script.event(event, "/a")
    if event in FIRED_BY[read, err]:
        assert watcher.events == [WatchEvent(event, "/a")]
        assert watcher.slot.event == watcher.events[0]
        assert not watcher.slot.is_armed
        script.event(event, "/a")
        assert len(watcher.events) == 1
    else:
        assert watcher.events == []
        assert watcher.slot.is_armed


@pytest.mark.parametrize("number", [-1, 5, 6, 99])
def test_other_events_fire_nothing(script: Script, number: int) -> None:
    watcher = armed(script)
    script.feed(encode_reply(ReplyHeader(XID_EVENT, -1, 0), WatcherEvent(number, "/a")))
    assert watcher.events == []
    assert watcher.slot.is_armed


def test_every_event_of_a_change_is_in_the_table() -> None:
    assert set(FIRES) == {E.CREATED, E.DELETED, E.DATA_CHANGED, E.CHILDREN_CHANGED}


def test_a_read_that_fails_arms_nothing(script: Script) -> None:
    for read in ("get", "children"):
        watcher = armed(script, read, err=NO_NODE)
        assert not watcher.slot.is_armed
        watcher.slot.close()
    script.event(E.CREATED, "/a")
    assert script.sent() == []
    assert len(script.machine.watches) == 0


def test_all_watches_of_a_path_fire_on_one_event_in_the_order_of_their_arming(
    script: Script,
) -> None:
    order: list[str] = []
    for name in "abc":
        watcher = armed(script)
        watcher.slot.on_event = lambda _, name=name: order.append(name)
    script.event(E.DATA_CHANGED, "/a")
    assert order == ["a", "b", "c"]


def test_a_watch_may_be_armed_again_from_its_own_event(script: Script) -> None:
    watcher = armed(script)
    watcher.slot.on_event = lambda _: get(script, "/a", watcher.slot)
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.slot.event is None
    script.serve()
    assert watcher.slot.is_armed


def test_an_event_before_the_answer_to_the_read_is_not_for_its_watch(script: Script) -> None:
    old, new = armed(script), Watcher(script)
    get(script, "/a", new.slot)
    (packet,) = script.sent()
    script.event(E.DATA_CHANGED, "/a")
    assert old.types == [E.DATA_CHANGED]
    script.answer(packet)
    assert new.types == []
    assert new.slot.is_armed
    script.event(E.DELETED, "/a")
    assert new.types == [E.DELETED]


def test_an_event_says_the_path_as_the_watcher_named_it(script: Script) -> None:
    watcher = Watcher(script)
    script.machine.watches.begin(watcher.slot, "/app/a", "/a", WatchKind.DATA).armed()
    script.event(E.DELETED, "/app/a")
    assert [event.path for event in watcher.events] == ["/a"]


# --- one watch for one thing -------------------------------------------------------------------


def test_a_watch_is_used_again_after_its_event(script: Script) -> None:
    watcher = armed(script)
    script.event(E.DATA_CHANGED, "/a")
    children(script, "/other", watcher.slot)
    assert watcher.slot.event is None
    script.serve()
    script.event(E.CHILDREN_CHANGED, "/other")
    assert watcher.types == [E.DATA_CHANGED, E.CHILDREN_CHANGED]


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize(("read", "path"), [("get", "/b"), ("children", "/a")])
def test_a_busy_watch_is_not_for_something_else(
    script: Script, read: str, path: str, answered: bool
) -> None:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    if answered:
        script.serve()
    with pytest.raises(UsageError, match="the watch is on /a already"):
        READS[read](script, path, watcher.slot)
    assert watcher.slot.label == "/a"


def test_reading_the_same_again_keeps_one_watch(script: Script) -> None:
    watcher = armed(script)
    get(script, "/a", watcher.slot)
    exists(script, "/a", watcher.slot)
    script.serve()
    assert len(script.machine.watches) == 1
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]


def test_a_watch_moves_from_missing_to_there(script: Script) -> None:
    watcher = armed(script, "exists", err=NO_NODE)
    assert watcher.slot.kind is WatchKind.EXIST
    exists(script, "/a", watcher.slot)
    script.serve()
    assert watcher.slot.kind is WatchKind.DATA
    assert len(script.machine.watches) == 1


def test_a_closed_watch_cannot_be_armed(script: Script) -> None:
    watcher = Watcher(script)
    watcher.slot.close()
    with pytest.raises(UsageError, match="the watch was closed"):
        get(script, "/a", watcher.slot)
    assert script.sent() == []


# --- closing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "type_"),
    [
        ("get", WatcherType.DATA),
        ("exists", WatcherType.DATA),
        ("children", WatcherType.CHILDREN),
    ],
)
def test_closing_the_last_watch_removes_it_from_the_server(
    script: Script, read: str, type_: WatcherType
) -> None:
    watcher = armed(script, read)
    watcher.slot.close()
    watcher.slot.close()
    assert removals(script) == [RemoveWatches("/a", type_)]
    script.event(E.DELETED, "/a")
    assert watcher.events == []


@pytest.mark.parametrize(
    ("first", "second"), list(product(["get", "exists", "children"], repeat=2))
)
def test_closing_one_of_two_removes_it_only_if_the_other_is_of_another_kind(
    script: Script, first: str, second: str
) -> None:
    one, two = armed(script, first), armed(script, second)
    one.slot.close()
    shared = (first == "children") == (second == "children")
    assert len(removals(script)) == (0 if shared else 1)
    two.slot.close()
    assert len(removals(script)) == 1


def test_data_and_exist_watches_are_one_to_the_server(script: Script) -> None:
    one = armed(script, "exists", err=NO_NODE)
    two = armed(script, "get")
    one.slot.close()
    assert removals(script) == []
    two.slot.close()
    assert removals(script) == [RemoveWatches("/a", WatcherType.DATA)]


def test_a_watch_closed_while_it_is_being_armed_is_removed_after_that(script: Script) -> None:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    (packet,) = script.sent()
    watcher.slot.close()
    assert script.sent() == []
    script.answer(packet)
    assert removals(script) == [RemoveWatches("/a", WatcherType.DATA)]
    assert len(script.machine.watches) == 0


def test_nothing_is_removed_while_somebody_else_is_about_to_watch_the_same(
    script: Script,
) -> None:
    one, two = armed(script), Watcher(script)
    get(script, "/a", two.slot)
    (packet,) = script.sent()
    one.slot.close()
    assert script.sent() == []
    script.answer(packet)
    script.event(E.DELETED, "/a")
    assert two.types == [E.DELETED]
    assert script.sent() == []


def test_nor_if_that_read_then_fails(script: Script) -> None:
    one, two = armed(script), Watcher(script)
    get(script, "/a", two.slot)
    (packet,) = script.sent()
    one.slot.close()
    script.answer(packet, err=NO_NODE)
    # The server has no watch of ours any more: what failed with NoNode was deleted before.
    assert script.sent() == []
    assert len(script.machine.watches) == 0


def test_closing_after_the_event_asks_the_server_nothing(script: Script) -> None:
    watcher = armed(script)
    script.event(E.DELETED, "/a")
    watcher.slot.close()
    assert script.sent() == []


def test_a_refused_removal_is_nobodys_business(script: Script) -> None:
    armed(script).slot.close()
    (packet,) = script.sent()
    script.answer(packet, err=-121)
    assert script.machine.state.value == "connected"


def test_closing_while_the_link_is_down_just_is_not_armed_again(script: Script) -> None:
    kept, closed = armed(script, path="/kept"), armed(script, path="/closed")
    script.lose_link()
    closed.slot.close()
    script.connect()
    (packet,) = script.sent()
    assert packet.set_watches.data == ("/kept",)
    assert kept.slot.path == "/kept"


def test_closing_while_watches_are_being_re_armed_removes_it_behind_them(script: Script) -> None:
    watcher = armed(script)
    script.lose_link()
    script.connect()
    watcher.slot.close()
    assert script.ops() == [OpCode.SET_WATCHES, OpCode.REMOVE_WATCHES]


def test_a_removal_does_not_outlive_its_connection(script: Script) -> None:
    armed(script).slot.close()
    script.lose_link()
    script.connect()
    assert script.sent() == []


# --- over reconnects ---------------------------------------------------------------------------


def test_every_kind_is_re_armed_relative_to_what_was_seen(script: Script) -> None:
    script.zxid = 0x500
    armed(script, "get", "/data")
    armed(script, "exists", "/there")
    armed(script, "exists", "/missing", err=NO_NODE)
    armed(script, "children", "/parent")
    fired = armed(script, "get", "/fired")
    script.event(E.DELETED, "/fired")
    assert fired.types == [E.DELETED]
    script.lose_link()
    script.connect()
    (packet,) = script.sent()
    assert packet.xid == XID_SET_WATCHES
    request = packet.set_watches
    assert request.relative_zxid == 0x500
    assert request.data == ("/data", "/there")
    assert request.exist == ("/missing",)
    assert request.child == ("/parent",)


def test_is_armed_only_while_the_server_knows_of_it(script: Script) -> None:
    watcher = Watcher(script)
    assert not watcher.slot.is_armed
    get(script, "/a", watcher.slot)
    (packet,) = script.sent()
    assert not watcher.slot.is_armed
    script.answer(packet)
    assert watcher.slot.is_armed
    script.lose_link()
    assert not watcher.slot.is_armed
    script.connect()
    assert not watcher.slot.is_armed
    script.serve()
    assert watcher.slot.is_armed
    script.event(E.DELETED, "/a")
    assert not watcher.slot.is_armed


def test_what_happened_meanwhile_is_reported_while_re_arming(script: Script) -> None:
    watcher = armed(script)
    script.lose_link()
    script.connect()
    (packet,) = script.sent()
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]
    script.answer(packet)
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]


def test_a_watch_that_fired_meanwhile_is_not_re_armed_again(script: Script) -> None:
    armed(script)
    script.lose_link()
    script.connect()
    script.event(E.DATA_CHANGED, "/a")
    script.lose_link()
    script.connect()
    assert script.sent() == []


def test_a_read_under_way_when_the_link_is_lost_arms_its_watch_on_the_next(script: Script) -> None:
    watcher = Watcher(script)
    call = get(script, "/a", watcher.slot)
    script.sent()
    script.lose_link()
    script.connect()
    (packet,) = script.sent()
    assert packet.op is OpCode.GET_DATA
    assert bytes(packet.body).endswith(b"\x01")
    script.answer(packet)
    assert call.result() == b"data"
    assert watcher.slot.is_armed


def test_many_watches_are_re_armed_in_several_requests_below_the_limit(script: Script) -> None:
    paths = [f"/{'x' * 500}/{n:04}" for n in range(1000)]
    for path in paths:
        armed(script, path=path)
    script.lose_link()
    script.connect()
    packets = script.sent()
    assert len(packets) == -(-1000 * (len(paths[0]) + 4) // CHUNK)
    assert all(len(packet.body) <= CHUNK + 20 for packet in packets)
    assert [path for packet in packets for path in packet.set_watches.data] == paths
    for packet in packets[:-1]:
        script.answer(packet)
    assert not script.machine.watches.is_live
    script.answer(packets[-1])
    assert script.machine.watches.is_live


@pytest.mark.parametrize("max_request", [1024, 4096, 0xFFFFF])
def test_re_arming_respects_a_lower_limit_of_the_servers(max_request: int) -> None:
    script = Script(max_request=max_request)
    script.connect()
    paths = [f"/ä/{n:0200}" for n in range(2000)]
    for path in paths:
        armed(script, path=path)
    script.lose_link()
    script.connect()
    packets = script.sent()
    assert all(len(packet.body) + 8 <= max_request for packet in packets)
    assert [path for packet in packets for path in packet.set_watches.data] == paths


# --- the end of the session --------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
def test_the_end_of_the_session_is_reported_to_each_watch(script: Script, read: str) -> None:
    watcher = armed(script, read)
    script.lose_link()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert watcher.types == [E.NONE]
    assert not watcher.slot.is_armed
    script.connect(8)
    assert script.sent() == []
    script.event(E.DELETED, "/a")
    assert watcher.types == [E.NONE]


def test_a_watch_of_a_dead_session_can_be_armed_in_the_next(script: Script) -> None:
    watcher = armed(script)
    again = []
    watcher.slot.on_event = lambda _: again.append(children(script, "/b", watcher.slot))
    script.lose_link()
    script.connect(8)
    script.serve()
    assert again[0].result() == ["a", "b"]
    assert watcher.slot.is_armed


def test_a_read_that_would_have_armed_fails_with_the_session(script: Script) -> None:
    watcher = Watcher(script)
    call = get(script, "/a", watcher.slot)
    script.lose_link()
    script.connect(8)
    assert isinstance(call.error(), SessionExpiredError)
    assert watcher.types == []
    get(script, "/other", watcher.slot)  # it is free again
    script.serve()
    assert watcher.slot.is_armed


def test_what_is_armed_for_the_next_session_is_still_guarded_from_removal(script: Script) -> None:
    other, next_ = Watcher(script), Watcher(script)
    failed = get(script, "/a", other.slot)
    failed.add_done_callback(lambda: get(script, "/a", next_.slot))
    script.lose_link()
    script.connect(8)  # `failed` fails, and its caller asks again
    (packet,) = script.sent()
    early = Watcher(script)
    script.machine.watches.begin(early.slot, "/a", "/a", WatchKind.DATA).armed()
    early.slot.close()
    assert script.sent() == []
    script.answer(packet)
    assert next_.slot.is_armed


def test_waiting_too_long_for_a_link_frees_the_watch() -> None:
    script = Script()
    watcher = Watcher(script)
    call = get(script, "/a", watcher.slot)
    script.advance(8.0)
    assert isinstance(call.error(), ConnectionLossError)
    get(script, "/b", watcher.slot)


def test_an_error_on_a_znode_that_is_missing_is_the_readers(script: Script) -> None:
    watcher = Watcher(script)
    call = get(script, "/a", watcher.slot)
    (packet,) = script.sent()
    script.answer(packet, err=NO_NODE)
    assert isinstance(call.error(), NoNodeError)
