"""The pages and the state that the dashboard serves, and to whom. It serves nothing else."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import final

import anyio
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..._util.escaping import get_logger
from .connections import BrowserConnection, BrowserConnections
from .doors import Doors
from .state_stream import StateStream

logger: logging.Logger = get_logger("aiolead.dashboard")

PATIENCE = 10
"""Time for a client to send a request, and to take each piece of an answer, in seconds."""

_HTML, _JS = "text/html", "text/javascript"
_PAGES = {
    "/": ("dashboard.html", _HTML),
    "/dashboard.css": ("dashboard.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        f"/{name}.js": (f"{name}.js", _JS)
        for name in ("dashboard", "detail", "elements", "table", "timeline")
    },
}
_FOR_ALL = ("/dashboard.css", "/icon.svg")
"""Needed by the page that asks for the token."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only what we serve ourselves, nothing inline, and no text that becomes markup or a script."""
ALWAYS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Endpoint = Callable[[Request], Awaitable[Response]]


def make_site(doors: Doors, connections: BrowserConnections, stream: StateStream) -> ASGIApp:
    """The whole of it, for connections whose scope has their `BrowserConnection`."""

    async def state(_: Request) -> Response:
        return Response(stream.snapshot(), media_type="application/json")

    async def queue(request: Request) -> Response:
        found = await stream.queue(request.query_params.get("key", ""))
        if found is None:
            return _plain(HTTPStatus.NOT_FOUND, "There is no such queue.")
        return Response(found, media_type="application/json")

    async def events(request: Request) -> Response:
        # Some proxies would buffer it.
        headers, kind = {"X-Accel-Buffering": "no"}, "text/event-stream"
        if request.method == "HEAD":
            return Response(headers=headers, media_type=kind)
        is_last = connections.stream(_connection_of(request.scope), request.scope["state"]["user"])
        # Of a user who has as many as possible, one that is dropped shall not push out another.
        found = stream.events(retry=5.0 if is_last else 1.0)
        return StreamingResponse(found, headers=headers, media_type=kind)

    async def missing(_: Request, __: Exception) -> Response:
        return _plain(HTTPStatus.NOT_FOUND, "There is no such page.")

    routes = [Route("/state", state), Route("/queue", queue), Route("/events", events)]
    routes += [Route(path, _page(*page)) for path, page in _PAGES.items()]
    site = Starlette(
        routes=routes,
        middleware=[
            Middleware(RequestGuard, doors=doors, connections=connections),
            Middleware(GZipMiddleware, minimum_size=1024),
        ],
        exception_handlers={HTTPStatus.NOT_FOUND: missing},
    )
    site.router.redirect_slashes = False
    return site


@final
class RequestGuard:
    """Decides whom to answer, and has every answer taken within `PATIENCE`."""

    def __init__(self, app: ASGIApp, doors: Doors, connections: BrowserConnections) -> None:
        self._app = app
        self._doors = doors
        self._connections = connections
        self._token_page = _read("token.html")
        self._wrong_token_page = self._token_page.replace(
            b"<p hidden", b'<p class="bad" role="alert"'
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = _connection_of(scope)

        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(ALWAYS)
            with anyio.move_on_after(PATIENCE) as patience:
                await send(message)
            if patience.cancelled_caught:
                connection.drop()

        request = Request(scope)
        is_admitted, answer = self._judge(request)
        if not is_admitted:
            self._connections.reject(connection)
        elif not self._connections.admit(connection):
            answer = _plain(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "There are too many connections.",
                {"Retry-After": "10", "Connection": "close"},
            )
        try:
            await (answer or self._app)(scope, receive, send_in_time)
        except Exception:
            logger.exception("%s could not be answered", request.url.path)
            connection.drop()
        finally:
            self._connections.rest(connection)

    def _judge(self, request: Request) -> tuple[bool, Response | None]:
        """Whether a request is admitted, and the answer; None if that is the page asked for."""
        headers, doors, path = request.headers, self._doors, request.scope["path"]
        if request.method not in ("GET", "HEAD"):
            text = "This can only be read."
            return False, _plain(HTTPStatus.METHOD_NOT_ALLOWED, text, {"Allow": "GET, HEAD"})
        if not doors.knows(headers.get("host", ""), request.scope["server"][0]):
            return False, _plain(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This is not the host that you asked for (--allow-host makes it one).",
            )
        if doors.is_locked and path == "/" and "token" in request.query_params:
            if not doors.opens_to(request.query_params["token"]):
                return False, self._ask_for_token(path, is_wrong=True)
            # The cookie, and an address without the token.
            moved = RedirectResponse("./", HTTPStatus.SEE_OTHER)
            name, value = doors.cookie_name, doors.new_cookie()
            moved.set_cookie(name, value, path=None, httponly=True, samesite="lax")
            return True, moved
        user = doors.user_of(headers.get("authorization", ""), headers.get("cookie", ""))
        request.scope["state"]["user"] = user
        if user is not None or path in _FOR_ALL:
            return user is not None, None
        return False, self._ask_for_token(path)

    def _ask_for_token(self, path: str, *, is_wrong: bool = False) -> Response:
        how = {"WWW-Authenticate": 'Bearer realm="aiolead"'}
        if path == "/":
            page = self._wrong_token_page if is_wrong else self._token_page
            return Response(page, HTTPStatus.UNAUTHORIZED, how, _HTML)
        return _plain(HTTPStatus.UNAUTHORIZED, "The token is required.", how)


def _connection_of(scope: Scope) -> BrowserConnection:
    found: BrowserConnection = scope["state"]["connection"]
    return found


def _page(name: str, kind: str) -> Endpoint:
    content = _read(name)

    async def page(_: Request) -> Response:
        return Response(content, media_type=kind)

    return page


def _read(name: str) -> bytes:
    return (files("aiolead.cli.dashboard") / "pages" / name).read_bytes()


def _plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers)
