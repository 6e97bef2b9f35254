"""What the page shows, as a value for JSON. Pure.

The page shows texts as they are: everything that comes from znodes is cut to a length and has its
controls escaped here, and becomes text, never markup, there. Times are seconds since 1970; the page
compares them with `now`, not with its own clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from .. import render
from ..ensemble import behind
from ..recognize import ContenderLine
from ..scene import Happening, Line, Link, Scene, Term
from ..scene.said import happening_as_text, name_of
from ..survey import Answers, Quorum

__all__ = ["MOST_LINES", "MOST_TERMS", "MOST_WAITING", "Ensemble", "as_state"]

MOST_LINES = 200
MOST_WAITING = 50
"""How many lines the page has, and how many of those who wait in each."""
MOST_TERMS = 50
"""How many terms of each line."""
MOST_HAPPENINGS = 50
MOST_UNREADABLE = 20
LONGEST_PATH = 200
LONGEST_TEXT = 200


@final
@dataclass(frozen=True, slots=True)
class Ensemble:
    """What the servers have said of themselves.

    Attributes:
        asked: when.
        answers: of each server.
        quorum: what follows from that.
    """

    asked: float
    answers: Sequence[Answers]
    quorum: Quorum


def as_state(scene: Scene, ensemble: Ensemble | None, now: float) -> dict[str, Any]:
    """Everything that the page shows."""
    lines = _worth_showing(scene.lines)
    closed = scene.unreadable
    happenings = scene.since(0)[-MOST_HAPPENINGS:]
    kinds = {line.path: line.kind for line in lines}
    return {
        "now": _rounded(now),
        "link": scene.link.value,
        "session": render.hexadecimal(scene.session_id) if scene.session_id else None,
        "is_current": scene.is_current,
        "lines": [_line(scene, line) for line in lines[:MOST_LINES]],
        "more_lines": max(0, len(lines) - MOST_LINES),
        "unreadable": [_path(path) for path in closed[:MOST_UNREADABLE]],
        "more_unreadable": max(0, len(closed) - MOST_UNREADABLE),
        "happenings": [_happening(one, kinds.get(one.path, "")) for one in reversed(happenings)],
        "ensemble": None if ensemble is None else _ensemble(ensemble),
    }


def _worth_showing(lines: Sequence[Line]) -> list[Line]:
    """All but paths that were asked for to see what is below them, and have something there."""
    return [
        line
        for n, line in enumerate(lines)
        if line.kind or not any(_is_below(other.path, line.path) for other in lines[n + 1 :])
    ]


def _is_below(path: str, above: str) -> bool:
    return path.startswith(above if above == "/" else f"{above}/")


def _line(scene: Scene, line: Line) -> dict[str, Any]:
    holders = [one for one in line.contenders if one.place.holds]
    waiting = line.waiting
    return {
        "key": _key(line.path),
        "path": _path(line.path),
        "kind": line.kind,
        "vacant_since": _rounded(line.vacant_since),
        "families": line.families if len(line.families) > 1 else [],
        "holders": [
            _contender(scene, one) | _term(term)
            for one, term in zip(holders, line.terms, strict=True)
        ],
        "waiting": [_contender(scene, one) for one in waiting[:MOST_WAITING]],
        "more_waiting": max(0, len(waiting) - MOST_WAITING),
        "terms": [_term(term) for term in scene.terms_of(line.path)[-MOST_TERMS:]],
    }


def _contender(scene: Scene, one: ContenderLine) -> dict[str, Any]:
    link = scene.link_of(one)
    return {
        "key": _key(one.path, one.stat.czxid),
        "name": name_of(one.identity),
        "what": one.place.what,
        "token": str(one.stat.czxid),
        "since": _rounded(one.stat.ctime / 1000),
        "link": None if link is Link.UNKNOWN else link.value,
        "asked_to_go": one.is_asked_to_go,
    }


def _term(term: Term) -> dict[str, Any]:
    return {
        "key": _key(term.key, term.began),
        "name": name_of(term.identity),
        # A number of 64 bits: JavaScript would round it.
        "token": str(term.token),
        "began": _rounded(term.began),
        "not_before": _rounded(term.not_before),
        "ended": _rounded(term.ended),
        "silent_since": _rounded(term.silent_since),
        "gap": _rounded(term.gap),
    }


def _happening(one: Happening, kind: str) -> dict[str, Any]:
    return {
        "number": one.number,
        "at": _rounded(one.at),
        "what": one.what.value,
        "path": _path(one.path),
        "text": happening_as_text(one, kind),
    }


def _ensemble(ensemble: Ensemble) -> dict[str, Any]:
    quorum = ensemble.quorum
    return {
        "asked": _rounded(ensemble.asked),
        "has_quorum": quorum.is_met,
        "voters": quorum.voters,
        "up": quorum.up,
        "tolerates": quorum.tolerates,
        "servers": [_server(each, ensemble.answers) for each in ensemble.answers],
    }


def _server(answers: Answers, everybody: Sequence[Answers]) -> dict[str, Any]:
    lag = behind(answers, everybody)
    return {
        "server": _text(str(answers.server)),
        "role": _text(answers.mode) or None,
        "problem": _text(answers.problem) or None,
        "version": _text(answers.version) or None,
        "behind": None if lag is None else str(lag),
        "connections": answers.connections,
    }


def _key(*parts: object) -> str:
    """Tells one thing on the page from all others, however long its path is."""
    return hashlib.blake2b(
        repr(parts).encode("ascii", "backslashreplace"), digest_size=9
    ).hexdigest()


def _path(path: str) -> str:
    return render.shortened(path, LONGEST_PATH)


def _text(text: str) -> str:
    """What a server says of itself, which is as long as it likes."""
    return render.shortened(text, LONGEST_TEXT)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
