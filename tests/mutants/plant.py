"""Planting: a copy of the project in which one bug was put, and the environment to run it in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from .model import Change, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = "aiolead"
COPIED = (PACKAGE, "tests", "pyproject.toml")
LEFT_OUT = (".pytest_cache", ".hypothesis")


class StaleMutantError(Exception):
    """A mutant does not fit the source any more: the code that it changes was changed."""


def plant(mutant: Mutant | None, tree: Path) -> None:
    """Copies the project into an empty directory, with the bug in it; None for no bug.

    Raises:
        StaleMutantError: the mutant does not fit the source.
    """
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(source, target)
    if mutant is not None:
        for file, text in mutated(mutant).items():
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
    """The files that a mutant changes, with their new text.

    Raises:
        StaleMutantError: the mutant does not fit the source.
    """
    files: dict[str, str] = {}
    for change in mutant.changes:
        text = files.get(change.file)
        if text is None:
            text = (ROOT / PACKAGE / change.file).read_text("utf-8")
        try:
            files[change.file] = replaced(text, change)
        except StaleMutantError as error:
            raise StaleMutantError(f"{mutant.name}: {change.file}: {error}") from None
    return files


def replaced(text: str, change: Change) -> str:
    """The text with one replacement made.

    Raises:
        StaleMutantError: the old text is not there exactly once.
    """
    if "\n" not in change.old + change.new:
        count = text.count(change.old)
        if count != 1:
            raise StaleMutantError(f"found {count} times: {change.old!r}")
        return text.replace(change.old, change.new)
    return _replaced_block(text, change)


def _replaced_block(text: str, change: Change) -> str:
    lines = text.splitlines()
    old = dedent(change.old).strip("\n").splitlines()
    found: list[tuple[int, str]] = []
    for start in range(len(lines) - len(old) + 1):
        margin = " " * (_indentation(lines[start]) - _indentation(old[0]))
        if lines[start : start + len(old)] == _indented(old, margin):
            found.append((start, margin))
    if len(found) != 1:
        raise StaleMutantError(f"found {len(found)} times: {change.old!r}")
    ((start, margin),) = found
    new = _indented(dedent(change.new).strip("\n").splitlines(), margin)
    return "\n".join([*lines[:start], *new, *lines[start + len(old) :]]) + "\n"


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indented(lines: list[str], margin: str) -> list[str]:
    return [margin + line if line else line for line in lines]
