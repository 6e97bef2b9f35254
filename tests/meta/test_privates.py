"""A module uses the private attributes of its own objects only."""

from __future__ import annotations

import ast
from pathlib import Path

import aiolead

ROOT = Path(aiolead.__file__).parent

FRIENDS = {
    "_recipes/holding.py": "Tenure",
    "_recipes/election.py": "Tenure",
    "_recipes/queues.py": "Tenure",
    "blocking/_proxy.py": "TenureContext",
}
"""Modules that end what users hold: no user should see the methods that they call."""

FOREIGN = {
    "_client/api/operations.py": {"_slot_in"},  # of a watch that it arms
    "_client/guardian/process.py": {"_exit"},
    "_client/watchdog.py": {"_exit"},
    "_recipes/holding.py": {"_getframe"},
    "adapters/aiozk/_session.py": {
        "_host",
        "_on_repair_loop_done",
        "_slot_in",
    },  # of aiozk, and of watches
}
"""Names without a public one: of the standard library, of aiozk, of a watch that is armed."""

SKIPPED = ("cli/", "testing/")


def _foreign(source: str) -> list[tuple[int, str]]:
    """The private attributes that no object of this module has, with their lines."""
    tree = ast.parse(source)
    own = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    used: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                own.add(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                used.append((node.lineno, name))
    return [(line, name) for line, name in used if name not in own]


def test_no_module_uses_the_privates_of_another() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file.startswith(SKIPPED) or file in FRIENDS:
            continue
        known = FOREIGN.get(file, set())
        found += [
            f"{file}:{line}: {name}"
            for line, name in _foreign(path.read_text("utf-8"))
            if name not in known
        ]
    assert found == []


def test_use_of_a_foreign_private_is_found() -> None:
    source = "class A:\n    def f(self):\n        self._mine = b._mine, b._theirs, b.__doc__\n"
    assert _foreign(source) == [(3, "_theirs")]


def test_friends_are_files_that_need_it() -> None:
    for file in FRIENDS:
        assert _foreign((ROOT / file).read_text("utf-8")), file
