"""No regular expression of the package takes more than linear time, whatever it is given."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from support.checks import check_each
from support.parsing_calls import ROOT
from support.regex_steps import worst_growth

from aiolead import _contender_names as kinds
from aiolead._recipes.contention.layouts import LAYOUTS

pytestmark = pytest.mark.exhaustive(
    "tries each regular expression on long texts; test_parsers.py parses the worst data here"
)

LINEAR = 2.6
"""Twice the text takes twice the steps, and a few more; quadratic would be four times."""

BOUNDED = {
    "cli.doctor.queue_checks:_GUID": "it looks at 36 characters at most, from each one on",
    "paths:_SCHEME_END": "it is given 31 characters at most",
}
"""Those that are not linear, and why that does not matter."""

Case = tuple[re.Pattern[Any], bool, bool]


def expressions() -> Iterator[tuple[str, Case]]:
    """All of them: the expression, whether it is anchored, and whether all of a text has to fit."""
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        source = file.read_text("utf-8")
        if parts[0] == "testing" or "re." not in source:
            continue
        tree = ast.parse(source)
        name = ".".join(parts).removesuffix(".__init__")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_inline(node):
                text = ast.literal_eval(node.args[0])
                yield f"{name}:{node.lineno}", (re.compile(text), False, False)
        for target in _compiled(tree):
            found = getattr(importlib.import_module(f"aiolead.{name}"), target)
            pattern = found if isinstance(found, re.Pattern) else found.__self__
            used = _used(source, target)
            anchored = used <= {"match", "fullmatch"}
            yield f"{name}:{target}", (pattern, anchored, used == {"fullmatch"})
    for kind, pattern in kinds._matchers():
        yield f"_contender_names:{kind.name}", (pattern, True, True)
    for layout in LAYOUTS:
        for role, form in layout._forms.items():
            yield (
                f"_recipes.contention.layouts:{layout!r} {role.name} ours",
                (form.ours, True, True),
            )
            yield (
                f"_recipes.contention.layouts:{layout!r} {role.name} theirs",
                (form.theirs, True, True),
            )


def _is_inline(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in {"split", "sub", "match", "fullmatch", "search", "findall", "finditer"}
    )


def _compiled(tree: ast.Module) -> Iterator[str]:
    """`NAME = re.compile(...)`, or `NAME = re.compile(...).fullmatch`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and "re.compile(" in ast.unparse(node.value):
            value = node.value
            if isinstance(value, ast.Attribute):
                value = value.value
            target = node.targets[0]
            is_one = isinstance(value, ast.Call) and ast.unparse(value.func) == "re.compile"
            if is_one and isinstance(target, ast.Name):
                yield target.id


def _used(source: str, name: str) -> set[str]:
    """What is done with an expression: the methods that are called on its name."""
    method = re.search(rf"^{name} = re\.compile\(.*\)\.(\w+)$", source, re.MULTILINE)
    return {method[1]} if method else set(re.findall(rf"\b{name}\.(\w+)", source))


@cache
def _all() -> dict[str, Case]:
    return dict(expressions())


@pytest.mark.timeout(180)
@check_each("name", lambda: sorted(_all().keys() - BOUNDED.keys()))
def test_its_steps_grow_as_the_text_does(name: str) -> None:
    pattern, anchored, whole = _all()[name]
    growth, text = worst_growth(pattern, anchored=anchored, whole=whole)
    assert growth <= LINEAR, f"{pattern.pattern!r}: {text!r}"


def test_none_is_excepted_that_is_gone() -> None:
    assert BOUNDED.keys() <= _all().keys()


@pytest.mark.parametrize(
    ("text", "anchored"),
    [
        (r"[A-Za-z][A-Za-z0-9+.-]*://", False),
        (r"^ /(\S+?)\[[0-9a-f]+\]\(.*?\bsid=0x([0-9a-f]{1,16}),", False),
        (r"^\s*0x([0-9a-f]{1,16})\b", False),
        (r"(a+)+b", True),
        (r"(a|a)*b", True),
        (r".*,.*,.*;", True),
        (r"\s+$", False),
    ],
)
def test_the_check_bites(text: str, anchored: bool) -> None:
    growth, _ = worst_growth(re.compile(text, re.MULTILINE), anchored=anchored, whole=False)
    assert growth > LINEAR


def test_the_number_of_expressions_that_were_found() -> None:
    assert len(_all()) > 50
