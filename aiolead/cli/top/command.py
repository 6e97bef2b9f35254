"""`aiolead top`."""

from __future__ import annotations

from ... import Client
from ...errors import ConfigurationError
from ...paths import parse_connect_string, validate
from .. import exits
from ..options import COMMON, Common, Flag, Seconds
from ..roster import PATIENCE, everybody, inquirer_for
from ..scene import Feed
from ..words import Server
from .views import open_view

__all__ = ["top"]


def top(
    *path: str,
    leaders: int = 1,
    once: Flag = False,
    interval: Seconds = 2.0,
    max_znodes: int = 100_000,
    common: Common = COMMON,
) -> int:
    """Show who leads what, who waits, and what happens, live, until q, SIGINT or SIGTERM.

    Elections, locks and semaphores are shown, of any library, wherever they are under the paths. It
    reads and watches, and writes nothing. On a terminal it is a table; in a pipe, or with a
    terminal that can do no more, it is lines of text: first what there is, then what happens.

    With --json: first an object with everything there is (time, state, is_current, unreadable,
    lines), then one for each thing that happens (time, event, path, identity, token, gap, before).

    Args:
        path: Where to look. Default: everywhere.
        leaders: How many may lead at once, or hold a lock.
        once: Show what there is, and end.
        interval: How often to ask all servers which sessions are connected, in seconds; 0 not to.
        max_znodes: How many znodes there may be under each path.
        common: Where to connect.
    """
    for each in path:
        validate(each)
    if leaders < 1:
        raise ConfigurationError(f"--leaders: must be 1 or more, not {leaders}")
    if max_znodes < 1:
        raise ConfigurationError(f"--max-znodes: must be 1 or more, not {max_znodes}")
    if not (interval == 0 or 0.1 <= interval <= 3600):
        raise ConfigurationError(f"--interval: must be 0, or 0.1 to 3600 seconds, not {interval:g}")
    inquirer = inquirer_for(common, PATIENCE, 0) if interval and not once else None
    given = parse_connect_string(common.wanted_hosts)

    async def work(client: Client) -> int:
        servers = [Server(*host) for host in given.hosts]
        if inquirer is not None:
            servers = await everybody(client, servers, secure=inquirer.is_encrypted)
        feed = Feed(
            client,
            path or ("/",),
            leaders=leaders,
            max_nodes=max_znodes,
            inquirer=inquirer,
            servers=servers,
            interval=interval,
        )
        view = open_view(feed, common.wanted_hosts, as_json=common.as_json, once=once)
        await feed.during(view.show)
        return exits.OK

    return common.with_client(work, endless=True, followed=True)
