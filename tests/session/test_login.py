"""Logging in: the SASL exchange, and credentials that are presented or added at run time."""

from __future__ import annotations

from typing import Any

import pytest
from session.script import PASSWORD, Script, connected, failure_of

from aiolead._session.requests import Call
from aiolead._wire.codes import XID_AUTH, XID_SASL, OpCode
from aiolead._wire.jute import encode_reply
from aiolead._wire.replies import ReplyHeader, TokenReply
from aiolead._wire.requests import AuthPacket, Sasl
from aiolead.errors import (
    AuthFailedError,
    ConnectionLossError,
    LocalWireError,
    Outcome,
    RemoteWireError,
)
from aiolead.model import Auth
from aiolead.model import SessionState as S

ANN, BOB = Auth.digest("ann", "secret"), Auth.digest("bob", "secret")
AUTH_FAILED, NEEDS_LOGIN, UNIMPLEMENTED = -115, -124, -6


# --- SASL --------------------------------------------------------------------------------------


class SaslScript(Script):
    """A machine with a SASL login, on a connection.

    Attributes:
        challenges: the tokens that its owner was asked to answer.
    """

    def __init__(self, **options: Any) -> None:
        self.challenges: list[bytes] = []
        super().__init__(on_challenge=self.challenges.append, **options)

    def give(self, token: bytes | None, *, is_last: bool = False) -> None:
        self.machine.login.answer(token, self.now, is_last=is_last)

    def token(self, token: bytes = b"", *, xid: int = XID_SASL, err: int = 0) -> None:
        """The server's next token."""
        body = None if err else TokenReply(token)
        self.machine.receive(encode_reply(ReplyHeader(xid, 0, err), body), self.now)

    def log_in(self) -> None:
        self.give(b"mine", is_last=True)
        assert self.ops() == [OpCode.SASL]
        self.token()


@pytest.fixture
def sasl() -> SaslScript:
    script = SaslScript()
    script.connect()
    return script


def test_login_comes_before_everything_else() -> None:
    script = SaslScript(auth=[ANN])
    call = script.get("/a")
    script.open()
    assert script.challenges == []
    script.greet()
    assert script.challenges == [b""]
    assert script.sent() == [], "nothing is sent before the first token is made"

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
    assert script.challenges == [b"", b"two"], "the server's last token needs no answer"
    assert script.ops() == [OpCode.AUTH, OpCode.GET_DATA]
    acknowledge(script)
    assert script.states == [(S.CONNECTED, 7)]
    assert not call.is_done


def test_login_may_end_with_a_token_of_the_server(sasl: SaslScript) -> None:
    """As in DIGEST-MD5: the client accepts the token, and has nothing to send."""
    sasl.give(b"one")
    sasl.sent()
    sasl.token(b"proof")
    assert sasl.states == []
    sasl.give(None, is_last=True)
    assert sasl.states == [(S.CONNECTED, 7)]


def test_login_is_repeated_on_every_connection(sasl: SaslScript) -> None:
    sasl.log_in()
    sasl.reconnect()
    assert sasl.challenges == [b"", b""]
    assert sasl.states == [(S.CONNECTED, 7), (S.SUSPENDED, 7)]
    sasl.log_in()
    assert sasl.states[-1] == (S.CONNECTED, 7)


def test_no_ping_and_no_renewal_is_sent_during_the_login(sasl: SaslScript) -> None:
    """Servers that require SASL close the connection on any other request."""
    sasl.now += 7
    assert sasl.machine.tick(sasl.now) is None
    assert sasl.sent() == []


@pytest.mark.parametrize("err", [AUTH_FAILED, NEEDS_LOGIN, UNIMPLEMENTED])
def test_refused_login_is_final(err: int) -> None:
    script = SaslScript()
    call = script.get("/a")
    script.connect()
    script.give(b"one")
    script.sent()
    with pytest.raises(AuthFailedError, match="refused the SASL login"):
        script.token(err=err)
    assert script.states == [(S.AUTH_FAILED, 7)]
    assert isinstance(call.error(), AuthFailedError)
    assert "SASL" in script.machine.login.refusal


def test_server_that_does_not_prove_its_identity_is_refused_forever(sasl: SaslScript) -> None:
    sasl.machine.refuse_login(AuthFailedError("the server is somebody else"))
    assert sasl.states == [(S.AUTH_FAILED, 7)]
    with pytest.raises(AuthFailedError, match="somebody else"):
        sasl.get("/a").result()
    sasl.machine.closed()
    sasl.machine.refuse_login(AuthFailedError("again"))
    assert sasl.states[-1][0] is S.CLOSED


@pytest.mark.parametrize(("xid", "asked"), [(-4, True), (2, True), (XID_SASL, False)])
def test_other_answers_during_the_login_are_refused(
    sasl: SaslScript, xid: int, asked: bool
) -> None:
    if asked:
        sasl.give(b"one")
    with pytest.raises(RemoteWireError, match="during the login"):
        sasl.token(xid=xid)


def test_token_for_a_lost_connection_is_dropped(sasl: SaslScript) -> None:
    sasl.disconnect()
    sasl.give(b"late")
    sasl.open()
    assert sasl.sent() == []
    sasl.give(b"later")
    assert sasl.sent() == []
    sasl.greet()
    sasl.give(b"one")
    with pytest.raises(RuntimeError, match="server was to speak"):
        sasl.give(b"two")


# --- credentials at run time -------------------------------------------------------------------


def added(script: Script, auth: Auth) -> Call[None]:
    body = AuthPacket(auth.scheme, auth.credential).encode()
    call: Call[None] = Call(OpCode.AUTH, body, lambda _: None)
    script.machine.check_size(call)
    script.machine.login.add(auth, call, script.now)
    return call


def acknowledge(script: Script, err: int = 0) -> None:
    script.machine.receive(encode_reply(ReplyHeader(XID_AUTH, 0, err)), script.now)


def presented(script: Script) -> list[Auth]:
    """The credentials that were just sent."""
    packets = script.sent()
    assert {(packet.xid, packet.op) for packet in packets} <= {(XID_AUTH, OpCode.AUTH)}
    found = [AuthPacket.read(packet.reader) for packet in packets]
    return [Auth(each.scheme, each.credential) for each in found]


def test_added_credentials_are_sent_before_later_requests(script: Script) -> None:
    call = added(script, ANN)
    script.get("/a")
    assert script.ops() == [OpCode.AUTH, OpCode.GET_DATA]
    assert not call.is_done
    acknowledge(script)
    assert call.result() is None
    assert script.states == [(S.CONNECTED, 7)]


def test_credentials_are_sent_again_on_every_connection_before_watches() -> None:
    script = connected(auth=[ANN])
    assert presented(script) == [ANN]
    acknowledge(script)
    first, again = added(script, BOB), added(script, ANN)
    assert presented(script) == [BOB, ANN]
    acknowledge(script)
    acknowledge(script)
    assert first.result() is again.result() is None
    script.watch()
    script.serve()
    script.reconnect()
    assert script.ops() == [OpCode.AUTH, OpCode.AUTH, OpCode.SET_WATCHES]


def test_added_credentials_may_be_accepted_by_the_next_server(script: Script) -> None:
    call = added(script, ANN)
    script.sent()
    script.disconnect()
    assert not call.is_done
    script.connect()
    assert presented(script) == [ANN]
    assert script.states[-1] == (S.SUSPENDED, 7)
    acknowledge(script)
    assert call.result() is None
    assert script.states[-1] == (S.CONNECTED, 7)


def test_wait_without_a_server_ends_and_the_credentials_stay() -> None:
    script = Script()
    call = added(script, ANN)
    assert script.machine.next_deadline() == script.now + 8
    script.now += 4
    script.open()
    script.disconnect()  # a failed attempt
    script.now += 4
    script.tick()
    assert failure_of(call) == (ConnectionLossError, Outcome.NOT_APPLIED)
    script.connect()
    assert presented(script) == [ANN]


def test_wait_for_another_server_begins_when_the_connection_is_lost(script: Script) -> None:
    call = added(script, ANN)
    script.sent()
    script.now += 5
    script.disconnect()
    script.now += 7.9
    script.tick()
    assert not call.is_done
    script.now += 0.1
    script.tick()
    assert isinstance(call.error(), ConnectionLossError)


def test_refused_credentials_end_the_client(script: Script) -> None:
    call, other = added(script, ANN), script.get("/a")
    script.sent()
    with pytest.raises(AuthFailedError):
        acknowledge(script, AUTH_FAILED)
    for waiting in (call, other, added(script, BOB)):
        assert isinstance(waiting.error(), AuthFailedError)
    assert script.states[-1] == (S.AUTH_FAILED, 7)


def test_expired_session_does_not_end_the_wait() -> None:
    script = Script()
    call = added(script, ANN)
    script.open()
    script.machine.give_up_session()
    assert not call.is_done
    script.machine.closed()
    assert call.is_done
    assert call.error() is not None


def test_credentials_that_are_too_long_are_refused() -> None:
    script = connected(max_request=64)
    with pytest.raises(LocalWireError):
        added(script, Auth("digest", b"x" * 64))
    assert presented(script) == []


def test_secrets_are_not_in_the_repr_of_a_session() -> None:
    script = Script(auth=[ANN])
    assert "secret" not in repr(vars(script.machine))
    assert PASSWORD.decode() not in repr(script.machine)
