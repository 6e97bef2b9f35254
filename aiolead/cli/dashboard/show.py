"""What runs while the page is served."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import final
from urllib.parse import quote

import anyio
from anyio.abc import SocketAttribute

from ... import Client
from ...errors import AioleadError
from ...paths import format_host
from .. import exits
from ..exits import CommandError
from ..output import write_json, write_line
from ..roster import everybody
from ..scene import Feed
from ..survey import ask_all, quorum_of
from ..words import Inquirer, Server
from .doors import Doors, is_everywhere
from .live import Live
from .site import Site
from .state import Ensemble, as_state
from .web import Web

__all__ = ["Show"]

ASK_EVERY = 5.0
"""How often the servers are asked how they are, in seconds."""


@final
class Show:
    """Serves the page, and keeps what it shows up to date.

    Args:
        client: the session.
        paths: what to show.
        leaders: how many may lead at once.
        max_nodes: how many znodes there may be under each path.
        inquirer: asks the servers.
        servers: those of --hosts.
    """

    def __init__(
        self,
        client: Client,
        paths: Sequence[str],
        leaders: int,
        max_nodes: int,
        inquirer: Inquirer,
        servers: Sequence[Server],
    ) -> None:
        self._client = client
        self._paths = paths
        self._leaders = leaders
        self._max_nodes = max_nodes
        self._inquirer = inquirer
        self._servers = list(servers)
        self._ensemble: Ensemble | None = None

    async def serve(
        self, host: str, port: int, names: Sequence[str], token: str | None, *, as_json: bool
    ) -> None:
        """Serves, until it is cancelled.

        Args:
            host: the address to listen on.
            port: the port; 0 takes a free one.
            names: by what other names it may be asked for.
            token: what whoever looks must know.
            as_json: how to say where it is.

        Raises:
            CommandError: it cannot listen there.
            AioleadError: as `Feed.run`.
        """
        secure = self._inquirer.is_encrypted
        self._servers = await everybody(self._client, self._servers, secure=secure)
        feed = Feed(
            self._client,
            self._paths,
            leaders=self._leaders,
            max_nodes=self._max_nodes,
            inquirer=self._inquirer,
            servers=self._servers,
        )
        clock = feed.clock
        live = Live(lambda: as_state(feed.scene, self._ensemble, clock()), clock)
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
            web = Web(Site(doors, live.state, live.follow).answer)
            url = f"http://{format_host(own, bound)}/"
            if token is not None:
                url += f"?token={quote(token, safe='')}"

            async def work() -> None:
                if as_json:
                    write_json({"url": url})
                else:
                    write_line(url)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_pass_on, feed, live)
                    tasks.start_soon(self._ask, feed, live)
                    await listener.serve(web.serve)

            await feed.during(work)

    async def _ask(self, feed: Feed, live: Live) -> None:
        """Asks the servers how they are, again and again."""
        while True:
            answers = await ask_all(self._inquirer, self._servers)
            config = None
            with anyio.move_on_after(ASK_EVERY):
                try:
                    config = await self._client.get_config()
                except AioleadError:
                    config = None
            self._ensemble = Ensemble(feed.clock(), answers, quorum_of(answers, config))
            live.changed()
            await anyio.sleep(ASK_EVERY)


async def _pass_on(feed: Feed, live: Live) -> None:
    revision = -1
    while True:
        revision = await feed.changed(revision)
        live.changed()
