"""What the dashboard serves: its page, and the state that this shows. Nothing else, ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from importlib.resources import files
from typing import final

from .doors import Doors
from .web import HTTPAnswer, HTTPRequest, Push

_HTML = "text/html; charset=utf-8"
_PAGES = {
    "/": ("dashboard.html", _HTML),
    "/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/timeline.js": ("timeline.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_FOR_ALL = ("/dashboard.css", "/icon.svg")
"""Needed by the page that asks for the token."""
STATE, EVENTS = "/state", "/events"


@final
class Site:
    """Answers requests that `doors` admits; `state` is the state as JSON, `follow` streams it."""

    def __init__(self, doors: Doors, state: Callable[[], bytes], follow: Push) -> None:
        self._doors = doors
        self._state = state
        self._follow = follow
        folder = files("aiolead.cli.dashboard") / "pages"
        self._pages = {
            path: HTTPAnswer(HTTPStatus.OK, (folder / name).read_bytes(), kind)
            for path, (name, kind) in _PAGES.items()
        }
        self._token_page = (folder / "token.html").read_bytes()

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        headers, doors = request.headers, self._doors
        host = headers.get("host", "")
        if not doors.knows(host, request.address):
            return _plain(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This is not the host that you asked for (--allow-host makes it one).",
            )
        path = request.path
        if doors.is_locked and path == "/" and "token" in request.query:
            return self._unlock(request.query["token"])
        is_admitted = doors.admits(headers.get("authorization", ""), headers.get("cookie", ""))
        if path not in _FOR_ALL and not is_admitted:
            return self._ask(path)
        return replace(self._serve(path), is_admitted=is_admitted)

    def _serve(self, path: str) -> HTTPAnswer:
        """The answer to an admitted request."""
        if path == STATE:
            return HTTPAnswer(HTTPStatus.OK, self._state(), "application/json")
        if path == EVENTS:
            # Some proxies would buffer it.
            now = (("X-Accel-Buffering", "no"),)
            return HTTPAnswer(HTTPStatus.OK, self._follow, "text/event-stream", now)
        return self._pages.get(path) or _plain(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _unlock(self, token: str) -> HTTPAnswer:
        """Set the cookie, and redirect to an address without the token."""
        doors = self._doors
        if not doors.opens_to(token):
            return self._ask("/")
        cookie = f"{doors.cookie_name}={doors.cookie_value}; HttpOnly; SameSite=Lax"
        headers = (("Location", "./"), ("Set-Cookie", cookie))
        return HTTPAnswer(HTTPStatus.SEE_OTHER, headers=headers, is_admitted=True)

    def _ask(self, path: str) -> HTTPAnswer:
        how = ("WWW-Authenticate", 'Bearer realm="aiolead"')
        if path == "/":
            return HTTPAnswer(HTTPStatus.UNAUTHORIZED, self._token_page, _HTML, (how,))
        return HTTPAnswer(HTTPStatus.UNAUTHORIZED, b"It takes the token.\n", headers=(how,))


def _plain(status: HTTPStatus, text: str) -> HTTPAnswer:
    return HTTPAnswer(status, f"{text}\n".encode())
