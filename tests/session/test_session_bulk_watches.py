"""Several watches that one request arms."""

from __future__ import annotations

import pytest
from session.script import Packet, Script, Watcher, get

from aiolead._session.requests.call import Call
from aiolead._session.watches.arming import BulkArming
from aiolead._session.watches.one_shot import WatchKind
from aiolead._session.watches.persistent import StreamSlot
from aiolead._wire.codes import XID_SET_WATCHES, OpCode
from aiolead._wire.framing import encode_body
from aiolead._wire.requests import RemoveWatches
from aiolead.errors import SessionExpiredError
from aiolead.model import EventType

E = EventType
SINCE = 5


def arm(script: Script, *paths: str) -> tuple[Call[None], list[Watcher]]:
    """Asks for a watch on each path."""
    watches = script.machine.watches
    watchers = [Watcher(script) for _ in paths]
    for watcher, path in zip(watchers, paths, strict=True):
        watches.reserve(watcher.slot, path, path, WatchKind.DATA)
    slots = [watcher.slot for watcher in watchers]
    bulk = BulkArming(watches, list(zip(slots, paths, strict=True)), SINCE)
    call: Call[None] = Call(OpCode.SET_WATCHES, bulk.body, lambda _: None, arming=bulk)
    return script.submit(call), watchers


def sent(script: Script) -> Packet:
    (packet,) = script.sent()
    assert packet.op is OpCode.SET_WATCHES
    assert packet.xid > 0  # not one of the machine's own
    return packet


def removed(script: Script) -> list[str]:
    packets = script.serve()
    return [RemoveWatches.read(p.reader).path for p in packets if p.op is OpCode.REMOVE_WATCHES]


def test_one_request_arms_them_all(script: Script) -> None:
    call, (a, b) = arm(script, "/a", "/b")
    packet = sent(script)
    request = packet.set_watches
    assert (request.relative_zxid, request.data) == (SINCE, ("/a", "/b"))
    assert (request.exist, request.child) == ((), ())
    # Nobody has said yet that the server watches.
    assert [a.slot.is_armed, b.slot.is_armed] == [False, False]
    script.answer(packet)
    assert call.is_done
    assert a.slot.is_armed
    assert b.slot.is_armed
    script.event(E.DELETED, "/b")
    assert (a.types, b.types) == ([], [E.DELETED])
    assert a.slot.is_armed
    assert not b.slot.is_armed


def test_what_has_happened_before_is_told_before_the_answer(script: Script) -> None:
    _, (a, b) = arm(script, "/a", "/b")
    packet = sent(script)
    script.event(E.DELETED, "/a")
    assert a.types == [E.DELETED]
    script.answer(packet)
    assert not a.slot.is_armed
    assert b.slot.is_armed
    script.event(E.DELETED, "/a")
    assert a.types == [E.DELETED]
    assert len(script.machine.watches) == 1


def test_before_it_is_sent_no_event_is_for_them(script: Script) -> None:
    old = Watcher(script)
    get(script, "/a", old.slot)
    script.serve()
    _, (new,) = arm(script, "/a")
    script.event(E.DATA_CHANGED, "/a")
    assert (old.types, new.types) == ([E.DATA_CHANGED], [])


def test_a_lost_link_sets_them_and_asks_again(script: Script) -> None:
    call, (a, b) = arm(script, "/a", "/b")
    sent(script)
    script.event(E.DELETED, "/a")
    script.lose_link()
    assert not call.is_done
    script.connect(script.machine.session_id)
    again, asked = script.sent()
    assert again.xid == XID_SET_WATCHES
    assert again.set_watches.data == ("/b",)
    assert asked.xid > 0
    # What has fired is not watched for once more; what has not, by what it was since at first.
    assert (asked.set_watches.relative_zxid, asked.set_watches.data) == (SINCE, ("/b",))
    script.answer(again)
    assert not b.slot.is_armed
    script.answer(asked)
    assert call.is_done
    assert b.slot.is_armed
    assert not a.slot.is_armed


def test_those_closed_meanwhile_are_taken_back(script: Script) -> None:
    """Before it was sent, they are left out; after that, the server is told."""
    _, (a, b, c) = arm(script, "/a", "/b", "/c")
    a.slot.close()
    packet = sent(script)
    assert packet.set_watches.data == ("/b", "/c")
    b.slot.close()
    assert script.sent() == []
    script.answer(packet)
    assert "/b" in removed(script)
    script.event(E.DELETED, "/a")
    script.event(E.DELETED, "/b")
    script.event(E.DELETED, "/c")
    assert (a.types, b.types, c.types) == ([], [], [E.DELETED])


def test_while_one_is_unanswered_another_on_its_path_may_go(script: Script) -> None:
    other = Watcher(script)
    get(script, "/a", other.slot)
    script.serve()
    _, (a,) = arm(script, "/a")
    packet = sent(script)
    other.slot.close()
    script.answer(packet)
    assert removed(script) == []
    script.event(E.DELETED, "/a")
    assert a.types == [E.DELETED]


def test_a_refusal_arms_nothing(script: Script) -> None:
    call, (a, b) = arm(script, "/a", "/b")
    packet = sent(script)
    script.event(E.DELETED, "/b")
    script.answer(packet, err=-6)
    assert call.error() is not None
    assert not a.slot.is_armed
    assert len(script.machine.watches) == 0
    # They may be used again.
    get(script, "/a", a.slot)
    script.serve()
    assert a.slot.is_armed
    get(script, "/c", b.slot)


def test_the_end_of_the_session_fails_it(script: Script) -> None:
    call, (a,) = arm(script, "/a")
    sent(script)
    script.lose_link()
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(0, timeout=0)
    assert isinstance(call.error(), SessionExpiredError)
    assert a.types == []
    assert len(script.machine.watches) == 0


def test_under_a_persistent_watch_they_live_on_its_events(script: Script) -> None:
    """An older server would end that one for a one-shot watch on its path; see `persistent`."""
    watches = script.machine.watches
    stream = StreamSlot("/a", "", recursive=False, limit=10, on_news=lambda: None)
    request, joining = watches.join(stream)
    script.submit(Call(OpCode.ADD_WATCH, encode_body(request), lambda _: None, arming=joining))
    script.serve()
    _, (a, b) = arm(script, "/a", "/b")
    packet = sent(script)
    assert packet.set_watches.data == ("/b",)
    script.answer(packet)
    assert a.slot.is_armed
    script.event(E.DELETED, "/a")
    assert a.types == [E.DELETED]
    # When it goes, those that are left are set again.
    assert b.slot.is_armed
