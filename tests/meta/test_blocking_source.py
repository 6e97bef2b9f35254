"""`aiolead.blocking` has all of aiolead, and its source is what the tool writes."""

from __future__ import annotations

import ast
import inspect
import pickle
from typing import Any

import pytest
from kit.checks import check_each
from tools import write_blocking as tool

import aiolead.admin
from aiolead import blocking

PUBLIC = tool.public_classes()


def _parts(source: str) -> dict[str, str]:
    """The parts of a module by name, whatever the version of the formatter."""
    named: dict[str, str] = {}
    for part in ast.parse(source).body:
        name = getattr(part, "name", "everything outside of classes")
        named[name] = named.get(name, "") + ast.unparse(part)
    return named


def test_source_is_current() -> None:
    committed, current = _parts(tool.TARGET.read_text("utf-8")), _parts(tool.generated())
    stale = [name for name in committed | current if committed.get(name) != current.get(name)]
    assert not stale, "run `python -m tests.tools.write_blocking`"


@check_each("name", sorted(name for name in PUBLIC if tool.is_async(PUBLIC[name])))
def test_every_async_class_has_a_blocking_one(name: str) -> None:
    assert hasattr(blocking, name) != (name in tool.ELSEWHERE) or name == "Connection"


def test_tables_name_existing_attributes() -> None:
    names = tool.SOURCES.keys()
    assert PUBLIC.keys() >= tool.ELSEWHERE.keys() | tool.SYNC.keys() | tool.NOT_HERE.keys()
    assert names >= tool.BY_HAND.keys()
    assert names.isdisjoint(tool.ELSEWHERE)
    assert not any(tool.is_async(PUBLIC[name]) for name in tool.SYNC)
    for name, attributes in tool.NOT_HERE.items():
        assert attributes.keys() <= set(dir(PUBLIC[name]))
        for each in names:
            if issubclass(PUBLIC[each], PUBLIC[name]):
                assert attributes.keys().isdisjoint(dir(getattr(blocking, each))), each
    members = {attribute for name in names for attribute in dir(PUBLIC[name])}
    assert members >= tool.ASKED.keys() | tool.OF_TASK.keys() | tool.AT_ONCE.keys()


def test_calls_of_operators_have_the_same_arguments() -> None:
    """The functions of `aiolead.admin`, without one-shot watches, which are for recipes."""
    assert blocking.admin.__all__ == aiolead.admin.__all__
    assert "admin" in dir(blocking)
    for name in aiolead.admin.__all__:
        signature = inspect.signature(getattr(aiolead.admin, name))
        parameters = [each for each in signature.parameters.values() if each.name != "watch"]
        there = inspect.signature(getattr(blocking.admin, name))
        assert signature.replace(parameters=parameters) == there, name


@check_each("name", sorted(tool.SOURCES))
def test_class_is_found_by_tools(name: str) -> None:
    """By `pickle`, and by what shows the source to a user."""
    cls: Any = getattr(blocking, name)
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert f"\nclass {name}(" in f"\n{inspect.getsource(cls).removeprefix('@final').lstrip()}"


@pytest.mark.parametrize("name", ["Lok", "_mirror"])
def test_unknown_name(name: str) -> None:
    assert not hasattr(blocking, name)
