"""Serving the page, and keeping what it shows up to date."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final
from urllib.parse import quote

import anyio
from anyio.abc import SocketAttribute

from ... import Client
from ...errors import AioleadError
from ...paths import format_host
from .. import exits
from ..exits import CommandError
from ..first_of import first_of
from ..scene_feed import Feed
from ..server_inquiry import Inquirer, ServerAddress
from ..server_survey import ask_all, quorum_of
from .doors import Doors, is_everywhere
from .site import Site
from .state import EnsembleHealth, as_state
from .web import Send, Web

ASK_EVERY = 5.0
"""Time between two inquiries about the servers' health, in seconds."""
BEAT = 5.0
"""Time after which listeners get a sign of life if nothing is new, in seconds."""
PAUSE = 0.1
"""Least time between two states, in seconds."""


@final
class StateStream:
    """Sends the newest state to all listeners as server-sent events; it is made once for all.

    A slow listener misses states, but never the last one. `clock` is that of the state's times.
    """

    def __init__(self, make: Callable[[], dict[str, Any]], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._version = 0
        self._made: tuple[int, bytes] = (-1, b"")
        self._news = anyio.Event()

    def changed(self) -> None:
        """There is a new state; it is made when somebody wants it."""
        self._version += 1
        self._news.set()
        self._news = anyio.Event()

    def state(self) -> bytes:
        """The state as it is now, as JSON on one line."""
        version, state = self._made
        if version != self._version:
            # ASCII: a path may be no valid Unicode.
            state = json.dumps(self._make(), separators=(",", ":")).encode("ascii")
            self._made = self._version, state
        return state

    async def follow(self, send: Send) -> None:
        """Send the state, and again after each change, until cancelled."""
        # Makes the browser reconnect soon.
        await send(b"retry: 1000\n\n")
        sent = -1
        while True:
            if sent != self._version:
                sent = self._version
                await send(b"event: state\ndata: %s\n\n" % self.state())
                await anyio.sleep(PAUSE)
            news = self._news
            if sent == self._version:
                with anyio.move_on_after(BEAT) as waiting:
                    await news.wait()
                if waiting.cancelled_caught:
                    await send(b"event: beat\ndata: %.3f\n\n" % self._clock())


@final
class DashboardServer:
    """Serves the page, and keeps what it shows up to date."""

    def __init__(
        self,
        client: Client,
        feed: Feed,
        inquirer: Inquirer,
        servers: Sequence[ServerAddress],
    ) -> None:
        self._client = client
        self._feed = feed
        self._inquirer = inquirer
        self._servers = servers
        self._health: EnsembleHealth | None = None
        self._stream = StateStream(
            lambda: as_state(feed.scene, self._health, feed.clock()), feed.clock
        )

    async def serve(
        self,
        host: str,
        port: int,
        names: Sequence[str],
        token: str | None,
        *,
        show: Callable[[dict[str, str], str], object],
    ) -> None:
        """Serve until cancelled; `show` prints the address, as JSON or text.

        `names` are other names that browsers may ask for. Raises `CommandError` if it cannot
        listen, and the errors of `Feed.run`.
        """
        stream = self._stream
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except OSError as error:
            why = error.strerror or str(error)
            raise CommandError(
                f"cannot listen on {format_host(host, port)}: {why} (see: --listen)", exits.FAILED
            ) from None
        own = host
        if is_everywhere(host):
            own = socket.gethostname()
            names = [*names, own, f"{own}.local"]
        async with listener:
            bound = int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - of anyio, not Django
            doors = Doors(host, bound, names=names, token=token)
            web = Web(Site(doors, stream.state, stream.follow).answer)
            url = f"http://{format_host(own, bound)}/"
            if token is not None:
                url += f"?token={quote(token, safe='')}"
            show({"url": url}, url)
            serve = partial(listener.serve, web.serve)
            await first_of(self._feed.run, self._pass_on, self._ask, serve)

    async def _ask(self) -> None:
        """Ask the servers about their health, again and again."""
        while True:
            answers = await ask_all(self._inquirer, self._servers)
            config = None
            with anyio.move_on_after(ASK_EVERY):
                try:
                    config = await self._client.get_config()
                except AioleadError:
                    config = None
            quorum = quorum_of(answers, config)
            self._health = EnsembleHealth(self._feed.clock(), answers, quorum)
            self._stream.changed()
            await anyio.sleep(ASK_EVERY)

    async def _pass_on(self) -> None:
        revision = -1
        while True:
            revision = await self._feed.changed(revision)
            self._stream.changed()
