"""Histories written by hand, for the tests of the invariants.

A case of a table names a history and what the invariants find in it:

    hold within another: entered a 1; turn b 2; 4 left a 1 => I1
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import pytest

from aiolead.errors import LossReason
from aiolead.testing.history import History
from aiolead.testing.invariants import Bounds, Violation, violations

BOUNDS = Bounds(session_timeout=4.0, tick_time=1.0, grace_period=0.5, reconnect=1.0)
"""With these, progress is due within 7 s and a body ends within 0.5 s."""

L = "/l"
PARENT = "/app/l"


class HistoryBuilder(History):
    """A history whose clock is set by hand: `tale.at(3.0).joined(...)`."""

    def __init__(self, text: str = "") -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now)
        self.play(text)

    def at(self, now: float) -> Self:
        self.now = now
        return self

    def after(self, seconds: float) -> Self:
        return self.at(self.now + seconds)

    def play(self, text: str) -> Self:
        """Record the events of a text, separated by semicolons: `[TIME] METHOD ARGUMENTS`.

        `entered a 1 mode=read` is `entered(L, "a", 1, mode="read")`, and `left a 1 was_lost` sets
        that flag. Without a time, an event happens at the time of the one before. `#1` stands for
        `path_of(1)`, `@a` for `session_of("a")`, and a name of a `LossReason` for its value.
        """
        for words in filter(None, map(shlex.split, text.split(";"))):
            if words[0][0].isdigit():
                self.at(float(words.pop(0)))
            method, *words = words
            types = {
                name: str(parameter.annotation)
                for name, parameter in inspect.signature(getattr(self, method)).parameters.items()
            }
            has_line = bool(words) and words[0].startswith("/")
            arguments: dict[str, Any] = {} if has_line or "line" not in types else {"line": L}
            positional = iter([name for name in types if name not in arguments])
            for word in words:
                name, separator, value = word.partition("=")
                if types.get(name) == "bool":
                    arguments[name] = value != "no"
                elif separator:
                    arguments[name] = _READ[types[name]](value)
                else:
                    name = next(positional)
                    arguments[name] = _READ[types[name]](word)
            getattr(self, method)(**arguments)
        return self

    def turn(self, contender: str, token: int, line: str = L) -> None:
        """A turn of three seconds that only its contender reports."""
        self.after(1).joined(line, contender)
        self.after(1).entered(line, contender, token)
        self.after(1).left(line, contender, token)

    # Events that the servers report as well. The session of a contender follows from its name.

    def creates(self, contender: str, zxid: int) -> None:
        self.node_created(path_of(zxid), zxid, session_of(contender))

    def waits(self, contender: str, zxid: int) -> None:
        self.joined(L, contender)
        self.creates(contender, zxid)

    def holds(self, contender: str, zxid: int, *, mode: str = "") -> None:
        session_id = session_of(contender)
        self.entered(L, contender, zxid, path=path_of(zxid), session_id=session_id, mode=mode)

    def leaves(self, contender: str, zxid: int) -> None:
        self.left(L, contender, zxid)
        self.gone(contender, zxid, by=session_of(contender))

    def gone(self, contender: str, zxid: int, *, by: int = 0, was_changed: bool = False) -> None:
        owner = session_of(contender)
        self.node_deleted(path_of(zxid), zxid + 1000, owner, by, was_changed=was_changed)

    # The verdict of the invariants.

    def wrong(self, bounds: Bounds = BOUNDS) -> list[Violation]:
        return violations(self.events, bounds)

    def broken(self, bounds: Bounds = BOUNDS) -> list[str]:
        """The names of the invariants that do not hold."""
        return sorted({violation.invariant for violation in self.wrong(bounds)})


def path_of(zxid: int) -> str:
    return f"{PARENT}/lock-{zxid:010}"


def session_of(contender: str) -> int:
    return 0x100 + sum(map(ord, contender))


def _text(word: str) -> str:
    if word.startswith("#"):
        return path_of(int(word[1:]))
    return LossReason[word].value if word in LossReason.__members__ else word


def _number(word: str) -> int:
    return session_of(word[1:]) if word.startswith("@") else int(word, 0)


_READ: dict[str, Callable[[str], Any]] = {
    "str": _text,
    "int": _number,
    "float": float,
    "float | None": float,
    "Value": lambda word: int(word) if word.isdigit() else word,
}
"""How an argument is read, by the annotation of its parameter."""


# --- tables of histories --------------------------------------------------------------------------


def histories(tables: Mapping[str, str]) -> pytest.MarkDecorator:
    """Parametrize a test by the cases of tables, see `judge`. Indented lines continue a case.

    Args:
        tables: by the names of the invariants that they are about.
    """
    cases: dict[str, str] = {}
    for invariants, table in tables.items():
        for case in re.split(r"\n(?=\S)", table.strip()):
            name, text = re.sub(r"\s+", " ", case).split(": ", 1)
            assert cases.setdefault(f"{invariants}: {name}", text) is text, name
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


def judge(case: str, bounds: Bounds = BOUNDS) -> None:
    """Play a history, and compare what the invariants find at each `=>` with what it says.

    `ok` is nothing. Violations are separated by `|`: the name of an invariant, or the beginning of
    the violation's text. `=> [places=2, is_complete=no] I1` changes the bounds.
    """
    tale = HistoryBuilder()
    for part in re.split(r";|(?==>)", case):
        if not part.startswith("=>"):
            tale.play(part)
            continue
        match = re.fullmatch(r"=>\s*(?:\[(.*?)\])?\s*(.*?)\s*", part)
        assert match, part
        given = dict(each.strip().split("=") for each in (match[1] or "").split(",") if each)
        changed = {name: _BOUND.get(name, float)(value) for name, value in given.items()}
        found = [str(each) for each in tale.wrong(replace(bounds, **changed))]  # type: ignore[arg-type]
        expected = [] if match[2] == "ok" else match[2].split(" | ")
        assert len(found) == len(expected), found
        assert list(map(_cut, found, expected)) == expected


_BOUND: dict[str, Callable[[str], Any]] = {
    "is_complete": lambda value: value != "no",
    "places": int,
    "woken": int,
}


def _cut(found: str, expected: str) -> str:
    """As much of a violation as is expected, up to the end of a word."""
    matches = re.match(re.escape(expected) + r"(?!\w)", found)
    return expected if matches else found
