"""The keys of `aiolead top`: how they are read, and the filter, order and selection they make."""

from __future__ import annotations

import os
import re
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import final

import anyio

from .._util import parsing
from .output import undone_at_once
from .scene_values import ContenderQueue
from .signals import has_terminal, without_sigttou

_INPUT = 0
_LOOK_AGAIN = 0.2
"""Time until a process in the background looks whether it is in the foreground, in seconds."""
_TYPED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\x1b])?|[\x00-\x7f]|[\x80-\xff]+", re.DOTALL)
"""The bytes that one key sends; of several characters beyond ASCII, all."""
_SENT: dict[str, tuple[bytes, ...]] = {
    "enter": (b"\r", b"\n"),
    "esc": (b"\x1b",),
    "backspace": (b"\x7f", b"\b"),
    "up": (b"\x1b[A", b"\x1bOA"),
    "down": (b"\x1b[B", b"\x1bOB"),
    "page up": (b"\x1b[5~",),
    "page down": (b"\x1b[6~",),
    "home": (b"\x1b[H", b"\x1bOH", b"\x1b[1~"),
    "end": (b"\x1b[F", b"\x1bOF", b"\x1b[4~"),
}
"""The bytes of each named key: terminals differ."""
_NAMES = {sent: name for name, all_ in _SENT.items() for sent in all_}


@contextmanager
def single_keys() -> Iterator[Callable[[], None] | None]:
    """Pass on keys as they are typed, without echo.

    Yields a function that does so again after the process was stopped; None without a terminal
    whose foreground we have.
    """
    before = None
    with suppress(termios.error):
        before = termios.tcgetattr(_INPUT) if has_terminal() else None
    if before is None:
        yield None
        return
    mode = list(before)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    _set(mode)
    try:
        with undone_at_once(partial(_set, before)):
            yield partial(_set, mode)
    finally:
        if has_terminal():
            _set(before)


def keys_in(typed: bytes) -> list[str]:
    """The keys that sent some bytes: names, or characters; unknown keys are left out."""
    keys: list[str] = []
    for sent in _TYPED.findall(typed):
        if sent in _NAMES:
            keys.append(_NAMES[sent])
        elif not sent.startswith(b"\x1b"):
            keys += parsing.lossy_text(sent)
    return keys


async def read_keys(press: Callable[[str], bool]) -> None:
    """Pass on keys until `press` returns False; forever if the terminal is closed."""
    while True:
        await anyio.wait_readable(_INPUT)
        if not has_terminal():
            # After `bg`, keys are for the shell. Reading one would stop this process.
            await anyio.sleep(_LOOK_AGAIN)
            continue
        try:
            typed = os.read(_INPUT, 1024)
        except OSError:
            typed = b""
        if not typed:
            await anyio.sleep_forever()
        if not all(press(key) for key in keys_in(typed)):
            return


def _set(mode: list[object]) -> None:
    with without_sigttou(), suppress(termios.error):  # the terminal may be closed
        termios.tcsetattr(_INPUT, termios.TCSANOW, mode)  # type: ignore[arg-type]


# --- what they do -------------------------------------------------------------------------------

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

_KINDS = ("election", "lock", "read/write lock", "semaphore")


def _by_problem(queue: ContenderQueue) -> tuple[object, ...]:
    """Problems, then elections, then the rest: a row moves only when its state changes."""
    kind = _KINDS.index(queue.kind) if queue.kind in _KINDS else len(_KINDS)
    return not queue.state.is_problem, kind, queue.path


FIRST_ORDER = "problems first"
ORDERS: dict[str, Callable[[ContenderQueue], tuple[object, ...]]] = {
    FIRST_ORDER: _by_problem,
    "path": lambda queue: (queue.path,),
    "holder": lambda queue: (not queue.terms, *(term.identity or "" for term in queue.terms)),
    "newest": lambda queue: (-max((term.began for term in queue.terms), default=0.0),),
    "contenders": lambda queue: (-len(queue.contenders),),
}
"""The orders, with their sort keys."""

_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_FAR = 1 << 30


@final
@dataclass(slots=True)
class TopControls:
    """The choices that were made by keys.

    Attributes:
        order: the name of the order.
        text: the filter, and whether it is being typed.
        selected: the path that is selected.
        is_open: whether the page of the selected path is shown, from its line `first` on.
        shown: the paths of the table, in order, and how many fit; by the last drawing.
    """

    order: str = FIRST_ORDER
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
        if self.hides_vacant and not queue.terms:
            return False
        return self.matches(queue.path, *(term.identity or "" for term in queue.terms))

    def matches(self, *texts: str) -> bool:
        """Whether one of these has the text of the filter."""
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
                self.order = names[(names.index(self.order) + 1) % len(names)]
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
