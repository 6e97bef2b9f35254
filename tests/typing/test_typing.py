"""The code of users, as mypy and pyright see it.

`inferred.txt` is the table: lines of users, and the types of what they give. `users` has what does
not fit into it, and in `users/refused.py` what must be refused: each line there says so, and has to
be right in that.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiolead

ROOT = Path(aiolead.__file__).parents[1]
HERE = Path(__file__).parent
USERS = HERE / "users"
TABLE = HERE / "inferred.txt"

HEAD = """from collections.abc import Mapping
from typing import assert_type

import aiolead
"""


def _entries(text: str) -> Iterator[tuple[bool, list[str], list[tuple[str, str]]]]:
    """Whether an entry is for threads, its lines, and its expressions with their types."""
    is_blocking = False
    for block in re.split(r"\n\s*\n", text):
        is_blocking = is_blocking or block == "# threads"
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        rows = [line.strip() for line in lines if line.startswith(" ")]
        code = [line for line in lines if not line.startswith(" ")]
        if code:
            assert rows, f"no types: {code}"
            pairs = [re.split(r"\s{2,}", row) for row in rows]
            yield is_blocking, code, [(expression, type_) for expression, type_ in pairs]


def _function(number: int, is_blocking: bool, code: list[str], pairs: list[tuple[str, str]]) -> str:
    client = "aiolead.blocking.Client" if is_blocking else "aiolead.Client"
    indent, lines = "    ", []
    for line in code:
        lines.append(indent + line)
        indent += "    " if line.endswith(":") else ""
    lines += [f"{indent}assert_type({expression}, {type_})" for expression, type_ in pairs]
    lines.append(f"{indent}return {pairs[0][0]}")
    if any(line.startswith(("async for ", "for ")) for line in code):
        lines.append("    raise AssertionError")
    takes = "" if "connect(" in code[0] else f"client: {client}"
    define = "def" if is_blocking else "async def"
    return "\n".join([f"{define} line_{number}({takes}) -> {pairs[0][1]}:", *lines])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as a module."""
    entries = list(_entries(TABLE.read_text()))
    assert len(entries) >= 30
    functions = [_function(number, *entry) for number, entry in enumerate(entries)]
    path = tmp_path_factory.mktemp("typing") / "inferred.py"
    path.write_text("\n\n\n".join([HEAD, *functions]) + "\n")
    return path


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_mypy(table: Path) -> None:
    """Strict, and so with unused ignores."""
    done = _run(
        sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent",
        "--cache-dir=.mypy_cache/users", "--no-error-summary", "--show-absolute-path",
        str(USERS), str(table),
    )  # fmt: skip
    assert (_with_lines(done.stdout), done.stderr, done.returncode) == ([], "", 0)


def _with_lines(said: str) -> list[str]:
    """The messages of mypy, with their lines."""
    found = []
    for message in said.splitlines():
        path, line, rest = message.split(":", 2)
        found.append(f"{Path(path).read_text().splitlines()[int(line) - 1].strip()}: {rest}")
    return found


def test_pyright(table: Path) -> None:
    """Strict, and so with unused ignores; mypy's are not its own (`pyrightconfig.json`)."""
    config = json.loads((HERE / "pyrightconfig.json").read_text())
    # Pyright takes no files from elsewhere than below its project.
    project = table.parent / "pyrightconfig.json"
    project.write_text(json.dumps(config | {"include": ["."], "extraPaths": [str(ROOT)]}))
    for file in USERS.glob("*.py"):
        shutil.copy(file, table.parent)
    done = _run(
        sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson",
        "--project", str(project),
    )  # fmt: skip
    told = json.loads(done.stdout)
    found = []
    for one in told["generalDiagnostics"]:
        file, line = Path(one["file"]), one["range"]["start"]["line"]
        found.append(f"{file.read_text().splitlines()[line].strip()}: {one['message']}")
    assert found == []
    assert told["summary"]["filesAnalyzed"] == len(list(USERS.glob("*.py"))) + 1
    assert done.returncode == 0


def test_no_context_manager_swallows_exceptions() -> None:
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
