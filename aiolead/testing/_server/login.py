"""SASL on the server's side: DIGEST-MD5, as ZooKeeper has it with a `DigestLoginModule`."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ..._wire.digest_md5 import HOST, SERVICE, Proof, parse, quoted

NEVER = "\0"
"""No password: what a user has who does not exist."""


class RefusedLogin(Exception):
    """The client does not prove that it is who it says."""


class DigestLogin:
    """One client's login.

    Args:
        users: the password of each user.
        nonce: the nonce, which the client cannot have known before.

    Attributes:
        user: the identity that has logged in; None as long as nobody has.
    """

    def __init__(self, users: Mapping[str, str], nonce: str) -> None:
        self._users = users
        self._nonce = nonce
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """The server's next token.

        Raises:
            RefusedLogin: the token proves nothing.
        """
        if self.user is not None:
            raise RefusedLogin
        if not token:
            realm, nonce = quoted(HOST), quoted(self._nonce)
            return f"realm={realm},nonce={nonce},charset=utf-8,algorithm=md5-sess".encode()
        try:
            said = parse(token)
        except ValueError:
            raise RefusedLogin from None
        if (
            said.get("nonce") != self._nonce
            or said.get("nc") != "00000001"
            or said.get("digest-uri", "").lower() != f"{SERVICE}/{HOST}"
            or not said.get("cnonce")
        ):
            raise RefusedLogin
        user = said.get("username", "")
        proof = Proof(
            user,
            self._users.get(user, NEVER),
            said.get("realm", ""),
            self._nonce,
            said["cnonce"],
            said["digest-uri"],
            authzid=said.get("authzid", ""),
        )
        given = said.get("response", "").encode("utf-8", "surrogateescape")
        if user not in self._users or not hmac.compare_digest(given, proof.response().encode()):
            raise RefusedLogin
        self.user = user
        return f"rspauth={proof.rspauth()}".encode()
