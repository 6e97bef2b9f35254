"""Planting: a copy of the project in which one bug was put, and the environment to run it in."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from .edit import replaced, scopes_of
from .model import Change, Mutant, StaleMutantError

ROOT = Path(__file__).parents[3]
PACKAGE = "aiolead"
COPIED = (PACKAGE, "tests", "docs", "examples", "pyproject.toml", "README.md")
LEFT_OUT = (".pytest_cache", ".hypothesis")


def plant(files: Mapping[str, str], tree: Path) -> None:
    """Copy the project into an empty directory, with other texts for some files of the package."""
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(source, target)
    for file, text in files.items():
        path = tree / PACKAGE / file
        path.write_text(text, "utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()


def environment() -> dict[str, str]:
    """For a child whose working directory is the copy: it imports that, whatever is installed.

    Bytecode is read, but not kept: a file may change twice within what a timestamp tells apart.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return {**kept, "PYTHONPATH": os.curdir, "PYTHONDONTWRITEBYTECODE": "1"}


def mutated(mutant: Mutant) -> Mapping[str, str]:
    """The files of the package that a mutant changes, with their new text.

    Raises:
        StaleMutantError: the mutant cannot be planted any more.
    """
    files: dict[str, str] = {}
    for change in mutant.changes:
        file = file_of(change)
        text = files.get(file)
        if text is None:
            text = (ROOT / PACKAGE / file).read_text("utf-8")
        files[file] = replaced(text, change)
    return files


def file_of(change: Change) -> str:
    """The file that a change is made in: that of its module, or the one its function moved to.

    Raises:
        StaleMutantError: no file defines the function any more, or several do.
    """
    package = ROOT / PACKAGE
    path = package.joinpath(*change.module.split("."))
    for named in (path.with_suffix(".py"), path / "__init__.py"):
        if named.is_file() and _defines(named, change.qualname):
            return named.relative_to(package).as_posix()
    last = change.qualname.rpartition(".")[2]
    found = [
        each
        for each in sorted(package.rglob("*.py"))
        if last in each.read_text("utf-8") and _defines(each, change.qualname)
    ]
    if len(found) != 1:
        raise StaleMutantError(f"{change.where}: defined in {len(found)} files")
    return found[0].relative_to(package).as_posix()


def _defines(path: Path, qualname: str) -> bool:
    return any(True for _ in scopes_of(ast.parse(path.read_text("utf-8")), qualname))
