"""A scene as lines of text that fit a terminal of any size. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ..model import SessionState
from . import render, scene_text
from .contender_queue import LONGEST_NAME
from .recipe_layouts import OtherRecipe
from .recipe_tables import Age, Cell, Level, Moment, table_of
from .scene import Scene
from .scene_values import (
    ContenderQueue,
    ObservedTerm,
    OwnerConnection,
    SceneEvent,
    SceneEventType,
)
from .server_inquiry import LONGEST_REASON
from .top_keys import FIRST_ORDER, LEGEND, ORDERS, TopControls

LEAST_EVENTS = 3
"""Least number of lines for events, if there are that many."""
LEAST_NAME = 12
"""Least width of names, in columns."""
LEAST_PATH = 40
"""Least width of paths, in columns, before other columns are left out for them."""
FRESH = 5.0
"""How long a new term stands out, in seconds."""
WIDE = 110
"""Width from which waiters are named in the table, rather than counted."""

_STYLES = {
    SceneEventType.BEGAN: "green",
    SceneEventType.VACANT: "red",
    SceneEventType.SILENT: "yellow",
    SceneEventType.ASKED: "yellow",
    SceneEventType.DOWN: "red",
    SceneEventType.UP: "green",
}
_CONNECTIONS = {each: each.value for each in OwnerConnection} | {OwnerConnection.UNKNOWN: ""}


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table: its cells by their columns, its style, and its queue's path."""

    cells: dict[str, str]
    style: str = ""
    of: str = ""


@final
@dataclass(frozen=True, slots=True)
class Picture:
    """Draws a scene; `can_show` is whether the terminal has all characters of a text.

    `controls` are None where there are no keys.
    """

    scene: Scene
    title: str
    can_show: Callable[[str], bool] = field(default=lambda _: True)
    controls: TopControls | None = None

    def draw(self, now: float, width: int, height: int) -> list[Text]:
        """The lines for a terminal of that size, in columns and lines, by the scene's clock."""
        controls = self.controls or TopControls()
        opened = self._opened(controls.selected) if controls.is_open else None
        if controls.has_legend:
            most = max(len(keys) for keys, _ in LEGEND)
            drawn = [Text(f"{keys:{most}}  {does}") for keys, does in LEGEND]
        elif opened is not None:
            if isinstance(opened, ContenderQueue):
                lines = self._page(opened, now)
            else:
                lines = self._page_of_other(opened, now, width)
            page = [each for line in lines for each in _wrapped(line, width)]
            controls.first = max(0, min(controls.first, len(page) - height))
            drawn = page[controls.first :]
        else:
            drawn = self._overview(controls, now, width, height)
        drawn = drawn[: max(0, height)]
        for line in drawn:
            line.plain = _cut(render.escaped(line.plain), max(0, width))
        return drawn

    def _overview(self, controls: TopControls, now: float, width: int, height: int) -> list[Text]:
        queues, events = self.scene.queues, self.scene.since(0)
        kinds = {queue.path: queue.kind for queue in queues}
        title, *notes = self._heading(queues, now, width)
        head = [
            *(title, *(each for line in notes for each in _wrapped(line, width))),
            *self._choices(controls),
            Text(),
        ]
        room = max(0, height - len(head) - 1)  # one line is for the column headings
        events = [each for each in events if self._has(controls, each, kinds)]
        for_events = min(len(events) + 1, max(LEAST_EVENTS + 1, room // 3)) if events else 0
        shown = [queue for queue in queues if controls.keeps(queue)]
        table = self._table(shown, controls, now, width, max(1, room - for_events))
        left = height - len(head) - len(table) - 1
        below: list[Text] = []
        for event in reversed(events[-max(0, left) :] if left > 0 else ()):
            lines = _wrapped(self._event(event, kinds, now), width)
            if len(below) + len(lines) > left:
                break
            below = [*lines, *below]
        return [*head, *table, *([Text(), *below] if below else ())]

    # --- the heading ---------------------------------------------------------------------------

    def _heading(self, queues: Sequence[ContenderQueue], now: float, width: int) -> list[Text]:
        contenders = sum(len(queue.contenders) for queue in queues)
        health = self.scene.health
        problems = sum(queue.state.is_problem for queue in queues)
        problems += health.problems if health else 0
        paths = render.plural(len(queues) + len(self.scene.others), "path")
        counts = f"{paths}, {render.plural(contenders, 'contender')}"
        if problems:
            counts = f"{render.plural(problems, 'problem')}, {counts}"
        time = render.moment(round(now * 1000))[11:19] + " UTC"
        hint = "" if self.controls is None else "  ?: keys"
        start, end = f"aiolead top  {time}  ", f"  {counts}{hint}"
        title = render.escaped(self.title)
        room = width - cell_len(start) - cell_len(end)
        rows = [Text(start + _cut(title, max(0, room)) + end, "bold")]
        scene = self.scene
        if not scene.is_current:
            if scene.session_state is SessionState.CONNECTED:
                rows.append(Text("reads ...", "dim"))
            else:
                state = scene.session_state.value
                text = f"no connection to the servers ({state}): this is the last known state"
                if scene.seen_at is not None:
                    text += f", {render.span(now - scene.seen_at)} old"
                rows.append(Text(text, "bold yellow"))
        if health is not None and health.problems:
            wrong = [each for each in health.answers if each.state.is_problem]
            why = [render.shortened(each.problem, LONGEST_REASON) for each in wrong]
            down = [
                f"{each.server}: {reason or each.state.value}"
                for each, reason in zip(wrong, why, strict=True)
            ]
            down += [] if health.quorum.is_met else ["no quorum"]
            rows.append(Text(self._safe(render.escaped(", ".join(down))), "bold red"))
        if closed := scene.unreadable:
            rows.append(
                Text(self._safe(scene_text.unreadable(closed, scene_text.MOST_NAMED)), "yellow")
            )
        if cut := scene.incomplete:
            rows.append(Text(self._safe(scene_text.incomplete(cut)), "yellow"))
        return rows

    def _choices(self, controls: TopControls) -> list[Text]:
        parts = [f"sorted: {controls.order}"] if controls.order != FIRST_ORDER else []
        if controls.text or controls.is_typing:
            cursor = "_" if controls.is_typing else ""
            parts.insert(0, self._safe(f"filter: {render.escaped(controls.text)}{cursor}"))
        if controls.hides_vacant:
            parts.append("vacated paths hidden")
        return [Text("  ".join(parts), "cyan")] if parts else []

    # --- one queue -----------------------------------------------------------------------------

    def _page(self, queue: ContenderQueue, now: float) -> list[Text]:
        state = queue.state
        head = f"{render.escaped(queue.path)}  {queue.kind}  {state.value}"
        lines = [Text(self._safe(head), "bold red" if state.is_problem else "bold")]
        if leaders := scene_text.leaders_as_text(queue):
            lines.append(Text(leaders))
        lines += [row for each in self._rows(queue, now, in_full=True) if (row := _plain(each))]
        if queue.terms:
            lines += [Text(), Text("sessions, addresses and znodes of the holders", "dim")]
            lines += [Text(self._safe(self._origin(term))) for term in queue.terms]
        lines += [Text(), Text("terms, newest first", "dim")]
        for term in reversed(self.scene.terms_of(queue.path)):
            ended = render.moment(round(term.ended * 1000))[11:23] if term.ended else "goes on"
            began = render.moment(round(term.not_before * 1000))[11:23]
            name = self._safe(scene_text.name_of(term.identity))
            text = f"{began}  {ended:12}  {scene_text.since(term, now):12}  token {term.token}"
            lines.append(Text(f"{text}  {name}"))
        lines += [Text(), Text("events, newest first", "dim")]
        kinds = {queue.path: queue.kind}
        events = [each for each in self.scene.since(0) if each.path == queue.path]
        return [*lines, *(self._event(each, kinds, now) for each in reversed(events))]

    def _opened(self, path: str | None) -> ContenderQueue | OtherRecipe | None:
        others = (one for one in self.scene.others if one.path == path)
        return next(others, None) or self.scene.queue(path or "")

    def _page_of_other(self, other: OtherRecipe, now: float, width: int) -> list[Text]:
        lines = [Text(self._safe(f"{render.escaped(other.path)}  {self._other(other)}"), "bold")]
        # A configuration's versions are in `aiolead config history`: nothing is read for a picture.
        if other.kind != "configuration" and (table := table_of(self.scene, other, now)):
            rows = [
                dict(zip(table.columns, (self._cell(each, now) for each in cells), strict=True))
                for cells in (table.columns, *(cells for _, cells in table.rows))
            ]
            sizes = {
                name: max(cell_len(row[name]) for row in rows)
                for name in table.columns
                if any(row[name] for row in rows[1:])
            }
            styles = ["dim"] + [""] * len(table.rows)
            lines += [Text(), Text(table.title)]
            lines += map(Text, (_cut(_joined(row, sizes), width) for row in rows), styles)
            lines += [Text(f"({table.more} more)", "dim")] if table.more else []
        elif other.members:
            lines.append(Text())
        for one in other.members if other.kind != "once" else ():
            session = render.session(one.stat.ephemeral_owner) or "no session"
            address = render.shortened(
                self.scene.address_of(one.stat.ephemeral_owner), LONGEST_NAME
            )
            state = _CONNECTIONS[self.scene.connection_of(one)]
            parts = [scene_text.name_of(one.identity), render.age(one.stat.ctime), session]
            lines.append(Text(self._safe("  ".join(filter(None, [*parts, address, state])))))
        return lines

    def _cell(self, cell: Cell, now: float) -> str:
        match cell:
            case Age(since):
                return render.span(now - since)
            case Moment(at):
                return render.moment(round(at * 1000))[11:19]
            case Level(level):
                return f"{max(0, math.floor(level))} of {cell.most}"
        return self._safe(cell)

    def _origin(self, term: ObservedTerm) -> str:
        """The session, address and znode of a holder, as servers' logs have them."""
        address = render.shortened(self.scene.address_of(term.session_id), LONGEST_NAME)
        parts = [render.session(term.session_id) or "no session", address]
        return "  ".join(filter(None, [*parts, render.escaped(term.node)]))

    # --- the table -----------------------------------------------------------------------------

    def _table(
        self,
        queues: Sequence[ContenderQueue],
        controls: TopControls,
        now: float,
        width: int,
        room: int,
    ) -> list[Text]:
        others = [
            _Row(
                {"path": self._safe(render.escaped(each.path)), "held by": self._other(each)},
                "dim",
                each.path,
            )
            for each in self.scene.others
            if not controls.hides_vacant and controls.matches(each.path)
        ]
        if not others and all(queue.path == "/" and not queue.kind for queue in queues):
            return [Text(self._why_empty(controls), "dim")]
        order = sorted(queues, key=ORDERS[controls.order])
        in_full = len(others) + sum(max(1, len(queue.contenders)) for queue in order) <= room
        is_wide = width >= WIDE
        rows = [
            row for queue in order for row in self._rows(queue, now, in_full=in_full, names=is_wide)
        ] + others
        controls.shown, controls.room = (
            list(dict.fromkeys(row.of for row in rows)),
            max(1, room - 1),
        )
        hidden = max(0, len(rows) - room)
        if hidden:
            at = next((n for n, row in enumerate(rows) if row.of == controls.selected), 0)
            start = max(0, min(at - room // 2, len(rows) - room + 1))
            paths = {row.of for row in rows}
            rows = rows[start : start + max(0, room - 1)]
            hidden = len(paths) - len({row.of for row in rows})
        columns = _columns(rows, width)
        if "path" in columns:
            cut = _cut_apart({row.cells["path"] for row in rows}, columns["path"])
            rows = [
                replace(row, cells=row.cells | {"path": cut[row.cells["path"]]}) for row in rows
            ]
        drawn = [Text(_joined({name: name for name in columns}, columns), "dim")]
        for row in rows:
            is_selected = row.of == controls.selected and row.cells["path"]
            drawn.append(Text(_joined(row.cells, columns), "reverse" if is_selected else row.style))
        if hidden:
            drawn.append(Text(f"({hidden} more)", "dim"))
        return drawn

    def _other(self, other: OtherRecipe) -> str:
        return self._safe(f"{other.kind}: {scene_text.use_as_text(other)}".rstrip(": "))

    def _why_empty(self, controls: TopControls) -> str:
        if not self.scene.is_current:
            return ""
        if controls.text:
            return "no path or holder matches the filter (Esc clears it)"
        if controls.hides_vacant:
            return "all paths are vacated and hidden (v shows them)"
        return "nobody contends for anything here: elections and locks appear as somebody does"

    def _has(self, controls: TopControls, event: SceneEvent, kinds: dict[str, str]) -> bool:
        text = scene_text.event_as_text(event, kinds.get(event.path, ""))
        return controls.matches(event.path, text)

    def _rows(
        self, queue: ContenderQueue, now: float, *, in_full: bool, names: bool = True
    ) -> list[_Row]:
        waiting, of = queue.waiting, queue.path
        path = self._safe(render.escaped(of))
        named = "" if in_full or not waiting else str(len(waiting))
        if named and names:
            named = self._names([one.identity for one in waiting])
        rows: list[_Row] = []
        for term in queue.terms:
            cells = {
                "path": "" if rows else path,
                "type": "" if rows else queue.kind,
                "held by": self._safe(scene_text.name_of(term.identity)),
                "for": scene_text.since(term, now),
                "token": str(term.token),
                "session": self._session(term, now),
                "waiting": "" if rows else named,
            }
            style = "yellow" if term.silent_since is not None else ""
            rows.append(_Row(cells, style or ("green" if now - term.began < FRESH else ""), of))
        if not rows:
            ago = "" if queue.vacant_since is None else render.span(now - queue.vacant_since)
            cells = {
                "path": path,
                "type": queue.kind,
                "held by": "nobody",
                "for": ago,
                "waiting": named,
            }
            rows.append(_Row(cells, "red" if queue.kind else "dim", of))
        for number, one in enumerate(waiting if in_full else (), 1):
            cells = {
                "path": "",
                "held by": f"  {number}. {self._safe(scene_text.name_of(one.identity))}",
                "for": render.age(one.stat.ctime) if one.stat else "",
                "token": str(one.stat.czxid) if one.stat else "",
                "session": _CONNECTIONS[self.scene.connection_of(one)],
                "waiting": ", ".join(one.notes),
            }
            rows.append(_Row(cells, "dim", of))
        if len(queue.families) > 1:
            text = f"not all of these exclude each other: {', '.join(queue.families)}"
            rows.append(_Row({"path": "", "held by": text}, "red", of))
        return rows

    def _session(self, term: ObservedTerm, now: float) -> str:
        if term.silent_since is not None:
            what = "paused" if term.is_paused else "silent"
            return f"{what} {render.span(now - term.silent_since)}"
        if not term.session_id:
            return "none"
        return "connected" if self.scene.knows_sessions else ""

    def _names(self, identities: Sequence[str | None]) -> str:
        names = self._safe(scene_text.names_as_text(identities))
        return f"{len(identities)}: {names}" if names else ""

    def _event(self, event: SceneEvent, kinds: dict[str, str], now: float) -> Text:
        time = render.moment(round(event.at * 1000))[11:19]
        text = scene_text.event_as_text(event, kinds.get(event.path, ""))
        line = self._safe("  ".join(filter(None, [time, render.escaped(event.path), text])))
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

_ORDER = ("path", "type", "held by", "for", "token", "session", "waiting")
_DROPPED_FIRST = ("type", "token", "session", "waiting", "for")
_CUT = {"path": LEAST_PATH, "held by": LEAST_NAME, "waiting": LEAST_NAME}
"""The columns that may be cut, with their least widths."""
_OF_PAGE = ("path", "type")
"""The columns that are in the heading of a path's page."""
_GAP = 2


def _columns(rows: Sequence[_Row], width: int) -> dict[str, int]:
    columns = {
        name: max(cell_len(name), *(cell_len(row.cells.get(name, "")) for row in rows))
        for name in _ORDER
        if any(row.cells.get(name) for row in rows)
    }
    # Names may be cut; the other columns are there in full, or not at all.
    least = {name: min(size, _CUT.get(name, size)) for name, size in columns.items()}
    for name in _DROPPED_FIRST:
        # The type is worth no cut name.
        if _total(columns if name == "type" else least) <= width:
            break
        least.pop(name, None)
        columns.pop(name, None)
    if _total(least) > width:
        least["path"] = min(least["path"], LEAST_NAME)
    if _total(least) > width:
        least.pop("held by", None)
        columns.pop("held by", None)
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


def _plain(row: _Row) -> Text:
    cells = [cell for name, cell in row.cells.items() if name not in _OF_PAGE and cell.strip()]
    return Text("  " + "  ".join(cells), row.style)


def _wrapped(line: Text, width: int) -> list[Text]:
    """A line in pieces no wider than that, broken between words; a word alone may be wider."""
    if cell_len(line.plain) <= width:
        return [line]
    pieces = [""]
    for word in line.plain.split(" "):
        if cell_len(pieces[-1]) + cell_len(word) + 1 > width and pieces[-1].strip():
            pieces.append("    ")
        pieces[-1] += word if pieces[-1] in ("", "    ") else f" {word}"
    return [Text(piece, line.style) for piece in pieces]


def _middle_cut(text: str, width: int) -> str:
    """A text no wider than that, with two dots in its middle: paths differ at their ends."""
    if cell_len(text) <= width or width < LEAST_NAME:
        return _cut(text, width)
    ahead = (width - 2) // 3
    behind = text
    while cell_len(behind) > width - 2 - ahead:
        behind = behind[1:]
    return set_cell_size(text, ahead) + ".." + behind


def _cut_apart(paths: Collection[str], width: int) -> dict[str, str]:
    """Paths no wider than that; those that would look the same have what differs, if it fits."""
    cut = {path: _middle_cut(path, width) for path in paths}
    alike: dict[str, list[str]] = {}
    for path, text in cut.items():
        alike.setdefault(text, []).append(path)
    for group in alike.values():
        if len(group) > 1 and width >= 2 * LEAST_NAME:
            letters = enumerate(zip(*group, strict=False))
            differs = next((n for n, each in letters if len({*each}) > 1), 0)
            at = max(0, differs - width // 4)
            ahead = min(at, (width - 2) // 3)
            for path in group:
                cut[path] = _cut(set_cell_size(path, ahead) + ".." + path[at:], width)
    return cut


def _cut(text: str, width: int) -> str:
    """A text no wider than that; it ends in two dots if something is left out."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 2) + ".." if width > 2 else set_cell_size(text, width)
