"""TLS on the embedded server's side of a connection."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from ._link import Transport

__all__ = ["TLSTransport", "distinguished_name"]

HANDSHAKE_TIMEOUT = 10.0
"""Seconds that a client has for the TLS handshake."""

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def distinguished_name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """A subject as `ssl` gives it, in the words of RFC 2253: what the scheme `x509` calls it."""
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in rdn)
        for rdn in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in ',=+<>#;"\\' else char for char in value)
    if text[:1] == " ":
        text = f"\\{text}"
    if text.endswith(" ") and not text.endswith("\\ "):
        text = f"{text[:-1]}\\ "
    return text


class TLSTransport:
    """A transport under TLS. Has one reader and one writer at most.

    Not anyio's, which does not send the client the alert of a failed handshake.
    """

    def __init__(self, transport: Transport, context: ssl.SSLContext) -> None:
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = anyio.Lock()

    async def handshake(self) -> None:
        """Agrees with the client.

        Raises:
            BrokenResourceError, EndOfStream: it does not come to that.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._fill()
            except ssl.SSLError as error:
                await self._flush()
                raise anyio.BrokenResourceError from error
            else:
                await self._flush()
                return

    @property
    def client(self) -> str | None:
        """The distinguished name in the client's certificate, if it has shown one."""
        certificate = self._tls.getpeercert() or {}
        subject = certificate.get("subject")
        return distinguished_name(subject) if subject else None  # type: ignore[arg-type]

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Waits for at least one byte.

        Raises:
            EndOfStream: the client will send no more.
            BrokenResourceError: the connection is gone, or is no TLS any more.
        """
        while True:
            try:
                data = self._tls.read(max_bytes)
            except ssl.SSLWantReadError:
                await self._fill()
            except ssl.SSLError as error:
                raise anyio.BrokenResourceError from error
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, data: bytes, /) -> None:
        """Sends all of it.

        Raises:
            BrokenResourceError: the connection is gone.
        """
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise anyio.BrokenResourceError from error
        await self._flush()

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        self._transport.reset()

    async def _fill(self) -> None:
        await self._flush()
        self._incoming.write(await self._transport.receive())

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._outgoing.read():
                await self._transport.send(data)
