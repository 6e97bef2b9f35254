"""Measures the rows, and writes them down as tables."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path

from costs import _rates as rates
from costs._counting import Cost, Operation, measure

PAGE = Path(__file__).with_name("expected.md")
SUMMARY = Path(__file__).parents[2] / "docs" / "reference" / "costs.md"
"""The page for users, which has some of the rows."""
_BLOCK = re.compile("(<!-- costs: all -->\n).*?(<!-- end of costs -->)", re.DOTALL)
_HEAD = (
    "| operation | requests | round trips | watches | bytes out | bytes in |\n"
    "|---|---|---|---|---|---|\n"
)


def groups() -> dict[str, list[Operation]]:
    """Every group's rows, by the name of its module."""
    found = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith(("_", "test_")):
            found[module.name] = importlib.import_module(f"costs.{module.name}").ROWS
    return found


async def measure_all() -> dict[str, dict[Operation, Cost]]:
    """Measures every row."""
    return {
        name: {operation: await measure(operation) for operation in rows}
        for name, rows in groups().items()
    }


def row(operation: Operation, cost: Cost) -> str:
    """One line of the table."""
    kinds = ", ".join(
        f"`{kind}`" if count == 1 else f"{count} `{kind}`" for kind, count in cost.requests
    )
    requests = f"{cost.total}: {kinds}" if kinds else "0"
    numbers = (cost.round_trips, cost.watches, cost.sent, cost.received)
    cells = [f"`{operation.recipe}`: {operation.name}", requests, *map(str, numbers)]
    return f"| {' | '.join(cells)} |\n"


def table(costs: Mapping[Operation, Cost]) -> str:
    """The table of a group."""
    return _HEAD + "".join(row(operation, cost) for operation, cost in costs.items())


def title(group: str) -> str:
    """A group's name, for readers."""
    return group.replace("_", " ").capitalize()


def rendered(text: str, costs: Mapping[str, Mapping[Operation, Cost]]) -> str:
    """Return a page with the table of each group, one after the other."""
    sections = "".join(f"### {title(name)}\n\n{table(costs[name])}\n" for name in sorted(costs))
    return _BLOCK.sub(lambda match: f"{match[1]}\n{sections}{match[2]}", text)


_RATES = re.compile("(<!-- rates -->\n).*?(<!-- end of rates -->)", re.DOTALL)


def with_rates(text: str) -> str:
    """Return a page with a new table of requests per second."""
    return _RATES.sub(lambda match: f"{match[1]}\n{rates.table()}\n{match[2]}", text)


def short_row(row: str) -> str:
    """Return a row as the page for users has it: with the number of requests and of round trips."""
    operation, requests, round_trips, *_ = row.strip("|\n").split(" | ")
    return f"|{operation} | {requests.partition(':')[0]} | {round_trips} |"
