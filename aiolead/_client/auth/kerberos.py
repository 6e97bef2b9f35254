"""The SASL mechanism GSSAPI (RFC 4752), by the optional package `gssapi`."""

from __future__ import annotations

import importlib
from typing import Any

from ...errors import AuthFailedError, ConfigurationError
from ..net.opener import ConnectionEnded

NO_LAYER = 1
"""The bit for authentication alone: no signing or encrypting by Kerberos."""


def find_gssapi() -> Any:
    """Returns the package; `ConfigurationError` if it, or the system's library, is missing."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigurationError(
            f"SASL.gssapi: needs aiolead[kerberos], and the system's Kerberos library: {error}"
        ) from None


class Kerberos:
    """The client's side of one login. Every step may block, on files and on the KDC."""

    blocks = True

    def __init__(self, service: str, host: str, principal: str | None) -> None:
        self._server = f"{service}@{host}"
        self._principal = principal
        self._context: Any = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes | None:
        """Returns the next token for the server; `ConnectionEnded` without a ticket."""
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
        """Declines the server's security layers: that is the business of TLS."""
        layers = self._context.unwrap(offer).message
        if len(layers) != 4 or not layers[0] & NO_LAYER:
            raise AuthFailedError("the server insists on signing or encrypting by Kerberos")
        self.is_complete = True
        # No name to act for: the user is the ticket's owner.
        choice: bytes = self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message
        return choice
