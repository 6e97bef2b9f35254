"""Going on with a session that another client had: what a session machine makes of it."""

from __future__ import annotations

import pytest
from session.script import PASSWORD, Script, get

from aiolead._session.requests.call import WRITE, Call
from aiolead._session.requests.request_queue import MAX_XID
from aiolead._wire.codes import OpCode
from aiolead._wire.framing import encode_body
from aiolead._wire.requests import Check, Multi
from aiolead.errors import Outcome, SessionExpiredError
from aiolead.model import SessionCredentials
from aiolead.model import SessionState as S

GIVEN = SessionCredentials(7, PASSWORD, timeout=4.0, last_zxid=0x55)


def resuming() -> Script:
    return Script(resume=GIVEN)


def test_the_password_never_shows() -> None:
    assert "sixteen" not in repr(GIVEN)
    assert "0x" not in str(GIVEN)
    assert SessionCredentials(7, PASSWORD, 4.0, 0x55) == GIVEN


def test_it_asks_for_that_session_and_for_what_was_seen_in_it() -> None:
    script = resuming()
    request = script.connect(7)
    assert (request.session_id, request.password) == (7, PASSWORD)
    assert request.last_zxid_seen == 0x55
    assert request.timeout_ms == 8000
    assert script.states == [(S.CONNECTED, 7)]


def test_its_requests_are_numbered_from_where_its_owner_says() -> None:
    """What is under way for the client that had the session has other numbers."""
    script = Script(resume=GIVEN, first_xid=MAX_XID - 1)
    script.connect(7)
    assert script.machine.requests.sent == 0
    for _ in range(3):
        get(script, "/a")
    assert [packet.xid for packet in script.serve()] == [MAX_XID - 1, MAX_XID, 1]
    assert script.machine.requests.sent == 3
    assert script.machine.requests.is_idle


def test_what_comes_out_is_what_goes_in() -> None:
    script = resuming()
    script.connect(7)
    assert script.machine.credentials == GIVEN


def test_what_the_session_was_granted_before_still_rules() -> None:
    """A new leader ends sessions by the timeout that they began with."""
    script = resuming()
    script.connect(7, timeout=8.0)
    assert script.machine.timing.session_timeout == 4.0
    script = Script(resume=SessionCredentials(7, PASSWORD, timeout=20.0))
    script.connect(7, timeout=8.0)
    assert script.machine.timing.session_timeout == 8.0


def test_the_next_session_has_its_own_timeout() -> None:
    script = resuming()
    script.connect(7, timeout=8.0)
    script.lose_link()
    script.connect(9, timeout=8.0)
    assert script.machine.timing.session_timeout == 8.0


def test_to_resume_proves_nothing_but_with_a_write_after_it() -> None:
    """The leader was touched before the answer; whether it is the leader, only a write shows."""
    script = resuming()
    asked_at = script.now
    script.connect(7, after=0.5)
    assert script.machine.leases.deadline < script.now
    body = encode_body(Multi((Check("/a", -1),)))
    script.submit(Call(OpCode.MULTI, body, lambda _: None, kind=WRITE))
    script.serve()
    margin = script.machine.timing.margin
    assert script.machine.leases.deadline == pytest.approx(asked_at + 4.0 - margin)


@pytest.mark.parametrize("answer", ["over", "another one"])
def test_a_session_that_is_over_is_not_replaced(answer: str) -> None:
    script = resuming()
    waiting = script.submit(Call(OpCode.EXISTS, b"", lambda _: None))
    script.open()
    with pytest.raises(SessionExpiredError):
        script.greet(*((0, 0.0) if answer == "over" else (8, 8.0)))
    script.lose_link()
    assert script.states == [(S.EXPIRED, 7), (S.CLOSED, 7)]
    assert isinstance(waiting.error(), SessionExpiredError)
    assert waiting.error().outcome is Outcome.NOT_APPLIED  # type: ignore[union-attr]
    late = script.submit(Call(OpCode.EXISTS, b"", lambda _: None))
    assert isinstance(late.error(), SessionExpiredError)
    script.machine.closed()
    assert script.states[-1] == (S.CLOSED, 7)


def test_once_resumed_it_is_like_any_other() -> None:
    script = resuming()
    script.connect(7)
    script.lose_link()
    script.connect(9)
    assert script.states[-3:] == [(S.EXPIRED, 7), (S.CONNECTING, 0), (S.CONNECTED, 9)]


def test_servers_that_hang_up_have_the_session_timeout_to_think_again() -> None:
    """Nobody here knows when the session was last heard of: it counts from the first attempt."""
    script = resuming()
    script.open()
    assert script.machine.last_contact == script.now
    script.lose_link()
    script.machine.give_up_session()
    assert script.states == [(S.EXPIRED, 7), (S.CLOSED, 7)]
