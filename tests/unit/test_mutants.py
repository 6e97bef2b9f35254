"""The catalogue of planted bugs fits the source: else it would rot unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants.catalogue import ABSENT, MUTANTS, by_name
from mutants.model import Change
from mutants.plant import StaleMutantError, mutated, replaced

FAILURES = 59
"""How many failures the catalogue answers for, those of the simulation itself aside."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
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
    numbers = {int(entry.number.rstrip("abcdefgh")) for entry in (*MUTANTS, *ABSENT)}
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


def test_an_error_names_the_mutant_and_the_file(monkeypatch):
    mutant = MUTANTS[0]
    monkeypatch.setattr("mutants.plant.ROOT", Path(__file__).parent / "golden")
    with pytest.raises(FileNotFoundError):
        mutated(mutant)
