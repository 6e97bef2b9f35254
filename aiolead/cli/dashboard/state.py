"""The content of the page, as values for JSON. Pure.

Everything from znodes is shortened and escaped here, and becomes text, never markup, in the page.
Times are seconds since 1970; the page compares them with `now`, not with its own clock.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...types import ConfigVersion, DeadLetter
from .. import render
from ..contender_queue import QueuedContender
from ..ensemble import behind
from ..recipe_layouts import OtherRecipe, RecipeMember
from ..recipe_tables import MOST_ROWS, NO_LETTERS, Age, Cell, Level, Moment, RecipeTable, table_of
from ..render import rounded
from ..scene import Scene
from ..scene_text import event_as_text, leaders_as_text, name_of, use_as_text
from ..scene_values import (
    ContenderQueue,
    EnsembleHealth,
    ObservedTerm,
    OwnerConnection,
    SceneEvent,
)
from ..server_survey import ServerAnswers

MOST_QUEUES = 1000
MOST_OTHERS = 500
MOST_HOLDERS = 3
"""How many queues and other recipes the table has, and how many holders of each."""
MOST_WAITING = MOST_ROWS
MOST_TERMS = 200
"""How many waiters and terms the details of a queue have."""
MOST_EVENTS = 100
MOST_UNREADABLE = 20
LONGEST_TEXT = 200
"""In characters: paths, and texts of servers, which are as long as they like."""
HANDOVER_BUCKET = 120
HANDOVER_BUCKETS = 30
"""Hand-overs are counted in so many intervals of so many seconds."""


def session(scene: Scene) -> dict[str, Any]:
    """Our own session, and the time since the servers' last answer."""
    return {
        "state": scene.session_state.value,
        "id": render.session(scene.session_id),
        "is_current": scene.is_current,
        "as_of": None if scene.is_current else rounded(scene.seen_at),
    }


def overview(scene: Scene, queues: Sequence[ContenderQueue]) -> dict[str, Any]:
    elections = [queue for queue in queues if queue.kind == "election"]
    owners = {
        one.stat.ephemeral_owner for queue in queues for one in queue.contenders if one.stat
    } - {0}
    return {
        "paths": len(queues),
        "more_paths": max(0, len(queues) - MOST_QUEUES),
        "is_incomplete": bool(scene.incomplete),
        "problems": sum(queue.state.is_problem for queue in queues),
        "elections": len(elections),
        "leaders": sum(len(queue.terms) for queue in elections),
        "contenders": sum(len(queue.contenders) for queue in queues),
        "sessions": len(owners),
        "silent": len(owners & scene.silent_sessions) if scene.knows_sessions else None,
    }


def queue(scene: Scene, queue: ContenderQueue) -> dict[str, Any]:
    """A row of the table."""
    terms = scene.terms_of(queue.path)
    times = [time for term in terms for time in (term.began, term.ended) if time is not None]
    handovers = Counter(round(term.began // HANDOVER_BUCKET) for term in terms if term.is_exact)
    newest = max(handovers, default=0)
    return {
        "key": key_of(queue.path),
        "path": _text(queue.path),
        "type": queue.kind,
        "state": queue.state.value,
        "holders": [_term(term) for term in queue.terms[:MOST_HOLDERS]],
        "more_holders": max(0, len(queue.terms) - MOST_HOLDERS),
        "contenders": len(queue.contenders),
        "changed": rounded(max(times, default=None)),
        "vacant_since": rounded(queue.vacant_since),
        "handovers": [
            [bucket, count]
            for bucket, count in sorted(handovers.items())
            if bucket > newest - HANDOVER_BUCKETS
        ],
        "families": queue.families if len(queue.families) > 1 else [],
        "leaders": queue.leaders if queue.kind in ("election", "lock") else None,
        "note": leaders_as_text(queue),
    }


def other(recipe: OtherRecipe) -> dict[str, Any]:
    return {
        "key": key_of(recipe.path, recipe.kind),
        "path": _text(recipe.path),
        "type": recipe.kind,
        "state": "in use",
        "note": _text(use_as_text(recipe)),
        "contenders": len(recipe.members),
    }


def detail(scene: Scene, queue: ContenderQueue, now: float) -> dict[str, Any]:
    waiting = queue.waiting
    holders = [one for one in queue.contenders if one.place.holds]
    events = [each for each in scene.since(0) if each.path == queue.path]
    return {
        "now": rounded(now),
        "key": key_of(queue.path),
        "path": render.escaped(queue.path),
        "counted": "waiting",
        "things": None,
        "holders": [
            _contender(scene, one) | _term(term)
            for one, term in zip(holders, queue.terms, strict=True)
        ],
        "waiting": [_contender(scene, one) for one in waiting[:MOST_WAITING]],
        "more_waiting": max(0, len(waiting) - MOST_WAITING),
        "terms": [_term(term) for term in scene.terms_of(queue.path)[-MOST_TERMS:]],
        "events": [event(scene, each) for each in events[-MOST_EVENTS:]],
        "series": scene.series_of(queue.path),
        "commands": _commands(queue.path, queue.kind),
    }


def members(
    scene: Scene,
    recipe: OtherRecipe,
    now: float,
    history: Sequence[ConfigVersion] = (),
    letters: Mapping[str, DeadLetter] = NO_LETTERS,
) -> dict[str, Any]:
    """All that is known of another recipe: its members, in the place of contenders, and its things.

    `history` is that of a configuration, `letters` the dead letters among the items of a queue.
    """
    is_counted = recipe.counts and recipe.kind != "configuration"
    # The table of keys has those that run them.
    members = () if recipe.kind == "once" else recipe.members
    table = table_of(scene, recipe, now, history, letters)
    return {
        "now": rounded(now),
        "key": key_of(recipe.path, recipe.kind),
        "path": render.escaped(recipe.path),
        "holders": [],
        "waiting": [_participant(scene, one, "member") for one in members[:MOST_WAITING]],
        "more_waiting": max(0, len(members) - MOST_WAITING),
        "terms": [],
        "events": [],
        "series": scene.series_of(recipe.path),
        "counted": recipe.counts[0][0] if is_counted else None,
        "commands": _commands(recipe.path, recipe.kind),
        "things": table and _table(table),
    }


def _table(table: RecipeTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "oldest": rounded(table.oldest),
        "columns": table.columns,
        "rows": [
            {"key": key_of(key, len(cells)), "cells": [_cell(cell) for cell in cells]}
            for key, cells in table.rows
        ],
        "more": table.more,
    }


def _cell(cell: Cell) -> object:
    """Text as it is; of a time, or a level that rises, what the page computes it from."""
    match cell:
        case Age(since):
            return {"age": rounded(since)}
        case Moment(at):
            return {"at": rounded(at)}
        case Level():
            return asdict(cell)
    return cell


_COMMANDS = {
    "election": ("contenders {}", "revoke {}", "doctor {}"),
    "configuration": ("config history {}", "config get {}"),
    "queue": ("ls -l {}",),
    "once": ("ls -l {}",),
    "rate limit": ("get {}", "stat {}"),
}


def _commands(path: str, kind: str) -> list[str]:
    """Commands to look further; none for a path that a shell might take for another one."""
    if render.escaped(path) != path:
        return []
    kind = "queue" if kind.endswith("queue") else kind
    is_contended = kind in ("lock", "read/write lock", "semaphore", "unknown")
    found = _COMMANDS.get(kind, ("contenders {}", "doctor {}") if is_contended else ("tree {}",))
    return [f"aiolead {each.format(shlex.quote(path))}" for each in found]


def event(scene: Scene, one: SceneEvent) -> dict[str, Any]:
    found = scene.queue(one.path)
    return {
        "number": one.number,
        "at": rounded(one.at),
        "what": one.what.value,
        "key": key_of(one.path) if one.path else None,
        "path": _text(one.path),
        "text": event_as_text(one, found.kind if found else ""),
    }


def unreadable(scene: Scene) -> dict[str, Any]:
    paths = scene.unreadable
    return {
        "paths": [_text(path) for path in paths[:MOST_UNREADABLE]],
        "more": max(0, len(paths) - MOST_UNREADABLE),
    }


def servers(health: EnsembleHealth) -> dict[str, Any]:
    quorum = health.quorum
    return {
        "asked": rounded(health.asked),
        "has_quorum": quorum.is_met,
        "problems": health.problems,
        "voters": quorum.voters,
        "looking": quorum.looking,
        "up": quorum.up,
        "tolerates": quorum.tolerates,
        "all": [_server(each, health.answers) for each in health.answers],
    }


def key_of(*parts: object) -> str:
    """Unique on the page, however long a path is."""
    return hashlib.blake2b(
        repr(parts).encode("ascii", "backslashreplace"), digest_size=9
    ).hexdigest()


def _contender(scene: Scene, one: QueuedContender) -> dict[str, Any]:
    return {**_participant(scene, one, one.place.what), "notes": one.notes}


def _participant(scene: Scene, one: QueuedContender | RecipeMember, what: str) -> dict[str, Any]:
    connection, stat = scene.connection_of(one), one.stat
    return {
        "key": key_of(one.path, stat.czxid if stat else 0),
        "name": name_of(one.identity),
        "what": what,
        "token": str(stat.czxid) if stat else None,
        "since": rounded(stat.ctime / 1000) if stat else None,
        "connection": None if connection is OwnerConnection.UNKNOWN else connection.value,
        "session": render.session(stat.ephemeral_owner) if stat else None,
        "address": _text(scene.address_of(stat.ephemeral_owner)) if stat else "",
        "znode": render.escaped(one.path),
    }


def _term(term: ObservedTerm) -> dict[str, Any]:
    return {
        "key": key_of(term.key, term.began),
        "name": name_of(term.identity),
        # Text: JavaScript would round a number of 64 bits.
        "token": str(term.token),
        "began": rounded(term.began),
        "not_before": rounded(term.not_before),
        "ended": rounded(term.ended),
        "silent_since": rounded(term.silent_since),
        "is_paused": term.is_paused,
        "gap": rounded(term.gap),
    }


def _server(answers: ServerAnswers, everybody: Sequence[ServerAnswers]) -> dict[str, Any]:
    lag = behind(answers, everybody)
    return {
        "server": _text(str(answers.server)),
        "role": _text(answers.mode) or None,
        "state": answers.state.value,
        "problem": _text(answers.problem) or None,
        "version": _text(answers.version) or None,
        "latency": rounded(answers.mean_latency),
        "behind": None if lag is None else str(lag),
        "connections": answers.connections,
    }


def _text(text: str) -> str:
    return render.shortened(text, LONGEST_TEXT)
