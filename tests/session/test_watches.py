"""One-shot watches: what arms and fires them; they outlive the connection, not the session."""

from __future__ import annotations

from itertools import product

import pytest
from session.script import NO_NODE, READS, Packet, Script, Watcher, connected

from aiolead._session.watches import CHUNK, WatchKind
from aiolead._wire.codes import XID_EVENT, XID_SET_WATCHES, OpCode, WatcherType
from aiolead._wire.jute import encode_reply
from aiolead._wire.replies import ReplyHeader, WatcherEvent
from aiolead._wire.requests import RemoveWatches
from aiolead.errors import ConnectionLossError, SessionExpiredError, UsageError
from aiolead.model import EventType, WatchEvent

E = EventType
DATA, CHILDREN = WatcherType.DATA, WatcherType.CHILDREN
ON_SERVER = {"get": DATA, "exists": DATA, "children": CHILDREN}
"""The kind of watch that the server keeps for a read."""


def armed(script: Script, read: str = "get", path: str = "/a", *, err: int = 0) -> Watcher:
    """A watch that its read has armed; the read's answer may be an error."""
    watcher = script.watch(read, path)
    script.answer(script.one(), err=err)
    return watcher


def arming(script: Script) -> tuple[Watcher, Packet]:
    """A watch whose read is under way."""
    return script.watch(), script.one()


def removals(script: Script) -> list[RemoveWatches]:
    """The watches that are removed from the server."""
    packets = script.serve()
    return [RemoveWatches.read(p.reader) for p in packets if p.op is OpCode.REMOVE_WATCHES]


# --- firing ------------------------------------------------------------------------------------

FIRED_BY = {
    ("get", 0): {E.DATA_CHANGED, E.DELETED, E.CREATED},
    ("exists", 0): {E.DATA_CHANGED, E.DELETED, E.CREATED},
    ("exists", NO_NODE): {E.CREATED, E.DATA_CHANGED, E.DELETED},
    ("children", 0): {E.CHILDREN_CHANGED, E.DELETED},
}


@pytest.mark.parametrize("number", [-1, 1, 2, 3, 4, 5, 6, 99])
@pytest.mark.parametrize(("read", "err"), FIRED_BY)
def test_events_fire_the_watches_of_their_kind_once(
    script: Script, read: str, err: int, number: int
) -> None:
    def event(path: str) -> None:
        script.feed(encode_reply(ReplyHeader(XID_EVENT, -1, 0), WatcherEvent(number, path)))

    watcher = armed(script, read, err=err)
    assert watcher.is_armed
    event("/b")
    assert watcher.events == []
    event("/a")
    if number in FIRED_BY[read, err]:
        assert watcher.events == [WatchEvent(EventType(number), "/a")]
        assert watcher.slot.event == watcher.events[0]
        assert not watcher.is_armed
        event("/a")
        assert len(watcher.events) == 1
    else:
        assert watcher.events == []
        assert watcher.is_armed


@pytest.mark.parametrize("read", ["get", "children"])
def test_failed_read_arms_nothing(script: Script, read: str) -> None:
    watcher = armed(script, read, err=NO_NODE)
    assert not watcher.is_armed
    watcher.close()
    script.event(E.CREATED, "/a")
    assert script.sent() == []
    assert len(script.machine.watches) == 0


def test_watches_of_a_path_fire_in_the_order_of_their_arming(script: Script) -> None:
    order: list[str] = []
    for name in "abc":
        watcher = armed(script)
        watcher.slot.on_event = lambda _, name=name: order.append(name)
    script.event(E.DATA_CHANGED, "/a")
    assert order == ["a", "b", "c"]


def test_watch_may_be_armed_again_from_its_own_event(script: Script) -> None:
    watcher = armed(script)
    watcher.slot.on_event = lambda _: script.get("/a", watcher.slot)
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.slot.event is None
    script.serve()
    assert watcher.is_armed


def test_event_before_the_answer_to_a_read_does_not_fire_its_watch(script: Script) -> None:
    old = armed(script)
    new, packet = arming(script)
    script.event(E.DATA_CHANGED, "/a")
    assert old.types == [E.DATA_CHANGED]
    script.answer(packet)
    assert new.types == []
    assert new.is_armed
    script.event(E.DELETED, "/a")
    assert new.types == [E.DELETED]


def test_event_has_the_path_that_the_caller_named(script: Script) -> None:
    watcher = Watcher(script)
    script.machine.watches.begin(watcher.slot, "/app/a", "/a", WatchKind.DATA).armed()
    script.event(E.DELETED, "/app/a")
    assert [event.path for event in watcher.events] == ["/a"]


# --- watches that join others --------------------------------------------------------------------


@pytest.mark.parametrize("is_of_data", [True, False])
def test_watch_joins_those_that_reads_of_the_data_have_armed(
    script: Script, is_of_data: bool
) -> None:
    first, second, watches = Watcher(script), Watcher(script), script.machine.watches
    watches.begin(first.slot, "/a", "/a", WatchKind.DATA, is_of_data=is_of_data).armed()

    assert watches.join_armed(second.slot, "/a", "/a") == is_of_data
    first.slot.close()
    assert script.ops() == ([] if is_of_data else [OpCode.REMOVE_WATCHES])
    script.event(E.DELETED, "/a")
    assert second.types == ([E.DELETED] if is_of_data else [])


def test_watch_joins_none_before_the_read_is_answered_nor_after_the_event(script: Script) -> None:
    first, second, watches = Watcher(script), Watcher(script), script.machine.watches
    read = watches.begin(first.slot, "/a", "/a", WatchKind.DATA, is_of_data=True)
    assert not watches.join_armed(second.slot, "/a", "/a")
    read.armed()
    script.event(E.DELETED, "/a")
    assert not watches.join_armed(second.slot, "/a", "/a")


# --- one watch for one purpose -----------------------------------------------------------------


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize(("read", "path"), [("get", "/b"), ("children", "/a")])
def test_busy_watch_is_refused_for_another_purpose(
    script: Script, read: str, path: str, answered: bool
) -> None:
    watcher, packet = arming(script)
    if answered:
        script.answer(packet)
    with pytest.raises(UsageError, match="the watch is on /a already"):
        getattr(script, read)(path, watcher.slot)
    assert watcher.slot.label == "/a"


def test_repeating_the_read_keeps_one_watch(script: Script) -> None:
    watcher = armed(script)
    script.get("/a", watcher.slot)
    script.exists("/a", watcher.slot)
    script.serve()
    assert len(script.machine.watches) == 1
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]


def test_watch_of_a_missing_znode_becomes_one_of_its_data(script: Script) -> None:
    watcher = armed(script, "exists", err=NO_NODE)
    assert watcher.slot.kind is WatchKind.EXIST
    script.exists("/a", watcher.slot)
    script.serve()
    assert watcher.slot.kind is WatchKind.DATA
    assert len(script.machine.watches) == 1


def test_closed_watch_cannot_be_armed(script: Script) -> None:
    watcher = Watcher(script)
    watcher.close()
    with pytest.raises(UsageError, match="the watch was closed"):
        script.get("/a", watcher.slot)
    assert script.sent() == []


# --- closing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), list(product(FIRED_BY, repeat=2)))
def test_closing_the_last_watch_of_a_kind_removes_it_from_the_server(
    script: Script, first: tuple[str, int], second: tuple[str, int]
) -> None:
    one, two = (armed(script, read, err=err) for read, err in (first, second))
    kinds = [ON_SERVER[read] for read, _ in (first, second)]
    one.close()
    one.close()
    assert removals(script) == ([] if kinds[0] is kinds[1] else [RemoveWatches("/a", kinds[0])])
    two.close()
    assert removals(script) == [RemoveWatches("/a", kinds[1])]
    script.event(E.DELETED, "/a")
    assert one.events == two.events == []


def test_watch_closed_while_it_is_armed_is_removed_after_the_answer(script: Script) -> None:
    watcher, packet = arming(script)
    watcher.close()
    assert script.sent() == []
    script.answer(packet)
    assert removals(script) == [RemoveWatches("/a", DATA)]
    assert len(script.machine.watches) == 0


@pytest.mark.parametrize("err", [0, NO_NODE])
def test_closed_watch_is_not_removed_while_another_is_armed(script: Script, err: int) -> None:
    one = armed(script)
    two, packet = arming(script)
    one.close()
    assert script.sent() == []
    script.answer(packet, err=err)
    # With NoNode, the server has no watch any more: the znode was deleted before.
    assert len(script.machine.watches) == (0 if err else 1)
    script.event(E.DELETED, "/a")
    assert two.types == ([] if err else [E.DELETED])
    assert script.sent() == []


def test_closing_after_the_event_sends_nothing(script: Script) -> None:
    watcher = armed(script)
    script.event(E.DELETED, "/a")
    watcher.close()
    assert script.sent() == []


def test_refused_removal_is_ignored(script: Script) -> None:
    armed(script).close()
    script.answer(script.one(), err=-121)
    assert script.machine.state.value == "connected"


def test_watch_closed_without_a_connection_is_not_re_armed(script: Script) -> None:
    kept, closed = armed(script, path="/kept"), armed(script, path="/closed")
    script.disconnect()
    closed.close()
    script.connect()
    assert script.one().set_watches.data == ("/kept",)
    assert kept.slot.path == "/kept"


def test_watch_closed_while_it_is_re_armed_is_removed_behind_that(script: Script) -> None:
    watcher = armed(script)
    script.reconnect()
    watcher.close()
    assert script.ops() == [OpCode.SET_WATCHES, OpCode.REMOVE_WATCHES]


def test_removal_ends_with_its_connection(script: Script) -> None:
    armed(script).close()
    script.reconnect()
    assert script.sent() == []


# --- over reconnects ---------------------------------------------------------------------------


def test_every_kind_is_re_armed_relative_to_the_last_zxid(script: Script) -> None:
    script.zxid = 0x500
    armed(script, "get", "/data")
    armed(script, "exists", "/there")
    armed(script, "exists", "/missing", err=NO_NODE)
    armed(script, "children", "/parent")
    fired = armed(script, "get", "/fired")
    script.event(E.DELETED, "/fired")
    assert fired.types == [E.DELETED]
    script.reconnect()
    (packet,) = script.sent()
    assert packet.xid == XID_SET_WATCHES
    request = packet.set_watches
    assert request.relative_zxid == 0x500
    assert request.data == ("/data", "/there")
    assert request.exist == ("/missing",)
    assert request.child == ("/parent",)


def test_watch_is_armed_only_while_the_server_has_it(script: Script) -> None:
    watcher = Watcher(script)
    assert not watcher.is_armed
    script.get("/a", watcher.slot)
    (packet,) = script.sent()
    assert not watcher.is_armed
    script.answer(packet)
    assert watcher.is_armed
    script.disconnect()
    assert not watcher.is_armed
    script.connect()
    assert not watcher.is_armed
    script.serve()
    assert watcher.is_armed
    script.event(E.DELETED, "/a")
    assert not watcher.is_armed


def test_change_during_the_gap_is_reported_while_re_arming(script: Script) -> None:
    watcher = armed(script)
    script.reconnect()
    (packet,) = script.sent()
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]
    script.answer(packet)
    script.event(E.DATA_CHANGED, "/a")
    assert watcher.types == [E.DATA_CHANGED]
    script.reconnect()
    assert script.sent() == []


def test_read_sent_again_after_a_lost_connection_arms_its_watch(script: Script) -> None:
    watcher = script.watch()
    call = watcher.call
    script.sent()
    script.reconnect()
    (packet,) = script.sent()
    assert packet.op is OpCode.GET_DATA
    assert packet.sets_watch
    script.answer(packet)
    assert call.result() == b"data"
    assert watcher.is_armed


def test_many_watches_are_re_armed_in_several_requests_below_the_limit(script: Script) -> None:
    paths = [f"/{'x' * 500}/{n:04}" for n in range(1000)]
    for path in paths:
        armed(script, path=path)
    script.reconnect()
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
    script = connected(max_request=max_request)
    paths = [f"/ä/{n:0200}" for n in range(2000)]
    for path in paths:
        armed(script, path=path)
    script.reconnect()
    packets = script.sent()
    assert all(len(packet.body) + 8 <= max_request for packet in packets)
    assert [path for packet in packets for path in packet.set_watches.data] == paths


# --- the end of the session --------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
def test_end_of_the_session_is_reported_to_each_watch(script: Script, read: str) -> None:
    watcher = armed(script, read)
    script.expire()
    assert watcher.types == [E.NONE]
    assert not watcher.is_armed
    script.connect(8)
    assert script.sent() == []
    script.event(E.DELETED, "/a")
    assert watcher.types == [E.NONE]


def test_watch_of_an_expired_session_can_be_armed_in_the_next(script: Script) -> None:
    watcher = armed(script)
    again = []
    watcher.slot.on_event = lambda _: again.append(script.children("/b", watcher.slot))
    script.reconnect(8)
    script.serve()
    assert again[0].result() == ["a", "b"]
    assert watcher.is_armed


def test_failed_read_of_an_expired_session_frees_its_watch(script: Script) -> None:
    watcher = script.watch()
    call = watcher.call
    script.reconnect(8)
    assert isinstance(call.error(), SessionExpiredError)
    assert watcher.types == []
    script.get("/other", watcher.slot)
    script.serve()
    assert watcher.is_armed


def test_arming_for_the_next_session_prevents_a_removal(script: Script) -> None:
    other, next_ = Watcher(script), Watcher(script)
    failed = script.get("/a", other.slot)
    failed.add_done_callback(lambda: script.get("/a", next_.slot))
    script.reconnect(8)  # `failed` fails, and its caller asks again
    (packet,) = script.sent()
    early = Watcher(script)
    script.machine.watches.begin(early.slot, "/a", "/a", WatchKind.DATA).armed()
    early.close()
    assert script.sent() == []
    script.answer(packet)
    assert next_.is_armed


def test_wait_that_ends_without_a_connection_frees_the_watch() -> None:
    script = Script()
    watcher = script.watch()
    call = watcher.call
    script.advance(8.0)
    assert isinstance(call.error(), ConnectionLossError)
    script.get("/b", watcher.slot)
