"""Opens the byte stream to a server: TCP, or the user's `dial`, and TLS over it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, final

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from ...errors import TransportError
from .. import fast
from ..fast.carrier import Carrier, StreamCarrier

if TYPE_CHECKING:
    from .tls import ContextSource

Dial = Callable[[str, int], Awaitable[ByteStream]]


class ConnectionEnded(TransportError):
    """Why a connection ended. Never leaves the client, except inside `ConnectFailed.attempts`."""


class ConnectionLeft(ConnectionEnded):
    """The client has left the server for another one."""


async def dial_tcp(address: str, port: int) -> ByteStream:
    return await anyio.connect_tcp(address, port)


@final
class Opener:
    def __init__(self, dial: Dial = dial_tcp, tls: ContextSource | None = None) -> None:
        self._dial = dial
        self._tls = tls

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    def certificate_name(self, host: str) -> str:
        """Returns the name to check in a server's certificate; without TLS, its own."""
        return host if self._tls is None else self._tls.server_hostname(host)

    async def open_carrier(self, host: str, address: str, port: int) -> Carrier:
        """Opens a session's connection; plain TCP uses the event loop's own carrier."""
        if self._tls is None and self._dial is dial_tcp:
            return await fast.dial(address, port)
        return StreamCarrier(await self.open(host, address, port))

    async def open(self, host: str, address: str, port: int) -> ByteStream:
        """Opens a stream for ZooKeeper's bytes: one task may send while another receives.

        `host` is what the certificate must have, `address` what it was resolved to. The caller
        bounds the time; cancellation closes what was opened. Raises `OSError` or
        `BrokenResourceError` without a connection, `ConnectionEnded` without TLS on it.
        """
        tls = self._tls
        if tls is None:
            return await self._dial(address, port)
        context = await tls.current()
        stream = await self._dial(address, port)
        try:
            return await _secure(stream, context, tls.server_hostname(host))
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise


CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How OpenSSL reports that the other end hung up, depending on its version."""


async def _secure(stream: ByteStream, context: ssl.SSLContext, hostname: str) -> ByteStream:
    try:
        wrapped = await TLSStream.wrap(
            OneAtATime(stream),
            server_side=False,
            hostname=hostname,
            ssl_context=context,
            # The protocol has its own lengths and answers, so truncation is always noticed; and
            # servers hang up without the closing handshake.
            standard_compatible=False,
        )
    except ssl.SSLCertVerificationError as error:
        raise ConnectionEnded(
            f"TLS: the server's certificate was refused: {_refusal(error)}"
        ) from error
    except (anyio.EndOfStream, anyio.BrokenResourceError, *CLOSED) as error:
        raise ConnectionEnded(
            "TLS: the server closed the connection during the handshake: a plain-text port?"
        ) from error
    except (ssl.SSLError, ValueError) as error:
        raise ConnectionEnded(f"TLS: no handshake: {_reason(error)}") from error
    return SecureStream(wrapped)


_UNKNOWN_ISSUER = (18, 19, 20, 21)
"""OpenSSL's numbers for certificates whose authority is not trusted."""
_OTHER_NAME = (62, 64)
"""Its numbers for certificates of other names and addresses."""


def _refusal(error: ssl.SSLCertVerificationError) -> str:
    """Why we refuse the server's certificate, and which setting decides that."""
    words = error.verify_message.removesuffix(".")
    if error.verify_code in _UNKNOWN_ISSUER:
        return f"{words}: set ca (--tls-ca) to the authority of the servers"
    if error.verify_code in _OTHER_NAME:
        return f"{words}: set server_hostname (--tls-hostname) if the servers have another name"
    return words


_ALERTS = {
    "CERTIFICATE_REQUIRED": "the server wants a certificate of this client: set cert (--tls-cert)",
    "UNKNOWN_CA": "the server does not trust the authority of this client's certificate",
    "CERTIFICATE": "the server refused this client's certificate, or wants one",
    "ALERT": "the server refused the handshake",
}
"""The meaning of a server's alert by a part of its name in OpenSSL; the first that fits counts."""


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "the answer is not TLS: a plain-text port?"
        words = error.reason.lower().replace("_", " ")
        if "ALERT" in error.reason:
            said = next(text for part, text in _ALERTS.items() if part in error.reason)
            return f"{said} ({words})"
        return words
    return str(error)


class _OverStream(ByteStream):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes


@final
class SecureStream(_OverStream):
    """A TLS stream that fails like any stream.

    anyio lets errors of the ssl module through; in TLS 1.3 they come after the client's handshake.
    """

    async def receive(self, max_bytes: int = 65536) -> bytes:
        try:
            return await self._stream.receive(max_bytes)
        except ssl.SSLError as error:
            _broken(error)

    async def send(self, item: bytes) -> None:
        try:
            await self._stream.send(item)
        except (anyio.BusyResourceError, ssl.SSLError) as error:
            # Busy: before TLS 1.3, renegotiation makes a sender wait for an answer that the
            # receiver gets. Our own contexts forbid it.
            _broken(error)


def _broken(error: Exception) -> NoReturn:
    raise anyio.BrokenResourceError from ConnectionEnded(f"TLS: {_reason(error)}")


@final
class OneAtATime(_OverStream):
    """A stream whose senders wait for each other, in order: what TLS runs over.

    The receiving task of TLS may have to send, such as the answer to a change of keys, while
    another task sends, which streams refuse. Records leave in the order in which TLS made them.
    """

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self._sending = anyio.Lock(fast_acquire=True)

    async def send(self, item: bytes) -> None:
        async with self._sending:
            await self._stream.send(item)
