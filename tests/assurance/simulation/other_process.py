"""Runs code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def output_of(code: str, *, hash_seed: int = 0) -> str:
    """Runs a program, and returns its output.

    Args:
        code: the program. It can import the package and the tests.
        hash_seed: of the hashes of strings.
    """
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
