"""What users write, as mypy and pyright see it: each says that all of it is right.

`users` has it: a function for everything that is entered, with the body's result as its own. What
must be refused is in `users/refused.py`, where each line says so, and has to be right in that.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import aiolead

ROOT = Path(aiolead.__file__).parents[1]
USERS = Path(__file__).parent / "users"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_mypy() -> None:
    """Strict, and so with unused ignores."""
    done = _run(
        sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent",
        "--cache-dir=.mypy_cache/users", "--no-error-summary", str(USERS),
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_pyright() -> None:
    """Strict, and so with unused ignores; mypy's are not its own (`pyrightconfig.json`)."""
    done = _run(
        sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson",
        "--project", str(USERS.parent),
    )  # fmt: skip
    told = json.loads(done.stdout)
    found = [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in told["generalDiagnostics"]
    ]
    assert found == []
    assert told["summary"]["filesAnalyzed"] == len(list(USERS.glob("*.py")))
    assert done.returncode == 0


def test_no_block_swallows_what_its_body_raises() -> None:
    """Where a block may, what follows it may be reached: checkers then miss a return statement."""
    swallowing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "aiolead").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name in ("__exit__", "__aexit__")
        and not (isinstance(node.returns, ast.Constant) and node.returns.value is None)
    ]
    assert swallowing == []
