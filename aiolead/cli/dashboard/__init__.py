"""`aiolead dashboard`: a live web page of leaders and contenders.

This module is the command; `serving` runs it, with uvicorn; `connections` bounds connections,
`doors` decides whom to answer, `site` is the Starlette application, `state` a scene as JSON,
`state_stream` its changes; `pages` has the page itself. Nothing here writes to the servers.
"""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from ... import Client
from ...errors import ConfigurationError
from ..environment import variable
from ..options import COMMON, Common, Port, ZnodePath, listening_address
from ..scene_feed import SCENE, Feed, SceneOptions
from ..server_survey import INQUIRY, InquiryOptions, all_servers, listed_servers

SHORTEST_TOKEN = 16
"""In characters: too long to be guessed in time."""


def dashboard(
    *paths: ZnodePath,
    listen: str = "127.0.0.1:8764",
    port: Port | None = None,
    token: Annotated[str | None, Parameter(env_var=variable("AIOLEAD_DASHBOARD_TOKEN"))] = None,
    allow_host: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    scene: SceneOptions = SCENE,
    inquiry: InquiryOptions = INQUIRY,
    common: Common = COMMON,
) -> int:
    """Serve a live web page of leaders and contenders, until SIGINT or SIGTERM.

    It shows elections, locks and semaphores of any library: holders, waiters, the terms with the
    gaps between them, and the servers; and keeps itself up to date. It can only be looked at.

    Prints its address on standard output (with --json, in an object as "url"). It answers this
    machine alone, unless --listen says otherwise: then it takes a token. If none is given, it makes
    one up, and prints the address with the token on standard error. A given token is never printed.

    Args:
        paths: Paths to show: elections and locks, or paths above some. Default: /.
        listen: The address and the port to listen on; port 0 takes a free one.
        port: The port, instead of that of --listen.
        token: The secret that browsers must present, 16 characters or more. Every user of this
            machine can read a command line: prefer the environment variable.
        allow_host: A name besides that of --listen that browsers may ask for, as behind a proxy;
            several times for several of them.
        scene: The types and details to show.
        inquiry: How to ask servers.
        common: Where to connect.
    """
    from .doors import is_loopback

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ConfigurationError('the dashboard needs more: pip install "aiolead[dashboard]"')
    if common.backend != "asyncio":
        raise ConfigurationError("--backend: the dashboard's web server runs on asyncio alone")
    host, port = listening_address(listen, port)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(f"--token: must have {SHORTEST_TOKEN} characters or more")
    made_up = secrets.token_urlsafe(24) if token is None and not is_loopback(host) else None
    inquirer = inquiry.inquirer(common)
    listed = listed_servers(common)

    async def work(client: Client) -> None:
        from .serving import DashboardServer  # imports an HTTP server

        servers = await all_servers(client, listed, secure=inquirer.is_encrypted)
        feed = Feed(client, paths, scene, inquirer=inquirer, servers=servers)
        await feed.check_access()
        server = DashboardServer(client, feed)
        show, notify = common.show, common.reporter.notice
        await server.serve(host, port, allow_host, token, made_up, show=show, notify=notify)

    return common.with_client(work, endless=True)
