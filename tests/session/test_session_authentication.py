"""The session machine logs in: the SASL exchange, credentials, and those added at run time."""

from __future__ import annotations

from typing import Any

import pytest
from session.script import PASSWORD, Script, Watcher, get

from aiolead._session.requests.call import Call
from aiolead._wire.codes import XID_AUTH, XID_SASL, OpCode
from aiolead._wire.framing import encode_body, encode_reply
from aiolead._wire.replies import ReplyHeader, TokenReply
from aiolead._wire.requests import AuthPacket, Sasl
from aiolead.errors import (
    AuthFailedError,
    ConnectionLossError,
    LocalWireError,
    Outcome,
    RemoteWireError,
)
from aiolead.model import Auth, SessionState

S = SessionState
ANN, BOB = Auth.digest("ann", "secret"), Auth.digest("bob", "secret")
AUTH_FAILED, NEEDS_LOGIN, UNIMPLEMENTED = -115, -124, -6


class SaslScript(Script):
    """A machine with a SASL login; what its owner is asked is in `challenges`."""

    def __init__(self, **options: Any) -> None:
        self.challenges: list[bytes] = []
        super().__init__(on_challenge=self.challenges.append, **options)

    def give(self, token: bytes | None, *, is_last: bool = False) -> None:
        self.machine.login.answer(token, self.now, is_last=is_last)

    def token(self, token: bytes = b"", *, xid: int = XID_SASL, err: int = 0) -> None:
        """The server's next one."""
        body = None if err else TokenReply(token)
        self.machine.receive(encode_reply(ReplyHeader(xid, 0, err), body), self.now)

    def log_in(self) -> None:
        self.give(b"mine", is_last=True)
        assert [packet.op for packet in self.sent()] == [OpCode.SASL]
        self.token()


def added(script: Script, auth: Auth) -> Call[None]:
    body = encode_body(AuthPacket(auth.scheme, auth.credential))
    call: Call[None] = Call(OpCode.AUTH, body, lambda _: None)
    script.machine.check_size(call)
    script.machine.login.add(auth, call, script.now)
    return call


def acknowledge(script: Script, err: int = 0) -> None:
    script.machine.receive(encode_reply(ReplyHeader(XID_AUTH, 0, err)), script.now)


def shown(script: Script) -> list[Auth]:
    """The credentials that were just sent."""
    found = []
    for packet in script.sent():
        assert (packet.xid, packet.op) == (XID_AUTH, OpCode.AUTH)
        said = AuthPacket.read(packet.reader)
        found.append(Auth(said.scheme, said.credential))
    return found


# --- SASL --------------------------------------------------------------------------------------


def test_the_login_comes_before_everything_else() -> None:
    script = SaslScript(auth=[ANN])
    call = get(script, "/a")
    script.open()
    assert script.challenges == []
    script.greet()
    assert script.challenges == [b""]
    assert script.sent() == [], "nothing is said before the first token is made"

    script.give(b"one")
    (packet,) = script.sent()
    assert (packet.xid, packet.op) == (XID_SASL, OpCode.SASL)
    assert Sasl.read(packet.reader).token == b"one"
    script.token(b"two")
    assert script.challenges == [b"", b"two"]
    assert script.sent() == []
    script.give(b"three", is_last=True)
    assert [Sasl.read(packet.reader).token for packet in script.sent()] == [b"three"]
    assert script.states == []
    script.token()
    assert script.challenges == [b"", b"two"], "the last word of the server needs no answer"
    assert [packet.op for packet in script.sent()] == [OpCode.AUTH, OpCode.GET_DATA]
    acknowledge(script)
    assert script.states == [(S.CONNECTED, 7)]
    assert not call.is_done


def test_a_login_that_ends_with_the_servers_word() -> None:
    """As in DIGEST-MD5: the client is content, and has nothing to send."""
    script = SaslScript()
    script.open()
    script.greet()
    script.give(b"one")
    script.sent()
    script.token(b"proof")
    assert script.states == []
    script.give(None, is_last=True)
    assert script.states == [(S.CONNECTED, 7)]


def test_the_login_is_repeated_on_every_connection() -> None:
    script = SaslScript()
    script.open()
    script.greet()
    script.log_in()
    script.lose_link()
    script.open()
    script.greet()
    assert script.challenges == [b"", b""]
    assert script.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7)]
    script.log_in()
    assert script.states[-1] == (S.CONNECTED, 7)


def test_no_ping_and_no_renewal_is_sent_during_the_login() -> None:
    """Servers that require SASL close the connection on any other request."""
    script = SaslScript()
    script.open()
    script.greet()
    script.now += 7
    assert script.machine.tick(script.now) is None
    assert script.sent() == []


@pytest.mark.parametrize("err", [AUTH_FAILED, NEEDS_LOGIN, UNIMPLEMENTED])
def test_a_refusal_is_final(err: int) -> None:
    script = SaslScript()
    call = get(script, "/a")
    script.open()
    script.greet()
    script.give(b"one")
    script.sent()
    with pytest.raises(AuthFailedError, match="refused the SASL login"):
        script.token(err=err)
    assert script.states == [(S.AUTH_FAILED, 7)]
    assert isinstance(call.error(), AuthFailedError)
    assert "SASL" in script.machine.login.refusal


def test_a_server_that_fails_to_prove_itself_is_refused_for_good() -> None:
    script = SaslScript()
    script.open()
    script.greet()
    script.machine.refuse_login(AuthFailedError("the server is somebody else"))
    assert script.states == [(S.AUTH_FAILED, 7)]
    with pytest.raises(AuthFailedError, match="somebody else"):
        get(script, "/a").result()
    script.machine.closed()
    script.machine.refuse_login(AuthFailedError("again"))
    assert script.states[-1][0] is S.CLOSED


def test_other_answers_during_the_login_are_nonsense() -> None:
    for xid, asked in ((-4, True), (2, True), (XID_SASL, False)):
        script = SaslScript()
        script.open()
        script.greet()
        if asked:
            script.give(b"one")
        with pytest.raises(RemoteWireError, match="during the login"):
            script.token(xid=xid)


def test_a_token_that_comes_too_late_is_dropped() -> None:
    script = SaslScript()
    script.open()
    script.greet()
    script.lose_link()
    script.give(b"late")
    script.open()
    assert script.sent() == []
    script.give(b"later")
    assert script.sent() == []
    script.greet()
    script.give(b"one")
    with pytest.raises(RuntimeError, match="server was to speak"):
        script.give(b"two")


# --- credentials at run time -------------------------------------------------------------------


def test_credentials_are_presented_at_once_and_before_later_requests() -> None:
    script = Script()
    script.connect()
    call = added(script, ANN)
    get(script, "/a")
    assert [packet.op for packet in script.sent()] == [OpCode.AUTH, OpCode.GET_DATA]
    assert not call.is_done
    acknowledge(script)
    assert call.result() is None
    assert script.states == [(S.CONNECTED, 7)]


def test_they_are_presented_again_on_every_connection_before_watches() -> None:
    script = Script(auth=[ANN])
    script.open()
    script.greet()
    assert shown(script) == [ANN]
    acknowledge(script)
    first, again = added(script, BOB), added(script, ANN)
    assert shown(script) == [BOB, ANN]
    acknowledge(script)
    acknowledge(script)
    assert first.result() is again.result() is None
    get(script, "/a", Watcher(script).slot)
    script.serve()
    script.lose_link()
    script.open()
    script.greet()
    ops = [packet.op for packet in script.sent()]
    assert ops == [OpCode.AUTH, OpCode.AUTH, OpCode.SET_WATCHES]


def test_the_answer_may_come_from_the_next_server() -> None:
    script = Script()
    script.connect()
    call = added(script, ANN)
    script.sent()
    script.lose_link()
    assert not call.is_done
    script.open()
    script.greet()
    assert shown(script) == [ANN]
    assert script.states[-1] == (S.SUSPENDED, 7)
    acknowledge(script)
    assert call.result() is None
    assert script.states[-1] == (S.CONNECTED, 7)


def test_without_a_server_the_wait_ends_and_the_credentials_stay() -> None:
    script = Script(session_timeout=8.0)
    call = added(script, ANN)
    assert script.machine.next_deadline() == script.now + 8
    script.now += 4
    script.open()
    script.lose_link()  # came to nothing
    script.now += 4
    script.machine.tick(script.now)
    error = call.error()
    assert isinstance(error, ConnectionLossError)
    assert error.outcome is Outcome.NOT_APPLIED
    script.open()
    script.greet()
    assert shown(script) == [ANN]


def test_wait_for_another_server_begins_when_the_connection_is_lost() -> None:
    script = Script(session_timeout=8.0)
    script.connect()
    call = added(script, ANN)
    script.sent()
    script.now += 5
    script.lose_link()
    lost_at = script.now
    script.now = lost_at + 7.9
    script.machine.tick(script.now)
    assert not call.is_done
    script.now = lost_at + 8.0
    script.machine.tick(script.now)
    assert isinstance(call.error(), ConnectionLossError)


def test_credentials_that_are_refused_at_run_time_end_the_client() -> None:
    script = Script()
    script.connect()
    call, other = added(script, ANN), get(script, "/a")
    script.sent()
    with pytest.raises(AuthFailedError):
        acknowledge(script, AUTH_FAILED)
    for waiting in (call, other, added(script, BOB)):
        assert isinstance(waiting.error(), AuthFailedError)
    assert script.states[-1] == (S.AUTH_FAILED, 7)


def test_an_expired_session_does_not_end_the_wait() -> None:
    script = Script()
    call = added(script, ANN)
    script.open()
    script.machine.give_up_session()
    assert not call.is_done
    script.machine.closed()
    assert call.is_done
    assert call.error() is not None


def test_credentials_that_no_server_would_take() -> None:
    script = Script(max_request=64)
    script.connect()
    with pytest.raises(LocalWireError):
        added(script, Auth("digest", b"x" * 64))
    assert shown(script) == []


def test_the_password_of_the_session_is_not_the_only_secret() -> None:
    script = Script(auth=[ANN])
    assert "secret" not in repr(vars(script.machine))
    assert PASSWORD.decode() not in repr(script.machine)
