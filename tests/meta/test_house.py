"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from kit.checks import check_each

import aiolead

ROOT = Path(aiolead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 800
GETS_LOGGERS = (ROOT / "_escaping.py",)
ATTACHES_HANDLERS = (ROOT / "testing" / "simulation" / "run.py",)  # and logs nothing
BOUNDS_BY_TIMER = (ROOT / "_tasks.py",)  # beside the shield, which may be the user's own scope's
OUTLIVE_SCOPES = (ROOT / "_shielding.py", ROOT / "blocking" / "_thread_task.py")


@check_each("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_holds_one_idea(file: Path) -> None:
    assert len(file.read_text("utf-8").splitlines()) <= MOST_LINES


_SHIELD = re.compile(r"CancelScope\((?![^)]*deadline)[^)]*shield\s*=\s*True|\.shield\s*=\s*True")


@check_each("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_shield_is_without_a_bound(file: Path) -> None:
    found = _SHIELD.findall(file.read_text("utf-8"))
    # The client's own tasks have to outlive a cancelled scope around the client: what ends them is
    # the client's exit, all of whose waits are bounded. It ends what waits for a thread, too.
    allowed = 1 if file in OUTLIVE_SCOPES + BOUNDS_BY_TIMER else 0
    assert len(found) == allowed, f"{found}: no deadline; use move_on_after(seconds, shield=True)"


@pytest.mark.parametrize(
    ("code", "is_bad"),
    [
        ("CancelScope(shield=True)", True),
        ("anyio.CancelScope( shield = True )", True),
        ("scope.shield = True", True),
        ("CancelScope(deadline=now + 1, shield=True)", False),
        ("move_on_after(1, shield=True)", False),
    ],
)
def test_the_rule_about_shields_bites(code: str, is_bad: bool) -> None:
    assert bool(_SHIELD.search(code)) == is_bad


_LOGGER = re.compile(r"\bgetLogger\b|\bLoggerAdapter\b|\blogging\.Logger\(|\blogging\.root\b")
_LOG_CALL = re.compile(r"\blogging\.(?:debug|info|warning|error|exception|critical|log)\(")


@check_each("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_loggers_are_those_that_escape(file: Path) -> None:
    text = file.read_text("utf-8")
    assert not _LOG_CALL.search(text), "use a logger of aiolead._escaping.get_logger"
    if file not in (*GETS_LOGGERS, *ATTACHES_HANDLERS):
        assert not _LOGGER.search(text), "use aiolead._escaping.get_logger"


@pytest.mark.parametrize(
    "code",
    [
        'logger = logging.getLogger("aiolead")',
        "from logging import getLogger",
        "logging.LoggerAdapter(logger)",
        'logging.warning("%s", path)',
    ],
)
def test_the_rule_about_loggers_bites(code: str) -> None:
    assert _LOGGER.search(code) or _LOG_CALL.search(code)


def _unsafe_starts(code: str) -> list[int]:
    """Lines that start a Python that would import modules from the current directory."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.List | ast.Tuple)
        and "sys.executable" in map(ast.unparse, node.elts)
        if not {"'-I'", "'-P'"} & set(map(ast.unparse, node.elts))
    ]


@check_each("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_python_that_is_started_ignores_the_current_directory(file: Path) -> None:
    assert _unsafe_starts(file.read_text("utf-8")) == [], "pass -P, or -I"


def test_the_rule_about_the_current_directory_bites() -> None:
    assert _unsafe_starts('run([sys.executable, "-m", "x"])') == [1]
    assert _unsafe_starts('run([sys.executable, "-P", "-m", "x"])') == []
