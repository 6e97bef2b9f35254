"""What the page shows, as a value for JSON. Pure.

Everything from znodes is shortened and escaped here, and becomes text, never markup, in the page.
Times are seconds since 1970; the page compares them with `now`, not with its own clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from .. import render
from ..contender_queue import QueuedContender
from ..ensemble import behind
from ..render import rounded
from ..scene import Scene
from ..scene_text import event_as_text, name_of
from ..scene_values import ContenderQueue, ObservedTerm, OwnerConnection
from ..server_survey import Quorum, ServerAnswers

MOST_LINES = 200
MOST_WAITING = 50
"""How many queues the page has, and how many waiters in each."""
MOST_TERMS = 50
"""How many terms of each queue."""
MOST_EVENTS = 50
MOST_UNREADABLE = 20
LONGEST_TEXT = 200
"""In characters: paths, and texts of servers, which are as long as they like."""


@final
@dataclass(frozen=True, slots=True)
class EnsembleHealth:
    """The answers of all servers, when they were asked, and the resulting quorum."""

    asked: float
    answers: Sequence[ServerAnswers]
    quorum: Quorum


def as_state(scene: Scene, health: EnsembleHealth | None, now: float) -> dict[str, Any]:
    """Everything that the page shows."""
    queues, closed = scene.queues, scene.unreadable
    kinds = {queue.path: queue.kind for queue in queues}
    return {
        "now": rounded(now),
        "link": scene.session_state.value,
        "session": render.session(scene.session_id),
        "is_current": scene.is_current,
        "lines": [_queue(scene, queue) for queue in queues[:MOST_LINES]],
        "more_lines": max(0, len(queues) - MOST_LINES),
        "unreadable": [_text(path) for path in closed[:MOST_UNREADABLE]],
        "more_unreadable": max(0, len(closed) - MOST_UNREADABLE),
        "happenings": [
            {
                "number": event.number,
                "at": rounded(event.at),
                "what": event.what.value,
                "path": _text(event.path),
                "text": event_as_text(event, kinds.get(event.path, "")),
            }
            for event in reversed(scene.since(0)[-MOST_EVENTS:])
        ],
        "ensemble": None if health is None else _ensemble(health),
    }


def _queue(scene: Scene, queue: ContenderQueue) -> dict[str, Any]:
    holders = [one for one in queue.contenders if one.place.holds]
    waiting = queue.waiting
    return {
        "key": _key(queue.path),
        "path": _text(queue.path),
        "kind": queue.kind,
        "vacant_since": rounded(queue.vacant_since),
        "families": queue.families if len(queue.families) > 1 else [],
        "holders": [
            _contender(scene, one) | _term(term)
            for one, term in zip(holders, queue.terms, strict=True)
        ],
        "waiting": [_contender(scene, one) for one in waiting[:MOST_WAITING]],
        "more_waiting": max(0, len(waiting) - MOST_WAITING),
        "terms": [_term(term) for term in scene.terms_of(queue.path)[-MOST_TERMS:]],
    }


def _contender(scene: Scene, one: QueuedContender) -> dict[str, Any]:
    connection, stat = scene.connection_of(one), one.stat
    assert stat is not None
    return {
        "key": _key(one.path, stat.czxid),
        "name": name_of(one.identity),
        "what": one.place.what,
        "token": str(stat.czxid),
        "since": rounded(stat.ctime / 1000),
        "link": None if connection is OwnerConnection.UNKNOWN else connection.value,
        "asked_to_go": one.is_asked_to_go,
    }


def _term(term: ObservedTerm) -> dict[str, Any]:
    return {
        "key": _key(term.key, term.began),
        "name": name_of(term.identity),
        # Text: JavaScript would round a number of 64 bits.
        "token": str(term.token),
        "began": rounded(term.began),
        "not_before": rounded(term.not_before),
        "ended": rounded(term.ended),
        "silent_since": rounded(term.silent_since),
        "gap": rounded(term.gap),
    }


def _ensemble(health: EnsembleHealth) -> dict[str, Any]:
    quorum = health.quorum
    return {
        "asked": rounded(health.asked),
        "has_quorum": quorum.is_met,
        "voters": quorum.voters,
        "up": quorum.up,
        "tolerates": quorum.tolerates,
        "servers": [_server(each, health.answers) for each in health.answers],
    }


def _server(answers: ServerAnswers, everybody: Sequence[ServerAnswers]) -> dict[str, Any]:
    lag = behind(answers, everybody)
    return {
        "server": _text(str(answers.server)),
        "role": _text(answers.mode) or None,
        "state": answers.state.value,
        "problem": _text(answers.problem) or None,
        "version": _text(answers.version) or None,
        "behind": None if lag is None else str(lag),
        "connections": answers.connections,
    }


def _key(*parts: object) -> str:
    """Unique on the page, however long the path is."""
    return hashlib.blake2b(
        repr(parts).encode("ascii", "backslashreplace"), digest_size=9
    ).hexdigest()


def _text(text: str) -> str:
    return render.shortened(text, LONGEST_TEXT)
