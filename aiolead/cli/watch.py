"""`aiolead watch`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from .. import Client
from ..model import Missed, WatchEvent
from ..paths import validate
from . import render
from .options import COMMON, Common, Flag, ZnodePath, check_range


def watch(
    path: ZnodePath,
    /,
    *,
    recursive: Annotated[Flag, Parameter(alias="-r")] = False,
    count: Annotated[int | None, Parameter(alias="-n")] = None,
    common: Common = COMMON,
) -> int:
    """Print what happens to a znode, until SIGINT or SIGTERM.

    The znode need not exist. Where something may have been missed, that is printed. Needs servers
    of ZooKeeper 3.6.

    With --json: time (UTC), event (created, deleted, data changed, children changed, missed), path,
    zxid (null before ZooKeeper 3.9), reason (of what was missed, else null).

    Args:
        path: The znode.
        recursive: Watch everything below it, too; then there is an event for each child itself.
        count: End after so many events.
        common: Where to connect.
    """
    validate(path)
    check_range(1, count=count)

    async def work(client: Client) -> None:
        left = count
        async with client.watch(path, recursive=recursive) as events:
            common.reporter.state(f"watches {path}")
            async for event in events:
                common.show(_as_json(event), _as_text(event))
                if left is not None:
                    left -= 1
                    if not left:
                        break

    return common.with_client(work, endless=True, followed=True)


def _as_json(event: WatchEvent | Missed) -> dict[str, Any]:
    about: dict[str, Any]
    if isinstance(event, Missed):
        about = {"event": "missed", "path": None, "zxid": None, "reason": event.reason.value}
    else:
        zxid = event.zxid if event.zxid > 0 else None
        about = {"event": _name(event), "path": event.path, "zxid": zxid, "reason": None}
    return {"time": render.now(), **about}


def _as_text(event: WatchEvent | Missed) -> str:
    if isinstance(event, Missed):
        return f"{render.now()}  some may be missing here: {event.reason.value}"
    return f"{render.now()}  {_name(event):<16}  {render.escaped(event.path)}"


def _name(event: WatchEvent) -> str:
    return event.type.name.lower().replace("_", " ")
