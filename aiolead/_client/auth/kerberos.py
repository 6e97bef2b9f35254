"""The SASL mechanism GSSAPI (RFC 4752), by the package `gssapi`, which is an extra."""

from __future__ import annotations

import importlib
from typing import Any

from ...errors import AuthFailedError, ConfigurationError
from ..net.opener import ConnectionEnded

NO_LAYER = 1
"""The bit that stands for authentication alone: no signing, no encrypting by Kerberos."""


def find_gssapi() -> Any:
    """The package.

    Raises:
        ConfigurationError: it is not installed, or the system lacks the library below it.
    """
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"SASL.gssapi: needs aiolead[kerberos], and the system's Kerberos library: {error}"
        ) from None


class Kerberos:
    """The client's side of one login. Every step may block, on files and on the KDC.

    Args:
        service: the first part of the server's principal.
        host: the second one.
        principal: whose ticket to use, or None for the default one.
    """

    blocks = True

    def __init__(self, service: str, host: str, principal: str | None) -> None:
        self._server = f"{service}@{host}"
        self._principal = principal
        self._context: Any = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the server; empty where it is the server's turn.

        Raises:
            ConnectionEnded: there is no ticket for the server, now.
            AuthFailedError: the server does not prove its identity.
        """
        gssapi = find_gssapi()
        if self._context is None:
            try:
                self._context = self._make_context(gssapi)
                return self._context.step() or b""
            except gssapi.exceptions.GSSError as error:
                raise ConnectionEnded(
                    f"SASL: no Kerberos ticket for {self._server}: {error}"
                ) from error
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose_layer(challenge)
        except gssapi.exceptions.GSSError as error:
            raise AuthFailedError(
                f"the server did not prove that it is {self._server}: {error}"
            ) from error

    def _make_context(self, gssapi: Any) -> Any:
        name = gssapi.Name(self._server, gssapi.NameType.hostbased_service)
        credentials = None
        if self._principal is not None:
            owner = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
            credentials = gssapi.Credentials(name=owner, usage="initiate")
        flags = (
            gssapi.RequirementFlag.mutual_authentication,
            gssapi.RequirementFlag.integrity,  # of the exchange about the layers
            gssapi.RequirementFlag.out_of_sequence_detection,
        )
        return gssapi.SecurityContext(
            name=name,
            creds=credentials,
            mech=gssapi.MechType.kerberos,
            flags=flags,
            usage="initiate",
        )

    def _choose_layer(self, offer: bytes) -> bytes:
        """Answers the server's offer of security layers with none: that is the business of TLS."""
        layers = self._context.unwrap(offer).message
        if len(layers) != 4 or not layers[0] & NO_LAYER:
            raise AuthFailedError("the server insists on signing or encrypting by Kerberos")
        self.is_complete = True
        # Without a name to act for: we are who the ticket says.
        choice: bytes = self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message
        return choice
