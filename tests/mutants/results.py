"""What was found out, from one run of the command to the next, and the table made of it."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from .catalogue import ABSENT, MUTANTS
from .catch import Hunt
from .model import Mutant
from .plant import ROOT

FILE = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "reports" / "planted-bugs.md"
SUMMARY = ROOT / "docs" / "contributing" / "planted-bugs.md"
SUMS_BEGIN, SUMS_END = "<!-- the sums: written by `make mutants` -->", "<!-- end of the sums -->"
BEGIN, END = "<!-- the table: written by `make mutants` -->", "<!-- end of the table -->"

BACKENDS = ("asyncio", "trio")


class Results:
    """For each mutant what became of each search, by its name.

    That is the one of the backend; `tests` for the tests that the mutant names; `promises` for
    those of them that `make test` runs.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._found: dict[str, dict[str, Any]] = {}
        if file.exists():
            self._found = json.loads(file.read_text("utf-8"))

    def get(self, name: str, way: str) -> Hunt | None:
        """What became of one search; None if there was none."""
        values = self._found.get(name, {}).get(way)
        return None if values is None else Hunt(**{**values, "caught": tuple(values["caught"])})

    def by_tests(self, name: str) -> Hunt | None:
        """The hunt in which a test saw a mutant, first of all one that `make test` runs."""
        hunts = [self.get(name, way) for way in ("promises", "tests")]
        return next((hunt for hunt in hunts if hunt is not None and hunt.caught), None)

    def witness(self, name: str) -> str:
        """The test that saw a mutant; or ""."""
        found = self.by_tests(name)
        return found.caught[0] if found is not None else ""

    def put(self, name: str, way: str, found: Hunt) -> None:
        """Notes what became of a search, and saves it."""
        values = {**asdict(found), "seconds": round(found.seconds, 2)}
        self._found.setdefault(name, {})[way] = values
        known = ["", *(mutant.name for mutant in MUTANTS)]
        self._found = {name: self._found[name] for name in known if name in self._found}
        self._file.write_text(json.dumps(self._found, indent=1) + "\n", "utf-8")

    def table(self) -> str:
        """All mutants with what became of them, as Markdown."""
        lines = [
            "| | bug | asyncio | trio | caught by |",
            "|---|---|---|---|---|",
            *(self._row(mutant) for mutant in sorted(MUTANTS, key=_order)),
            "",
            *self._sums(),
            "",
            "The failures of the list that there is no place for:",
            "",
            "| | failure | why not |",
            "|---|---|---|",
            *(f"| {absent.number} | {absent.failure}. | {absent.why} |" for absent in ABSENT),
        ]
        return "\n".join(lines)

    def _row(self, mutant: Mutant) -> str:
        bug = f"**{mutant.name}**: {mutant.wrong}"
        if mutant.seen_in:
            bug += f" ({mutant.seen_in})"
        cells = [self._cell(mutant, backend) for backend in BACKENDS]
        return f"| {mutant.number} | {bug} | {' | '.join(cells)} | {self._by(mutant)} |"

    def _cell(self, mutant: Mutant, backend: str) -> str:
        found = self.get(mutant.name, backend)
        if found is None:
            return "-"
        if not found.caught:
            return f"not in {found.seeds}"
        return f"{found.seeds}, {_seconds(found.seconds)}"

    def _by(self, mutant: Mutant) -> str:
        hunts = [self.get(mutant.name, backend) for backend in BACKENDS]
        names = [name for hunt in hunts if hunt is not None for name in hunt.caught]
        text = ", ".join(dict.fromkeys(names))
        if tests := self.by_tests(mutant.name):
            text += f"{'; ' if text else ''}`{_test(tests.caught[0])}` ({_seconds(tests.seconds)})"
        if not text:
            text = "**not caught**"
        return f"{text}. {mutant.note}" if mutant.note else text

    def _sums(self) -> list[str]:
        simulated = [m for m in MUTANTS if self._is_simulated(m)]
        tested = [m for m in MUTANTS if m not in simulated and self._is_tested(m)]
        rest = [m.name for m in MUTANTS if m not in simulated and m not in tested]
        promised = [m for m in MUTANTS if self._is_promised(m)]
        return [
            f"{len(MUTANTS)} planted bugs: {len(simulated)} caught by the simulation, "
            f"{len(tested)} by tests alone, {len(rest)} not"
            + (f" ({', '.join(rest)})." if rest else ".")
            + f" {len(promised)} were caught with the tests alone that `make test` selects."
        ]

    def _is_simulated(self, mutant: Mutant) -> bool:
        hunts = [self.get(mutant.name, backend) for backend in BACKENDS]
        return any(hunt is not None and hunt.caught for hunt in hunts)

    def _is_tested(self, mutant: Mutant) -> bool:
        return bool(self.witness(mutant.name))

    def _is_promised(self, mutant: Mutant) -> bool:
        found = self.get(mutant.name, "promises")
        return found is not None and bool(found.caught)

    def publish(self, page: Path = PAGE) -> None:
        """Puts the table into the page; and its sums, dated, into the summary of the real page."""
        _replace(page, BEGIN, END, self.table())
        if page == PAGE:
            sums = " ".join(self._sums())
            dated = textwrap.fill(f"{date.today()}: {sums}", 100, break_on_hyphens=False)
            _replace(SUMMARY, SUMS_BEGIN, SUMS_END, dated)


def _replace(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what is between two marks of a page."""
    head, _, rest = page.read_text("utf-8").partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", "utf-8")


def _order(mutant: Mutant) -> tuple[int, str]:
    digits = mutant.number.rstrip("abcdefghijklm")
    return int(digits), mutant.number


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _test(name: str) -> str:
    """From `tests/unit/test_a.py::test_b[c]` to `test_a.py::test_b`."""
    file, _, function = name.partition("::")
    return f"{Path(file).name}::{function.partition('[')[0]}"
