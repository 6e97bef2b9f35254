"""The table of operations in the docs: every one is in it, and none that does not exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import aiolead
from aiolead import Client

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "operations.md").read_text()
COLUMNS = ["operation", "needs", "cancellation", "on connection loss", "raises"]


def rows() -> dict[str, list[str]]:
    """Operation to the other cells of its row."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert table[0] == COLUMNS
    assert all(len(row) == len(COLUMNS) for row in table)
    names = [row[0] for row in table[2:]]
    assert len(set(names)) == len(names)
    return {row[0]: row[1:] for row in table[2:]}


def test_every_operation_of_the_client_is_in_the_table() -> None:
    methods = {
        f"`{name}`"
        for name, _ in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_")
    }
    assert len(methods) > 20
    assert set(rows()) == methods


def test_what_they_need_and_raise_is_real() -> None:
    for name, (needs, _, _, raises) in rows().items():
        assert re.fullmatch(r"(3\.[5-9])?", needs), name
        errors = re.findall(r"`(\w+)`", raises)
        for error in errors:
            assert error.endswith("Error") or error == "Fenced", (name, error)
            assert hasattr(aiolead.errors, error), (name, error)
        # What needs asking can be refused, and says so.
        assert "UnsupportedError" in errors or needs in ("", "3.5"), name
