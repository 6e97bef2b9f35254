"""No name stands for two things: modules and classes of the library, each by a name of its own.

The test kit (`aiolead/testing`) and the blocking face, which repeats public names on purpose, are
left out.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.checks import check_each

import aiolead

ROOT = Path(aiolead.__file__).parent
LEFT_OUT = ("testing", "blocking")

ACCEPTED = {
    "tree": "a command's module has the name of the command",
    "requests": "the records of requests on the wire, and the queue of them in a session",
    "Transaction": "the protocol in abc.py and what implements it",
    "WatchStream": "the protocol in abc.py and what implements it",
}
"""Names that stand twice on purpose, with the reason."""


def _files() -> Iterator[tuple[Path, Path]]:
    for file in sorted(ROOT.rglob("*.py")):
        path = file.relative_to(ROOT)
        if path.parts[0] not in LEFT_OUT:
            yield file, path


def _modules() -> dict[str, list[str]]:
    """Where each module or package is, by its last name. A package may have its main module's."""
    found: dict[str, list[str]] = defaultdict(list)
    for _, path in _files():
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if name and path.name != "__main__.py" and path.stem != path.parent.name:
            found[name].append(str(path))
    return found


def _classes() -> dict[str, list[str]]:
    """Where each class is, by its name; classes inside of functions and classes included."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, path in _files():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path))
    return found


@cache
def _twice() -> dict[str, list[str]]:
    return {
        name: places
        for places_by_name in (_modules(), _classes())
        for name, places in places_by_name.items()
        if len(places) > 1
    }


def test_the_tree_is_read() -> None:
    assert len(_modules()) > 100
    assert "_recipes/_core/tenure.py" in _classes()["Tenure"]


def test_no_name_stands_twice() -> None:
    new = {name: places for name, places in _twice().items() if name not in ACCEPTED}
    assert new == {}, "rename one of them"


@check_each("name", ACCEPTED)
def test_what_is_accepted_is_needed(name: str) -> None:
    assert name in _twice(), "take it out of ACCEPTED"
