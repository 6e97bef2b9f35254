"""`aiolead contenders`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import Client, Semaphore
from ..errors import ConfigurationError, NoAuthError, NoNodeError
from ..paths import join, validate
from . import exits, render
from .options import COMMON, Common
from .output import table, write_json, write_line
from .recognize import (
    LONGEST_NAME,
    MOST_DATA,
    ContenderLine,
    Place,
    Unreadable,
    can_be_asked_for,
    in_line,
)

__all__ = ["contenders", "read_line"]

AT_ONCE = 256
"""How many znodes are asked for in one go."""

MOST_PERMITS = 1 << 31


def contenders(path: str, /, *, leaders: int = 1, common: Common = COMMON) -> int:
    """Print who is in line at a path: at an election, a lock or a semaphore, of any library.

    Who may not be read is shown without a name. With --json, one object per contender: place,
    holds, identity (null if it may not be read), session (null if none owns it), age (seconds, by
    our clock and the servers'), created, token, path, kind (election, lock, reader, writer, permit,
    unknown), layout (curator, kazoo, or null), asked_to_go. From ZooKeeper 3.8.4 and 3.9.2 on, also
    session, age, created and token are null for a contender that may not be read.

    Args:
        path: What is contended for.
        leaders: How many may lead at once.
        common: Where to connect.
    """
    validate(path)
    if leaders < 1:
        raise ConfigurationError(f"--leaders: must be 1 or more, not {leaders}")

    async def work(client: Client) -> int:
        client.sync(path)
        names = await client.get_children(path)
        if "leases" in names and not in_line(names):
            line = await _semaphore(client, path)
        else:
            line = await read_line(client, path, in_line(names, leaders))
        families = sorted({one.place.family for one in line} - {"curator semaphore"})
        if common.as_json:
            for one in line:
                write_json(_as_json(one))
        elif line:
            for row in table(_HEADINGS, [_row(one) for one in line], right=("place", "token")):
                write_line(row)
        else:
            common.reporter.state(f"nobody contends for {path}")
        if len(families) > 1:
            common.reporter.error(
                f"not all of these exclude each other: {', '.join(families)} (see: aiolead doctor)"
            )
        return exits.OK

    return common.with_client(work)


async def read_line(
    client: Client, path: str, places: Sequence[Place]
) -> list[ContenderLine | Unreadable]:
    """Reads who the contenders are; those that have gone meanwhile are left out."""
    found: list[ContenderLine | Unreadable] = []
    for begin in range(0, len(places), AT_ONCE):
        some = [(place, join(path, place.name)) for place in places[begin : begin + AT_ONCE]]
        asked = [
            (place, where, client.get(where) if can_be_asked_for(where) else None)
            for place, where in some
        ]
        for place, where, reply in asked:
            if reply is None:
                found.append(Unreadable(place, where))
                continue
            try:
                data, stat = await reply
            except NoAuthError:
                # It has no name then, but still a place, and on older servers an owner.
                try:
                    if (known := await client.exists(where)) is not None:
                        found.append(ContenderLine(place, where, known, None))
                except NoAuthError:
                    found.append(Unreadable(place, where))
            except NoNodeError:
                continue
            else:
                found.append(ContenderLine(place, where, stat, data[:MOST_DATA]))
    return found


async def _semaphore(client: Client, path: str) -> list[ContenderLine | Unreadable]:
    """Whoever has permits, then whoever waits for some."""
    leases = await _read_below(client, join(path, "leases"), holders=MOST_PERMITS)
    waiting = await _read_below(client, join(path, "locks"), holders=0)
    try:
        # Who is at the front of the line may have made permits that it does not hold yet.
        held = {one.path for one in await Semaphore(client, path, 1).holders()}
        leases = [one for one in leases if one.path in held]
    except NoAuthError:
        pass  # not all may be read: so it is not known which ones these are
    return [
        replace(one, place=replace(one.place, number=n + 1))
        for n, one in enumerate(leases + waiting)
    ]


async def _read_below(
    client: Client, path: str, *, holders: int
) -> list[ContenderLine | Unreadable]:
    try:
        names = await client.get_children(path)
    except NoNodeError:
        return []
    return await read_line(client, path, in_line(names, holders))


_HEADINGS = ("place", "state", "identity", "session", "age", "token", "znode")


def _row(one: ContenderLine | Unreadable) -> list[str]:
    identity = "(not allowed to read)"
    state = "holds" if one.place.holds else "waits"
    if isinstance(one, Unreadable):
        name = render.escaped(one.place.name)
        return [str(one.place.number), state, identity, "?", "?", "?", name]
    owner = one.stat.ephemeral_owner
    if one.identity is not None:
        identity = render.shortened(one.identity, LONGEST_NAME)
    return [
        str(one.place.number),
        f"{state}, asked to go" if one.is_asked_to_go else state,
        identity,
        render.hexadecimal(owner) if owner else "none",
        render.age(one.stat.ctime),
        str(one.stat.czxid),
        render.escaped(one.place.name),
    ]


def _as_json(one: ContenderLine | Unreadable) -> dict[str, Any]:
    known: dict[str, Any] = dict.fromkeys(("identity", "session", "age", "created", "token"))
    if isinstance(one, ContenderLine):
        owner = one.stat.ephemeral_owner
        known = {
            "identity": one.identity,
            "session": render.hexadecimal(owner) if owner else None,
            "age": round(render.seconds_since(one.stat.ctime), 3),
            "created": render.moment(one.stat.ctime),
            "token": one.stat.czxid,
        }
    return {
        "place": one.place.number,
        "holds": one.place.holds,
        **known,
        "path": one.path,
        "kind": one.place.what,
        "layout": one.place.layout or None,
        "asked_to_go": isinstance(one, ContenderLine) and one.is_asked_to_go,
    }
