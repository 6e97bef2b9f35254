"""The client's side of RFC 4752, with a stand-in for the package `gssapi`.

`tests/client/login/test_kerberos.py` logs in at real servers, with a KDC.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aiolead import SASL
from aiolead._client.net.opener import ConnectionEnded
from aiolead.errors import AuthFailedError, ConfigurationError

NO_LAYER, ENCRYPTED = 1, 4


class GSSError(Exception):
    """The only error that the package raises."""


class Context:
    """One exchange of two tokens, and whatever the server offers then."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.received: list[bytes | None] = []
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        self.received.append(token)
        if token == b"forged":
            raise GSSError("the integrity check failed")
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def unwrap(self, offer: bytes) -> Any:
        return SimpleNamespace(message=offer)

    def wrap(self, choice: bytes, encrypts: bool) -> Any:
        assert not encrypts
        return SimpleNamespace(message=b"wrapped " + choice)


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    made: list[Context] = []

    def make(**arguments: Any) -> Context:
        made.append(Context(**arguments))
        return made[-1]

    kinds = {"hostbased_service": "service", "kerberos_principal": "principal"}
    flags = ("mutual_authentication", "integrity", "out_of_sequence_detection")
    package = SimpleNamespace(
        Name=lambda name, kind: (kind, name),
        NameType=SimpleNamespace(**kinds),
        Credentials=lambda **arguments: arguments,
        RequirementFlag=SimpleNamespace(**{flag: flag for flag in flags}),
        MechType=SimpleNamespace(kerberos="kerberos"),
        SecurityContext=make,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", package)
    return made


def test_a_login_without_layers(contexts: list[Context]) -> None:
    login = SASL.gssapi()._mechanism_for("zk1.example.com")
    assert login.blocks
    assert login.step(b"") == b"ticket"
    assert login.step(b"the server's") == b""
    assert not login.is_complete
    assert login.step(bytes([NO_LAYER | ENCRYPTED, 0, 255, 255])) == b"wrapped \1\0\0\0"
    assert login.is_complete
    (context,) = contexts
    assert context.received == [None, b"the server's"]
    assert context.arguments["name"] == ("service", "zookeeper@zk1.example.com")
    assert context.arguments["creds"] is None
    assert "mutual_authentication" in context.arguments["flags"]


def test_a_service_a_host_and_a_user_that_are_given(contexts: list[Context]) -> None:
    sasl = SASL.gssapi(service="zk", host="all.example.com", principal="app@EXAMPLE.COM")
    sasl._mechanism_for("zk1.example.com").step(b"")
    (context,) = contexts
    assert context.arguments["name"] == ("service", "zk@all.example.com")
    owner = ("principal", "app@EXAMPLE.COM")
    assert context.arguments["creds"] == {"name": owner, "usage": "initiate"}


@pytest.mark.parametrize("offer", [bytes([ENCRYPTED, 0, 255, 255]), b"", b"\1\0\0"])
def test_a_server_that_insists_on_a_layer(contexts: list[Context], offer: bytes) -> None:
    login = SASL.gssapi()._mechanism_for("zk1")
    login.step(b"")
    login.step(b"the server's")
    with pytest.raises(AuthFailedError, match="insists on signing or encrypting"):
        login.step(offer)
    assert not login.is_complete


def test_a_server_that_is_another(contexts: list[Context]) -> None:
    login = SASL.gssapi()._mechanism_for("zk1")
    login.step(b"")
    with pytest.raises(AuthFailedError, match="did not prove that it is zookeeper@zk1: the integ"):
        login.step(b"forged")


def test_no_ticket_is_no_refusal(contexts: list[Context], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be renewed, so the client goes on trying."""

    def no_ticket(**_: Any) -> None:
        raise GSSError("no credentials")

    monkeypatch.setattr(sys.modules["gssapi"], "SecurityContext", no_ticket)
    with pytest.raises(ConnectionEnded, match="no Kerberos ticket for zookeeper@zk1: no cred"):
        SASL.gssapi()._mechanism_for("zk1").step(b"")


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"needs aiolead\[kerberos\]"):
        SASL.gssapi()
