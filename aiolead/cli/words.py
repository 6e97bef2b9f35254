"""Asking servers about themselves: by their four-letter words, or through their admin server.

A server answers a word as the first thing on a connection, and closes it. Without further ado all
of them answer `srvr`; the others are switched on by `4lw.commands.whitelist`, and what they say is
also to be had from the admin server, by HTTP.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, final

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from .. import TLS
from ..paths import format_host

__all__ = ["AdminAnswer", "Inquirer", "NotToldError", "Server"]

MOST_BYTES = 16 * 1024 * 1024
"""The longest answer that is read."""

_REFUSED = "is not executed because it is not in the whitelist"
_NOT_SERVING = "This ZooKeeper instance is not currently serving requests"


class NotToldError(Exception):
    """A server does not say. The message says why."""


@final
@dataclass(frozen=True, slots=True, order=True)
class Server:
    """Where a server is.

    Attributes:
        host: its name or address, as it was given.
        port: for clients.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return format_host(self.host, self.port)


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """What an admin server has said.

    Attributes:
        values: by their names.
        date: the server's clock as it answered, in seconds since 1970; None if it is not told.
    """

    values: Mapping[str, Any]
    date: float | None


@final
class Inquirer:
    """Asks servers.

    Args:
        tls: how the client's port is to be talked to; None for plain text.
        patience: for each answer, in seconds.
        admin_port: of the admin servers; 0 if they are not to be asked.
    """

    def __init__(self, tls: TLS | None, patience: float, admin_port: int) -> None:
        self._patience = patience
        self._admin_port = admin_port
        self._hostname = None if tls is None else tls.server_hostname
        self._context = None if tls is None else tls.load()

    @property
    def is_encrypted(self) -> bool:
        return self._context is not None

    @property
    def patience(self) -> float:
        return self._patience

    async def word(self, server: Server, word: str) -> str:
        """The answer to a four-letter word.

        Raises:
            NotToldError: it does not say.
            OSError: it is not there, or does not answer in time.
        """
        with anyio.fail_after(self._patience):
            async with await self.connect(server) as stream:
                answer = (await _exchange(stream, word.encode())).decode(errors="replace")
        if _REFUSED in answer:
            raise NotToldError(f"{word} is not in 4lw.commands.whitelist")
        if answer.startswith(_NOT_SERVING):
            raise NotToldError("is not serving: it has no leader")
        if not answer:
            raise NotToldError(f"says nothing to {word}")
        return answer

    async def connect(self, server: Server, address: str | None = None) -> ByteStream:
        """A connection for clients.

        Args:
            server: the server.
            address: of the server's, if one certain is wanted.

        Raises:
            OSError: nobody is there; `ssl.SSLError` if it is TLS that fails.
        """
        stream: ByteStream = await anyio.connect_tcp(address or server.host, server.port)
        if self._context is None:
            return stream
        hostname = self._hostname or server.host.partition("%")[0].removesuffix(".")
        try:
            return await TLSStream.wrap(
                stream,
                hostname=hostname,
                ssl_context=self._context,
                standard_compatible=False,
            )
        except BaseException as error:
            # The handshake does not do it, whatever ends it.
            await anyio.aclose_forcefully(stream)
            if isinstance(error, anyio.EndOfStream | anyio.BrokenResourceError):
                raise ssl.SSLError("the connection was closed during the handshake") from error
            raise

    async def admin(self, server: Server, command: str) -> AdminAnswer:
        """The answer of the admin server to a command, such as `monitor`.

        Raises:
            NotToldError: there is none, or it does not say.
        """
        if not self._admin_port:
            raise NotToldError("the admin server is not asked (--admin-port)")
        where = format_host(server.host, self._admin_port)
        request = f"GET /commands/{command} HTTP/1.0\r\nHost: {where}\r\n\r\n"
        try:
            with anyio.fail_after(self._patience):
                async with await anyio.connect_tcp(server.host, self._admin_port) as stream:
                    answer = await _exchange(stream, request.encode())
        except OSError:
            raise NotToldError(f"no admin server at {where}") from None
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        try:
            values = json.loads(body)
        except ValueError:
            values = None
        # Somebody else may be there.
        if not isinstance(values, dict) or "command" not in values:
            raise NotToldError(f"no admin server at {where}")
        if values.get("error"):
            raise NotToldError(str(values["error"]))
        return AdminAnswer(values, _date(lines))


async def _exchange(stream: ByteStream, question: bytes) -> bytes:
    """Everything that comes back until the other end closes, or is cut off.

    Raises:
        NotToldError: it is more than anybody can want.
    """
    answer = bytearray()
    try:
        await stream.send(question)
        while True:
            answer += await stream.receive()
            if len(answer) > MOST_BYTES:
                raise NotToldError("says too much")
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return bytes(answer)


def _date(headers: list[str]) -> float | None:
    for line in headers:
        name, _, value = line.partition(":")
        if name.lower() == "date":
            try:
                return parsedate_to_datetime(value.strip()).timestamp()
            except ValueError:
                return None
    return None


def by_colon(answer: str) -> dict[str, str]:
    """`Name: value` on each line, as `srvr` has it."""
    lines = (line.partition(": ") for line in answer.splitlines())
    return {name: value for name, colon, value in lines if colon}


def by_equals(answer: str) -> dict[str, str]:
    """`name=value` on each line, as `conf` has it."""
    lines = (line.partition("=") for line in answer.splitlines())
    return {name: value for name, equals, value in lines if equals}


def by_tab(answer: str) -> dict[str, str]:
    """Name, tab, value, as `mntr` has it, without the prefix `zk_`."""
    lines = (line.partition("\t") for line in answer.splitlines())
    return {name.removeprefix("zk_"): value for name, tab, value in lines if tab}


_SESSION = re.compile(r"^\s*0x([0-9a-f]{1,16})\b", re.MULTILINE)
_CONNECTED = re.compile(r"^ /(\S+?)\[[0-9a-f]+\]\(.*?\bsid=0x([0-9a-f]{1,16}),", re.MULTILINE)


def sessions_in_dump(answer: str) -> set[int]:
    """The sessions that `dump` says are alive."""
    return {_id(number) for number in _SESSION.findall(answer.partition("ephemeral nodes")[0])}


def sessions_in_cons(answer: str) -> dict[int, str]:
    """The sessions that `cons` says are connected, with the addresses of their clients."""
    return {_id(number): address for address, number in _CONNECTED.findall(answer)}


def _id(text: str) -> int:
    """A session id as clients know it: signed. The first byte is the number of a server."""
    number = int(text, 16)
    return number - (number >> 63 << 64)
