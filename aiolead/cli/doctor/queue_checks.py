"""Checks of a contender queue: its contenders, and children that should not be in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ... import Client
from ..._util.contender_names import LAST_SEQUENCE, ElectionRules, rules_of
from ...errors import NoAuthError, NoNodeError
from ...model import Stat
from ...paths import basename, join
from ...types import UnrecognizedChild, unrecognized_children
from .. import render
from ..batches import read_each, sync_before
from ..contender_queue import (
    LONGEST_NAME,
    MOST_DATA,
    PERMITS,
    WAITING,
    QueuedContender,
    QueuePlace,
    created_below,
    is_contended,
    permits_of,
    places_of,
    read_queue,
)
from ..contenders import holders_of
from ..recipe_layouts import (
    OtherRecipe,
    RecipeMember,
    ZnodeTree,
    needs_data,
    possible_parts,
    recipe_at,
)
from ..scene_text import use_as_text
from ..server_inquiry import ClientConnection
from .findings import Finding, Level

MOST_READ = 1000
"""How many children are read to find out which recipe uses a path."""
LITTLE_LEFT = 0.25
"""The part of the numbers below which few are left."""


@dataclass(frozen=True, slots=True)
class KnownSessions:
    """The sessions as the servers report them.

    `alive` exist, by `dump` of the leader; None if it does not say. `connected` have connections
    from these addresses, by `cons`; None if not all servers say.
    """

    alive: AbstractSet[int] | None
    connected: Mapping[int, ClientConnection] | None

    def is_over(self, owner: int) -> bool:
        return self.alive is not None and owner not in self.alive

    def is_silent(self, owner: int) -> bool:
        return self.connected is not None and owner not in self.connected

    def doubts(self, owner: int) -> bool:
        """Whether the process of a session may be gone, by this."""
        return self.is_over(owner) or self.is_silent(owner)


@dataclass(frozen=True, slots=True)
class QueueLook:
    """The result of a look at a path: findings, and the readable contenders."""

    path: str
    findings: Sequence[Finding]
    queue: Sequence[QueuedContender] = ()


async def look_at(client: Client, path: str, *, is_top: bool = True) -> list[QueueLook]:
    """Look at a path; if it is a semaphore's, at the two queues below it.

    Below these, anybody may have created children of such names: they are no semaphore's.
    """
    sync_before(client, path)
    try:
        names, stat = await client.get_children_and_stat(path)
    except NoNodeError:
        text, advice = f"{path}: there is no such znode", "the first contender creates it"
        return [QueueLook(path, [Level.NOTE.finding("path", text, advice, path=path)])]
    except NoAuthError:
        text = f"{path}: may not be listed"
        advice = "contenders need READ and CREATE there: see `aiolead acl`"
        return [QueueLook(path, [Level.UNKNOWN.finding("path", text, advice, path=path)])]
    is_permits = not is_top and basename(path) == PERMITS
    places = permits_of(names) if is_permits else places_of(names)
    below = [join(path, name) for name in (PERMITS, WAITING) if name in names]
    if is_top and below and not places:
        return [look for one in below for look in await look_at(client, one, is_top=False)]
    queue = await read_queue(client, path, places)
    stats = [(one.place.name, one.stat) for one in queue]
    has_none = not is_permits and not is_contended(stats, asked_for=True)
    if has_none and (other := await _other_recipe(client, path, names, stat)) is not None:
        text = f"{path}: {other.kind}: {use_as_text(other)}".rstrip(": ")
        level = Level.OK.finding("path", text, path=path, contenders=0, recipe=other.kind)
        # Those that wait for a key wait for its ephemeral znode, as in a queue.
        holds = [_as_holder(one) for one in other.members if other.kind == "once"]
        return [QueueLook(path, [level], holds)]
    if queue and has_none:
        text = f"{path}: {render.plural(len(queue), 'znode')} with a number, and no contender"
        advice = "`aiolead top --once` with this path shows queues and other recipes"
        found = Level.NOTE.finding("path", text, advice, path=path, contenders=0)
        return [QueueLook(path, [found])]
    if has_none and await _is_above_others(client, path, names):
        text = f"{path}: nobody contends for it; it has {_children(names)}"
        advice = "`aiolead top --once` with this path shows who contends below it"
        found = Level.NOTE.finding("path", text, advice, path=path, contenders=0)
        return [QueueLook(path, [found])]
    known = {place.name for place in places if place.layout}
    held = holders_of(queue)
    text = f"{path}: {render.plural(len(queue), 'contender')}{', ' if held else ''}{held}"
    findings = [
        Level.OK.finding("path", text, path=path, contenders=len(queue)),
        *judge_sequence(path, stat),
        *judge_families(path, queue),
        *judge_leaders(path, queue),
        *(_foreign(path, one) for one in unrecognized_children(names) if one.name not in known),
        *(_unreadable(one) for one in queue if one.stat is None),
    ]
    return [QueueLook(path, findings, [one for one in queue if one.stat is not None])]


async def _is_above_others(client: Client, path: str, names: Sequence[str]) -> bool:
    """Whether a child has children, which no contender has."""
    paths = [join(path, name) for name in names[:MOST_READ]]
    looks = [look async for _, look in read_each(paths, client.exists)]
    return any(isinstance(look, Stat) and look.num_children for look in looks)


def _children(names: Sequence[str]) -> str:
    return "1 child" if len(names) == 1 else f"{len(names):,} children"


async def _other_recipe(
    client: Client, path: str, names: Sequence[str], stat: Stat
) -> OtherRecipe | None:
    """The recipe at a path that nobody contends for; its first children are enough."""
    if path == "/":
        return None
    tree = ZnodeTree()
    below = [join(path, name) for name in names[:MOST_READ]]
    async for top, found in read_each(possible_parts(path), client.get_children):
        if isinstance(found, list):
            below += [join(top, name) for name in found[:MOST_READ]]
    looks = {each: known async for each, known in read_each(below, client.exists)}
    stats = {path: stat} | {each: one for each, one in looks.items() if isinstance(one, Stat)}
    wanted = [each for each, known in stats.items() if needs_data(basename(each), known)]
    data = {each: reply async for each, reply in read_each(wanted, client.get)}
    for each, known in stats.items():
        reply = data.get(each)
        tree.put(each, known, reply[0][:MOST_DATA] if isinstance(reply, tuple) else b"")
    return recipe_at(tree, path)


def _as_holder(one: RecipeMember) -> QueuedContender:
    place = QueuePlace(1, basename(one.path), 0, "unknown", "", "unknown", None, holds=True)
    return QueuedContender(place, one.path, one.stat, one.identity.encode())


async def look_for_ghosts(
    client: Client, look: QueueLook, sessions: KnownSessions
) -> list[Finding]:
    """The contenders in a queue whose process is gone.

    `look` must be older than `sessions`: a later contender may have a session that the servers had
    not reported. `client` looks again, so that a contender that has just left is no ghost.
    """
    sync_before(client, look.path)
    queue: list[QueuedContender] = []
    for one in look.queue:
        if one.stat is not None and sessions.doubts(one.stat.ephemeral_owner):
            try:
                stat = await client.exists(one.path)
            except NoAuthError:
                pass  # it is there; no other znode gets the number in its name
            else:
                if stat is None or stat.czxid != one.stat.czxid:
                    continue
        queue.append(one)
    return list(judge_ghosts(look.path, queue, sessions))


def judge_sequence(path: str, stat: Stat) -> Iterator[Finding]:
    """How many sequence numbers a path has left.

    The next number counts the children ever created.
    """
    left = max(0, LAST_SEQUENCE - created_below(stat))
    advice = "let all contenders stop, delete the path and start again, or use a new path"
    level, text = Level.OK, f"{path}: {left / LAST_SEQUENCE:.0%} of the sequence numbers are left"
    if not left:
        level = Level.FAIL
        text = f"{path}: its sequence numbers are used up: nobody can contend any more"
    elif left < LAST_SEQUENCE * LITTLE_LEFT:
        level = Level.WARN
        text = f"{path}: {left:,} sequence numbers are left, {left / LAST_SEQUENCE:.0%}"
    yield level.finding(
        "queue", text, "" if level is Level.OK else advice, path=path, numbers_left=left
    )


def judge_families(path: str, queue: Sequence[QueuedContender]) -> Iterator[Finding]:
    """Whether all contenders of a queue exclude each other."""
    first: dict[str, QueuedContender] = {}
    for one in queue:
        first.setdefault(one.place.family, one)
    if len(first) > 1:
        what = "; ".join(f"{family}: {one.place.name}" for family, one in first.items())
        text = f"{path}: contenders that do not all see each other: {what}"
        advice = "two of them may hold at once: give each recipe and library a path of its own"
        yield Level.FAIL.finding("queue", text, advice, path=path, families=sorted(first))


def judge_leaders(path: str, queue: Sequence[QueuedContender]) -> Iterator[Finding]:
    """Whether all contenders of an election say the same number of leaders, and a priority."""
    first: dict[ElectionRules, QueuedContender] = {}
    for one in queue:
        first.setdefault(rules_of(one.place.name), one)
    numbers = sorted({rules.leaders for rules in first})
    unlike = {rules.priority is None: one for rules, one in first.items()}
    if len(unlike) > 1:
        names = "; ".join(one.place.name for one in unlike.values())
        text = f"{path}: contenders with a priority, and without one: {names}"
        advice = "give all of them a priority, or none: newcomers with other rules are refused"
        yield Level.FAIL.finding("queue", text, advice, path=path)
    if len(numbers) < 2:
        return
    if all(one.fit(other) for one in first for other in first):
        level, text = Level.WARN, "the number of leaders is being changed"
        advice = "when all have the new number, start them without changing_from"
    else:
        level, text = Level.FAIL, "contenders do not agree how many may lead"
        advice = "pass the same leaders= in all programs: newcomers with another one are refused"
    what = "; ".join(f"leaders={rules.leaders}: {one.place.name}" for rules, one in first.items())
    yield level.finding("queue", f"{path}: {text}: {what}", advice, path=path, leaders=numbers)


def _unreadable(one: QueuedContender) -> Finding:
    text = f"{one.path}: may not be read: whose it is, and whether its session lives, is not known"
    advice = "log in as somebody who may read it: --auth"
    return Level.UNKNOWN.finding("ghost", text, advice, path=one.path)


def _foreign(path: str, one: UnrecognizedChild) -> Finding:
    disturbed = []
    if one.blocks:
        disturbed.append(f"waiting for it: {', '.join(one.blocks)}")
    if one.breaks:
        disturbed.append(f"failing at the sight of it: {', '.join(one.breaks)}")
    return (Level.FAIL if one.blocks else Level.NOTE if one.is_harmless else Level.WARN).finding(
        "queue",
        f"{path}: {one.name} is a contender of no library that is known",
        "; ".join(disturbed) or "nobody minds",
        path=path,
        name=one.name,
        blocks=list(one.blocks),
        breaks=list(one.breaks),
    )


_GUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def judge_ghosts(
    path: str, queue: Sequence[QueuedContender], sessions: KnownSessions
) -> Iterator[Finding]:
    """The contenders of a queue that are ghosts, or may be."""
    seen: set[str] = set()
    for one in queue:
        assert one.stat is not None
        owner, created = one.stat.ephemeral_owner, one.stat.ctime
        name = "may not be read" if one.identity is None else one.identity[:LONGEST_NAME]
        session = f"session {render.hexadecimal(owner)}" if owner else "no session"
        match = _GUID.search(one.place.name)
        level, why, advice = Level.FAIL, "", "all behind it wait: delete it"
        if not owner:
            why = "it is not ephemeral, and never goes by itself"
        elif sessions.is_over(owner):
            why = "the servers know no such session"
        elif sessions.is_silent(owner):
            # A dead or isolated process, until its session times out.
            level, why = Level.WARN, "the session has no connection now"
            advice = "if it stays so for longer than its timeout, it is a ghost: delete it"
        elif match and match[0] in seen:
            level, why = Level.WARN, "the same contender is in the queue twice"
            advice = "its library has lost the answer to a create, and may wait for itself"
        if why:
            yield level.finding(
                "ghost",
                f"{one.path}, of {session} ({name}), {render.age(created)} old: {why}",
                advice,
                path=one.path,
                session=render.session(owner),
                identity=one.identity,
                age=round(render.seconds_since(created), 3),
            )
        if match:
            seen.add(match[0])
    if queue and sessions.alive is None and sessions.connected is None:
        text = f"{path}: whether the sessions of contenders live is not known"
        advice = "4lw.commands.whitelist needs dump, or cons on all servers"
        yield Level.UNKNOWN.finding("ghost", text, advice, path=path)
