"""Which tests that see a planted bug `make test` runs: it selects, see `support.selection`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise

from _pytest.mark.expression import Expression

from .model import Mutant
from .plant import ROOT

LOOPS_AND_SERVERS = (
    "asyncio",
    "asyncio+uvloop",
    "asyncio+eager",
    "trio",
    "embedded",
    "standalone",
    "ensemble",
)

SIMULATED = (
    "tests/unit/session/",
    "tests/unit/client/",
    "tests/unit/recipes/",
    "tests/recipes/test_rare_moments.py",
    "tests/recipes/test_counts.py",
    "tests/client/test_client_virtual.py",
    "tests/recipes/locks/test_lock.py",
    "tests/simulation/test_found.py",
    "tests/simulation/test_crowd.py",
    "tests/simulation/test_schedules.py",
)
"""What sees bugs that name no tests, since the simulation finds them: the quick ones first."""

_ROTATED = {part for name in LOOPS_AND_SERVERS for part in (name, *name.split("+"))}
_NOT_ROTATED = re.compile(r"not (embedded|standalone|ensemble|uvloop)")


def function(node: str) -> str:
    """A test's node id without its parameters."""
    return node.partition("[")[0]


def is_named(node: str, arguments: tuple[str, ...]) -> bool:
    """Whether a test is among those that a planted bug names, on whatever loop and server."""
    files = [each for each in arguments if each.startswith("tests/")]
    words = [after for option, after in pairwise(arguments) if option == "-k"]
    if not any(node.startswith(function(each)) for each in files):
        return False
    return all(
        Expression.compile(_NOT_ROTATED.sub("asyncio", each)).evaluate(
            lambda word: word in _ROTATED or word.lower() in node.lower()
        )
        for each in words
    )


def selected() -> list[str]:
    """The node ids of what `make test` runs, in its order."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--promises", "--collect-only", "-q"),
            *("-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"pytest did not collect:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if line.startswith("tests/")]


def tests_of(mutant: Mutant, nodes: Iterable[str], witness: str) -> list[str]:
    """Those of some tests that should see a bug. `witness`, if there is one, comes first."""
    arguments = mutant.tests or SIMULATED
    files = [each for each in arguments if each.startswith("tests/")]

    def order(node: str) -> tuple[bool, int]:
        place = next(n for n, each in enumerate(files) if node.startswith(function(each)))
        return (not witness or function(node) != function(witness), place)

    return sorted((node for node in nodes if is_named(node, arguments)), key=order)
