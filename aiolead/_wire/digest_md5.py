"""SASL's DIGEST-MD5 (RFC 2831), as far as ZooKeeper's servers speak it: authentication only.

The RFC is historic and MD5 is weak. But unlike with `digest`, the password is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from .._util.escaping import unless_invalid
from .._util.parsing import MalformedError
from ..errors import AuthFailedError

SERVICE = "zookeeper"
HOST = "zk-sasl-md5"
"""The name of every ZooKeeper server in this mechanism, wherever it runs."""

LONGEST = 2048
"""The RFC's limit for a challenge, in bytes."""

NO_CHALLENGE = (
    "the server sent no DIGEST-MD5 challenge: it has no SASL login, or that of another mechanism"
)

_SPACE = ", \t\r\n"
_NAME = re.compile(rf"[{_SPACE}]*([A-Za-z0-9-]+)=")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def parse(data: bytes) -> dict[str, str]:
    """Parse `name=value` directives, quoted or not: the first of each name. Else `ValueError`."""
    if len(data) > LONGEST:
        raise MalformedError(f"{len(data)} bytes are too many")
    text = data.decode("utf-8", "surrogateescape").rstrip(_SPACE)
    found: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        if (name := _NAME.match(text, pos)) is None:
            raise MalformedError("a directive without a value")
        pos = name.end()
        if text[pos : pos + 1] != '"':
            value = text[pos:].partition(",")[0]
            pos, value = pos + len(value), value.rstrip()
        elif match := _QUOTED.match(text, pos):
            pos, value = match.end(), re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)
        else:
            raise MalformedError("a quotation without an end")
        found.setdefault(name[1].lower(), value)
    return found


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Proof:
    """The values that both sides compute from the password and the nonces.

    `nonce` is the server's, `cnonce` the client's, `uri` the server's `service/host`. `utf8`: the
    server understands UTF-8. `authzid`: the user to act for, if the client names one.
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
        """The client's proof that it knows the password."""
        return self._digest(f"AUTHENTICATE:{self.uri}")

    def rspauth(self) -> str:
        """The server's proof."""
        return self._digest(f":{self.uri}")

    def _digest(self, a2: str) -> str:
        secret = b":".join(map(self._bytes, (self.user, self.realm, self.password)))
        nonces = f":{self.nonce}:{self.cnonce}" + (f":{self.authzid}" if self.authzid else "")
        ha1 = _md5(_md5(secret) + _utf8(nonces)).hex()
        ha2 = _md5(_utf8(a2)).hex()
        return _md5(_utf8(f"{ha1}:{self.nonce}:00000001:{self.cnonce}:auth:{ha2}")).hex()

    def _bytes(self, text: str) -> bytes:
        # The RFC wants UTF-8 only for what ISO 8859-1 cannot encode.
        try:
            return text.encode("iso-8859-1")
        except UnicodeEncodeError:
            if not self.utf8:
                raise
            return _utf8(text)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


class DigestMD5:
    """The client's side of one login.

    `service` and `host` name the server in this mechanism. Tests replace `make_nonce`.
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
        self._has_begun = False
        self._proof: Proof | None = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the server, or None after the last one. The first challenge is empty.

        Raises `AuthFailedError` if the server does not prove that it knows the password, or uses
        another mechanism.
        """
        if not self._has_begun:
            self._has_begun = True
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
        nonce, realm = said.get("nonce", ""), said.get("realm", "")
        if not nonce or said.get("algorithm", "").lower() != "md5-sess":
            raise AuthFailedError(NO_CHALLENGE)
        if "auth" not in said.get("qop", "auth").replace(" ", "").split(","):
            raise AuthFailedError("the server insists on encrypting by DIGEST-MD5: use TLS")
        utf8 = said.get("charset", "").lower() == "utf-8"
        cnonce = self._make_nonce()
        proof = Proof(self._user, self._password, realm, nonce, cnonce, self._uri, utf8)
        response = unless_invalid(proof.response)
        if response is None:
            raise AuthFailedError("user, password: the server takes characters of ISO 8859-1 only")
        self._proof = proof
        directives = [
            *(["charset=utf-8"] if utf8 else []),
            f"username={quoted(self._user)}",
            *([f"realm={quoted(realm)}"] if "realm" in said else []),
            f"nonce={quoted(nonce)}",
            "nc=00000001",
            f"cnonce={quoted(cnonce)}",
            f"digest-uri={quoted(self._uri)}",
            f"response={response}",
            "qop=auth",
        ]
        try:
            return ",".join(directives).encode("utf-8" if utf8 else "iso-8859-1", "surrogateescape")
        except UnicodeEncodeError:
            # The nonce or realm has characters of a charset that the server does not claim.
            raise AuthFailedError(NO_CHALLENGE) from None

    def _verify(self, challenge: bytes, proof: Proof) -> None:
        try:
            rspauth = parse(challenge).get("rspauth", "")
        except ValueError:
            rspauth = ""
        if not hmac.compare_digest(_utf8(rspauth), proof.rspauth().encode()):
            raise AuthFailedError("the server did not prove that it knows the password")
