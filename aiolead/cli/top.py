"""`aiolead top`."""

from __future__ import annotations

from .. import Client
from ..errors import ConfigurationError
from ..paths import validate
from .options import COMMON, Common, Flag, Seconds, check_at_least
from .scene_feed import MAX_NODES, Feed
from .server_survey import InquiryOptions, all_servers, listed_servers
from .top_views import open_view


def top(
    *path: str,
    leaders: int = 1,
    once: Flag = False,
    interval: Seconds = 2.0,
    max_znodes: int = MAX_NODES,
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
    check_at_least(1, leaders=leaders, max_znodes=max_znodes)
    if not (interval == 0 or 0.1 <= interval <= 3600):
        raise ConfigurationError(f"--interval: must be 0, or 0.1 to 3600 seconds, not {interval:g}")
    asks = interval and not once
    inquirer = InquiryOptions(admin_port=0).inquirer(common) if asks else None
    listed = listed_servers(common)

    async def work(client: Client) -> None:
        servers = listed
        if inquirer is not None:
            servers = await all_servers(client, servers, secure=inquirer.is_encrypted)
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

    return common.with_client(work, endless=True, followed=True)
