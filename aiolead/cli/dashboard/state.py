"""The content of the page, as values for JSON. Pure.

Everything from znodes is shortened and escaped here, and becomes text, never markup, in the page.
Times are seconds since 1970; the page compares them with `now`, not with its own clock.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...paths import basename
from ...types import ConfigVersion
from .. import render
from ..contender_queue import QueuedContender
from ..ensemble import behind
from ..recipe_layouts import OtherRecipe, RecipeItem, RecipeMember
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
MOST_WAITING = 200
MOST_TERMS = 200
"""How many waiters and terms the details of a queue have."""
MOST_EVENTS = 100
MOST_KEYS = 20
"""How many changed keys of a version are named."""
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
    scene: Scene, recipe: OtherRecipe, now: float, history: Sequence[ConfigVersion] = ()
) -> dict[str, Any]:
    """All that is known of another recipe: its members, in the place of contenders, its items, and
    the `history` of a configuration.
    """
    items = scene.items_of(recipe)
    oldest = min((item.stat.ctime for item in items), default=None)
    return {
        "now": rounded(now),
        "key": key_of(recipe.path, recipe.kind),
        "holders": [],
        "waiting": [_participant(scene, one, "member") for one in recipe.members[:MOST_WAITING]],
        "more_waiting": max(0, len(recipe.members) - MOST_WAITING),
        "terms": [],
        "events": [],
        "series": scene.series_of(recipe.path),
        "commands": _commands(recipe.path, recipe.kind),
        "items": [_item(scene, item) for item in items[:MOST_WAITING]],
        "more_items": max(0, len(items) - MOST_WAITING),
        "oldest": None if oldest is None else rounded(oldest / 1000),
        "versions": _versions(history),
    }


def _item(scene: Scene, item: RecipeItem) -> dict[str, Any]:
    claim = item.claim
    return {
        "key": key_of(item.path, item.stat.czxid),
        "name": _text(basename(item.path)),
        "since": rounded(item.stat.ctime / 1000),
        "bytes": item.stat.data_length,
        "claim": claim and _participant(scene, claim, "claimant"),
    }


def _versions(history: Sequence[ConfigVersion]) -> list[dict[str, Any]]:
    """The versions of a configuration, newest first, with the keys that each has changed.

    Values are left out: a configuration may have secrets, and the page is for everybody.
    """
    found = []
    history = sorted(history, key=lambda one: one.version)
    for before, one in zip([None, *history], history, strict=False):
        old = {} if before is None else before.keys
        changes = {
            "added": [key for key in one.keys if key not in old],
            "changed": [key for key in one.keys if key in old and old[key] != one.keys[key]],
            "removed": [key for key in old if key not in one.keys],
        }
        # The changes of the oldest version that is kept are unknown, unless it is the first.
        if before is None and one.version > 1:
            changes = {}
        found.append(
            {
                "version": str(one.version),
                "by": name_of(one.identity),
                "at": rounded(one.time / 1000),
                "keys": len(one.keys),
                "changes": {
                    what: [_text(key) for key in sorted(keys)[:MOST_KEYS]]
                    for what, keys in changes.items()
                    if keys
                },
            }
        )
    return found[::-1]


_COMMANDS = {
    "election": ("contenders {}", "revoke {}", "doctor {}"),
    "configuration": ("config history {}",),
    "queue": ("ls -l {}",),
}


def _commands(path: str, kind: str) -> list[str]:
    """Commands to look further; none for a path that a shell might take for another one."""
    if render.escaped(path) != path:
        return []
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
    return {**_participant(scene, one, one.place.what), "asked_to_go": one.is_asked_to_go}


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
