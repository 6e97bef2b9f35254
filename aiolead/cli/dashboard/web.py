"""HTTP/1.1 for a few read-only pages: h11 on anyio's sockets, so on every event loop.

Takes GET and HEAD without bodies. Every wait is bounded; `connections.py` bounds connections.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import final
from urllib.parse import parse_qs

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream

from ..._logging import get_logger
from ..first_of import first_of
from .connections import BrowserConnection, BrowserConnections

logger: logging.Logger = get_logger("aiolead.dashboard")

PATIENCE = 10.0
"""Time for a client to send a request, and to take each piece of an answer, in seconds."""
IDLE = 60.0
"""How long an idle connection is kept, in seconds, if its last request was admitted."""
LONGEST_REQUEST = 16 * 1024
"""The longest request, with its headers, in bytes."""

Send = Callable[[bytes], Awaitable[None]]
Push = Callable[[Send], Awaitable[None]]
"""Sends an answer piece by piece; cancelled when the client disconnects."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only what we serve ourselves, nothing inline, and no text that becomes markup or a script."""
ALWAYS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request that came in at our `address`.

    Nothing in `path` is decoded. `headers` have lower-case names; of several, the last counts.
    """

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    address: str


@dataclass(frozen=True, slots=True)
class HTTPAnswer:
    """An answer; `content` is the body, or sends it piece by piece.

    `headers` go beside `ALWAYS`. The connection of an admitted request has priority.
    """

    status: HTTPStatus
    content: bytes | Push = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = field(default=())
    is_admitted: bool = False


_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError)

_BUSY = HTTPAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    b"There are too many connections.\n",
    headers=(("Retry-After", "10"),),
)


@final
class Web:
    """Serves connections; `answer` gives the answer to a request."""

    def __init__(self, answer: Callable[[HTTPRequest], HTTPAnswer]) -> None:
        self._answer = answer
        self._connections = BrowserConnections()

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection, until it ends or has to make room for another one."""
        scope = anyio.CancelScope()
        address = stream.extra(SocketAttribute.remote_address, ("",))  # noqa: S610 - of anyio
        connection = self._connections.open(str(address[0]), scope.cancel)
        try:
            async with stream:
                with scope:
                    await _Conversation(stream, self._answer, self._connections, connection).run()
        except _GONE:
            return  # clients disconnect, and some are slow
        except Exception:
            logger.exception("a connection was given up")
        finally:
            self._connections.close(connection)


@final
class _Conversation:
    """The requests and answers of one connection."""

    def __init__(
        self,
        stream: SocketStream,
        answer: Callable[[HTTPRequest], HTTPAnswer],
        connections: BrowserConnections,
        connection: BrowserConnection,
    ) -> None:
        self._stream = stream
        self._answer = answer
        self._connections = connections
        self._connection = connection
        self._address = stream.extra(SocketAttribute.local_address)  # noqa: S610 - of anyio
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_REQUEST)

    async def run(self) -> None:
        http, patience = self._http, PATIENCE
        try:
            while await self._one_request(patience):
                http.start_next_cycle()
                patience = IDLE if self._connection.is_admitted else PATIENCE
        except h11.RemoteProtocolError as error:
            if http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                why = HTTPStatus(error.error_status_hint)
                await self._respond(HTTPAnswer(why, f"{why.phrase}\n".encode()), is_head=False)

    async def _one_request(self, patience: float) -> bool:
        """Answer one request; return whether another one may follow."""
        http = self._http
        with anyio.fail_after(patience):
            request = await self._next()
        if not isinstance(request, h11.Request):
            return False
        with anyio.fail_after(PATIENCE):
            # No request here needs a body: the connection is closed after one that has.
            whole = isinstance(await self._next(), h11.EndOfMessage)
        method = request.method
        if method not in (b"GET", b"HEAD"):
            answer = HTTPAnswer(
                HTTPStatus.METHOD_NOT_ALLOWED,
                b"This can only be read.\n",
                headers=(("Allow", "GET, HEAD"),),
            )
        else:
            answer = self._ask(request)
        if not answer.is_admitted:
            self._connections.reject(self._connection)
        elif not self._connections.admit(self._connection):
            answer, whole = _BUSY, False
        await self._respond(answer, is_head=method == b"HEAD", is_last=not whole)
        self._connections.rest(self._connection)
        return whole and http.our_state is h11.DONE and http.their_state is h11.DONE

    def _ask(self, request: h11.Request) -> HTTPAnswer:
        path, _, query = request.target.decode("ascii").partition("?")
        try:
            values = parse_qs(query, max_num_fields=16)
        except ValueError:
            return HTTPAnswer(HTTPStatus.BAD_REQUEST, b"Bad Request\n")
        try:
            return self._answer(
                HTTPRequest(
                    path,
                    {name: each[-1] for name, each in values.items()},
                    {
                        name.decode("ascii"): value.decode("latin-1")
                        for name, value in request.headers
                    },
                    str(self._address[0]),
                )
            )
        except Exception:
            logger.exception("%s could not be answered", path)
            return HTTPAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, b"Internal Server Error\n")

    async def _next(self) -> object:
        http = self._http
        while (event := http.next_event()) is h11.NEED_DATA:
            try:
                data = await self._stream.receive(4096)
            except anyio.EndOfStream:
                data = b""
            http.receive_data(data)
        return event

    async def _respond(self, answer: HTTPAnswer, *, is_head: bool, is_last: bool = True) -> None:
        headers = [*ALWAYS, ("Content-Type", answer.content_type), *answer.headers]
        content = answer.content
        if isinstance(content, bytes):
            headers.append(("Content-Length", str(len(content))))
        if is_last:
            headers.append(("Connection", "close"))
        head = h11.Response(
            status_code=answer.status, reason=answer.status.phrase.encode(), headers=headers
        )
        await self._send(self._http.send(head))
        if is_head:
            pass
        elif isinstance(content, bytes):
            await self._send(self._http.send(h11.Data(data=content)))
        else:
            await self._push(content)
        await self._send(self._http.send(h11.EndOfMessage()))

    async def _push(self, push: Push) -> None:
        # A listener sends nothing until it disconnects.
        with suppress(*_GONE):
            await first_of(
                partial(self._stream.receive, 1024),
                lambda: push(lambda data: self._send(self._http.send(h11.Data(data=data)))),
            )
        raise anyio.BrokenResourceError  # such an answer has no regular end

    async def _send(self, data: bytes | None) -> None:
        if data:
            with anyio.fail_after(PATIENCE):
                await self._stream.send(data)
