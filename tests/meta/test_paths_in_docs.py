"""The files, classes, packages and targets of make that the pages name exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from support.checks import check_each
from support.docs import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "README.md", "SECURITY.md")),
]
FOLDERS = ("aiolead", "tests", "examples", "benchmarks", "docs")

OF_THE_READER = {"first.py", "test_first.py", "worker.py", "test_worker.py"}
"""What the tutorials have the reader write."""

FILE = re.compile(r"`([\w./-]*\w\.py)(?:: (\w+)[\w.()]*)?(?:::[\w\[\]-]+)?`")
"""`_core/tenure.py`, `_core/tenure.py: Tenure`, `unit/test_paths.py::test_join`."""

PACKAGE = re.compile(r"`((?:aiolead|_wire|_session|_client|_recipes|_core|tests)/[\w/]*)`")
"""`_session/lease/`, `aiolead/testing`."""

DOTTED = re.compile(r"`((?:aiolead\.)?_(?:wire|session|client|recipes)(?:\.(?!py\b)\w+)+)`")
"""`_session.states`, `_session.machine.SessionMachine`."""

TREE_LINE = re.compile(r"^ {4,}(\w+(?:\.py|/)(?: \w+(?:\.py|/))*)", re.MULTILINE)
"""A line of the tree in architecture.md: one name or several, then at least two spaces."""


def _prose(page: Path) -> str:
    """A page without its fenced examples."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def _files() -> list[str]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return [path.relative_to(ROOT).as_posix() for path in [*found, *ROOT.glob("*.py")]]


@cache
def _places(path: str) -> list[str]:
    """The files that a path, or the end of one, stands for."""
    return [file for file in _files() if f"/{file}".endswith(f"/{path}")]


@cache
def _defined(file: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }


def _missing_files(text: str) -> list[str]:
    missing = []
    for path, name in FILE.findall(text):
        places = _places(path)
        if path not in OF_THE_READER and not places:
            missing.append(path)
        elif name and not any(name in _defined(place) for place in places):
            missing.append(f"{path}: {name}")
    return missing


def _is_module(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name that a module defines."""
    path = "aiolead/" + dotted.removeprefix("aiolead.").replace(".", "/")
    if (ROOT / path).is_dir() or (ROOT / f"{path}.py").exists():
        return True
    module, _, name = path.rpartition("/")
    file = ROOT / f"{module}.py"
    return file.exists() and re.search(rf"\b{name}\b", file.read_text("utf-8")) is not None


@check_each("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = _prose(page)
    assert _missing_files(text) == []
    packages = PACKAGE.findall(text)
    assert [
        each
        for each in packages
        if not any((ROOT / top / each).exists() for top in ("", "aiolead", "aiolead/_recipes"))
    ] == []
    assert [each for each in DOTTED.findall(text) if not _is_module(each)] == []


MAKE = re.compile(r"(?:`|^ {0,4})make ([a-z][a-z -]*?)(?= [A-Z]|  |`|$)", re.MULTILINE)
"""`make lint types`, or a line of a listing."""


@check_each("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_targets_that_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    text = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    named = {name for names in MAKE.findall(text) for name in names.split()}
    assert named <= targets


FOR_CONTRIBUTORS = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "contributing/adding-a-recipe",
        "contributing/architecture",
        "explanation/contention",
        "explanation/ephemeral-znodes",
        "reference/error-policy",
    )
]


@cache
def _words() -> set[str]:
    found = [(ROOT / file).read_text("utf-8") for file in _files()]
    return set(re.findall(r"\w+", "\n".join(found)))


@check_each("page", FOR_CONTRIBUTORS, ids=lambda page: page.name)
def test_what_a_page_calls_things_is_what_they_are_called(page: Path) -> None:
    """Names in code, with an underscore or capitals inside: they stand somewhere in the code."""
    spans = re.findall(r"`([^`]+)`", FILE.sub("", _prose(page)))
    named = {name for span in spans for name in re.findall(r"\w*(?:[a-z][A-Z]|_)\w*", span)}
    assert {name for name in named - _words() if not name.startswith("test_")} == set()


def test_the_tree_of_the_architecture_is_the_real_one() -> None:
    """Each name in it exists in the package that it stands under; no package is left out."""
    text = (ROOT / "docs" / "contributing" / "architecture.md").read_text("utf-8")
    block = text.split("    aiolead/\n", 1)[1].split("\n\n", 1)[0]
    parents = [ROOT / "aiolead"]
    seen: set[Path] = set()
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip()) - 6) // 2
        match = TREE_LINE.match(line)
        if match is None or depth < 0:
            continue
        del parents[depth + 1 :]
        for name in match[1].split():
            path = parents[-1] / name
            assert path.exists(), line
            seen.add(path)
        parents.append(path)
    real = {path for path in (ROOT / "aiolead").iterdir() if path.name != "__pycache__"}
    for family in ("_session", "_client", "_recipes"):
        real |= {path for path in (ROOT / "aiolead" / family).iterdir() if path.is_dir()}
    left_out = {path for path in real - seen if path.suffix in ("", ".py")}
    assert {path.name for path in left_out} <= {"__pycache__", "__main__.py"}


@pytest.mark.parametrize(
    "text",
    ["`_core/nothing.py`", "`_core/tenure.py: Nothing`", "`unit/test_nothing.py::test_a`"],
)
def test_the_rule_about_files_bites(text: str) -> None:
    assert _missing_files(text) != []
    assert _missing_files("`_core/tenure.py: Tenure` and `_core/tenure.py`") == []


def test_the_rule_about_modules_bites() -> None:
    assert _is_module("_session.states")
    assert _is_module("_session.machine.SessionMachine")
    assert not _is_module("_session.nothing")
    assert not _is_module("_session.machine.Nothing")
