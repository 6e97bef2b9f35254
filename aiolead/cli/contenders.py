"""`aiolead contenders`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import Client
from ..errors import NoNodeError
from ..paths import join
from . import render
from .batches import sync_before
from .contender_queue import (
    LONGEST_NAME,
    PERMITS,
    WAITING,
    QueuedContender,
    families_of,
    is_contended,
    permits_of,
    places_of,
    read_queue,
    semaphore_queue,
)
from .options import COMMON, Common, Positive, ZnodePath


def contenders(
    path: ZnodePath, /, *, leaders: Positive | None = None, common: Common = COMMON
) -> int:
    """Print who contends at a path: for an election, a lock or a semaphore, of any library.

    Contenders that may not be read are shown without a name. With --json, one object per contender:
    place, holds, identity (null if it may not be read), session (null if none owns it), age
    (seconds, by our clock and the servers'), created, token, path, kind (election, lock, reader,
    writer, permit, unknown), layout (curator, kazoo, or null), asked_to_go, priority, is_ready
    (false while it warms up). From ZooKeeper 3.8.4 and 3.9.2 on, also session, age, created and
    token are null for a contender that may not be read.

    Args:
        path: The path of the election or lock.
        leaders: How many may lead at once. Default: the number in the contenders' names, which
            aiolead writes if it is more than 1; else 1.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        sync_before(client, path)
        names = await client.get_children(path)
        found, is_semaphore = await read_contenders(client, path, names, leaders)
        families = families_of(found, is_semaphore=is_semaphore)
        objects, rows = [_as_json(one) for one in found], [_row(one) for one in found]
        common.show_table(objects, _HEADINGS, rows, right=("place", "token"))
        if not found:
            hint = f" (aiolead top --once {path} shows what is below)" if names else ""
            common.note(f"nobody contends for {path}{hint}")
        said = sorted({one.place.leaders or 1 for one in found})
        if not is_semaphore and len(said) > 1:
            numbers = ", ".join(map(str, said))
            common.reporter.error(
                f"contenders do not agree how many may lead: {numbers} (see: aiolead doctor)"
            )
        elif not is_semaphore and leaders is None and said and said[-1] > 1:
            common.reporter.state(f"{said[-1]} may lead at once, by the contenders' names")
        if len(families) > 1:
            common.reporter.error(
                f"not all of these exclude each other: {', '.join(families)} (see: aiolead doctor)"
            )

    return common.with_client(work)


async def standing(client: Client, path: str) -> str:
    """The holders at a path in words, since when they are there, and how many contenders wait."""
    found, _ = await read_contenders(client, path, await _names(client, path))
    waiting = sum(not one.place.holds for one in found)
    held = holders_of(found) or "nobody holds it now"
    return held + (f"; {waiting:,} waiting" if waiting else "")


def holders_of(found: Sequence[QueuedContender]) -> str:
    """The holders among contenders in words, as `events.shown_holder`; empty without one.

    A znode has the time when its owner joined. Servers do not report since when it holds.
    """
    holders = [one for one in found if one.place.holds]
    more = f" and {len(holders) - _MOST_NAMED} more" if len(holders) > _MOST_NAMED else ""
    held = ", ".join(map(_as_holder, holders[:_MOST_NAMED]))
    return f"held by {held}{more}" if holders else ""


_MOST_NAMED = 3


def _as_holder(one: QueuedContender) -> str:
    known = one.identity is not None
    who = render.shortened(one.identity or "", LONGEST_NAME) if known else "(not allowed to read)"
    return who if one.stat is None else f"{who} (there for {render.age(one.stat.ctime)})"


async def read_contenders(
    client: Client, path: str, names: Sequence[str], leaders: int | None = None
) -> tuple[list[QueuedContender], bool]:
    """The contenders at a path with these children, and whether it is a semaphore."""
    if PERMITS in names and not places_of(names):
        waiting, permits = join(path, WAITING), join(path, PERMITS)
        places = places_of(await _names(client, waiting))
        found = semaphore_queue(
            await read_queue(client, permits, permits_of(await _names(client, permits))),
            await read_queue(client, waiting, [replace(one, holds=False) for one in places]),
        )
        return found, True
    found = await read_queue(client, path, places_of(names, leaders))
    stats = [(one.place.name, one.stat) for one in found]
    return found if is_contended(stats, asked_for=True) else [], False


async def _names(client: Client, path: str) -> list[str]:
    try:
        return await client.get_children(path)
    except NoNodeError:
        return []


_HEADINGS = ("place", "state", "identity", "session", "there for", "token", "znode")


def _row(one: QueuedContender) -> list[str]:
    identity, stat = one.identity, one.stat
    state = "holds" if one.place.holds else "waits"
    known = ["?", "?", "?"]
    if stat is not None:
        session = render.session(stat.ephemeral_owner) or "none"
        known = [session, render.age(stat.ctime), str(stat.czxid)]
    return [
        str(one.place.number),
        ", ".join([state, *one.notes]),
        "(not allowed to read)" if identity is None else render.shortened(identity, LONGEST_NAME),
        *known,
        render.escaped(one.place.name),
    ]


def _as_json(one: QueuedContender) -> dict[str, Any]:
    return {
        **one.as_json(),
        "age": one.stat and round(render.seconds_since(one.stat.ctime), 3),
        "path": one.path,
        "layout": one.place.layout or None,
    }
