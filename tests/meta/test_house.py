"""Rules for the code of the library that no linter checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit.checks import check_each

import aiolead

ROOT = Path(aiolead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

_SHIELD = re.compile(r"CancelScope\((?![^)]*deadline)[^)]*shield\s*=\s*True|\.shield\s*=\s*True")


def _unsafe_starts(code: str) -> list[int]:
    """Lines that start a Python that would import modules from the current directory."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.List | ast.Tuple)
        and "sys.executable" in map(ast.unparse, node.elts)
        if not {"'-I'", "'-P'"} & set(map(ast.unparse, node.elts))
    ]


def _awaits_while_pipelined(code: str) -> list[int]:
    """Lines that await in the body of a recipe's `pipelined`, which holds all requests back."""
    return [
        inner.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.With)
        and any("pipelined" in ast.unparse(item) for item in node.items)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield)
    ]


@dataclass(frozen=True)
class Rule:
    """A rule: what breaks it, what to do, the files that break it once, and examples."""

    found: Callable[[str], list[object]]
    advice: str
    exceptions: tuple[str, ...]
    bad: tuple[str, ...]
    good: tuple[str, ...]

    def __str__(self) -> str:
        return self.advice


RULES = (
    Rule(
        lambda code: code.splitlines()[800:801],
        "a file has 800 lines at most",
        ("blocking/__init__.py",),  # a program writes it
        ("\n" * 801,),
        ("\n" * 800,),
    ),
    Rule(
        _SHIELD.findall,
        "bound each shield: use move_on_after(seconds, shield=True)",
        # The client's tasks outlive a cancelled scope around the client, as waits for a thread do.
        # `_client.fast` has a timer beside the shield, which may be the scope of the user.
        ("_util/shielding.py", "blocking/_thread_task.py", "_client/fast/waiting.py"),
        ("CancelScope(shield=True)", "anyio.CancelScope( shield = True )", "scope.shield = True"),
        ("CancelScope(deadline=now + 1, shield=True)", "move_on_after(1, shield=True)"),
    ),
    Rule(
        _awaits_while_pipelined,
        "await after the body of `pipelined`: until then nothing is sent, renewals included",
        (),
        ("async def f():\n    with client.pipelined():\n        await client.get(path)",),
        ("async def f():\n    with client.pipelined():\n        a = get(a)\n    await a",),
    ),
    Rule(
        _unsafe_starts,
        "pass -P or -I to Python, so that it ignores the current directory",
        (),
        ('run([sys.executable, "-m", "x"])',),
        ('run([sys.executable, "-P", "-m", "x"])',),
    ),
)


@check_each("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_file_keeps_the_rules(file: Path) -> None:
    code = file.read_text("utf-8")
    for rule in RULES:
        allowed = int(file.relative_to(ROOT).as_posix() in rule.exceptions)
        assert len(rule.found(code)) == allowed, rule.advice


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule_finds_its_examples(rule: Rule) -> None:
    assert all(rule.found(code) for code in rule.bad)
    assert not any(rule.found(code) for code in rule.good)
