"""The command itself: what it is asked for."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from ... import Client
from ..._parsing import MalformedError, whole
from ...errors import ConfigurationError
from ...paths import parse_connect_string, validate
from .. import exits
from ..environment import variable
from ..options import COMMON, Common, Flag, Seconds
from ..roster import ADMIN_PORT, PATIENCE, inquirer_for
from ..words import Server

__all__ = ["dashboard"]

SHORTEST_TOKEN = 16
"""In characters: nobody guesses one that long in time."""


def dashboard(
    *paths: str,
    listen: str = "127.0.0.1:8764",
    token: Annotated[str | None, Parameter(env_var=variable("AIOLEAD_DASHBOARD_TOKEN"))] = None,
    allow_host: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    leaders: int = 1,
    max_znodes: int = 100_000,
    patience: Seconds = PATIENCE,
    admin_port: int = ADMIN_PORT,
    admin_plain_http: Flag = False,
    common: Common = COMMON,
) -> int:
    """Serve a web page that shows who leads and who waits, until SIGINT or SIGTERM.

    It shows elections, locks and semaphores of any library: holders, who is in line, the terms with
    the gaps between them, and the servers; and keeps itself up to date. It can only be looked at.

    Prints its address on standard output (with --json, in an object as "url"). It answers this
    machine alone, unless --listen says otherwise: then it takes a token, which is made up and is
    part of the address that is printed, unless one is given.

    Args:
        paths: What to show: elections and locks, or paths that have some below. Default: /.
        listen: The address and the port to listen on; port 0 takes a free one.
        token: What whoever looks must know, 16 characters or more. Everybody on this machine can
            read a command line: better use the environment variable.
        allow_host: A name besides that of --listen that browsers may ask for, as behind a proxy;
            several times for several of them.
        leaders: How many may lead at once, or hold a lock.
        max_znodes: How many znodes there may be under each path.
        patience: How long a server has for an answer, in seconds.
        admin_port: Where the admin servers listen; 0 not to ask them.
        admin_plain_http: Ask admin servers without TLS also where the other options say to use TLS:
            then anybody on the way can read and change what they say.
        common: Where to connect.
    """
    from .doors import is_loopback

    if find_spec("h11") is None:
        raise ConfigurationError('the dashboard needs more: pip install "aiolead[dashboard]"')
    for path in paths:
        validate(path)
    if leaders < 1:
        raise ConfigurationError(f"--leaders: must be 1 or more, not {leaders}")
    if max_znodes < 1:
        raise ConfigurationError(f"--max-znodes: must be 1 or more, not {max_znodes}")
    host, port = _address(listen)
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(f"--token: must have {SHORTEST_TOKEN} characters or more")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    inquirer = inquirer_for(common, patience, admin_port, admin_plain_http=admin_plain_http)
    target = parse_connect_string(common.wanted_hosts)
    asked = list(dict.fromkeys(Server(*address) for address in target.hosts))

    async def work(client: Client) -> int:
        from .show import Show  # with an HTTP server: nothing for the other commands

        show = Show(client, paths or ("/",), leaders, max_znodes, inquirer, asked)
        await show.serve(host, port, allow_host, token, as_json=common.as_json)
        return exits.OK

    return common.with_client(work, endless=True)


def _address(listen: str) -> tuple[str, int]:
    """The host and the port of `host:port`, or `[::1]:port`."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        number = whole(port, least=0, most=65535)
    except MalformedError:
        number = -1
    if not host or number < 0:
        raise ConfigurationError(f"--listen: must be ADDRESS:PORT, not {listen!r}")
    return host, number
