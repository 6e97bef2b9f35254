"""A path that is contended for: who is there, and who should not be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ... import Client
from ...errors import NoAuthError, NoNodeError
from ...model import Stat
from ...paths import join
from ...types import Stranger, strangers
from .. import render
from ..contenders import read_line
from ..recognize import LONGEST_NAME, ContenderLine, Unreadable, in_line
from .findings import Finding, Level

__all__ = ["Look", "Sessions", "look_at", "look_for_ghosts"]

LAST_SEQUENCE = 0x7FFF_FFFF
"""The last number of a line. Servers hand it out more than once."""
LITTLE_LEFT = 0.25
"""What part of the numbers should be left."""

BELOW = ("leases", "locks")
"""Where a semaphore has its lines."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """What the servers say of sessions.

    Attributes:
        alive: those that exist, by `dump` of the server that decides it; None if that does not
            tell.
        connected: those that have a connection now, with its address, by `cons`; None if not all
            servers tell.
    """

    alive: AbstractSet[int] | None
    connected: Mapping[int, str] | None

    def doubts(self, owner: int) -> bool:
        """Whether a session may be over, by this."""
        known = self.alive if self.alive is not None else self.connected
        return known is not None and owner not in known


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a path.

    Attributes:
        path: the path.
        findings: what can be said of it at once.
        line: who is there, without those that may not be read.
    """

    path: str
    findings: Sequence[Finding]
    line: Sequence[ContenderLine] = ()


async def look_at(client: Client, path: str) -> list[Look]:
    """Looks at a path; at two below it, if it is a semaphore's."""
    return await _look_at(client, path, is_top=True)


async def _look_at(client: Client, path: str, *, is_top: bool) -> list[Look]:
    # What has such children below that again is no semaphore's: anybody may have created it.
    details: dict[str, object] = {"path": path}
    client.sync(path)
    try:
        names, stat = await client.get_children_and_stat(path)
    except NoNodeError:
        text = f"{path}: there is no such znode"
        advice = "it is created by whoever contends first"
        return [Look(path, [Finding("path", Level.NOTE, text, advice, details)])]
    except NoAuthError:
        text = f"{path}: may not be listed"
        advice = "whoever contends needs READ and CREATE there: see `aiolead acl`"
        return [Look(path, [Finding("path", Level.UNKNOWN, text, advice, details)])]
    if is_top and set(BELOW).intersection(names) and not in_line(names):
        below = [join(path, name) for name in BELOW if name in names]
        return [look for one in below for look in await _look_at(client, one, is_top=False)]
    places = in_line(names)
    known = {place.name for place in places if place.layout}
    line = await read_line(client, path, places)
    text = f"{path}: {render.plural(len(line), 'contender')}"
    findings = [
        Finding("path", Level.OK, text, "", {**details, "contenders": len(line)}),
        *judge_sequence(path, stat),
        *judge_families(path, line),
        *(_stranger(path, one) for one in strangers(names) if one.name not in known),
        *(_unreadable(one) for one in line if isinstance(one, Unreadable)),
    ]
    return [Look(path, findings, [one for one in line if isinstance(one, ContenderLine)])]


async def look_for_ghosts(client: Client, look: Look, sessions: Sessions) -> list[Finding]:
    """Who is in a line although nobody waits, or holds, there any more.

    Args:
        client: looks again, so that nobody is taken for a ghost who has just left.
        look: what was seen before the servers were asked for their sessions. So whoever has come
            meanwhile, over a session that they had not heard of by then, is not in it.
        sessions: what they have said.
    """
    client.sync(look.path)
    line: list[ContenderLine] = []
    for one in look.line:
        if sessions.doubts(one.stat.ephemeral_owner):
            try:
                stat = await client.exists(one.path)
            except NoAuthError:
                pass  # it is there; no other znode gets the number in its name
            else:
                if stat is None or stat.czxid != one.stat.czxid:
                    continue
        line.append(one)
    return list(judge_ghosts(look.path, line, sessions))


def judge_sequence(path: str, stat: Stat) -> Iterator[Finding]:
    """How many numbers a path has left.

    Servers count the children that were ever created, and make the numbers from that; they tell
    it as the number of changes: creates and deletes.
    """
    used = ((stat.cversion + stat.num_children) & 0xFFFF_FFFF) // 2
    left = max(0, LAST_SEQUENCE - used)
    details = {"path": path, "numbers_left": left}
    advice = "let all contenders stop, delete the path and start again, or use a new path"
    if not left:
        text = f"{path}: its sequence numbers are used up: nobody can contend any more"
        yield Finding("line", Level.FAIL, text, advice, details)
    elif left < LAST_SEQUENCE * LITTLE_LEFT:
        text = f"{path}: {left:,} sequence numbers are left, {left / LAST_SEQUENCE:.0%}"
        yield Finding("line", Level.WARN, text, advice, details)
    else:
        text = f"{path}: {left / LAST_SEQUENCE:.0%} of the sequence numbers are left"
        yield Finding("line", Level.OK, text, "", details)


def judge_families(path: str, line: Sequence[ContenderLine | Unreadable]) -> Iterator[Finding]:
    """Whether all that are in a line exclude each other."""
    first: dict[str, ContenderLine | Unreadable] = {}
    for one in line:
        first.setdefault(one.place.family, one)
    if len(first) > 1:
        what = "; ".join(f"{family}: {one.place.name}" for family, one in first.items())
        text = f"{path}: contenders that do not all see each other: {what}"
        advice = "two of them may hold at once: give each recipe and library a path of its own"
        details = {"path": path, "families": sorted(first)}
        yield Finding("line", Level.FAIL, text, advice, details)


def _unreadable(one: Unreadable) -> Finding:
    text = f"{one.path}: may not be read: whose it is, and whether its session lives, is not told"
    advice = "log in as somebody who may read it: --auth"
    return Finding("ghost", Level.UNKNOWN, text, advice, {"path": one.path})


def _stranger(path: str, one: Stranger) -> Finding:
    disturbed = []
    if one.blocks:
        disturbed.append(f"waiting for it: {', '.join(one.blocks)}")
    if one.breaks:
        disturbed.append(f"failing at the sight of it: {', '.join(one.breaks)}")
    details = {
        "path": path,
        "name": one.name,
        "blocks": list(one.blocks),
        "breaks": list(one.breaks),
    }
    text = f"{path}: {one.name} is a contender of no library that is known"
    level = Level.FAIL if one.blocks else Level.NOTE if one.is_harmless else Level.WARN
    return Finding("line", level, text, "; ".join(disturbed) or "nobody minds", details)


_GUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def judge_ghosts(path: str, line: Sequence[ContenderLine], sessions: Sessions) -> Iterator[Finding]:
    """Who of those in a line is a ghost, or may be one."""
    seen: set[str] = set()
    for one in line:
        owner = one.stat.ephemeral_owner
        name = "who may not be read" if one.identity is None else one.identity[:LONGEST_NAME]
        session = f"session {render.hexadecimal(owner)}" if owner else "no session"
        who = f"{one.path}, of {session} ({name}), {render.age(one.stat.ctime)} old"
        details: dict[str, object] = {
            "path": one.path,
            "session": render.hexadecimal(owner) if owner else None,
            "identity": one.identity,
            "age": round(render.seconds_since(one.stat.ctime), 3),
        }
        match = _GUID.search(one.place.name)
        if not owner:
            text = f"{who}: it is not ephemeral, and never goes by itself"
            yield Finding("ghost", Level.FAIL, text, "all behind it wait: delete it", details)
        elif sessions.alive is not None and sessions.doubts(owner):
            text = f"{who}: the servers know no such session"
            yield Finding("ghost", Level.FAIL, text, "all behind it wait: delete it", details)
        elif sessions.doubts(owner):
            text = f"{who}: the session has no connection now"
            advice = "if it stays so for longer than its timeout, it is a ghost: delete it"
            yield Finding("ghost", Level.WARN, text, advice, details)
        elif match and match[0] in seen:
            text = f"{who}: the same contender is in line twice"
            advice = "its library has lost the answer to a create, and may wait for itself"
            yield Finding("ghost", Level.WARN, text, advice, details)
        if match:
            seen.add(match[0])
    if line and sessions.alive is None and sessions.connected is None:
        text = f"{path}: whether the sessions of contenders live is not told"
        advice = "4lw.commands.whitelist needs dump, or cons on all servers"
        yield Finding("ghost", Level.UNKNOWN, text, advice, {"path": path})
