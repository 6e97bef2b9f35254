"""Certificates for the tests, from authorities made on the spot."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

NAME = "zk.example"
"""A host name that the servers' certificates have, beside `localhost` and the loopback address."""


@dataclass(frozen=True, slots=True)
class Pem:
    """The PEM files of one certificate."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority and the folder for its files."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        self._ca = trustme.CA()
        self._count = 0
        self.pem = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.pem))

    def issue(
        self,
        *identities: str,
        common_name: str | None = None,
        organization: str = "aiolead tests",
        expires: datetime.datetime | None = None,
        alternative_names: bool = True,
    ) -> Pem:
        """A certificate; by default one for a server on this machine."""
        names = identities or (NAME, "localhost", "127.0.0.1")
        leaf = self._ca.issue_cert(
            *(names if alternative_names else ()),
            common_name=common_name,
            organization_name=organization,
            not_before=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
            not_after=expires,
        )
        self._count += 1
        cert = self._folder / f"{self._name}-{self._count}.pem"
        key = self._folder / f"{self._name}-{self._count}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        # As PKCS #8, the one form that Java reads, too.
        private = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Pem(cert, key)

    def server_context(
        self, pem: Pem, *, wants_client: bool = False, insists: bool = True
    ) -> ssl.SSLContext:
        """For a server with that certificate, which may want one of its clients."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem.cert, pem.key)
        if wants_client:
            context.load_verify_locations(self.pem)
            context.verify_mode = ssl.CERT_REQUIRED if insists else ssl.CERT_OPTIONAL
        return context
