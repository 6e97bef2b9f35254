"""How a session ends, and what fails with it: refused credentials, expiry, closing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from session.script import START, Script, connected, outcome_of

from aiolead._session.requests import Call
from aiolead._wire.codes import OpCode
from aiolead.errors import (
    AuthFailedError,
    ClientClosedError,
    LossReason,
    Outcome,
    SessionExpiredError,
    SessionMovedError,
)
from aiolead.model import Auth, EventType
from aiolead.model import SessionState as S

# --- errors ------------------------------------------------------------------------------------


def test_refused_credentials_are_final() -> None:
    script = connected(auth=[Auth.digest("a", "secret"), Auth.digest("b", "secret")])
    calls = [script.get("/a"), script.write()]
    packets = script.sent()
    unsent = script.get("/b")
    with pytest.raises(AuthFailedError):
        script.answer(packets[0], err=-115)
    assert script.states == [(S.AUTH_FAILED, 7)]
    for call in [*calls, unsent, script.get("/later")]:
        assert isinstance(call.error(), AuthFailedError)
    script.disconnect()
    assert script.states == [(S.AUTH_FAILED, 7)]
    assert script.machine.next_deadline() == inf
    script.machine.closed()
    assert script.states == [(S.AUTH_FAILED, 7), (S.CLOSED, 7)]
    assert isinstance(script.get("/a").error(), ClientClosedError)


@pytest.mark.parametrize(("code", "kind"), [(-112, SessionExpiredError), (-118, SessionMovedError)])
def test_session_error_of_a_request_is_confirmed_by_the_next_handshake(
    script: Script, code: int, kind: type[Exception]
) -> None:
    call = script.get("/a")
    (packet,) = script.sent()
    with pytest.raises(kind):
        script.answer(packet, err=code)
    assert isinstance(call.error(), kind)
    script.disconnect()
    assert script.open().session_id == 7
    with pytest.raises(SessionExpiredError):
        script.greet(0, 0)
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]


@pytest.mark.parametrize("code", [-102, -101, -103, -4])
def test_other_errors_of_a_request_leave_the_session_connected(script: Script, code: int) -> None:
    call = script.get("/a")
    script.answer(script.one(), err=code)
    assert call.error() is not None
    assert script.machine.state is S.CONNECTED


# --- what ends with it -------------------------------------------------------------------------


def _refuse(code: int) -> Callable[[Script], None]:
    """The oldest request is refused for want of credentials."""

    def end(script: Script) -> None:
        oldest = script.machine.requests.oldest
        assert oldest is not None
        with pytest.raises(AuthFailedError):
            script.reply(oldest.xid, err=code)

    return end


UNKNOWN_AND_NOT_APPLIED = [Outcome.UNKNOWN, Outcome.NOT_APPLIED]


@pytest.mark.parametrize(
    ("end", "state", "reason", "error", "outcomes"),
    [
        (_refuse(-115), S.AUTH_FAILED, LossReason.EXPIRED, AuthFailedError, None),
        (_refuse(-124), S.AUTH_FAILED, LossReason.EXPIRED, AuthFailedError, None),
        (
            lambda script: script.machine.closed(),
            S.CLOSED, LossReason.CLOSED, ClientClosedError, UNKNOWN_AND_NOT_APPLIED,
        ),
        (
            lambda script: script.machine.give_up_session(),
            S.CONNECTING, LossReason.EXPIRED, SessionExpiredError, UNKNOWN_AND_NOT_APPLIED,
        ),
    ],
    ids=["auth failed", "needs login", "closed", "given up"],
)  # fmt: skip
def test_end_of_the_session_fails_requests_holds_and_watches(
    script: Script,
    end: Callable[[Script], None],
    state: S,
    reason: LossReason,
    error: type[Exception],
    outcomes: list[Outcome] | None,
) -> None:
    holder, watcher = script.hold(), script.watch("get", "/w")
    script.serve()
    sent = script.write()
    script.sent()
    calls = [sent, script.write()]
    end(script)
    states = list(script.states)
    assert states[-1][0] is state
    assert isinstance(sent.error(), error)
    assert isinstance(calls[1].error(), error)
    assert outcomes is None or [outcome_of(call) for call in calls] == outcomes
    assert holder.reasons == [reason]
    assert watcher.types == [EventType.NONE]
    if state.is_final:
        assert isinstance(script.get("/later").error(), error)
        script.disconnect()
        assert script.states == states
        script.machine.closed()
        assert script.states == (states if state is S.CLOSED else [*states, (S.CLOSED, 7)])


def test_session_that_every_server_refuses_is_given_up(script: Script) -> None:
    script.zxid = 0x500
    script.get("/a")
    script.serve()
    script.disconnect()
    waiting = script.write()
    script.machine.give_up_session()
    assert script.states[-2:] == [(S.EXPIRED, 7), (S.CONNECTING, 0)]
    assert isinstance(waiting.error(), SessionExpiredError)
    request = script.connect(9)
    # The servers know less than this client has seen, or they would not have refused.
    assert (request.session_id, request.last_zxid_seen) == (0, 0)


def test_call_made_because_of_the_end_belongs_to_the_next_session(script: Script) -> None:
    again: list[Call[object]] = []
    first = script.write()
    first.add_done_callback(lambda: again.append(script.get("/again")))
    script.reconnect(8)
    assert isinstance(first.error(), SessionExpiredError)
    script.serve()
    assert again[0].result() == b"data"


def test_call_made_while_the_expiry_is_reported_fails_with_it(script: Script) -> None:
    calls: list[Call[object]] = []
    script.on_state = lambda state: calls.append(script.write()) if state is S.EXPIRED else None
    script.reconnect(8)
    assert isinstance(calls[0].error(), SessionExpiredError)
    assert script.sent() == []


# --- closing -----------------------------------------------------------------------------------


def test_closing_sends_waiting_requests_and_then_closes_the_session(script: Script) -> None:
    last = script.write()
    goodbye = script.machine.close(script.now)
    packets = script.serve()
    assert [packet.op for packet in packets] == [OpCode.SET_DATA, OpCode.CLOSE_SESSION]
    assert last.is_done
    assert goodbye.is_done
    script.machine.closed()
    assert script.states[-1] == (S.CLOSED, 7)


def test_closed_client_ignores_a_late_answer_to_its_handshake() -> None:
    """As when the program is cancelled while it connects."""
    script = Script()
    script.open()
    script.machine.closed()
    script.greet()
    assert script.states == [(S.CLOSED, 0)]


def test_client_closes_without_a_connection(script: Script) -> None:
    script.disconnect()
    script.machine.closed()
    assert script.states[-1] == (S.CLOSED, 7)


# --- events prove nothing ----------------------------------------------------------------------


def proven(script: Script) -> float:
    return script.machine._lease_proof.proven_until - START


@pytest.mark.parametrize("type_", EventType)
def test_no_event_proves_the_session_before_or_after_re_arming(
    script: Script, type_: EventType
) -> None:
    script.watch()
    script.serve()
    script.now += 3.0
    script.event(type_, "/b")
    script.reconnect()
    (packet,) = script.sent()
    script.event(type_, "/b")
    assert proven(script) == 8.0
    script.answer(packet)
    script.get("/a")
    script.serve()
    script.event(type_, "/b")
    assert proven(script) == 8.0
    script.write()
    script.serve()
    assert proven(script) == 11.0


def test_contact_on_one_connection_proves_nothing_on_the_next(script: Script) -> None:
    script.write()
    script.serve()
    script.now += 3.0
    script.reconnect()
    script.get("/a")
    script.serve()
    assert proven(script) == 8.0
