"""SASL's DIGEST-MD5 (RFC 2831), as far as ZooKeeper's servers speak it: authentication alone.

Nothing here proves more than that both sides know the password, and MD5 is what it is: the RFC was
moved to the historic ones. It keeps the password off the wire, which the scheme `digest` does not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from .._parsing import MalformedError
from ..errors import AuthFailedError

SERVICE = "zookeeper"
HOST = "zk-sasl-md5"
"""What servers of ZooKeeper call themselves in this mechanism, wherever they run."""

LONGEST = 2048
"""The most bytes that a challenge may have; the RFC's limit."""

NO_CHALLENGE = (
    "the server sent no DIGEST-MD5 challenge: it has no SASL login, or that of another mechanism"
)


def parse(data: bytes) -> dict[str, str]:
    """The directives of a challenge or response; of those that are repeated, the first.

    Raises:
        ValueError: it is not a list of `name=value` or `name="value"`.
    """
    if len(data) > LONGEST:
        raise MalformedError(f"{len(data)} bytes are too many")
    text = data.decode("utf-8", "surrogateescape")
    found: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        if text[pos] in ", \t\r\n":
            pos += 1
            continue
        name, equals, _ = text[pos:].partition("=")
        pos += len(name) + 1
        if not equals or not name.replace("-", "").isalnum():
            raise MalformedError("a directive without a value")
        if text[pos : pos + 1] == '"':
            value, pos = _quoted(text, pos + 1)
        else:
            value = text[pos:].partition(",")[0]
            pos += len(value)
            value = value.rstrip()
        found.setdefault(name.strip().lower(), value)
    return found


def _quoted(text: str, pos: int) -> tuple[str, int]:
    value: list[str] = []
    while pos < len(text):
        char = text[pos]
        if char == '"':
            return "".join(value), pos + 1
        if char == "\\":
            pos += 1
        value.append(text[pos : pos + 1])
        pos += 1
    raise MalformedError("a quotation without an end")


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Proof:
    """What both sides compute from the password and from what was said.

    Args:
        user: who logs in.
        password: of the user.
        realm: of the server, which may be empty.
        nonce: what the server made up.
        cnonce: what the client made up.
        uri: `service/host` of the server.
        utf8: whether the server understands that.
        authzid: whom the client wants to act for, if it says so.
    """

    user: str
    password: str = field(repr=False)
    realm: str
    nonce: str
    cnonce: str
    uri: str
    utf8: bool = True
    authzid: str = ""

    def response(self) -> str:
        """What the client proves its knowledge of the password with."""
        return self._digest(f"AUTHENTICATE:{self.uri}")

    def rspauth(self) -> str:
        """What the server proves its own with."""
        return self._digest(f":{self.uri}")

    def _digest(self, a2: str) -> str:
        secret = b":".join(map(self._bytes, (self.user, self.realm, self.password)))
        said = f":{self.nonce}:{self.cnonce}" + (f":{self.authzid}" if self.authzid else "")
        a1 = _md5(secret) + said.encode("utf-8", "surrogateescape")
        said = f"{self.nonce}:00000001:{self.cnonce}:auth:{_hex(a2)}"
        ha1 = _md5(a1).hex()
        return _md5(f"{ha1}:{said}".encode("utf-8", "surrogateescape")).hex()

    def _bytes(self, text: str) -> bytes:
        # As the RFC has it: UTF-8 only for what ISO 8859-1 cannot say.
        try:
            return text.encode("iso-8859-1")
        except UnicodeEncodeError:
            if not self.utf8:
                raise
            return text.encode("utf-8", "surrogateescape")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hex(text: str) -> str:
    return _md5(text.encode("utf-8", "surrogateescape")).hex()


class DigestMD5:
    """The client's side of one login.

    Args:
        user: who logs in.
        password: of the user.
        service: of which kind the server is.
        host: what the server calls itself.
        make_nonce: makes up what nobody can guess; for tests.
    """

    blocks = False
    """Steps are quick; see `Mechanism`."""

    def __init__(
        self,
        user: str,
        password: str,
        *,
        service: str = SERVICE,
        host: str = HOST,
        make_nonce: Callable[[], str] = secrets.token_hex,
    ) -> None:
        self._user = user
        self._password = password
        self._uri = f"{service}/{host}"
        self._make_nonce = make_nonce
        self._began = False
        self._proof: Proof | None = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the server, or None where none is due any more.

        Args:
            challenge: the server's latest token; empty at the beginning, which is the client's.

        Raises:
            AuthFailedError: the server does not prove that it knows the password, or speaks
                something else.
        """
        if not self._began:
            self._began = True
            return b""
        if self._proof is None:
            return self._respond(challenge)
        self._verify(challenge, self._proof)
        self.is_complete = True
        return None

    def _respond(self, challenge: bytes) -> bytes:
        try:
            said = parse(challenge)
        except ValueError:
            raise AuthFailedError(NO_CHALLENGE) from None
        nonce = said.get("nonce", "")
        if not nonce or said.get("algorithm", "").lower() != "md5-sess":
            raise AuthFailedError(NO_CHALLENGE)
        if "auth" not in said.get("qop", "auth").replace(" ", "").split(","):
            raise AuthFailedError("the server insists on encrypting by DIGEST-MD5: use TLS")
        utf8 = said.get("charset", "").lower() == "utf-8"
        proof = Proof(
            self._user,
            self._password,
            said.get("realm", ""),
            nonce,
            self._make_nonce(),
            self._uri,
            utf8,
        )
        try:
            response = proof.response()
        except UnicodeEncodeError:
            # Without its cause, which carries the password.
            raise AuthFailedError(
                "user, password: the server takes characters of ISO 8859-1 only"
            ) from None
        self._proof = proof
        directives = [
            *(["charset=utf-8"] if utf8 else []),
            f"username={quoted(self._user)}",
            *([f"realm={quoted(proof.realm)}"] if "realm" in said else []),
            f"nonce={quoted(nonce)}",
            "nc=00000001",
            f"cnonce={quoted(proof.cnonce)}",
            f"digest-uri={quoted(self._uri)}",
            f"response={response}",
            "qop=auth",
        ]
        text = ",".join(directives)
        try:
            return text.encode("utf-8" if utf8 else "iso-8859-1", "surrogateescape")
        except UnicodeEncodeError:
            # Its nonce or realm is in characters that it does not claim to take.
            raise AuthFailedError(NO_CHALLENGE) from None

    def _verify(self, challenge: bytes, proof: Proof) -> None:
        try:
            told = parse(challenge).get("rspauth", "")
        except ValueError:
            told = ""
        if not hmac.compare_digest(
            told.encode("utf-8", "surrogateescape"), proof.rspauth().encode()
        ):
            raise AuthFailedError("the server did not prove that it knows the password")
