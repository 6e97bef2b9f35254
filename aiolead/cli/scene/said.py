"""What a scene says: to people as text, to programs as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import render
from ..recognize import LONGEST_NAME, ContenderLine
from .scene import Scene
from .values import Happening, Line, Term, What

__all__ = [
    "duration",
    "happening_as_json",
    "happening_as_text",
    "line_as_json",
    "name_of",
    "scene_as_json",
    "since",
    "term_as_json",
    "unreadable",
    "verb",
]


def name_of(identity: str | None) -> str:
    """What somebody calls himself, fit to be shown."""
    if identity is None:
        return "(not allowed to read)"
    return render.shortened(identity, LONGEST_NAME) or "(no name)"


def duration(seconds: float) -> str:
    """A time, as people say it: three digits of it, or two units."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return render.span(seconds)


def since(term: Term, now: float) -> str:
    """For how long a term has lasted; `<` where we did not see it begin."""
    lasted = render.span((term.ended or now) - term.not_before)
    return lasted if term.is_exact else f"< {lasted}"


def unreadable(paths: Sequence[str], most: int) -> str:
    """That some znodes may not be read, and which; empty if there are none.

    Args:
        paths: the znodes.
        most: how many of them to name.
    """
    if not paths:
        return ""
    named = ", ".join(render.escaped(path) for path in paths[:most])
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"may not read {named}{more}: what is below is not known"


_VERBS = {"election": "leads", "lock": "has the lock", "semaphore": "has a permit"}


def verb(kind: str) -> str:
    """What having it is called, for a line of some kind."""
    return _VERBS.get(kind, "holds")


def happening_as_text(one: Happening, kind: str) -> str:
    """What has happened, without when and where.

    Args:
        one: what has happened.
        kind: of its line.
    """
    who, term, before = name_of(one.identity), one.term, one.before
    match one.what:
        case What.BEGAN:
            text = f"{who} {verb(kind)} (token {one.token})"
            if before is not None and term is not None:
                text += f", after {name_of(before.identity)}"
                if before.silent_since is not None:
                    silence = duration(term.began - before.silent_since)
                    text += f", who had no connection for {silence}"
                elif term.gap:
                    text += f", {duration(term.gap)} with nobody between"
        case What.VACANT:
            text = f"{who} is gone: nobody {verb(kind)}"
        case What.ENDED:
            text = f"{who} is gone"
        case What.JOINED:
            text = f"{who} waits"
        case What.LEFT:
            text = f"{who} does not wait any more"
        case What.ASKED:
            text = f"{who} is asked to let go"
        case What.SILENT:
            text = f"{who} has no connection, and still holds"
        case _:
            text = f"{who} has a connection again"
    return text if one.is_exact else f"{text} (seen late)"


def happening_as_json(one: Happening) -> dict[str, Any]:
    """What has happened, for JSON."""
    return {
        "number": one.number,
        "time": render.moment(round(one.at * 1000)),
        "event": one.what.value,
        "path": one.path,
        "identity": one.identity,
        "token": one.token,
        "is_exact": one.is_exact,
        "gap": _rounded(one.term.gap) if one.term and one.what is What.BEGAN else None,
        "before": one.before and term_as_json(one.before),
    }


def term_as_json(term: Term) -> dict[str, Any]:
    """A term, for JSON; times in UTC."""
    return {
        "identity": term.identity,
        "token": term.token,
        "session": render.hexadecimal(term.session_id) if term.session_id else None,
        "znode": term.node,
        "began": _moment(term.began),
        "not_before": _moment(term.not_before),
        "ended": _moment(term.ended),
        "silent_since": _moment(term.silent_since),
        "gap": _rounded(term.gap),
    }


def line_as_json(scene: Scene, line: Line) -> dict[str, Any]:
    """A line, its holders' terms and those in it, for JSON."""
    return {
        "path": line.path,
        "kind": line.kind or None,
        "vacant_since": _moment(line.vacant_since),
        "terms": [term_as_json(term) for term in line.terms],
        "contenders": [_contender_as_json(scene, one) for one in line.contenders],
        "families": line.families,
    }


def _contender_as_json(scene: Scene, one: ContenderLine) -> dict[str, Any]:
    owner = one.stat.ephemeral_owner
    return {
        "place": one.place.number,
        "holds": one.place.holds,
        "identity": one.identity,
        "session": render.hexadecimal(owner) if owner else None,
        "link": scene.link_of(one).value,
        "created": render.moment(one.stat.ctime),
        "token": one.stat.czxid,
        "znode": one.path,
        "kind": one.place.what,
        "asked_to_go": one.is_asked_to_go,
    }


def scene_as_json(scene: Scene, now: float) -> dict[str, Any]:
    """Everything that there is, but for the past, for JSON."""
    return {
        "time": _moment(now),
        "revision": scene.revision,
        "state": scene.link.value,
        "session": render.hexadecimal(scene.session_id) if scene.session_id else None,
        "is_current": scene.is_current,
        "knows_sessions": scene.knows_sessions,
        "unreadable": scene.unreadable,
        "lines": [line_as_json(scene, line) for line in scene.lines],
    }


def _moment(at: float | None) -> str | None:
    return None if at is None else render.moment(round(at * 1000))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
