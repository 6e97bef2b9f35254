"""The examples in docstrings are valid Python, and the names in them exist.

They wait for other clients or run forever, so they are not run. Each name is looked up.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from kit.checks import check_each
from kit.every_recipe import RECIPES

import aiolead
import aiolead.blocking
import aiolead.testing

MODULES = ("aiolead", "aiolead.blocking", "aiolead.testing")
OF_TOP_LEVEL = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
NAMED_ALIKE: tuple[type, ...] = (
    *(getattr(aiolead, name) for name in RECIPES),
    *(aiolead.Client, aiolead.testing.Ensemble, aiolead.types.Picker, aiolead.Term),
)
KINDS: dict[str, type] = {cls.__name__.lower(): cls for cls in NAMED_ALIKE} | {
    "board": aiolead.TaskBoard,
    "cache": aiolead.TreeCache,
    "instance": aiolead.ServiceInstance,
    "limit": aiolead.SharedValue,
    "multi": aiolead.MultiLock,
    "names": aiolead.UniqueNames,
    "node": aiolead.PersistentNode,
    "orders": aiolead.SequenceAllocator,
    "proxy": aiolead.testing.FaultProxy,
    "registry": aiolead.ServiceRegistry,
    "server": aiolead.testing.EmbeddedServer,
}
"""The classes of variables in examples, if `OWN` does not say otherwise."""
OWN = {
    aiolead.Client: {"names": list, "created": aiolead.types.PendingReply},
    aiolead.RateLimit: {"limit": aiolead.RateLimit},
    aiolead.blocking.RateLimit: {"limit": aiolead.blocking.RateLimit},
    aiolead.ReadWriteLock: {"lock": aiolead.ReadWriteLock, "held": aiolead.types.WriteHeld},
    aiolead.ReentrantLock: {"lock": aiolead.ReentrantLock},
    aiolead.ExclusiveLock: {"lock": aiolead.ExclusiveLock},
    aiolead.TreeCache: {"node": object},
    aiolead.blocking.Lock: {"lock": aiolead.blocking.Lock},
    aiolead.blocking.ReadWriteLock: {
        "lock": aiolead.blocking.ReadWriteLock,
        "held": aiolead.blocking.WriteHeld,
    },
    aiolead.blocking.Semaphore: {"semaphore": aiolead.blocking.Semaphore},
    aiolead.blocking.Election: {
        "election": aiolead.blocking.Election,
        "term": aiolead.blocking.Term,
    },
    aiolead.testing.ZooKeeperServer: {"server": aiolead.testing.ZooKeeperServer},
}


def fragments(docstring: str) -> Iterator[str]:
    """The indented blocks after a blank line, outside of sections."""
    block: list[str] | None = None
    in_section, before = False, ""
    for line in [*inspect.cleandoc(docstring).splitlines(), "."]:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            if block:
                yield textwrap.dedent("\n".join(block)).strip("\n")
            block = None
            in_section = bool(re.match(r"(Args|Attributes|Raises|Returns)( \(.+\))?:$", line))
        elif line.strip() and indent >= 4 and block is None and not in_section:
            block = [] if not before.strip() else None
        if block is not None:
            block.append(line)
        before = line


def public() -> Iterator[tuple[str, type | None, str]]:
    """The fragments of public classes, methods and functions: the place, the class, the code."""
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            if not callable(found) or not (found.__module__ or "").startswith("aiolead"):
                continue
            owner = found if isinstance(found, type) else None
            members = [("", found), *(vars(owner).items() if owner else ())]
            for member, each in members:
                if member.startswith("_"):
                    continue
                docstring = getattr(each, "__func__", each).__doc__ or ""
                for number, fragment in enumerate(fragments(docstring)):
                    yield f"{module}.{name}.{member}[{number}]", owner, fragment


@cache
def examples() -> list[tuple[str, type | None, str]]:
    return list(public())


def kind_of(name: str, owner: type | None) -> type | None:
    """The class of a variable, if it is known."""
    own = OWN.get(owner, {}) if owner else {}
    kind = own.get(name, KINDS.get(name))
    if kind and owner and owner.__module__ == "aiolead.blocking":
        return getattr(aiolead.blocking, kind.__name__, kind)
    return kind


def called(node: ast.expr, owner: type | None) -> Any:
    """The function or class that is called, if it is known."""
    match node:
        case ast.Attribute(value=ast.Name(id="aiolead"), attr=name):
            return getattr(aiolead, name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            kind = kind_of(name, owner)
            return getattr(kind, attribute, None) if kind else None
        case ast.Name(id=name):
            places = (aiolead, aiolead.types, aiolead.errors, aiolead.model, aiolead.testing)
            return next((getattr(each, name) for each in places if hasattr(each, name)), None)
    return None


@cache
def names(kind: type) -> set[str]:
    """The attributes of an instance: those of its class, and those that its methods assign."""
    found = set(dir(kind))
    for each in kind.__mro__:
        found.update(getattr(each, "__annotations__", ()), getattr(each, "__slots__", ()))
        if each.__module__.startswith("aiolead"):
            for method in filter(inspect.isfunction, vars(each).values()):
                source = inspect.getsource(method)
                found.update(re.findall(r"\bself\.(\w+)(?::.*?)? = ", source))
    return found


def check(fragment: str, owner: type | None) -> int:
    """Looks up every name that it can; returns their number."""
    looked_up = 0
    for node in ast.walk(compile(fragment, "a docstring", "exec", OF_TOP_LEVEL)):
        match node:
            case ast.Attribute(value=ast.Name(id="aiolead"), attr=attribute):
                assert hasattr(aiolead, attribute), attribute
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if kind := kind_of(
                name, owner
            ):
                assert kind is object or attribute in names(kind), f"{kind.__name__}.{attribute}"
            case ast.Call(func=function, keywords=[_, *_] as keywords):
                if (found := called(function, owner)) is None:
                    continue
                known = inspect.signature(found).parameters
                for keyword in keywords:
                    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
                    assert takes_any or keyword.arg in known, f"{found}: {keyword.arg}"
            case _:
                continue
        looked_up += 1
    return looked_up


@check_each("where, owner, fragment", examples)
def test_names_in_an_example_exist(where: str, owner: type | None, fragment: str) -> None:
    check(fragment, owner)


def test_misspelled_names_are_found() -> None:
    assert len(examples()) > 30
    assert sum(check(fragment, owner) for _, owner, fragment in examples()) > 60
    for wrong in (
        "async with lock.acquire(wiat=5): ...",
        "await client.gett('/a')",
        "aiolead.Lokc(client, '/a')",
        "async with aiolead.connect('a', on_evnt=None) as client: ...",
    ):
        with pytest.raises((AssertionError, AttributeError)):
            check(wrong, None)
    with pytest.raises(SyntaxError):
        check("async with lock as held", None)


def test_help_on_an_election_names_the_attributes_of_a_term() -> None:
    shown = pydoc.plain(pydoc.render_doc(aiolead.Election))
    has = [name for name in dir(aiolead.Term) if not name.startswith("_")]
    assert [name for name in has if f"`{name}" not in shown] == []
