"""`aiolead top`."""

from __future__ import annotations

from .. import Client
from ..errors import ConfigurationError
from .options import COMMON, Common, Flag, Seconds
from .scene_feed import SCENE, SceneOptions
from .server_survey import InquiryOptions, all_servers, listed_servers
from .top_views import open_view


def top(
    *path: str,
    once: Flag = False,
    interval: Seconds = 2.0,
    scene: SceneOptions = SCENE,
    common: Common = COMMON,
) -> int:
    """Show leaders, contenders and events, live, until q, SIGINT or SIGTERM.

    Elections, locks and semaphores are shown, of any library, wherever they are under the paths. It
    reads and watches, and writes nothing. On a terminal it is a table (? shows its keys); in a
    pipe, or with a terminal that can do no more, it is lines of text: first what there is, then
    what happens.

    With --json: first an object with everything there is (time, state, is_current, unreadable,
    lines, others), then one for each thing that happens (time, event, path, identity, token, gap,
    before).

    Args:
        path: Where to look. Default: everywhere.
        once: Show what there is, and end.
        interval: How often to ask all servers which sessions are connected, in seconds; 0 not to.
        scene: The types and details to show.
        common: Where to connect.
    """
    scene.check(path)
    if not (interval == 0 or 0.1 <= interval <= 3600):
        raise ConfigurationError(f"--interval: must be 0, or 0.1 to 3600 seconds, not {interval:g}")
    asks = interval and not once
    inquirer = InquiryOptions(admin_port=0).inquirer(common) if asks else None
    listed = listed_servers(common)

    async def work(client: Client) -> None:
        servers = listed
        if inquirer is not None:
            servers = await all_servers(client, servers, secure=inquirer.is_encrypted)
        feed = scene.feed(client, path, inquirer, servers, interval)
        view = open_view(feed, common.wanted_hosts, as_json=common.as_json, once=once)
        await feed.during(view.show)

    return common.with_client(work, endless=True, followed=True)
