"""`python -m tests.costs [--write]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from costs import _tables as costs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description=costs.__doc__)
    parser.add_argument("--write", action="store_true", help="writes the tables")
    parser.add_argument("--group", help="only measures this group, and prints its table")
    options = parser.parse_args()
    if options.group:
        rows = costs.groups()[options.group]
        anyio.run(show, rows)
        return
    measured = anyio.run(costs.measure_all)
    if not options.write:
        for found in measured.values():
            sys.stdout.write(costs.table(found) + "\n")
        return
    text = costs.rendered(costs.PAGE.read_text("utf-8"), measured)
    costs.PAGE.write_text(costs.with_rates(text), "utf-8")


async def show(rows: list[costs.Operation]) -> None:
    found = {operation: await costs.measure(operation) for operation in rows}
    sys.stdout.write(costs.table(found))


if __name__ == "__main__":
    main()
