"""The safety margins that tests measured, for the end of the report."""

from __future__ import annotations

from statistics import median
from typing import Any

MARGIN = "safety margin: "
"""What the names of recorded properties with a margin in seconds begin with."""


def report_margins(terminalreporter: Any) -> None:
    """Prints them, from the properties that tests have recorded."""
    margins: dict[str, list[float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith(MARGIN) and getattr(report, "when", "") == "call":
                    margins.setdefault(name.removeprefix(MARGIN), []).append(value)
    if margins:
        terminalreporter.section("safety margins")
        width = max(map(len, margins))
        for name, values in sorted(margins.items()):
            terminalreporter.line(
                f"{name:{width}}  n={len(values):<3}  min {min(values):+.3f} s"
                f"  median {median(values):+.3f} s  max {max(values):+.3f} s"
            )
