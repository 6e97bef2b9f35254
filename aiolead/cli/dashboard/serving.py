"""Serving the page with uvicorn, and keeping what it shows up to date."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast, final
from urllib.parse import quote

import anyio
import uvicorn
from anyio.abc import SocketAttribute
from uvicorn.protocols.http.h11_impl import H11Protocol

from ... import Client, Config
from ...paths import format_host
from ...types import ConfigVersion
from .. import exits
from ..batches import read_each
from ..exits import CommandError
from ..scene_feed import Feed
from ..signals import first_of
from .connections import BrowserConnections
from .doors import Doors, is_everywhere
from .site import PATIENCE, make_site
from .state_stream import StateStream

LONGEST_REQUEST = 16 * 1024
"""The longest request, with its headers, in bytes."""
PIECE = 4096
WIND_UP = 1
"""Time for answers that are under way at the end, in seconds."""


class BrowserProtocol(H11Protocol):
    """uvicorn's HTTP on connections that are counted, and that send their requests in time."""

    def __init__(self, connections: BrowserConnections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._connections = connections
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self._connection = self._connections.open(address, transport.abort)
        self.app_state: dict[str, Any] = {"connection": self._connection}
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        # In pieces: h11 compares only a request that is incomplete with the limit.
        for at in range(0, len(data), PIECE):
            if not self.transport.is_closing():
                super().data_received(data[at : at + PIECE])
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.close(self._connection)
        if self._patience is not None:
            self._patience.cancel()

    def _wait_for_request(self) -> None:
        """Have the rest of a request come within `PATIENCE`."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and self._patience is not None:
            self._patience.cancel()
            self._patience = None
        elif not is_answering and self._patience is None:
            self._patience = self.loop.call_later(PATIENCE, self.transport.abort)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the command does so itself


@final
class DashboardServer:
    def __init__(self, client: Client, feed: Feed) -> None:
        self._feed = feed

        async def read_history(path: str) -> Sequence[ConfigVersion]:
            return await Config(client, path).history()

        async def read_data(paths: Sequence[str]) -> Mapping[str, bytes]:
            found = {path: one async for path, one in read_each(paths, client.get)}
            return {path: one[0] for path, one in found.items() if isinstance(one, tuple)}

        self._stream = StateStream(feed.scene, feed.clock, read_history, read_data)

    async def serve(
        self,
        host: str,
        port: int,
        names: Sequence[str],
        token: str | None,
        made_up: str | None,
        *,
        show: Callable[[dict[str, str], str], object],
        notify: Callable[[str], object],
    ) -> None:
        """Serve until cancelled; `show` prints the address, as JSON or text.

        `names` are other names that browsers may ask for. A `token` is a secret of the user's. One
        that was `made_up` in its place is part of the address that `notify` gets. Raises
        `CommandError` if it cannot listen, and the errors of `Feed.run`.
        """
        sockets = await _listen(host, port)
        own = host
        if is_everywhere(host):
            own = socket.gethostname()
            names = [*names, own, f"{own}.local"]
        bound = int(sockets[0].getsockname()[1])
        doors = Doors(host, bound, names=names, token=token or made_up)
        url = f"http://{format_host(own, bound)}/"
        show({"url": url}, url)
        if made_up is not None:
            # Not on standard output, which supervisors and scripts keep.
            notify(f"open {url}?token={quote(made_up, safe='')}")
        serve = partial(self._serve, doors, sockets)
        await first_of(self._feed.run, self._pass_on, serve)

    async def _serve(self, doors: Doors, sockets: list[socket.socket]) -> None:
        """Serve until cancelled; then end all answers."""
        connections = BrowserConnections()
        protocol = partial(BrowserProtocol, connections)
        config = uvicorn.Config(
            make_site(doors, connections, self._stream),
            http=cast("type[asyncio.Protocol]", protocol),
            ws="none",
            lifespan="off",
            # uvicorn logs each malformed request; `site` logs errors.
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_REQUEST,
            timeout_keep_alive=PATIENCE,
            timeout_graceful_shutdown=WIND_UP,
        )
        server = _Server(config)
        try:
            await server.serve(sockets)
        finally:
            self._stream.end()
            with anyio.move_on_after(2 * WIND_UP, shield=True):
                if server.started:
                    await server.shutdown(sockets)

    async def _pass_on(self) -> None:
        revision = -1
        while True:
            revision = await self._feed.changed(revision)
            self._stream.changed()


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Sockets on all addresses of a host; port 0 takes a free one."""
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(
            f"cannot listen on {format_host(host, port)}: {why} (see: --listen)", exits.FAILED
        ) from None
    async with listener:
        return [
            each.extra(SocketAttribute.raw_socket).dup()  # noqa: S610 - of anyio, not Django
            for each in listener.listeners
        ]
