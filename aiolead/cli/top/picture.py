"""A scene as lines of text that fit a terminal of any size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ...model import SessionState
from .. import render
from ..scene import Happening, Line, Link, Scene, Term, What, said

__all__ = ["Picture"]

LEAST_NEWS = 3
"""So many lines at least are for what happens, if there are that many."""
LEAST_NAME = 12
"""How much of paths and names there has to be room for, in columns."""
FRESH = 5.0
"""How long something that has happened stands out, in seconds."""
MOST_NAMED = 3
"""How many of those who wait, or of the znodes that may not be read, are named on one line."""

_STYLES = {
    What.BEGAN: "green",
    What.VACANT: "red",
    What.SILENT: "yellow",
    What.ASKED: "yellow",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table: its cells by their columns, and how it looks."""

    cells: dict[str, str]
    style: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """How a scene is drawn.

    Attributes:
        scene: what there is to show.
        title: where that is.
        can_show: whether the terminal has all characters of a text.
    """

    scene: Scene
    title: str
    can_show: Callable[[str], bool] = field(default=lambda _: True)

    def draw(self, now: float, width: int, height: int) -> list[Text]:
        """The lines: as many as the height at most, none wider than the width.

        Args:
            now: the scene's clock.
            width: of the terminal, in columns.
            height: in lines.
        """
        scene = self.scene
        lines = scene.lines
        head = [*self._heading(lines, now), Text()]
        news = scene.since(0)
        room = max(0, height - len(head) - 1)  # one is for the headings of the columns
        for_news = min(len(news) + 1, max(LEAST_NEWS + 1, room // 3)) if news else 0
        table = self._table(lines, now, width, max(1, room - for_news))
        told: list[Text] = []
        left = height - len(head) - len(table) - 1
        if news and left > 0:
            kinds = {line.path: line.kind for line in lines}
            told = [Text(), *(self._told(one, kinds, now) for one in news[-left:])]
        drawn = [*head, *table, *told][: max(0, height)]
        return [self._fitted(line, width) for line in drawn]

    # --- the heading ---------------------------------------------------------------------------

    def _heading(self, lines: Sequence[Line], now: float) -> list[Text]:
        contenders = sum(len(line.contenders) for line in lines)
        counts = f"{render.plural(len(lines), 'line')}, {render.plural(contenders, 'contender')}"
        time = render.moment(round(now * 1000))[11:19] + "Z"
        heading = Text(f"aiolead top  {time}  {render.escaped(self.title)}  {counts}", "bold")
        scene = self.scene
        rows = [heading]
        if not scene.is_current:
            if scene.link is SessionState.CONNECTED:
                rows.append(Text("reads ...", "dim"))
            else:
                text = f"no link to the servers ({scene.link.value}): this is what was last heard"
                rows.append(Text(text, "bold yellow"))
        if closed := scene.unreadable:
            rows.append(Text(self._safe(said.unreadable(closed, MOST_NAMED)), "yellow"))
        return rows

    # --- the table -----------------------------------------------------------------------------

    def _table(self, lines: Sequence[Line], now: float, width: int, room: int) -> list[Text]:
        if not lines:
            text = "nobody contends for anything here" if self.scene.is_current else ""
            return [Text(text, "dim")]
        full = [row for line in lines for row in self._rows(line, now, in_full=True)]
        rows = full
        if len(full) > room:
            # Where something is the matter, or has changed last, comes first.
            rows = [
                row
                for line in sorted(lines, key=self._urgency)
                for row in self._rows(line, now, in_full=False)
            ]
        hidden = max(0, len(rows) - room)
        if hidden:
            rows = rows[: max(0, room - 1)]
            hidden = len(lines) - len({row.cells["path"] for row in rows} - {""})
        columns = _columns(rows, width)
        drawn = [Text(_joined({name: name for name in columns}, columns), "dim")]
        drawn += [Text(_joined(row.cells, columns), row.style) for row in rows]
        if hidden:
            drawn.append(Text(f"({hidden} more)", "dim"))
        return drawn

    def _urgency(self, line: Line) -> tuple[int, float, str]:
        """What is sorted by where there is no room for all."""
        newest = max((term.began for term in line.terms), default=line.vacant_since or 0.0)
        is_well = bool(line.terms) and all(term.silent_since is None for term in line.terms)
        return (1 if is_well or not line.kind else 0), -newest, line.path

    def _rows(self, line: Line, now: float, *, in_full: bool) -> list[_Row]:
        waiting = line.waiting
        path = self._safe(render.escaped(line.path))
        names = "" if in_full else self._names([one.identity for one in waiting])
        rows: list[_Row] = []
        for term in line.terms:
            cells = {
                "path": "" if rows else path,
                "held by": self._safe(said.name_of(term.identity)),
                "for": said.since(term, now),
                "token": str(term.token),
                "session": self._session(term, now),
                "waiting": "" if rows else names,
            }
            style = "yellow" if term.silent_since is not None else ""
            rows.append(_Row(cells, style or ("green" if now - term.began < FRESH else "")))
        if not rows:
            ago = "" if line.vacant_since is None else render.span(now - line.vacant_since)
            style = "dim" if not line.kind else "red"
            rows.append(
                _Row({"path": path, "held by": "nobody", "for": ago, "waiting": names}, style)
            )
        if in_full:
            rows += [
                _Row(
                    {
                        "path": "",
                        "held by": f"  {number}. {self._safe(said.name_of(one.identity))}",
                        "for": render.age(one.stat.ctime),
                        "token": str(one.stat.czxid),
                        "session": _LINKS[self.scene.link_of(one)],
                        "waiting": "asked to go" if one.is_asked_to_go else "",
                    },
                    "dim",
                )
                for number, one in enumerate(waiting, 1)
            ]
        if len(line.families) > 1:
            text = f"not all of these exclude each other: {', '.join(line.families)}"
            rows.append(_Row({"path": "", "held by": text}, "red"))
        return rows

    def _session(self, term: Term, now: float) -> str:
        if term.silent_since is not None:
            return f"silent {render.span(now - term.silent_since)}"
        if not term.session_id:
            return "none"
        return "connected" if self.scene.knows_sessions else ""

    def _names(self, identities: Sequence[str | None]) -> str:
        names = [self._safe(said.name_of(identity)) for identity in identities[:MOST_NAMED]]
        more = "" if len(identities) <= MOST_NAMED else ", ..."
        return f"{len(identities)}: {', '.join(names)}{more}" if names else ""

    # --- what happens --------------------------------------------------------------------------

    def _told(self, one: Happening, kinds: dict[str, str], now: float) -> Text:
        time = render.moment(round(one.at * 1000))[11:19]
        path = render.escaped(one.path)
        text = said.happening_as_text(one, kinds.get(one.path, ""))
        line = self._safe(f"{time}  {path}  {text}")
        return Text(line, _STYLES.get(one.what, "") if now - one.at < 60 else "dim")

    # --- what fits -----------------------------------------------------------------------------

    def _safe(self, text: str) -> str:
        """A text in characters that the terminal has."""
        if self.can_show(text):
            return text
        text = text.replace("…", "...")
        return "".join(
            each if self.can_show(each) else each.encode("ascii", "backslashreplace").decode()
            for each in text
        )

    def _fitted(self, line: Text, width: int) -> Text:
        line.plain = _cut(render.escaped(line.plain), max(0, width))
        return line


_LINKS = {
    Link.UNKNOWN: "",
    Link.CONNECTED: "connected",
    Link.SILENT: "silent",
    Link.NONE: "none",
}

_ORDER = ("path", "held by", "for", "token", "session", "waiting")
_DROPPED_FIRST = ("session", "token", "waiting", "for", "held by")
_GAP = 2


def _columns(rows: Sequence[_Row], width: int) -> dict[str, int]:
    """The columns that there is room for, and how wide each is."""
    wanted = {
        name: max(cell_len(row.cells.get(name, "")) for row in rows)
        for name in _ORDER
        if any(row.cells.get(name) for row in rows)
    }
    columns = {name: max(cell_len(name), size) for name, size in wanted.items()}
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


_CUT = ("path", "held by", "waiting")


def _total(columns: dict[str, int]) -> int:
    return sum(columns.values()) + _GAP * (len(columns) - 1)


def _joined(cells: dict[str, str], columns: dict[str, int]) -> str:
    padded = [
        set_cell_size(_cut(cells.get(name, ""), size), size) for name, size in columns.items()
    ]
    return (" " * _GAP).join(padded).rstrip()


def _cut(text: str, width: int) -> str:
    """A text no wider than that; where something is left out, two dots say so."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 2) + ".." if width > 2 else set_cell_size(text, width)
