"""Writes the lists of exported names in `aiolead/__init__.py` and `aiolead/types.py`.

`python -m tests.tools.write_blocking` does that first.

A module of `aiolead/_recipes` says what it exports: `__all__` has the names for `aiolead`,
`__types__` those for `aiolead.types`. Each list has two forms: imports for type checkers, and a
table of the modules to import at the first use. The imports of other packages' names are written by
hand; everything else is made from them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "aiolead"
FACES = {PACKAGE / "__init__.py": "__all__", PACKAGE / "types.py": "__types__"}
"""The public modules, and the attribute in which a recipe has the names for each."""

_IMPORT = re.compile(r"^    from \.(\w[\w.]*) import (\w+) as \2\n", re.MULTILINE)
_IMPORTS = re.compile(rf"(?:{_IMPORT.pattern})+", re.MULTILINE)
_TABLE = re.compile(r"(Exports\(\n +__name__,\n +)\{.*?\n +\}", re.DOTALL)


def exported(attribute: str) -> list[tuple[str, str]]:
    """The names that the modules of recipes export by an attribute, each after its module."""
    found = []
    for file in sorted((PACKAGE / "_recipes").glob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute:
                names = ast.literal_eval(node.value)
                found += [(f"_recipes.{file.stem}", name) for name in names]
    return found


def generated(face: Path) -> str:
    """The text that a public module should have."""
    text = face.read_text("utf-8")
    others = [found for found in _IMPORT.findall(text) if not found[0].startswith("_recipes.")]
    names = sorted([*others, *exported(FACES[face])])
    imports = "".join(f"    from .{module} import {name} as {name}\n" for module, name in names)
    table = {
        module: " ".join(name for where, name in names if where == module)
        for module in sorted({module for module, _ in names})
    }
    text = _TABLE.sub(lambda head: f"{head[1]}{_literal(table)}", text)
    first, *_ = _IMPORTS.finditer(text)
    text = text[: first.start()] + imports + text[first.end() :]
    for command in (("check", "--select", "I", "--fix"), ("format",)):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(face), "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _literal(table: dict[str, str]) -> str:
    """The table, with long values in several lines."""
    rows = []
    for module, names in table.items():
        value = f'"{names}"'
        if len(names) > 70:
            lines = re.findall(r".{1,70}(?: |$)", names)
            value = "(" + "\n".join(f'"{line}"' for line in lines) + ")"
        rows.append(f'"{module}": {value},\n')
    return "{\n" + "".join(rows) + "}"


def write() -> None:
    for face in FACES:
        face.write_text(generated(face), "utf-8")
