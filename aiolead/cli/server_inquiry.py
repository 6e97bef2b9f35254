"""Asking servers about themselves: by four-letter words, or through their admin server.

A word is the first thing on a connection, which the server closes after the answer. All servers
answer `srvr` by default; `4lw.commands.whitelist` enables others. The admin server has their
content by HTTP: over TLS where the client's port is, unless asked to do without.

Answers are untrusted: they are bounded in size, lines and time, and parsed in linear time, so that
the event loop, and with it signals, have their turn.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from .. import TLS
from .._util import parsing
from .._util.name_lookup import look_up
from .._util.parsing import MalformedError
from .._util.racing import by_family, open_first
from ..paths import format_host

MOST_BYTES = 16 * 1024 * 1024
"""Longest answer to a word that is read: `cons` and `dump` of a server with many clients."""
MOST_ADMIN_BYTES = 1024 * 1024
"""Longest answer of an admin server that is read."""
MOST_LINES = 100_000
"""Most lines of an answer that are read."""
LONGEST_LINE = 64 * 1024
"""Longer lines are skipped: no server writes one."""
LONGEST_REASON = 200
"""Most characters of a server's error that are kept."""
MOST_FIELDS = 32
"""Most fields of a line of `cons` that are read; servers write about twenty."""

PATH_LENGTH = 4
"""Bytes of a path in the transaction that ends a session, beside its text."""

_REFUSED = "is not executed because it is not in the whitelist"
_NOT_SERVING = "This ZooKeeper instance is not currently serving requests"


class NotToldError(Exception):
    """A server does not answer a question. The message says why."""


class NotServingError(NotToldError):
    """A server is up, and looks for a leader: it serves nothing until there is one."""


@final
@dataclass(frozen=True, slots=True, order=True)
class ServerAddress:
    """Host (name or address, as given) and client port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_host(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The connection of a session, as its server sees it.

    `received` counts the packets that came over it; `timeout` is the session's, in seconds, and 0
    if the server does not say it.
    """

    address: str = ""
    received: int = 0
    timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """An admin server's `values` as text, and its clock in seconds since 1970, if known."""

    values: Mapping[str, str]
    date: float | None


@final
class Inquirer:
    """Asks servers, with `patience` seconds for each answer.

    `tls` is for the client port; None for plain text. With `admin_port` 0, admin servers are not
    asked; with `admin_plain_http`, they are asked without TLS even if `tls` is given.
    """

    def __init__(
        self, tls: TLS | None, patience: float, admin_port: int, *, admin_plain_http: bool = False
    ) -> None:
        self.patience: float = patience
        self._admin_port = admin_port
        self._admin_plain_http = admin_plain_http
        self._hostname = None if tls is None else tls.server_hostname
        self._context = None if tls is None else tls.load()

    @property
    def is_encrypted(self) -> bool:
        return self._context is not None

    async def word(self, server: ServerAddress, word: str) -> str:
        """Send a four-letter word; return the answer.

        Raises `NotToldError` if the server does not say, `OSError` if it is not reached in time.
        """
        with anyio.fail_after(self.patience):
            async with await self.connect(server) as stream:
                answer = parsing.lossy_text(await _exchange(stream, word.encode(), MOST_BYTES))
        if _REFUSED in answer:
            raise NotToldError(f"{word} is not in 4lw.commands.whitelist")
        if answer.startswith(_NOT_SERVING):
            raise NotServingError("up, looking for a leader")
        if not answer:
            raise NotToldError(f"says nothing to {word}")
        return answer

    async def connect(self, server: ServerAddress, address: str | None = None) -> ByteStream:
        """Connect to the client port (at `address`); raises `OSError`, also `ssl.SSLError`."""
        return await self._open(server, address or server.host, server.port, self._context)

    async def speaks_tls(self, server: ServerAddress) -> bool:
        """Whether a server answers a TLS handshake; nothing else is said, and nothing verified."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with anyio.fail_after(self.patience):
                stream = await self._open(server, server.host, server.port, context)
                await anyio.aclose_forcefully(stream)
        except ssl.SSLError as error:
            return "ALERT" in tls_reason(error)  # it refuses us, by the rules of TLS
        except OSError:
            return False
        return True

    async def _open(
        self, server: ServerAddress, address: str, port: int, context: ssl.SSLContext | None
    ) -> ByteStream:
        # The ensemble's configuration may contain anything.
        if not 0 < port <= 65535:
            raise OSError(f"{port} is no port")
        try:
            stream = await _connect_tcp(address, port)
        except ValueError as error:
            raise OSError(f"is no host name: {error}") from None  # the resolver does not take it
        if context is None:
            return stream
        hostname = self._hostname or server.host.partition("%")[0].removesuffix(".")
        try:
            return await TLSStream.wrap(
                stream, hostname=hostname, ssl_context=context, standard_compatible=False
            )
        except BaseException as error:
            # A handshake that fails does not close the connection.
            await anyio.aclose_forcefully(stream)
            if isinstance(error, _CLOSED):
                raise ssl.SSLError("the connection was closed during the handshake") from error
            raise

    async def admin(self, server: ServerAddress, command: str) -> AdminAnswer:
        """Send a command, such as `monitor`, to the admin server; raises `NotToldError`."""
        if not self._admin_port:
            raise NotToldError("the admin server is not asked (--admin-port)")
        where, context = format_host(server.host, self._admin_port), self._context
        nobody = f"no admin server at {where}"
        if self._admin_plain_http:
            context = None
        elif context is not None:
            nobody = f"no admin server at https://{where} (--admin-plain-http: ask without TLS)"
        request = f"GET /commands/{command} HTTP/1.0\r\nHost: {where}\r\n\r\n"
        try:
            with anyio.fail_after(self.patience):
                async with await self._open(
                    server, server.host, self._admin_port, context
                ) as stream:
                    answer = await _exchange(stream, request.encode(), MOST_ADMIN_BYTES)
        except OSError:
            raise NotToldError(nobody) from None
        parsed = admin_answer(answer)
        if parsed is None:
            raise NotToldError(nobody)
        return parsed


def tls_reason(error: ssl.SSLError) -> str:
    """The name that OpenSSL gives to an error; empty if the error is not OpenSSL's."""
    return getattr(error, "reason", None) or ""


_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The reports that the other end hung up, which depend on the version of OpenSSL."""


async def _connect_tcp(host: str, port: int) -> ByteStream:
    """Connect to a name or an address; unlike anyio's, a lookup keeps no event loop from ending."""
    failures: list[OSError] = []

    async def open_at(address: str) -> ByteStream | None:
        try:
            return await anyio.connect_tcp(address, port)
        except OSError as error:
            failures.append(error)
            return None

    addresses = by_family(await look_up(host, port))
    open_group: Any = anyio.create_task_group  # mypy does not see that it fits
    opened = await open_first(addresses, open_at, open_group)
    if opened is None:
        raise failures[0]
    return opened[1]


async def _exchange(stream: ByteStream, question: bytes, most: int) -> bytes:
    """Everything until the other end closes; raises `NotToldError` for more than `most` bytes."""
    answer = bytearray()
    try:
        await stream.send(question)
        while True:
            answer += await stream.receive()
            if len(answer) > most:
                raise NotToldError("says too much")
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return bytes(answer)


# --- parsing -------------------------------------------------------------------------------------


def admin_answer(answer: bytes) -> AdminAnswer | None:
    """Parse an admin server's answer, or raise its error; None if another program has answered."""
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        values = parsing.json_object(body)
    except MalformedError:
        return None
    if "command" not in values:
        return None
    if values.get("error"):
        raise NotToldError(str(values["error"])[:LONGEST_REASON])
    plain = {
        name: str(value) for name, value in values.items() if isinstance(value, str | int | float)
    }
    return AdminAnswer(plain, _date(head.decode("latin-1").split("\r\n")))


def _date(headers: list[str]) -> float | None:
    for line in headers:
        name, _, value = line.partition(":")
        if name.lower() == "date":
            try:
                return parsing.http_date(value.strip())
            except MalformedError:
                return None
    return None


# All below raise `NotToldError` for an answer of too many lines.


def pairs_in(answer: str, word: str) -> dict[str, str]:
    """The names and values of an answer, one on each line, as a word has them."""
    separator = _SEPARATORS[word]
    found = (line.partition(separator) for line in _lines(answer))
    # `mntr` has this prefix, the admin server has not.
    return {name.removeprefix("zk_"): value for name, is_there, value in found if is_there}


_SEPARATORS = {"srvr": ": ", "conf": "=", "mntr": "\t"}


def sessions_in_dump(answer: str) -> set[int]:
    """The sessions that are alive, by `dump`."""
    sessions: set[int] = set()
    for line in _lines(answer.partition("ephemeral nodes")[0]):
        for word in line.split(maxsplit=1)[:1]:
            if (number := _session(word)) is not None:
                sessions.add(number)
    return sessions


def ephemerals_in_dump(answer: str) -> dict[int, int]:
    """The bytes of the paths of each session's ephemeral znodes together, by `dump`."""
    sizes: dict[int, int] = {}
    session: int | None = None
    is_said = False
    for line in _lines(answer):
        is_said = is_said or line.startswith("ephemeral nodes")
        if not is_said:
            continue
        if not line.startswith("\t"):
            session = _session(line.removesuffix(":"))
        elif session is not None:
            sizes[session] = sizes.get(session, 0) + PATH_LENGTH + len(line[1:].encode())
    return sizes


def sessions_in_cons(answer: str) -> dict[int, ClientConnection]:
    """The sessions that are connected, with their connections, by `cons`.

    A line is ` /ADDRESS:PORT[INTEREST](queued=0,recved=9,...,sid=0x...,...,to=10000,...)`. No
    address has a parenthesis.
    """
    sessions: dict[int, ClientConnection] = {}
    for line in _lines(answer):
        head, parenthesis, rest = line.partition("](")
        address, bracket, _ = head.rpartition("[")
        if not (parenthesis and bracket and address.startswith(" /")):
            continue
        pairs = (field.partition("=") for field in rest.removesuffix(")").split(",", MOST_FIELDS))
        said = {name: value for name, is_there, value in pairs if is_there}
        if (number := _session(said.get("sid", ""))) is not None:
            received, timeout = count_in(said, "recved") or 0, count_in(said, "to") or 0
            sessions[number] = ClientConnection(address[2:], received, timeout / 1000)
    return sessions


def count_in(said: Mapping[str, str], name: str) -> int | None:
    """A non-negative number of an answer; None if there is none."""
    try:
        return parsing.whole(said.get(name, ""), least=0)
    except MalformedError:
        return None


def _lines(answer: str) -> Iterator[str]:
    if answer.count("\n") > MOST_LINES:
        raise NotToldError("says too much")
    for line in answer.split("\n"):
        if len(line) <= LONGEST_LINE:
            yield line.removesuffix("\r")


def _session(text: str) -> int | None:
    """A session id, signed as clients know it."""
    if not text.startswith("0x"):
        return None
    try:
        number = parsing.hexadecimal(text)
    except MalformedError:
        return None
    return number - (number >> 63 << 64)
