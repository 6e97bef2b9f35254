"""Servers that are cut off from the quorum: what a session machine makes of them."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from session.script import PASSWORD, STAT, Script, Watcher

from aiolead._session.requests.call import UNPROVEN_WRITE, Call
from aiolead._session.watches.one_shot import WatchKind
from aiolead._wire.codes import REFUSED_READ_ONLY, OpCode
from aiolead._wire.framing import encode_record, encode_reply
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.replies import ReplyHeader, StatReply
from aiolead.errors import NotReadOnlyError, RemoteWireError, SessionExpiredError
from aiolead.model import Auth, EventType
from aiolead.model import SessionState as S


def cut_off(script: Script, session_id: int = 70, timeout: float = 8.0) -> ConnectRequest:
    """A read-only server takes the client."""
    request = script.open()
    response = ConnectResponse(round(timeout * 1000), session_id, PASSWORD, read_only=True)
    script.feed(encode_record(response))
    return request


def call(op: OpCode, **options: Any) -> Call[object]:
    return Call(op, b"", lambda _reader: None, path="/a", **options)


@pytest.fixture
def script() -> Script:
    return Script(read_only=True)


def test_only_who_may_be_served_by_one_says_so() -> None:
    assert Script(read_only=True).open().read_only
    assert not Script().open().read_only


def test_a_read_only_server_is_told_apart(script: Script) -> None:
    cut_off(script)
    assert script.states == [(S.READ_ONLY, 70)]
    assert script.machine.is_read_only


def test_a_session_of_the_ensemble_is_never_shown_to_one(script: Script) -> None:
    """What it says of our znodes, and of those before them in a line, might be undone."""
    script.connect(7)
    script.lose_link()
    request = script.open()
    assert (request.session_id, request.read_only) == (7, False)
    with pytest.raises(RemoteWireError, match="not asked for"):
        script.feed(encode_record(ConnectResponse(8000, 7, PASSWORD, read_only=True)))
    script.lose_link()
    assert script.machine.session_id == 7


def test_a_server_must_not_be_read_only_unasked() -> None:
    script = Script()
    with pytest.raises(RemoteWireError, match="not asked for"):
        cut_off(script)
    assert script.states == []


@pytest.mark.parametrize("op", sorted(REFUSED_READ_ONLY), ids=lambda op: op.name)
def test_writes_are_refused_and_not_sent(script: Script, op: OpCode) -> None:
    cut_off(script)
    refused = script.submit(call(op, kind=UNPROVEN_WRITE))
    assert isinstance(refused.error(), NotReadOnlyError)
    assert refused.error().path == "/a"  # type: ignore[union-attr]
    assert script.sent() == []


def test_reads_are_answered(script: Script) -> None:
    cut_off(script)
    read = script.submit(call(OpCode.EXISTS))
    assert script.ops() == [OpCode.EXISTS]
    assert not read.is_done


def test_writes_that_waited_for_a_server_are_refused_and_reads_are_sent(script: Script) -> None:
    write, read = script.submit(call(OpCode.SET_DATA, kind=UNPROVEN_WRITE)), call(OpCode.EXISTS)
    script.submit(read)
    cut_off(script)
    assert isinstance(write.error(), NotReadOnlyError)
    assert script.ops() == [OpCode.EXISTS]


def test_it_waits_for_the_credentials_there_as_well() -> None:
    script = Script(read_only=True, auth=(Auth.digest("u", "p"),))
    cut_off(script)
    assert script.states == []
    script.serve()
    assert script.states == [(S.READ_ONLY, 70)]


@pytest.mark.parametrize("authenticated", [True, False])
def test_what_it_made_up_is_over_with_the_link(authenticated: bool) -> None:
    script = Script(read_only=True, auth=() if authenticated else (Auth.digest("u", "p"),))
    cut_off(script)
    script.lose_link()
    assert script.states[-2:] == [(S.EXPIRED, 70), (S.CONNECTING, 0)]
    request = script.connect(8)
    assert (request.session_id, request.read_only) == (0, True)
    script.serve()
    assert script.states[-1] == (S.CONNECTED, 8)


def test_watches_there_are_told_of_the_end(script: Script) -> None:
    cut_off(script)
    watcher = Watcher(script)
    arming = script.machine.watches.begin(watcher.slot, "/a", "/a", WatchKind.DATA)
    script.submit(call(OpCode.EXISTS, arming=arming))
    script.sent()
    script.reply(1, StatReply(STAT))
    script.lose_link()
    assert watcher.types == [EventType.NONE]


def test_reads_go_on_with_the_next_server(script: Script) -> None:
    cut_off(script)
    read = script.submit(call(OpCode.EXISTS))
    script.sent()
    script.lose_link()
    assert not read.is_done
    script.connect(8)
    assert script.ops() == [OpCode.EXISTS]


def test_closing_ends_it_for_good(script: Script) -> None:
    cut_off(script)
    script.machine.closed()
    script.lose_link()
    assert script.machine.state is S.CLOSED


def test_it_proves_nothing_and_renews_nothing(script: Script) -> None:
    cut_off(script)
    machine = script.machine
    assert machine.leases.deadline == -inf
    machine.leases.hold(
        "/a",
        lambda _: lost.append(1),
        settled=None,
        urgent=True,
        resign_on_disconnect=False,
        now=script.now,
    )
    lost: list[int] = []
    machine.tick(script.now)
    assert lost == [1]
    assert script.sent() == []
    for _ in range(8):
        script.now += 1.0
        script.serve()
        assert machine.tick(script.now) is None  # pings are answered
    assert machine.leases.deadline == -inf


def test_nor_does_what_an_earlier_session_has_proven_count_there(script: Script) -> None:
    script.connect(7)
    assert script.machine.leases.deadline > script.now
    script.lose_link()
    script.machine.give_up_session()
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    cut_off(script)
    assert script.machine.leases.deadline == -inf


def test_it_cannot_be_resumed_elsewhere(script: Script) -> None:
    cut_off(script)
    assert script.machine.credentials is None


def test_a_closed_session_is_not_told_to_one(script: Script) -> None:
    script.connect(7)
    script.lose_link()
    goodbye = script.machine.close(script.now)
    script.machine.give_up_session()
    assert isinstance(goodbye.error(), SessionExpiredError)


def test_one_that_can_make_up_no_session_says_why(script: Script) -> None:
    """ZooKeeper 3.8, where local sessions are off: it answers the handshake with an error."""
    script.open()
    with pytest.raises(RemoteWireError, match=r"error -119 .* needs localSessionsEnabled"):
        script.feed(encode_reply(ReplyHeader(0, 7, NotReadOnlyError.code), None))
