"""What the pages name exists: files, classes, packages, targets of make, tests, recipes."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from kit.checks import check_each
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT
from kit.pages import ROOT

import aiolead

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
    families = (ROOT / "aiolead" / family for family in ("", "_session", "_client", "_recipes"))
    real = {path for family in families for path in family.iterdir() if path.is_dir()}
    assert {path.name for path in real - seen} <= {"__pycache__"}


# --- tests, and recipes that are tested -----------------------------------------------------------

NAMED = re.compile(r"`[\w/.:]*?\b(test_\w+(?:\.py)?)`")
THE_READERS = re.compile(r"\b[Ss]ave this as\s+`(test_\w+\.py)`")


@pytest.fixture(scope="module")
def tests() -> dict[str, set[str]]:
    """Where each test is, by its name; also the files by theirs, with where they are."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        where = str(path.relative_to(ROOT / "tests"))
        found.setdefault(path.name, set()).add(where)
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, set()).add(where)
    return found


@check_each("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page: Path, tests: dict[str, set[str]]) -> None:
    text = page.read_text()
    assert set(NAMED.findall(text)) - set(THE_READERS.findall(text)) <= tests.keys()


INTEROP = "../tests/assurance/interop/README.md"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, but for their heads: of rows that begin with a
    name."""
    text = (ROOT / "docs" / page).read_text().split(f"\n## {heading}\n", 1)[1]
    section = text.split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith(("| `", "| [`"))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def recipes_in(cell: str) -> set[str]:
    return set(re.findall(r"`([A-Z]\w+)`", cell))


def test_every_recipe_is_played_under_faults() -> None:
    every = set().union(
        *(recipes_in(cells[0]) for cells in rows("reference/recipes.md", "List of recipes"))
    )
    played = {name.partition(".")[0] for name in (*HELD, *KEPT, *FOLLOWED, *DONE)}
    assert played | {"Barrier"} == every


def test_what_is_said_of_curator_is_shown_with_the_real_one(tests: dict[str, set[str]]) -> None:
    table = rows(INTEROP, "Curator")
    said = [cells for cells in rows("reference/interop.md", "Curator") if len(cells) == 3]
    assert len(said) > 20
    # The first name in a cell is the recipe; a layout may follow.
    pairs = {(ours.split("`")[1], theirs) for ours, theirs, _ in table}
    assert {(ours.split("`")[1], theirs) for ours, theirs, _ in said} - pairs == set()
    for ours, theirs, names in table:
        shown = NAMED.findall(names)
        assert shown, f"{ours} and {theirs}"
        for name in shown:
            with_curator = ("assurance/interop/test_curator", "assurance/interop/test_matrix")
            assert any(where.startswith(with_curator) for where in tests[name]), name


def test_each_interop_test_is_named(tests: dict[str, set[str]]) -> None:
    there = {
        name
        for name, places in tests.items()
        if not name.endswith(".py")
        and any(place.startswith("assurance/interop/") for place in places)
    }
    pages = ("docs/reference/interop.md", "tests/assurance/interop/README.md")
    text = "".join((ROOT / page).read_text("utf-8") for page in pages)
    assert len(there) > 40
    assert set(re.findall(r"`(test_\w+)`", text)) == there
    # The first name in a row is that of a recipe, but in the table of what only Curator has.
    text = re.sub(
        r"^### Curator recipes without.*?(?=^#)", "", text, flags=re.MULTILINE | re.DOTALL
    )
    named = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE)) - {"lock", "held"}
    assert named <= {*aiolead.__all__, *aiolead.types.__all__}
