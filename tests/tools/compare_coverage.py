"""How much of each package tests have reached, in lines and branches, beside an earlier run.

    python tests/tools/compare_coverage.py build/coverage.json [BEFORE.json]

Fails if a package outside the command has lost more than one point since BEFORE.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

MOST = 1.0
"""Points that a package may lose."""


def reached(file: str) -> dict[str, float]:
    """The share of lines and branches that ran, in percent, by package."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, found in json.loads(Path(file).read_text("utf-8"))["files"].items():
        parts = Path(name).parts
        parts = parts[parts.index("aiolead") + 1 :]
        package = parts[0] if len(parts) > 1 else "the top"
        summary = found["summary"]
        for key in (package, "all but the command"):
            if key == package or package != "cli":
                counts[key][0] += summary["covered_lines"] + summary["covered_branches"]
                counts[key][1] += summary["num_statements"] + summary["num_branches"]
    return {key: 100 * covered / total for key, (covered, total) in counts.items() if total}


def main() -> int:
    now = reached(sys.argv[1])
    before = reached(sys.argv[2]) if len(sys.argv) > 2 else {}
    lost = []
    for package, share in sorted(now.items()):
        earlier = before.get(package)
        told = "" if earlier is None else f"  {share - earlier:+5.1f}"
        sys.stdout.write(f"{package:20} {share:5.1f} %{told}\n")
        if earlier is not None and package != "cli" and share < earlier - MOST:
            lost.append(package)
    if lost:
        sys.stdout.write(f"lost more than {MOST:g} point: {', '.join(lost)}\n")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
