"""The tests that the pages name exist; and no recipe is left out where all are to be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.checks import check_each
from support.docs import ROOT
from support.every_recipe import DONE, FOLLOWED, HELD, KEPT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
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


INTEROP = "../tests/interop/README.md"


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
            with_curator = ("interop/test_curator", "interop/test_matrix")
            assert any(where.startswith(with_curator) for where in tests[name]), name
