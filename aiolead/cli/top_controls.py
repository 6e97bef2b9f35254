"""The keys of `aiolead top`: a filter, an order, a selection and a page for one path. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from .scene_values import ContenderQueue

LEGEND = (
    ("up down j k", "select a path"),
    ("PgUp PgDn Home End", "the same, further"),
    ("Enter", "the contenders, terms and events of the path"),
    ("/", "filter by path or holder (Enter keeps it, Esc clears it)"),
    ("s", "sort: problems first, path, holder, newest, contenders"),
    ("v", "hide or show vacated paths"),
    ("Esc", "back"),
    ("?", "these keys"),
    ("q", "end"),
)

_Key = Callable[[ContenderQueue], tuple[object, ...]]
ORDERS: dict[str, _Key | None] = {
    "problems first": None,
    "path": lambda queue: (queue.path,),
    "holder": lambda queue: (not queue.terms, *(term.identity or "" for term in queue.terms)),
    "newest": lambda queue: (-max((term.began for term in queue.terms), default=0.0),),
    "contenders": lambda queue: (-len(queue.contenders),),
}
"""The orders, with their sort keys; None for the order by urgency."""

_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_FAR = 1 << 30


@final
@dataclass(slots=True)
class TopControls:
    """The choices that were made by keys.

    Attributes:
        order: the name of the order; empty until one is chosen.
        text: the filter, and whether it is being typed.
        selected: the path that is selected.
        is_open: whether the page of the selected path is shown, from its line `first` on.
        shown: the paths of the table, in order, and how many fit; by the last drawing.
    """

    order: str = ""
    text: str = ""
    is_typing: bool = False
    hides_vacant: bool = False
    selected: str | None = None
    is_open: bool = False
    first: int = 0
    has_legend: bool = False
    shown: Sequence[str] = ()
    room: int = 1

    def press(self, key: str) -> bool:
        """Apply a key, by its name or character; False if it ends the command."""
        if self.is_typing:
            self._type(key)
        elif self.has_legend:
            self.has_legend = False
            return key != "q"
        elif key == "q":
            return False
        elif key in _STEPS:
            self._move(_STEPS[key])
        else:
            self._do(key)
        return True

    def keeps(self, queue: ContenderQueue) -> bool:
        """Whether the filter leaves a queue."""
        if self.hides_vacant and not queue.terms:
            return False
        texts = (queue.path, *(term.identity or "" for term in queue.terms))
        return any(self.text.lower() in text.lower() for text in texts)

    def _do(self, key: str) -> None:
        match key:
            case "?":
                self.has_legend = True
            case "/":
                self.is_typing, self.is_open = True, False
            case "v":
                self.hides_vacant = not self.hides_vacant
            case "s":
                names = list(ORDERS)
                self.order = names[(names.index(self.order or names[0]) + 1) % len(names)]
            case "enter":
                self.is_open, self.first = self.selected is not None, 0
            case "esc" if self.is_open:
                self.is_open = False
            case "esc":
                self.text, self.selected = "", None
            case "page up":
                self._move(-self.room)
            case "page down":
                self._move(self.room)
            case "home":
                self._move(-_FAR)
            case "end":
                self._move(_FAR)

    def _type(self, key: str) -> None:
        if key in ("enter", "esc"):
            self.is_typing = False
            self.text = self.text if key == "enter" else ""
        elif key == "backspace":
            self.text = self.text[:-1]
        elif len(key) == 1 and key.isprintable():
            self.text += key

    def _move(self, by: int) -> None:
        if self.is_open:
            self.first = max(0, min(self.first + by, _FAR))
        elif self.shown:
            at = self.shown.index(self.selected) + by if self.selected in self.shown else 0
            self.selected = self.shown[max(0, min(at, len(self.shown) - 1))]
