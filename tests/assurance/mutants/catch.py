"""Hunts for a planted bug with the simulation and with tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .model import Mutant
from .plant import ROOT, environment, mutated, plant

SCENARIO = "tests/assurance/simulation/scenarios.py:contend"
"""The scenario of the simulation."""

SLOWEST_SEED = 30.0
"""Real seconds for one schedule, which takes milliseconds. A longer one counts as a hang."""

SLOWEST_TESTS = 300.0
"""Real seconds for the tests that see a mutant; they take a few."""

PYTEST = ("-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--promises")
"""The tests are run as `make test` runs them: each on one event loop and one kind of server."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """The result of a search.

    Attributes:
        caught: the names of invariants, a crash or a test; empty if nothing caught it.
        seeds: how many seeds were tried; 0 for tests.
        seconds: how long it took.
        text: the problem, in one line.
        replay: the command that does it again, in a planted copy.
    """

    caught: tuple[str, ...]
    seeds: int
    seconds: float
    text: str = ""
    replay: str = ""


@contextmanager
def planted(files: Mapping[str, str]) -> Iterator[Path]:
    """A copy of the project with other texts for some files of the package."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        tree = Path(name)
        plant(files, tree)
        yield tree


def hunt(
    mutant: Mutant,
    backend: str,
    seeds: int,
    *,
    first: int = 0,
    minutes: float = 15.0,
    is_planted: bool = True,
) -> Hunt:
    """Runs schedules until one finds something.

    Args:
        mutant: the bug.
        backend: the event loop.
        seeds: how many seeds at most.
        first: the first one.
        minutes: how long at most.
        is_planted: whether the bug is there; otherwise the same is tried on the code as it is.
    """
    command = [sys.executable, "-m", "tests.assurance.mutants.hunt", "--backend", backend]
    command += ["--seeds", str(seeds), "--first", str(first), "--minutes", str(minutes)]
    command += ["--name", mutant.name]
    files = mutated(mutant) if is_planted else {}
    with planted(files) as tree, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [*command, SCENARIO],
            cwd=tree,
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        with child:
            try:
                lines = list(_watched(child))
            finally:
                child.kill()
        errors.seek(0)
        return verdict(lines, errors.read().strip())


def hunt_truly(
    mutant: Mutant, backend: str, seeds: int, *, first: int = 0, minutes: float = 15.0
) -> Hunt:
    """As `hunt`, but what is also wrong without the bug does not count."""
    tried, seconds = 0, 0.0
    while True:
        found = hunt(mutant, backend, seeds - tried, first=first + tried, minutes=minutes)
        tried, seconds = tried + found.seeds, seconds + found.seconds
        found = replace(found, seeds=tried, seconds=seconds)
        if not found.caught:
            return found
        last = first + tried - 1
        control = hunt(mutant, backend, 1, first=last, minutes=minutes, is_planted=False)
        if not control.caught:
            return found
        if tried >= seeds:
            return Hunt((), tried, seconds)


def _watched(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """The lines of the child, which is killed when it prints nothing for too long."""
    assert child.stdout is not None
    overdue = threading.Timer(2 * SLOWEST_SEED, child.kill)
    overdue.start()
    for line in child.stdout:
        overdue.cancel()
        overdue = threading.Timer(SLOWEST_SEED, child.kill)
        overdue.start()
        if line.startswith("{"):
            yield json.loads(line)
    overdue.cancel()


def verdict(lines: list[dict[str, Any]], errors: str) -> Hunt:
    """The result of a search.

    Args:
        lines: the messages of the child.
        errors: its output on standard error.

    Raises:
        RuntimeError: it died before it had begun.
    """
    last = lines[-1] if lines else {}
    if not last:
        raise RuntimeError(f"nothing was run:\n{errors}")
    count = (last["seeds"], last["seconds"])
    if "found" in last:
        return Hunt(tuple(last["found"]), *count, last["text"], last["replay"])
    # It began a schedule and never ended it.
    what = "crash" if errors else "hang"
    text = errors.splitlines()[-1] if errors else f"no end within {SLOWEST_SEED:g} s"
    return Hunt((what,), *count, f"seed {last['began']}: {text}")


def run_tests(
    files: Mapping[str, str], tests: Sequence[str], *, seconds: float = SLOWEST_TESTS
) -> Hunt:
    """Run tests up to the first that fails, in a copy with other texts for some files.

    Raises:
        RuntimeError: pytest did not run.
    """
    where = [located(each) for each in tests]
    start = time.monotonic()
    with planted(files) as tree:
        done = _run([sys.executable, *PYTEST, *where], tree, seconds)
    took = time.monotonic() - start
    if done is None:
        return Hunt((OVERDUE,), 0, took, f"no end within {seconds:g} s")
    code, output = done
    if code in (0, NO_TESTS):
        return Hunt((), 0, took, "" if code == 0 else "make test selects none of its tests")
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR tests/"))]
    if failed:
        name = failed[0].partition(" ")[2].partition(" - ")[0]  # a name may have spaces
        return Hunt((name,), 0, took, failed[0])
    if code == 1 and "+ Timeout +" in output:
        return Hunt(("hang",), 0, took, "pytest-timeout has ended the process")
    if code in (1, USAGE_ERROR):
        raise RuntimeError(f"pytest did not run:\n{output}")
    return Hunt(("crash",), 0, took, f"pytest ended with {code}")


OVERDUE = "overdue"
"""Instead of a test: the run took too long. It hangs, or the machine is slow."""

NO_TESTS = 5
USAGE_ERROR = 4


def _run(command: Sequence[str], tree: Path, seconds: float) -> tuple[int, str] | None:
    """The exit code and the output of a command; None if it hangs. Its children end with it."""
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return child.returncode, output


def located(path: str) -> str:
    """A file or folder with tests; where it has moved to, if one alone has that name now."""
    if (ROOT / path).exists():
        return path
    found = sorted((ROOT / "tests").rglob(Path(path).name))
    return found[0].relative_to(ROOT).as_posix() if len(found) == 1 else path
