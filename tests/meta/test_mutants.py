"""The catalogue of planted bugs fits the source, else it would rot unseen; and what is said of
them is what was found."""

from __future__ import annotations

import pytest
from mutants.catalogue import ABSENT, MUTANTS, by_name
from mutants.catch import Hunt, verdict
from mutants.model import Change
from mutants.plant import StaleMutantError, mutated, replaced
from mutants.results import BEGIN, END, Results
from support.checks import check_each

FAILURES = 59
"""How many failures the catalogue answers for, those of the simulation itself aside."""


@check_each("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_and_compiles(mutant):
    files = mutated(mutant)
    assert files
    for file, text in files.items():
        compile(text, file, "exec")


def test_names_and_numbers_are_used_once():
    for key in ("name", "number"):
        keys = [getattr(mutant, key) for mutant in MUTANTS]
        assert sorted(keys) == sorted(set(keys))
    assert by_name(MUTANTS[0].name) is MUTANTS[0]


def test_no_failure_of_the_list_is_left_out():
    numbers = {int(entry.number.rstrip("abcdefghijklm")) for entry in (*MUTANTS, *ABSENT)}
    assert set(range(1, FAILURES + 1)) <= numbers


SOURCE = """
class A:
    def f(self):
        first()
        second()

    def g(self):
        second()
"""


def test_a_part_of_a_line_is_replaced():
    assert "1 + first()" in replaced(SOURCE, Change("a.py", "first()", "1 + first()"))


def test_a_block_is_replaced_with_its_indentation():
    change = Change("a.py", "first()\nsecond()\n", "if x:\n    second()\n")
    assert "        if x:\n            second()\n\n    def g" in replaced(SOURCE, change)


def test_a_block_may_be_taken_out():
    assert "    def f(self):\n\n" in replaced(SOURCE, Change("a.py", "first()\nsecond()\n", ""))


@pytest.mark.parametrize(
    "old", ["second()", "third()", "second()\n", "second()\nfirst()\n", "class A:\ndef f(self):\n"]
)
def test_what_is_not_there_exactly_once_is_an_error(old):
    with pytest.raises(StaleMutantError, match=r"found [02] times"):
        replaced(SOURCE, Change("a.py", old, ""))


# --- what was found ----------------------------------------------------------------------------

BEGAN = [{"began": seed, "seeds": seed + 1, "seconds": seed / 10} for seed in range(3)]
FOUND = {"seeds": 3, "seconds": 0.4, "text": "two", "replay": "so"}


def test_a_search_that_found_nothing():
    assert verdict([*BEGAN, {**FOUND, "found": []}], "") == Hunt((), 3, 0.4, "two", "so")


def test_a_search_that_found_something():
    lines = [*BEGAN, {**FOUND, "found": ["I1", "I3"]}]
    assert verdict(lines, "") == Hunt(("I1", "I3"), 3, 0.4, "two", "so")


def test_a_search_that_hangs():
    found = verdict(BEGAN, "")
    assert (found.caught, found.seeds) == (("hang",), 3)
    assert "seed 2" in found.text


def test_a_search_that_dies():
    found = verdict(BEGAN, "Traceback\n  ...\nValueError: what")
    assert found == Hunt(("crash",), 3, 0.2, "seed 2: ValueError: what")


def test_a_search_that_never_began():
    with pytest.raises(RuntimeError, match="no such module"):
        verdict([], "no such module")


def test_results_are_kept_and_published(tmp_path):
    results = Results(tmp_path / "results.json")
    first, second, third, *_ = MUTANTS
    results.put(first.name, "asyncio", Hunt(("I1", "I2"), 17, 1.234, "two"))
    results.put(first.name, "trio", Hunt(("I1",), 3, 0.2, "two"))
    results.put(second.name, "asyncio", Hunt((), 2000, 100.0))
    results.put(second.name, "tests", Hunt(("tests/unit/test_a.py::test_b[c]",), 0, 1.5))
    results.put(third.name, "trio", Hunt((), 2000, 100.0))
    again = Results(tmp_path / "results.json")
    assert again.get(first.name, "asyncio") == Hunt(("I1", "I2"), 17, 1.23, "two")
    assert again.get(third.name, "asyncio") is None
    table = again.table()
    assert "| 17, 1.2 s | 3, 0.2 s | I1, I2 |" in table
    assert "| not in 2000 | - | `test_a.py::test_b` (1.5 s) |" in table
    assert "| - | not in 2000 | **not caught**" in table
    assert f"{len(MUTANTS)} planted bugs: 1 caught by the simulation, 1 by tests alone" in table
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    again.publish(page)
    assert page.read_text("utf-8") == f"before\n{BEGIN}\n\n{table}\n\n{END}\nafter\n"
