"""DIGEST-MD5: the example of the RFC, quoting, and refused challenges."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead._wire.digest_md5 import LONGEST, DigestMD5, Proof, parse, quoted
from aiolead.errors import AuthFailedError

RFC_CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
    b"algorithm=md5-sess,charset=utf-8"
)


def rfc_login(password: str = "secret") -> DigestMD5:
    return DigestMD5(
        "chris",
        password,
        service="imap",
        host="elwood.innosoft.com",
        make_nonce=lambda: "OA6MHXh6VqTrRk",
    )


def begun(challenge: bytes, user: str = "chris", password: str = "secret") -> bytes:
    login = DigestMD5(user, password, make_nonce=lambda: "c")
    assert login.step(b"") == b""
    response = login.step(challenge)
    assert response is not None
    return response


def test_example_of_rfc_2831() -> None:
    login = rfc_login()
    assert login.step(b"") == b""
    response = parse(login.step(RFC_CHALLENGE) or b"")
    assert response == {
        "charset": "utf-8",
        "username": "chris",
        "realm": "elwood.innosoft.com",
        "nonce": "OA6MG9tEQGm2hh",
        "nc": "00000001",
        "cnonce": "OA6MHXh6VqTrRk",
        "digest-uri": "imap/elwood.innosoft.com",
        "response": "d388dad90d4bbd760a152321f2143af7",
        "qop": "auth",
    }
    assert not login.is_complete
    assert login.step(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None
    assert login.is_complete


@pytest.mark.parametrize(
    "answer", [b"", b"rspauth=", b"rspauth=" + b"0" * 32, b"rspauth", "rspauth=é".encode(), b"\xff"]
)
def test_server_without_the_password_is_refused(answer: bytes) -> None:
    login = rfc_login()
    login.step(b"")
    login.step(RFC_CHALLENGE)
    with pytest.raises(AuthFailedError, match="did not prove"):
        login.step(answer)
    assert not login.is_complete


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\x60\x82",
        b"nonce",
        b'nonce="x',
        b'nonce="x",algorithm=md5',
        b'nonce="",algorithm=md5-sess',
        b"algorithm=md5-sess",
        b'algorithm=md5-sess,nonce="' + b"x" * LONGEST + b'"',
    ],
)
def test_malformed_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthFailedError, match="no DIGEST-MD5 challenge"):
        begun(challenge)


def test_challenge_that_needs_more_than_authentication_is_refused() -> None:
    with pytest.raises(AuthFailedError, match="use TLS"):
        begun(b'nonce="x",algorithm=md5-sess,qop="auth-int, auth-conf"')
    assert begun(b'nonce="x",algorithm=md5-sess,qop="auth-conf, auth"')


def test_error_hides_a_password_that_an_old_server_cannot_read() -> None:
    with pytest.raises(AuthFailedError) as caught:
        begun(b'nonce="x",algorithm=md5-sess', password="пароль")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "пароль" not in str(caught.value)
    assert begun(b'nonce="x",algorithm=md5-sess,charset=utf-8', password="пароль")


def test_realm_is_repeated_only_if_there_is_one() -> None:
    assert "realm" not in parse(begun(b'nonce="x",algorithm=md5-sess'))
    several = b'realm="one",realm="two",nonce="x",algorithm=md5-sess'
    assert parse(begun(several))["realm"] == "one"


def test_repr_of_a_proof_hides_the_secret() -> None:
    assert "secret" not in repr(Proof("chris", "secret", "r", "n", "c", "u/h"))


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_parsing_undoes_quoting(text: str) -> None:
    assert parse(f" a=b , x={quoted(text)},y=z".encode())["x"] == text


@given(st.binary(max_size=LONGEST + 10))
def test_random_bytes_are_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse(data)
