"""A scene as lines of text that fit a terminal of any size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ..model import SessionState
from . import render, scene_text
from .scene import Scene
from .scene_values import (
    ContenderQueue,
    ObservedTerm,
    OwnerConnection,
    SceneEvent,
    SceneEventType,
)

LEAST_EVENTS = 3
"""Least number of lines for events, if there are that many."""
LEAST_NAME = 12
"""Least width of paths and names, in columns."""
FRESH = 5.0
"""How long a new term stands out, in seconds."""
MOST_NAMED = 3
"""Most waiters, or unreadable znodes, that are named on one line."""

_STYLES = {
    SceneEventType.BEGAN: "green",
    SceneEventType.VACANT: "red",
    SceneEventType.SILENT: "yellow",
    SceneEventType.ASKED: "yellow",
}
_CONNECTIONS = {each: each.value for each in OwnerConnection} | {OwnerConnection.UNKNOWN: ""}


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table: its cells by their columns, and its style."""

    cells: dict[str, str]
    style: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Draws a scene; `can_show` is whether the terminal has all characters of a text."""

    scene: Scene
    title: str
    can_show: Callable[[str], bool] = field(default=lambda _: True)

    def draw(self, now: float, width: int, height: int) -> list[Text]:
        """The lines for a terminal of that size, in columns and lines, by the scene's clock."""
        queues, events = self.scene.queues, self.scene.since(0)
        head = [*self._heading(queues, now), Text()]
        room = max(0, height - len(head) - 1)  # one line is for the column headings
        for_events = min(len(events) + 1, max(LEAST_EVENTS + 1, room // 3)) if events else 0
        table = self._table(queues, now, width, max(1, room - for_events))
        below: list[Text] = []
        left = height - len(head) - len(table) - 1
        if events and left > 0:
            kinds = {queue.path: queue.kind for queue in queues}
            below = [Text(), *(self._event(event, kinds, now) for event in events[-left:])]
        drawn = [*head, *table, *below][: max(0, height)]
        for line in drawn:
            line.plain = _cut(render.escaped(line.plain), max(0, width))
        return drawn

    # --- the heading ---------------------------------------------------------------------------

    def _heading(self, queues: Sequence[ContenderQueue], now: float) -> list[Text]:
        contenders = sum(len(queue.contenders) for queue in queues)
        counts = f"{render.plural(len(queues), 'queue')}, {render.plural(contenders, 'contender')}"
        time = render.moment(round(now * 1000))[11:19] + "Z"
        rows = [Text(f"aiolead top  {time}  {render.escaped(self.title)}  {counts}", "bold")]
        scene = self.scene
        if not scene.is_current:
            if scene.session_state is SessionState.CONNECTED:
                rows.append(Text("reads ...", "dim"))
            else:
                state = scene.session_state.value
                text = f"no connection to the servers ({state}): this is the last known state"
                rows.append(Text(text, "bold yellow"))
        if closed := scene.unreadable:
            rows.append(Text(self._safe(scene_text.unreadable(closed, MOST_NAMED)), "yellow"))
        return rows

    # --- the table -----------------------------------------------------------------------------

    def _table(
        self, queues: Sequence[ContenderQueue], now: float, width: int, room: int
    ) -> list[Text]:
        if not queues:
            text = "nobody contends for anything here" if self.scene.is_current else ""
            return [Text(text, "dim")]
        rows = [row for queue in queues for row in self._rows(queue, now, in_full=True)]
        if len(rows) > room:
            # Queues with a problem, and then those that changed last, come first.
            rows = [
                row
                for queue in sorted(queues, key=self._urgency)
                for row in self._rows(queue, now, in_full=False)
            ]
        hidden = max(0, len(rows) - room)
        if hidden:
            rows = rows[: max(0, room - 1)]
            hidden = len(queues) - len({row.cells["path"] for row in rows} - {""})
        columns = _columns(rows, width)
        drawn = [Text(_joined({name: name for name in columns}, columns), "dim")]
        drawn += [Text(_joined(row.cells, columns), row.style) for row in rows]
        if hidden:
            drawn.append(Text(f"({hidden} more)", "dim"))
        return drawn

    def _urgency(self, queue: ContenderQueue) -> tuple[int, float, str]:
        """The sort key if there is no room for all."""
        newest = max((term.began for term in queue.terms), default=queue.vacant_since or 0.0)
        is_well = bool(queue.terms) and all(term.silent_since is None for term in queue.terms)
        return (1 if is_well or not queue.kind else 0), -newest, queue.path

    def _rows(self, queue: ContenderQueue, now: float, *, in_full: bool) -> list[_Row]:
        waiting = queue.waiting
        path = self._safe(render.escaped(queue.path))
        names = "" if in_full else self._names([one.identity for one in waiting])
        rows: list[_Row] = []
        for term in queue.terms:
            cells = {
                "path": "" if rows else path,
                "held by": self._safe(scene_text.name_of(term.identity)),
                "for": scene_text.since(term, now),
                "token": str(term.token),
                "session": self._session(term, now),
                "waiting": "" if rows else names,
            }
            style = "yellow" if term.silent_since is not None else ""
            rows.append(_Row(cells, style or ("green" if now - term.began < FRESH else "")))
        if not rows:
            ago = "" if queue.vacant_since is None else render.span(now - queue.vacant_since)
            cells = {"path": path, "held by": "nobody", "for": ago, "waiting": names}
            rows.append(_Row(cells, "red" if queue.kind else "dim"))
        for number, one in enumerate(waiting if in_full else (), 1):
            cells = {
                "path": "",
                "held by": f"  {number}. {self._safe(scene_text.name_of(one.identity))}",
                "for": render.age(one.stat.ctime) if one.stat else "",
                "token": str(one.stat.czxid) if one.stat else "",
                "session": _CONNECTIONS[self.scene.connection_of(one)],
                "waiting": "asked to go" if one.is_asked_to_go else "",
            }
            rows.append(_Row(cells, "dim"))
        if len(queue.families) > 1:
            text = f"not all of these exclude each other: {', '.join(queue.families)}"
            rows.append(_Row({"path": "", "held by": text}, "red"))
        return rows

    def _session(self, term: ObservedTerm, now: float) -> str:
        if term.silent_since is not None:
            return f"silent {render.span(now - term.silent_since)}"
        if not term.session_id:
            return "none"
        return "connected" if self.scene.knows_sessions else ""

    def _names(self, identities: Sequence[str | None]) -> str:
        names = [self._safe(scene_text.name_of(identity)) for identity in identities[:MOST_NAMED]]
        more = "" if len(identities) <= MOST_NAMED else ", ..."
        return f"{len(identities)}: {', '.join(names)}{more}" if names else ""

    def _event(self, event: SceneEvent, kinds: dict[str, str], now: float) -> Text:
        time = render.moment(round(event.at * 1000))[11:19]
        text = scene_text.event_as_text(event, kinds.get(event.path, ""))
        line = self._safe(f"{time}  {render.escaped(event.path)}  {text}")
        return Text(line, _STYLES.get(event.what, "") if now - event.at < 60 else "dim")

    def _safe(self, text: str) -> str:
        """A text in characters that the terminal has."""
        if self.can_show(text):
            return text
        text = text.replace("…", "...")
        return "".join(
            each if self.can_show(each) else each.encode("ascii", "backslashreplace").decode()
            for each in text
        )


# --- columns that fit ----------------------------------------------------------------------------

_ORDER = ("path", "held by", "for", "token", "session", "waiting")
_DROPPED_FIRST = ("session", "token", "waiting", "for", "held by")
_CUT = ("path", "held by", "waiting")
_GAP = 2


def _columns(rows: Sequence[_Row], width: int) -> dict[str, int]:
    """The columns that there is room for, with their widths."""
    columns = {
        name: max(cell_len(name), *(cell_len(row.cells.get(name, "")) for row in rows))
        for name in _ORDER
        if any(row.cells.get(name) for row in rows)
    }
    # Names may be cut; the other columns are there in full, or not at all.
    least = {
        name: min(size, LEAST_NAME) if name in _CUT else size for name, size in columns.items()
    }
    for name in _DROPPED_FIRST:
        if _total(least) <= width:
            break
        least.pop(name, None)
        columns.pop(name, None)
    while _total(columns) > width:
        widest = max(columns, key=lambda name: columns[name] - least[name])
        if columns[widest] <= least[widest]:
            break
        columns[widest] -= 1
    return columns


def _total(columns: dict[str, int]) -> int:
    return sum(columns.values()) + _GAP * (len(columns) - 1)


def _joined(cells: dict[str, str], columns: dict[str, int]) -> str:
    padded = [
        set_cell_size(_cut(cells.get(name, ""), size), size) for name, size in columns.items()
    ]
    return (" " * _GAP).join(padded).rstrip()


def _cut(text: str, width: int) -> str:
    """A text no wider than that; it ends in two dots if something is left out."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 2) + ".." if width > 2 else set_cell_size(text, width)
