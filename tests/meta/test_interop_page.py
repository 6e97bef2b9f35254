"""What the page on other libraries says is tested, is; and nothing that is tested is left out."""

from __future__ import annotations

import re
from pathlib import Path

import aiolead

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "interop.md").read_text("utf-8")
TESTS = (ROOT / "tests" / "interop" / "README.md").read_text("utf-8")


def test_the_page_names_the_tests_that_there_are() -> None:
    there = set()
    for file in (ROOT / "tests" / "interop").glob("test_*.py"):
        there |= set(re.findall(r"^async def (test_\w+)", file.read_text("utf-8"), re.MULTILINE))
    assert len(there) > 40
    assert set(re.findall(r"`(test_\w+)`", PAGE + TESTS)) == there


def test_the_recipes_in_the_tables_exist() -> None:
    page = PAGE + TESTS
    for section in ("### Curator recipes without a counterpart",):  # tables of what others have
        found = re.search(rf"^{section}$.*?(?=^#)", page, flags=re.MULTILINE | re.DOTALL)
        assert found is not None, section
        page = page.replace(found[0], "")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {re.match(r"\| `(\w+)", row)[1] for row in rows}  # type: ignore[index]
    methods = {"lock", "held"}
    public = {*aiolead.__all__, *aiolead.types.__all__}
    assert named - methods - public == set()
