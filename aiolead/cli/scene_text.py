"""A scene as text for people, and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import render
from .contender_queue import LONGEST_NAME
from .recipe_layouts import OtherRecipe, RecipeMember
from .render import rounded
from .scene import Scene
from .scene_values import ContenderQueue, ObservedTerm, SceneEvent, SceneEventType

MOST_NAMED = 3
"""Most members, waiters, or unreadable znodes, that are named on one line."""


def name_of(identity: str | None) -> str:
    """An identity, fit to be shown."""
    if identity is None:
        return "(not allowed to read)"
    return render.shortened(identity, LONGEST_NAME) or "(no name)"


def duration(seconds: float) -> str:
    """A time in words: three digits of it, or two units."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else render.span(seconds)


def since(term: ObservedTerm, now: float) -> str:
    """How long a term has lasted; with `<` if we did not see it begin."""
    lasted = render.span((term.ended or now) - term.not_before)
    return lasted if term.is_exact else f"< {lasted}"


def moment(at: float | None) -> str | None:
    return None if at is None else render.moment(round(at * 1000))


def unreadable(paths: Sequence[str], most: int) -> str:
    """Says that some znodes may not be read, with the first few names; empty if there are none."""
    if not paths:
        return ""
    named = ", ".join(render.escaped(path) for path in paths[:most])
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"may not read {named}{more}: what is below is not known"


def incomplete(paths: Sequence[str]) -> str:
    """Says that trees have more znodes than are read; empty if none has."""
    named = ", ".join(render.escaped(path) for path in paths)
    return f"not all znodes under {named} are shown: see --max-znodes" if paths else ""


_VERBS = {"election": "leads", "lock": "has the lock", "semaphore": "has a permit"}


def verb(kind: str) -> str:
    return _VERBS.get(kind, "holds")


def event_as_text(event: SceneEvent, kind: str) -> str:
    """The text of an event in a queue of this type, without time and path."""
    who, term, before = name_of(event.identity), event.term, event.before
    match event.what:
        case SceneEventType.BEGAN:
            text = f"{who} {verb(kind)} (token {event.token})"
            if before is not None and term is not None:
                text += f", after {name_of(before.identity)}"
                if before.silent_since is not None:
                    silence = duration(term.began - before.silent_since)
                    what = "was silent" if before.is_paused else "had no connection"
                    text += f", who {what} for {silence}"
                elif term.gap:
                    text += f", {duration(term.gap)} with nobody between"
        case SceneEventType.VACANT:
            text = f"{who} is gone: nobody {verb(kind)}"
        case SceneEventType.ENDED:
            text = f"{who} is gone"
        case SceneEventType.JOINED:
            text = f"{who} waits"
        case SceneEventType.LEFT:
            text = f"{who} does not wait any more"
        case SceneEventType.ASKED:
            text = f"{who} is asked to release"
        case SceneEventType.SILENT:
            if term is not None and term.is_paused:
                text = f"{who} is connected, but silent (stopped?), and still holds"
            else:
                text = f"{who} has no connection, and still holds"
        case SceneEventType.DOWN | SceneEventType.UP:
            text = event.text
        case _:
            text = f"{who} is back, and still holds"
    return text if event.is_exact else f"{text} (seen late)"


def event_as_json(event: SceneEvent) -> dict[str, Any]:
    return {
        "number": event.number,
        "time": moment(event.at),
        "event": event.what.value,
        "path": event.path,
        "identity": event.identity,
        "token": event.token,
        "is_exact": event.is_exact,
        "gap": rounded(event.term.gap)
        if event.term and event.what is SceneEventType.BEGAN
        else None,
        "before": event.before and term_as_json(event.before),
    }


def term_as_json(term: ObservedTerm) -> dict[str, Any]:
    return {
        "identity": term.identity,
        "token": term.token,
        "session": render.session(term.session_id),
        "znode": term.node,
        "began": moment(term.began),
        "not_before": moment(term.not_before),
        "ended": moment(term.ended),
        "silent_since": moment(term.silent_since),
        "is_paused": term.is_paused,
        "gap": rounded(term.gap),
    }


def scene_as_json(scene: Scene, now: float) -> dict[str, Any]:
    return {
        "time": moment(now),
        "revision": scene.revision,
        "state": scene.session_state.value,
        "session": render.session(scene.session_id),
        "is_current": scene.is_current,
        "knows_sessions": scene.knows_sessions,
        "unreadable": scene.unreadable,
        "incomplete": scene.incomplete,
        "lines": [_queue_as_json(scene, queue) for queue in scene.queues],
        "others": [_other_as_json(scene, other) for other in scene.others],
    }


def use_as_text(other: OtherRecipe) -> str:
    """The counts of a recipe, and its first members: `3 items, 1 claimed: host-1`."""
    counts = other.note or ", ".join(_count(what, number) for what, number in other.counts)
    names = names_as_text([one.identity for one in other.members or other.claims])
    return f"{counts}: {names}" if names else counts


def names_as_text(identities: Sequence[str | None]) -> str:
    more = "" if len(identities) <= MOST_NAMED else ", ..."
    return ", ".join(map(name_of, identities[:MOST_NAMED])) + more


def _count(what: str, number: int) -> str:
    if what == "version":
        return f"version {number}"
    is_plural = what.endswith("s")
    return render.plural(number, what.removesuffix("s")) if is_plural else f"{number} {what}"


def leaders_as_text(queue: ContenderQueue) -> str:
    """How many may lead, and the source of that number; empty if nobody says it: then it is one."""
    if len(queue.leaders_said) > 1 and queue.leaders_by != "option":
        said = ", ".join(map(str, queue.leaders_said))
        return f"contenders do not agree how many may lead: {said}"
    if queue.leaders_by:
        source = "--leaders" if queue.leaders_by == "option" else "the contenders' names"
        return f"{queue.leaders} may lead, by {source}"
    return ""


def _other_as_json(scene: Scene, other: OtherRecipe) -> dict[str, Any]:
    return {
        "path": other.path,
        "kind": other.kind,
        **dict(other.counts),
        "members": [_member_as_json(scene, one) for one in other.members],
        "claims": [
            _member_as_json(scene, one) | {"created": render.moment(one.stat.ctime)}
            for one in other.claims
        ],
    }


def _member_as_json(scene: Scene, one: RecipeMember) -> dict[str, Any]:
    return {
        "identity": one.identity,
        "znode": one.path,
        "session": render.session(one.stat.ephemeral_owner),
        "link": scene.connection_of_session(one.stat.ephemeral_owner).value,
    }


def _queue_as_json(scene: Scene, queue: ContenderQueue) -> dict[str, Any]:
    return {
        "path": queue.path,
        "kind": queue.kind or None,
        "queue_state": queue.state.value,
        "leaders": queue.leaders,
        "leaders_by": queue.leaders_by or None,
        "vacant_since": moment(queue.vacant_since),
        "terms": [term_as_json(term) for term in queue.terms],
        "contenders": [
            {**one.as_json(), "znode": one.path, "link": scene.connection_of(one).value}
            for one in queue.contenders
        ],
        "families": queue.families,
    }
