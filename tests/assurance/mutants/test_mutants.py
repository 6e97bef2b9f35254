"""Planted bugs are found by the meaning of code, and what is reported of them is what was found.

Whether each of them can still be planted is not asked here: the weekly job reports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from assurance.mutants import plant
from assurance.mutants.catalogue import MUTANTS, PROMISES, by_name
from assurance.mutants.catch import Hunt, verdict
from assurance.mutants.edit import replaced
from assurance.mutants.model import Change, Mutant, StaleMutantError
from assurance.mutants.results import Result, report


def test_names_are_used_once() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(names) == sorted(set(names))
    assert by_name(names[0]) is MUTANTS[0]


# --- aiming ------------------------------------------------------------------------------------

SOURCE = '''
LIMIT = 3

class A:
    """An example."""

    size: int = 1

    @property
    def g(self):
        second()

    @g.setter
    def g(self, value):
        third(value)

    async def f(self):
        first()  # because
        if self.a and self.b:
            second()
        with open("x") as file:
            fourth(
                file,
            )
        return self.a

def f():
    return 1
'''


def planted(where: str, old: str, new: str) -> str:
    return replaced(SOURCE, Change(f"a:{where}", old, new))


@pytest.mark.parametrize(
    ("where", "old", "new", "expected"),
    [
        ("A.f", "first()", "other()", "        other()  # because\n"),
        ("A.f", "if self.a and self.b:", "if self.a:", "        if self.a:\n            second()"),
        ("A.f", "self.a and self.b", "self.a", "        if (self.a):\n"),
        ("A.f", "fourth(file)", "", "as file:\n            pass\n        return"),
        ("A.f", "with open('x') as file:", "with None:", "        with None:\n"),
        ("A.f", "return self.a", "if x:\n    y()", "        if x:\n            y()\n"),
        ("A.g", "third(value)", "", "def g(self, value):\n        pass\n"),
        ("A.size", "1", "2", "    size: int = (2)\n"),
        ("LIMIT", "3", "4", "LIMIT = (4)\n"),
        ("f", "1", "None", "    return (None)\n"),
        ("A", "size: int = 1", "size: int = 1\nroom: int = 2", "    size: int = 1\n    room: int"),
    ],
)
def test_code_is_found_by_its_meaning(where: str, old: str, new: str, expected: str) -> None:
    assert expected in planted(where, old, new)


def test_block_is_replaced_whatever_its_comments_and_line_breaks() -> None:
    old = """
    if (self.a
            and self.b):
        second()  # of two
    with open('x') as file: fourth(file)
    """
    assert "        # because\n" not in planted("A.f", old, "")
    assert "first()  # because\n        pass\n        return" in planted("A.f", old, "")


@pytest.mark.parametrize(
    ("where", "old", "reason"),
    [
        ("A.f", "third()", "found 0 times"),
        ("A.f", "self.a", "found 2 times"),
        ("A.h", "first()", "not found"),
        ("f", "first()", "found 0 times"),
        ("A.g", "second()\nthird(value)", "found 0 times"),
    ],
)
def test_code_that_is_not_there_once_is_an_error(where: str, old: str, reason: str) -> None:
    with pytest.raises(StaleMutantError, match=reason):
        planted(where, old, "")


def test_new_code_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(StaleMutantError, match="invalid syntax"):
        planted("A.f", "first()", "else:")


def test_function_is_found_where_it_has_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plant, "ROOT", tmp_path)
    package = tmp_path / plant.PACKAGE
    for file, text in {"a/__init__.py": "", "a/b.py": SOURCE, "a/c.py": "class B: pass"}.items():
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text(text, "utf-8")
    assert plant.file_of(Change("a.b:A.f", "", "")) == "a/b.py"
    assert plant.file_of(Change("a.c:A.f", "", "")) == "a/b.py"
    assert plant.file_of(Change("gone:B", "", "")) == "a/c.py"
    with pytest.raises(StaleMutantError, match="defined in 0 files"):
        plant.file_of(Change("a.b:A.h", "", ""))


# --- what was found ----------------------------------------------------------------------------

BEGAN = [{"began": seed, "seeds": seed + 1, "seconds": seed / 10} for seed in range(3)]
FOUND = {"seeds": 3, "seconds": 0.4, "text": "two", "replay": "so"}


@pytest.mark.parametrize(
    ("lines", "errors", "expected"),
    [
        ([*BEGAN, {**FOUND, "found": []}], "", Hunt((), 3, 0.4, "two", "so")),
        ([*BEGAN, {**FOUND, "found": ["I1", "I3"]}], "", Hunt(("I1", "I3"), 3, 0.4, "two", "so")),
        (BEGAN, "", Hunt(("hang",), 3, 0.2, "seed 2: no end within 30 s")),
        (
            BEGAN,
            "Traceback\n  ...\nValueError: what",
            Hunt(("crash",), 3, 0.2, "seed 2: ValueError: what"),
        ),
    ],
    ids=["nothing", "two invariants", "it hangs", "it dies"],
)
def test_search_is_reported_as_its_child_ended(
    lines: list[dict[str, Any]], errors: str, expected: Hunt
) -> None:
    assert verdict(lines, errors) == expected


def test_search_that_never_began() -> None:
    with pytest.raises(RuntimeError, match="no such module"):
        verdict([], "no such module")


def test_report_lists_what_is_not_seen_or_cannot_be_planted() -> None:
    first, second, third, *_ = next(iter(PROMISES.values()))
    seen = Hunt(("tests/test_a.py::test_b[c]",), 0, 1.5)
    text = report(
        {
            first.name: Result(hunts={"tests": seen, "trio": Hunt(("I1",), 3, 0.2)}),
            second.name: Result(hunts={"tests": Hunt((), 0, 9.0), "asyncio": Hunt((), 20, 1.0)}),
            third.name: Result(stale="a:A.f: not found"),
        }
    )
    assert "| trio: I1 (seed 3) | `test_a.py::test_b` (2 s) |" in text
    assert f"* {second.name}: no test sees it.\n" in text
    assert f"* {second.name}: the simulation does not see it in 20 seeds\n" in text
    assert f"* {third.name}: cannot be planted any more: a:A.f: not found\n" in text
    assert first.name not in text.partition("planted bugs, 1 of which")[2]


def test_seen_bug_has_no_complaint() -> None:
    mutant: Mutant = MUTANTS[0]
    one = Result(hunts={"asyncio": Hunt((), 20, 1.0), "trio": Hunt(("I1",), 3, 0.2)})
    assert one.complaints(mutant) == []
